//! Arguments that name an image, its place in a file and one of its snapshots.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use shale::read::Identity;

use super::local::local_path;
use crate::size;

/// An image and its place in its file.
#[derive(Debug, Clone, Args)]
pub struct ImageArgs {
    /// The image.
    #[arg(value_parser = local_path())]
    pub image: PathBuf,
    /// Offset of the image in its file, in bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = parse_offset, value_name = "BYTES",
        help_heading = "Image options")]
    pub offset: Offset,
    /// The snapshot to use: a name, #NUMBER (counted from 0), `latest` (default), or a time in UTC
    /// such as 2026-11-22 or 2026-11-22T10:00, which means the newest snapshot not after it.
    #[arg(long, value_name = "SNAPSHOT", help_heading = "Image options")]
    pub snapshot: Option<OsString>,
    /// Accept only the image with this identity, as `shale create` and `shale info` print it.
    /// Everything that is read is verified against it.
    #[arg(long, value_name = "HASH", help_heading = "Image options")]
    pub expect: Option<Identity>,
}

/// Images and their place in their files.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// The images.
    #[arg(required = true, value_name = "IMAGE")]
    pub images: Vec<PathBuf>,
    /// Offset of the image in its file, in bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = parse_offset, value_name = "BYTES")]
    pub offset: Offset,
    /// The snapshot to use: a name, #NUMBER (counted from 0), `latest` (default), or a time in UTC
    /// such as 2026-11-22 or 2026-11-22T10:00, which means the newest snapshot not after it.
    #[arg(long)]
    pub snapshot: Option<OsString>,
    /// Accept only the image with this identity, as `shale create` and `shale info` print it.
    /// Everything that is read is verified against it.
    #[arg(long, value_name = "HASH")]
    pub expect: Option<Identity>,
}

/// `shale report`.
#[derive(Debug, Args)]
pub struct Report {
    /// The image, and the snapshot whose files the page shows.
    #[command(flatten)]
    pub image: ImageArgs,
    /// The page to write; `-` is standard output.
    #[arg(short, long, value_name = "FILE", value_parser = local_path())]
    pub output: PathBuf,
    /// Replace an existing page.
    #[arg(short, long)]
    pub force: bool,
}

/// Offset of an image in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    /// Search for the image.
    Auto,
    /// The image begins at this byte.
    At(u64),
}

/// Parses `--offset`.
///
/// # Errors
/// The text is neither `auto` nor a size.
pub fn parse_offset(text: &str) -> Result<Offset, String> {
    match text {
        "auto" => Ok(Offset::Auto),
        text => size::parse(text).map(Offset::At),
    }
}
