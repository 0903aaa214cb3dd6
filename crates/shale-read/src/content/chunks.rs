//! Chunks of deflate streams: found by their place in rebuilt space, and rebuilt from plain bytes.

use std::sync::Arc;

use shale_codec::xxh3_64;
use shale_deflate::{AFTER_LEN, Cut, InHand, Model, Task};
use shale_format::ChunkRecord;
use shale_format::limits::CHUNK_PROBES_MAX;
use shale_format::schema::chunks;

use crate::error::{ErrorContext, Expected, Fault, ReadError, contradiction, value};
use crate::frames::part::FrameBytes;
use crate::storage::pages::TableHandle;
use crate::storage::plan::Plan;

/// Plain bytes that may be rebuilt to read one chunk whose bytes lie in other chunks: enough for
/// small streams that lie densely in the longest chunk and its window.
pub(crate) const NESTED_PLAIN_LEN_MAX: u64 = 16 << 20;

/// The table of chunks of one image.
pub(crate) struct ChunkTable(TableHandle);

/// What a chunk is rebuilt from.
pub(crate) struct Recipe {
    pub(crate) record: ChunkRecord,
    model: Model,
    /// Bytes of the content before the chunk that are needed.
    window_len: u64,
}

impl ChunkTable {
    pub(crate) fn new(table: TableHandle) -> Self {
        Self(table)
    }

    /// Number of chunks.
    pub(crate) fn count(&self) -> u64 {
        self.0.item_count()
    }

    /// Adds the top page to `plan`.
    pub(crate) fn plan_top(&self, plan: &mut Plan<'_>) {
        self.0.plan_top(plan);
    }

    /// The chunk that holds the byte at this offset in rebuilt space, and its record.
    pub(crate) fn at(&self, offset: u64) -> Result<(u64, ChunkRecord), ReadError> {
        let row = self.0.table()?.cursor().search_u64(offset)?;
        let Some(chunk) = row.filter(|&row| row < self.count()) else {
            return Err(value("offset in rebuilt space", offset, Expected::AtMost(self.end()?)));
        };
        let record = self.record(chunk)?;
        // Rows that do not ascend lead a search astray.
        let end = record.base.saturating_add(record.len);
        if !(record.base..end).contains(&offset) {
            let error = value("base of the chunk", record.base, Expected::AtMost(offset));
            return Err(error.at(format!("chunk {chunk}")));
        }
        Ok((chunk, record))
    }

    /// End of rebuilt space.
    fn end(&self) -> Result<u64, ReadError> {
        match self.count() {
            0 => Ok(0),
            count => Ok(self.0.table()?.u64(chunks::BASE, count)?),
        }
    }

    /// The validated record of a chunk.
    pub(crate) fn record(&self, chunk: u64) -> Result<ChunkRecord, ReadError> {
        let count = self.count();
        if chunk >= count {
            return Err(Fault::NoIndex { what: "chunk", index: chunk, count }.into());
        }
        let record = || -> Result<ChunkRecord, ReadError> {
            let table = self.0.table()?;
            let mut cursor = table.cursor();
            let mut columns = [0; chunks::SCHEMA.columns.len()];
            for (column, value) in columns.iter_mut().enumerate() {
                *value = cursor.u64(column, chunk)?;
            }
            Ok(ChunkRecord::from_columns(&columns, cursor.u64(chunks::BASE, chunk + 1)?)?)
        };
        record().at(|| format!("chunk {chunk}"))
    }
}

impl Recipe {
    /// What `record` asks for.
    pub(crate) fn new(record: ChunkRecord) -> Result<Self, ReadError> {
        let Ok(model) = Model::from_number(record.model) else {
            return Err(Fault::UnknownModel { model: record.model }.into());
        };
        Ok(Self { record, model, window_len: record.offset.min(model.window_needed()) })
    }

    /// The range of the content that is needed. It may reach beyond the end of the content.
    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        let ChunkRecord { offset, plain_len, .. } = self.record;
        let end = offset.saturating_add(plain_len).saturating_add(AFTER_LEN as u64);
        offset - self.window_len..end
    }

    /// Rebuilds the chunk from the bytes of [`Self::range`].
    pub(crate) fn rebuild(&self, bytes: &[u8]) -> Result<FrameBytes, ReadError> {
        let (window, rest) = bytes
            .split_at_checked(self.window_len as usize)
            .ok_or_else(|| contradiction("a chunk begins beyond the end of its content"))?;
        let (plain, after) = rest
            .split_at_checked(self.record.plain_len as usize)
            .ok_or_else(|| contradiction("a chunk ends beyond the end of its content"))?;
        let carried = self.record.carried;
        let cut = Cut {
            before: self.record.offset,
            bits: carried.bits,
            bit_count: carried.bit_count,
            in_hand: (carried.match_len > 0)
                .then_some(InHand { len: carried.match_len, distance: carried.match_distance }),
        };
        let task = Task { window, plain, after };
        let rebuilt = shale_deflate::rebuild(self.model, &cut, &task, CHUNK_PROBES_MAX)
            .map_err(|error| Fault::Rebuild { error })?;
        let len = rebuilt.len() as u64;
        if len != self.record.len {
            return Err(value(
                "length of a rebuilt chunk",
                len,
                Expected::Exactly(self.record.len),
            ));
        }
        let (expected, found) = (u64::from(self.record.sum), xxh3_64(&rebuilt) & 0xffff_ffff);
        if found != expected {
            return Err(Fault::Checksum { what: "rebuilt", expected, found }.into());
        }
        Ok(Arc::new(rebuilt))
    }
}
