//! Exit codes: the one table, shown by `shale help exit-codes` and in the man page.
//!
//! Helper names called by other programs speak those programs' numbers: `mount.shale` the ones
//! that mount(8) expects, `fsck.shale` those of fsck(8).

use std::fmt;

/// What a run of the command came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All was done.
    Done,
    /// Failed; no image or archive was made. Whole files that were extracted before stay.
    Failed,
    /// The command line is wrong; nothing was tried.
    Usage,
    /// Done, but without some files or parts, each of which was reported.
    Partial,
    /// `check` found damage.
    Damaged,
    /// Ended by a signal such as Ctrl-C; temporary files are removed.
    Interrupted,
    /// The reader of standard output has gone away.
    BrokenPipe,
}

impl Exit {
    /// All of them, in the order of their numbers.
    pub const ALL: [Exit; 7] = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::Partial,
        Exit::Damaged,
        Exit::Interrupted,
        Exit::BrokenPipe,
    ];

    /// The number given to the shell.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Partial => 3,
            Exit::Damaged => 4,
            Exit::Interrupted => 130,
            Exit::BrokenPipe => 141,
        }
    }

    /// One line for the table.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "all was done",
            Exit::Failed => "failed; no image or archive was made, what was extracted before stays",
            Exit::Usage => "the command line is wrong; nothing was tried",
            Exit::Partial => "done, but some files or parts are missing; each was reported",
            Exit::Damaged => "check found damage",
            Exit::Interrupted => "ended by Ctrl-C or SIGTERM; temporary files are removed",
            Exit::BrokenPipe => "whoever read the output has gone away (`shale ls ... | head`)",
        }
    }
}

/// An error of the command line alone, whatever images and files there are: it ends with
/// [`Exit::Usage`].
#[derive(Debug)]
pub struct Misuse(pub String);

impl Misuse {
    /// With all that the error says.
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

/// Whose numbers are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// The table above.
    #[default]
    Shale,
    /// mount(8): 1 wrong usage, 32 mount failed.
    Mount,
    /// fsck(8), a set of bits: 4 errors left uncorrected, 8 operational error, 16 usage error,
    /// 32 cancelled.
    Fsck,
}

impl Dialect {
    /// The number of `exit` in this dialect.
    pub fn code(self, exit: Exit) -> u8 {
        match (self, exit) {
            (Dialect::Shale, _) | (_, Exit::Done | Exit::BrokenPipe) => exit.code(),
            (Dialect::Mount, Exit::Usage) => 1,
            (Dialect::Mount, Exit::Interrupted) => 8,
            (Dialect::Mount, _) => 32,
            (Dialect::Fsck, Exit::Damaged | Exit::Partial) => 4,
            (Dialect::Fsck, Exit::Usage) => 16,
            (Dialect::Fsck, Exit::Interrupted) => 32,
            (Dialect::Fsck, Exit::Failed) => 8,
        }
    }
}

/// The table as text.
pub fn table() -> String {
    let mut out = String::from("Exit codes:\n");
    for exit in Exit::ALL {
        out += &format!("  {:>3}  {}\n", exit.code(), exit.meaning());
    }
    out += "\nCalled as mount.shale: 0 done, 1 wrong usage, 8 interrupted, 32 mount failed.\n";
    out += "Called as fsck.shale: 0 no errors, 4 errors left, 8 failed, 16 wrong usage, \
            32 cancelled.\n";
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
