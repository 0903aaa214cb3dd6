//! What every stage of an extraction is given, and what happens to problems.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use shale_host::{Beneath, Progress};
use shale_model::InodeKind;
use shale_read::Tree;

use super::attributes::Restore;
use super::options::ExtractOptions;
use super::report::{ExtractReport, PROBLEM_COUNT_MAX, Problem, ProblemKind};
use crate::error::Error;

/// What every stage of an extraction is given.
pub(super) struct Context<'a> {
    pub(super) tree: &'a Tree,
    pub(super) beneath: Beneath,
    pub(super) target: &'a Path,
    pub(super) options: &'a ExtractOptions,
    pub(super) restore: Restore,
    pub(super) progress: &'a dyn Progress,
    pub(super) report: Mutex<ExtractReport>,
    /// Inodes of files with damaged ranges: their other names are damaged as well.
    pub(super) damaged: Mutex<HashSet<u64>>,
}

impl Context<'_> {
    /// Records a problem, or ends the run with it.
    pub(super) fn problem(&self, path: &[u8], kind: ProblemKind) -> Result<(), Error> {
        let fatal = !self.options.keep_going || is_hopeless(&kind);
        // What the user is not allowed to do never ends a run.
        if fatal && !matches!(kind, ProblemKind::Device | ProblemKind::Attribute(..)) {
            return Err(self.error_of(path, kind));
        }
        let mut report = self.lock();
        report.problem_count += 1;
        if report.problems.len() < PROBLEM_COUNT_MAX {
            report.problems.push(Problem { path: path.to_vec(), kind });
        }
        Ok(())
    }

    fn error_of(&self, path: &[u8], kind: ProblemKind) -> Error {
        let place = self.place(path);
        match kind {
            ProblemKind::NotMade(action, error) | ProblemKind::Attribute(action, error) => {
                Error::io(action, place)(error)
            }
            ProblemKind::Damaged { offset, error, .. } => {
                let path = path.escape_ascii();
                Error::Read(error.at(format!("{path}, at its offset {offset}")))
            }
            ProblemKind::Unreadable(error) => {
                Error::Read(error.at(path.escape_ascii().to_string()))
            }
            // The first name ended the run already.
            ProblemKind::DamagedAs(_) => {
                Error::io("make the hard link", place)(std::io::ErrorKind::InvalidData)
            }
            ProblemKind::NoMatch => Error::NoMatch { patterns: path.escape_ascii().to_string() },
            ProblemKind::Device => {
                Error::io("make the device", place)(std::io::ErrorKind::PermissionDenied)
            }
        }
    }

    pub(super) fn place(&self, path: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.target.join(std::ffi::OsStr::from_bytes(path))
    }

    pub(super) fn damaged(&self) -> std::sync::MutexGuard<'_, HashSet<u64>> {
        self.damaged.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, ExtractReport> {
        self.report.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// True for problems that every later file would have too: a full or failing disk.
fn is_hopeless(kind: &ProblemKind) -> bool {
    use rustix::io::Errno;
    match kind {
        ProblemKind::NotMade(_, error) => matches!(
            Errno::from_io_error(error),
            Some(Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::IO | Errno::MFILE)
        ),
        _ => false,
    }
}

/// What is done to create an entry of this kind, for messages.
pub(super) fn kind_name(kind: InodeKind) -> &'static str {
    match kind {
        InodeKind::File => "create the file",
        InodeKind::Directory => "make the directory",
        InodeKind::Symlink => "make the symbolic link",
        InodeKind::BlockDevice | InodeKind::CharDevice => "make the device",
        InodeKind::Fifo => "make the fifo",
        InodeKind::Socket => "make the socket",
    }
}
