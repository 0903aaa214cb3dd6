//! Arguments of `compact`, `forget` and `merge`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::create::Target;
use super::image::{Offset, parse_offset};
use super::local::local_path;
use crate::size;

/// Options of a copy.
#[derive(Debug, Args)]
pub struct Copying {
    /// What becomes of the output.
    #[command(flatten)]
    pub target: Target,
    /// Do not read files of the sources and of the new image and compare them. Frames are still
    /// compared with their checksums.
    #[arg(long)]
    pub no_verify: bool,
    /// Number of threads; 0 uses all processors. Does not change the image.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads,
        value_name = "NUMBER")]
    pub threads: usize,
}

/// `shale compact`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
      shale compact logs.shale -o small.shale             drop what nothing needs\n  \
      shale compact a.shale --keep v2 --keep v3 -o b.shale   two snapshots only")]
pub struct Compact {
    /// The image.
    #[arg(value_parser = local_path())]
    pub image: PathBuf,
    /// The image to write.
    #[arg(short, long, value_name = "IMAGE", value_parser = local_path())]
    pub output: PathBuf,
    /// A snapshot to keep: a name, #NUMBER, `latest` or a time in UTC. Can be repeated. By default
    /// all are kept.
    #[arg(long, value_name = "SNAPSHOT")]
    pub keep: Vec<OsString>,
    /// Offset of the image in its file, in bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = parse_offset, value_name = "BYTES")]
    pub image_offset: Offset,
    /// Options of the copy.
    #[command(flatten)]
    pub copying: Copying,
}

/// `shale forget`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
      shale forget home.shale --keep-daily 7 --keep-monthly 12    show what would stay and go\n  \
      shale forget home.shale --keep-last 10 -o new.shale         copy the last ten snapshots")]
pub struct Forget {
    /// The image. It is not changed.
    #[arg(value_parser = local_path())]
    pub image: PathBuf,
    /// Copy the snapshots that are kept into this image. Without this option, the decision is only
    /// shown.
    #[arg(short, long, value_name = "IMAGE", value_parser = local_path())]
    pub output: Option<PathBuf>,
    /// Keep the last N snapshots.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub keep_last: u32,
    /// Keep the newest snapshot of each of the last N days that have one. As in the options for
    /// weeks, months and years, the name of a snapshot is its time.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub keep_daily: u32,
    /// Keep the newest snapshot of each of the last N weeks (from Monday) that have one.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub keep_weekly: u32,
    /// Keep the newest snapshot of each of the last N months that have one.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub keep_monthly: u32,
    /// Keep the newest snapshot of each of the last N years that have one.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub keep_yearly: u32,
    /// Keep this snapshot: a name, #NUMBER, `latest` or a time in UTC. Can be repeated.
    #[arg(long, value_name = "SNAPSHOT")]
    pub keep: Vec<OsString>,
    /// Offset of the image in its file, in bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = parse_offset, value_name = "BYTES")]
    pub image_offset: Offset,
    /// Options of the copy.
    #[command(flatten)]
    pub copying: Copying,
}

/// `shale merge`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
      shale merge a.shale=/a b.shale=/b -o both.shale            each below a directory\n  \
      shale merge part-*.shale -o whole.shale                    parts of one tree\n  \
      shale merge 2025.shale 2026.shale --snapshots -o all.shale   all snapshots of both\n  \
      shale merge --thick monday.shale -o whole.shale            a thin image and its base")]
pub struct Merge {
    /// The images: their newest snapshots, or IMAGE@SNAPSHOT. IMAGE=/PREFIX puts a tree below a
    /// path of the new one. A path in several trees is an error without --replace.
    #[arg(required = true, value_name = "IMAGE[=/PREFIX]")]
    pub images: Vec<OsString>,
    /// The image to write.
    #[arg(short, long, value_name = "IMAGE", value_parser = local_path())]
    pub output: PathBuf,
    /// Join one thin image with its base, byte for byte: the new image has all snapshots and the
    /// identity of the thin one, and needs no base.
    #[arg(long, conflicts_with_all = ["snapshots", "replace", "snapshot", "label", "parity",
        "pad"])]
    pub thick: bool,
    /// Keep all snapshots of all images, one after the other, instead of making one tree.
    #[arg(long, conflicts_with_all = ["replace", "snapshot"])]
    pub snapshots: bool,
    /// Let later images replace files of earlier ones, but never a directory. The number of
    /// replaced paths is reported, and the exit code is 3.
    #[arg(long)]
    pub replace: bool,
    /// Name of the new snapshot.
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<OsString>,
    /// A label for the image, which `shale info` shows.
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Options of the copy.
    #[command(flatten)]
    pub copying: Copying,
}
