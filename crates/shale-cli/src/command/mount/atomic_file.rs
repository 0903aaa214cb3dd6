//! A file that is replaced as a whole: written under another name, then renamed. A reader never
//! sees a part of it, even if the writer is killed.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file, by its absolute path.
#[derive(Debug, Clone)]
pub struct AtomicFile {
    path: PathBuf,
    mode: u32,
}

impl AtomicFile {
    /// Prepares a file with these permission bits. Does not change what is at `path`, but checks
    /// that it can be replaced.
    ///
    /// # Errors
    /// Something other than a regular file is at `path`, or no file can be made there.
    pub fn new(path: &Path, mode: u32) -> io::Result<Self> {
        // Renaming over a device or a pipe would remove it for everybody.
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() => {
                return Err(io::Error::other("something that is not a regular file is there"));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = Self { path: path.to_owned(), mode };
        drop(file.begin()?);
        std::fs::remove_file(file.unfinished())?;
        Ok(file)
    }

    /// Replaces the whole file. Its bytes and its name are on the disk when this returns.
    ///
    /// # Errors
    /// The file cannot be written, synced or renamed.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.begin()?;
        file.write_all(bytes)?;
        // Without this, a machine that stops may show the name without the bytes.
        file.sync_data()?;
        // Closed first, so that one open file is enough: a driver may be short of file handles.
        drop(file);
        std::fs::rename(self.unfinished(), &self.path)?;
        // Without this, a machine that stops may show the previous file.
        match self.path.parent() {
            Some(parent) => shale::sync_directory(File::open(parent)?),
            None => Ok(()),
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes an empty file under the other name, in place of one that a killed driver left there.
    fn begin(&self) -> io::Result<File> {
        let name = self.unfinished();
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => OpenOptions::new().write(true).create_new(true).mode(self.mode).open(name),
        }
    }

    fn unfinished(&self) -> OsString {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        name
    }
}
