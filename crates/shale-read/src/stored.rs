//! The stored bytes of one image: reads that stay inside the image and are counted.
//!
//! Offsets here count from the superblock, wherever that lies in the source.

use std::sync::Arc;

use crate::counters::{Counters, add};
use crate::error::{Expected, Fault, ReadError, value};
use crate::source::Source;

/// A source, the part of it that is the image, and the counters of its reads.
#[derive(Clone)]
pub(crate) struct Stored {
    source: Arc<dyn Source>,
    start: u64,
    len: u64,
    counters: Arc<Counters>,
}

impl Stored {
    /// The bytes of `source` from `start` to its end.
    pub(crate) fn new(source: Arc<dyn Source>, start: u64, counters: Arc<Counters>) -> Self {
        let len = source.len().saturating_sub(start);
        Self { source, start, len, counters }
    }

    /// The same bytes, ending after `len` of them.
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

    /// Whether the bytes `offset..offset + len` lie inside the image.
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

    /// `len` bytes from `offset`; the caller has bounded `len`. Allocates after the range is known
    /// to be inside the image.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        self.check(offset, len as u64)?;
        let mut bytes = vec![0; len];
        self.read_into(offset, &mut bytes)?;
        Ok(bytes)
    }
}

impl Stored {
    /// Runs `attempt`, which reads and verifies `len` bytes from `offset`. Where they are damaged
    /// or not to be read and the source can repair them, it is run once more.
    pub(crate) fn healing<T>(
        &self,
        offset: u64,
        len: u64,
        mut attempt: impl FnMut() -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let error = match attempt() {
            Err(error) if error.is_healable() => error,
            result => return result,
        };
        // A range outside of the image is a wrong number, and no damage of what it points to.
        if self.check(offset, len).is_err() || !self.source.heal(self.start + offset, len) {
            return Err(error);
        }
        add(&self.counters.reads_repaired, 1);
        attempt()
    }
}

/// Compares a checksum with the one the image gives.
pub(crate) fn check_sum(what: &'static str, expected: u64, bytes: &[u8]) -> Result<(), ReadError> {
    match shale_codec::xxh3_64(bytes) {
        found if found == expected => Ok(()),
        found => Err(Fault::Checksum { what, expected, found }.into()),
    }
}
