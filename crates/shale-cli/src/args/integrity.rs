//! Arguments of the commands that check, repair, sign and verify images and add parity.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use shale::read::Identity;

use super::image::{Offset, parse_offset};
use super::local::local_path;
use crate::size;

/// `shale check`.
#[derive(Debug, Args)]
#[command(
    after_help = "The images are only read. Exit codes: 0 no damage found, 1 a check failed, 4 \
                  damage found in at least one image."
)]
pub struct Check {
    /// The images.
    #[arg(required = true, value_name = "IMAGE")]
    pub images: Vec<PathBuf>,
    /// Offset of the image in its file, in bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = parse_offset, value_name = "BYTES")]
    pub offset: Offset,
    /// Number of threads; 0 uses all processors.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads,
        value_name = "NUMBER")]
    pub threads: usize,
    /// Check that the image has this identity, as `shale create` and `shale info` print it.
    #[arg(long, value_name = "HASH")]
    pub expect: Option<Identity>,
    /// How much to check.
    #[arg(short, long, value_enum, default_value = "content")]
    pub level: LevelChoice,
    /// Check only a part of the bytes and frames, such as 1/7 on Mondays. The parts 1/7 to 7/7
    /// together cover everything; structure and tables are always checked.
    #[arg(long, value_name = "PART")]
    pub subset: Option<shale::Subset>,
    /// Stop after this time, such as 90s, 10m or 2h, and report what was not checked; structure
    /// and tables are always checked.
    #[arg(long, value_parser = size::parse_time, value_name = "DURATION")]
    pub time: Option<Duration>,
    /// The same as `--level frames`.
    #[arg(long, hide = true, conflicts_with = "level")]
    pub no_decode: bool,
}

/// How much of an image is checked; each level includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LevelChoice {
    /// Superblock, section headers, trailers, root and hashes: a few reads.
    Structure,
    /// All metadata: every page and row of every table, and their references to each other.
    Tables,
    /// Every byte, compared with its checksums and hashes.
    Frames,
    /// Every frame, decoded and compared with the checksum of its content.
    Content,
}

/// `shale sign`.
#[derive(Debug, Args)]
pub struct Sign {
    /// The image.
    #[arg(value_parser = local_path())]
    pub image: PathBuf,
    /// The file of the secret key.
    #[arg(short, long)]
    pub key: PathBuf,
    /// The signature file to write (default: IMAGE.sig).
    #[arg(short, long, conflicts_with = "embed", value_parser = local_path())]
    pub output: Option<PathBuf>,
    /// Append the signature to the image itself; its contents and identity do not change.
    #[arg(long)]
    pub embed: bool,
    /// Replace an existing signature file.
    #[arg(short, long)]
    pub force: bool,
}

/// `shale verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The image.
    #[arg(value_parser = local_path())]
    pub image: PathBuf,
    /// File of a public key that you trust; can be repeated. A signature by one of them is enough.
    #[arg(short, long, required_unless_present = "against")]
    pub key: Vec<PathBuf>,
    /// Compare the image with this directory: paths, kinds, contents and targets of links. Exit
    /// codes: 0 the same, 1 different.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["key", "signature", "skip_content"])]
    pub against: Option<PathBuf>,
    /// With --against, compare permissions, owners and modification times, too.
    #[arg(long, requires = "against")]
    pub metadata: bool,
    /// With --against, the snapshot to use: a name, #NUMBER (counted from 0), `latest` (default),
    /// or a time in UTC such as 2026-11-22T10:00, which means the newest snapshot not after it.
    #[arg(long, requires = "against")]
    pub snapshot: Option<OsString>,
    /// The signature file (default: IMAGE.sig if it exists, otherwise the signature in the image).
    #[arg(short, long)]
    pub signature: Option<PathBuf>,
    /// Verify only the signature of the identity, not the contents; readers can verify those later
    /// with `--expect`.
    #[arg(long)]
    pub skip_content: bool,
}

/// `shale repair`.
#[derive(Debug, Args)]
pub struct Repair {
    /// The damaged image; it is only read.
    #[arg(value_parser = local_path())]
    pub image: PathBuf,
    /// The file to write.
    #[arg(short, long, value_parser = local_path())]
    pub output: PathBuf,
    /// Keep what can be saved if not everything can be restored; losses are reported, and the exit
    /// code is 3.
    #[arg(long)]
    pub salvage: bool,
    /// Replace an existing output.
    #[arg(short, long)]
    pub force: bool,
    /// Offset of the image in its file, in bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = parse_offset, value_name = "BYTES")]
    pub offset: Offset,
    /// Number of threads; 0 uses all processors.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads,
        value_name = "NUMBER")]
    pub threads: usize,
}

/// `shale parity`.
#[derive(Debug, Subcommand)]
pub enum Parity {
    /// Append parity to an image; its contents do not change. Parity that the image already has is
    /// replaced.
    Add {
        /// The image.
        #[arg(value_parser = local_path())]
        image: PathBuf,
        /// Amount of parity, as a percentage of the image size: 5%, 0.5%.
        #[arg(long, alias = "share", default_value = "5%", value_name = "SHARE",
            value_parser = size::parse_share)]
        parity: u32,
        /// Keep the parity that the image already has, and add more.
        #[arg(long)]
        more: bool,
        /// Offset of the image in its file, in bytes, or `auto`.
        #[arg(long, default_value = "auto", value_parser = parse_offset, value_name = "BYTES")]
        offset: Offset,
        /// Cut off the bytes that an interrupted write left after the image.
        #[arg(short, long)]
        force: bool,
        /// Number of threads; 0 uses all processors.
        #[arg(long, default_value_t = 0, value_parser = size::parse_threads,
        value_name = "NUMBER")]
        threads: usize,
    },
    /// Remove all parity from an image; signatures stay.
    Remove {
        /// The image.
        #[arg(value_parser = local_path())]
        image: PathBuf,
        /// Offset of the image in its file, in bytes, or `auto`.
        #[arg(long, default_value = "auto", value_parser = parse_offset, value_name = "BYTES")]
        offset: Offset,
        /// Do not check the image first. Parity could repair the damage that the check would find.
        #[arg(short, long)]
        force: bool,
        /// Number of threads; 0 uses all processors.
        #[arg(long, default_value_t = 0, value_parser = size::parse_threads,
            value_name = "NUMBER")]
        threads: usize,
    },
}
