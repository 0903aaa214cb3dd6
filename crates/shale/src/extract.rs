//! From an image to files in a directory, in parallel, and never outside of that directory.
//!
//! The tree is walked in order and its entries gathered into batches; directories are made at
//! once. A batch is ordered by the place of the contents in the image, so that the workers decode
//! each frame about once, whatever the order of names; then hard links are made and the
//! attributes of directories set that are complete. Memory is one batch, the frame cache of the
//! image, and one path for each inode that has names still to come.
//!
//! What is restored: contents with their holes, hard links, symbolic links, devices, fifos,
//! sockets, owner, permissions, extended attributes with access control lists and capabilities,
//! and times to the nanosecond. An ordinary user cannot restore owners, devices and privileged
//! attributes; setuid and setgid bits are then only set where the stored owner is the user.
//! The umask is not applied: permissions are those of the image. So are access control lists: what
//! a directory of the target hands down by its default list is taken away, and so is the list of a
//! directory that was there and gets the attributes of one in the image.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use shale_format::InodeKind;
use shale_read::{ReadError, Tree};

use crate::error::Error;
use crate::pattern::Patterns;
use crate::progress::{Cancel, Phase, Progress};

pub(crate) mod beneath; // the target, and the one way into it
mod attributes; // owner, permissions, xattrs, times
mod plan; // the walk: what is made, in which order
mod collide; // files that are there already
mod files; // contents and everything that is not a directory

/// Problems kept in a report; further ones are counted.
pub const PROBLEM_COUNT_MAX: usize = 1_000;

/// What happens to files that are there already. Directories are always merged; what is in the
/// target and not in the image is left alone. A file is never written into: it is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// Nothing is extracted if any file is there already.
    #[default]
    Refuse,
    /// They are kept as they are.
    Never,
    /// They are replaced if their mtime is before that in the image.
    Older,
    /// They are replaced.
    Always,
}

/// Whose the files become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owner {
    /// As in the image for root, the user's own otherwise.
    #[default]
    Auto,
    /// As in the image; where the system refuses, a problem is reported.
    Stored,
    /// The user's own.
    Own,
}

/// Where files get holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sparse {
    /// Where they have them in the image.
    #[default]
    Stored,
    /// There, and where the image has nothing but zeroes.
    Zeroes,
    /// Nowhere: zeroes are written.
    Never,
}

/// How to extract.
#[derive(Debug)]
pub struct ExtractOptions {
    /// What is wanted; an empty set means everything.
    pub patterns: Patterns,
    /// Threads that decode and write; 0: as many as the machine offers.
    pub threads: usize,
    /// What happens to files that are there already.
    pub overwrite: Overwrite,
    /// Whose the files become.
    pub owner: Owner,
    /// Restore extended attributes.
    pub xattrs: bool,
    /// Make device nodes, as far as the system allows it.
    pub devices: bool,
    /// Where files get holes.
    pub sparse: Sparse,
    /// So many names are left out at the beginning of each path. What has no more names is not
    /// extracted, but for what is in it.
    pub strip_components: usize,
    /// Go on after damage and after files that cannot be made, and report them. Damaged ranges
    /// become holes.
    pub keep_going: bool,
    /// Ends the run with [`Error::Cancelled`]. Files that are not complete are removed.
    pub cancel: Cancel,
}

impl Default for ExtractOptions {
    fn default() -> Self {
        Self {
            patterns: Patterns::default(),
            threads: 0,
            overwrite: Overwrite::Refuse,
            owner: Owner::Auto,
            xattrs: true,
            devices: true,
            sparse: Sparse::Stored,
            strip_components: 0,
            keep_going: false,
            cancel: Cancel::new(),
        }
    }
}

/// Something that is not as it is in the image.
#[derive(Debug)]
pub struct Problem {
    /// Path in the image.
    pub path: Vec<u8>,
    /// What is wrong.
    pub kind: ProblemKind,
}

/// What is wrong with an extracted file.
#[derive(Debug)]
pub enum ProblemKind {
    /// A range could not be read; it is a hole now.
    Damaged {
        /// First byte of the range in the file.
        offset: u64,
        /// Its bytes.
        len: u64,
        /// Why.
        error: ReadError,
    },
    /// Another name of a file with such ranges: its path.
    DamagedAs(Vec<u8>),
    /// Its names or attributes could not be read; it was not made.
    Unreadable(ReadError),
    /// The system refused to make it.
    NotMade(&'static str, std::io::Error),
    /// It was made, but the system refused one of its attributes.
    Attribute(&'static str, std::io::Error),
    /// It is a pattern that nothing in the image matches, beside others.
    NoMatch,
    /// A device node, and the user may not make one.
    Device,
}

impl std::fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged { offset, len, error } => {
                write!(f, "{len} bytes from offset {offset} on are damaged, now a hole: {error}")
            }
            Self::DamagedAs(path) => {
                write!(f, "the same file as {}, which is damaged", path.escape_ascii())
            }
            Self::Unreadable(error) => write!(f, "not extracted: {error}"),
            Self::NotMade(action, error) => write!(f, "not extracted: cannot {action}: {error}"),
            Self::Attribute(what, error) => write!(f, "cannot set its {what}: {error}"),
            Self::NoMatch => f.write_str("nothing in the image matches"),
            Self::Device => f.write_str("device node skipped: only root can make them"),
        }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct ExtractReport {
    /// Directories made or merged.
    pub directories: u64,
    /// Regular files made.
    pub files: u64,
    /// Bytes of their contents, holes included.
    pub file_bytes: u64,
    /// Bytes written; less by holes.
    pub written_bytes: u64,
    /// Symbolic links made.
    pub symlinks: u64,
    /// Further names made of files that have several.
    pub hard_links: u64,
    /// Devices, fifos and sockets made.
    pub specials: u64,
    /// Files kept because of [`ExtractOptions::overwrite`].
    pub kept: u64,
    /// Files whose paths had too few names for [`ExtractOptions::strip_components`].
    pub stripped: u64,
    /// Privileged extended attributes that an ordinary user cannot restore.
    pub xattrs_left_out: u64,
    /// Setuid and setgid bits not set because the owner is not the stored one.
    pub set_id_left_out: u64,
    /// What is not as in the image, at most [`PROBLEM_COUNT_MAX`].
    pub problems: Vec<Problem>,
    /// All problems, also those not kept.
    pub problem_count: u64,
}

impl ExtractReport {
    fn add(&mut self, other: ExtractReport) {
        self.directories += other.directories;
        self.files += other.files;
        self.file_bytes += other.file_bytes;
        self.written_bytes += other.written_bytes;
        self.symlinks += other.symlinks;
        self.hard_links += other.hard_links;
        self.specials += other.specials;
        self.kept += other.kept;
        self.stripped += other.stripped;
        self.xattrs_left_out += other.xattrs_left_out;
        self.set_id_left_out += other.set_id_left_out;
        self.problem_count += other.problem_count;
        let room = PROBLEM_COUNT_MAX.saturating_sub(self.problems.len());
        self.problems.extend(other.problems.into_iter().take(room));
    }
}

/// What everything below is given.
struct Context<'a> {
    tree: &'a Tree,
    beneath: beneath::Beneath,
    target: &'a Path,
    options: &'a ExtractOptions,
    restore: attributes::Restore,
    progress: &'a dyn Progress,
    report: Mutex<ExtractReport>,
    /// Inodes of files with damaged ranges: further names are damaged as well.
    damaged: Mutex<HashSet<u64>>,
}

impl Context<'_> {
    /// Takes note of a problem, or makes it the end of the run.
    fn problem(&self, path: &[u8], kind: ProblemKind) -> Result<(), Error> {
        let fatal = !self.options.keep_going || is_hopeless(&kind);
        // What a user may not do, and what is left out for it, never ends a run.
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
                Error::Io { action, path: place, error }
            }
            ProblemKind::Damaged { offset, error, .. } => {
                let path = path.escape_ascii();
                Error::Read(error.at(format!("{path}, at its offset {offset}")))
            }
            ProblemKind::Unreadable(error) => {
                Error::Read(error.at(path.escape_ascii().to_string()))
            }
            // The first name ended the run already.
            ProblemKind::DamagedAs(_) => Error::Io {
                action: "make the hard link",
                path: place,
                error: std::io::ErrorKind::InvalidData.into(),
            },
            ProblemKind::NoMatch => Error::NoMatch { patterns: path.escape_ascii().to_string() },
            ProblemKind::Device => Error::Io {
                action: "make the device",
                path: place,
                error: std::io::ErrorKind::PermissionDenied.into(),
            },
        }
    }

    fn place(&self, path: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.target.join(std::ffi::OsStr::from_bytes(path))
    }

    fn damaged(&self) -> std::sync::MutexGuard<'_, HashSet<u64>> {
        self.damaged.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ExtractReport> {
        self.report.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// A full or failing disk makes every further file fail too.
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

/// Extracts what `options` select of `tree` into the directory `target`, which is made if it is
/// not there. The attributes of the root directory are given to `target` only if it was empty and
/// everything is extracted.
///
/// # Errors
/// The first thing that goes wrong, with its file, unless [`ExtractOptions::keep_going`]; what was
/// extracted until then stays, files that are not complete are removed. [`Error::NoMatch`] if no
/// pattern matches anything; where some do, the others are among the problems.
pub fn extract(
    tree: &Tree,
    target: &Path,
    options: &ExtractOptions,
    progress: &dyn Progress,
) -> Result<ExtractReport, Error> {
    std::fs::create_dir_all(target).map_err(Error::io("make the directory", target))?;
    let beneath =
        beneath::Beneath::open(target).map_err(Error::io("open the directory", target))?;
    let is_empty = std::fs::read_dir(target)
        .map_err(Error::io("list the directory", target))?
        .next()
        .is_none();
    let restore = attributes::Restore::new(tree, options);
    let context = Context {
        tree,
        beneath,
        target,
        options,
        restore,
        progress,
        report: Mutex::default(),
        damaged: Mutex::default(),
    };
    progress.phase(Phase::Plan);
    if !is_empty && options.overwrite == Overwrite::Refuse {
        collide::refuse(&context)?;
    }
    plan::run(&context, is_empty)?;
    let mut report = context.report.into_inner().unwrap_or_else(|e| e.into_inner());
    let unmatched: Vec<&[u8]> = options.patterns.unmatched().collect();
    let made = report.directories + report.files + report.symlinks + report.specials;
    if made + report.kept + report.problem_count == 0 && !unmatched.is_empty() {
        let shown = unmatched.iter().map(|pattern| format!("`{}`", pattern.escape_ascii()));
        return Err(Error::NoMatch { patterns: shown.collect::<Vec<_>>().join(", ") });
    }
    report.problem_count += unmatched.len() as u64;
    let room = PROBLEM_COUNT_MAX.saturating_sub(report.problems.len());
    let unmatched = unmatched.into_iter().take(room);
    let no_match = |pattern: &[u8]| Problem { path: pattern.to_vec(), kind: ProblemKind::NoMatch };
    report.problems.extend(unmatched.map(no_match));
    Ok(report)
}

/// A short word for messages.
fn kind_name(kind: InodeKind) -> &'static str {
    match kind {
        InodeKind::File => "create the file",
        InodeKind::Directory => "make the directory",
        InodeKind::Symlink => "make the symbolic link",
        InodeKind::BlockDevice | InodeKind::CharDevice => "make the device",
        InodeKind::Fifo => "make the fifo",
        InodeKind::Socket => "make the socket",
    }
}
