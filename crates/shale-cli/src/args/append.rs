//! Arguments of `append`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::create::How;
use super::image::{Offset, parse_offset};
use super::local::local_path;

/// `shale append`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
      shale append home.shale ~                                  a new state of a directory\n  \
      shale append logs.shale --add 2026-11-23=/var/log/day      one more day\n  \
      shale append site.shale --remove '/tmp/**' --add www=out   replace a part\n  \
      tar c src | shale append src.shale --snapshot v2 -         a tree from a pipe")]
pub struct Append {
    /// The image.
    #[arg(value_parser = local_path())]
    pub image: PathBuf,
    /// The whole new tree: what `create` takes. Paths that it lacks are not in the new snapshot.
    #[arg(value_name = "SOURCE[=/PREFIX]", conflicts_with_all = ["add", "remove"],
        required_unless_present_any = ["add", "remove", "manifest"])]
    pub sources: Vec<OsString>,
    /// Add a source to the newest tree, below a path of the image, in place of files that have the
    /// same paths. Can be repeated.
    #[arg(long, value_name = "[PREFIX=]SOURCE")]
    pub add: Vec<OsString>,
    /// Remove what matches from the newest tree, as --exclude leaves it out of a source. Can be
    /// repeated. What --add adds is not removed.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub remove: Vec<OsString>,
    /// Take the whole new tree from a manifest file; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sources", "add", "remove"])]
    pub manifest: Option<PathBuf>,
    /// A note for the history of the image.
    #[arg(short, long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    pub message: String,
    /// Read all files, also those whose length and modification time did not change.
    #[arg(long)]
    pub checksum: bool,
    /// Wait while another process writes to the image.
    #[arg(long)]
    pub wait: bool,
    /// Do not store an index of the new data. The next append then decodes all of it to find what
    /// it can share.
    #[arg(long)]
    pub no_append_index: bool,
    /// Do not add parity for the new part of an image that has parity.
    #[arg(long)]
    pub drop_parity: bool,
    /// Offset of the image in its file, in bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = parse_offset, value_name = "BYTES")]
    pub image_offset: Offset,
    /// Options of the build. The name of the snapshot is the time in UTC by default.
    #[command(flatten)]
    pub how: How,
}
