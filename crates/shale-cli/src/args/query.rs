//! Arguments of the commands that answer questions about whole trees: `find`, `diff`, `grep` and
//! `snapshots`.

use std::ffi::OsString;

use clap::Args;

use super::image::ImageArgs;

/// `shale find`.
#[derive(Debug, Args)]
#[command(after_help = "\
Tests, as in find(1):
  -name -iname -path -ipath PATTERN    wildcards * ? [...], on the name or the whole path
  -regex -iregex REGEX                 a regular expression on the whole path
  -type f|d|l|b|c|p|s[,...]            -empty          -links N        -inum N
  -size N[c|k|M|G]                     rounded up; without a unit in blocks of 512 bytes
  -mtime N   -mmin N                   days or minutes since the last modification
  -newer FILE                          modified after a file of the system
  -perm MODE | -MODE | /MODE           exactly, all of, any of: 644, -u=w, /222
  -user -group NAME   -uid -gid N      names are those of this system
  -mindepth N   -maxdepth N   -prune   -true
N is a number, +N more than it, -N less. Join tests with -a (or nothing) and -o, negate with ! or
-not, group with ( and ). End with -print0 or -ls to change the output.

Examples:
  shale find logs.shale -name '*.gz' -size +1M
  shale find logs.shale var ! -user root -mtime -7 -ls
  shale find --snapshots backup.shale -path 'etc/*.conf'")]
pub struct Find {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// Search all snapshots, and print in which of them each version of a path is.
    #[arg(long, conflicts_with = "snapshot")]
    pub snapshots: bool,
    /// Where to start (default: the root), then tests; without tests everything is printed.
    #[arg(value_name = "PATH | TEST", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// `shale diff`.
#[derive(Debug, Args)]
#[command(after_help = "\
Output: `+` added, `-` removed, `>` moved, `M` changed, followed by what changed: t type,
c content, l link target, d device, p permissions, o owner, g group, m modification time,
x extended attributes.

Exit codes: 0 equal, 1 different, 2 failure.

Examples:
  shale diff monday.shale tuesday.shale
  shale diff backup.shale@#0 backup.shale
  shale diff system.shale /srv/root --stat")]
pub struct Diff {
    /// The old tree: an image, IMAGE@SNAPSHOT, or a directory.
    pub old: OsString,
    /// The new tree, in the same form.
    pub new: OsString,
    /// Print only totals.
    #[arg(long)]
    pub stat: bool,
    /// Do not compare modification times.
    #[arg(long)]
    pub no_times: bool,
    /// Do not compare owners and groups.
    #[arg(long)]
    pub no_owners: bool,
    /// Do not compare extended attributes.
    #[arg(long)]
    pub no_xattrs: bool,
    /// Do not read files to compare them: files with equal lengths and times count as equal.
    #[arg(long)]
    pub no_content: bool,
    /// Show moved files as removed and added.
    #[arg(long)]
    pub no_moves: bool,
}

/// `shale grep`.
#[derive(Debug, Args)]
#[command(after_help = "\
Files are searched in the order in which they are stored, so that each frame is decoded once. Files
with NUL bytes are skipped unless -a is given.

Exit codes: 0 found, 1 not found, 2 failure.

Examples:
  shale grep -i 'out of memory' logs.shale
  shale grep -n -w main src.shale lib/run.c")]
pub struct Grep {
    /// The regular expression.
    pub pattern: String,
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// Files and directories to search (default: everything).
    pub paths: Vec<OsString>,
    /// Ignore case.
    #[arg(short = 'i', long)]
    pub ignore_case: bool,
    /// The pattern is a text, not a regular expression.
    #[arg(short = 'F', long)]
    pub fixed_strings: bool,
    /// Only match whole words.
    #[arg(short = 'w', long)]
    pub word_regexp: bool,
    /// Print the lines that do not match.
    #[arg(short = 'V', long)]
    pub invert_match: bool,
    /// Print only the names of files with matches.
    #[arg(short = 'l', long, conflicts_with = "count")]
    pub files_with_matches: bool,
    /// Print the number of matching lines of each file that has any.
    #[arg(short = 'c', long)]
    pub count: bool,
    /// Print line numbers.
    #[arg(short = 'n', long)]
    pub line_number: bool,
    /// Do not print file names.
    #[arg(long)]
    pub no_filename: bool,
    /// Search files with NUL bytes as text, too.
    #[arg(short = 'a', long)]
    pub text: bool,
    /// Number of threads (default: the processors).
    #[arg(long, value_name = "NUMBER")]
    pub threads: Option<usize>,
}
