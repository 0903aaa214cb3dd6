//! Arguments of a build that select files of its sources and change their metadata.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{size, time};

/// Which files are taken, and which metadata is stored instead of theirs.
#[derive(Debug, Args)]
pub struct InputArgs {
    /// Leave out files that match, as in rsync. The first of all rules that matches decides.
    ///
    /// A directory that is left out is not searched: `--include '*.py' --exclude '*'` finds no file
    /// in a directory, unless --include '*/' comes first. Rules on the command line that match
    /// nothing are warnings; rules that leave nothing are a warning and exit code 3.
    #[arg(
        long,
        value_name = "PATTERN",
        allow_hyphen_values = true,
        help_heading = "Choosing input"
    )]
    pub exclude: Vec<OsString>,
    /// Keep files that match, even if a later rule leaves them out.
    #[arg(
        long,
        value_name = "PATTERN",
        allow_hyphen_values = true,
        help_heading = "Choosing input"
    )]
    pub include: Vec<OsString>,
    /// A filter rule: `+ PATTERN` keeps, `- PATTERN` leaves out, `. FILE` reads rules from a file.
    #[arg(
        short = 'F',
        long,
        value_name = "RULE",
        allow_hyphen_values = true,
        help_heading = "Choosing input"
    )]
    pub filter: Vec<OsString>,
    /// The rules in the order of the command line: option and index.
    #[arg(skip)]
    pub rule_order: Vec<(RuleOption, usize)>,
    /// Show what the rules do to each path, and pack nothing.
    #[arg(long, help_heading = "Choosing input")]
    pub filter_dry_run: bool,
    /// Pack only the paths listed in this file, one a line or separated by NUL bytes; `-` is
    /// standard input.
    #[arg(long, value_name = "FILE", help_heading = "Choosing input")]
    pub input_list: Option<PathBuf>,
    /// Leave out files that `.gitignore` files exclude.
    #[arg(long, conflicts_with = "dereference", help_heading = "Choosing input")]
    pub gitignore: bool,
    /// Leave out what is in directories of caches, which have a file CACHEDIR.TAG. The directory
    /// and the tag are packed.
    #[arg(long, conflicts_with = "dereference", help_heading = "Choosing input")]
    pub exclude_caches: bool,
    /// Leave out files and directories that `chattr +d` marks as not to be dumped.
    #[arg(long, help_heading = "Choosing input")]
    pub exclude_nodump: bool,
    /// Leave out files that are larger, such as 100M.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = "Choosing input")]
    pub max_size: Option<u64>,
    /// Leave out files that were modified before this time; directories are packed.
    ///
    /// Times are written as for --mtime. A value that begins with `/` or `.` is a file, whose
    /// modification time counts, as in tar.
    #[arg(long, value_name = "TIME|FILE", help_heading = "Choosing input")]
    pub newer: Option<OsString>,
    /// Add entries to the sources, or change metadata, as a pseudo file of mksquashfs says.
    ///
    /// Each line has a path, a type (d, s, b, c, i, x, or m to change an entry), a mode, an owner,
    /// a group and what the type needs: `dev/console c 600 0 5 5 1`. An upper-case type has a time
    /// before the mode. Entries without a time get SOURCE_DATE_EPOCH, or 0. Lines that run a
    /// command (f) are refused.
    #[arg(long, value_name = "FILE", help_heading = "Choosing input")]
    pub pseudo: Option<PathBuf>,
    /// Leave out directories that contain no files at any depth.
    #[arg(long, help_heading = "Choosing input")]
    pub remove_empty_dirs: bool,
    /// Leave out files of these kinds.
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        value_name = "KINDS",
        help_heading = "Choosing input"
    )]
    pub without: Vec<SpecialKind>,
    /// Owner of all files: a number or a user name of this machine.
    #[arg(long, value_name = "USER", help_heading = "Metadata")]
    pub owner: Option<String>,
    /// Group of all files: a number or a group name of this machine.
    #[arg(long, value_name = "GROUP", help_heading = "Metadata")]
    pub group: Option<String>,
    /// Make root the owner of all files: --owner 0 --group 0.
    #[arg(long, conflicts_with_all = ["owner", "group"], help_heading = "Metadata")]
    pub all_root: bool,
    /// Map owners and groups by a file with lines such as `user 1000 0` or `group 100-199 5100`.
    #[arg(long, value_name = "FILE", help_heading = "Metadata")]
    pub map_users: Option<PathBuf>,
    /// Change permissions, as in chmod and rsync: u+rwX,go-w or D755,F644.
    #[arg(long, value_name = "CHANGES", allow_hyphen_values = true, help_heading = "Metadata")]
    pub chmod: Option<shale::Chmod>,
    /// Set all timestamps: 2024-01-31, '2024-01-31 12:00 +0100', '2 days ago', or seconds since
    /// 1970 such as @1700000000.5.
    ///
    /// A time without a zone is local time; name the zone, such as 2024-01-31T00:00:00Z, to get the
    /// same image on every machine.
    ///
    /// Without this option, SOURCE_DATE_EPOCH in the environment is the latest timestamp that is
    /// stored; later ones are reduced to it.
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true, help_heading = "Metadata")]
    pub mtime: Option<(i64, u32)>,
    /// Set SELinux labels (security.selinux) as a file of file contexts says, instead of those of
    /// the sources.
    ///
    /// The format is that of file_contexts(5). Paths are those of the image, with a slash before.
    /// As in libselinux, FILE.local, FILE.homedirs, FILE.subs and FILE.subs_dist are read, too, if
    /// they are there; a line without wildcards wins, else the last one that matches. A file gets
    /// no label if no line matches it, or if its line says `<<none>>`. Options that leave out
    /// attributes do not apply to these labels.
    #[arg(long, value_name = "FILE", help_heading = "Metadata")]
    pub file_contexts: Option<PathBuf>,
    /// Do not store extended attributes, access control lists and capabilities.
    #[arg(long, help_heading = "Metadata")]
    pub no_xattrs: bool,
    /// Store only extended attributes whose names match, such as `user.*`.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true, help_heading = "Metadata")]
    pub xattr_include: Vec<OsString>,
    /// Do not store extended attributes whose names match.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true, help_heading = "Metadata")]
    pub xattr_exclude: Vec<OsString>,
}

/// An option that adds a filter rule.
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
    /// Records the rules in the order of the command line; the parser keeps each option apart.
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

/// A kind of special file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SpecialKind {
    /// Block and character devices.
    Devices,
    /// Named pipes.
    Fifos,
    /// Sockets.
    Sockets,
}
