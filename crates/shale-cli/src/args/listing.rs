//! Arguments of the commands that show what an image holds: `ls`, `tree`, `du`, `stat`, `cat` and
//! `dump`.

use std::ffi::OsString;

use clap::{ArgAction, Args, ValueEnum};

use super::image::ImageArgs;
use crate::attributes::Template;

/// `shale ls`.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Times are local, with their zone. Owners have their name on this machine, if \
                  there is one. Only --help prints this help, as -h means --human-readable."
)]
pub struct Ls {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// Paths or patterns in the image, such as 'usr/lib/*.so' (default: the root).
    pub paths: Vec<OsString>,
    /// Show type, permissions, links, owner, group, size and modification time.
    #[arg(short = 'l', long)]
    pub long: bool,
    /// Format of a line: names, long (-l), tar (as `tar -tv`, with everything below a directory),
    /// or a template such as '%A %s %n\n'.
    ///
    /// In a template, %n is the name, %s the size, %A the mode, %a the octal permissions, %F the
    /// kind, %u %U %g %G the owner and group by number and name, %h the number of links, %i the
    /// inode, %y the time, %Y the time in seconds since 1970, and %l the target of a link.
    #[arg(long, value_name = "FORMAT", value_parser = parse_format, conflicts_with = "long")]
    pub format: Option<LsFormat>,
    /// Show sizes such as 1.5K and 64M.
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// Show owners and groups by number.
    #[arg(short = 'n', long)]
    pub numeric: bool,
    /// Sort by modification time, newest first.
    #[arg(short = 't', long, conflicts_with = "by_size")]
    pub by_time: bool,
    /// Sort by size, largest first.
    #[arg(short = 'S', long)]
    pub by_size: bool,
    /// Reverse the order.
    #[arg(short = 'r', long)]
    pub reverse: bool,
    /// List directories themselves, not their entries.
    #[arg(short = 'd', long, conflicts_with = "recursive")]
    pub directory: bool,
    /// List all directories below, too.
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Accepted for compatibility with ls(1); names that begin with a dot are always listed.
    #[arg(short = 'a', short_alias = 'A', long)]
    pub all: bool,
    /// Accepted for compatibility with ls(1); there is always one name a line.
    #[arg(short = '1')]
    pub one: bool,
    /// End names with a NUL byte instead of a newline, and do not escape them.
    #[arg(short = '0', long, visible_short_alias = 'z')]
    pub zero: bool,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
}

/// A value of `--format`.
#[derive(Debug, Clone)]
pub enum LsFormat {
    /// Names only.
    Names,
    /// Like `ls -l`.
    Long,
    /// Like `tar -tv`.
    Tar,
    /// A template with placeholders.
    Template(Template),
}

fn parse_format(text: &str) -> Result<LsFormat, String> {
    match text {
        "names" => Ok(LsFormat::Names),
        "long" => Ok(LsFormat::Long),
        "tar" => Ok(LsFormat::Tar),
        text if text.contains('%') => Template::parse(text).map(LsFormat::Template),
        _ => Err("use names, long, tar, or a template such as '%A %s %n\\n'".to_owned()),
    }
}

/// `shale tree`.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Only --help prints this help, as -h means --human-readable."
)]
pub struct TreeArgs {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// A path in the image (default: the root).
    pub path: Option<OsString>,
    /// Number of directory levels to show.
    #[arg(short = 'L', long, value_name = "NUMBER")]
    pub depth: Option<usize>,
    /// Show directories only.
    #[arg(short = 'd', long)]
    pub directories: bool,
    /// Show sizes such as 1.5K and 64M.
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
}

/// `shale du`.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "The size of a directory is that of all files below it before compression; a file \
                  with several names counts once. A path counts only once, even if it is given \
                  several times. Only --help prints this help, as -h means --human-readable."
)]
pub struct Du {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// Paths or patterns in the image (default: the root).
    pub paths: Vec<OsString>,
    /// Show only a total for each path.
    #[arg(short = 's', long, conflicts_with_all = ["all", "max_depth"])]
    pub summarize: bool,
    /// Show files, too.
    #[arg(short = 'a', long)]
    pub all: bool,
    /// Show a grand total.
    #[arg(short = 'c', long)]
    pub total: bool,
    /// Show only directories at most this many levels below a path.
    #[arg(short = 'd', long, value_name = "NUMBER")]
    pub max_depth: Option<usize>,
    /// Show sizes such as 1.5K and 64M instead of bytes.
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// Accepted for compatibility with du(1); sizes are in bytes.
    #[arg(short = 'b', long)]
    pub bytes: bool,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
}

/// An image and paths in it.
#[derive(Debug, Args)]
pub struct Paths {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// Paths or patterns in the image, such as 'etc/*.conf'.
    #[arg(required = true)]
    pub paths: Vec<OsString>,
}

/// `shale sum`.
#[derive(Debug, Args)]
#[command(after_help = "The list can be checked in a directory with the same files: \
                  `shale sum IMAGE | (cd DIR && sha256sum --check)`.")]
pub struct Sum {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// Paths or patterns in the image (default: all files).
    pub patterns: Vec<OsString>,
    /// Leave out files that match; can be repeated. A pattern that begins with `/` begins at the
    /// root of the image; any other matches at any depth.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub exclude: Vec<OsString>,
    /// The checksum.
    #[arg(short, long, value_enum, default_value = "sha256")]
    pub algorithm: SumAlgorithm,
    /// End lines with a NUL byte, and do not escape names.
    #[arg(short = 'z', long)]
    pub zero: bool,
}

/// A checksum of `shale sum`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SumAlgorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl SumAlgorithm {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

/// `shale dump`.
#[derive(Debug, Args)]
pub struct Dump {
    /// The image.
    #[command(flatten)]
    pub image: ImageArgs,
    /// What to show: superblock, sections, trailer, root, tables, `pages TABLE`, or the name of a
    /// table for its rows (default: superblock, sections, trailer, root and tables).
    #[arg(value_name = "STRUCTURE")]
    pub what: Vec<String>,
    /// Numbers of the sections, pages or rows to show, such as 10..20.
    #[arg(long, value_name = "RANGE", value_parser = parse_range)]
    pub range: Option<(u64, u64)>,
}

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("`{text}` is not a range; use 10..20, 10.. or 10");
    let number = |text: &str, empty: u64| match text {
        "" => Ok(empty),
        text => text.parse().map_err(|_| wrong()),
    };
    match text.split_once("..") {
        Some((first, end)) => match (number(first, 0)?, number(end, u64::MAX)?) {
            (first, end) if first < end => Ok((first, end)),
            _ => Err(format!("the range `{text}` is empty: its end is exclusive")),
        },
        None => {
            let one: u64 = text.parse().map_err(|_| wrong())?;
            Ok((one, one.saturating_add(1)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed() {
        assert_eq!(parse_range("3..7"), Ok((3, 7)));
        assert_eq!(parse_range("3.."), Ok((3, u64::MAX)));
        assert_eq!(parse_range("..7"), Ok((0, 7)));
        assert_eq!(parse_range("5"), Ok((5, 6)));
        for wrong in ["a..b", "2..1", "2..2", "..0", ""] {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
    }
}
