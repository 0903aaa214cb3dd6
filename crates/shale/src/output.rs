//! An output file that is there whole or not at all.
//!
//! The bytes go to a file without a name in the directory of the output (O_TMPFILE), which the
//! system removes by itself whatever happens, or where the file system has no such files to a
//! hidden name beside the output, which is removed on drop. [`OutputFile::commit`] syncs, gives
//! the file its name in one step, and syncs the directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::error::Error;

/// What is at the place of the output before anything is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Nothing.
    Nothing,
    /// A regular file.
    File,
    /// A device, fifo or socket: written to as a stream, never replaced.
    Stream,
}

/// Looks at the place of the output. Directories are refused here.
pub(crate) fn existing(path: &Path) -> Result<Existing, Error> {
    match rustix::fs::stat(path) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Existing::File),
            FileType::Directory => Err(Error::NotReplaceable { path: path.to_owned() }),
            _ => Ok(Existing::Stream),
        },
        Err(Errno::NOENT) => Ok(Existing::Nothing),
        Err(error) => Err(Error::io("look at", path)(error)),
    }
}

/// An output that has no name yet.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: File,
    directory: OwnedFd,
    path: PathBuf,
    name: OsString,
    /// The hidden name, where a file without a name was not to be had.
    hidden: Option<OsString>,
}

impl OutputFile {
    /// Makes the file. `path` must name a file in a directory that exists; a symbolic link in its
    /// place is followed, so that the file it leads to is replaced, not the link.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let resolved = match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_symlink() => {
                std::fs::canonicalize(path).map_err(Error::io("follow the link", path))?
            }
            _ => path.to_owned(),
        };
        let Some(name) = resolved.file_name().map(OsStr::to_owned) else {
            return Err(Error::NotReplaceable { path: path.to_owned() });
        };
        let parent = match resolved.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, parent, flags, Mode::empty())
            .map_err(Error::io("open the directory", parent))?;
        let (file, hidden) = match open_unnamed(&directory) {
            Some(file) => (file, None),
            None => open_hidden(&directory, &name)
                .map(|(file, hidden)| (file, Some(hidden)))
                .map_err(Error::io("create a file in", parent))?,
        };
        Ok(Self { file, directory, path: path.to_owned(), name, hidden })
    }

    /// The open file, readable and writable.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Brings the bytes to the disk.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(Error::io("write to disk", &self.path))
    }

    /// Gives the synced file its name; with `replace`, instead of a file that has it.
    pub(crate) fn commit(mut self, replace: bool) -> Result<(), Error> {
        let result = if replace { self.put_over() } else { self.put_new() };
        match result {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(Error::Exists { path: self.path.clone() }),
            Err(error) => return Err(Error::io("name the output", &self.path)(error)),
        }
        // Some file systems cannot sync directories; the name is then as safe as it gets.
        match rustix::fs::fsync(&self.directory) {
            Ok(()) | Err(Errno::INVAL | Errno::ROFS) => Ok(()),
            Err(error) => Err(Error::io("write to disk the directory of", &self.path)(error)),
        }
    }

    /// Fails with EXIST if the name is taken.
    fn put_new(&mut self) -> rustix::io::Result<()> {
        let Some(hidden) = &self.hidden else {
            return link(&self.file, &self.directory, &self.name);
        };
        let (directory, name) = (&self.directory, self.name.as_os_str());
        match rustix::fs::renameat_with(directory, hidden, directory, name, RenameFlags::NOREPLACE)
        {
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(directory, hidden, directory, name, AtFlags::empty())?;
                rustix::fs::unlinkat(directory, hidden, AtFlags::empty())?;
            }
            result => result?,
        }
        self.hidden = None;
        Ok(())
    }

    fn put_over(&mut self) -> rustix::io::Result<()> {
        let hidden = match self.hidden.take() {
            Some(hidden) => hidden,
            None => self.link_hidden()?,
        };
        // From here on the hidden name is removed on drop unless it became the name.
        self.hidden = Some(hidden);
        let Some(hidden) = &self.hidden else { return Err(Errno::INVAL) };
        rustix::fs::renameat(&self.directory, hidden, &self.directory, &self.name)?;
        self.hidden = None;
        Ok(())
    }

    fn link_hidden(&self) -> rustix::io::Result<OsString> {
        for attempt in 0..ATTEMPTS_MAX {
            let hidden = hidden_name(&self.name, attempt);
            match link(&self.file, &self.directory, &hidden) {
                Err(Errno::EXIST) => continue,
                result => return result.map(|()| hidden),
            }
        }
        Err(Errno::EXIST)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = rustix::fs::unlinkat(&self.directory, hidden, AtFlags::empty());
        }
    }
}

/// Hidden names tried before giving up.
const ATTEMPTS_MAX: u32 = 100;

fn open_unnamed(directory: &OwnedFd) -> Option<File> {
    // The name is given through /proc; without it the file would never get one.
    if !Path::new("/proc/self/fd").exists() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(directory, ".", flags, Mode::from_raw_mode(0o666)).ok()?;
    Some(File::from(fd))
}

fn open_hidden(directory: &OwnedFd, name: &OsStr) -> io::Result<(File, OsString)> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    for attempt in 0..ATTEMPTS_MAX {
        let hidden = hidden_name(name, attempt);
        match rustix::fs::openat(directory, &hidden, flags, Mode::from_raw_mode(0o666)) {
            Err(Errno::EXIST) => continue,
            result => return Ok((File::from(result?), hidden)),
        }
    }
    Err(Errno::EXIST.into())
}

fn hidden_name(name: &OsStr, attempt: u32) -> OsString {
    let suffix = format!(".{}-{attempt}.partial", std::process::id());
    // A name may be 255 bytes; the hidden one must not be longer.
    let keep = name.as_bytes().len().min(254 - suffix.len());
    let mut hidden = OsString::from(".");
    hidden.push(OsStr::from_bytes(&name.as_bytes()[..keep]));
    hidden.push(suffix);
    hidden
}

fn link(file: &File, directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    let open = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    rustix::fs::linkat(CWD, open, directory, name, AtFlags::SYMLINK_FOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(directory: &Path) -> Vec<OsString> {
        std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name()).collect()
    }

    fn unnamed(path: &Path) -> OutputFile {
        OutputFile::create(path).unwrap()
    }

    fn hidden(path: &Path) -> OutputFile {
        let mut output = unnamed(path);
        if output.hidden.is_none() {
            let (file, name) = open_hidden(&output.directory, &output.name).unwrap();
            output.file = file;
            output.hidden = Some(name);
        }
        output
    }

    /// Both ways to be without the final name.
    const WAYS: [fn(&Path) -> OutputFile; 2] = [unnamed, hidden];

    #[test]
    fn dropped_output_leaves_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("out");
        for way in WAYS {
            let output = way(&path);
            output.file().write_all(b"x").unwrap();
            drop(output);
            assert!(names(temp.path()).is_empty());
        }
    }

    #[test]
    fn commit_names_once_and_replaces_only_when_asked() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("out");
        for (turn, way) in WAYS.into_iter().enumerate() {
            let output = way(&path);
            output.file().write_all(&[b'a' + turn as u8]).unwrap();
            output.sync().unwrap();
            output.commit(false).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), [b'a' + turn as u8]);
            for way in WAYS {
                assert!(matches!(way(&path).commit(false), Err(Error::Exists { .. })));
            }
            for way in WAYS {
                let output = way(&path);
                output.file().write_all(b"new").unwrap();
                output.commit(true).unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), b"new");
            }
            assert_eq!(names(temp.path()), ["out"]);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_link_is_followed_and_a_directory_refused() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("link");
        std::fs::write(temp.path().join("file"), "old").unwrap();
        std::os::unix::fs::symlink("file", &path).unwrap();
        assert_eq!(existing(&path).unwrap(), Existing::File);
        let output = OutputFile::create(&path).unwrap();
        output.file().write_all(b"new").unwrap();
        output.commit(true).unwrap();
        assert_eq!(std::fs::read(temp.path().join("file")).unwrap(), b"new");
        assert!(std::fs::symlink_metadata(&path).unwrap().file_type().is_symlink());
        assert!(existing(temp.path()).is_err());
        assert_eq!(existing(Path::new("/dev/null")).unwrap(), Existing::Stream);
        let long = temp.path().join("n".repeat(255));
        OutputFile::create(&long).unwrap().commit(true).unwrap();
        assert!(long.exists());
    }
}
