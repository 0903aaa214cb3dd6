//! Exit codes, in one table that `shale help exit-codes` and the man page show.
//!
//! Under the names `mount.shale` and `fsck.shale`, the program returns the codes that mount(8) and
//! fsck(8) expect.

use std::fmt;

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Done,
    /// Failure; no image or archive was written. Files that were extracted completely stay.
    Failed,
    /// The command line is wrong; nothing was done.
    Usage,
    /// Success except for some files or parts, which were reported.
    Partial,
    /// `check` found damage.
    Damaged,
    /// Ended by a signal such as Ctrl-C; temporary files were removed.
    Interrupted,
    /// The reader of standard output closed the pipe.
    BrokenPipe,
    /// The answer of a command that answers by its exit code is no: trees differ, nothing matches.
    Negative,
}

impl Exit {
    /// The exit codes of the table, in ascending order.
    pub const ALL: [Exit; 7] = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::Partial,
        Exit::Damaged,
        Exit::Interrupted,
        Exit::BrokenPipe,
    ];

    /// The code that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Partial => 3,
            Exit::Damaged => 4,
            Exit::Interrupted => 130,
            Exit::BrokenPipe => 141,
            Exit::Negative => 1,
        }
    }

    /// The explanation in the table.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "success",
            Exit::Failed => {
                "failure; no image or archive was written, completely extracted files stay"
            }
            Exit::Usage => "usage error; nothing was done",
            Exit::Partial => {
                "partial success: some files or parts are missing, and each was reported"
            }
            Exit::Damaged => "`shale check` found damage",
            Exit::Interrupted => "interrupted by Ctrl-C or SIGTERM; temporary files were removed",
            Exit::BrokenPipe => "the reader of the output closed the pipe (`shale ls ... | head`)",
            Exit::Negative => "the trees differ, or nothing matches",
        }
    }
}

/// An error of the command line itself, independent of any file. It ends with [`Exit::Usage`].
#[derive(Debug)]
pub struct Misuse(pub String);

impl Misuse {
    /// Turns an error and its causes into a usage error.
    pub fn of(error: impl Into<anyhow::Error>) -> Self {
        Self(format!("{:#}", error.into()))
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// What an interrupted command left; the context of its error.
#[derive(Debug)]
pub struct Left(pub String);

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The convention for exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// The table above.
    #[default]
    Shale,
    /// mount(8): 1 usage error, 8 interrupted, 32 mount failed.
    Mount,
    /// diff(1) and grep(1): 1 the trees differ or nothing matches, 2 failure.
    Answer,
    /// fsck(8), a set of bits: 4 errors left uncorrected, 8 operational error, 16 usage error,
    /// 32 interrupted.
    Fsck,
}

impl Dialect {
    /// The code of `exit` in this dialect.
    pub fn code(self, exit: Exit) -> u8 {
        match (self, exit) {
            (Dialect::Shale, _) | (_, Exit::Done | Exit::BrokenPipe) => exit.code(),
            (Dialect::Answer, Exit::Failed | Exit::Usage) => 2,
            (Dialect::Answer, _) => exit.code(),
            (Dialect::Mount, Exit::Usage) => 1,
            (Dialect::Mount, Exit::Interrupted) => 8,
            (Dialect::Mount, _) => 32,
            (Dialect::Fsck, Exit::Damaged | Exit::Partial) => 4,
            (Dialect::Fsck, Exit::Usage) => 16,
            (Dialect::Fsck, Exit::Interrupted) => 32,
            (Dialect::Fsck, Exit::Failed | Exit::Negative) => 8,
        }
    }
}

/// Returns the table as text.
pub fn table() -> String {
    let mut out = String::from("Exit codes:\n");
    for exit in Exit::ALL {
        out += &format!("  {:>3}  {}\n", exit.code(), exit.meaning());
    }
    out +=
        "\n`shale diff` and `shale grep`: 0 equal or found, 1 different or not found, 2 failure.\n";
    out += "\nCalled as mount.shale: 0 success, 1 usage error, 8 interrupted, 32 mount failed.\n";
    out += "Called as fsck.shale: 0 no errors, 4 errors found, 8 failure, 16 usage error, \
            32 interrupted.\n";
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_the_table_once() {
        let table = table();
        for exit in Exit::ALL {
            assert!(table.contains(&format!("{:>3}  {}\n", exit.code(), exit.meaning())));
        }
        let mut codes: Vec<u8> = Exit::ALL.iter().map(|e| e.code()).collect();
        codes.dedup();
        assert_eq!(codes.len(), Exit::ALL.len());
    }
}
