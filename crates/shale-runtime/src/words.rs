//! The options of the runtime: the first word, if it begins with `--appimage-`.
//!
//! They have the names that users and tools know of AppImage. Every other word is the program's.

use std::ffi::OsString;

use crate::failure::{Failure, USAGE};

/// What a start does.
#[derive(Debug, PartialEq, Eq)]
pub enum Words {
    /// Run the program with these arguments.
    Run(Vec<OsString>),
    /// Print the options.
    Help,
    /// Print the version.
    Version,
    /// Print where the image begins.
    Offset,
    /// Extract what the pattern matches, or everything.
    Extract(Option<OsString>),
    /// Mount and wait.
    Mount,
    /// Print the signatures, or check the one of this key.
    Signature(Option<OsString>),
}

/// The text of `--appimage-help`.
pub const HELP: &str = "\
This file is a program and its files in one. It mounts its files and runs the program with all
arguments, except for these, which come first:

  --appimage-extract [PATTERN]  extract the files, or those that match, to squashfs-root
  --appimage-mount              mount the files, print where, and wait until interrupted
  --appimage-offset             print at which byte of this file the image begins
  --appimage-signature [KEY]    print who signed the image; with a public key, verify all of it
  --appimage-version            print the version of the runtime
  --appimage-help               print this text

Environment:
  SHALE_MOUNT=WAY               the only way to use: fuse, namespace or extract
  APPIMAGE_EXTRACT_AND_RUN=1    as SHALE_MOUNT=extract
  SHALE_VERIFY=KEY              run only what this public key (a file or 64 digits) has signed
  SHALE_LINGER=SECONDS          keep a mount this long for the next start; default 10, 0 not at all
  SHALE_LOG=FILE                append messages about damage to this file

The program finds its files in $APPDIR, this file in $APPIMAGE, the name that it was called by in
$ARGV0 and the directory that it was called in in $OWD. Exit codes of the runtime: 125 it failed,
126 the program cannot be executed, 127 the program is not in the image.
";

/// Reads the arguments after the name of the program.
///
/// # Errors
/// An option of the runtime is unknown, or has too many arguments.
pub fn parse(mut words: Vec<OsString>) -> Result<Words, Failure> {
    let first = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    let Some(option) = first.strip_prefix("--appimage-") else { return Ok(Words::Run(words)) };
    let usage = |message: String| Err(Failure { code: USAGE, message });
    let takes_word = match option {
        "extract" | "signature" => true,
        "help" | "version" | "offset" | "mount" => false,
        _ => return usage(format!("no option --appimage-{option}; see --appimage-help")),
    };
    if words.len() > 1 + usize::from(takes_word) {
        return usage(format!("too many arguments after --appimage-{option}"));
    }
    let option = option.to_owned();
    let word = words.drain(1..).next();
    Ok(match option.as_str() {
        "extract" => Words::Extract(word),
        "signature" => Words::Signature(word),
        "help" => Words::Help,
        "version" => Words::Version,
        "offset" => Words::Offset,
        _ => Words::Mount,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_is_for_the_runtime() {
        let parsed = |words: &[&str]| parse(words.iter().map(OsString::from).collect());
        let run = |words: &[&str]| Words::Run(words.iter().map(OsString::from).collect());
        assert_eq!(parsed(&[]).unwrap(), run(&[]));
        for words in [["-v", "--appimage-help"], ["--", "--appimage-mount"], ["--help", "x"]] {
            assert_eq!(parsed(&words).unwrap(), run(&words));
        }
        assert_eq!(parsed(&["--appimage-help"]).unwrap(), Words::Help);
        let extract = Words::Extract(Some("*.so".into()));
        assert_eq!(parsed(&["--appimage-extract", "*.so"]).unwrap(), extract);
        assert_eq!(parsed(&["--appimage-signature"]).unwrap(), Words::Signature(None));
        for wrong in [&["--appimage-updateinfo"][..], &["--appimage-mount", "x"]] {
            assert_eq!(parsed(wrong).unwrap_err().code, USAGE, "{wrong:?}");
        }
    }
}
