//! Contents that a list names: that of another file, or a hole.

use shale_model::{ContentFile, Metadata, OpenContent};

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, SeekFrom};
use sha2::{Digest, Sha256};

use crate::whole::read_whole;

/// A file that is one hole.
pub(crate) struct Hole {
    pub(crate) metadata: Metadata,
}

impl OpenContent for Hole {
    fn open(&self) -> io::Result<Box<dyn ContentFile>> {
        Ok(Box::new(Hole { metadata: self.metadata }))
    }
}

impl ContentFile for Hole {
    fn metadata(&mut self) -> io::Result<Metadata> {
        Ok(self.metadata)
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let len = self.metadata.len.saturating_sub(offset).min(out.len() as u64) as usize;
        out[..len].fill(0);
        Ok(len)
    }

    fn data_after(&mut self, _: u64, _: u64) -> io::Result<Option<Range<u64>>> {
        Ok(None)
    }
}

/// The content of another file, with metadata from the list.
pub(crate) struct FileOf {
    path: PathBuf,
    metadata: Metadata,
    /// The digest that the list gives.
    sha256: Option<[u8; 32]>,
}

impl FileOf {
    /// Finds the file and fills in its length.
    pub(crate) fn find(
        base: &Path,
        file: &[u8],
        metadata: &mut Metadata,
    ) -> Result<Self, (PathBuf, io::Error)> {
        let path = base.join(OsStr::from_bytes(file));
        match std::fs::metadata(&path) {
            Ok(found) if found.is_file() => metadata.len = found.len(),
            Ok(_) => return Err((path, io::Error::other("expected a regular file"))),
            Err(error) => return Err((path, error)),
        }
        Ok(Self { path, metadata: *metadata, sha256: None })
    }

    /// The same, but [`OpenContent::open`] fails if the file has another digest. It reads the whole
    /// file then.
    pub(crate) fn with_sha256(self, sha256: Option<[u8; 32]>) -> Self {
        Self { sha256, ..self }
    }
}

impl OpenContent for FileOf {
    fn open(&self) -> io::Result<Box<dyn ContentFile>> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(&self.path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("expected a regular file"));
        }
        if let Some(expected) = self.sha256
            && sha256(&file)? != expected
        {
            let what = "the file has another SHA-256 than the list gives";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(Box::new(Open { state: state(&found), file, given: self.metadata }))
    }
}

/// Returns the SHA-256 of a whole file.
fn sha256(file: &File) -> io::Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    read_whole(file, |bytes| hasher.update(bytes))?;
    Ok(hasher.finalize().into())
}

/// Changes when someone writes to a file.
type State = (u64, i64, i64, i64, i64);

fn state(found: &std::fs::Metadata) -> State {
    (found.len(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
}

struct Open {
    file: File,
    state: State,
    given: Metadata,
}

impl ContentFile for Open {
    fn metadata(&mut self) -> io::Result<Metadata> {
        let found = self.file.metadata()?;
        // The metadata come from the list, so a change of the file must show here.
        if state(&found) != self.state {
            return Err(io::Error::other("changed while it was read"));
        }
        Ok(Metadata { len: found.len(), ..self.given })
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(out, offset)
    }

    fn data_after(&mut self, offset: u64, len: u64) -> io::Result<Option<Range<u64>>> {
        if offset >= len {
            return Ok(None);
        }
        let start = match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(start) if start < len => start,
            Ok(_) | Err(rustix::io::Errno::NXIO) => return Ok(None),
            // The file system does not report holes.
            Err(_) => offset,
        };
        let end = match rustix::fs::seek(&self.file, SeekFrom::Hole(start)) {
            Ok(end) if end > start => end.min(len),
            _ => len,
        };
        Ok(Some(start..end))
    }
}
