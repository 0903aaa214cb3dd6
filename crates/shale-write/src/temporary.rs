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

/// The one in `slot`, made when it is first asked for.
pub(crate) fn get_or_make<'a>(
    slot: &'a mut Option<File>,
    directory: Option<&Path>,
) -> io::Result<&'a File> {
    let file = match slot.take() {
        Some(file) => file,
        None => temporary_file(directory)?,
    };
    Ok(slot.insert(file))
}
