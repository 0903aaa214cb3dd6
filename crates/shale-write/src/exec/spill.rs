//! A memory budget, and a temporary file for what does not fit into it.
//!
//! The file is made when it is first written to. It has no name, so it is gone when the build
//! ends, however it ends. What is kept in memory stays with the caller; a spill only says how much
//! that may be and holds the rest.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Memory that is left, and the file for the rest.
#[derive(Debug)]
pub(crate) struct Spill {
    memory_bytes_left: u64,
    temp_dir: Option<PathBuf>,
    file: Option<Arc<File>>,
    file_len: u64,
}

/// Bytes that are kept in memory or in the file.
#[derive(Debug)]
pub(crate) enum Spilled<T> {
    /// In memory.
    Memory(T),
    /// In the file.
    File {
        /// Where the bytes begin.
        offset: u64,
        /// How many there are.
        len: usize,
    },
}

impl Spill {
    /// An empty spill with a budget of `memory_bytes_max`. The file goes to `temp_dir`, by default
    /// to the system's directory for temporary files.
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        Self { memory_bytes_left: memory_bytes_max, temp_dir, file: None, file_len: 0 }
    }

    /// Takes `len` bytes of the memory budget; returns false if they are not left. After the first
    /// refusal nothing is left, so that everything that follows goes to the file in order.
    pub(crate) fn take_memory(&mut self, len: u64) -> bool {
        let left = self.memory_bytes_left.checked_sub(len);
        self.memory_bytes_left = left.unwrap_or(0);
        left.is_some()
    }

    /// Returns `len` bytes to the memory budget.
    pub(crate) fn give_back_memory(&mut self, len: u64) {
        self.memory_bytes_left += len;
    }

    /// Keeps an item, which takes `memory_len` bytes in memory, there or in the file.
    ///
    /// # Errors
    /// Those of making and writing the file.
    pub(crate) fn keep<T: AsRef<[u8]>>(
        &mut self,
        item: T,
        memory_len: u64,
    ) -> io::Result<Spilled<T>> {
        if self.take_memory(memory_len) {
            return Ok(Spilled::Memory(item));
        }
        let (offset, len) = (self.file_len, item.as_ref().len());
        self.write_at(item.as_ref(), offset)?;
        Ok(Spilled::File { offset, len })
    }

    /// Fills `out` with the bytes of an item from `from` on.
    ///
    /// # Errors
    /// Those of reading the file.
    pub(crate) fn read<T: AsRef<[u8]>>(
        &self,
        item: &Spilled<T>,
        from: usize,
        out: &mut [u8],
    ) -> io::Result<()> {
        match item {
            Spilled::Memory(item) => {
                out.copy_from_slice(&item.as_ref()[from..from + out.len()]);
                Ok(())
            }
            Spilled::File { offset, .. } => self.read_at(out, offset + from as u64),
        }
    }

    /// Writes to the file.
    ///
    /// # Errors
    /// Those of making and writing the file.
    pub(crate) fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write(offset, bytes.len() as u64)?.all(bytes)
    }

    /// Makes the file `len` bytes longer. Returns a way to write them from any thread.
    ///
    /// # Errors
    /// Those of making the file.
    pub(crate) fn extend(&mut self, len: u64) -> io::Result<SpillWrite> {
        self.write(self.file_len, len)
    }

    fn write(&mut self, offset: u64, len: u64) -> io::Result<SpillWrite> {
        let folder = || self.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => {
                let made = tempfile::tempfile_in(folder());
                let made = made.and_then(|file| file.set_len(self.file_len).map(|()| file));
                Arc::new(made.map_err(|error| in_folder(error, &folder()))?)
            }
        };
        let write = SpillWrite { file: Arc::clone(&file), folder: folder(), offset };
        self.file = Some(file);
        self.file_len = self.file_len.max(offset + len);
        Ok(write)
    }

    /// Reads from the file. Bytes that were never written are zero.
    ///
    /// # Errors
    /// `UnexpectedEof` beyond the end of the file, and those of reading it.
    pub(crate) fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.file {
            Some(file) => file.read_exact_at(out, offset),
            None if offset + out.len() as u64 <= self.file_len => {
                out.fill(0);
                Ok(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Cuts the file off at `len`, or extends it with zeroes.
    ///
    /// # Errors
    /// Those of changing the file.
    pub(crate) fn set_file_len(&mut self, len: u64) -> io::Result<()> {
        if let Some(file) = &self.file {
            file.set_len(len)?;
        }
        self.file_len = len;
        Ok(())
    }

    /// Bytes in the file.
    pub(crate) fn file_len(&self) -> u64 {
        self.file_len
    }
}

/// A range of the file that is to be written.
#[derive(Debug)]
pub(crate) struct SpillWrite {
    file: Arc<File>,
    folder: PathBuf,
    offset: u64,
}

impl SpillWrite {
    /// Writes the whole range.
    ///
    /// # Errors
    /// Those of writing the file, with its folder.
    pub(crate) fn all(&self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all_at(bytes, self.offset);
        written.map_err(|error| in_folder(error, &self.folder))
    }
}

/// Says where a temporary file could not be made or written.
fn in_folder(error: io::Error, folder: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("in the folder {}: {error}", folder.display()))
}

impl<T: AsRef<[u8]>> Spilled<T> {
    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Memory(item) => item.as_ref().len(),
            Self::File { len, .. } => *len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_from_memory_and_file() {
        let mut spill = Spill::new(250, None);
        let content = |n: usize| vec![n as u8; 40 + n];
        let items: Vec<_> =
            (0..20).map(|n| spill.keep(content(n), 40 + n as u64).unwrap()).collect();
        let in_memory = items.iter().take_while(|item| matches!(item, Spilled::Memory(_))).count();
        assert_eq!(in_memory, 5, "40 to 44 bytes fit, 45 more do not");
        assert!(items[in_memory..].iter().all(|item| matches!(item, Spilled::File { .. })));
        assert_eq!(spill.file_len(), (5..20).map(|n| 40 + n).sum());
        for (n, item) in items.iter().enumerate() {
            assert_eq!(item.len(), 40 + n);
            let mut out = vec![0; 40 + n - 3];
            spill.read(item, 3, &mut out).unwrap();
            assert_eq!(out, content(n)[3..]);
        }
    }

    #[test]
    fn the_file_can_be_cut_and_extended() {
        let mut spill = Spill::new(0, None);
        spill.set_file_len(9).unwrap();
        let mut out = [1; 5];
        spill.read_at(&mut out, 4).unwrap();
        assert_eq!(out, [0; 5]);
        assert!(spill.read_at(&mut out, 5).is_err(), "beyond the end");
        spill.write_at(&[7; 100], 10).unwrap();
        spill.set_file_len(50).unwrap();
        spill.write_at(&[8; 2], 50).unwrap();
        spill.set_file_len(60).unwrap();
        let mut out = [1; 52];
        spill.read_at(&mut out, 8).unwrap();
        assert_eq!(out[..3], [0, 0, 7]);
        assert_eq!(out[40..46], [7, 7, 8, 8, 0, 0]);
        assert!(spill.read_at(&mut out, 9).is_err(), "beyond the end");
    }

    #[test]
    fn memory_that_is_given_back_is_used_again() {
        let mut spill = Spill::new(10, None);
        assert!(spill.take_memory(10) && !spill.take_memory(1));
        spill.give_back_memory(5);
        assert!(spill.take_memory(5) && !spill.take_memory(1));
    }

    #[test]
    fn a_missing_temporary_directory_is_an_error() {
        let mut spill = Spill::new(0, Some(PathBuf::from("/nonexistent/directory")));
        assert_eq!(spill.keep([1], 1).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
