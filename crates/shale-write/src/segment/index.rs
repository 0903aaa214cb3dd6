//! A bounded index of anchors: maps the hash of a window to where in the stream it ended.
//!
//! The index is an open-addressed table of 12-byte slots: 32 bits of hash, 58 bits of stream
//! position and 6 bits of rank, which says how rare the anchor is. It is at most three quarters
//! full, so an anchor takes 16 bytes. It grows by doubling up to its budget. Then anchors of the
//! lowest rank are dropped in place and the step doubles: a larger image is searched with a coarser
//! net, deterministically. The index holds hints, not facts: callers compare bytes.

use crate::content::gear::key_of64;

/// Longest window that can be hashed.
pub const WINDOW_LEN_MAX: u32 = 1024;

const RANK_BITS: u32 = 6;
const POSITION_MAX: u64 = (1 << (64 - RANK_BITS)) - 1;
/// Slots probed before a key counts as absent. Bounds the cost of a lookup for any data.
const PROBE_MAX: usize = 32;
/// Most candidates kept for one key.
pub const CANDIDATE_MAX: usize = 4;
/// The smallest step: one anchor in 16 bytes.
const STEP_LOG2_MIN: u32 = 4;
const SLOT_LEN: u64 = 12;
const SLOT_COUNT_START: u64 = 8 << 10;

/// Returns a 32-bit hash of a window, which is never 0.
pub fn key_of(window: &[u8]) -> u32 {
    ((key_of64(window) >> 32) as u32).max(1)
}

/// The table. Memory: 12 bytes for each of the largest power of two of slots within the budget, and
/// half as much again while it grows.
pub struct AnchorIndex {
    /// 0 marks an empty slot.
    keys: Vec<u32>,
    /// Position << RANK_BITS | rank.
    values: Vec<u64>,
    slot_count_max: usize,
    used: usize,
    step_log2: u32,
}

impl AnchorIndex {
    /// An empty index that never takes more than `bytes_max` (at least 96 KiB) once grown.
    pub fn new(bytes_max: u64) -> Self {
        let slots = (bytes_max / SLOT_LEN).clamp(SLOT_COUNT_START, 1 << 32);
        let slot_count_max = 1usize << slots.ilog2();
        let start = SLOT_COUNT_START as usize;
        Self {
            keys: vec![0; start],
            values: vec![0; start],
            slot_count_max,
            used: 0,
            step_log2: STEP_LOG2_MIN,
        }
    }

    /// Returns log2 of the step that anchors must have to be kept now.
    pub fn step_log2(&self) -> u32 {
        self.step_log2
    }

    /// Returns the positions at which a window with this key may have ended, oldest first, at most
    /// four. Costs one cache miss as a rule.
    pub fn candidates(&self, key: u32) -> Candidates {
        let mut found = Candidates { positions: [0; CANDIDATE_MAX], len: 0, next: 0 };
        let mask = self.keys.len() - 1;
        let mut at = self.home(key);
        for _ in 0..PROBE_MAX {
            if self.keys[at] == 0 {
                break;
            }
            if self.keys[at] == key {
                found.positions[found.len] = self.values[at] >> RANK_BITS;
                found.len += 1;
                if found.len == CANDIDATE_MAX {
                    break;
                }
            }
            at = (at + 1) & mask;
        }
        found
    }

    /// Fetches the slots of keys that will be looked up soon. One after the other, each lookup
    /// waits for memory; here, the processor waits for all of them at once.
    pub fn touch(&self, keys: impl Iterator<Item = u32>) {
        let homes = keys.map(|key| self.home(key));
        let sum = homes.fold(0, |sum: u64, at| sum ^ u64::from(self.keys[at]) ^ self.values[at]);
        std::hint::black_box(sum);
    }

    /// Remembers that a window with this key ended at `position`. `gear` is the hash that made it
    /// an anchor. Does nothing if the key has its share of slots, or if the anchor is below the
    /// current step.
    pub fn insert(&mut self, key: u32, gear: u64, position: u64) {
        let rank = gear.leading_zeros().min((1 << RANK_BITS) - 1);
        if position > POSITION_MAX || key == 0 || rank < self.step_log2 {
            return;
        }
        self.place(key, position << RANK_BITS | u64::from(rank));
        if self.used > self.keys.len() / 4 * 3 {
            if self.keys.len() < self.slot_count_max {
                self.grow();
            } else {
                self.thin();
            }
        }
    }

    fn home(&self, key: u32) -> usize {
        // The top bits, so that doubling the table keeps neighbours together.
        ((u64::from(key) * self.keys.len() as u64) >> 32) as usize
    }

    fn place(&mut self, key: u32, value: u64) {
        let mask = self.keys.len() - 1;
        let mut at = self.home(key);
        let mut same = 0;
        for _ in 0..PROBE_MAX {
            if self.keys[at] == 0 {
                self.keys[at] = key;
                self.values[at] = value;
                self.used += 1;
                return;
            }
            if self.keys[at] == key {
                same += 1;
                if same == CANDIDATE_MAX {
                    return;
                }
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let len = self.keys.len() * 2;
        let keys = std::mem::replace(&mut self.keys, vec![0; len]);
        let values = std::mem::replace(&mut self.values, vec![0; len]);
        self.used = 0;
        for (key, value) in keys.into_iter().zip(values).filter(|&(key, _)| key != 0) {
            self.place(key, value);
        }
    }

    /// Drops the anchors of the lowest rank in place until the table is at most half full.
    fn thin(&mut self) {
        while self.used > self.keys.len() / 2 {
            self.step_log2 += 1;
            // Start after an empty slot, so that every cluster is visited from its head: an entry
            // that is removed and placed again then lands where it was or nearer to its home.
            let len = self.keys.len();
            let Some(begin) = self.keys.iter().position(|&key| key == 0) else { return };
            for i in 1..=len {
                let at = (begin + i) & (len - 1);
                let key = std::mem::take(&mut self.keys[at]);
                if key != 0 {
                    self.used -= 1;
                    let value = self.values[at];
                    if value as u32 & ((1 << RANK_BITS) - 1) >= self.step_log2 {
                        self.place(key, value);
                    }
                }
            }
            if self.step_log2 >= (1 << RANK_BITS) - 1 {
                return;
            }
        }
    }
}

/// The positions found by one lookup.
pub struct Candidates {
    positions: [u64; CANDIDATE_MAX],
    len: usize,
    next: usize,
}

impl Iterator for Candidates {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        let item = *self.positions[..self.len].get(self.next)?;
        self.next += 1;
        Some(item)
    }
}
