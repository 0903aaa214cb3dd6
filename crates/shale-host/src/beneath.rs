//! A directory, and what lies beneath it.
//!
//! Every path is opened by `openat2` with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, or on kernels
//! without it (before 5.6, or hidden by a sandbox) one component at a time with O_NOFOLLOW. So
//! neither a symbolic link nor a process that exchanges directories meanwhile leads out of the
//! root. Paths may be longer than the kernel's limit: they are walked in pieces. Names are checked
//! here, whatever the caller promises.
//!
//! A tree that is thousands of directories deep is walked by full paths, so the directories on the
//! way to the last one are kept open, one for each [`STEP_LEN`] bytes of path. A path costs what
//! lies below the last of them that it shares. The handles are at most 32 for a path of 16 KiB.
//!
//! An extraction makes entries relative to a directory that was opened here, by calls that do not
//! follow a link in the last component.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Bytes of a path between directories that are kept open. The kernel takes at most 4095 at once.
const STEP_LEN: usize = 512;
/// Attempts of `openat2` while concurrent renames make the kernel give up (EAGAIN).
const ATTEMPTS_MAX: u32 = 32;

/// An open directory that nothing opened through it can leave.
#[derive(Debug)]
pub struct Beneath {
    root: OwnedFd,
    root_path: PathBuf,
    /// `openat2` exists and is not forbidden.
    has_openat2: AtomicBool,
    /// `O_NOATIME` was not refused yet.
    has_noatime: AtomicBool,
    trail: Mutex<Trail>,
}

/// Open directories on the way to the last long path.
#[derive(Debug, Default)]
struct Trail {
    /// The path of the innermost of them.
    path: Vec<u8>,
    /// Each with the length of its path, outermost first.
    open: Vec<(usize, Arc<OwnedFd>)>,
}

impl Trail {
    /// Closes the directories that are not above `path`.
    fn keep_above(&mut self, path: &[u8]) {
        let shared = self.path.iter().zip(path).take_while(|(a, b)| a == b).count();
        self.open.retain(|(len, _)| *len <= shared && path.get(*len) == Some(&b'/'));
        self.path.truncate(self.open.last().map_or(0, |(len, _)| *len));
    }
}

impl Beneath {
    /// Opens the root. Symbolic links in `path` are followed: the user named it.
    ///
    /// # Errors
    /// The root cannot be opened, or it is not a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = retry(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))?;
        Ok(Self {
            root,
            root_path: path.to_owned(),
            has_openat2: AtomicBool::new(true),
            has_noatime: AtomicBool::new(true),
            trail: Mutex::default(),
        })
    }

    /// The root itself.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The path by which the root was opened.
    pub fn root_path(&self) -> &Path {
        &self.root_path
    }

    /// Opens the directory `path` as a place to make entries in. `path` has single slashes between
    /// its components; the empty path is the root. Costs a system call for each [`STEP_LEN`] bytes
    /// of it that the last long path did not have.
    ///
    /// # Errors
    /// The directory does not exist, is a symbolic link, or a component is not a valid name.
    pub fn directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.walk(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Opens a directory to change its attributes.
    ///
    /// # Errors
    /// As [`Beneath::directory`].
    pub fn directory_for_attributes(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.walk(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a directory to list it, without changing its access time where the system allows it.
    ///
    /// # Errors
    /// As [`Beneath::directory`].
    pub fn directory_for_listing(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.open_quietly(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a file to read it, without changing its access time where the system allows it. Does
    /// not wait for the other end of a fifo.
    ///
    /// # Errors
    /// As [`Beneath::directory`].
    pub fn file(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.open_quietly(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    /// Only the owner of a file may leave its access time unchanged.
    fn open_quietly(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        if self.has_noatime.load(Ordering::Relaxed) {
            match self.walk(path, flags | OFlags::NOATIME) {
                Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                    self.has_noatime.store(false, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        self.walk(path, flags)
    }

    fn walk(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        if path.is_empty() {
            return self.open_piece(self.root(), b".", flags);
        }
        for name in path.split(|&byte| byte == b'/') {
            check_name(name)?;
        }
        if path.len() <= STEP_LEN {
            return self.open_piece(self.root(), path, flags);
        }
        let (base, above_len) = self.above(path)?;
        let from = base.as_ref().map_or(self.root(), |base| base.as_fd());
        let rest = if above_len == 0 { path } else { &path[above_len + 1..] };
        self.open_piece(from, rest, flags)
    }

    /// Opens a directory above `path` from which less than two steps are left, and returns it with
    /// the length of its path; `None` is the root.
    fn above(&self, path: &[u8]) -> io::Result<(Option<Arc<OwnedFd>>, usize)> {
        let mut trail = self.trail.lock().unwrap_or_else(PoisonError::into_inner);
        trail.keep_above(path);
        loop {
            let at = trail.path.len();
            let start = if at == 0 { 0 } else { at + 1 };
            let Some(cut) = piece_len(&path[start..]) else { break };
            let next = {
                let from = trail.open.last().map_or(self.root(), |(_, open)| open.as_fd());
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                self.open_piece(from, &path[start..start + cut], flags)?
            };
            trail.open.push((start + cut, Arc::new(next)));
            trail.path = path[..start + cut].to_vec();
        }
        let innermost = trail.open.last();
        Ok((innermost.map(|(_, open)| Arc::clone(open)), trail.path.len()))
    }

    fn open_piece(&self, from: BorrowedFd, piece: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if self.has_openat2.load(Ordering::Relaxed) {
            let resolve =
                ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            let mut attempt = 0;
            let opened = retry(|| {
                loop {
                    attempt += 1;
                    match rustix::fs::openat2(from, piece, flags, Mode::empty(), resolve) {
                        Err(Errno::AGAIN) if attempt < ATTEMPTS_MAX => {}
                        result => return result,
                    }
                }
            });
            match opened {
                Ok(fd) => return Ok(fd),
                Err(Errno::AGAIN) => {}
                Err(Errno::NOSYS) => self.has_openat2.store(false, Ordering::Relaxed),
                // A sandbox that does not know the call, or `O_NOATIME` on a file of another
                // owner: opening by component fails only for the latter.
                Err(Errno::PERM) => {
                    let fd = open_by_component(from, piece, flags)?;
                    self.has_openat2.store(false, Ordering::Relaxed);
                    return Ok(fd);
                }
                Err(error) => return Err(error.into()),
            }
        }
        open_by_component(from, piece, flags)
    }
}

/// Opens a path without `openat2`, following no symbolic link.
fn open_by_component(from: BorrowedFd, piece: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let mut base: Option<OwnedFd> = None;
    let mut names = piece.split(|&byte| byte == b'/').peekable();
    while let Some(name) = names.next() {
        let from = base.as_ref().map_or(from, AsFd::as_fd);
        let last = names.peek().is_none();
        let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = if last { flags } else { on_the_way };
        let fd = retry(|| rustix::fs::openat(from, name, flags, Mode::empty()))?;
        if last {
            return Ok(fd);
        }
        base = Some(fd);
    }
    Err(Errno::NOENT.into())
}

/// Length of the longest first piece of `path` that ends at a slash and is not longer than a step,
/// if the path is longer than that.
fn piece_len(path: &[u8]) -> Option<usize> {
    // A name longer than a step cannot exist; the kernel refuses it.
    path.get(..=STEP_LEN)?.iter().rposition(|&byte| byte == b'/')
}

/// Repeats a system call while a signal interrupts it.
///
/// # Errors
/// Those of `call`, except `EINTR`.
pub fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Checks that `name` is a single component: not empty, not `.` or `..`, no slash, no zero byte.
///
/// # Errors
/// `InvalidData` if it is not.
pub fn check_name(name: &[u8]) -> io::Result<()> {
    let wrong = name.is_empty()
        || name == b"."
        || name == b".."
        || name.iter().any(|&byte| byte == b'/' || byte == 0);
    if wrong {
        let name = name.escape_ascii();
        let what = format!("`{name}` is not a valid file name");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(())
}

/// Removes the entry `name`, which is not a directory.
///
/// # Errors
/// The system refuses.
pub fn remove_file(directory: impl AsFd, name: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn places() -> (tempfile::TempDir, Vec<Beneath>) {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("target/a/b")).unwrap();
        std::fs::create_dir(temp.path().join("outside")).unwrap();
        let target = temp.path().join("target");
        symlink("../outside", target.join("up")).unwrap();
        symlink("/", target.join("a/root")).unwrap();
        symlink("b", target.join("a/inside")).unwrap();
        let both = vec![Beneath::open(&target).unwrap(), Beneath::open(&target).unwrap()];
        both[1].has_openat2.store(false, Ordering::Relaxed);
        (temp, both)
    }

    #[test]
    fn files_are_opened_and_no_component_may_be_a_link() {
        let (temp, both) = places();
        let target = temp.path().join("target");
        std::fs::write(target.join("a/b/file"), b"x").unwrap();
        symlink("file", target.join("a/b/link")).unwrap();
        for beneath in both {
            beneath.file(b"a/b/file").unwrap();
            beneath.directory_for_listing(b"").unwrap();
            for wrong in [&b"a/inside/file"[..], b"a/b/link", b"up"] {
                assert!(beneath.file(wrong).is_err(), "{wrong:?}");
            }
        }
    }

    #[test]
    fn directories_are_reached_and_links_never_followed() {
        let (_temp, both) = places();
        for beneath in both {
            assert!(beneath.directory(b"").is_ok());
            assert!(beneath.directory(b"a/b").is_ok());
            assert!(beneath.directory_for_attributes(b"a/b").is_ok());
            for wrong in [&b"up"[..], b"a/root", b"a/root/etc", b"a/inside", b"up/x"] {
                let error = beneath.directory(wrong).unwrap_err();
                let code = Errno::from_io_error(&error).unwrap();
                assert!(matches!(code, Errno::LOOP | Errno::NOTDIR), "{wrong:?}: {error}");
            }
            for wrong in [&b".."[..], b"a/../..", b"/etc", b"a//b", b".", b"a\0b"] {
                assert!(beneath.directory(wrong).is_err(), "{wrong:?}");
            }
        }
    }

    #[test]
    fn paths_longer_than_the_system_allows_are_walked_in_pieces() {
        let (_temp, both) = places();
        let name = [b'n'; 200];
        let mut at = both[0].directory(b"").unwrap();
        let mut path = Vec::new();
        for depth in 0..40 {
            rustix::fs::mkdirat(&at, &name[..], Mode::RWXU).unwrap();
            if depth > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            at = rustix::fs::openat(&at, &name[..], flags, Mode::empty()).unwrap();
        }
        assert!(path.len() > 8000);
        for beneath in &both {
            let found = rustix::fs::fstat(beneath.directory(&path).unwrap()).unwrap();
            assert_eq!(found.st_ino, rustix::fs::fstat(&at).unwrap().st_ino);
            let open = beneath.trail.lock().unwrap().open.len();
            assert!((10..=32).contains(&open), "{open} directories are kept open");
            // One that shares only a part of the way, and one whose names begin like it.
            assert!(beneath.directory(&path[..201 * 7 - 1]).is_ok());
            let mut other = path[..201 * 5].to_vec();
            other.extend_from_slice(&[b'n'; 199]);
            other.extend_from_slice(&path[201 * 5..]);
            assert!(beneath.directory(&other).is_err());
            assert!(beneath.directory(&path).is_ok());
        }
    }
}
