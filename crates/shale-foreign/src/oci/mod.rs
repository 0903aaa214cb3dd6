//! Images of containers, in and out: an OCI image layout (a directory, or a tar archive of one) and
//! what `docker save` writes, in only.
//!
//! The layers of one image are taken in order, with their whiteouts, as one tree. Every blob is
//! compared with its sha256 digest before anything in it is believed. Nothing is unpacked to disk:
//! layers are read twice, once to find out what is left of each, and once for contents. Memory is
//! some hundred bytes for each path of the tree.

mod fault; // errors of this format
mod options; // which image is taken
mod blobs; // the files of an image, by path
mod manifest; // which layers an image has
mod tree; // what is left of each layer
mod source; // layers as one source
mod write; // layouts, out

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use shale_model::{EntrySource, SourceError};

use crate::error::ForeignError;
use blobs::Blobs;
pub use options::OciOptions;
pub use write::{LayoutWriter, OciConfig, OciLayer, Temporary, whiteout};

/// Returns true if a directory is an OCI image layout.
pub fn is_layout(path: &Path) -> bool {
    path.join("oci-layout").is_file() && path.join("index.json").is_file()
}

/// Opens an OCI image layout in a directory.
///
/// # Errors
/// The layout is damaged, has no or several images of that tag and platform, or uses something that
/// is not supported.
pub fn open_layout(path: &Path, options: &OciOptions) -> Result<Box<dyn EntrySource>, SourceError> {
    open_blobs(path, Blobs::directory(path), options)
}

/// Opens an image in a plain tar archive. Returns `None` if the archive holds none.
///
/// # Errors
/// As [`open_layout`].
pub fn open_archive(
    path: &Path,
    file: &File,
    options: &OciOptions,
) -> Result<Option<Box<dyn EntrySource>>, SourceError> {
    match Blobs::archive(file) {
        Some(blobs) if blobs.is_layout() || manifest::is_docker(&blobs) => {
            open_blobs(path, blobs, options).map(Some)
        }
        _ => Ok(None),
    }
}

/// Returns the tags of the images in a layout or in an archive of `docker save`, in their order.
/// `None` if the file is neither.
///
/// # Errors
/// The index is damaged, or an image has no tag.
pub fn tags(path: &Path) -> Result<Option<Vec<String>>, SourceError> {
    use std::os::unix::ffi::OsStrExt;
    let name = path.as_os_str().as_bytes();
    let blobs = match path.is_dir() {
        true if !is_layout(path) => return Ok(None),
        true => Blobs::directory(path),
        false => {
            let file = File::open(path)
                .map_err(|error| SourceError::Unreadable { path: name.to_vec(), error })?;
            match Blobs::archive(&file) {
                Some(blobs) if blobs.is_layout() || manifest::is_docker(&blobs) => blobs,
                _ => return Ok(None),
            }
        }
    };
    manifest::names(&blobs).map(Some).map_err(|error| error.into_source(name))
}

fn open_blobs(
    path: &Path,
    blobs: Blobs,
    options: &OciOptions,
) -> Result<Box<dyn EntrySource>, SourceError> {
    use std::os::unix::ffi::OsStrExt;
    let name = path.as_os_str().as_bytes();
    let open = || -> Result<source::OciSource, ForeignError> {
        let image = manifest::choose(&blobs, options)?;
        source::OciSource::new(name, Arc::new(blobs), image, options.select.clone())
    };
    Ok(Box::new(open().map_err(|error| error.into_source(name))?))
}
