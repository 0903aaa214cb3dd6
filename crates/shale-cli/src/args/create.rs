//! Arguments of `create`, `rewrite` and `mkfs`: the sources, the output and how the image is built.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use shale::write::Order;

use super::age::EncryptArgs;
use super::input::InputArgs;
use super::local::local_path;
use crate::size;

/// `shale create`.
#[derive(Debug, Args)]
pub struct Create {
    /// What to pack: directories, archives (tar, cpio, zip, 7z, RAR and others), images (SquashFS,
    /// DwarFS, EROFS, ISO 9660, ShaleFS) and images of containers (OCI layouts, archives of `docker
    /// save`); `-` is a tar archive from standard input.
    ///
    /// IMAGE@SNAPSHOT is a snapshot of a ShaleFS image: SNAPSHOT is written as for --snapshot of
    /// `shale mount`.
    ///
    /// SOURCE=/PREFIX stores a source below a path of the image. With several sources, a directory
    /// without a prefix is stored under its own name, and an archive at the root. Directories with
    /// the same path become one; any other path in several sources is an error without --replace.
    #[arg(required_unless_present = "manifest", value_name = "SOURCE[=/PREFIX]")]
    pub sources: Vec<OsString>,
    /// Pack the tree that a manifest file describes; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "sources")]
    pub manifest: Option<PathBuf>,
    /// The image to write; `-` is standard output, s3://, gs:// and az:// an object in a store.
    #[arg(short, long, value_name = "IMAGE", value_parser = local_path())]
    pub output: PathBuf,
    /// With --base, read all files of directories, also those whose length and modification time
    /// are those of the base.
    #[arg(long)]
    pub checksum: bool,
    /// What becomes of the output.
    #[command(flatten)]
    pub target: Target,
    /// Options of the build.
    #[command(flatten)]
    pub how: How,
}

/// `mkfs.shale`.
#[derive(Debug, Args)]
pub struct Mkfs {
    /// The image to write; `-` is standard output.
    #[arg(value_parser = local_path())]
    pub image: PathBuf,
    /// The directory or archive to pack.
    pub source: OsString,
    /// What becomes of the output.
    #[command(flatten)]
    pub target: Target,
    /// Options of the build.
    #[command(flatten)]
    pub how: How,
}

/// What becomes of a new image.
#[derive(Debug, Args)]
pub struct Target {
    /// Add parity, so that damage can be repaired: a percentage of the image size, such as 5%, or
    /// `none`. Small images get more, as there are at least 18 blocks of 64 KiB.
    #[arg(long, value_name = "SHARE", value_parser = size::parse_parity)]
    pub parity: Option<u32>,
    /// Pad the image with zeroes to a multiple of 4 KiB. Loop devices need that: they cut a file at
    /// its last whole sector.
    #[arg(long)]
    pub pad: bool,
    /// Replace an existing output.
    #[arg(short, long)]
    pub force: bool,
    /// Recipients of an encrypted image.
    #[command(flatten)]
    pub encrypt: EncryptArgs,
}

/// How an image is built.
#[derive(Debug, Args)]
pub struct How {
    /// Number of threads; 0 uses all processors. Does not change the image.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads,
        value_name = "NUMBER")]
    pub threads: usize,
    /// Memory limit of the build, such as 512M (default: 320M, more where the level needs it, less
    /// where the process may have less). Does not change the image.
    #[arg(long, value_parser = size::parse_memory, value_name = "SIZE")]
    pub memory: Option<u64>,
    /// Compression level, from 0 (fastest) to 9 (smallest); also written -0 to -9.
    #[arg(short, long, value_parser = clap::value_parser!(u8).range(0..=9),
        conflicts_with = "Digits")]
    pub level: Option<u8>,
    /// The level by its digit.
    #[command(flatten)]
    pub digits: Digits,
    /// Codec and settings to use instead of the level's: zstd:19, lzma:9e, lz4, stored.
    ///
    /// A leading category limits the option to this kind of data, such as text=lzma:9,lc=4,pb=0;
    /// the option can be repeated. The categories are generic, text, code, audio, sensor,
    /// array and incompressible.
    #[arg(short = 'C', long, value_name = "[CATEGORY=]CODEC[:SETTINGS]")]
    pub codec: Vec<String>,
    /// Pack files that match in another way: codec=CODEC[:SETTINGS], level=0 to 9, lines=on|off
    /// (lines of text as columns), recompress=on|off, category=NAME. Can be repeated.
    ///
    /// Patterns are those of --exclude; a match of a directory includes all files below it. The
    /// first rule that matches a file decides, as with --exclude; keys that it does not name keep
    /// their value. `level` gives the codecs, filters and frames of that level, and levels below 4
    /// have no references; everything else is that of --level. `codec` or `level` replaces
    /// --codec. `category` says what the files are taken for: generic, text, code, audio, sensor or
    /// incompressible. Equal contents are stored once, as the rule of the first file says. A rule
    /// that matches nothing is a warning.
    #[arg(long, value_name = "PATTERN: KEY=VALUE,...", allow_hyphen_values = true)]
    pub rule: Vec<OsString>,
    /// Order of file contents in the image, instead of the level's.
    ///
    /// `similarity` stores similar files, such as versions of one file, next to each other; `path`
    /// sorts by path; `revpath` sorts by the reversed path; `none` keeps the order of the source;
    /// `explicit:FILE` stores the files listed in FILE first, in this order, then the rest in the
    /// order of the source.
    #[arg(long, value_name = "ORDER", value_parser = parse_order)]
    pub order: Option<OrderChoice>,
    /// Store the listed files first, in small frames that decode fast. `shale mount -o
    /// hotlog=FILE` writes such a list.
    #[arg(long, value_name = "FILE")]
    pub hot: Option<PathBuf>,
    /// Uncompressed size of a frame, such as 256K, instead of the level's.
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub frame_size: Option<u64>,
    /// Store what is in gzip, zip (also wheels, jars and office documents), PDF and git files
    /// instead of their compressed bytes, which are rebuilt bit for bit when they are read
    /// (default: off).
    ///
    /// Such trees become two to five times smaller. They take as long to pack as their unpacked
    /// files, and reading them takes the time to compress them. Applies to files of at most 32 MiB,
    /// and to files in tar archives.
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true,
        default_missing_value = "on")]
    pub recompress: Option<Switch>,
    /// Do not read the image back and compare it with the source.
    #[arg(long)]
    pub no_verify: bool,
    /// Leave out files that cannot be read; each is reported, and the exit code is 3.
    #[arg(long)]
    pub skip_unreadable: bool,
    /// Fail if a file changes, shrinks or vanishes while it is read.
    ///
    /// By default, a file that changes is packed as it was read, one that grows with the length
    /// that it had when it was opened, and one that vanishes is left out. Each is named, and the
    /// exit code is 3.
    #[arg(long)]
    pub strict: bool,
    /// Let later sources replace files of earlier ones, but never a directory. The number of
    /// replaced paths is reported, and the exit code is 3.
    #[arg(long)]
    pub replace: bool,
    /// Do not cross into other file systems.
    #[arg(short = 'x', long)]
    pub one_file_system: bool,
    /// The byte at which the archive begins in its file, for archives that follow something else.
    #[arg(long, value_name = "BYTE", default_value_t = 0, hide_default_value = true)]
    pub offset: u64,
    /// The tag of the container image to pack, if SOURCE has several: a whole name, or its part
    /// after the colon.
    #[arg(long, value_name = "TAG", help_heading = "Container images")]
    pub tag: Option<String>,
    /// Pack every tag of the container images in SOURCE, each as a snapshot with its name, in the
    /// order in which SOURCE lists them.
    #[arg(long, conflicts_with_all = ["tag", "container_files", "snapshot"],
        help_heading = "Container images")]
    pub all_tags: bool,
    /// The platform of the container image to pack, if SOURCE has several, such as linux/arm64.
    #[arg(long, value_name = "OS/ARCH", help_heading = "Container images")]
    pub platform: Option<String>,
    /// Pack the files of an OCI layout or of an archive of `docker save` as they are, instead of
    /// the tree that their layers make.
    #[arg(long, conflicts_with_all = ["tag", "platform"], help_heading = "Container images")]
    pub container_files: bool,
    /// File whose first line is the password of encrypted archives (zip, 7z, RAR).
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Pack the targets of symbolic links instead of the links. Dangling links and loops count as
    /// unreadable files.
    #[arg(short = 'L', long)]
    pub dereference: bool,
    /// Which files are taken, and their metadata.
    #[command(flatten)]
    pub input: InputArgs,
    /// Timestamps to store besides the modification time: atime, ctime, btime.
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        value_name = "TIMES",
        help_heading = "Metadata"
    )]
    pub keep_times: Vec<TimeName>,
    /// Name of the snapshot.
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<OsString>,
    /// A label for the image, which `shale info` shows.
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Directory for temporary files, and for the image until it is uploaded to a URL (default: the
    /// directory of the output; TMPDIR or /tmp if the output is standard output or a URL).
    #[arg(long, value_name = "DIR")]
    pub temp_dir: Option<PathBuf>,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Do it.
    On,
    /// Do not.
    Off,
}

/// A timestamp of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TimeName {
    /// Last modification; always stored.
    Mtime,
    /// Last access.
    Atime,
    /// Last change of the inode.
    Ctime,
    /// Creation.
    Btime,
}

/// `-0` to `-9`, as in gzip, xz and zstd.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct Digits {
    #[arg(short = '0', hide = true)]
    d0: bool,
    #[arg(short = '1', hide = true)]
    d1: bool,
    #[arg(short = '2', hide = true)]
    d2: bool,
    #[arg(short = '3', hide = true)]
    d3: bool,
    #[arg(short = '4', hide = true)]
    d4: bool,
    #[arg(short = '5', hide = true)]
    d5: bool,
    #[arg(short = '6', hide = true)]
    d6: bool,
    #[arg(short = '7', hide = true)]
    d7: bool,
    #[arg(short = '8', hide = true)]
    d8: bool,
    #[arg(short = '9', hide = true)]
    d9: bool,
}

impl Digits {
    /// The level given as a digit, if any.
    pub fn level(&self) -> Option<u8> {
        let given = [
            self.d0, self.d1, self.d2, self.d3, self.d4, self.d5, self.d6, self.d7, self.d8,
            self.d9,
        ];
        given.iter().position(|&digit| digit).map(|level| level as u8)
    }
}

/// A value of `--order`.
#[derive(Debug, Clone)]
pub enum OrderChoice {
    /// An order that needs no list.
    Known(Order),
    /// The files listed here come first.
    Explicit(PathBuf),
}

/// Parses `--order`.
fn parse_order(word: &str) -> Result<OrderChoice, String> {
    if let Some(file) = word.strip_prefix("explicit:") {
        return Ok(OrderChoice::Explicit(file.into()));
    }
    let orders = [Order::Similarity, Order::Path, Order::ReversePath, Order::Source];
    let found = orders.into_iter().find(|order| order.to_string() == word);
    found
        .map(OrderChoice::Known)
        .ok_or_else(|| "use similarity, path, revpath, none or explicit:FILE".to_owned())
}
