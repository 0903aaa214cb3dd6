//! What the driver remembers of the listings that it gave lately: where each ends, and the parent
//! of each directory in it.
//!
//! The kernel asks for every directory at least twice, the second time to hear that nothing
//! follows, and each listing begins with the number of the parent. Both are known from the answer
//! before. An entry is one word, so it is read and written whole, without a lock; a newer entry
//! replaces an older one in its place. Numbers that are too large are not remembered.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Ends of listings that are remembered.
const END_COUNT: usize = 256;
/// Parents that are remembered; a directory may have many subdirectories.
const PARENT_COUNT: usize = 4096;
/// Bits of the two numbers of an entry.
const END_BITS: (u32, u32) = (40, 24);
const PARENT_BITS: (u32, u32) = (32, 32);

/// Listings of one mount.
pub(crate) struct Memo {
    /// Directory and offset after its last entry.
    ends: Table<END_COUNT>,
    /// Directory and parent.
    parents: Table<PARENT_COUNT>,
}

impl Memo {
    pub(crate) fn new() -> Self {
        Self { ends: Table::new(END_BITS), parents: Table::new(PARENT_BITS) }
    }

    /// Notes that no entry of `directory` follows `offset`.
    pub(crate) fn note_end(&self, directory: u64, offset: u64) {
        self.ends.set(directory, offset);
    }

    /// Returns whether no entry of `directory` follows `offset`; false if that is not remembered.
    pub(crate) fn ends_at(&self, directory: u64, offset: u64) -> bool {
        self.ends.get(directory) == Some(offset)
    }

    /// Notes the parent of a directory.
    pub(crate) fn note_parent(&self, directory: u64, parent: u64) {
        self.parents.set(directory, parent);
    }

    /// Returns the parent of a directory, if it is remembered.
    pub(crate) fn parent(&self, directory: u64) -> Option<u64> {
        self.parents.get(directory)
    }
}

/// Pairs of two numbers, found by the first. Zero is not a number of an inode, so a zero word is
/// no pair.
struct Table<const COUNT: usize> {
    key_bits: u32,
    value_bits: u32,
    words: Box<[AtomicU64]>,
}

impl<const COUNT: usize> Table<COUNT> {
    fn new((key_bits, value_bits): (u32, u32)) -> Self {
        Self { key_bits, value_bits, words: (0..COUNT).map(|_| AtomicU64::new(0)).collect() }
    }

    fn set(&self, key: u64, value: u64) {
        if key != 0 && key >> self.key_bits == 0 && value >> self.value_bits == 0 {
            self.words[key as usize % COUNT].store(key << self.value_bits | value, Relaxed);
        }
    }

    fn get(&self, key: u64) -> Option<u64> {
        let word = self.words[key as usize % COUNT].load(Relaxed);
        let value = word & ((1 << self.value_bits) - 1);
        (key != 0 && word >> self.value_bits == key).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_found_until_another_takes_its_place() {
        let memo = Memo::new();
        assert!(!memo.ends_at(0, 0) && !memo.ends_at(1, 2));
        memo.note_end(1, 2);
        assert!(memo.ends_at(1, 2) && !memo.ends_at(1, 3));
        memo.note_end(1 + END_COUNT as u64, 3);
        assert!(!memo.ends_at(1, 2) && memo.ends_at(1 + END_COUNT as u64, 3));
        assert_eq!(memo.parent(7), None);
        memo.note_parent(7, 1);
        assert_eq!(memo.parent(7), Some(1));
        assert_eq!(memo.parent(7 + PARENT_COUNT as u64), None);
    }

    #[test]
    fn numbers_that_are_too_large_are_not_remembered() {
        let memo = Memo::new();
        memo.note_end(5, 1 << 24);
        memo.note_end(1 << 40, 5);
        memo.note_parent(1 << 32, 1);
        memo.note_parent(9, 1 << 32);
        memo.note_parent(0, 1);
        assert!(!memo.ends_at(5, 1 << 24) && !memo.ends_at(5, 0) && !memo.ends_at(1 << 40, 5));
        assert_eq!([0, 9, 1 << 32, u64::MAX].map(|key| memo.parent(key)), [None; 4]);
        let largest = ((1 << 40) - 1, (1 << 24) - 1);
        memo.note_end(largest.0, largest.1);
        assert!(memo.ends_at(largest.0, largest.1));
    }
}
