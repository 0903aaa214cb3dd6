//! Contents that wait until all are known, so that they can be stored in another order than that
//! of the source.
//!
//! While contents come in, their bytes without holes and zero runs are appended to *buffer space*
//! (see [`crate::layout::buffered`]). Extents point there for the time being. Afterwards the
//! contents go into the stream in the order asked for (see [`crate::layout::order`]), and
//! [`crate::content::relocation`] turns extents of buffer space into those of the stream. The bytes
//! stay where they are: frames are made of ranges of buffer space.
//!
//! Memory beside the budget: 40 bytes a content, and that of finding the order.

use std::ops::Range;
use std::path::PathBuf;

use shale_format::Category;

use crate::exec::build::Build;
use crate::layout::buffered::{BufferWriter, Buffered};
use crate::layout::order::LayoutOrder;
use crate::plan::classes::ClassIndex;
use crate::plan::error::WriteError;

/// Contents in the order of the source.
pub(crate) struct ReorderBuffer<'env> {
    bytes: BufferWriter<'env>,
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

/// Contents whose order is known.
pub(crate) struct Arranged {
    /// Buffer space.
    pub(crate) bytes: Buffered,
    /// In the order of the source.
    pub(crate) items: Vec<Item>,
    /// Indexes of the items, in the order in which they are stored.
    pub(crate) order: Vec<u32>,
}

impl<'env> ReorderBuffer<'env> {
    /// An empty buffer that holds at most `memory_bytes_max` bytes in memory.
    pub(crate) fn new(
        build: Build<'env>,
        memory_bytes_max: u64,
        temp_dir: Option<PathBuf>,
        layout_order: LayoutOrder,
    ) -> Self {
        let bytes = BufferWriter::new(build, memory_bytes_max, temp_dir);
        Self { bytes, items: Vec::new(), layout_order }
    }

    /// Length of buffer space.
    pub(crate) fn end(&self) -> u64 {
        self.bytes.end()
    }

    /// Most bytes that were in the temporary file at a time.
    pub(crate) fn file_len_max(&self) -> u64 {
        self.bytes.file_len_max()
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
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<u64, WriteError> {
        self.bytes.push(bytes)
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
        let end = self.end();
        self.items.push(Item { start, end, content: content as u32, content_len, category, class });
        self.layout_order.push(sketch, end - start);
    }

    /// Forgets the bytes from `start` on: those of a content that is given up.
    pub(crate) fn truncate(&mut self, start: u64) -> Result<(), WriteError> {
        self.bytes.truncate(start)
    }

    /// Finds the order. Waits until the bytes are where they stay.
    pub(crate) fn finish(self) -> Result<Arranged, WriteError> {
        let bytes = self.bytes.finish()?;
        Ok(Arranged { bytes, items: self.items, order: self.layout_order.finish() })
    }
}

impl Item {
    /// Returns the range in buffer space.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// A part of a buffered content, at most 1 MiB long.
pub(crate) struct Part {
    pub(crate) item: Item,
    /// Place of the content in the order.
    pub(crate) position: usize,
    /// Bytes of the part, in buffer space.
    pub(crate) range: Range<u64>,
}

/// Bytes of a part.
const PART_LEN: u64 = 1 << 20;

/// Returns the parts of all contents, in this order. Contents without bytes have one part.
pub(crate) fn parts_of<'a>(items: &'a [Item], order: &'a [u32]) -> impl Iterator<Item = Part> + 'a {
    order.iter().enumerate().flat_map(|(position, &index)| {
        let item = items[index as usize];
        let Range { start, end } = item.range();
        let count = (end - start).div_ceil(PART_LEN).max(1);
        (0..count).map(move |number| {
            let from = start + number * PART_LEN;
            Part { item, position, range: from..end.min(from + PART_LEN) }
        })
    })
}
