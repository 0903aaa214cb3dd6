//! Finds the samples of sound and pictures in a content, from front to back.
//!
//! A content is recognised by its first bytes, see `sound.rs`, `fits.rs` and `pictures.rs`. What
//! is found only decides how bytes are compressed: a wrong guess costs size, never correctness.

use std::ops::Range;

use shale_codec::SampleShape;
use shale_format::Category;

use crate::content::fits;
use crate::content::pictures::picture_of;
use crate::content::sound::sound_of;

/// Shorter runs of samples are treated as any bytes.
const SAMPLES_LEN_MIN: u64 = 4096;

/// Samples of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Samples {
    pub(crate) shape: SampleShape,
    /// Groups of a row, or 0.
    pub(crate) row_len: u32,
}

/// Bytes that are samples, and how far they are from the first sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleRun {
    pub(crate) samples: Samples,
    pub(crate) at: u64,
}

impl SampleRun {
    /// The run without its first `len` bytes.
    pub(crate) fn after(self, len: u64) -> SampleRun {
        SampleRun { at: self.at + len, ..self }
    }
}

/// Splits a content into samples and other bytes while it is read.
#[derive(Debug)]
pub(crate) struct SampleFinder {
    /// Length of the content, as far as known.
    len: u64,
    /// Position of the next byte.
    at: u64,
    /// The samples that come next, or that go on.
    next: Option<(Range<u64>, Samples)>,
    /// Where the next header begins, and as much of it as was read.
    header: Option<(u64, Vec<u8>)>,
    category: Option<Category>,
}

impl SampleFinder {
    /// For a content of about `len` bytes.
    pub(crate) fn new(len: u64) -> SampleFinder {
        SampleFinder { len, at: 0, next: None, header: None, category: None }
    }

    /// What the content is, if its first bytes say so.
    pub(crate) fn category(&self) -> Option<Category> {
        self.category
    }

    /// Takes the next bytes. Returns the ranges of them that are samples, in order.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<(Range<usize>, SampleRun)> {
        if self.at == 0 {
            self.recognise(bytes);
        }
        let mut found = Vec::new();
        let mut done = 0;
        while done < bytes.len() {
            let at = self.at + done as u64;
            let left = bytes.len() - done;
            let up_to = |position: u64| {
                usize::try_from(position.saturating_sub(at)).unwrap_or(usize::MAX).min(left)
            };
            if let Some((range, samples)) = &self.next {
                if at < range.start {
                    done += up_to(range.start);
                } else if at < range.end {
                    let len = up_to(range.end);
                    let run = SampleRun { samples: *samples, at: at - range.start };
                    found.push((done..done + len, run));
                    done += len;
                } else {
                    self.next = None;
                }
            } else if let Some((start, header)) = &mut self.header {
                if at < *start {
                    done += up_to(*start);
                    continue;
                }
                let len = left.min(fits::BLOCK_LEN - header.len() % fits::BLOCK_LEN);
                header.extend_from_slice(&bytes[done..done + len]);
                done += len;
                if header.len().is_multiple_of(fits::BLOCK_LEN) {
                    self.end_block(at + len as u64);
                }
            } else {
                break;
            }
        }
        self.at += bytes.len() as u64;
        found
    }

    /// Skips a hole.
    pub(crate) fn skip(&mut self, len: u64) {
        self.at += len;
        // A header with a hole in it is none.
        if self.header.as_ref().is_some_and(|(start, _)| *start < self.at) {
            self.header = None;
        }
    }

    fn recognise(&mut self, bytes: &[u8]) {
        if let Some((range, shape)) = sound_of(bytes, self.len) {
            self.expect(range, Samples { shape, row_len: 0 });
            self.category = Some(Category::Audio);
        } else if fits::is_fits(bytes) {
            self.header = Some((0, Vec::new()));
            self.category = Some(Category::Sensor);
        } else if let Some((range, shape, row_len)) = picture_of(bytes) {
            let row_len = u32::try_from(row_len).unwrap_or(0);
            self.expect(range, Samples { shape, row_len });
        }
    }

    /// Notes samples, unless they are few.
    fn expect(&mut self, range: Range<u64>, samples: Samples) {
        let range = range.start..range.end.min(self.len);
        if range.start < range.end && range.end - range.start >= SAMPLES_LEN_MIN {
            self.next = Some((range, samples));
        }
    }

    /// Looks whether a header ended with the block that ends at `end`.
    fn end_block(&mut self, end: u64) {
        let Some((_, header)) = &self.header else { return };
        let block = &header[header.len() - fits::BLOCK_LEN..];
        if !fits::ends_header(block) {
            if header.len() >= fits::HEADER_LEN_MAX {
                self.header = None;
            }
            return;
        }
        let unit = fits::unit_of(header);
        self.header = None;
        let Some(unit) = unit else { return };
        if let Some((shape, row_len)) = unit.picture {
            let row_len = u32::try_from(row_len).unwrap_or(0);
            self.expect(end..end.saturating_add(unit.data_len), Samples { shape, row_len });
        }
        let after = end.saturating_add(unit.data_len);
        if let Some(next) = after.checked_next_multiple_of(fits::BLOCK_LEN as u64) {
            self.header = Some((next, Vec::new()));
        }
    }
}
