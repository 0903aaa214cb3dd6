//! What can be asked for: the whole command line, for parsing, help, completions and man pages.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use shale::read::Identity;

use crate::order::LayingChoice;
use crate::{exit, size};

mod input; // what is taken of sources, and as what
mod integrity; // check, signatures, parity and repair

pub use input::{InputArgs, RuleOption, SpecialKind};
pub use integrity::{Check, LevelChoice, Parity, Repair, Sign, Verify};

/// Packs a tree of files into one small image that reads like a file system.
#[derive(Debug, Parser)]
#[command(
    name = "shale",
    version,
    about,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done in part, 4 damage found, \
                  130 interrupted; `shale help exit-codes` explains them."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Say nothing but errors.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more; twice for even more.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Print JSON for machines instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,
    /// How progress is shown.
    #[arg(long, global = true, value_enum, default_value = "auto")]
    pub progress: ProgressChoice,
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressChoice {
    /// A bar on a terminal, a line now and then elsewhere.
    Auto,
    /// A bar.
    Bar,
    /// A line now and then.
    Plain,
    /// Nothing.
    None,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pack a directory or an archive into an image.
    Create(Create),
    /// Pack a directory into an image, in the order of mkfs: image first.
    #[command(hide = true)]
    Mkfs(Mkfs),
    /// Pack an image anew, with another level or other metadata: the same as `create IMAGE`.
    Rewrite(Create),
    /// Mount an image on a directory.
    Mount(Mount),
    /// Unmount a mounted image.
    #[command(alias = "unmount")]
    Umount(Umount),
    /// List a directory of an image.
    Ls(Ls),
    /// List an image, or a directory of it, as a tree.
    Tree(TreeArgs),
    /// Show all that is known of files of an image.
    Stat(Paths),
    /// Write files of an image to standard output.
    Cat(Paths),
    /// Extract an image, or what matches patterns.
    Extract(Extract),
    /// Write an image, or what matches patterns, as an archive of another format.
    Export(Export),
    /// Show what an image is made of.
    Info(ImageArgs),
    /// Check all checksums and everything that must hold within an image.
    Check(Check),
    /// Repair a damaged image into a new file: from its parity, or what is left of it.
    Repair(Repair),
    /// Add parity to an image, so that damage can be repaired.
    #[command(subcommand)]
    Parity(Parity),
    /// Make a key to sign images with.
    Keygen {
        /// The file for the secret key; the public one gets the same name and `.pub`.
        key: PathBuf,
        /// A comment for both files, such as a name.
        #[arg(long, default_value = "")]
        comment: String,
    },
    /// Sign the identity of an image, after its bytes were compared with it.
    Sign(Sign),
    /// Verify that an image was signed by a key you trust, and is what was signed.
    Verify(Verify),
    /// Show any structure of an image with its offsets.
    Dump(Dump),
    /// Show statistics of a mounted image.
    Stats(Stats),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the man page, or write all man pages into a directory.
    Man {
        /// Where to write them.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Explain the exit codes.
    #[command(after_help = exit::table())]
    ExitCodes,
}

/// An image and where in its file.
#[derive(Debug, Clone, Args)]
pub struct ImageArgs {
    /// The image.
    pub image: PathBuf,
    /// Where the image begins in its file: bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = offset)]
    pub offset: Offset,
    /// The snapshot, by name or by `#NUMBER` from 0; the newest without.
    #[arg(long)]
    pub snapshot: Option<OsString>,
    /// Only the image of this identity, as `shale create` and `shale info` print it; whatever is
    /// read is verified against it.
    #[arg(long, value_name = "HASH")]
    pub expect: Option<Identity>,
}

/// Where an image begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    /// To be found.
    Auto,
    /// Here.
    At(u64),
}

fn offset(text: &str) -> Result<Offset, String> {
    match text {
        "auto" => Ok(Offset::Auto),
        text => size::parse(text).map(Offset::At),
    }
}

impl Arguments {
    /// Takes from the matches what deriving does not give.
    pub fn complete(&mut self, matches: &clap::ArgMatches) {
        let Some((_, matches)) = matches.subcommand() else { return };
        match &mut self.command {
            Command::Create(args) | Command::Rewrite(args) => args.how.input.order_rules(matches),
            Command::Mkfs(args) => args.how.input.order_rules(matches),
            _ => {}
        }
    }
}

/// `shale create`.
#[derive(Debug, Args)]
pub struct Create {
    /// What to pack: directories, archives (tar, plain or compressed; zip) and images (SquashFS,
    /// DwarFS, ShaleFS); `-` is a tar archive from standard input. SOURCE=/PREFIX puts it below a
    /// path of the image. Of several, directories without a prefix come under their names,
    /// archives at the root; later ones replace earlier ones, but nothing replaces a directory.
    #[arg(required_unless_present = "manifest", value_name = "SOURCE[=/PREFIX]")]
    pub sources: Vec<OsString>,
    /// Pack the tree that this file describes, which need not exist; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "sources")]
    pub manifest: Option<PathBuf>,
    /// The image to write; `-` is standard output.
    #[arg(short, long)]
    pub output: PathBuf,
    /// How.
    #[command(flatten)]
    pub how: How,
}

/// `mkfs.shale`.
#[derive(Debug, Args)]
pub struct Mkfs {
    /// The image to write; `-` is standard output.
    pub image: PathBuf,
    /// The directory or archive to pack.
    pub source: OsString,
    /// How.
    #[command(flatten)]
    pub how: How,
}

/// How an image is created.
#[derive(Debug, Args)]
pub struct How {
    /// Threads; 0 is as many as there are processors. Does not change the image.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads)]
    pub threads: usize,
    /// Memory for the build, such as 512M. Does not change the image.
    #[arg(long, value_parser = size::parse)]
    pub memory: Option<u64>,
    /// Level 0 (fast) to 9 (small); also written -0 to -9.
    #[arg(short, long, value_parser = clap::value_parser!(u8).range(0..=9),
        conflicts_with = "Digits")]
    pub level: Option<u8>,
    /// The level by its digit.
    #[command(flatten)]
    pub digits: Digits,
    /// Codec and its settings instead of the level's: zstd:19, lzma:9e, lz4, brotli:11, stored.
    ///
    /// With a category of data before it, such as text=lzma:9,lc=4,pb=0, only for that; may be
    /// given several times. Categories are generic, text, code, audio, sensor and incompressible.
    #[arg(short = 'C', long, value_name = "[CATEGORY=]CODEC[:SETTINGS]")]
    pub codec: Vec<String>,
    /// Order in which contents are laid instead of the level's.
    ///
    /// similarity lays near-copies (versions of a file) behind each other; path, revpath (paths
    /// read from their ends) and none (as the source has them) say what they are; explicit:FILE
    /// lays what the file lists first, in its order, and the rest as the source has it.
    #[arg(long, value_name = "ORDER", value_parser = crate::order::parse)]
    pub order: Option<LayingChoice>,
    /// Lay the files that this list names before all others, in its order and in short frames that
    /// decode quickly: programs wait for them. A mount with -o hotlog=FILE writes such a list.
    #[arg(long, value_name = "FILE")]
    pub hot: Option<PathBuf>,
    /// Plain bytes of a frame instead of the level's, such as 256K.
    #[arg(long, value_parser = size::parse)]
    pub frame_size: Option<u64>,
    /// Add parity, as a part of the image such as 5%, so that damage can be repaired.
    #[arg(long, value_name = "SHARE", value_parser = size::parse_share)]
    pub parity: Option<u32>,
    /// Do not read the image back and compare it with what was read.
    #[arg(long)]
    pub no_verify: bool,
    /// Pack without the files that cannot be read; they are reported, and the exit code is 3.
    #[arg(long)]
    pub skip_unreadable: bool,
    /// Replace an existing output.
    #[arg(short, long)]
    pub force: bool,
    /// Do not descend into other file systems.
    #[arg(short = 'x', long)]
    pub one_file_system: bool,
    /// Pack what symbolic links lead to, wherever that is, instead of the links. A link that leads
    /// to nothing or in a circle cannot be read then.
    #[arg(short = 'L', long)]
    pub dereference: bool,
    /// What is taken and what is stored.
    #[command(flatten)]
    pub input: InputArgs,
    /// Times kept beside the modification time: atime, ctime, btime.
    #[arg(long, value_delimiter = ',', value_enum)]
    pub keep_times: Vec<TimeName>,
    /// Name of the snapshot.
    #[arg(long)]
    pub snapshot: Option<OsString>,
    /// Where temporary files go; beside the output without.
    #[arg(long)]
    pub temp_dir: Option<PathBuf>,
}

/// A time of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TimeName {
    /// Last modification; always kept.
    Mtime,
    /// Last access.
    Atime,
    /// Last change of the inode.
    Ctime,
    /// Creation.
    Btime,
}

/// `-0` to `-9`, as gzip and its kin have them.
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
    /// The digit given, if any.
    pub fn level(&self) -> Option<u8> {
        let given = [
            self.d0, self.d1, self.d2, self.d3, self.d4, self.d5, self.d6, self.d7, self.d8,
            self.d9,
        ];
        given.iter().position(|&digit| digit).map(|level| level as u8)
    }
}

/// How the kernel sees an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViewChoice {
    /// Through FUSE: every request comes to the driver. Works for everyone.
    Fuse,
    /// Through the kernel's own EROFS, over a virtual image that the driver serves. Root only.
    Kernel,
    /// The kernel's where it is possible and faster, which is for many small files, and others may
    /// see the mount anyway (`-o allow_other`); else FUSE. `-v` says why.
    Auto,
}

impl ViewChoice {
    /// The name of each.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fuse => "fuse",
            Self::Kernel => "kernel",
            Self::Auto => "auto",
        }
    }

    /// The one with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Fuse, Self::Kernel, Self::Auto].into_iter().find(|view| view.name() == name)
    }
}

/// `shale mount`.
#[derive(Debug, Args)]
#[command(
    override_usage = "shale mount [OPTIONS] IMAGE DIR\n       shale mount [OPTIONS] IMAGE=DIR..."
)]
pub struct Mount {
    /// The image and the directory to mount it on; or several of them, IMAGE=DIR each, served by
    /// one process with one cache.
    #[arg(required = true, value_name = "IMAGE DIR")]
    pub what: Vec<OsString>,
    /// Stay in the foreground until unmounted.
    #[arg(short, long)]
    pub foreground: bool,
    /// Options, separated by commas: allow_other, auto_unmount, dev, suid, noexec, loop, uid=,
    /// gid=, threads=, cache=, prefetch=, idle=, metrics=, hotlog=, offset=, snapshot=, subdir=,
    /// view=, verify=, expect=, and those of mount(8) that change nothing.
    #[arg(short = 'o')]
    pub options: Vec<OsString>,
    /// Threads that answer and decode; 0 is as many as there are processors.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads)]
    pub threads: usize,
    /// How the kernel sees the image; `fuse` without.
    #[arg(long, value_enum)]
    pub view: Option<ViewChoice>,
    /// Memory for decoded frames, such as 512M; an eighth of what there is without.
    #[arg(long, value_parser = size::parse)]
    pub cache: Option<u64>,
    /// Where the image begins in its file: bytes, or `auto`.
    #[arg(long, default_value = "auto", value_parser = offset)]
    pub offset: Offset,
    /// The snapshot, by name or by `#NUMBER` from 0; the newest without.
    #[arg(long)]
    pub snapshot: Option<OsString>,
    /// Only the image of this identity, as `shale create` and `shale info` print it; whatever is
    /// read is verified against it.
    #[arg(long, value_name = "HASH")]
    pub expect: Option<Identity>,
    /// For the background process: where to tell that the mount is ready.
    #[arg(long, hide = true)]
    pub ready: bool,
}

/// `shale umount`.
#[derive(Debug, Args)]
pub struct Umount {
    /// Where an image is mounted.
    pub dir: PathBuf,
    /// Let those who have files open there go on.
    #[arg(short, long)]
    pub lazy: bool,
    /// Unmount nothing, only have the driver write what it has to.
    #[arg(long, hide = true)]
    pub flush: bool,
}

/// `shale ls`.
#[derive(Debug, Args)]
pub struct Ls {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// A path in the image; its root without.
    pub path: Option<OsString>,
    /// Show type, permissions, links, owner, group, size and modification time in UTC.
    #[arg(short = 'l', long)]
    pub long: bool,
    /// List all directories below as well.
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Names that begin with a dot, too; they are always listed.
    #[arg(short = 'a', long)]
    pub all: bool,
    /// End names with a zero byte instead of a line end, and write them as they are.
    #[arg(short = '0', long, visible_short_alias = 'z')]
    pub zero: bool,
}

/// `shale tree`.
#[derive(Debug, Args)]
pub struct TreeArgs {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// A path in the image; its root without.
    pub path: Option<OsString>,
    /// How many levels of directories to show.
    #[arg(short = 'L', long)]
    pub depth: Option<usize>,
}

/// An image and paths in it.
#[derive(Debug, Args)]
pub struct Paths {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// Paths in the image.
    #[arg(required = true)]
    pub paths: Vec<OsString>,
}

/// `shale extract`.
#[derive(Debug, Args)]
pub struct Extract {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// The directory to extract into; made if it is not there.
    #[arg(short = 'C', long = "directory", required_unless_present = "to_stdout")]
    pub directory: Option<PathBuf>,
    /// Write the contents of files to standard output, in the order of their paths, and make
    /// nothing.
    #[arg(short = 'O', long, conflicts_with_all = ["directory", "overwrite", "same_owner",
        "no_same_owner", "xattrs", "no_xattrs", "no_devices", "sparse", "strip_components",
        "keep_going"])]
    pub to_stdout: bool,
    /// Leave out so many names at the beginning of each path; what has no more is left out.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub strip_components: usize,
    /// What to extract: paths, with `*` and `?` inside a name, `**` across directories, `[a-z]` and
    /// `[!a-z]` for one character, `{a,b}` for either, and a backslash before any of these
    /// characters that stands for itself; what is a path of the image as it is written means just
    /// that. All without.
    pub patterns: Vec<OsString>,
    /// Threads; 0 is as many as there are processors.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads)]
    pub threads: usize,
    /// What to do with files that are there already; without, nothing is extracted.
    #[arg(long, value_enum)]
    pub overwrite: Option<OverwriteChoice>,
    /// Restore owners, also as an ordinary user as far as allowed.
    #[arg(long, conflicts_with = "no_same_owner")]
    pub same_owner: bool,
    /// Make everything the user's own, also as root.
    #[arg(long)]
    pub no_same_owner: bool,
    /// Restore extended attributes, which is done anyway; undoes --no-xattrs before it.
    #[arg(long, overrides_with = "no_xattrs")]
    pub xattrs: bool,
    /// Do not restore extended attributes.
    #[arg(long, overrides_with = "xattrs")]
    pub no_xattrs: bool,
    /// Where files get holes; as in the image without.
    #[arg(long, value_enum, value_name = "WHERE", num_args = 0..=1, require_equals = true,
        default_missing_value = "always")]
    pub sparse: Option<SparseChoice>,
    /// Do not make device nodes.
    #[arg(long)]
    pub no_devices: bool,
    /// Go on past damage and failures; they are reported, and the exit code is 3.
    #[arg(long = "continue")]
    pub keep_going: bool,
    /// Memory for decoded frames, such as 512M.
    #[arg(long, value_parser = size::parse)]
    pub cache: Option<u64>,
}

/// `shale export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// The archive to write; `-` is standard output.
    #[arg(short, long)]
    pub output: PathBuf,
    /// What to export: paths, with `*` and `?` inside a name, `**` across directories, `[a-z]` and
    /// `[!a-z]` for one character, `{a,b}` for either, and a backslash before any of these
    /// characters that stands for itself; what is a path of the image as it is written means just
    /// that. All without.
    pub patterns: Vec<OsString>,
    /// The format; without, the output's name tells: out.tar, out.tar.zst, out.cpio, out.zip,
    /// out.squashfs.
    #[arg(long, value_enum)]
    pub format: Option<FormatChoice>,
    /// How the archive is compressed; without, the output's name tells. SquashFS: zstd, gzip, xz,
    /// lz4 or none; zip: gzip (its deflate) or none.
    #[arg(long, value_enum)]
    pub compress: Option<CompressChoice>,
    /// The level of the compression; its usual one without.
    #[arg(long)]
    pub level: Option<u32>,
    /// Plain bytes of a block of SquashFS, 4K to 1M.
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub block_size: Option<u64>,
    /// Threads; 0 is as many as there are processors.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads)]
    pub threads: usize,
    /// Replace an existing output.
    #[arg(short, long)]
    pub force: bool,
    /// Memory for decoded frames, such as 512M.
    #[arg(long, value_parser = size::parse)]
    pub cache: Option<u64>,
}

/// A format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatChoice {
    /// tar: ustar, with extended headers of PAX where needed.
    #[value(alias = "pax")]
    Tar,
    /// cpio, in the new ASCII format (newc).
    #[value(alias = "newc")]
    Cpio,
    /// zip.
    Zip,
    /// SquashFS 4.0, which Linux mounts.
    Squashfs,
}

/// How an archive is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompressChoice {
    /// Not at all.
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

/// Where extracted files get holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SparseChoice {
    /// Where they have them in the image.
    Stored,
    /// There, and where the image knows of nothing but zeroes.
    Always,
    /// Nowhere.
    Never,
}

/// What to do with files that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OverwriteChoice {
    /// Keep them.
    Never,
    /// Replace those that are older than in the image.
    Older,
    /// Replace them.
    Always,
}

/// `shale dump`.
#[derive(Debug, Args)]
pub struct Dump {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// superblock, sections, trailer, root, tables, `pages TABLE`, or the name of a table for its
    /// rows; superblock, sections, trailer, root and tables without.
    pub what: Vec<String>,
    /// Numbers of sections, pages or rows to show, such as 10..20.
    #[arg(long, value_parser = range)]
    pub range: Option<(u64, u64)>,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("`{text}` is not a range; write 10..20, 10.. or 10");
    let number = |text: &str, empty: u64| match text {
        "" => Ok(empty),
        text => text.parse().map_err(|_| wrong()),
    };
    match text.split_once("..") {
        Some((first, end)) => match (number(first, 0)?, number(end, u64::MAX)?) {
            (first, end) if first < end => Ok((first, end)),
            _ => Err(format!("nothing is in `{text}`: the end of a range is not part of it")),
        },
        None => {
            let one: u64 = text.parse().map_err(|_| wrong())?;
            Ok((one, one.saturating_add(1)))
        }
    }
}

/// `shale stats`.
#[derive(Debug, Args)]
pub struct Stats {
    /// Where an image is mounted.
    pub mount: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn levels_are_digits() {
        let parse = |words: &[&str]| Arguments::try_parse_from(words);
        let level = |words: &[&str]| match parse(words).unwrap().command {
            Command::Create(create) => create.how.digits.level().or(create.how.level),
            _ => panic!("create"),
        };
        assert_eq!(level(&["shale", "create", "a", "-o", "b", "-9"]), Some(9));
        assert_eq!(level(&["shale", "create", "-0", "a", "-o", "b"]), Some(0));
        assert_eq!(level(&["shale", "create", "-l", "4", "a", "-o", "b"]), Some(4));
        assert_eq!(level(&["shale", "create", "a", "-o", "b"]), None);
        for two in [["-1", "-2"], ["-l3", "-5"], ["--level=3", "-3"]] {
            let words = [&["shale", "create", "a", "-o", "b"], &two[..]].concat();
            assert!(parse(&words).is_err(), "{two:?}");
        }
    }

    #[test]
    fn ranges_are_read() {
        assert_eq!(range("3..7"), Ok((3, 7)));
        assert_eq!(range("3.."), Ok((3, u64::MAX)));
        assert_eq!(range("..7"), Ok((0, 7)));
        assert_eq!(range("5"), Ok((5, 6)));
        for wrong in ["a..b", "2..1", "2..2", "..0", ""] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
