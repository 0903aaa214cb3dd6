//! Which format a file is of, by its first bytes, never by its name.

use shale_codec::stream::StreamFormat;

use crate::{dwarfs, squashfs, tar, zip};

/// Bytes of a file that are enough for [`detect`].
pub const DETECT_LEN: usize = 1024;

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// tar, plain.
    Tar,
    /// A compressed stream, presumably a tar archive inside.
    Compressed(StreamFormat),
    /// SquashFS.
    Squashfs,
    /// zip.
    Zip,
    /// DwarFS, at its start.
    Dwarfs,
}

/// The format of a file that begins with `head`, [`DETECT_LEN`] bytes of it or all.
pub fn detect(head: &[u8]) -> Option<Format> {
    if let Some(format) = StreamFormat::detect(head) {
        return Some(Format::Compressed(format));
    }
    if head.starts_with(squashfs::MAGIC) {
        return Some(Format::Squashfs);
    }
    if dwarfs::find(head) == Some(0) {
        return Some(Format::Dwarfs);
    }
    if zip::MAGICS.iter().any(|magic| head.starts_with(*magic)) {
        return Some(Format::Zip);
    }
    tar::is_tar(head).then_some(Format::Tar)
}
