//! What came of an extraction.

use shale_read::ReadError;

/// Problems kept in a report; more are counted.
pub(super) const PROBLEM_COUNT_MAX: usize = 1_000;

/// An entry that differs from the image.
#[derive(Debug)]
#[non_exhaustive]
pub struct Problem {
    /// Path in the image.
    pub path: Vec<u8>,
    /// What is wrong.
    pub kind: ProblemKind,
}

/// How an extracted entry differs from the image.
#[derive(Debug)]
pub enum ProblemKind {
    /// A range could not be read and became a hole.
    Damaged {
        /// First byte of the range in the file.
        offset: u64,
        /// Length of the range.
        len: u64,
        /// Why it could not be read.
        error: ReadError,
    },
    /// Another name of such a file, whose path is given.
    DamagedAs(Vec<u8>),
    /// Its name or attributes could not be read; it was not created.
    Unreadable(ReadError),
    /// The system refused to create it.
    NotMade(&'static str, std::io::Error),
    /// It was created, but the system refused to set one of its attributes.
    Attribute(&'static str, std::io::Error),
    /// A pattern that matches nothing in the image, while others match.
    NoMatch,
    /// A device node, which the user is not allowed to create.
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

/// What an extraction did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ExtractReport {
    /// Directories created or merged.
    pub directories: u64,
    /// Regular files created.
    pub files: u64,
    /// Bytes of their contents, holes included.
    pub file_bytes: u64,
    /// Bytes written, without holes.
    pub written_bytes: u64,
    /// Symbolic links created.
    pub symlinks: u64,
    /// Hard links created to files extracted before.
    pub hard_links: u64,
    /// Devices, fifos and sockets created.
    pub specials: u64,
    /// Files kept because of [`ExtractOptions::overwrite`](super::ExtractOptions::overwrite).
    pub kept: u64,
    /// Files whose paths have too few names for
    /// [`ExtractOptions::strip_components`](super::ExtractOptions::strip_components).
    pub stripped: u64,
    /// Privileged extended attributes that an ordinary user cannot restore.
    pub xattrs_left_out: u64,
    /// Setuid and setgid bits not set because the owner is not the stored one.
    pub set_id_left_out: u64,
    /// Entries that differ from the image, at most [`PROBLEM_COUNT_MAX`].
    pub problems: Vec<Problem>,
    /// The number of all problems, including those not kept.
    pub problem_count: u64,
}

impl ExtractReport {
    pub(super) fn add(&mut self, other: ExtractReport) {
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
