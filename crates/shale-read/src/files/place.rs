//! Where a file of an image is, and how to reach the files beside it.
//!
//! A thin image names its base by the name of its file alone, so that a hostile image cannot name
//! any other file of the machine than those in its own directory.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::source::{ByteSource, FileSource};

/// The place of a file: a path, or a URL of a caller that knows how to open one.
pub trait Place: Send + Sync {
    /// Opens the file for reading.
    ///
    /// # Errors
    /// It does not exist or cannot be read.
    fn open(&self) -> io::Result<Arc<dyn ByteSource>>;

    /// Its name, without directories.
    fn name(&self) -> Vec<u8>;

    /// The place of the file with another name in the same directory. `name` has no slash.
    fn beside(&self, name: &[u8]) -> Arc<dyn Place>;

    /// The place of the file of this name in it, if it is a directory.
    fn inside(&self, name: &[u8]) -> Option<Arc<dyn Place>> {
        let _ = name;
        None
    }

    /// The place in words, for messages.
    fn shown(&self) -> String;

    /// What tells this file from others, however it is named.
    fn key(&self) -> String {
        self.shown()
    }
}

/// Where the bases of thin images may be: files, and directories that hold them by name.
#[derive(Clone, Default)]
pub struct Bases(pub Vec<Arc<dyn Place>>);

impl fmt::Debug for Bases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|place| place.shown())).finish()
    }
}

/// A file or block device of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace(PathBuf);

impl FilePlace {
    /// The place of a path.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self(path.as_ref().to_owned())
    }
}

impl Place for FilePlace {
    fn open(&self) -> io::Result<Arc<dyn ByteSource>> {
        Ok(Arc::new(FileSource::open(&self.0)?))
    }

    fn name(&self) -> Vec<u8> {
        self.0.file_name().unwrap_or_default().as_bytes().to_vec()
    }

    /// In the directory of the path. If there is no such file, and the path is a symbolic link, in
    /// the directory of the file that it leads to.
    fn beside(&self, name: &[u8]) -> Arc<dyn Place> {
        let name = OsStr::from_bytes(name);
        let direct = self.0.with_file_name(name);
        if !direct.exists()
            && let Ok(real) = std::fs::canonicalize(&self.0)
            && real.with_file_name(name).exists()
        {
            return Arc::new(Self(real.with_file_name(name)));
        }
        Arc::new(Self(direct))
    }

    fn inside(&self, name: &[u8]) -> Option<Arc<dyn Place>> {
        let found = || Arc::new(Self(self.0.join(OsStr::from_bytes(name)))) as Arc<dyn Place>;
        (self.0.is_dir() && !name.is_empty()).then(found)
    }

    fn shown(&self) -> String {
        self.0.display().to_string()
    }

    fn key(&self) -> String {
        let real = std::fs::canonicalize(&self.0);
        real.as_ref().unwrap_or(&self.0).as_os_str().as_bytes().escape_ascii().to_string()
    }
}
