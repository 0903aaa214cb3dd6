//! Short reads that are near each other, but in no order.
//!
//! A walk from section to section, back through the states of an image or along pages that patch
//! each other makes many short reads, each of which depends on the one before. A round trip costs
//! as much as many kilobytes, so after some such reads one request brings what lies beside, too:
//! twice as much each time. Reads that are spread over a large object never get there.

use std::collections::VecDeque;
use std::ops::Range;

/// Reads that are remembered.
const READS_MAX: usize = 8;
/// How many of them must be near before more is fetched.
const NEAR_MIN: usize = 3;
/// Reads at most this far apart are near each other.
const NEAR_LEN: u64 = 1 << 20;
/// Longer reads are worth a request by themselves.
const SHORT_LEN_MAX: u64 = 64 << 10;
/// Bytes of the first request that brings more, and of any. None is shorter than a short read.
const WINDOW_MIN: u64 = SHORT_LEN_MAX;
const WINDOW_MAX: u64 = 512 << 10;

/// Where short reads found nothing lately.
#[derive(Debug, Default)]
pub(crate) struct Neighbourhood {
    reads: VecDeque<u64>,
    window: u64,
}

impl Neighbourhood {
    /// Notes a read of bytes that have to be fetched. Returns what should be fetched: `range`, and
    /// more on the side to which the reader goes.
    pub(crate) fn missed(&mut self, range: &Range<u64>) -> Range<u64> {
        if range.end - range.start > SHORT_LEN_MAX {
            return range.clone();
        }
        let is_near = |read: &&u64| read.abs_diff(range.start) <= NEAR_LEN;
        let near_count = self.reads.iter().filter(is_near).count();
        let goes_back = self.reads.back().is_some_and(|&last| range.start < last);
        if self.reads.len() == READS_MAX {
            self.reads.pop_front();
        }
        self.reads.push_back(range.start);
        if near_count < NEAR_MIN {
            self.window = 0;
            return range.clone();
        }
        self.window = (2 * self.window).clamp(WINDOW_MIN, WINDOW_MAX);
        if goes_back {
            range.end.saturating_sub(self.window)..range.end
        } else {
            range.start..range.start.saturating_add(self.window)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that are fetched for short reads at these places.
    fn fetched(places: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut neighbourhood = Neighbourhood::default();
        let mut len = |at| {
            let range = neighbourhood.missed(&(at..at + 100));
            assert!(range.start <= at && at + 100 <= range.end);
            range.end - range.start
        };
        places.into_iter().map(&mut len).collect()
    }

    #[test]
    fn a_request_brings_more_the_longer_reads_stay_near_each_other() {
        let back = fetched((0..8).map(|nth| (2000 - nth) * 6000));
        assert_eq!(back[..3], [100; 3]);
        assert_eq!(back[3..], [64, 128, 256, 512, 512].map(|kib: u64| kib << 10));
    }

    #[test]
    fn reads_far_apart_and_long_reads_get_what_they_ask_for() {
        assert_eq!(fetched((0..20).map(|nth| nth * 37 % 20 * (4 << 20))), [100; 20]);
        let mut neighbourhood = Neighbourhood::default();
        for nth in 0..20 {
            let range = nth * 100_000..nth * 100_000 + 70_000;
            assert_eq!(neighbourhood.missed(&range), range);
        }
    }

    #[test]
    fn one_that_leaves_the_neighbourhood_begins_anew() {
        let near = (0..6).map(|nth| nth * 6000);
        let away = (1..5).map(|nth| nth * (9 << 30));
        let lens = fetched(near.chain(away).chain([10 << 40]));
        assert_eq!(lens[3..6], [64 << 10, 128 << 10, 256 << 10]);
        assert_eq!(lens[6..], [100; 5]);
    }
}
