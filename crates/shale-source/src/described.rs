//! What the caller names as input.

use std::path::{Path, PathBuf};

use shale_read::SnapshotChoice;

/// One input of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its kind and place.
    pub kind: InputKind,
    /// Path in the image below which it is packed; the root by default.
    pub prefix: Option<Vec<u8>>,
    /// The snapshot of a ShaleFS image that is packed; the newest by default. Other inputs have
    /// none.
    pub snapshot: Option<SnapshotChoice>,
}

/// Kind and place of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputKind {
    /// A directory, an archive, or a pipe with an archive.
    Path(PathBuf),
    /// An archive from standard input.
    Stdin,
    /// A file that describes a tree (`docs/manifest.md`); `-` is standard input.
    Manifest(PathBuf),
}

impl Input {
    /// Returns standard input for `-`, else the file or directory at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let kind = match path.as_os_str() == "-" {
            true => InputKind::Stdin,
            false => InputKind::Path(path),
        };
        Self { kind, prefix: None, snapshot: None }
    }

    /// Returns a name for messages.
    pub fn name(&self) -> &Path {
        match &self.kind {
            InputKind::Path(path) | InputKind::Manifest(path) => path,
            InputKind::Stdin => Path::new("standard input"),
        }
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Input {
    fn from(path: &P) -> Self {
        let kind = InputKind::Path(path.as_ref().to_owned());
        Self { kind, prefix: None, snapshot: None }
    }
}
