//! Contents that wait until all are known, so that they can be stored in another order than that
//! of the source.
//!
//! While contents come in, their bytes without holes and zero runs are appended to *buffer space*:
//! in memory up to a budget, then in a temporary file. Extents point there for the time being.
//! Afterwards the contents are moved into the stream in the order asked for (see
//! [`crate::layout::order`]), and [`crate::content::relocation`] turns extents of buffer space into
//! those of the stream.
//!
//! Memory beside the budget: 40 bytes a content, and that of finding the order.

use std::ops::Range;
use std::path::PathBuf;

use shale_format::Category;

use crate::exec::spill::Spill;
use crate::layout::order::LayoutOrder;
use crate::plan::classes::ClassIndex;
use crate::plan::error::WriteError;
use crate::plan::order::Order;

/// Bytes read at a time when contents are moved.
const STEP_LEN: usize = 1 << 20;

/// Contents in the order of the source.
pub(crate) struct ReorderBuffer {
    /// The first bytes of buffer space, in blocks; all but the last are full.
    memory: Vec<Vec<u8>>,
    memory_len: u64,
    /// The bytes after those.
    spill: Spill,
    /// Length of buffer space.
    end: u64,
    items: Vec<Item>,
    layout_order: LayoutOrder,
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
    pub(crate) class: ClassIndex,
}

/// Memory is allocated in blocks of this length.
const BLOCK_LEN: usize = 1 << 20;

impl ReorderBuffer {
    /// An empty buffer that holds at most `memory_bytes_max` bytes in memory.
    pub(crate) fn new(
        memory_bytes_max: u64,
        temp_dir: Option<PathBuf>,
        layout_order: LayoutOrder,
    ) -> Self {
        Self {
            memory: Vec::new(),
            memory_len: 0,
            spill: Spill::new(memory_bytes_max, temp_dir),
            end: 0,
            items: Vec::new(),
            layout_order,
        }
    }

    /// Length of buffer space.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that did not fit into memory.
    pub(crate) fn file_len(&self) -> u64 {
        self.spill.file_len()
    }

    /// Number of contents that resemble an earlier one.
    pub(crate) fn similar_count(&self) -> u64 {
        self.layout_order.similar_count()
    }

    /// Number of contents that the list names.
    pub(crate) fn listed_count(&self) -> u64 {
        self.layout_order.listed_count()
    }

    /// Notes that a file at `path` has this content.
    pub(crate) fn note_path(&mut self, content: u64, path: &[u8]) {
        if let Ok(index) = self.items.binary_search_by_key(&content, |item| item.content.into()) {
            self.layout_order.note_path(index as u32, path);
        }
    }

    /// Appends bytes of the current content. Returns their offset in buffer space.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<u64, WriteError> {
        let start = self.end;
        while !bytes.is_empty() && self.end == self.memory_len {
            let used = (self.memory_len % BLOCK_LEN as u64) as usize;
            if used == 0 {
                if !self.spill.take_memory(BLOCK_LEN as u64) {
                    break;
                }
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
            self.spill.write_at(bytes, at).map_err(WriteError::TemporaryFile)?;
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
        (category, class): (Category, ClassIndex),
        sketch: &[u64],
    ) {
        let end = self.end;
        self.items.push(Item { start, end, content: content as u32, content_len, category, class });
        self.layout_order.push(sketch, end - start);
    }

    /// Forgets the bytes from `start` on: those of a content that is given up.
    pub(crate) fn truncate(&mut self, start: u64) -> Result<(), WriteError> {
        if start < self.memory_len {
            let block_count = start.div_ceil(BLOCK_LEN as u64) as usize;
            let freed = self.memory.len() - block_count;
            self.spill.give_back_memory(freed as u64 * BLOCK_LEN as u64);
            self.memory.truncate(block_count);
            let used = (start % BLOCK_LEN as u64) as usize;
            if let Some(block) = self.memory.last_mut().filter(|_| used > 0) {
                block.truncate(used);
            }
            self.memory_len = start;
        }
        self.end = start;
        let file_len = self.end - self.memory_len;
        self.spill.set_file_len(file_len).map_err(WriteError::TemporaryFile)
    }

    /// Returns the order in which to move the contents. No more contents may follow.
    pub(crate) fn order(&mut self) -> Vec<u32> {
        let none = LayoutOrder::new(Order::Source, &[]);
        std::mem::replace(&mut self.layout_order, none).finish()
    }

    /// Returns a content by its index.
    pub(crate) fn item(&self, index: u32) -> Item {
        self.items[index as usize]
    }

    /// Reads the next bytes of an item, from `at` in buffer space on, at most 1 MiB.
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
                self.spill
                    .read_at(&mut out[filled..], from - self.memory_len)
                    .map_err(WriteError::TemporaryFile)?;
            }
        }
        Ok(())
    }
}

impl Item {
    /// Returns the range in buffer space.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.end
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
            let mut buffer =
                ReorderBuffer::new(memory_len_max, None, LayoutOrder::new(Order::Similarity, &[]));
            let lens = [10, 3 << 20, 0, 700_000, 1 << 20, 5];
            for (n, &len) in lens.iter().enumerate() {
                let forgotten = buffer.end();
                buffer.push(&bytes(99, 2_500_000)).unwrap();
                buffer.truncate(forgotten).unwrap();
                let start = buffer.end();
                let content = bytes(n as u64 + 3, len);
                content.chunks(300_000).for_each(|piece| _ = buffer.push(piece).unwrap());
                buffer.end_content(start, n as u64, len as u64, (Category::Text, 0), &[]);
            }
            assert_eq!(buffer.order(), [0, 1, 2, 3, 4, 5]);
            assert_eq!(buffer.file_len() > 0, memory_len_max < 1 << 30);
            let mut read = Vec::new();
            for (n, &len) in lens.iter().enumerate() {
                let item = buffer.item(n as u32);
                let mut content = Vec::new();
                while (content.len() as u64) < item.range().end - item.range().start {
                    buffer
                        .read(&item, item.range().start + content.len() as u64, &mut read)
                        .unwrap();
                    content.extend_from_slice(&read);
                }
                assert!(content == bytes(n as u64 + 3, len), "content {n}");
            }
        }
    }

    #[test]
    fn a_missing_temporary_directory_is_an_error() {
        let mut buffer = ReorderBuffer::new(
            0,
            Some(PathBuf::from("/nonexistent/directory")),
            LayoutOrder::new(Order::Source, &[]),
        );
        assert!(matches!(buffer.push(&[1]), Err(WriteError::TemporaryFile(_))));
    }
}
