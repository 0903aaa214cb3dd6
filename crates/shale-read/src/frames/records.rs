//! Frame records and references: where frames are stored, and how they decode.
//!
//! Every field is checked against limits, tables and the image before it is used. Nothing is
//! decoded here.

use std::ops::Range;

use shale_format::FrameRecord;
use shale_format::limits::REFERENCE_COUNT_MAX;
use shale_format::schema::{frames, references};
use shale_table::Table;

use crate::error::{ErrorContext, Expected, Fault, ReadError, value};
use crate::storage::pages::{TableHandle, TablePages};
use crate::storage::plan::Plan;
use crate::storage::stored::Stored;

/// Frame records read at once by [`FrameRecords`].
const RECORDS_PER_STEP: u64 = 512;

/// Reference frames of one frame, in prefix order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct References {
    frames: [u64; REFERENCE_COUNT_MAX as usize],
    count: usize,
}

impl References {
    /// The frame indexes.
    pub fn frames(&self) -> &[u64] {
        &self.frames[..self.count]
    }
}

/// The tables of frames and references of one image.
pub(crate) struct FrameTables {
    frames: TableHandle,
    references: TableHandle,
    /// The bytes that frames must lie in.
    stored: Stored,
}

impl FrameTables {
    pub(crate) fn new(frames: TableHandle, references: TableHandle, stored: Stored) -> Self {
        Self { frames, references, stored }
    }

    /// The bytes that frames lie in.
    pub(crate) fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Adds the top pages of both tables to `plan`.
    pub(crate) fn plan_tops(&self, plan: &mut Plan<'_>) {
        self.frames.plan_top(plan);
        self.references.plan_top(plan);
    }

    /// Adds the pages with the records of `frames` to `plan`.
    pub(crate) fn plan_records(&self, frames: &[u64], plan: &mut Plan<'_>) {
        for &frame in frames {
            // The row after a frame's holds the end of its plain bytes.
            self.frames.plan_rows(frame..frame.saturating_add(2), plan);
        }
    }

    /// Adds the pages with the references of `records` to `plan`.
    pub(crate) fn plan_references(&self, records: &[FrameRecord], plan: &mut Plan<'_>) {
        for record in records.iter().filter(|record| record.reference_count > 0) {
            let first = record.reference_first;
            let end = first.saturating_add(u64::from(record.reference_count));
            self.references.plan_rows(first..end, plan);
        }
    }

    pub(crate) fn frame_count(&self) -> u64 {
        self.frames.item_count()
    }

    /// The table of frames, for lookups by stream offset.
    pub(crate) fn frames(&self) -> Result<Table<'_, TablePages>, ReadError> {
        self.frames.table()
    }

    /// The validated record of a frame. Touches one or two pages.
    pub(crate) fn record(&self, frame: u64) -> Result<FrameRecord, ReadError> {
        if frame >= self.frame_count() {
            let count = self.frame_count();
            return Err(Fault::NoIndex { what: "frame", index: frame, count }.into());
        }
        let record = || -> Result<FrameRecord, ReadError> {
            let table = self.frames.table()?;
            let (page, first_row) = table.page_of(frame)?;
            let row = (frame - first_row) as usize;
            let mut columns = [0; 10];
            for (column, value) in columns.iter_mut().enumerate() {
                *value = page.u64(column, row)?;
            }
            let next_plain_start = if row + 1 < page.row_count() {
                page.u64(frames::PLAIN_START, row + 1)?
            } else {
                table.u64(frames::PLAIN_START, frame + 1)?
            };
            self.validate(&columns, next_plain_start)
        };
        record().at(|| format!("frame {frame}"))
    }

    /// The typed record of a row, if every field is possible.
    fn validate(
        &self,
        columns: &[u64; 10],
        next_plain_start: u64,
    ) -> Result<FrameRecord, ReadError> {
        let record = FrameRecord::from_columns(columns, next_plain_start)?;
        self.stored.check(record.stored_offset, record.stored_len)?;
        let row_count = self.references.row_count();
        match record.reference_first.checked_add(u64::from(record.reference_count)) {
            Some(end) if end <= row_count || record.reference_count == 0 => Ok(record),
            _ => {
                let expected = Expected::AtMost(row_count);
                Err(value("first reference and count", record.reference_first, expected))
            }
        }
    }

    /// The frames that `record` refers to, each of which exists. Touches one or two pages if there
    /// are any.
    pub(crate) fn references(&self, record: &FrameRecord) -> Result<References, ReadError> {
        let mut found = References::default();
        if record.reference_count == 0 {
            return Ok(found);
        }
        let table = self.references.table()?;
        let count = record.reference_count.min(REFERENCE_COUNT_MAX);
        for row in record.reference_first..record.reference_first + u64::from(count) {
            let frame = table.u64(references::FRAME, row)?;
            if frame >= self.frame_count() {
                let expected = Expected::AtMost(self.frame_count().saturating_sub(1));
                let error = value("reference frame", frame, expected);
                return Err(error.at(format!("references row {row}")));
            }
            found.frames[found.count] = frame;
            found.count += 1;
        }
        Ok(found)
    }

    /// The records of `frames`, clipped to the frames that exist.
    pub(crate) fn records(&self, frames: Range<u64>) -> FrameRecords<'_> {
        let end = frames.end.min(self.frame_count());
        FrameRecords {
            tables: self,
            next: frames.start.min(end),
            end,
            first: 0,
            count: 0,
            columns: Default::default(),
            singly_until: 0,
        }
    }
}

/// Frame records in order: see [`crate::Image::frame_records`].
pub struct FrameRecords<'i> {
    tables: &'i FrameTables,
    next: u64,
    end: u64,
    /// The frames whose columns are loaded: `count` of them from `first` on. The columns hold one
    /// row more.
    first: u64,
    count: u64,
    columns: [Vec<u64>; 10],
    /// Frames before this one are read one by one, because reading them at once failed.
    singly_until: u64,
}

impl FrameRecords<'_> {
    /// Loads the columns of the next frames, and of the row after them.
    fn fill(&mut self) -> Result<(), ReadError> {
        self.count = 0;
        let count = (self.end - self.next).min(RECORDS_PER_STEP);
        let table = self.tables.frames.table()?;
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
        Some(self.tables.validate(&columns, next_plain_start))
    }
}

impl Iterator for FrameRecords<'_> {
    type Item = Result<(u64, FrameRecord), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let frame = self.next;
        let is_loaded = frame.checked_sub(self.first).is_some_and(|at| at < self.count);
        if !is_loaded && frame >= self.singly_until && self.fill().is_err() {
            // One damaged page must not hide the records on intact ones.
            self.singly_until = frame.saturating_add(RECORDS_PER_STEP);
        }
        self.next += 1;
        let at = frame.wrapping_sub(self.first);
        let record = if at < self.count { self.record(at as usize) } else { None };
        let record = match record {
            Some(record) => record.at(|| format!("frame {frame}")),
            None => self.tables.record(frame),
        };
        Some(record.map(|record| (frame, record)))
    }
}
