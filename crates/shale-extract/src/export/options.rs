//! What the caller of an export decides, and which formats there are.

use std::collections::HashSet;
use std::sync::Arc;

use shale_codec::stream::StreamFormat;
use shale_host::Cancel;
use shale_model::pattern::Patterns;

use crate::error::Error;

/// A format that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// tar: ustar, with PAX extended headers where needed.
    Tar,
    /// cpio in the new ASCII format (newc).
    Cpio,
    /// zip, with deflate or without compression.
    Zip,
    /// SquashFS 4.0. Its blocks are compressed, not the whole.
    Squashfs,
    /// EROFS without compression.
    Erofs,
    /// ISO 9660 with Rock Ridge and Joliet, without compression.
    Iso,
    /// 7z, with LZMA2 or without compression.
    Sevenz,
    /// mtree: a list with lengths and digests, without contents.
    Mtree,
    /// No archive: the contents of regular files, concatenated in the order of paths.
    Contents,
}

impl ExportFormat {
    /// Returns the format and compression that a name such as `a.tar.zst` stands for.
    pub fn of_name(name: &[u8]) -> Option<(Self, Option<StreamFormat>)> {
        let name = name.to_ascii_lowercase();
        let compression = |suffix: &[u8]| {
            let mut all = StreamFormat::ALL.into_iter();
            all.find(|format| suffix == format.extension().as_bytes())
        };
        let (stem, last) = split(&name)?;
        let archive = |suffix: &[u8]| match suffix {
            b"tar" => Some(Self::Tar),
            b"cpio" => Some(Self::Cpio),
            b"zip" => Some(Self::Zip),
            b"mtree" => Some(Self::Mtree),
            b"erofs" => Some(Self::Erofs),
            b"iso" => Some(Self::Iso),
            b"7z" => Some(Self::Sevenz),
            b"squashfs" | b"sqfs" | b"sqsh" | b"sfs" => Some(Self::Squashfs),
            _ => None,
        };
        if let Some(format) = archive(last) {
            return Some((format, None));
        }
        let short = match last {
            b"tgz" => Some(StreamFormat::Gzip),
            b"txz" => Some(StreamFormat::Xz),
            b"tbz2" | b"tbz" => Some(StreamFormat::Bzip2),
            b"tzst" => Some(StreamFormat::Zstd),
            _ => None,
        };
        if short.is_some() {
            return Some((Self::Tar, short));
        }
        let compression = compression(last)?;
        let archive = archive(split(stem)?.1)?;
        archive.is_compressed_whole().then_some((archive, Some(compression)))
    }

    /// True if compression is applied to the archive as a whole, not inside it.
    pub fn is_compressed_whole(self) -> bool {
        matches!(self, Self::Tar | Self::Cpio | Self::Mtree)
    }

    /// The compression if none is chosen.
    pub fn usual_compression(self) -> Option<StreamFormat> {
        match self {
            Self::Tar | Self::Cpio | Self::Mtree | Self::Contents => None,
            Self::Erofs | Self::Iso => None,
            Self::Zip => Some(StreamFormat::Gzip),
            Self::Sevenz => Some(StreamFormat::Xz),
            Self::Squashfs => Some(StreamFormat::Zstd),
        }
    }

    /// True if the beginning of an archive is known last, so that it is written to a file first.
    pub(super) fn is_written_back(self) -> bool {
        matches!(self, Self::Squashfs | Self::Erofs | Self::Iso | Self::Sevenz)
    }

    /// Fails if the format does not support the options.
    pub(super) fn check(self, options: &ExportOptions) -> Result<(), Error> {
        let refuse = |what: &str| Err(Error::NotExportable { what: what.to_owned() });
        if self != Self::Squashfs && options.block_len.is_some() {
            return refuse("only SquashFS has blocks");
        }
        match (self, options.compression) {
            (Self::Zip, Some(format)) if format != StreamFormat::Gzip => {
                refuse("zip archives are written with deflate (gzip) or without compression")
            }
            (Self::Sevenz, Some(format)) if format != StreamFormat::Xz => {
                refuse("7z archives are written with LZMA2 (xz) or without compression")
            }
            (Self::Erofs | Self::Iso, Some(_)) => {
                refuse("EROFS and ISO 9660 images are written without compression")
            }
            _ => Ok(()),
        }
    }
}

fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let point = name.iter().rposition(|&byte| byte == b'.')?;
    Some((&name[..point], &name[point + 1..]))
}

/// How to export.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The format of the archive.
    pub format: ExportFormat,
    /// The compression of the archive; `None` for none.
    pub compression: Option<StreamFormat>,
    /// The compression level; `None` for the default.
    pub compression_level: Option<u32>,
    /// Plain bytes of a SquashFS block; `None` for the default.
    pub block_len: Option<u32>,
    /// Replace an existing output.
    pub overwrite: bool,
    /// Which entries to export; an empty set means all.
    pub patterns: Patterns,
    /// If set, only these paths, with the directories that lead to them.
    pub paths: Option<Arc<HashSet<Vec<u8>>>>,
    /// Threads that decode; 0 for one per processor.
    pub threads: usize,
    /// Ends the run with [`shale_host::Error::Cancelled`].
    pub cancel: Cancel,
}

impl ExportOptions {
    shale_host::setters! {
        format: ExportFormat,
        compression: Option<StreamFormat>,
        compression_level: Option<u32>,
        block_len: Option<u32>,
        overwrite: bool,
        patterns: Patterns,
        paths: Option<Arc<HashSet<Vec<u8>>>>,
        threads: usize,
        cancel: Cancel,
    }
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            format: ExportFormat::Tar,
            compression: None,
            compression_level: None,
            block_len: None,
            overwrite: false,
            patterns: Patterns::default(),
            paths: None,
            threads: 0,
            cancel: Cancel::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_names() {
        let of = |name: &str| ExportFormat::of_name(name.as_bytes());
        assert_eq!(of("a.tar"), Some((ExportFormat::Tar, None)));
        assert_eq!(of("a.b/x.TAR.zst"), Some((ExportFormat::Tar, Some(StreamFormat::Zstd))));
        assert_eq!(of("x.tgz"), Some((ExportFormat::Tar, Some(StreamFormat::Gzip))));
        assert_eq!(of("x.cpio.gz"), Some((ExportFormat::Cpio, Some(StreamFormat::Gzip))));
        assert_eq!(of("x.zip"), Some((ExportFormat::Zip, None)));
        assert_eq!(of("x.mtree.gz"), Some((ExportFormat::Mtree, Some(StreamFormat::Gzip))));
        assert_eq!(of("x.erofs"), Some((ExportFormat::Erofs, None)));
        assert_eq!(of("x.iso"), Some((ExportFormat::Iso, None)));
        assert_eq!(of("x.7z"), Some((ExportFormat::Sevenz, None)));
        assert_eq!(of("x.iso.gz"), None);
        assert_eq!(of("x.sqfs"), Some((ExportFormat::Squashfs, None)));
        assert_eq!(of("x.squashfs.gz"), None);
        assert_eq!(of("x.gz"), None);
        assert_eq!(of("x"), None);
    }
}
