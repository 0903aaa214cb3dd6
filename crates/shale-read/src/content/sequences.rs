//! Which contents are read from front to back, and which one after the other, so that more of them
//! is asked of a source that is far away than one read needs.
//!
//! The first read of a content asks for what it needs. Each read that continues it asks for twice
//! as much beyond as the one before, up to a limit. A reader of several contents in the order of
//! their numbers gets twice as many ahead each time, because writers number contents in the order
//! of paths.

use std::ops::Range;

/// Contents that are followed at once.
const CONTENTS_MAX: usize = 16;
/// Bytes asked for beyond a read at most. Half of them are on their way while the other half is
/// read: enough for 100 MB/s with a round trip of 80 ms.
const AHEAD_LEN_MAX: u64 = 16 << 20;

/// Walks over contents that are followed at once.
const WALKS_MAX: usize = 4;
/// How many contents a walk may leave out.
const WALK_GAP_MAX: u64 = 8;
/// Contents in a row before more are asked for: a program may have looked at a few of a directory.
const WALK_STREAK_MIN: u32 = 3;
/// Contents that are asked for at first, and at most.
const WALK_AHEAD_FIRST: u64 = 16;
const WALK_AHEAD_MAX: u64 = 2048;

/// What was asked for, of the contents read last.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    contents: Vec<Sequence>,
    walks: Vec<Walk>,
}

/// Contents that are read in the order of their numbers.
#[derive(Debug)]
struct Walk {
    last: u64,
    streak: u32,
    /// The first content that was not asked for.
    ahead: u64,
    /// From this content on, more are asked for.
    due: u64,
}

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
        let found = self.contents.iter().position(|sequence| sequence.content == content);
        let mut sequence = match found {
            // The last one is the latest.
            Some(at) => self.contents.remove(at),
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
        if self.contents.len() == CONTENTS_MAX {
            self.contents.remove(0);
        }
        self.contents.push(sequence);
        wanted
    }

    /// Notes that a content is read from its start, and returns which ones to ask for, if any. Ask
    /// for as many of them as is sensible, and tell [`Sequences::asked`] where that ended.
    pub(crate) fn walk(&mut self, content: u64) -> Option<Range<u64>> {
        let follows = |walk: &Walk| content >= walk.last && content - walk.last <= WALK_GAP_MAX;
        let Some(at) = self.walks.iter().position(follows) else {
            if self.walks.len() == WALKS_MAX {
                self.walks.remove(0);
            }
            self.walks.push(Walk { last: content, streak: 1, ahead: content + 1, due: 0 });
            return None;
        };
        // The last one is the latest.
        let mut walk = self.walks.remove(at);
        if content > walk.last {
            walk.last = content;
            walk.streak = walk.streak.saturating_add(1);
            walk.ahead = walk.ahead.max(content + 1);
        }
        let is_due = walk.streak >= WALK_STREAK_MIN && content >= walk.due;
        let wanted = is_due.then(|| {
            let doubled = WALK_AHEAD_FIRST << (walk.streak - WALK_STREAK_MIN).min(20);
            walk.ahead..content.saturating_add(doubled.min(WALK_AHEAD_MAX)).max(walk.ahead)
        });
        self.walks.push(walk);
        wanted.filter(|wanted| !wanted.is_empty())
    }

    /// Notes how far the contents of the last walk were asked for. The next ones are due when half
    /// of them were read.
    pub(crate) fn asked(&mut self, end: u64) {
        if let Some(walk) = self.walks.last_mut() {
            walk.ahead = walk.ahead.max(end);
            walk.due = walk.last + (walk.ahead - walk.last).div_ceil(2);
        }
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
    fn contents_in_order_are_asked_for_ahead_and_once_each() {
        let mut sequences = Sequences::default();
        let (mut until, mut asked) = (0, 0);
        // Every third content is read.
        for content in (100..20_000).step_by(3) {
            if let Some(wanted) = sequences.walk(content) {
                assert!(wanted.start >= until && wanted.start > content);
                assert!(wanted.end - content <= WALK_AHEAD_MAX);
                until = wanted.end;
                asked += 1;
                sequences.asked(until);
            }
            assert!(content < 110 || until > content, "{content}");
        }
        assert!(asked < 30, "{asked}");
    }

    #[test]
    fn contents_without_order_are_not_asked_for() {
        let mut sequences = Sequences::default();
        for content in [500, 20, 900, 21, 300, 501, 22_000, 7] {
            assert_eq!(sequences.walk(content), None);
        }
    }

    #[test]
    fn a_single_read_asks_for_itself_only() {
        let mut sequences = Sequences::default();
        assert_eq!(sequences.wanted(1, &(500..600)), Some(500..600));
        assert_eq!(sequences.wanted(1, &(9000..9100)), Some(9000..9100));
        assert_eq!(sequences.wanted(2, &(0..10)), Some(0..10));
    }
}
