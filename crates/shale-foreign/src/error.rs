//! Why an archive cannot be read: what, in which entry, at which byte.

use std::fmt;
use std::io;

use shale_write::WriteError;

/// What is wrong with an archive, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignError {
    /// Name of the format.
    pub format: &'static str,
    /// Byte of the archive; of a compressed one, of what it decompresses to.
    pub offset: Option<u64>,
    /// Path of the entry, where it is known.
    pub entry: Option<Vec<u8>>,
    /// What is wrong.
    pub what: String,
}

impl ForeignError {
    /// An error without a place.
    pub fn new(format: &'static str, what: impl Into<String>) -> Self {
        Self { format, offset: None, entry: None, what: what.into() }
    }

    /// With the byte it is at.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.offset.get_or_insert(offset);
        self
    }

    /// With the entry it is in.
    #[must_use]
    pub fn of(mut self, entry: &[u8]) -> Self {
        if self.entry.is_none() && !entry.is_empty() {
            self.entry = Some(entry.to_vec());
        }
        self
    }

    /// As an error of the source `path`.
    pub fn into_source(self, path: &[u8]) -> WriteError {
        let error = io::Error::new(io::ErrorKind::InvalidData, self);
        WriteError::Source { path: path.to_vec(), error }
    }
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.format)?;
        if let Some(entry) = &self.entry {
            write!(f, ", entry {}", entry.escape_ascii())?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", at byte {offset}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for ForeignError {}

impl From<ForeignError> for io::Error {
    fn from(error: ForeignError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}
