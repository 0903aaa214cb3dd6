//! The stored bytes of one image: reads that stay inside the image and are counted.
//!
//! Offsets here count from the superblock, wherever that lies in the source.

use std::ops::Range;
use std::sync::Arc;

use crate::counters::{Counters, add};
use crate::error::{Expected, Fault, ReadError, value};
use crate::storage::source::ByteSource;

/// The part of a source that is the image, with counters for its reads.
#[derive(Clone)]
pub(crate) struct Stored {
    source: Arc<dyn ByteSource>,
    start: u64,
    len: u64,
    counters: Arc<Counters>,
}

impl Stored {
    /// The bytes of `source` from `start` to its end.
    pub(crate) fn new(source: Arc<dyn ByteSource>, start: u64, counters: Arc<Counters>) -> Self {
        let len = source.len().saturating_sub(start);
        Self { source, start, len, counters }
    }

    /// The first `len` of these bytes.
    pub(crate) fn first(self, len: u64) -> Self {
        Self { len: len.min(self.len), ..self }
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// True if it pays to plan reads: see [`ByteSource::is_far`].
    pub(crate) fn is_far(&self) -> bool {
        self.source.is_far()
    }

    /// Bytes of the base, if this is a thin image: see [`ByteSource::base_len`].
    pub(crate) fn base_len(&self) -> u64 {
        self.source.base_len().saturating_sub(self.start)
    }

    /// Says that ranges of the image will be read soon. Those outside the image are left out.
    pub(crate) fn will_need(&self, ranges: &[Range<u64>]) {
        let inside = ranges.iter().filter(|range| range.start < range.end && range.end <= self.len);
        let moved = inside.map(|range| self.start + range.start..self.start + range.end);
        self.source.will_need(&moved.collect::<Vec<_>>());
    }

    /// Checks that the bytes `offset..offset + len` lie inside the image.
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<(), ReadError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => {
                let expected = Expected::AtMost(self.len);
                Err(value("end of the stored bytes", offset.saturating_add(len), expected))
            }
        }
    }

    /// Fills `buf` from `offset`. One read of the source.
    pub(crate) fn read_into(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len() as u64;
        self.check(offset, len)?;
        let offset = self.start + offset; // Within the source, by `check`.
        add(&self.counters.source_reads, 1);
        add(&self.counters.source_bytes, len);
        self.source.read_at(offset, buf).map_err(|error| Fault::Io { offset, len, error }.into())
    }

    /// A buffer for `len` bytes from `offset`, allocated after the range was checked to be inside
    /// the image. The caller has bounded `len`.
    pub(crate) fn buffer(&self, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        self.check(offset, len as u64)?;
        Ok(vec![0; len])
    }

    /// Reads `len` bytes from `offset`. The caller has bounded `len`.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = self.buffer(offset, len)?;
        self.read_into(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `buf` from `offset` and verifies it. If the bytes are damaged or cannot be read, and
    /// the source can repair them, the repaired bytes are verified instead.
    pub(crate) fn read_verified<T>(
        &self,
        offset: u64,
        buf: &mut [u8],
        mut verify: impl FnMut(&[u8]) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let error = match self.read_into(offset, buf).and_then(|()| verify(buf)) {
            Err(error) if error.is_repairable() => error,
            result => return result,
        };
        // Wrong bytes may come from a copy, or have been changed on their way.
        if !matches!(error.fault(), Fault::Io { .. })
            && self.source.read_again(self.start + offset, buf)
            && let Ok(verified) = verify(buf)
        {
            return Ok(verified);
        }
        // A range outside the image is a wrong number, not damage of the bytes it points to. The
        // repaired bytes are returned at once, because the source may drop its copy at any moment.
        if self.check(offset, buf.len() as u64).is_err()
            || !self.source.heal(self.start + offset, buf)
        {
            return Err(error);
        }
        add(&self.counters.reads_repaired, 1);
        verify(buf)
    }
}

/// Compares the checksum of `bytes` with the one in the image.
pub(crate) fn check_sum(what: &'static str, expected: u64, bytes: &[u8]) -> Result<(), ReadError> {
    match shale_codec::xxh3_64(bytes) {
        found if found == expected => Ok(()),
        found => Err(Fault::Checksum { what, expected, found }.into()),
    }
}
