//! Line numbers of the entries of a list, for messages about entries that were read long before.

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
