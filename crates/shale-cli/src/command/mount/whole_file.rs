//! A file that is written again and again and always whole: under another name first, then
//! renamed. A reader never sees half of it, whoever is killed.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file by its path, which is absolute.
#[derive(Debug, Clone)]
pub struct WholeFile {
    path: PathBuf,
    mode: u32,
}

impl WholeFile {
    /// A file that is written with these permission bits. Writes nothing under its name yet, but
    /// finds out whether that is possible.
    ///
    /// # Errors
    /// Something that is no file is in its place, or nothing can be made there.
    pub fn new(path: &Path, mode: u32) -> io::Result<Self> {
        // Renaming over a device or a pipe would take it away from everybody.
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

    /// Replaces all of it. It is on the disk when this returns.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.begin()?;
        file.write_all(bytes)?;
        // Otherwise a machine that stops may show the name without the bytes.
        file.sync_data()?;
        // Never more than one open file: a driver may have few left.
        drop(file);
        std::fs::rename(self.unfinished(), &self.path)?;
        // Otherwise it may show what was there before.
        match self.path.parent() {
            Some(parent) => shale::sync_directory(File::open(parent)?),
            None => Ok(()),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new file under the other name; what a killed driver left there is of no use.
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
