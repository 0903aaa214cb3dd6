//! What is taken of the sources of a build, and what is stored instead of what they say.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What is taken of the sources, and what is stored instead of what they say.
#[derive(Debug, Args)]
pub struct InputArgs {
    /// Leave out what matches, as rsync does. Of all rules the first that matches decides.
    #[arg(
        long,
        value_name = "PATTERN",
        allow_hyphen_values = true,
        help_heading = "Choosing input"
    )]
    pub exclude: Vec<OsString>,
    /// Take what matches, whatever later rules say.
    #[arg(
        long,
        value_name = "PATTERN",
        allow_hyphen_values = true,
        help_heading = "Choosing input"
    )]
    pub include: Vec<OsString>,
    /// A rule: `+ PATTERN`, `- PATTERN`, or `. FILE` for rules from a file.
    #[arg(
        short = 'F',
        long,
        value_name = "RULE",
        allow_hyphen_values = true,
        help_heading = "Choosing input"
    )]
    pub filter: Vec<OsString>,
    /// The rules in the order in which they were given, by option and number.
    #[arg(skip)]
    pub rule_order: Vec<(RuleOption, usize)>,
    /// Show what the rules do to every path, and pack nothing.
    #[arg(long, help_heading = "Choosing input")]
    pub filter_dry_run: bool,
    /// Take only the paths in this file, `-` for standard input: one a line, or ended by zero
    /// bytes if there is any.
    #[arg(long, value_name = "FILE", help_heading = "Choosing input")]
    pub input_list: Option<PathBuf>,
    /// Leave out what `.gitignore` files in directories say, as git does.
    #[arg(long, conflicts_with = "dereference", help_heading = "Choosing input")]
    pub gitignore: bool,
    /// Leave out directories that hold nothing but such directories.
    #[arg(long, help_heading = "Choosing input")]
    pub remove_empty_dirs: bool,
    /// Leave out kinds of files.
    #[arg(long, value_delimiter = ',', value_enum, help_heading = "Choosing input")]
    pub without: Vec<SpecialKind>,
    /// Owner of everything, by number or by this machine's name.
    #[arg(long, help_heading = "Metadata")]
    pub owner: Option<String>,
    /// Group of everything, by number or by this machine's name.
    #[arg(long, help_heading = "Metadata")]
    pub group: Option<String>,
    /// Everything is owned by root: --owner 0 --group 0.
    #[arg(long, conflicts_with_all = ["owner", "group"], help_heading = "Metadata")]
    pub all_root: bool,
    /// Owners and groups by a file with lines such as `user 1000 0` or `group 100-199 5100`.
    #[arg(long, value_name = "FILE", help_heading = "Metadata")]
    pub map_users: Option<PathBuf>,
    /// Changes of permissions, as of chmod and rsync: u+rwX,go-w or D755,F644.
    #[arg(long, allow_hyphen_values = true, help_heading = "Metadata")]
    pub chmod: Option<shale::Chmod>,
    /// All times, as seconds since 1970 (`1700000000` or `@1700000000.5`). Without, and with
    /// SOURCE_DATE_EPOCH in the environment, no time is after that.
    #[arg(long, value_parser = time, allow_hyphen_values = true, help_heading = "Metadata")]
    pub mtime: Option<(i64, u32)>,
    /// No extended attributes, lists and capabilities.
    #[arg(long, help_heading = "Metadata")]
    pub no_xattrs: bool,
    /// Only extended attributes with names like this, such as `user.*`.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true, help_heading = "Metadata")]
    pub xattr_include: Vec<OsString>,
    /// No extended attributes with names like this.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true, help_heading = "Metadata")]
    pub xattr_exclude: Vec<OsString>,
}

/// An option that gives a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleOption {
    /// `--filter`.
    Filter,
    /// `--include`.
    Include,
    /// `--exclude`.
    Exclude,
}

impl InputArgs {
    /// Puts rules into the order of the command line, where the parser keeps each option apart.
    pub(super) fn order_rules(&mut self, matches: &clap::ArgMatches) {
        let options = [
            ("filter", RuleOption::Filter),
            ("include", RuleOption::Include),
            ("exclude", RuleOption::Exclude),
        ];
        let mut rules = Vec::new();
        for (name, option) in options {
            let indices = matches.indices_of(name).into_iter().flatten();
            rules.extend(indices.enumerate().map(|(at, index)| (index, option, at)));
        }
        rules.sort_unstable_by_key(|(index, ..)| *index);
        self.rule_order = rules.into_iter().map(|(_, option, at)| (option, at)).collect();
    }
}

/// A kind of file that is neither data nor a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SpecialKind {
    /// Block and character devices.
    Devices,
    /// Pipes.
    Fifos,
    /// Sockets.
    Sockets,
}

/// Seconds, perhaps with a fraction.
fn time(text: &str) -> Result<(i64, u32), String> {
    let wrong = || format!("`{text}` is no time; write seconds since 1970");
    let digits = text.strip_prefix('@').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let sec: i64 = whole.parse().map_err(|_| wrong())?;
    let nsec: u32 = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
    match (whole.starts_with('-'), nsec) {
        (false, _) | (true, 0) => Ok((sec, nsec)),
        (true, nsec) => Ok((sec.checked_sub(1).ok_or_else(wrong)?, 1_000_000_000 - nsec)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(time("@17"), Ok((17, 0)));
        assert_eq!(time("1.25"), Ok((1, 250_000_000)));
        assert_eq!(time("-1.25"), Ok((-2, 750_000_000)));
        assert!(time("now").is_err() && time("1.x").is_err() && time("").is_err());
    }
}
