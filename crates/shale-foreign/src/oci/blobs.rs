//! The files of an image: in a directory, or within a tar archive. Paths come from the image, and
//! never lead out of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::fault::fault;
use crate::error::ForeignError;
use crate::names;
use crate::tar::{Member, members};

/// Links that are followed from a path of an archive.
const LINKS_MAX: usize = 4;
/// Bytes of a document: manifests have some KiB.
const DOCUMENT_LEN_MAX: u64 = 8 << 20;
/// `O_NOFOLLOW` of Linux.
const NO_FOLLOW: i32 = 0o400_000;

/// Where the files of an image are.
pub(super) enum Blobs {
    /// In a directory.
    Directory(PathBuf),
    /// In an archive.
    Archive { file: Arc<File>, members: BTreeMap<Vec<u8>, Member> },
}

/// An open file.
pub(super) struct Blob {
    pub(super) stream: Box<dyn Read + Send>,
    pub(super) len: u64,
}

impl Blobs {
    pub(super) fn directory(path: &Path) -> Self {
        Self::Directory(path.to_owned())
    }

    /// Returns the files of an archive; `None` if it is corrupt, which another importer says.
    pub(super) fn archive(file: &File) -> Option<Self> {
        let members = members(file).ok()?;
        let file = Arc::new(file.try_clone().ok()?);
        Some(Self::Archive { file, members })
    }

    /// Returns true if an archive has the files of an OCI image layout.
    pub(super) fn is_layout(&self) -> bool {
        match self {
            Self::Directory(_) => true,
            Self::Archive { members, .. } => ["oci-layout", "index.json"]
                .iter()
                .all(|name| members.contains_key(name.as_bytes())),
        }
    }

    /// Opens a file; `None` if there is none.
    pub(super) fn open(&self, path: &str) -> Result<Option<Blob>, ForeignError> {
        let failed = |error: io::Error| fault(format!("cannot open {path}: {error}"));
        // Absolute paths and `..` are refused here.
        let relative = names::relative(path.as_bytes());
        let relative = relative.map_err(|what| fault(format!("a path of the image: {what}")))?;
        match self {
            Self::Directory(directory) => {
                use std::os::unix::ffi::OsStrExt;
                let path = directory.join(std::ffi::OsStr::from_bytes(&relative));
                let mut options = File::options();
                match options.read(true).custom_flags(NO_FOLLOW).open(path) {
                    Ok(file) => {
                        let found = file.metadata().map_err(failed)?;
                        if !found.is_file() {
                            return Err(failed(io::Error::other("it is not a regular file")));
                        }
                        Ok(Some(Blob { stream: Box::new(file), len: found.len() }))
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(failed(error)),
                }
            }
            Self::Archive { file, members } => {
                let mut relative = relative;
                for _ in 0..LINKS_MAX {
                    match members.get(&relative) {
                        None => return Ok(None),
                        Some(Member::File { offset, len }) => {
                            let (at, end) = (*offset, offset.saturating_add(*len));
                            let piece = Piece { file: Arc::clone(file), at, end };
                            return Ok(Some(Blob { stream: Box::new(piece), len: *len }));
                        }
                        Some(Member::Link { target, is_symbolic }) => {
                            relative = match is_symbolic {
                                true => beside(&relative, target),
                                false => names::relative(target).ok(),
                            }
                            .ok_or_else(|| fault(format!("{path}: its link leads nowhere")))?;
                        }
                    }
                }
                Err(fault(format!("{path}: a link to a link to a link")))
            }
        }
    }

    /// Reads a document.
    pub(super) fn document(&self, path: &str) -> Result<Option<Vec<u8>>, ForeignError> {
        let Some(Blob { mut stream, len }) = self.open(path)? else { return Ok(None) };
        if len > DOCUMENT_LEN_MAX {
            return Err(fault(format!("{path} has {len} bytes; {DOCUMENT_LEN_MAX} are allowed")));
        }
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes);
        read.map_err(|error| fault(format!("cannot read {path}: {error}")))?;
        Ok(Some(bytes))
    }
}

/// The target of a symbolic link, resolved by its text.
fn beside(link: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    if target.starts_with(b"/") {
        return None;
    }
    let mut parts: Vec<&[u8]> = link.split(|&byte| byte == b'/').collect();
    parts.pop();
    for name in target.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join(&b'/'))
}

/// A part of a file.
struct Piece {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for Piece {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = (out.len() as u64).min(self.end - self.at) as usize;
        if len == 0 {
            return Ok(0);
        }
        let len = self.file.read_at(&mut out[..len], self.at)?;
        self.at += len as u64;
        if len == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(len) }
    }
}

/// A digest, checked to be one of sha256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digest(String);

impl Digest {
    pub(super) fn parse(text: &str) -> Result<Self, ForeignError> {
        let shown: String = text.chars().take(100).collect();
        let Some(digits) = text.strip_prefix("sha256:") else {
            return Err(fault(format!(
                "the digest `{}` is not one of sha256, which alone is supported",
                shown.escape_debug()
            )));
        };
        let is_hex = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if digits.len() != 64 || !is_hex {
            return Err(fault(format!("`{}` is not a valid digest", shown.escape_debug())));
        }
        Ok(Self(digits.to_owned()))
    }

    /// The path of the blob in a layout.
    pub(super) fn path(&self) -> String {
        format!("blobs/sha256/{}", self.0)
    }

    pub(super) fn hex(&self) -> &str {
        &self.0
    }

    /// Checks that a stream has this digest.
    pub(super) fn check(
        &self,
        mut stream: Box<dyn Read + Send>,
        what: &str,
    ) -> Result<(), ForeignError> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => hasher.update(&buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(fault(format!("cannot read {what}: {error}"))),
            }
        }
        let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if found != self.0 {
            return Err(fault(format!(
                "{what} is damaged: its sha256 digest is {found}, but the image says {}; get \
                 another copy of it",
                self.0
            )));
        }
        Ok(())
    }
}
