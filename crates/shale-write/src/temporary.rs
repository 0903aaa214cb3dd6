//! Temporary files of a build. They have no name, so they are gone when it ends, however it ends.

use std::fs::File;
use std::io;
use std::path::Path;

/// A new one, in `directory` or where the system has them.
pub(crate) fn temporary_file(directory: Option<&Path>) -> io::Result<File> {
    match directory {
        Some(directory) => tempfile::tempfile_in(directory),
        None => tempfile::tempfile(),
    }
}
