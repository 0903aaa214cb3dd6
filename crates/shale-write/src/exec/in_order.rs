//! Results of many tasks, in the order of these, while few of them are on their way.

use std::collections::VecDeque;

use crate::exec::build::Build;
use crate::exec::pool::Ticket;
use crate::plan::error::WriteError;

/// Tasks in progress for each thread.
const TASKS_PER_THREAD: usize = 2;

/// Calls `take` with the result of each of `tasks`, in their order; with the default for `None`.
/// The iterator submits a task when it is asked for it.
///
/// # Errors
/// The build was cancelled.
pub(crate) fn in_order<'env, T: Default>(
    build: &Build<'env>,
    tasks: impl IntoIterator<Item = Option<Ticket<T>>>,
    mut take: impl FnMut(T),
) -> Result<(), WriteError> {
    let in_progress_max = build.plan().threads * TASKS_PER_THREAD;
    let mut in_progress = VecDeque::new();
    let mut take = |task: Option<Ticket<T>>| {
        take(task.map(|task| build.wait(&task)).unwrap_or_default());
    };
    for task in tasks {
        build.check_cancel()?;
        in_progress.push_back(task);
        if in_progress.len() > in_progress_max
            && let Some(oldest) = in_progress.pop_front()
        {
            take(oldest);
        }
    }
    in_progress.into_iter().for_each(take);
    Ok(())
}
