//! What every stage of a check is given.

use std::time::Instant;

use shale_host::{Progress, thread_count, threads};

use super::findings::Findings;
use super::options::CheckOptions;
use super::report::Checked;
use super::store::Store;
use crate::error::Error;

/// What every stage is given.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) store: &'a Store,
    pub(super) findings: &'a Findings,
    pub(super) progress: &'a dyn Progress,
    pub(super) options: &'a CheckOptions,
    /// When the time is up.
    pub(super) deadline: Option<Instant>,
}

impl Context<'_> {
    pub(super) fn check_cancel(&self) -> Result<(), Error> {
        Ok(self.options.cancel.check()?)
    }

    /// True if no optional work should start any more.
    pub(super) fn is_over(&self) -> bool {
        self.options.cancel.is_cancelled()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Runs two stages, in parallel if more than one thread may work. The order of problems does not
/// depend on the number of threads: those of the second stage follow those of the first.
pub(super) fn beside<A, B: Send>(
    context: &Context<'_>,
    checked: &mut Checked,
    first: impl FnOnce(&Context<'_>, &mut Checked) -> Result<A, Error>,
    second: impl FnOnce(&Context<'_>, &mut Checked) -> Result<B, Error> + Send,
) -> Result<(A, B), Error> {
    if thread_count(context.options.threads) < 2 {
        return Ok((first(context, checked)?, second(context, checked)?));
    }
    let findings = Findings::default();
    let aside = Context { findings: &findings, ..*context };
    let mut checked_aside = Checked::default();
    let (first, second) =
        threads::both(|| first(context, checked), || second(&aside, &mut checked_aside));
    context.findings.append(findings);
    // Stages on tables count nothing else.
    checked.rows += checked_aside.rows;
    Ok((first?, second?))
}
