//! Where lines, errors and JSON go, and which exit code an error means.
//!
//! Results go to standard output, everything about the doing to standard error. A reader of
//! standard output that has gone away ends the program quietly.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::args::{Arguments, ProgressChoice};
use crate::exit::Exit;
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
        for cause in error.chain() {
            if let Some(error) = cause.downcast_ref::<io::Error>()
                && error.kind() == io::ErrorKind::BrokenPipe
            {
                return Exit::BrokenPipe;
            }
            if let Some(error) = cause.downcast_ref::<shale::Error>()
                && error.is_cancelled()
            {
                to_stderr("shale: interrupted; nothing unfinished was left behind");
                return Exit::Interrupted;
            }
        }
        to_stderr(&format!("shale: {error:#}"));
        Exit::Failed
    }
}

/// One line, with nothing in it that a terminal obeys. Where it cannot be written there is nobody
/// to be told.
pub fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{}", text::safe(line));
}
