//! Plain frames that wait for their references: in memory up to a budget, then in a temporary
//! file, so that every input is read once.
//!
//! The file has no name, so it is gone when the build ends, however it ends. It is as long as the
//! plain bytes that did not fit into memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::WriteError;
use crate::order::{FrameTraits, PlainFrame};
use crate::temporary::get_or_make;

/// All frames of a build.
#[derive(Debug)]
pub(crate) struct Spool {
    slots: Vec<Slot>,
    memory_bytes_left: u64,
    temp_dir: Option<PathBuf>,
    file: Option<File>,
    file_len: u64,
    stream_len: u64,
}

#[derive(Debug)]
struct Slot {
    /// Offset in stream space.
    start: u64,
    len: usize,
    traits: FrameTraits,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Memory(Arc<Vec<u8>>),
    File(u64),
}

impl Spool {
    /// An empty spool that holds so many bytes in memory.
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        Self {
            slots: Vec::new(),
            memory_bytes_left: memory_bytes_max,
            temp_dir,
            file: None,
            file_len: 0,
            stream_len: 0,
        }
    }

    /// Adds the next frame; gives its bytes back for whoever wants to look at them.
    pub(crate) fn push(&mut self, frame: PlainFrame) -> Result<Arc<Vec<u8>>, WriteError> {
        let len = frame.bytes.len();
        let bytes = Arc::new(frame.bytes);
        let place = if bytes.capacity() as u64 <= self.memory_bytes_left {
            self.memory_bytes_left -= bytes.capacity() as u64;
            Place::Memory(Arc::clone(&bytes))
        } else {
            // Once one frame did not fit, the rest goes to the file in order.
            self.memory_bytes_left = 0;
            let offset = self.file_len;
            get_or_make(&mut self.file, self.temp_dir.as_deref())
                .and_then(|file| file.write_all_at(&bytes, offset))
                .map_err(WriteError::Spool)?;
            self.file_len += len as u64;
            Place::File(offset)
        };
        self.slots.push(Slot { start: self.stream_len, len, traits: frame.traits, place });
        self.stream_len += len as u64;
        Ok(bytes)
    }

    /// Number of frames.
    pub(crate) fn frame_count(&self) -> usize {
        self.slots.len()
    }

    /// Plain bytes of a frame.
    pub(crate) fn frame_len(&self, index: usize) -> usize {
        self.slots[index].len
    }

    /// What else is known of a frame.
    pub(crate) fn traits(&self, index: usize) -> FrameTraits {
        self.slots[index].traits
    }

    /// The frame that holds the byte at an offset in stream space; the last one behind the end.
    pub(crate) fn frame_at(&self, stream_offset: u64) -> usize {
        self.slots.partition_point(|slot| slot.start <= stream_offset).saturating_sub(1)
    }

    /// A frame's bytes; allocates if they are in the file.
    pub(crate) fn frame(&self, index: usize) -> Result<Arc<Vec<u8>>, WriteError> {
        match &self.slots[index].place {
            Place::Memory(bytes) => Ok(Arc::clone(bytes)),
            Place::File(_) => {
                let mut bytes = vec![0; self.slots[index].len];
                self.read_slot(index, 0, &mut bytes).map_err(WriteError::Spool)?;
                Ok(Arc::new(bytes))
            }
        }
    }

    /// Bytes of the stream; all of them must have been pushed.
    pub(crate) fn read_at(&self, mut stream_offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        let mut index = self.frame_at(stream_offset);
        while !out.is_empty() {
            let slot = self.slots.get(index).ok_or(io::ErrorKind::UnexpectedEof)?;
            let from = (stream_offset - slot.start) as usize;
            let len = out.len().min(slot.len.saturating_sub(from));
            let (part, rest) = out.split_at_mut(len);
            self.read_slot(index, from, part)?;
            stream_offset += len as u64;
            out = rest;
            index += 1;
        }
        Ok(())
    }

    /// Bytes in the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.file_len
    }

    fn read_slot(&self, index: usize, from: usize, out: &mut [u8]) -> io::Result<()> {
        match (&self.slots[index].place, &self.file) {
            (Place::Memory(bytes), _) => out.copy_from_slice(&bytes[from..from + out.len()]),
            (Place::File(offset), Some(file)) => file.read_exact_at(out, offset + from as u64)?,
            (Place::File(_), None) => return Err(io::ErrorKind::NotFound.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use shale_format::Category;

    use super::*;

    const TRAITS: FrameTraits = FrameTraits { category: Category::Text, is_hot: false };

    #[test]
    fn frames_come_back_from_memory_and_file() {
        let mut spool = Spool::new(250, None);
        let mut stream = Vec::new();
        for n in 0..20u8 {
            let bytes = vec![n; 40 + usize::from(n)];
            stream.extend_from_slice(&bytes);
            spool.push(PlainFrame { bytes, traits: TRAITS }).unwrap();
        }
        assert!(spool.file_len() > 0 && spool.file_len() < stream.len() as u64);
        for n in 0..20u8 {
            let frame = spool.frame(usize::from(n)).unwrap();
            assert_eq!(**frame, vec![n; 40 + usize::from(n)]);
        }
        for (from, len) in [(0, stream.len()), (39, 3), (230, 100), (stream.len() - 1, 1), (5, 0)] {
            let mut out = vec![0; len];
            spool.read_at(from as u64, &mut out).unwrap();
            assert_eq!(out, stream[from..from + len]);
        }
        let mut beyond = vec![0; 2];
        assert!(spool.read_at(stream.len() as u64 - 1, &mut beyond).is_err());
    }

    #[test]
    fn a_missing_temporary_directory_is_an_error() {
        let mut spool = Spool::new(0, Some(PathBuf::from("/nonexistent/directory")));
        let frame = PlainFrame { bytes: vec![1], traits: TRAITS };
        assert!(matches!(spool.push(frame), Err(WriteError::Spool(_))));
    }
}
