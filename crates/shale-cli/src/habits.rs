//! Options and subcommands of similar programs that people type out of habit.
//!
//! The parser can only say that a word is unknown, or guess a word that looks similar. For the
//! words of mksquashfs, unsquashfs, mkdwarfs, tar and others, a message names what does the same
//! here.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A word of another program: its name, and what it is here.
type Habit = (&'static str, &'static str);

/// Options of programs that make images or archives.
const CREATE: &[Habit] = &[
    ("-i", "sources are arguments: `shale create SOURCE -o IMAGE`"),
    ("--input", "sources are arguments: `shale create SOURCE -o IMAGE`"),
    ("-comp", "that is a level, -0 to -9, or a codec, such as --codec zstd:19"),
    ("-Xcompression-level", "that is --level, -0 to -9"),
    ("-b", "that is --frame-size SIZE"),
    ("--block-size", "that is --frame-size SIZE"),
    ("-S", "that is --frame-size SIZE"),
    ("--block-size-bits", "that is --frame-size SIZE"),
    ("-e", "that is --exclude PATTERN"),
    ("-ef", "that is --filter '. FILE', with lines such as `- PATTERN`"),
    ("-j", "that is --threads NUMBER"),
    ("--jobs", "that is --threads NUMBER"),
    ("-N", "that is --threads NUMBER"),
    ("--num-workers", "that is --threads NUMBER"),
    ("-processors", "that is --threads NUMBER"),
    ("-mem", "that is --memory SIZE"),
    ("-noappend", "that is the default: an existing output is refused, --force replaces it"),
    ("-all-root", "that is --all-root"),
    ("-root-owned", "that is --all-root"),
    ("-no-xattrs", "that is --no-xattrs"),
    ("-no-progress", "that is --progress none"),
    ("-info", "that is --verbose"),
    ("-sort", "that is --order explicit:FILE"),
    ("-mkfs-time", "an image holds no time of its own; --mtime sets that of all files"),
    ("-all-time", "that is --mtime TIME"),
    ("-p", "a file of such definitions is --pseudo FILE"),
    ("-pf", "that is --pseudo FILE"),
    ("-context-file", "that is --file-contexts FILE"),
    ("-selinux", "that is --file-contexts FILE"),
    ("-z", "that is a level, -0 to -9"),
    ("-J", "that is a level, -0 to -9"),
];

/// Options of programs that unpack.
const EXTRACT: &[Habit] = &[
    ("-d", "that is -C DIR"),
    ("-dest", "that is -C DIR"),
    ("--dest", "that is -C DIR"),
    ("-f", "that is --overwrite always"),
    ("-force", "that is --overwrite always"),
    ("-i", "the image is an argument: `shale extract IMAGE`"),
    ("-o", "that is -C DIR; `shale export` writes an archive"),
    ("-l", "that is --list"),
    ("-ls", "that is --list"),
    ("-ll", "that is --list; `shale ls -lR` shows attributes, too"),
    ("-j", "that is --threads NUMBER"),
    ("--jobs", "that is --threads NUMBER"),
    ("-p", "that is --threads NUMBER; permissions are always restored"),
    ("-processors", "that is --threads NUMBER"),
    ("-x", "files are extracted by default"),
];

/// Subcommands of other programs.
const SUBCOMMANDS: &[Habit] = &[
    ("list", "`shale ls`"),
    ("l", "`shale ls`"),
    ("dir", "`shale ls`"),
    ("test", "`shale check`"),
    ("t", "`shale ls` to list, `shale check` to test"),
    ("fsck", "`shale check`"),
    ("scrub", "`shale check`"),
    ("pack", "`shale create`"),
    ("a", "`shale create`"),
    ("c", "`shale create`"),
    ("compress", "`shale create`"),
    ("build", "`shale create`"),
    ("convert", "`shale create` from another format, `shale export` to one"),
    ("unpack", "`shale extract`"),
    ("x", "`shale extract`"),
    ("decompress", "`shale extract`"),
    ("restore", "`shale extract`"),
    ("size", "`shale info`"),
    ("df", "`shale info`"),
    ("show", "`shale info`, `shale stat` or `shale dump`"),
    ("recompress", "`shale rewrite`"),
];

/// Returns a message for a command line that the parser refused, if it contains a known habit.
pub fn message(words: &[OsString], error: &clap::Error) -> Option<String> {
    let invalid = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let subcommand =
        words.iter().skip(1).filter_map(|word| word.to_str()).find(|word| !word.starts_with('-'));
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = invalid(ContextKind::InvalidSubcommand)?;
            let (_, here) = SUBCOMMANDS.iter().find(|(name, _)| *name == word)?;
            Some(format!("there is no subcommand `{word}`; here that is {here}"))
        }
        ErrorKind::UnknownArgument => {
            let refused = invalid(ContextKind::InvalidArg)?;
            let habits = match subcommand? {
                "create" | "rewrite" | "mkfs" => CREATE,
                "extract" => EXTRACT,
                _ => return None,
            };
            let words = words.iter().filter_map(|word| word.to_str());
            let words = words.take_while(|word| *word != "--");
            let words = words.map(|word| word.split('=').next().unwrap_or(word));
            // The parser names `-c` of `-comp`.
            let is_refused =
                |word: &&str| *word == refused || (refused.len() == 2 && word.starts_with(refused));
            let (word, here) = words.filter(is_refused).find_map(|word| {
                let exact = habits.iter().find(|(name, _)| *name == word);
                exact.or_else(|| habits.iter().find(|(name, _)| *name == refused))
            })?;
            Some(format!("there is no option `{word}`; here {here}"))
        }
        ErrorKind::MissingRequiredArgument if subcommand == Some("create") => {
            let last = words.last().map(Path::new)?;
            let is_image = last.extension().is_some_and(|extension| extension == "shale");
            (is_image && words.len() > 3).then(|| {
                format!("the image is named with -o: `shale create SOURCE -o {}`", last.display())
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Arguments;

    fn said(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = Arguments::command().try_get_matches_from_mut(&words).unwrap_err();
        message(&words, &error)
    }

    #[test]
    fn every_habit_is_unknown_to_the_parser_and_answered() {
        for (habits, line) in
            [(CREATE, "shale create src -o x.shale"), (EXTRACT, "shale extract x.shale")]
        {
            for (name, here) in habits {
                let message = said(&format!("{line} {name} 4")).unwrap_or_default();
                assert!(message.contains(here), "{name}: {message}");
            }
        }
        for (name, here) in SUBCOMMANDS {
            let message = said(&format!("shale {name} x")).unwrap_or_default();
            assert!(message.contains(here), "{name}: {message}");
        }
        assert!(said("shale create src x.shale").unwrap().contains("-o x.shale"));
        assert_eq!(said("shale create src -o x --nonsense"), None);
        assert_eq!(said("shale ls x -j 4"), None);
    }

    #[test]
    fn what_is_named_exists() {
        let command = Arguments::command();
        let known: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        for (name, here) in SUBCOMMANDS {
            assert!(!known.contains(name), "{name} is a subcommand");
            for word in here.split("shale ").skip(1) {
                let end = word.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(word.len());
                assert!(known.contains(&&word[..end]), "{name}: no `{}`", &word[..end]);
            }
        }
    }
}
