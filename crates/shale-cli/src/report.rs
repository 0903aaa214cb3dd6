//! Where lines, errors and JSON go, and which exit code an error means.
//!
//! Results go to standard output, everything about the doing to standard error. A reader of
//! standard output that has gone away ends the program quietly.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::args::{Arguments, ProgressChoice};
use crate::exit::{Exit, Misuse};
use crate::text;

/// How to say things.
#[derive(Debug, Clone, Copy)]
pub struct Say {
    /// Nothing but errors.
    pub quiet: bool,
    /// How much more.
    pub verbose: u8,
    /// JSON on standard output.
    pub json: bool,
    /// How progress is shown.
    pub progress: ProgressChoice,
}

impl Say {
    /// As the arguments have it.
    pub fn new(arguments: &Arguments) -> Self {
        Self {
            quiet: arguments.quiet,
            verbose: arguments.verbose,
            json: arguments.json,
            progress: arguments.progress,
        }
    }

    /// True if names go to a terminal, which must not obey them.
    pub fn escapes_names(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// A line about what is done, on standard error.
    pub fn line(&self, text: impl AsRef<str>) {
        if !self.quiet {
            to_stderr(text.as_ref());
        }
    }

    /// A line for those who asked for more.
    pub fn detail(&self, text: impl AsRef<str>) {
        if self.verbose > 0 {
            to_stderr(text.as_ref());
        }
    }

    /// A line that is always said.
    pub fn warn(&self, text: impl AsRef<str>) {
        to_stderr(&format!("shale: {}", text.as_ref()));
    }

    /// Bytes to standard output.
    pub fn raw(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        Ok(())
    }

    /// A value as JSON to standard output.
    pub fn value(&self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(value)?;
        text.push('\n');
        self.raw(text.as_bytes())
    }

    /// Prints an error and tells what it means to the shell.
    pub fn failure(&self, error: &anyhow::Error) -> Exit {
        let exit = error.chain().find_map(meaning).unwrap_or(Exit::Failed);
        match exit {
            Exit::BrokenPipe => {}
            Exit::Interrupted => {
                to_stderr("shale: interrupted; nothing unfinished was left behind");
            }
            _ => to_stderr(&format!("shale: {}", said(error))),
        }
        exit
    }
}

/// An error and its causes in one line. Errors of libraries often say their cause themselves, which
/// is then not said again.
fn said(error: &anyhow::Error) -> String {
    let mut said = String::new();
    let mut last = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !last.contains(&cause) {
            said += if said.is_empty() { "" } else { ": " };
            said += &cause;
        }
        last = cause;
    }
    said
}

/// What an error means beside that something failed.
fn meaning(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(error) = cause.downcast_ref::<shale::Error>() {
        return match error {
            error if error.is_cancelled() => Some(Exit::Interrupted),
            error if error.is_broken_pipe() => Some(Exit::BrokenPipe),
            error if error.is_misuse() => Some(Exit::Usage),
            _ => None,
        };
    }
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return (error.kind() == io::ErrorKind::BrokenPipe).then_some(Exit::BrokenPipe);
    }
    cause.is::<Misuse>().then_some(Exit::Usage)
}

/// One line, with nothing in it that a terminal obeys. Where it cannot be written there is nobody
/// to be told.
pub fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{}", text::safe(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once_and_means_what_it_is() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let error = anyhow::Error::from(full()).context(format!("cannot write: {}", full()));
        assert_eq!(said(&error), format!("cannot write: {}", full()));
        let error = anyhow::Error::from(full()).context("cannot write");
        assert_eq!(said(&error), format!("cannot write: {}", full()));
        let of = |error: anyhow::Error| error.context("no image").chain().find_map(meaning);
        assert_eq!(of(Misuse("-o what".to_owned()).into()), Some(Exit::Usage));
        assert_eq!(of(io::Error::from(io::ErrorKind::BrokenPipe).into()), Some(Exit::BrokenPipe));
        assert_eq!(of(full().into()), None);
    }
}
