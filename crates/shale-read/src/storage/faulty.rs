//! A source that fails or returns wrong bytes, for tests of any crate.
//!
//! The n-th read fails, ranges are damaged or the end is missing. All of this can change while an
//! image is open.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::storage::source::ByteSource;

/// A source with faults.
#[derive(Debug)]
pub struct FaultySource<S> {
    inner: S,
    read_count: AtomicU64,
    faults: Mutex<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    failing_reads: Vec<u64>,
    fail_all: bool,
    len_max: Option<u64>,
    damage: Vec<(Range<u64>, u8)>,
}

impl<S: ByteSource> FaultySource<S> {
    /// A source without faults yet.
    pub fn new(inner: S) -> Self {
        Self { inner, read_count: AtomicU64::new(0), faults: Mutex::default() }
    }

    /// Makes the `n`-th read fail, counted from 0.
    pub fn fail_read(&self, n: u64) {
        self.with(|faults| faults.failing_reads.push(n));
    }

    /// Makes all reads fail, or lets them succeed again.
    pub fn fail_all(&self, fail: bool) {
        self.with(|faults| faults.fail_all = fail);
    }

    /// Flips the bits of `mask` in every byte of `range`.
    pub fn damage(&self, range: Range<u64>, mask: u8) {
        self.with(|faults| faults.damage.push((range, mask)));
    }

    /// Makes reads beyond `len` fail, as if the source was truncated after it was opened.
    pub fn cut(&self, len: u64) {
        self.with(|faults| faults.len_max = Some(len));
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.with(|faults| *faults = Faults::default());
    }

    /// Number of reads so far, failed ones included.
    pub fn read_count(&self) -> u64 {
        self.read_count.load(Relaxed)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Faults) -> T) -> T {
        change(&mut self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: ByteSource> ByteSource for FaultySource<S> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let n = self.read_count.fetch_add(1, Relaxed);
        let end = offset.saturating_add(buf.len() as u64);
        self.with(|faults| {
            if faults.fail_all || faults.failing_reads.contains(&n) {
                return Err(io::Error::other("a fault was requested"));
            }
            if faults.len_max.is_some_and(|len_max| end > len_max) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok(())
        })?;
        self.inner.read_at(offset, buf)?;
        self.with(|faults| {
            for (range, mask) in &faults.damage {
                let from = range.start.clamp(offset, end) - offset;
                let to = range.end.clamp(offset, end) - offset;
                for byte in &mut buf[from as usize..to.max(from) as usize] {
                    *byte ^= mask;
                }
            }
        });
        Ok(())
    }

    fn base_len(&self) -> u64 {
        self.inner.base_len()
    }
}
