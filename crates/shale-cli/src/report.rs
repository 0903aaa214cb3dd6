//! Messages, errors and JSON, and the exit code of an error.
//!
//! Results go to standard output, messages to standard error. If the reader of standard output
//! closes the pipe, the program ends without a message.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::Value;
use shale::ErrorKind;

use crate::advice::advice;
use crate::args::{Arguments, ProgressChoice};
use crate::exit::{Exit, Left, Misuse};
use crate::text;

/// Version of the JSON that the commands print; `docs/json.md` describes it.
pub const SCHEMA_VERSION: u64 = 1;

/// What is printed, and how.
#[derive(Debug, Clone, Copy)]
pub struct Say {
    /// Print nothing but errors and warnings.
    pub quiet: bool,
    /// Number of `-v` options.
    pub verbose: u8,
    /// Print results as JSON.
    pub json: bool,
    /// How progress is shown.
    pub progress: ProgressChoice,
}

impl Say {
    /// Takes the global options.
    pub fn new(arguments: &Arguments) -> Self {
        Self {
            quiet: arguments.quiet,
            verbose: arguments.verbose,
            json: arguments.json,
            progress: arguments.progress,
        }
    }

    /// True if standard output is a terminal, where names are escaped.
    pub fn escapes_names(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Prints a message, unless `--quiet` is given.
    pub fn line(&self, text: impl AsRef<str>) {
        match (self.quiet, self.json) {
            (true, _) => {}
            (_, true) => to_stderr_as_json("note", text.as_ref(), None, None),
            (_, false) => to_stderr(text.as_ref()),
        }
    }

    /// Prints a message if `--verbose` is given.
    pub fn detail(&self, text: impl AsRef<str>) {
        if self.verbose > 0 {
            to_stderr(text.as_ref());
        }
    }

    /// Prints a warning, even with `--quiet`.
    pub fn warn(&self, text: impl AsRef<str>) {
        match self.json {
            true => to_stderr_as_json("warning", text.as_ref(), None, None),
            false => to_stderr(&format!("shale: {}", text.as_ref())),
        }
    }

    /// Warns of what an output could not hold: the first of all `count` losses, by path.
    pub fn warn_of_losses(&self, first: &[(Vec<u8>, String)], count: u64) {
        for (path, what) in first {
            self.warn(format!("{}: {what}", text::entry(path)));
        }
        let unsaid = count.saturating_sub(first.len() as u64);
        if unsaid > 0 {
            self.warn(format!("and {unsaid} more"));
        }
    }

    /// Writes bytes to standard output.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn raw(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        Ok(())
    }

    /// Writes a value as JSON to standard output. An object gets the version of the schema.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn value(&self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut value = serde_json::to_value(value)?;
        if let Value::Object(object) = &mut value {
            object.insert("schema".to_owned(), SCHEMA_VERSION.into());
        }
        let mut text = serde_json::to_string_pretty(&value)?;
        text.push('\n');
        self.raw(text.as_bytes())
    }

    /// Prints an error and returns its exit code.
    pub fn failure(&self, error: &anyhow::Error) -> Exit {
        let exit = error.chain().find_map(exit_of).unwrap_or(Exit::Failed);
        let (message, advice) = match exit {
            Exit::BrokenPipe => return exit,
            Exit::Interrupted => {
                let left = error.downcast_ref::<Left>().map(ToString::to_string);
                let left = left.unwrap_or_else(|| "incomplete files were removed".to_owned());
                (format!("interrupted; {left}"), None)
            }
            _ => {
                let message = message(error);
                let advice = advice(error, &message);
                (message, advice)
            }
        };
        match (self.json, advice) {
            (true, advice) => {
                to_stderr_as_json("error", &message, advice.as_deref(), Some(exit));
            }
            (false, None) => to_stderr(&format!("shale: {message}")),
            (false, Some(advice)) => to_stderr(&format!("shale: {message}; {advice}")),
        }
        exit
    }
}

/// An error and its causes in one line. A cause that the previous message already includes is not
/// repeated.
fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    let mut last = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !last.contains(&cause) {
            message += if message.is_empty() { "" } else { ": " };
            message += &cause;
        }
        last = cause;
    }
    message
}

/// The exit code of an error, if it is not an ordinary failure.
fn exit_of(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(kind) = shale::error_kind(cause) {
        return match kind {
            ErrorKind::Cancelled => Some(Exit::Interrupted),
            ErrorKind::BrokenPipe => Some(Exit::BrokenPipe),
            ErrorKind::Misuse => Some(Exit::Usage),
            _ => None,
        };
    }
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return (error.kind() == io::ErrorKind::BrokenPipe).then_some(Exit::BrokenPipe);
    }
    cause.is::<Misuse>().then_some(Exit::Usage)
}

/// Prints a line on standard error, with control characters escaped. A failure is ignored, as there
/// is no other place to report it.
pub fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{}", text::safe(line));
}

/// Prints a message as one line of JSON on standard error.
pub fn to_stderr_as_json(kind: &str, message: &str, advice: Option<&str>, exit: Option<Exit>) {
    let mut object = serde_json::Map::new();
    object.insert("schema".to_owned(), SCHEMA_VERSION.into());
    object.insert("kind".to_owned(), kind.into());
    object.insert("message".to_owned(), message.trim_end().into());
    if let Some(advice) = advice {
        object.insert("advice".to_owned(), advice.into());
    }
    if let Some(exit) = exit {
        object.insert("exit_code".to_owned(), exit.code().into());
    }
    to_stderr(&Value::Object(object).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_printed_once_and_selects_the_exit_code() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let error = anyhow::Error::from(full()).context(format!("cannot write: {}", full()));
        assert_eq!(message(&error), format!("cannot write: {}", full()));
        let error = anyhow::Error::from(full()).context("cannot write");
        assert_eq!(message(&error), format!("cannot write: {}", full()));
        let of = |error: anyhow::Error| error.context("no image").chain().find_map(exit_of);
        assert_eq!(of(Misuse("-o what".to_owned()).into()), Some(Exit::Usage));
        assert_eq!(of(io::Error::from(io::ErrorKind::BrokenPipe).into()), Some(Exit::BrokenPipe));
        assert_eq!(of(full().into()), None);
    }
}
