//! Arguments of `mount`, `umount` and `stats`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use shale::read::Identity;

use super::image::{Offset, parse_offset};
use crate::size;

/// A way for the kernel to see an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViewChoice {
    /// FUSE: the driver answers every request. Works for every user.
    Fuse,
    /// The kernel's own EROFS driver, on a virtual image that the driver serves. Root only.
    Kernel,
    /// `kernel` where it is possible, faster (many small files) and the mount is open to other
    /// users (`-o allow_other`); otherwise `fuse`. `-v` prints the reason.
    Auto,
}

impl ViewChoice {
    /// The name of the view on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fuse => "fuse",
            Self::Kernel => "kernel",
            Self::Auto => "auto",
        }
    }

    /// The view with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Fuse, Self::Kernel, Self::Auto].into_iter().find(|view| view.name() == name)
    }
}

/// `shale mount`.
#[derive(Debug, Args)]
#[command(
    override_usage = "shale mount [OPTIONS] IMAGE DIR\n       shale mount [OPTIONS] IMAGE=DIR...\n       \
                      shale mount [OPTIONS] IMAGE... --union DIR",
    after_help = "\
IMAGE@SNAPSHOT mounts one snapshot of an image; SNAPSHOT is written as for --snapshot.

Examples:
  shale mount backup.shale /mnt
  shale mount backup.shale@2026-11-22 /mnt
  shale mount --snapshots --follow backup.shale /mnt
  shale mount base.shale app.shale config.shale --union /mnt"
)]
pub struct Mount {
    /// The image and the mount point; or several pairs IMAGE=DIR, served by one process with one
    /// cache.
    #[arg(required = true, value_name = "IMAGE DIR")]
    pub what: Vec<OsString>,
    /// Stay in the foreground until the image is unmounted.
    #[arg(short, long)]
    pub foreground: bool,
    /// Mount options, separated by commas: allow_other, auto_unmount, dev, suid, noexec, loop,
    /// uid=, gid=, threads=, cache=, prefetch=, push=, idle=, metrics=, hotlog=, offset=,
    /// snapshot=, snapshots, follow, subdir=, view=, verify=, expect=, log=, mkdir, label and
    /// fsname=.
    ///
    /// Options of mount(8) that do not apply to a read-only image are accepted and ignored.
    #[arg(short = 'o')]
    pub options: Vec<OsString>,
    /// Number of threads that answer requests and decode; 0 uses all processors.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads,
        value_name = "NUMBER")]
    pub threads: usize,
    /// Way in which the kernel sees the image (default: fuse).
    #[arg(long, value_enum)]
    pub view: Option<ViewChoice>,
    /// Write messages of the driver to this file. By default a background mount uses the system
    /// log, or standard error if that is a file.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Make the mount point if it does not exist, and remove it after unmounting.
    #[arg(long)]
    pub mkdir: bool,
    /// Memory for decoded frames, such as 512M (default: an eighth of the memory).
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub cache: Option<u64>,
    /// Offset of the image in its file, in bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = parse_offset, value_name = "BYTES")]
    pub offset: Offset,
    /// The snapshot to use: a name, #NUMBER (counted from 0), `latest` (default), or a time in UTC
    /// such as 2026-11-22 or 2026-11-22T10:00, which means the newest snapshot not after it.
    #[arg(long)]
    pub snapshot: Option<OsString>,
    /// Show every snapshot as a directory with its name, and `latest` as a link to the newest.
    #[arg(long)]
    pub snapshots: bool,
    /// With --snapshots, also show snapshots that are appended while the image is mounted.
    #[arg(long)]
    pub follow: bool,
    /// Show all images on DIR as one tree, later images on top of earlier ones. Whiteouts of
    /// overlayfs and of container images hide what lies below them.
    #[arg(long, value_name = "DIR")]
    pub union: Option<PathBuf>,
    /// Accept only the image with this identity, as `shale create` and `shale info` print it.
    /// Everything that is read is verified against it.
    #[arg(long, value_name = "HASH")]
    pub expect: Option<Identity>,
    /// Used by the background process to report that the mount is ready.
    #[arg(long, hide = true)]
    pub ready: bool,
}

/// `shale umount`.
#[derive(Debug, Args)]
pub struct Umount {
    /// The mount points.
    #[arg(required_unless_present = "all", value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Unmount all mounted images.
    #[arg(short, long, conflicts_with = "dirs")]
    pub all: bool,
    /// Detach the mount point now; processes with open files can finish reading.
    #[arg(short, long)]
    pub lazy: bool,
    /// Do not unmount; only make the driver write its pending output.
    #[arg(long, hide = true)]
    pub flush: bool,
}

/// `shale stats`.
#[derive(Debug, Args)]
pub struct Stats {
    /// The mount point.
    pub mount: PathBuf,
}
