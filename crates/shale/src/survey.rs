//! Tells what a build would pack, without packing anything.

use std::sync::{Arc, PoisonError};

use shale_host::Progress;

use crate::error::Error;
use crate::input::choose::{Decision, Record};
use crate::input::{Input, open};
use crate::options::CreateOptions;

/// Lists the inputs and returns what would happen to each path, sorted by path. Entries below a
/// directory that is left out are not listed. All decisions are held in memory.
///
/// # Errors
/// An input cannot be read.
pub fn survey(
    sources: &[Input],
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<Vec<Decision>, Error> {
    let record: Arc<Record> = Arc::default();
    let mut options = options.clone();
    options.choose.record = Some(Arc::clone(&record));
    // Conflicts do not change what the rules do.
    options.replace = true;
    let mut source = open::open(sources, Vec::new(), &options, progress)?;
    while source.next_entry()?.is_some() {
        options.cancel.check()?;
    }
    drop((source, options));
    let mut decisions = std::mem::take(&mut *record.lock().unwrap_or_else(PoisonError::into_inner));
    decisions.sort_unstable();
    decisions.dedup();
    Ok(decisions)
}
