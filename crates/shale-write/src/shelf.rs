//! Contents that wait until all are known, so that they can be laid in another order than the
//! source's.
//!
//! While contents come in, their bytes (without holes and zero runs) are appended to *shelf
//! space*: in memory up to a budget, then in a temporary file without a name. Extents lead there
//! for the time being. Then the contents are taken in the order asked for (see [`crate::laying`])
//! into the stream, and [`Laid`] turns extents of shelf space into those of the stream.
//!
//! Keeps 40 bytes a content, and what finding the order takes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use shale_format::Category;

use crate::WriteError;
use crate::extents::{Extents, Place};
use crate::laying::{Laying, Order};
use crate::temporary::get_or_make;

/// Bytes read at a time when contents are taken.
const STEP_LEN: usize = 1 << 20;

/// Contents in the order of the source.
pub(crate) struct Shelf {
    memory: Vec<Vec<u8>>,
    memory_len: u64,
    memory_len_max: u64,
    temp_dir: Option<PathBuf>,
    file: Option<File>,
    /// Length of shelf space; what is beyond `memory_len` is in the file.
    end: u64,
    items: Vec<Item>,
    laying: Laying,
}

/// One content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    start: u64,
    end: u64,
    /// Id of the content.
    pub(crate) content: u32,
    pub(crate) content_len: u64,
    pub(crate) category: Category,
}

/// Memory is taken in blocks of this length.
const BLOCK_LEN: usize = 1 << 20;

impl Shelf {
    /// An empty shelf that holds so many bytes in memory.
    pub(crate) fn new(memory_len_max: u64, temp_dir: Option<PathBuf>, laying: Laying) -> Self {
        Self {
            memory: Vec::new(),
            memory_len: 0,
            memory_len_max: memory_len_max / BLOCK_LEN as u64 * BLOCK_LEN as u64,
            temp_dir,
            file: None,
            end: 0,
            items: Vec::new(),
            laying,
        }
    }

    /// Length of shelf space.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that did not fit into memory.
    pub(crate) fn file_len(&self) -> u64 {
        self.end - self.memory_len
    }

    /// Contents that have kin.
    pub(crate) fn kin_count(&self) -> u64 {
        self.laying.kin_count()
    }

    /// Contents that were asked for to be laid first.
    pub(crate) fn listed_count(&self) -> u64 {
        self.laying.listed_count()
    }

    /// A file at `path` has this content.
    pub(crate) fn met(&mut self, content: u64, path: &[u8]) {
        if let Ok(index) = self.items.binary_search_by_key(&content, |item| item.content.into()) {
            self.laying.met(index as u32, path);
        }
    }

    /// Appends bytes of the content that is coming in; returns where they are.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<u64, WriteError> {
        let start = self.end;
        while !bytes.is_empty() && self.memory_len < self.memory_len_max && self.file.is_none() {
            let used = (self.memory_len % BLOCK_LEN as u64) as usize;
            if used == 0 {
                self.memory.push(Vec::with_capacity(BLOCK_LEN));
            }
            let taken = bytes.len().min(BLOCK_LEN - used);
            if let Some(block) = self.memory.last_mut() {
                block.extend_from_slice(&bytes[..taken]);
            }
            bytes = &bytes[taken..];
            self.memory_len += taken as u64;
            self.end += taken as u64;
        }
        if !bytes.is_empty() {
            let at = self.end - self.memory_len;
            get_or_make(&mut self.file, self.temp_dir.as_deref())
                .and_then(|file| file.write_all_at(bytes, at))
                .map_err(WriteError::Spool)?;
            self.end += bytes.len() as u64;
        }
        Ok(start)
    }

    /// Ends the content whose bytes were pushed since `start`.
    pub(crate) fn end_content(
        &mut self,
        start: u64,
        content: u64,
        content_len: u64,
        category: Category,
        sketch: &[u64],
    ) {
        let end = self.end;
        self.items.push(Item { start, end, content: content as u32, content_len, category });
        self.laying.push(sketch, end - start);
    }

    /// Forgets the bytes from `start` on, of a content that will not be.
    pub(crate) fn truncate(&mut self, start: u64) {
        if start < self.memory_len {
            let used = (start % BLOCK_LEN as u64) as usize;
            self.memory.truncate(start.div_ceil(BLOCK_LEN as u64) as usize);
            if let Some(block) = self.memory.last_mut().filter(|_| used > 0) {
                block.truncate(used);
            }
            self.memory_len = start;
            self.file = None;
        }
        self.end = start;
    }

    /// No more contents: the order in which to take them.
    pub(crate) fn order(&mut self) -> Vec<u32> {
        let none = Laying::new(Order::Source, &[]);
        std::mem::replace(&mut self.laying, none).finish()
    }

    /// A content by its number.
    pub(crate) fn item(&self, index: u32) -> Item {
        self.items[index as usize]
    }

    /// Reads the next bytes of an item from `at` (of shelf space) on, at most 1 MiB.
    pub(crate) fn read(&self, item: &Item, at: u64, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let len = (item.end - at).min(STEP_LEN as u64) as usize;
        out.clear();
        while out.len() < len {
            let from = at + out.len() as u64;
            let want = len - out.len();
            if from < self.memory_len {
                let block = &self.memory[(from / BLOCK_LEN as u64) as usize];
                let part = &block[(from % BLOCK_LEN as u64) as usize..];
                out.extend_from_slice(&part[..part.len().min(want)]);
            } else {
                let filled = out.len();
                out.resize(len, 0);
                let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound);
                file.map_err(io::Error::from)
                    .and_then(|file| file.read_exact_at(&mut out[filled..], from - self.memory_len))
                    .map_err(WriteError::Spool)?;
            }
        }
        Ok(())
    }
}

impl Item {
    /// Its bytes in shelf space.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// Where the bytes of shelf space were laid.
#[derive(Debug, Default)]
pub(crate) struct Laid {
    /// Start in shelf space, length, place.
    rows: Vec<(u64, u64, Place)>,
}

impl Laid {
    /// Notes where an item's bytes went: `extents` has them from its start on.
    pub(crate) fn push(&mut self, item: &Item, extents: &Extents) {
        debug_assert_eq!(extents.end(), item.end - item.start);
        let mut at = item.start;
        extents.visit(0, extents.end(), |len, place| {
            self.rows.push((at, len, place));
            at += len;
        });
    }

    /// No more rows: now they can be looked up.
    pub(crate) fn sort(&mut self) {
        self.rows.sort_unstable_by_key(|&(start, ..)| start);
    }

    /// Adds to `extents` what a range of `shelved` is, leading to the stream instead of the shelf.
    pub(crate) fn through(&self, shelved: &Extents, range: Range<u64>, extents: &mut Extents) {
        shelved.visit(range.start, range.end, |len, place| match place {
            Place::Stream(start) => self.visit(start, len, |len, place| extents.push(len, place)),
            place => extents.push(len, place),
        });
    }

    fn visit(&self, start: u64, len: u64, mut visit: impl FnMut(u64, Place)) {
        let mut at = start;
        let first = self.rows.partition_point(|&(row, ..)| row <= start).saturating_sub(1);
        for &(row, row_len, place) in &self.rows[first..] {
            if at >= start + len {
                break;
            }
            let end = (row + row_len).min(start + len);
            visit(end - at, place.after(at - row));
            at = end;
        }
        debug_assert_eq!(at, start + len, "all of shelf space was laid");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        (0..len as u64).map(|n| (n.wrapping_mul(seed) >> 3) as u8).collect()
    }

    #[test]
    fn contents_come_back_from_memory_and_file_also_after_one_was_forgotten() {
        for memory_len_max in [0, 2 << 20, 1 << 30] {
            let mut shelf = Shelf::new(memory_len_max, None, Laying::new(Order::Similarity, &[]));
            let lens = [10, 3 << 20, 0, 700_000, 1 << 20, 5];
            for (n, &len) in lens.iter().enumerate() {
                let forgotten = shelf.end();
                shelf.push(&bytes(99, 2_500_000)).unwrap();
                shelf.truncate(forgotten);
                let start = shelf.end();
                let content = bytes(n as u64 + 3, len);
                content.chunks(300_000).for_each(|piece| _ = shelf.push(piece).unwrap());
                shelf.end_content(start, n as u64, len as u64, Category::Text, &[]);
            }
            assert_eq!(shelf.order(), [0, 1, 2, 3, 4, 5]);
            assert_eq!(shelf.file_len() > 0, memory_len_max < 1 << 30);
            let mut read = Vec::new();
            for (n, &len) in lens.iter().enumerate() {
                let item = shelf.item(n as u32);
                let mut content = Vec::new();
                while (content.len() as u64) < item.range().end - item.range().start {
                    shelf
                        .read(&item, item.range().start + content.len() as u64, &mut read)
                        .unwrap();
                    content.extend_from_slice(&read);
                }
                assert!(content == bytes(n as u64 + 3, len), "content {n}");
            }
        }
    }

    #[test]
    fn extents_lead_through_the_shelf() {
        let mut shelved = Extents::default();
        shelved.push(100, Place::Stream(0));
        shelved.push(50, Place::Hole);
        shelved.push(30, Place::Stream(100));
        shelved.push(20, Place::Stream(10));
        let item =
            |start, end| Item { start, end, content: 0, content_len: 0, category: Category::Text };
        let mut laid = Laid::default();
        let mut second = Extents::default();
        second.push(30, Place::Stream(0));
        laid.push(&item(100, 130), &second);
        let mut first = Extents::default();
        first.push(15, Place::Stream(5));
        first.push(85, Place::Stream(30));
        laid.push(&item(0, 100), &first);
        laid.sort();
        let mut extents = Extents::default();
        laid.through(&shelved, 0..120, &mut extents);
        laid.through(&shelved, 120..200, &mut extents);
        let mut parts = Vec::new();
        extents.visit(0, extents.end(), |len, place| parts.push((len, place)));
        let place = Place::Stream;
        assert_eq!(
            parts,
            [
                (15, place(5)),
                (85, place(30)),
                (50, Place::Hole),
                (30, place(0)),
                (5, place(15)),
                (15, place(30))
            ]
        );
    }

    #[test]
    fn a_missing_temporary_directory_is_an_error() {
        let mut shelf = Shelf::new(
            0,
            Some(PathBuf::from("/nonexistent/directory")),
            Laying::new(Order::Source, &[]),
        );
        assert!(matches!(shelf.push(&[1]), Err(WriteError::Spool(_))));
    }
}
