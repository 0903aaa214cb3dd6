//! Decides how many threads work, starts them, and says how much processor time one has used.
//!
//! The system may refuse to start a thread, because the processes of a user or container are
//! limited. The work is then done by the threads that could be started; the calling thread is
//! always one of them.

use std::io;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle, available_parallelism, scope};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Most threads that one piece of work uses.
pub const THREADS_MAX: usize = 1024;

/// Returns `asked`, or one thread per processor if that is 0; at most [`THREADS_MAX`].
pub fn thread_count(asked: usize) -> usize {
    let count = match asked {
        0 => available_parallelism().map_or(1, NonZero::get),
        asked => asked,
    };
    count.min(THREADS_MAX)
}

/// Returns the processor time that the calling thread has used.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is negative, and a second has fewer nanoseconds.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Returns the processor time that all threads of this process have used.
pub fn process_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Runs `work` in `count` threads, including this one, and returns all results. If the system
/// refuses some threads, fewer do the work.
pub fn run<T: Send>(count: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    scope(|scope| {
        let others = start(scope, count.saturating_sub(1), || &work);
        let own = work();
        let others = others.into_iter().map(join);
        std::iter::once(own).chain(others).collect()
    })
}

/// Starts `count` threads, or as many as the system allows, each with a closure from `work`.
pub fn start<'scope, T: Send + 'scope, F: FnOnce() -> T + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    mut work: impl FnMut() -> F,
) -> Vec<ScopedJoinHandle<'scope, T>> {
    (0..count).map_while(|_| start_one(scope, work()).ok()).collect()
}

/// Starts a thread.
///
/// # Errors
/// The system refuses.
pub fn start_one<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work)
}

/// Returns the result of a thread, or continues its panic.
pub fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs both closures in parallel, or one after the other if no thread can be started.
pub fn both<A, B: Send>(first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
    let second = Mutex::new(Some(second));
    let take = || {
        let second = second.lock().unwrap_or_else(PoisonError::into_inner).take();
        second.map(|second| second())
    };
    let (first, second) = scope(|scope| {
        let other = start_one(scope, take);
        let first = first();
        (first, other.map_or_else(|_| take(), join))
    });
    match second {
        Some(second) => (first, second),
        None => unreachable!("it is taken once"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_gives_its_result_and_two_things_are_done_once() {
        for count in [0, 1, 5] {
            assert_eq!(run(count, || 7).len(), count.max(1));
        }
        assert_eq!(both(|| 1, || 2), (1, 2));
        let before = cpu_time();
        assert!(run(2, cpu_time).iter().all(|time| !time.is_zero()) && before <= cpu_time());
        assert!(cpu_time() <= process_cpu_time());
        assert_eq!((thread_count(3), thread_count(usize::MAX)), (3, THREADS_MAX));
    }
}
