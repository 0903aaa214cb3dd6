//! Why an entry, or a whole source, cannot be read.

use std::fmt;
use std::io;

use rustix::io::Errno;
use thiserror::Error;

/// An error that ends the reading of a source.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The source as a whole cannot be read: its root is missing, the archive is damaged.
    #[error("cannot read the source {}: {error}", String::from_utf8_lossy(.path))]
    Unreadable {
        /// The name of the source.
        path: Vec<u8>,
        /// Why it failed.
        #[source]
        error: io::Error,
    },
    /// Several sources claim the same paths.
    #[error("{count} paths are in more than one source; nothing was packed")]
    Conflict {
        /// The first of these paths.
        paths: Vec<Vec<u8>>,
        /// Number of these paths.
        count: u64,
    },
    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
}

/// An entry that could not be packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path below the root of the source.
    pub path: Vec<u8>,
    /// What is wrong.
    pub kind: ProblemKind,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// It cannot be opened, listed or read; the message of the system.
    Unreadable(String),
    /// It existed when its directory was listed and does not exist any more.
    Vanished,
    /// It changed each time it was read.
    Changed,
    /// Another file has its path, or its extended attributes changed, since its directory was
    /// listed. What was found out then (other names of the inode, attributes) is no longer true.
    Replaced,
    /// A directory with the same path came before it.
    Collision,
    /// It exceeds a limit of the format.
    Limit(String),
}

/// An entry that was packed although it changed while it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path below the root of the source.
    pub path: Vec<u8>,
    /// How it changed.
    pub kind: ChangeKind,
}

/// How a file changed while it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It grew. The bytes up to the length that it had when it was opened are packed.
    Grew {
        /// Bytes packed.
        len: u64,
    },
    /// It shrank. The bytes that were left are packed.
    Shrank {
        /// Bytes packed.
        len: u64,
    },
    /// Its bytes or times changed each time it was read. The last reading is packed, which may mix
    /// two states.
    Rewritten,
}

/// Bytes of a path that a message shows.
const SHOWN_LEN_MAX: usize = 1024;

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_path(f, &self.path)?;
        write!(f, ": {}", self.kind)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_path(f, &self.path)?;
        write!(f, ": {}", self.kind)
    }
}

fn write_path(f: &mut fmt::Formatter<'_>, path: &[u8]) -> fmt::Result {
    let path = if path.is_empty() { &b"."[..] } else { path };
    let shown = &path[..path.len().min(SHOWN_LEN_MAX)];
    f.write_str(&String::from_utf8_lossy(shown))?;
    if shown.len() < path.len() {
        write!(f, "... ({} bytes)", path.len())?;
    }
    Ok(())
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grew { len } => {
                write!(f, "grew while it was read; its first {len} bytes are packed")
            }
            Self::Shrank { len } => {
                write!(f, "shrank while it was read; the {len} bytes that were left are packed")
            }
            Self::Rewritten => f.write_str(
                "changed each time it was read; the last reading is packed, which may mix two states",
            ),
        }
    }
}

impl ProblemKind {
    /// Returns what an error of the system means for the entry that was opened, listed or read.
    pub fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Vanished,
            io::ErrorKind::StaleNetworkFileHandle => Self::Replaced,
            // The path leads through a link now.
            _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => Self::Vanished,
            _ => Self::Unreadable(message(error)),
        }
    }

    /// Returns whether this is normal for a tree that is in use: the file vanished, or another has
    /// its path. Everything else is a fault of the source.
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Vanished | Self::Changed | Self::Replaced)
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => f.write_str(why),
            Self::Vanished => f.write_str("vanished while the source was read"),
            Self::Replaced => {
                f.write_str("was replaced, or its attributes changed, while the source was read")
            }
            Self::Collision => f.write_str("would replace the directory that has the same path"),
            Self::Changed => f.write_str("changed each time it was read"),
            Self::Limit(what) => f.write_str(what),
        }
    }
}

/// Returns the message of the system without the number that Rust appends.
fn message(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
