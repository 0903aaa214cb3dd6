//! Arguments of the commands that check images, sign them, verify signatures, add parity and
//! repair.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use shale::read::Identity;

use super::{Offset, offset};
use crate::size;

/// `shale check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Changes nothing and remembers nothing. Exit codes: 0 no problem in what was \
                  checked, 1 it could not be checked, 4 problems were found."
)]
pub struct Check {
    /// The image.
    pub image: PathBuf,
    /// Where the image begins in its file: bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = offset)]
    pub offset: Offset,
    /// Threads; 0 is as many as there are processors.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads)]
    pub threads: usize,
    /// The image has to have this identity, as `shale create` and `shale info` print it.
    #[arg(long, value_name = "HASH")]
    pub expect: Option<Identity>,
    /// How deep.
    #[arg(short, long, value_enum, default_value = "content")]
    pub level: LevelChoice,
    /// Only a part of bytes and frames, such as 1/7 on Mondays; structure and tables are always
    /// checked. Parts are chosen by index: 1/7 to 7/7 together see everything.
    #[arg(long, value_name = "PART")]
    pub subset: Option<shale::Subset>,
    /// End after this time, such as 90s, 10m or 2h, and say what was left out; structure and
    /// tables are always checked.
    #[arg(long, value_parser = size::parse_time)]
    pub time: Option<Duration>,
    /// The same as `--level frames`.
    #[arg(long, hide = true, conflicts_with = "level")]
    pub no_decode: bool,
}

/// How deep an image is checked; each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LevelChoice {
    /// Superblock, section headers, trailers, root, hashes: a few reads.
    Structure,
    /// All metadata: every page and row of every table, and what must hold between them.
    Tables,
    /// Every byte against its checksums and hashes.
    Frames,
    /// Every frame decoded and compared with what was packed.
    Content,
}

/// `shale sign`.
#[derive(Debug, Args)]
pub struct Sign {
    /// The image.
    pub image: PathBuf,
    /// The file of the secret key.
    #[arg(short, long)]
    pub key: PathBuf,
    /// Where to write the signature; IMAGE.sig without.
    #[arg(short, long, conflicts_with = "embed")]
    pub output: Option<PathBuf>,
    /// Append the signature to the image itself; what is there and the identity do not change.
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
    pub image: PathBuf,
    /// Files of public keys that you trust; one that signed is enough.
    #[arg(short, long, required = true)]
    pub key: Vec<PathBuf>,
    /// The file of the signature; IMAGE.sig if that is there, else what is in the image.
    #[arg(short, long)]
    pub signature: Option<PathBuf>,
    /// Compare the signature with the identity only, and leave it to `--expect` to verify what is
    /// read.
    #[arg(long)]
    pub skip_content: bool,
}

/// `shale repair`.
#[derive(Debug, Args)]
pub struct Repair {
    /// The damaged image; it is only read.
    pub image: PathBuf,
    /// The file to write.
    #[arg(short, long)]
    pub output: PathBuf,
    /// Keep what is left where not everything can be restored; what is lost is reported, and the
    /// exit code is 3.
    #[arg(long)]
    pub salvage: bool,
    /// Replace an existing output.
    #[arg(short, long)]
    pub force: bool,
    /// Where the image begins in its file: bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = offset)]
    pub offset: Offset,
    /// Threads; 0 is as many as there are processors.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads)]
    pub threads: usize,
}

/// `shale parity`.
#[derive(Debug, Subcommand)]
pub enum Parity {
    /// Add parity behind an image, in its file; what is there is not changed.
    Add {
        /// The image.
        image: PathBuf,
        /// How much, as a part of the image: 5%, 0.5%.
        #[arg(long, default_value = "5%", value_parser = size::parse_share)]
        share: u32,
        /// Where the image begins in its file: bytes, or `auto`.
        #[arg(long, default_value = "auto", value_parser = offset)]
        offset: Offset,
        /// Cut off what an interrupted writer left behind the image.
        #[arg(short, long)]
        force: bool,
        /// Threads; 0 is as many as there are processors.
        #[arg(long, default_value_t = 0, value_parser = size::parse_threads)]
        threads: usize,
    },
}
