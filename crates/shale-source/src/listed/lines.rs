//! Errors that name a line of a list, also about entries that were read long before.

use std::fmt::Display;
use std::io;

use shale_model::{Review, SourceError};

/// An error in a line of the list called `name`.
pub(crate) fn wrong_line(name: &[u8], line: u64, what: impl Display) -> SourceError {
    let error = io::Error::new(io::ErrorKind::InvalidData, format!("line {line}: {what}"));
    SourceError::Unreadable { path: name.to_vec(), error }
}

/// Most changes of the distance between line numbers and entry numbers that are kept.
const GAPS_MAX: usize = 65_536;

/// The line of each entry. Costs memory only where lines without an entry lie between them.
#[derive(Debug, Default)]
pub(crate) struct LineNumbers {
    entry_count: u64,
    /// Entry numbers and line numbers at which their distance changes.
    gaps: Vec<(u64, u64)>,
}

impl LineNumbers {
    /// Notes the line of the next entry.
    pub(crate) fn add(&mut self, line: u64) {
        self.entry_count += 1;
        if self.of(self.entry_count) != line && self.gaps.len() < GAPS_MAX {
            self.gaps.push((self.entry_count, line));
        }
    }

    /// Refuses paths that came twice. The error names the first of the lines that repeat one.
    pub(crate) fn refuse_repeats(
        &self,
        name: &[u8],
        review: &Review<'_>,
    ) -> Result<(), SourceError> {
        let first = review.repeats.iter().min_by_key(|repeat| repeat.sequences.1);
        let Some(repeat) = first else { return Ok(()) };
        let (first, second) = repeat.sequences;
        let (first, second) = (self.of(first.min(second)), self.of(first.max(second)));
        let path = repeat.path.escape_ascii();
        let what =
            format!("expected each path once, found `{path}` again, which line {first} gives");
        Err(wrong_line(name, second, what))
    }

    /// Returns the line of an entry, which counts from 1. Beyond the gaps that are kept it is an
    /// estimate.
    pub(crate) fn of(&self, entry: u64) -> u64 {
        if let Some(&(gap_entry, gap_line)) = self.gaps.last()
            && gap_entry <= entry
        {
            return gap_line + (entry - gap_entry);
        }
        let at = self.gaps.partition_point(|gap| gap.0 <= entry);
        at.checked_sub(1).map_or(entry, |at| {
            let (gap_entry, gap_line) = self.gaps[at];
            gap_line + (entry - gap_entry)
        })
    }
}
