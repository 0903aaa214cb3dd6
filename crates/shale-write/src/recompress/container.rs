//! What holds deflate streams, told by the first bytes.

use crate::recompress::{git, gzip, pdf, tar, zip, zlib};

/// What holds streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Container {
    /// Members of gzip.
    Gzip,
    /// Entries of zip, as in wheels, jars and office documents.
    Zip,
    /// One stream with zlib's header, such as a loose object of git.
    Zlib,
    /// Objects of git.
    GitPack,
    /// Streams of a PDF document.
    Pdf,
    /// Files in an archive, which may be containers themselves.
    Tar,
}

/// First bytes of a file that show what it is.
pub const SNIFF_LEN: usize = tar::HEADER_LEN;

impl Container {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Gzip, Self::Zip, Self::Zlib, Self::GitPack, Self::Pdf, Self::Tar];

    /// The name, as in `shale info`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zip => "zip",
            Self::Zlib => "zlib",
            Self::GitPack => "git-pack",
            Self::Pdf => "pdf",
            Self::Tar => "tar",
        }
    }

    /// Tells a container by the first [`SNIFF_LEN`] bytes of a file.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            _ if bytes.starts_with(&gzip::MAGIC) => Some(Self::Gzip),
            _ if zip::is_zip(bytes) => Some(Self::Zip),
            _ if bytes.starts_with(&git::PACK_MAGIC) => Some(Self::GitPack),
            _ if bytes.starts_with(&pdf::MAGIC) => Some(Self::Pdf),
            _ if tar::is_tar(bytes) => Some(Self::Tar),
            _ => zlib::header(bytes).map(|_| Self::Zlib),
        }
    }
}
