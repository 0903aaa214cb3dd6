//! Distinct sets of extended attributes, in bounded memory.
//!
//! A [`Heap`] holds each set as bytes. A row says where the set is, which number it gets in the
//! image, and which set has the row's own index as number. The pages that fit into the budget and
//! the sets that were used last are in memory, because neighbours mostly share a set.

use std::path::Path;
use std::sync::Arc;

use shale_codec::xxh3_64;
use shale_model::Xattr;

use crate::tree::paged::{Heap, Index, Rows};
use crate::tree::record::{NONE, get, put, slot};

use crate::plan::error::WriteError;

/// The sets, each once.
#[derive(Debug)]
pub(crate) struct XattrSets {
    rows: Rows<ROW_LEN>,
    heap: Heap,
    index: Index,
    count: u32,
    /// Number of sets that have a number in the image.
    numbered: u32,
    /// By set modulo the length of this list.
    recent: Vec<Option<(u32, Arc<[Xattr]>)>>,
    bytes: Vec<u8>,
    none: Arc<[Xattr]>,
}

/// Bytes of hash, length, start, number, and the set whose number is the index of this row.
const ROW_LEN: usize = 24;
/// Number of sets that are kept after use.
const RECENT_COUNT: usize = 64;
/// Longer sets are not kept, because many of them would take much memory.
const RECENT_LEN_MAX: usize = 4096;

#[derive(Debug, Default, Clone, Copy)]
struct Row {
    hash: u32,
    len: u32,
    start: u64,
    number: u32,
    set_here: u32,
}

impl XattrSets {
    /// Starts empty. Uses at most `memory_bytes_max` bytes, but at least a few pages.
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<&Path>) -> Self {
        let temp_dir = || temp_dir.map(Path::to_path_buf);
        Self {
            rows: Rows::new(memory_bytes_max / 8, temp_dir()),
            heap: Heap::new(memory_bytes_max / 2, temp_dir()),
            index: Index::new(memory_bytes_max / 8, temp_dir()),
            count: 0,
            numbered: 0,
            recent: vec![None; RECENT_COUNT],
            bytes: Vec::new(),
            none: Arc::new([]),
        }
    }

    /// Bytes of the temporary files.
    pub(crate) fn file_len(&self) -> u64 {
        self.rows.file_len() + self.heap.file_len() + self.index.file_len()
    }

    /// Returns the index of a set; [`NONE`] for the empty one. Attributes may come in any order; of
    /// two with one name the last stays.
    pub(crate) fn intern(&mut self, xattrs: &Arc<[Xattr]>) -> Result<u32, WriteError> {
        if xattrs.is_empty() {
            return Ok(NONE);
        }
        let sorted: Arc<[Xattr]> = if xattrs.is_sorted_by(|a, b| a.name < b.name) {
            Arc::clone(xattrs)
        } else {
            let mut sorted = xattrs.to_vec();
            sorted.reverse();
            sorted.sort_by(|a, b| a.name.cmp(&b.name));
            sorted.dedup_by(|a, b| a.name == b.name);
            sorted.into()
        };
        let mut bytes = Vec::new();
        for Xattr { name, value } in sorted.iter() {
            for part in [name, value] {
                put(&mut bytes, part.len() as u64);
                bytes.extend_from_slice(part);
            }
        }
        let hash = (xxh3_64(&bytes) >> 32) as u32;
        let Self { rows, heap, index, bytes: found, .. } = self;
        let known = index.find(hash, |set| {
            let row = read(rows.get(set)?);
            if row.hash != hash || row.len as usize != bytes.len() {
                return Ok(false);
            }
            heap.get(row.start, bytes.len(), found)?;
            Ok(*found == bytes)
        });
        if let Some(set) = known.map_err(WriteError::TemporaryFile)? {
            return Ok(set);
        }
        let set = slot(self.count as usize, "sets of extended attributes", b"")?;
        let start = self.heap.push(&bytes).map_err(WriteError::TemporaryFile)?;
        self.count = set + 1;
        self.change(set, |row| *row = Row { hash, len: bytes.len() as u32, start, ..*row })?;
        self.index.insert(hash, set).map_err(WriteError::TemporaryFile)?;
        self.remember(set, &sorted, bytes.len());
        Ok(set)
    }

    /// Returns the attributes of a set, sorted by name; an empty set for [`NONE`].
    pub(crate) fn get(&mut self, set: u32) -> Result<Arc<[Xattr]>, WriteError> {
        if set == NONE {
            return Ok(Arc::clone(&self.none));
        }
        if let Some((kept, xattrs)) = &self.recent[set as usize % RECENT_COUNT]
            && *kept == set
        {
            return Ok(Arc::clone(xattrs));
        }
        let row = self.row(set)?;
        let read = self.heap.get(row.start, row.len as usize, &mut self.bytes);
        read.map_err(WriteError::TemporaryFile)?;
        let xattrs: Arc<[Xattr]> =
            parse(&self.bytes).ok_or(WriteError::TemporaryFileDamaged)?.into();
        self.remember(set, &xattrs, row.len as usize);
        Ok(xattrs)
    }

    /// Returns the number of a set in the image. Numbers start at 1, in the order of the first call
    /// for each set; [`NONE`] has 0.
    pub(crate) fn number(&mut self, set: u32) -> Result<u64, WriteError> {
        if set == NONE {
            return Ok(0);
        }
        let mut number = self.row(set)?.number;
        if number == 0 {
            let index = self.numbered;
            self.numbered += 1;
            number = self.numbered;
            self.change(index, |row| row.set_here = set)?;
            self.change(set, |row| row.number = number)?;
        }
        Ok(u64::from(number))
    }

    /// Returns how many sets have a number.
    pub(crate) fn numbered(&self) -> u32 {
        self.numbered
    }

    /// Returns the attributes of the set with the number `index + 1`.
    pub(crate) fn at(&mut self, index: u32) -> Result<Arc<[Xattr]>, WriteError> {
        let set = self.row(index)?.set_here;
        self.get(set)
    }

    fn remember(&mut self, set: u32, xattrs: &Arc<[Xattr]>, len: usize) {
        if len <= RECENT_LEN_MAX {
            self.recent[set as usize % RECENT_COUNT] = Some((set, Arc::clone(xattrs)));
        }
    }

    fn row(&mut self, set: u32) -> Result<Row, WriteError> {
        if set >= self.count {
            return Err(WriteError::TemporaryFileDamaged);
        }
        self.rows.get(set).map(read).map_err(WriteError::TemporaryFile)
    }

    fn change(&mut self, set: u32, change: impl FnOnce(&mut Row)) -> Result<(), WriteError> {
        let bytes = self.rows.get_mut(set).map_err(WriteError::TemporaryFile)?;
        let mut row = read(bytes);
        change(&mut row);
        bytes[..4].copy_from_slice(&row.hash.to_le_bytes());
        bytes[4..8].copy_from_slice(&row.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&row.start.to_le_bytes());
        bytes[16..20].copy_from_slice(&row.number.to_le_bytes());
        bytes[20..].copy_from_slice(&row.set_here.to_le_bytes());
        Ok(())
    }
}

fn read(bytes: &[u8; ROW_LEN]) -> Row {
    let [a, b, c, d, e, f] = std::array::from_fn(|at| {
        let part = bytes[at * 4..].first_chunk().copied();
        u32::from_le_bytes(part.unwrap_or_default())
    });
    Row { hash: a, len: b, start: u64::from(d) << 32 | u64::from(c), number: e, set_here: f }
}

fn parse(bytes: &[u8]) -> Option<Vec<Xattr>> {
    let mut at = 0;
    let mut part = || {
        let len = usize::try_from(get(bytes, &mut at)?).ok()?;
        let part = bytes.get(at..at.checked_add(len)?)?;
        at += len;
        Some((part.to_vec(), at == bytes.len()))
    };
    let mut xattrs = Vec::new();
    loop {
        let (name, _) = part()?;
        let (value, is_last) = part()?;
        xattrs.push(Xattr { name, value });
        if is_last {
            return Some(xattrs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(n: u32) -> Arc<[Xattr]> {
        let xattr = |name: String, len: u32| Xattr {
            name: name.into_bytes(),
            value: vec![n as u8; len as usize],
        };
        let long = if n % 500 == 3 { 60_000 } else { n % 50 };
        [xattr(format!("user.{n}"), long), xattr("user.z".to_owned(), n % 3)].into()
    }

    #[test]
    fn distinct_sets_are_kept_once_in_little_memory() {
        for memory in [0, 1 << 30] {
            let mut sets = XattrSets::new(memory, None);
            const COUNT: u32 = 3000;
            for turn in 0..2 {
                for n in 0..COUNT {
                    assert_eq!(sets.intern(&set(n)).unwrap(), n, "turn {turn}");
                }
            }
            assert_eq!(sets.intern(&[].into()).unwrap(), NONE);
            assert_eq!(sets.get(NONE).unwrap().len(), 0);
            for n in (0..COUNT).rev() {
                assert!(sets.get(n).unwrap() == set(n), "set {n}");
            }
            // Every second set is used, from the back.
            for _ in 0..2 {
                for n in (0..COUNT).step_by(2).rev() {
                    assert_eq!(sets.number(n).unwrap(), u64::from((COUNT - n) / 2));
                }
            }
            assert_eq!((sets.number(NONE).unwrap(), sets.numbered()), (0, COUNT / 2));
            for index in 0..COUNT / 2 {
                assert!(sets.at(index).unwrap() == set(COUNT - 2 - 2 * index));
            }
            assert_eq!(sets.file_len() > 0, memory == 0);
            assert!(sets.get(COUNT).is_err());
        }
    }

    #[test]
    fn order_and_repeats_of_names_make_no_other_set() {
        let mut sets = XattrSets::new(0, None);
        let xattr = |name: &str, value: &str| Xattr { name: name.into(), value: value.into() };
        let sorted = [xattr("a", "1"), xattr("b", "2")].into();
        let number = sets.intern(&sorted).unwrap();
        for same in [
            vec![xattr("b", "2"), xattr("a", "1")],
            vec![xattr("a", "0"), xattr("b", "2"), xattr("a", "1")],
        ] {
            assert_eq!(sets.intern(&same.into()).unwrap(), number);
        }
        assert_ne!(sets.intern(&[xattr("a", "1b2")].into()).unwrap(), number);
    }
}
