//! Plain frames that wait for their references: in memory up to a budget, then in a temporary
//! file, so that every input is read once. Where contents wait in the reorder buffer, their bytes
//! stay there, and a frame is a list of ranges of it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::exec::spill::{Spill, Spilled};
use crate::frame::body::{Body, Ranges};
use crate::frame::framer::{FrameTraits, PlainFrame};
use crate::plan::error::WriteError;

/// All frames of a build.
#[derive(Debug)]
pub(crate) struct WaitingFrames {
    frames: Vec<WaitingFrame>,
    spill: Spill,
    stream_len: u64,
}

#[derive(Debug)]
struct WaitingFrame {
    /// Offset in stream space.
    start: u64,
    traits: FrameTraits,
    bytes: WaitingBytes,
}

#[derive(Debug)]
enum WaitingBytes {
    Kept(Spilled<SharedBytes>),
    Ranges(Ranges),
}

impl WaitingBytes {
    fn len(&self) -> usize {
        match self {
            Self::Kept(kept) => kept.len(),
            Self::Ranges(ranges) => ranges.len(),
        }
    }
}

/// Bytes that tasks look at while they wait.
#[derive(Debug)]
struct SharedBytes(Arc<Vec<u8>>);

/// The bytes of a frame, for a task.
#[derive(Debug)]
pub(crate) enum LoadFrame {
    Bytes(Arc<Vec<u8>>),
    Ranges(Ranges),
}

impl LoadFrame {
    /// Returns the bytes.
    ///
    /// # Errors
    /// Those of reading a temporary file.
    pub(crate) fn load(self) -> Result<Arc<Vec<u8>>, WriteError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Ranges(ranges) => ranges.gather(),
        }
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl WaitingFrames {
    /// No frames, from `start` in stream space on. At most `memory_bytes_max` bytes of them will be
    /// in memory.
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>, start: u64) -> Self {
        let spill = Spill::new(memory_bytes_max, temp_dir);
        Self { frames: Vec::new(), spill, stream_len: start }
    }

    /// Adds the next frame. Returns its bytes for a task that looks at them.
    pub(crate) fn push(&mut self, frame: PlainFrame) -> Result<LoadFrame, WriteError> {
        let (bytes, load) = match frame.body {
            Body::Bytes(bytes) => {
                let memory_len = bytes.capacity() as u64;
                let bytes = Arc::new(bytes);
                let kept = self.spill.keep(SharedBytes(Arc::clone(&bytes)), memory_len);
                let kept = kept.map_err(WriteError::TemporaryFile)?;
                (WaitingBytes::Kept(kept), LoadFrame::Bytes(bytes))
            }
            Body::Ranges(mut ranges) => {
                ranges.shrink();
                (WaitingBytes::Ranges(ranges.clone()), LoadFrame::Ranges(ranges))
            }
        };
        self.frames.push(WaitingFrame { start: self.stream_len, traits: frame.traits, bytes });
        self.stream_len += frame.len as u64;
        Ok(load)
    }

    /// Number of frames.
    pub(crate) fn count(&self) -> usize {
        self.frames.len()
    }

    /// Plain bytes of a frame.
    pub(crate) fn frame_len(&self, index: usize) -> usize {
        self.frames[index].bytes.len()
    }

    /// What is known of a frame beside its bytes.
    pub(crate) fn traits(&self, index: usize) -> FrameTraits {
        self.frames[index].traits
    }

    /// The frame that holds the byte at an offset in stream space; the last one for offsets beyond
    /// the end.
    pub(crate) fn frame_at(&self, stream_offset: u64) -> usize {
        self.frames.partition_point(|frame| frame.start <= stream_offset).saturating_sub(1)
    }

    /// A frame's bytes. Allocates unless they are in memory as a whole.
    pub(crate) fn frame(&self, index: usize) -> Result<Arc<Vec<u8>>, WriteError> {
        match &self.frames[index].bytes {
            WaitingBytes::Ranges(ranges) => ranges.gather(),
            WaitingBytes::Kept(Spilled::Memory(bytes)) => Ok(Arc::clone(&bytes.0)),
            WaitingBytes::Kept(in_file) => {
                let mut bytes = vec![0; in_file.len()];
                let read = self.spill.read(in_file, 0, &mut bytes);
                read.map_err(WriteError::TemporaryFile)?;
                Ok(Arc::new(bytes))
            }
        }
    }

    /// Fills `out` with bytes of the stream, all of which must have been pushed.
    pub(crate) fn read_at(
        &self,
        mut stream_offset: u64,
        mut out: &mut [u8],
    ) -> Result<(), WriteError> {
        debug_assert!(stream_offset + out.len() as u64 <= self.stream_len);
        for frame in &self.frames[self.frame_at(stream_offset)..] {
            if out.is_empty() {
                break;
            }
            let from = (stream_offset - frame.start) as usize;
            let len = out.len().min(frame.bytes.len() - from);
            let (part, rest) = out.split_at_mut(len);
            match &frame.bytes {
                WaitingBytes::Ranges(ranges) => ranges.read_at(from, part)?,
                WaitingBytes::Kept(kept) => {
                    self.spill.read(kept, from, part).map_err(WriteError::TemporaryFile)?;
                }
            }
            stream_offset += len as u64;
            out = rest;
        }
        Ok(())
    }

    /// Bytes in the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.spill.file_len()
    }
}

#[cfg(test)]
mod tests {
    use shale_format::Category;

    use super::*;

    const TRAITS: FrameTraits =
        FrameTraits { category: Category::Text, class: 0, is_hot: false, samples: None };

    fn frame(bytes: Vec<u8>) -> PlainFrame {
        PlainFrame { len: bytes.len(), body: Body::Bytes(bytes), traits: TRAITS }
    }

    #[test]
    fn frames_come_back_from_memory_and_file() {
        let mut waiting = WaitingFrames::new(250, None, 0);
        let mut stream = Vec::new();
        for n in 0..20u8 {
            let bytes = vec![n; 40 + usize::from(n)];
            stream.extend_from_slice(&bytes);
            waiting.push(frame(bytes)).unwrap();
        }
        assert!(waiting.file_len() > 0 && waiting.file_len() < stream.len() as u64);
        for n in 0..20u8 {
            let frame = waiting.frame(usize::from(n)).unwrap();
            assert_eq!(**frame, vec![n; 40 + usize::from(n)]);
        }
        for (from, len) in [(0, stream.len()), (39, 3), (230, 100), (stream.len() - 1, 1), (5, 0)] {
            let mut out = vec![0; len];
            waiting.read_at(from as u64, &mut out).unwrap();
            assert_eq!(out, stream[from..from + len]);
        }
    }

    #[test]
    fn a_missing_temporary_directory_is_an_error() {
        let mut waiting = WaitingFrames::new(0, Some(PathBuf::from("/nonexistent/directory")), 0);
        assert!(matches!(waiting.push(frame(vec![1])), Err(WriteError::TemporaryFile(_))));
    }
}
