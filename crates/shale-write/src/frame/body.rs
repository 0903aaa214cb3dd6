//! The plain bytes of a frame: in memory, or as ranges of the reorder buffer.

use std::sync::Arc;

use crate::layout::buffered::Buffered;
use crate::plan::error::WriteError;

/// The bytes of a frame while it is cut, and while it waits.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// Ranges of buffer space, so that no byte is stored twice.
    Ranges(Ranges),
}

impl Body {
    /// Returns a body of the same kind without any bytes.
    pub(crate) fn emptied(&self) -> Self {
        match self {
            Self::Bytes(_) => Self::Bytes(Vec::new()),
            Self::Ranges(ranges) => Self::Ranges(Ranges::of(Arc::clone(&ranges.buffered))),
        }
    }

    /// Fills `out` with the bytes from `from` on.
    ///
    /// # Errors
    /// Those of reading the buffer.
    pub(crate) fn read_at(&self, from: usize, out: &mut [u8]) -> Result<(), WriteError> {
        match self {
            Self::Bytes(bytes) => out.copy_from_slice(&bytes[from..from + out.len()]),
            Self::Ranges(ranges) => ranges.read_at(from, out)?,
        }
        Ok(())
    }
}

/// Ranges of buffer space, one after the other. Takes 16 bytes a range; a range that continues the
/// one before is part of it.
#[derive(Debug, Clone)]
pub(crate) struct Ranges {
    buffered: Arc<Buffered>,
    /// Where each begins, in these bytes and in buffer space.
    starts: Vec<(u32, u64)>,
    /// Bytes of all. A frame is at most 64 MiB long.
    len: u32,
}

impl Ranges {
    /// No ranges of this buffer yet.
    pub(crate) fn of(buffered: Arc<Buffered>) -> Self {
        Self { buffered, starts: Vec::new(), len: 0 }
    }

    /// Appends `len` bytes of buffer space.
    pub(crate) fn push(&mut self, start: u64, len: usize) {
        let continues = self
            .starts
            .last()
            .is_some_and(|&(from, first)| first + u64::from(self.len - from) == start);
        if !continues {
            self.starts.push((self.len, start));
        }
        self.len += len as u32;
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Frees memory that is left for more ranges.
    pub(crate) fn shrink(&mut self) {
        self.starts.shrink_to_fit();
    }

    /// Fills `out` with the bytes from `from` on.
    ///
    /// # Errors
    /// Those of reading the buffer.
    pub(crate) fn read_at(&self, from: usize, mut out: &mut [u8]) -> Result<(), WriteError> {
        let mut at = from as u32;
        let mut index = self.starts.partition_point(|&(start, _)| start <= at).saturating_sub(1);
        while !out.is_empty() {
            let (start, first) = self.starts[index];
            index += 1;
            let end = self.starts.get(index).map_or(self.len, |next| next.0);
            let len = out.len().min((end - at) as usize);
            let (part, rest) = out.split_at_mut(len);
            self.buffered.read_at(first + u64::from(at - start), part)?;
            at += len as u32;
            out = rest;
        }
        Ok(())
    }

    /// Returns all bytes.
    ///
    /// # Errors
    /// Those of reading the buffer.
    pub(crate) fn gather(&self) -> Result<Arc<Vec<u8>>, WriteError> {
        let mut bytes = vec![0; self.len()];
        self.read_at(0, &mut bytes)?;
        Ok(Arc::new(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::buffered::tests::buffered;
    use crate::tests::random;

    #[test]
    fn ranges_that_continue_each_other_are_one_and_give_their_bytes() {
        let bytes = random(1, 3_000_000);
        let mut ranges = Ranges::of(Arc::new(buffered(&bytes, 1 << 20)));
        let mut expected = Vec::new();
        for (start, len) in [(5, 10), (15, 20), (2_000_000, 500_000), (0, 7), (1_040_000, 300_000)]
        {
            ranges.push(start as u64, len);
            expected.extend_from_slice(&bytes[start..start + len]);
        }
        assert_eq!(ranges.starts.len(), 4, "the second continues the first");
        assert_eq!(*ranges.gather().unwrap(), expected);
        for (from, len) in [(0, 1), (29, 2), (30, 600_000), (500_030, 7), (expected.len() - 1, 1)] {
            let mut out = vec![0; len];
            ranges.read_at(from, &mut out).unwrap();
            assert!(out == expected[from..from + len], "{len} bytes from {from}");
        }
    }
}
