//! A file that grows at its end: it has all that was added, or is as it was.
//!
//! The bytes before its end are never changed, so who reads it notices nothing. One process at a
//! time may add to it: it holds a lock of the system (flock), which is gone when the process ends.
//! What an interrupted process left after the end is cut off when the next one begins.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::error::Error;
use crate::progress::Cancel;

/// Time between two looks at a lock that another process holds.
const WAIT: Duration = Duration::from_millis(100);

/// A file that is open for adding to its end.
#[derive(Debug)]
pub struct GrowingFile {
    file: File,
    path: PathBuf,
    /// Where it ends while nothing is added, once that is known.
    end: Option<u64>,
    /// Where the next byte goes.
    at: u64,
}

impl GrowingFile {
    /// Opens a regular file and locks it. With `wait`, waits until it is not locked by another
    /// process.
    ///
    /// # Errors
    /// The file cannot be opened for writing, is not a regular file, or is locked.
    pub fn open(path: &Path, wait: bool, cancel: &Cancel) -> Result<Self, Error> {
        loop {
            let file = File::options().read(true).write(true).open(path);
            let file = file.map_err(Error::io("open for writing", path))?;
            let found = file.metadata().map_err(Error::io("look at", path))?;
            if !found.is_file() {
                return Err(Error::NotReplaceable { path: path.to_owned() });
            }
            loop {
                match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) => break,
                    Err(Errno::WOULDBLOCK) if wait => {
                        cancel.check()?;
                        std::thread::sleep(WAIT);
                    }
                    Err(Errno::WOULDBLOCK) => {
                        let holder = holder(found.dev(), found.ino());
                        return Err(Error::Locked { path: path.to_owned(), holder });
                    }
                    Err(error) => return Err(Error::io("lock", path)(error)),
                }
            }
            // While this process waited, another file may have got the name.
            let named = std::fs::metadata(path).map_err(Error::io("look at", path))?;
            if (named.dev(), named.ino()) == (found.dev(), found.ino()) {
                return Ok(Self { file, path: path.to_owned(), end: None, at: 0 });
            }
        }
    }

    /// Takes a file that nobody else has, and that is called `path` in messages.
    pub fn adopt(file: File, path: &Path) -> Self {
        Self { file, path: path.to_owned(), end: None, at: 0 }
    }

    /// Where what is added begins, once that is known.
    pub fn begun(&self) -> Option<u64> {
        self.end
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Cuts off what follows `end` and adds from there on. Until [`GrowingFile::finish`], an error
    /// or a drop restores this state.
    ///
    /// `mark` is what the added bytes begin with. It is on the disk before any other of them is
    /// written, in whatever order a disk writes, so what a crash leaves can be told from bytes of
    /// someone else. Costs one sync.
    ///
    /// # Errors
    /// The file cannot be cut, or the mark cannot be written.
    pub fn begin(&mut self, end: u64, mark: &[u8]) -> Result<(), Error> {
        self.file.set_len(end).map_err(Error::io("cut the end of", &self.path))?;
        self.end = Some(end);
        self.at = end;
        let marked = self.file.write_all_at(mark, end).and_then(|()| self.file.sync_data());
        marked.map_err(Error::io("write to", &self.path))
    }

    /// Adds the last bytes once all others are on the disk, and waits until they are there, too.
    ///
    /// # Errors
    /// The file cannot be written. It is restored when this is dropped.
    pub fn finish(&mut self, last: &[u8]) -> Result<(), Error> {
        let written = self.file.sync_all();
        let written = written.and_then(|()| self.file.write_all_at(last, self.at));
        let written = written.and_then(|()| self.file.sync_all());
        written.map_err(Error::io("write to", &self.path))?;
        self.end = None;
        Ok(())
    }
}

impl Write for GrowingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.file.write_at(bytes, self.at)?;
        self.at += len as u64;
        Ok(len)
    }

    /// Waits until everything is on the disk.
    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

impl Drop for GrowingFile {
    fn drop(&mut self) {
        if let Some(end) = self.end {
            // If that fails, the bytes stay after the end, where readers ignore them.
            let _ = self.file.set_len(end);
        }
        // A child process that has not begun its program yet shares the open file.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Names the process that holds a lock on a file, as far as the system tells.
fn holder(device: u64, inode: u64) -> String {
    locker(device, inode).unwrap_or_else(|| "another process".to_owned())
}

/// Names the process that adds to the file at `path` now, if the system tells. Takes no lock, so it
/// is in nobody's way.
pub fn grower(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    locker(found.dev(), found.ino())
}

/// Names the process that holds a lock on a file, if the system tells.
fn locker(device: u64, inode: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let process = locks.lines().find_map(|line| {
        // NUMBER: FLOCK ADVISORY WRITE PROCESS FILE START END
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, process, place, ..] if place == file => Some(process),
            _ => None,
        }
    })?;
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some(match name.trim_end() {
        "" => format!("process {process}"),
        name => format!("process {process} ({name})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finished_is_gone_and_what_is_finished_stays() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        std::fs::write(&path, "before, and torn").unwrap();
        let open = || GrowingFile::open(&path, false, &Cancel::new()).unwrap();
        let mut file = open();
        file.begin(6, b" m").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"before m");
        file.write_all(b" more").unwrap();
        file.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"before more");
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        let mut file = open();
        file.begin(6, b" ").unwrap();
        file.write_all(b" and").unwrap();
        file.finish(b" after").unwrap();
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), b"before and after");
        // One that never began changes nothing.
        drop(open());
        assert_eq!(std::fs::read(&path).unwrap(), b"before and after");
    }

    #[test]
    fn a_second_process_is_told_who_holds_the_lock() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        std::fs::write(&path, "").unwrap();
        let first = GrowingFile::open(&path, false, &Cancel::new()).unwrap();
        let error = GrowingFile::open(&path, false, &Cancel::new()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        // Waiting ends with the caller's wish.
        let cancel = Cancel::new();
        cancel.cancel();
        assert!(matches!(GrowingFile::open(&path, true, &cancel), Err(Error::Cancelled)));
        drop(first);
        GrowingFile::open(&path, true, &Cancel::new()).unwrap();
        assert!(GrowingFile::open(temp.path(), false, &Cancel::new()).is_err(), "a directory");
    }
}
