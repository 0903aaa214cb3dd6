//! The command line: every subcommand and option, for parsing, help, completions and man pages.

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};

use crate::exit;

mod local; // files by path and by URL
mod image; // which image, where in its file, which snapshot
mod input; // what a build takes from its sources
mod create; // how a build is done
mod bundle; // bundle
mod append; // append
mod assemble; // compact, forget and merge
mod thin; // delta, patch and split, and the bases of thin images
mod mount; // mount, umount and stats
mod listing; // ls, tree, stat, cat and dump
mod extract; // extract
mod export; // export
mod serve; // serve
mod query; // find, diff, grep and snapshots
mod age; // encrypted images
mod remote; // images that are elsewhere, and the cache of them
mod integrity; // check, signatures, parity and repair

pub use age::{AgeArgs, EncryptArgs};
pub use append::Append;
pub use assemble::{Compact, Copying, Forget, Merge};
pub use bundle::Bundle;
pub use create::{Create, How, Mkfs, OrderChoice, Switch, Target, TimeName};
pub use export::{CompressChoice, Export, FormatChoice};
pub use extract::{Extract, OverwriteChoice, SparseChoice};
pub use image::{ImageArgs, InfoArgs, Offset, Report};
pub use input::{InputArgs, RuleOption, SpecialKind};
pub use integrity::{Check, LevelChoice, Parity, Repair, Sign, Verify};
pub use listing::{Du, Dump, Ls, LsFormat, Paths, Sum, SumAlgorithm, TreeArgs};
pub use mount::{Mount, Stats, Umount, ViewChoice};
pub use query::{Diff, Find, Grep};
#[cfg(feature = "remote")]
pub use remote::CacheCommand;
pub use remote::RemoteArgs;
pub use serve::Serve;
pub use thin::{BaseArgs, Delta, Patch, Split};

/// Packs a tree of files into one small, read-only image that reads like a file system.
#[derive(Debug, Parser)]
#[command(
    name = "shale",
    version,
    after_help = "Exit codes: 0 success, 1 failure, 2 usage error, 3 partial success, 4 damage \
                  found, 130 interrupted; `shale help exit-codes` explains them."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print nothing but errors and warnings.
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Print more details; repeat the option for even more.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Global options")]
    pub verbose: u8,
    /// Print JSON instead of text.
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// How to show progress.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "auto",
        help_heading = "Global options"
    )]
    pub progress: ProgressChoice,
    /// Bases of thin images.
    #[command(flatten)]
    pub bases: BaseArgs,
    /// Images that are elsewhere.
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// Images that are encrypted.
    #[command(flatten)]
    pub keys: AgeArgs,
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressChoice {
    /// A bar on a terminal, otherwise a line every few seconds.
    Auto,
    /// A bar.
    Bar,
    /// A line every few seconds.
    Plain,
    /// No progress.
    None,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pack directories, archives or other images into an image.
    Create(Create),
    /// Pack a directory into an image, with the arguments of mkfs: the image comes first.
    #[command(hide = true)]
    Mkfs(Mkfs),
    /// Pack an image again, with another level or other metadata.
    ///
    /// The same as `create IMAGE`, except that the new image gets as much parity as the old one,
    /// unless --parity says otherwise. Signatures do not carry over, as the new image has other
    /// bytes; a warning says so.
    Rewrite(Create),
    /// Make one file that runs: a program and its files, which mount themselves.
    ///
    /// The file is a small static runtime and an image. When it is started, it mounts the image
    /// through FUSE, or in a user namespace, or extracts it to a cache, and runs the program with
    /// all arguments. FILE --appimage-help lists what else it can do.
    Bundle(Box<Bundle>),
    /// Add a snapshot to an image: a new state of its tree, at the cost of what is new.
    ///
    /// The earlier snapshots stay. SOURCE is the whole new tree; --add and --remove change the
    /// newest one instead. Files that the image holds already are not stored again, and files of a
    /// directory whose length and modification time did not change are not read. Only bytes after
    /// the end of the image are written: it can be mounted meanwhile, and an interrupted append
    /// leaves it as it was.
    Append(Append),
    /// Copy an image without what its snapshots do not need, and, if asked, with some of them only.
    ///
    /// Frames are copied as they are stored: nothing is packed again. A frame of which a kept file
    /// needs a part is kept whole.
    Compact(Compact),
    /// Decide which snapshots of an image to keep, and copy them into a new image.
    ///
    /// Without -o, the decision is only shown. The image itself is never changed.
    Forget(Forget),
    /// Make one image of several, without packing anything again.
    ///
    /// Frames are copied as they are stored, and files that are equal in several images are stored
    /// once.
    Merge(Merge),
    /// Write an update of an image: what a machine that has OLD needs to get NEW.
    ///
    /// `patch` makes one image of OLD and the delta. Its newest tree is that of NEW, the earlier
    /// snapshots of OLD stay, and it has the same identity on every machine. The delta is a thin
    /// image over OLD: with OLD at hand, it can be mounted and read like any image.
    Delta(Delta),
    /// Apply a delta to the image that it was made for.
    Patch(Patch),
    /// Cut an image into parts, for media and file systems with a limit.
    ///
    /// Name the first part wherever an image is named, with the other parts beside it.
    Split(Split),
    /// Mount an image on a directory.
    Mount(Mount),
    /// Serve images over HTTP and WebDAV, to browsers, file managers and download tools.
    Serve(Serve),
    /// Unmount mounted images.
    #[command(alias = "unmount")]
    Umount(Umount),
    /// List a directory of an image.
    Ls(Ls),
    /// Show a directory of an image as a tree.
    Tree(TreeArgs),
    /// Walk through an image in a terminal: look at files, search and extract.
    ///
    /// Keys: arrows or h j k l move, Enter opens a directory or shows a file, / searches, f finds
    /// names in all directories, x shows bytes, e extracts, s lists snapshots, ? helps, q ends.
    /// Directories show their first million entries, and files as text their first MiB; as bytes,
    /// files are shown whole.
    Browse(ImageArgs),
    /// Show how large the directories of an image are.
    Du(Du),
    /// Show all metadata of files in an image.
    Stat(Paths),
    /// Write files of an image to standard output.
    Cat(Paths),
    /// Find files by name, size, time and other attributes, as find(1) does.
    Find(Find),
    /// Search the contents of files for a regular expression.
    Grep(Grep),
    /// Compare two images, snapshots or directories.
    Diff(Diff),
    /// List the snapshots of an image.
    Snapshots(ImageArgs),
    /// Extract an image, or the files that match patterns.
    Extract(Extract),
    /// Convert an image, or the files that match patterns, to an archive of another format.
    Export(Export),
    /// Show how large an image is, what it was made with and how it is protected.
    ///
    /// With -v, show how it is stored: frames, codecs, tables and sections.
    Info(InfoArgs),
    /// Write an HTML page about an image: where the bytes are, what was saved, what reads cost.
    Report(Report),
    /// Print checksums of the files of an image, in the format of sha256sum(1).
    Sum(Sum),
    /// Check an image for damage.
    Check(Check),
    /// Repair a damaged image into a new file, from its parity or as far as possible.
    Repair(Repair),
    /// Add parity to an image, so that damage can be repaired, or remove it.
    #[command(subcommand)]
    Parity(Parity),
    /// Make a key pair to sign images with.
    Keygen {
        /// The file for the secret key; the public key is written to the same name with `.pub`.
        key: PathBuf,
        /// A comment for both files, such as a name.
        #[arg(long, default_value = "")]
        comment: String,
    },
    /// Sign an image.
    Sign(Sign),
    /// Verify a signature of an image, or compare an image with a directory.
    ///
    /// With --key, verify that a key you trust signed the image, and that the image was not changed
    /// since. With --against, compare the image with a directory.
    Verify(Verify),
    /// Show the internal structures of an image with their offsets.
    Dump(Dump),
    /// List or clear the cache of images that are elsewhere.
    #[cfg(feature = "remote")]
    #[command(subcommand)]
    Cache(CacheCommand),
    /// List mounted images.
    Mounts,
    /// Show statistics of a mounted image.
    Stats(Stats),
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the man page, or write all man pages into a directory.
    Man {
        /// The directory for the man pages.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Explain the exit codes.
    #[command(after_help = exit::table())]
    ExitCodes,
}

impl Arguments {
    /// Adds what the derived parser does not record: the order of filter rules.
    pub fn complete(&mut self, matches: &clap::ArgMatches) {
        let Some((_, matches)) = matches.subcommand() else { return };
        match &mut self.command {
            Command::Create(args) | Command::Rewrite(args) => args.how.input.order_rules(matches),
            Command::Mkfs(args) => args.how.input.order_rules(matches),
            Command::Append(args) => args.how.input.order_rules(matches),
            Command::Delta(args) => args.how.input.order_rules(matches),
            Command::Bundle(args) => args.how.input.order_rules(matches),
            _ => {}
        }
    }
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
}
