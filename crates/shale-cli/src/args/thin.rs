//! Arguments of `delta`, `patch` and `split`, and where the bases of thin images are.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::create::How;
use super::local::local_path;
use crate::size;

/// Where the bases of thin images are.
#[derive(Debug, Clone, Default, Args)]
pub struct BaseArgs {
    /// The base of a thin image: a file, a directory that holds it, or a URL. By default it is
    /// looked for beside the thin image. Can be repeated. With `create`, the new image is a thin
    /// one over this base.
    #[arg(
        long,
        global = true,
        value_name = "BASE",
        help_heading = "Global options",
        hide_short_help = true
    )]
    pub base: Vec<PathBuf>,
}

/// `shale delta`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
      shale delta v1.shale v2.shale -o v1-v2.delta         an update between two images\n  \
      shale delta v1.shale build/root -o v1-v2.delta       an update to a directory\n  \
      shale patch v1.shale v1-v2.delta -o v2.shale         on each machine that has v1.shale")]
pub struct Delta {
    /// The image that the machines have.
    #[arg(value_parser = local_path())]
    pub old: PathBuf,
    /// What they get: an image, or anything else that `create` takes. All of it is read.
    #[arg(required = true, value_name = "NEW[=/PREFIX]")]
    pub new: Vec<OsString>,
    /// The delta to write; `-` is standard output.
    #[arg(short, long, value_name = "DELTA", value_parser = local_path())]
    pub output: PathBuf,
    /// Replace an existing output.
    #[arg(short, long)]
    pub force: bool,
    /// A note for the history of the image.
    #[arg(short, long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    pub message: String,
    /// Options of the build. The name of the snapshot is that of NEW, if NEW is an image.
    #[command(flatten)]
    pub how: How,
}

/// `shale patch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
      shale patch v1.shale v1-v2.delta -o v2.shale     a new image\n  \
      shale patch root.shale v1-v2.delta               add the new snapshot to root.shale itself")]
pub struct Patch {
    /// The image that the delta was made for.
    #[arg(value_parser = local_path())]
    pub old: PathBuf,
    /// The delta.
    #[arg(value_parser = local_path())]
    pub delta: PathBuf,
    /// The image to write. Without this option the delta is appended to OLD: until its last byte is
    /// written, readers see OLD as it was.
    #[arg(short, long, value_name = "IMAGE", value_parser = local_path())]
    pub output: Option<PathBuf>,
    /// Replace an existing output.
    #[arg(short, long, requires = "output")]
    pub force: bool,
    /// Accept only a delta that makes the image with this identity, as `shale delta` prints it.
    #[arg(long, value_name = "HASH")]
    pub expect: Option<shale::read::Identity>,
    /// Do not compare all bytes with the identity of the new image.
    #[arg(long)]
    pub no_verify: bool,
    /// Wait while another process writes to OLD.
    #[arg(long, conflicts_with = "output")]
    pub wait: bool,
}

/// `shale split`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
      shale split home.shale --size 4G -o /media/disk/      parts home.shale.1-of-3 and so on\n  \
      shale ls /media/disk/home.shale.1-of-3                name the first part to read all\n  \
      cat home.shale.*-of-3 > home.shale                    join them")]
pub struct Split {
    /// The image.
    #[arg(value_parser = local_path())]
    pub image: PathBuf,
    /// Most bytes of a part, such as 4G or 650M. It is rounded down to a multiple of 64 KiB.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub size: u64,
    /// The directory of the parts, or the beginning of their names (default: the path of the
    /// image).
    #[arg(short, long, value_name = "DIR|PREFIX", value_parser = local_path())]
    pub output: Option<PathBuf>,
    /// Replace existing parts.
    #[arg(short, long)]
    pub force: bool,
}
