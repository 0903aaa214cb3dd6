//! Why an archive cannot be read: what is wrong, in which entry, at which byte.

use std::fmt;
use std::io;

use shale_model::SourceError;

use crate::names;

/// What is wrong with an archive, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignError {
    /// Name of the format that was recognised.
    pub format: &'static str,
    /// Offset in the archive; if it is compressed, in what it decompresses to.
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

    /// An error met while content was read. One of this crate stays as it is, so that nothing is
    /// said twice.
    pub(crate) fn of_read(format: &'static str, error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => error,
            Err(error) => Self::new(format, error.to_string()),
        }
    }

    /// Adds an offset, unless it has one.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.offset.get_or_insert(offset);
        self
    }

    /// Adds the path of the entry, unless it has one.
    #[must_use]
    pub fn of(mut self, entry: &[u8]) -> Self {
        if self.entry.is_none() && !entry.is_empty() {
            self.entry = Some(entry.to_vec());
        }
        self
    }

    /// The error of a build with the source `path`.
    pub fn into_source(self, path: &[u8]) -> SourceError {
        let error = io::Error::new(io::ErrorKind::InvalidData, self);
        SourceError::Unreadable { path: path.to_vec(), error }
    }
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.format)?;
        if let Some(entry) = &self.entry {
            write!(f, ", entry {}", names::shown(entry))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_everything_once_and_long_paths_are_cut() {
        let error = ForeignError::new("x", "corrupt").of(&[b'a'; 5000]).at(7);
        let again = ForeignError::of_read("x", io::Error::from(error.clone()));
        assert_eq!(again, error);
        let text = again.to_string();
        assert!(
            text.len() < 400 && text.ends_with("... (5000 bytes), at byte 7: corrupt"),
            "{text}"
        );
    }
}
