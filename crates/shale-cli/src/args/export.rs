//! Arguments of `export`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::image::ImageArgs;
use crate::size;

/// `shale export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// The archive to write; `-` is standard output.
    #[arg(short, long)]
    pub output: PathBuf,
    /// The paths or patterns to export (default: everything).
    ///
    /// A pattern begins at the root of the image, and a match of a directory includes everything
    /// below it. `*` and `?` match within a name, `**` across directories, `[a-z]` and `[!a-z]` one
    /// character, `{a,b}` either word; a backslash makes the next character literal. An argument
    /// that is an existing path of the image matches that path.
    pub patterns: Vec<OsString>,
    /// The format (default: by the name of the output: out.tar, out.tar.zst, out.cpio, out.zip,
    /// out.7z, out.squashfs, out.erofs, out.iso or out.mtree).
    #[arg(long, value_enum)]
    pub format: Option<FormatChoice>,
    /// Compression of the archive (default: by the name of the output). SquashFS takes zstd, gzip,
    /// xz, lz4 or none; zip takes gzip (its deflate) or none; 7z takes xz (its LZMA2) or none;
    /// EROFS and ISO 9660 images are not compressed.
    #[arg(long, value_enum)]
    pub compress: Option<CompressChoice>,
    /// Compression level (default: the usual one of the compression).
    #[arg(long)]
    pub level: Option<u32>,
    /// Block size of a SquashFS image, from 4K to 1M.
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub block_size: Option<u64>,
    /// Number of threads; 0 uses all processors.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads,
        value_name = "NUMBER")]
    pub threads: usize,
    /// Replace an existing output.
    #[arg(short, long)]
    pub force: bool,
    /// Memory for decoded frames, such as 512M.
    #[arg(long, value_parser = size::parse_memory, value_name = "SIZE")]
    pub cache: Option<u64>,
}

/// A format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatChoice {
    /// tar: ustar, with PAX extended headers where needed.
    #[value(alias = "pax")]
    Tar,
    /// mtree: a list with lengths and SHA-256 of contents.
    Mtree,
    /// cpio in the new ASCII format (newc).
    #[value(alias = "newc")]
    Cpio,
    /// zip.
    Zip,
    /// SquashFS 4.0, which Linux can mount.
    Squashfs,
    /// EROFS without compression, which Linux can mount and read in place.
    Erofs,
    /// ISO 9660 with Rock Ridge and Joliet.
    #[value(alias = "iso9660")]
    Iso,
    /// 7z, in solid blocks.
    #[value(name = "7z")]
    Sevenz,
}

/// Compression of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompressChoice {
    /// No compression.
    None,
    /// gzip.
    Gzip,
    /// xz.
    Xz,
    /// Zstandard.
    Zstd,
    /// bzip2.
    Bzip2,
    /// LZ4.
    Lz4,
}
