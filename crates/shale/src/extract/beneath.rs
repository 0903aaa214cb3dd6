//! The directory that an extraction fills, and the one way into it.
//!
//! Every directory is reached by `openat2` with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and
//! RESOLVE_NO_MAGICLINKS, or on kernels without it (before 5.6, or forbidden by a sandbox) one
//! component at a time with O_NOFOLLOW. So nothing in the image and nothing that another process
//! does to the target meanwhile leads outside of it. What is made in a directory is made by a
//! single component relative to its descriptor with calls that never follow a link in the last
//! place. Names are checked here too, whatever the reader promises.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Bytes of a relative path given to one system call, below PATH_MAX; longer paths are walked in
/// pieces.
const PIECE_LEN_MAX: usize = 2048;

/// How many times `openat2` is tried when a concurrent rename makes the kernel give up (EAGAIN).
const ATTEMPTS_MAX: u32 = 32;

/// An open target directory.
#[derive(Debug)]
pub(crate) struct Beneath {
    root: OwnedFd,
    has_openat2: AtomicBool,
}

impl Beneath {
    /// Opens the target, which may itself be reached through symbolic links: the user named it.
    pub(crate) fn open(target: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, target, flags, Mode::empty())?;
        Ok(Self { root, has_openat2: AtomicBool::new(true) })
    }

    /// Does without `openat2`, as on an old kernel.
    #[cfg(test)]
    fn without_openat2(self) -> Self {
        self.has_openat2.store(false, Ordering::Relaxed);
        self
    }

    /// Opens the directory `path` (components separated by single slashes; empty: the target) as
    /// a place to make entries in. Costs one system call for each 2 KiB of path.
    pub(crate) fn directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.walk(path, OFlags::PATH)
    }

    /// As [`Beneath::directory`], but open for changing its attributes.
    pub(crate) fn directory_for_attributes(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.walk(path, OFlags::RDONLY)
    }

    fn walk(&self, path: &[u8], access: OFlags) -> io::Result<OwnedFd> {
        if path.is_empty() {
            return open_step(&self.root, b".", access);
        }
        for name in path.split(|&byte| byte == b'/') {
            check_name(name)?;
        }
        let mut at: Option<OwnedFd> = None;
        let mut rest = path;
        while !rest.is_empty() {
            let from = at.as_ref().unwrap_or(&self.root);
            let (piece, after) = split_piece(rest);
            let access = if after.is_empty() { access } else { OFlags::PATH };
            at = Some(self.open_piece(from, piece, access)?);
            rest = after;
        }
        at.ok_or_else(|| Errno::INVAL.into())
    }

    fn open_piece(&self, from: &OwnedFd, piece: &[u8], access: OFlags) -> io::Result<OwnedFd> {
        if self.has_openat2.load(Ordering::Relaxed) {
            let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let resolve =
                ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            for _ in 0..ATTEMPTS_MAX {
                match rustix::fs::openat2(from, piece, flags, Mode::empty(), resolve) {
                    Ok(fd) => return Ok(fd),
                    Err(Errno::AGAIN | Errno::INTR) => continue,
                    // Missing, or hidden by a system call filter.
                    Err(Errno::NOSYS | Errno::PERM) => {
                        self.has_openat2.store(false, Ordering::Relaxed);
                        break;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let mut at: Option<OwnedFd> = None;
        let mut names = piece.split(|&byte| byte == b'/').peekable();
        while let Some(name) = names.next() {
            let access = if names.peek().is_none() { access } else { OFlags::PATH };
            at = Some(open_step(at.as_ref().unwrap_or(from), name, access)?);
        }
        at.ok_or_else(|| Errno::INVAL.into())
    }
}

/// One component. A symbolic link in its place is ENOTDIR.
fn open_step(from: &OwnedFd, name: &[u8], access: OFlags) -> io::Result<OwnedFd> {
    let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(from, name, flags, Mode::empty())?)
}

/// As many whole components as fit in one call, and what is left.
fn split_piece(path: &[u8]) -> (&[u8], &[u8]) {
    if path.len() <= PIECE_LEN_MAX {
        return (path, b"");
    }
    let cut = path[..PIECE_LEN_MAX].iter().rposition(|&byte| byte == b'/');
    match cut {
        Some(cut) => (&path[..cut], &path[cut + 1..]),
        // Names are at most 255 bytes, so a slash is always found; if not, the call will say so.
        None => (path, b""),
    }
}

/// Refuses what is not a single component: nothing, `.`, `..`, a slash, a zero byte.
pub(crate) fn check_name(name: &[u8]) -> io::Result<()> {
    let wrong = name.is_empty()
        || name == b"."
        || name == b".."
        || name.iter().any(|&byte| byte == b'/' || byte == 0);
    if wrong {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "`{}` is not a file name; the image is hostile or damaged",
                name.escape_ascii()
            ),
        ));
    }
    Ok(())
}

/// Removes what is there under `name`, which is not a directory.
pub(crate) fn remove_file(directory: impl AsFd, name: &[u8]) -> io::Result<()> {
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
        let both = vec![
            Beneath::open(&target).unwrap(),
            Beneath::open(&target).unwrap().without_openat2(),
        ];
        (temp, both)
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
            at = open_step(&at, &name, OFlags::PATH).unwrap();
        }
        assert!(path.len() > 8000);
        for beneath in both {
            let found = rustix::fs::fstat(beneath.directory(&path).unwrap()).unwrap();
            assert_eq!(found.st_ino, rustix::fs::fstat(&at).unwrap().st_ino);
        }
    }
}
