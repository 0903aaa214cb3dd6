//! Tables and frames in bulk, for those who look at an image as such: check, dump, info.
//!
//! Nothing here fills the caches with what will not be asked for again: data pages are read past
//! the page cache, frame records come a page at a time, and [`Image::frame_verified`] keeps what it
//! decodes out of the frame cache.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use shale_format::FrameRecord;
use shale_format::schema::{
    contents, directories, entries, extents, frames, inodes, references, symlinks, xattr_items,
    xattr_sets,
};
use shale_table::{Page, PageVisit, Schema, Table, TableRoot};

use crate::error::{Expected, Place, ReadError, value};
use crate::image::Image;
use crate::pages::TablePages;

/// Frame records taken at once.
const RECORDS_PER_STEP: u64 = 512;

/// A table of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableId {
    /// Number of the snapshot it belongs to; none for the tables that all share.
    pub snapshot: Option<usize>,
    /// Its root.
    pub root: TableRoot,
    /// Its schema, which has its name.
    pub schema: &'static Schema,
}

/// What reading one byte of a frame costs with an empty cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadCost {
    /// Frames to decode: the frame and all it needs, each once.
    pub frames: u64,
    /// Their plain bytes; the root's `read_bytes_max` promises the most there are.
    pub plain_bytes: u64,
    /// Their stored bytes.
    pub stored_bytes: u64,
}

/// One page of a table, read from the source and verified.
#[derive(Debug)]
pub struct PageCheck {
    /// Where it is in the table and the image.
    pub visit: PageVisit,
    /// The page, or why there is none.
    pub page: Result<Arc<Page>, ReadError>,
}

impl Image {
    /// Every table of the image: the shared ones, then each snapshot's.
    pub fn tables(&self) -> Vec<TableId> {
        let root = self.root();
        let mut tables: Vec<TableId> = [
            (root.contents, &contents::SCHEMA),
            (root.extents, &extents::SCHEMA),
            (root.frames, &frames::SCHEMA),
            (root.references, &references::SCHEMA),
        ]
        .map(|(root, schema)| TableId { snapshot: None, root, schema })
        .to_vec();
        for (index, snapshot) in root.snapshots.iter().enumerate() {
            let of_snapshot = [
                (snapshot.inodes, &inodes::SCHEMA),
                (snapshot.directories, &directories::SCHEMA),
                (snapshot.entries, &entries::SCHEMA),
                (snapshot.symlinks, &symlinks::SCHEMA),
                (snapshot.xattr_sets, &xattr_sets::SCHEMA),
                (snapshot.xattr_items, &xattr_items::SCHEMA),
            ];
            tables.extend(of_snapshot.map(|(root, schema)| TableId {
                snapshot: Some(index),
                root,
                schema,
            }));
        }
        tables
    }

    /// The pages of a table, to read it with [`shale_table::Table`].
    pub fn table_pages(&self, table: &TableId) -> TablePages {
        TablePages::new(Arc::clone(self.page_store()), &table.root)
    }

    /// Reads and verifies every page of a table, index pages before what they lead to, and shows
    /// each to `visit` until it returns false. A damaged data page is shown as such; behind a
    /// damaged index page nothing can be found, so that one is the error returned.
    ///
    /// One read per page; index pages are read twice.
    pub fn check_table(
        &self,
        table: &TableId,
        mut visit: impl FnMut(PageCheck) -> bool,
    ) -> Result<(), ReadError> {
        let pages = self.table_pages(table);
        let mut check = || {
            Table::new(table.root, table.schema, &pages)?.visit_pages(|found| {
                let schema =
                    if found.level == 0 { table.schema } else { &shale_table::INDEX_SCHEMA };
                let page = pages.read_page(&found.page, schema);
                Ok(visit(PageCheck { visit: found, page }))
            })
        };
        check().map_err(|error: ReadError| error.at(format!("table {}", table.schema.name)))
    }

    /// What reading one byte of a frame costs with an empty cache. Reads records and references of
    /// the frames below it, and no frame. Refuses what [`Image::frame`] would refuse without
    /// decoding: references that do not go down in depth, and more than the limits of a read.
    pub fn read_cost(&self, frame: u64) -> Result<ReadCost, ReadError> {
        let mut cost = ReadCost::default();
        // Each frame with the depth that it has to be below.
        let mut waiting = vec![(frame, u8::MAX)];
        let mut depths: HashMap<u64, u8> = HashMap::new();
        while let Some((next, depth_end)) = waiting.pop() {
            let depth = match depths.get(&next) {
                Some(&depth) => depth,
                None => {
                    let record = self.frame_record(next)?;
                    cost.frames += 1;
                    cost.plain_bytes += record.plain_len;
                    cost.stored_bytes += record.stored_len;
                    self.check_read_bound(cost.plain_bytes, cost.frames)
                        .at(|| format!("frame {frame}"))?;
                    depths.insert(next, record.depth);
                    let references = self.references(&record)?;
                    waiting.extend(references.frames().iter().map(|&below| (below, record.depth)));
                    record.depth
                }
            };
            if depth >= depth_end {
                let expected = Expected::AtMost(u64::from(depth_end.saturating_sub(1)));
                let error = value("depth of a reference", u64::from(depth), expected);
                return Err(error.at(format!("reference to frame {next}")));
            }
        }
        Ok(cost)
    }

    /// The records of `frames`, in order, as far as there are any. Bad records are errors in their
    /// place; the iteration goes on behind them.
    pub fn frame_records(&self, frames: Range<u64>) -> FrameRecords<'_> {
        let end = frames.end.min(self.frame_count());
        FrameRecords {
            image: self,
            next: frames.start.min(end),
            end,
            first: 0,
            count: 0,
            columns: Default::default(),
            singly_until: 0,
        }
    }
}

/// Frame records in order: see [`Image::frame_records`].
pub struct FrameRecords<'i> {
    image: &'i Image,
    next: u64,
    end: u64,
    /// The frames whose columns are at hand, one more row than frames; none if `count` is 0.
    first: u64,
    count: u64,
    columns: [Vec<u64>; 10],
    /// Frames before this one are taken one by one, as taking them at once has failed.
    singly_until: u64,
}

impl FrameRecords<'_> {
    /// Takes the columns of the next frames, and of the row after them.
    fn fill(&mut self) -> Result<(), ReadError> {
        self.count = 0;
        let count = (self.end - self.next).min(RECORDS_PER_STEP);
        let table = self.image.frames.table()?;
        for (column, values) in self.columns.iter_mut().enumerate() {
            table.u64_range(column, self.next..self.next + count + 1, values)?;
        }
        self.first = self.next;
        self.count = count;
        Ok(())
    }

    fn record(&self, at: usize) -> Option<Result<FrameRecord, ReadError>> {
        let mut columns = [0; 10];
        for (value, values) in columns.iter_mut().zip(&self.columns) {
            *value = *values.get(at)?;
        }
        let next_plain_start = *self.columns[frames::PLAIN_START].get(at + 1)?;
        Some(self.image.validate_record(&columns, next_plain_start))
    }
}

impl Iterator for FrameRecords<'_> {
    type Item = Result<(u64, FrameRecord), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let frame = self.next;
        let is_at_hand = frame.checked_sub(self.first).is_some_and(|at| at < self.count);
        if !is_at_hand && frame >= self.singly_until && self.fill().is_err() {
            // Each frame on a good page is still given.
            self.singly_until = frame.saturating_add(RECORDS_PER_STEP);
        }
        self.next += 1;
        let at = frame.wrapping_sub(self.first);
        let record = if at < self.count { self.record(at as usize) } else { None };
        let record = match record {
            Some(record) => record.at(|| format!("frame {frame}")),
            None => self.image.frame_record(frame),
        };
        Some(record.map(|record| (frame, record)))
    }
}
