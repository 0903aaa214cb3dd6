//! Which contents are read from front to back, so that more of them is asked of a source that is
//! far away than one read needs.
//!
//! The first read of a content asks for what it needs. Each read that continues it asks for twice
//! as much beyond as the one before, up to a limit.

use std::ops::Range;

/// Contents that are followed at once.
const CONTENTS_MAX: usize = 16;
/// Bytes asked for beyond a read at most.
const AHEAD_LEN_MAX: u64 = 8 << 20;

/// What was asked for, of the contents read last.
#[derive(Debug, Default)]
pub(crate) struct Sequences(Vec<Sequence>);

#[derive(Debug)]
struct Sequence {
    content: u64,
    /// End of the last read.
    next: u64,
    /// Where what was asked for ends.
    until: u64,
    streak: u32,
}

impl Sequences {
    /// Notes a read of `range`, and returns what to ask for, if anything.
    pub(crate) fn wanted(&mut self, content: u64, range: &Range<u64>) -> Option<Range<u64>> {
        let len = range.end - range.start;
        let found = self.0.iter().position(|sequence| sequence.content == content);
        let mut sequence = match found {
            // The last one is the latest.
            Some(at) => self.0.remove(at),
            None => Sequence { content, next: u64::MAX, until: 0, streak: 0 },
        };
        let continues = range.start.abs_diff(sequence.next) <= len;
        if !continues {
            sequence = Sequence { content, next: 0, until: range.start, streak: 0 };
        }
        let ahead = match sequence.streak {
            0 => 0,
            streak => (len << streak.min(20)).min(AHEAD_LEN_MAX),
        };
        sequence.next = range.end;
        sequence.streak = sequence.streak.saturating_add(1);
        let wanted = sequence.until.max(range.start)..range.end.saturating_add(ahead);
        // In steps of half of what is asked for beyond, so that each is worth its requests.
        let is_due = sequence.until < range.end || sequence.until - range.end <= ahead / 2;
        let wanted = Some(wanted).filter(|wanted| is_due && wanted.start < wanted.end);
        if let Some(wanted) = &wanted {
            sequence.until = wanted.end;
        }
        if self.0.len() == CONTENTS_MAX {
            self.0.remove(0);
        }
        self.0.push(sequence);
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_asks_for_ever_more_and_nothing_twice() {
        let mut sequences = Sequences::default();
        let mut until = 0;
        for n in 0..40 {
            let read = n * 100..(n + 1) * 100;
            if let Some(wanted) = sequences.wanted(7, &read) {
                assert_eq!(wanted.start, until);
                until = wanted.end;
            }
            assert!(until >= read.end);
        }
        assert!(until > 5000);
    }

    #[test]
    fn a_single_read_asks_for_itself_only() {
        let mut sequences = Sequences::default();
        assert_eq!(sequences.wanted(1, &(500..600)), Some(500..600));
        assert_eq!(sequences.wanted(1, &(9000..9100)), Some(9000..9100));
        assert_eq!(sequences.wanted(2, &(0..10)), Some(0..10));
    }
}
