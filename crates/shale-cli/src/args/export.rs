//! Arguments of `export`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::image::ImageArgs;
use super::local::local_path;
use crate::size;

/// `shale export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// The archive to write; `-` is standard output.
    #[arg(short, long, value_parser = local_path())]
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
    /// Replace an existing output, unless it is a directory.
    #[arg(short, long)]
    pub force: bool,
    /// Options of images of containers.
    #[command(flatten)]
    pub container: ContainerArgs,
    /// Memory for decoded frames, such as 512M.
    #[arg(long, value_parser = size::parse_memory, value_name = "SIZE")]
    pub cache: Option<u64>,
}

/// What runs in an image of a container, with `--format oci`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Container images (--format oci)")]
pub struct ContainerArgs {
    /// Write all snapshots: each becomes an image with its name as the tag, and has the layers of
    /// the one before and one more with what changed.
    #[arg(long, conflicts_with_all = ["snapshot", "tag"])]
    pub all_snapshots: bool,
    /// The tag of the image (default: the name of the snapshot, or latest).
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// A word of the entry point: the program that runs, then its first arguments. Can be repeated.
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub entrypoint: Vec<String>,
    /// A word of the default command. With an entry point, it is an argument of the entry point.
    /// Can be repeated.
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub cmd: Vec<String>,
    /// A variable of the environment. Can be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// The directory in which the program runs.
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<String>,
    /// The user as whom it runs, such as 1000:1000.
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// A label of the image. Can be repeated.
    #[arg(long = "image-label", value_name = "NAME=VALUE")]
    pub image_label: Vec<String>,
    /// The platform that the programs in the image are for.
    #[arg(long, value_name = "OS/ARCH", default_value = "linux/amd64")]
    pub platform: String,
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
    /// An OCI image layout: a directory, or a tar archive of one if the output is `-` or its name
    /// ends in .tar.
    Oci,
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
