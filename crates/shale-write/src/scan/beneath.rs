//! Opens files and directories of the walked tree by their path below its root.
//!
//! No symbolic link is followed in any component, whoever exchanges one meanwhile: the kernel
//! refuses (`openat2` with `RESOLVE_NO_SYMLINKS`), or every component is opened for itself where
//! the kernel is too old for that. Paths may be longer than the kernel's limit: they are walked in
//! pieces. Holds one descriptor, and one more while a call runs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Longest piece of a path given to the kernel at once; its limit is 4096 with the final zero.
const PIECE_LEN_MAX: usize = 3840;

/// The root of a walked tree.
#[derive(Debug)]
pub(crate) struct Beneath {
    root: OwnedFd,
    root_path: PathBuf,
    /// `openat2` is there and not forbidden.
    openat2: AtomicBool,
    /// `O_NOATIME` was not refused yet.
    noatime: AtomicBool,
}

impl Beneath {
    /// Opens the root, following symbolic links in `path`.
    pub(crate) fn open_root(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = retry(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))?;
        Ok(Self {
            root,
            root_path: path.to_owned(),
            openat2: AtomicBool::new(true),
            noatime: AtomicBool::new(true),
        })
    }

    /// The root itself.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The path the root was opened by.
    pub(crate) fn root_path(&self) -> &Path {
        &self.root_path
    }

    /// Opens a directory for listing.
    pub(crate) fn open_directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.open_quietly(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a file for reading; does not wait for the other end of a fifo.
    pub(crate) fn open_file(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.open_quietly(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    /// Opens without changing the access time, where the system lets us: only an owner may.
    fn open_quietly(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        if self.noatime.load(Ordering::Relaxed) {
            match self.open(path, flags | OFlags::NOATIME) {
                Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                    self.noatime.store(false, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        self.open(path, flags)
    }

    fn open(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let mut rest = if path.is_empty() { &b"."[..] } else { path };
        let mut base: Option<OwnedFd> = None;
        loop {
            let from = base.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
            let cut = piece_len(rest);
            if cut == rest.len() {
                return self.open_piece(from, rest, flags);
            }
            base = Some(self.open_piece(from, &rest[..cut], OFlags::PATH | OFlags::DIRECTORY)?);
            rest = &rest[cut + 1..];
        }
    }

    fn open_piece(&self, from: BorrowedFd, piece: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if self.openat2.load(Ordering::Relaxed) {
            let resolve = ResolveFlags::NO_SYMLINKS;
            match retry(|| rustix::fs::openat2(from, piece, flags, Mode::empty(), resolve)) {
                Err(Errno::NOSYS) => self.openat2.store(false, Ordering::Relaxed),
                // A sandbox that does not know the call, or `O_NOATIME` on what is not ours: the
                // other way fails for the latter only.
                Err(Errno::PERM) => {
                    let fd = open_by_component(from, piece, flags)?;
                    self.openat2.store(false, Ordering::Relaxed);
                    return Ok(fd);
                }
                result => return Ok(result?),
            }
        }
        open_by_component(from, piece, flags)
    }
}

/// Opens what is at a path, following no symbolic link, without `openat2`.
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
    Err(io::Error::from(Errno::NOENT))
}

/// Length of the first piece of `path` that ends at a slash or at its end.
fn piece_len(path: &[u8]) -> usize {
    if path.len() <= PIECE_LEN_MAX {
        return path.len();
    }
    // A name longer than a piece cannot exist; the kernel then says so.
    let slash = path[..PIECE_LEN_MAX].iter().rposition(|&byte| byte == b'/');
    slash.unwrap_or(path.len())
}

/// Calls again while a signal interrupts.
pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_component_may_be_a_symbolic_link() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/file"), b"x").unwrap();
        symlink("a", dir.path().join("link")).unwrap();
        symlink("file", dir.path().join("a/b/link")).unwrap();
        for openat2 in [true, false] {
            let beneath = Beneath::open_root(dir.path()).unwrap();
            beneath.openat2.store(openat2, Ordering::Relaxed);
            beneath.open_file(b"a/b/file").unwrap();
            beneath.open_directory(b"").unwrap();
            for path in [&b"link/b/file"[..], b"a/b/link", b"link"] {
                assert!(beneath.open_file(path).is_err(), "openat2 {openat2}");
            }
        }
    }
}
