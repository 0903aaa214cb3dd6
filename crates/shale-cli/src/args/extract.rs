//! Arguments of `extract`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::image::ImageArgs;
use crate::size;

/// `shale extract`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 everything was extracted, 1 failure, 3 a pattern matched nothing or \
                  a file could not be restored completely. An --exclude that matches nothing is \
                  only a warning. Files that are complete stay after a failure or Ctrl-C; \
                  incomplete files are removed."
)]
pub struct Extract {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// The directory to extract into; created if it does not exist (default: the current
    /// directory).
    #[arg(short = 'C', long = "directory", value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Leave out files that match; can be repeated.
    ///
    /// A pattern that begins with `/` begins at the root of the image; any other matches at any
    /// depth, such as `*.o`. A match of a directory leaves out everything below it.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub exclude: Vec<OsString>,
    /// List the paths that would be extracted, and extract nothing.
    #[arg(long, conflicts_with_all = ["to_stdout", "dry_run"])]
    pub list: bool,
    /// Report how much would be extracted and which files are in the way, and extract nothing.
    #[arg(short = 'n', long, conflicts_with = "to_stdout")]
    pub dry_run: bool,
    /// Write the contents of the files to standard output, in the order of their paths, and create
    /// no files.
    #[arg(short = 'O', long, conflicts_with_all = ["directory", "overwrite", "same_owner",
        "no_same_owner", "xattrs", "no_xattrs", "no_devices", "sparse", "strip_components",
        "keep_going"])]
    pub to_stdout: bool,
    /// Remove this many leading components from each path; shorter paths are left out.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub strip_components: usize,
    /// The paths or patterns to extract (default: everything).
    ///
    /// A pattern begins at the root of the image, and a match of a directory includes everything
    /// below it. `*` and `?` match within a name, `**` across directories, `[a-z]` and `[!a-z]` one
    /// character, `{a,b}` either word; a backslash makes the next character literal. An argument
    /// that is an existing path of the image matches that path.
    pub patterns: Vec<OsString>,
    /// Number of threads; 0 uses all processors.
    #[arg(long, default_value_t = 0, value_parser = size::parse_threads,
        value_name = "NUMBER")]
    pub threads: usize,
    /// What to do with files that already exist (default: extract nothing if there are any).
    #[arg(long, value_enum, value_name = "WHEN")]
    pub overwrite: Option<OverwriteChoice>,
    /// Restore owners even as an ordinary user, as far as the system allows it.
    #[arg(long, conflicts_with = "no_same_owner")]
    pub same_owner: bool,
    /// Give all files to the current user, even as root.
    #[arg(long)]
    pub no_same_owner: bool,
    /// Restore extended attributes (default); cancels an earlier --no-xattrs.
    #[arg(long, overrides_with = "no_xattrs")]
    pub xattrs: bool,
    /// Do not restore extended attributes.
    #[arg(long, overrides_with = "xattrs")]
    pub no_xattrs: bool,
    /// Where files get holes (default: stored; --sparse alone: always).
    #[arg(long, value_enum, value_name = "WHERE", num_args = 0..=1, require_equals = true,
        default_missing_value = "always")]
    pub sparse: Option<SparseChoice>,
    /// Do not create device nodes.
    #[arg(long)]
    pub no_devices: bool,
    /// Continue after damage and failures; each is reported, and the exit code is 3.
    #[arg(long = "continue")]
    pub keep_going: bool,
    /// Memory for decoded frames, such as 512M.
    #[arg(long, value_parser = size::parse_memory, value_name = "SIZE")]
    pub cache: Option<u64>,
}

/// Where extracted files get holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SparseChoice {
    /// Where the files have holes in the image.
    Stored,
    /// Where the files have holes or long runs of zeros in the image.
    Always,
    /// Nowhere.
    Never,
}

/// What happens to files that already exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OverwriteChoice {
    /// Keep them.
    Never,
    /// Replace those that are older than the file in the image.
    Older,
    /// Replace them.
    Always,
}
