//! A source that is a single file: neither a directory nor an archive, so it is packed by itself.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shale_foreign::OpenOptions;
use shale_foreign::detect::{DETECT_LEN, detect};
use shale_format::superblock::SUPERBLOCK_MAGIC;
use shale_model::{InodeKind, Metadata, Select};

use crate::error::Error;
use crate::mtree;

/// Extensions of archives and images. A file that has one and is not recognized is damaged, and
/// must not be packed like any other file.
const ARCHIVE_EXTENSIONS: &[&str] = &[
    "tar", "tgz", "gz", "xz", "lzma", "zst", "bz2", "lz4", "br", "lz", "lrz", "z", "zip",
    "squashfs", "sqsh", "sfs", "dwarfs", "cpio", "7z", "rar", "iso", "erofs", "deb", "rpm", "ar",
    "xar", "pkg", "cab", "mtree", "shale",
];

/// Checks that a regular file is neither an archive nor an image. Costs a read of its first bytes,
/// and for a file of unknown format a search for an archive after a program that unpacks it.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn is_single(path: &Path) -> Result<bool, Error> {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    if ARCHIVE_EXTENSIONS.iter().any(|known| extension == *known) {
        return Ok(false);
    }
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut head = vec![0; DETECT_LEN];
    let len = file.read_at(&mut head, 0).map_err(Error::io("read", path))?;
    head.truncate(len);
    let is_known = head.starts_with(&SUPERBLOCK_MAGIC) || mtree::is_list(&head);
    if is_known || detect(&head).is_some() {
        return Ok(false);
    }
    Ok(shale_foreign::open(path, file, OpenOptions::default())?.is_none())
}

/// Returns the directory of a file, and a selection of nothing but this file. A link is followed.
///
/// # Errors
/// The file is gone.
pub(crate) fn only(
    path: &Path,
    inner: Option<Arc<dyn Select>>,
) -> Result<(PathBuf, Arc<dyn Select>), Error> {
    let real = path.canonicalize().map_err(Error::io("look at", path))?;
    let (Some(directory), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(Error::NotInput { path: path.to_owned() });
    };
    let only = OnlyFile { name: name.as_bytes().to_vec(), inner };
    Ok((directory.to_owned(), Arc::new(only)))
}

/// Selects one file of a directory, if the rules select it, too.
struct OnlyFile {
    name: Vec<u8>,
    inner: Option<Arc<dyn Select>>,
}

impl Select for OnlyFile {
    fn takes(&self, path: &[u8], kind: InodeKind) -> bool {
        path == self.name && self.inner.as_ref().is_none_or(|inner| inner.takes(path, kind))
    }

    fn takes_metadata(&self, path: &[u8], metadata: &Metadata) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.takes_metadata(path, metadata))
    }
}
