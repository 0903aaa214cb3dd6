//! Frame records, and one frame decoded and verified with all it refers to.
//!
//! A frame is decoded with the plain bytes of its references as prefix, so decoding one may mean
//! decoding others first. That recursion is bounded by the image's shape, which is checked before
//! each step: the depth of a reference is smaller than the frame's own, so there are no cycles and
//! at most eight levels, also between readers that wait for each other. What one read may decode
//! in all is bounded by the caller's limit.

use std::collections::HashMap;
use std::sync::Arc;

use shale_codec::{Codec, CodecError, Filter};
use shale_format::FrameRecord;
use shale_format::limits::{PREFIX_LEN_MAX, REFERENCE_COUNT_MAX};
use shale_format::schema::{frames, references};

use crate::cache::{FrameBytes, FrameKey};
use crate::counters::add;
use crate::decoders::Context;
use crate::error::{Expected, Fault, Place, ReadError, contradiction, value};
use crate::image::Image;
use crate::stored::check_sum;
use crate::workers::Workers;

/// Frames that one read may decode; far beyond what honest bounds on bytes allow.
const FRAMES_PER_READ_MAX: u64 = 65_536;

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

/// What one read has decoded so far.
#[derive(Default)]
struct Work {
    bytes: u64,
    frames: u64,
    /// Frames met during this read: none is decoded twice for it, however small the cache.
    met: HashMap<u64, FrameBytes>,
    /// A reader waits for this, so others may be asked to help.
    may_share: bool,
}

impl Image {
    /// Frames of the image, all snapshots together.
    pub fn frame_count(&self) -> u64 {
        self.frames.item_count()
    }

    /// The record of a frame: where it is stored and how it decodes. Touches one or two pages;
    /// checks every field against limits, tables and image.
    pub fn frame_record(&self, frame: u64) -> Result<FrameRecord, ReadError> {
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
            self.validate_record(&columns, next_plain_start)
        };
        record().at(|| format!("frame {frame}"))
    }

    /// The typed record, if everything it says can be.
    pub(crate) fn validate_record(
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
    pub fn references(&self, record: &FrameRecord) -> Result<References, ReadError> {
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

    /// The plain bytes of a frame, from the cache or decoded now.
    ///
    /// Cost when it is not cached: one read and one decode, and the same for each reference that is
    /// not cached, at most [`crate::Options::read_bytes_max`] plain bytes in all. Verifies the
    /// checksums of stored and plain bytes of all of them.
    pub fn frame(&self, frame: u64) -> Result<FrameBytes, ReadError> {
        let key = FrameKey { image: self.number(), frame };
        match self.cache().get(key, self.counters()) {
            Some(bytes) => Ok(bytes),
            None => {
                let mut work = Work { may_share: true, ..Work::default() };
                self.frame_of(frame, &self.frame_record(frame)?, &mut work)
            }
        }
    }

    /// Decodes a frame into the cache unless it is there or someone is at it; `guessed` says that
    /// no reader has asked for it. Returns whether it was decoded now. Asks nobody for help.
    pub(crate) fn decode_ahead(&self, frame: u64, guessed: bool) -> Result<bool, ReadError> {
        let key = FrameKey { image: self.number(), frame };
        if self.cache().contains(key) {
            return Ok(false);
        }
        let record = self.frame_record(frame)?;
        self.cache().decode_ahead(key, self.counters(), guessed, || {
            self.decode(frame, &record, &mut Work::default())
        })
    }

    /// As [`Image::frame`], but the frame itself is read, decoded and verified whether or not it is
    /// cached, and not put into the cache. Its references go through the cache, as they serve many.
    pub fn frame_verified(&self, frame: u64) -> Result<FrameBytes, ReadError> {
        let record = self.frame_record(frame)?;
        self.decode(frame, &record, &mut Work::default())
    }

    /// That one read may decode this much.
    pub(crate) fn check_read_bound(&self, bytes: u64, frames: u64) -> Result<(), ReadError> {
        let bytes_max = self.read_bytes_max();
        if bytes > bytes_max || frames > FRAMES_PER_READ_MAX {
            return Err(Fault::ReadBound { bytes_max, frames_max: FRAMES_PER_READ_MAX }.into());
        }
        Ok(())
    }

    fn frame_of(
        &self,
        frame: u64,
        record: &FrameRecord,
        work: &mut Work,
    ) -> Result<FrameBytes, ReadError> {
        if let Some(bytes) = work.met.get(&frame) {
            add(&self.counters().frame_hits, 1);
            return Ok(Arc::clone(bytes));
        }
        let key = FrameKey { image: self.number(), frame };
        let bytes = self
            .cache()
            .get_or_decode(key, self.counters(), || self.decode(frame, record, work))?;
        // Only references are met again; the frame asked for is the last one.
        work.met.insert(frame, Arc::clone(&bytes));
        Ok(bytes)
    }

    fn decode(
        &self,
        frame: u64,
        record: &FrameRecord,
        work: &mut Work,
    ) -> Result<FrameBytes, ReadError> {
        work.bytes += record.plain_len; // At most 65,536 times 64 MiB.
        work.frames += 1;
        self.check_read_bound(work.bytes, work.frames).at(|| format!("frame {frame}"))?;
        let bytes = self
            .reference_bytes(record, work)
            .and_then(|references| {
                let _decoding = self.workers.as_deref().map(Workers::decoding);
                self.decode_with(record, &references)
            })
            .at(|| format!("frame {frame}"))?;
        add(&self.counters().frames_decoded, 1);
        add(&self.counters().plain_bytes_decoded, record.plain_len);
        Ok(Arc::new(bytes))
    }

    /// The plain bytes of a frame's references, pinned for as long as they are held.
    fn reference_bytes(
        &self,
        record: &FrameRecord,
        work: &mut Work,
    ) -> Result<Vec<FrameBytes>, ReadError> {
        if record.reference_count == 0 {
            return Ok(Vec::new());
        }
        if Filter::from_id(record.filter).is_some_and(|filter| !filter.is_in_place()) {
            let count = u64::from(record.reference_count);
            return Err(value("references of a frame of lines", count, Expected::Exactly(0)));
        }
        let references = self.references(record)?;
        let mut records = Vec::with_capacity(references.frames().len());
        let mut prefix_len = 0;
        for &frame in references.frames() {
            let reference = self.frame_record(frame)?;
            // Before anything waits for it: this is what makes waiting free of cycles.
            if reference.depth >= record.depth {
                let expected = Expected::AtMost(u64::from(record.depth.saturating_sub(1)));
                let error = value("depth of a reference", u64::from(reference.depth), expected);
                return Err(error.at(format!("reference to frame {frame}")));
            }
            prefix_len += reference.plain_len; // At most 16 times 64 MiB.
            records.push((frame, reference));
        }
        if prefix_len > PREFIX_LEN_MAX {
            let expected = Expected::AtMost(PREFIX_LEN_MAX);
            return Err(value("length of all references", prefix_len, expected));
        }
        if work.may_share {
            self.share(records.iter().map(|(frame, record)| (*frame, record.plain_len)));
        }
        records.iter().map(|(frame, record)| self.frame_of(*frame, record, work)).collect()
    }

    /// Fills `buf` with the stored bytes of a frame and verifies them.
    fn read_frame(&self, record: &FrameRecord, buf: &mut [u8]) -> Result<(), ReadError> {
        self.stored.healing(record.stored_offset, buf, |bytes| {
            check_sum("stored", record.stored_sum, bytes)
        })
    }

    /// Reads and decodes one frame whose references are at hand.
    fn decode_with(
        &self,
        record: &FrameRecord,
        references: &[FrameBytes],
    ) -> Result<Vec<u8>, ReadError> {
        let Some(codec) = Codec::from_id(record.codec) else {
            return Err(value("codec", u64::from(record.codec), Expected::AtMost(4)));
        };
        let Some(filter) = Filter::from_id(record.filter) else {
            let last = Filter::ALL.last().map_or(0, |filter| u64::from(filter.id()));
            return Err(value("filter", u64::from(record.filter), Expected::AtMost(last)));
        };
        let plain_len = record.plain_len as usize; // At most 64 MiB, by `from_columns`.
        let mut plain = Vec::new();
        plain
            .try_reserve_exact(plain_len)
            .map_err(|_| CodecError::OutOfMemory { codec, len: record.plain_len })?;
        if codec == Codec::Stored && filter.is_in_place() {
            // Straight into the result.
            if record.stored_len != record.plain_len {
                let expected = Expected::Exactly(record.plain_len);
                return Err(value("length of a stored frame", record.stored_len, expected));
            }
            plain.resize(plain_len, 0);
            self.read_frame(record, &mut plain)?;
            filter.reverse(&mut plain);
        } else {
            self.cache().decoders.with(|context| -> Result<(), ReadError> {
                let Context { decoder, stored, prefix } = context;
                stored.clear();
                stored.resize(record.stored_len as usize, 0);
                self.read_frame(record, stored)?;
                let prefix = match references {
                    [] => &[][..],
                    [one] if filter == Filter::None => one,
                    several => {
                        prefix.clear();
                        for bytes in several {
                            let from = prefix.len();
                            prefix.extend_from_slice(bytes);
                            filter.apply(&mut prefix[from..]);
                        }
                        prefix
                    }
                };
                let ways = (codec, filter);
                Ok(decoder.decode_filtered(ways, prefix, stored, plain_len, &mut plain)?)
            })?;
        }
        if plain.len() != plain_len {
            return Err(contradiction("a frame decodes to another length than its record says"));
        }
        check_sum("plain", record.plain_sum, &plain)?;
        Ok(plain)
    }
}
