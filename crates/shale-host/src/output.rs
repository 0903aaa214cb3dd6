//! An output file that is complete or absent.
//!
//! The bytes are written to a file without a name in the directory of the output (O_TMPFILE), which
//! the system removes by itself whatever happens. If the file system does not support that, they go
//! to a hidden name beside the output, which is removed on drop. [`OutputFile::commit`] gives the
//! file its name in one step and syncs the directory. A file that replaces another one gets its
//! permissions; nobody can read the new file who could not read the old one.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use crate::error::Error;

/// Flushes the names in an open directory to the disk, for example after a rename. Some file
/// systems cannot sync directories; nothing more can be done then.
///
/// # Errors
/// The system reports an error.
pub fn sync_directory(directory: impl AsFd) -> io::Result<()> {
    match rustix::fs::fsync(directory) {
        Ok(()) | Err(Errno::INVAL | Errno::ROFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Where an image or archive is written to.
pub enum Output<'a> {
    /// A file of this name. Devices and fifos are written to as streams.
    Path(PathBuf),
    /// A stream. What was written cannot be read back.
    Stream(&'a mut (dyn Write + Send)),
}

impl std::fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Stream(_) => f.write_str("Stream(..)"),
        }
    }
}

/// What exists at the path of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Nothing.
    Nothing,
    /// A regular file.
    File,
    /// A device, fifo or socket: written to as a stream, never replaced.
    Stream,
}

/// Looks what exists at the path of an output.
///
/// # Errors
/// The path names a directory, or cannot be looked up.
pub fn existing(path: &Path) -> Result<Existing, Error> {
    let is_directory_name = path.as_os_str().as_bytes().ends_with(b"/");
    match rustix::fs::stat(path) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Existing::File),
            FileType::Directory => Err(Error::NotReplaceable { path: path.to_owned() }),
            _ => Ok(Existing::Stream),
        },
        Err(Errno::NOENT | Errno::NOTDIR) if is_directory_name => {
            Err(Error::DirectoryName { path: path.to_owned() })
        }
        Err(Errno::NOENT) => Ok(Existing::Nothing),
        Err(error) => Err(Error::io("look at", path)(error)),
    }
}

/// An output file that has no name yet.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    directory: OwnedFd,
    path: PathBuf,
    name: OsString,
    /// The hidden name, if the file system has no files without a name.
    hidden: Option<OsString>,
}

impl OutputFile {
    /// Creates the file. `path` must name a file in an existing directory. A symbolic link in its
    /// place is followed: the file that it leads to is replaced, not the link.
    ///
    /// # Errors
    /// The directory cannot be opened or no file can be created in it.
    pub fn create(path: &Path) -> Result<Self, Error> {
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
        // Only the owner may read the file until its final permissions are known.
        let is_there = rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let mode = Mode::from_raw_mode(if is_there { 0o600 } else { 0o666 });
        let (file, hidden) = match open_unnamed(&directory, mode) {
            Some(file) => (file, None),
            None => open_hidden(&directory, &name, mode)
                .map(|(file, hidden)| (file, Some(hidden)))
                .map_err(Error::io("create a file in", parent))?,
        };
        Ok(Self { file, directory, path: path.to_owned(), name, hidden })
    }

    /// The open file, readable and writable.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Flushes the bytes to the disk.
    ///
    /// # Errors
    /// The system reports an error.
    pub fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(Error::io("write to disk", &self.path))
    }

    /// Gives the synced file its name. With `replace`, it replaces an existing file.
    ///
    /// # Errors
    /// [`Error::Exists`] if the name is taken and `replace` is false; [`Error::Io`] if the system
    /// refuses.
    pub fn commit(mut self, replace: bool) -> Result<(), Error> {
        let result = if replace { self.put_over() } else { self.put_new() };
        match result {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(Error::Exists { path: self.path.clone() }),
            Err(error) => return Err(Error::io("name the output", &self.path)(error)),
        }
        sync_directory(&self.directory)
            .map_err(Error::io("write to disk the directory of", &self.path))
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
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(replaced) => self.be_as_open_as(&replaced)?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let hidden = match self.hidden.take() {
            Some(hidden) => hidden,
            None => self.link_hidden()?,
        };
        // From here on, drop removes the hidden name unless it became the final one.
        self.hidden = Some(hidden);
        let Some(hidden) = &self.hidden else { return Err(Errno::INVAL) };
        rustix::fs::renameat(&self.directory, hidden, &self.directory, &self.name)?;
        self.hidden = None;
        Ok(())
    }

    /// Takes over permissions, access list, and if allowed owner and group of the file that is
    /// replaced. If they cannot be kept, access becomes narrower, never wider.
    fn be_as_open_as(&self, replaced: &Stat) -> rustix::io::Result<()> {
        let own = rustix::fs::fstat(&self.file)?;
        let mut bits = replaced.st_mode & 0o777;
        let group = Gid::from_raw(replaced.st_gid);
        if (own.st_uid, own.st_gid) != (replaced.st_uid, replaced.st_gid) {
            let owner = Uid::from_raw(replaced.st_uid);
            let is_kept = rustix::fs::fchown(&self.file, Some(owner), Some(group)).is_ok()
                || rustix::fs::fchown(&self.file, None, Some(group)).is_ok();
            if !is_kept {
                // Members of the old group may now be others, and the other way round.
                let both = bits >> 3 & bits & 0o7;
                bits = bits & 0o700 | both << 3 | both;
            }
        }
        let list = self.access_list();
        if list.is_some() {
            // With an access list these bits are its mask, which may allow more than the group has.
            bits &= 0o707;
        }
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(bits))?;
        if let Some(list) = list {
            // Without the list, the group has no access.
            let _ = rustix::fs::fsetxattr(&self.file, ACCESS_LIST, &list, XattrFlags::empty());
        }
        Ok(())
    }

    /// Returns the access list of the file that is replaced, if it has one.
    fn access_list(&self) -> Option<Vec<u8>> {
        let directory = format!("/proc/self/fd/{}", self.directory.as_raw_fd());
        let path = Path::new(&directory).join(&self.name);
        let mut list = vec![0; ACCESS_LIST_LEN_MAX];
        let len = rustix::fs::lgetxattr(&path, ACCESS_LIST, &mut list[..]).ok()?;
        list.truncate(len);
        Some(list)
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

/// The attribute that holds the access list of a file, and the maximum length of an attribute.
const ACCESS_LIST: &str = "system.posix_acl_access";
const ACCESS_LIST_LEN_MAX: usize = 64 << 10;
/// Hidden names tried before giving up.
const ATTEMPTS_MAX: u32 = 100;

fn open_unnamed(directory: &OwnedFd, mode: Mode) -> Option<File> {
    // The final name is linked through /proc; without it the file could never get one.
    if !Path::new("/proc/self/fd").exists() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(directory, ".", flags, mode).ok()?;
    Some(File::from(fd))
}

fn open_hidden(directory: &OwnedFd, name: &OsStr, mode: Mode) -> io::Result<(File, OsString)> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    for attempt in 0..ATTEMPTS_MAX {
        let hidden = hidden_name(name, attempt);
        match rustix::fs::openat(directory, &hidden, flags, mode) {
            Err(Errno::EXIST) => continue,
            result => return Ok((File::from(result?), hidden)),
        }
    }
    Err(Errno::EXIST.into())
}

fn hidden_name(name: &OsStr, attempt: u32) -> OsString {
    let suffix = format!(".{}-{attempt}.partial", std::process::id());
    // A name has at most 255 bytes; the hidden one must not be longer.
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
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn names(directory: &Path) -> Vec<OsString> {
        std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name()).collect()
    }

    fn unnamed(path: &Path) -> OutputFile {
        OutputFile::create(path).unwrap()
    }

    fn hidden(path: &Path) -> OutputFile {
        let mut output = unnamed(path);
        if output.hidden.is_none() {
            let (file, name) = open_hidden(&output.directory, &output.name, Mode::RUSR).unwrap();
            output.file = file;
            output.hidden = Some(name);
        }
        output
    }

    /// Both kinds of file without a final name.
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
    fn what_is_replaced_leaves_its_permissions() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("out");
        for way in WAYS {
            for bits in [0o600, 0o640, 0o444, 0o664] {
                std::fs::write(&path, "old").unwrap();
                std::fs::set_permissions(&path, Permissions::from_mode(bits)).unwrap();
                let output = way(&path);
                let meanwhile = output.file().metadata().unwrap().mode();
                assert_eq!(meanwhile & 0o077, 0, "others see it before it is done");
                output.commit(true).unwrap();
                let found = std::fs::metadata(&path).unwrap();
                assert_eq!((found.mode() & 0o7777, found.len()), (bits, 0));
                std::fs::remove_file(&path).unwrap();
            }
        }
        // Owner and group too, if that is allowed.
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        if std::os::unix::fs::chown(&path, Some(54_321), Some(54_322)).is_ok() {
            unnamed(&path).commit(true).unwrap();
            let found = std::fs::metadata(&path).unwrap();
            assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (54_321, 54_322, 0o640));
        }
        // A list with another user, a mask, and no access for the group; if the file system has
        // lists.
        let entry = |tag: u16, bits: u16, id: u32| {
            [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let no_id = u32::MAX;
        let list = [(1, 6, no_id), (2, 6, 54_321), (4, 0, no_id), (16, 6, no_id), (32, 0, no_id)];
        let list = list.map(|(tag, bits, id)| entry(tag, bits, id)).concat();
        let list = [&2u32.to_le_bytes()[..], &list].concat();
        if rustix::fs::setxattr(&path, ACCESS_LIST, &list, XattrFlags::empty()).is_ok() {
            unnamed(&path).commit(true).unwrap();
            let mut kept = vec![0; 1000];
            let len = rustix::fs::getxattr(&path, ACCESS_LIST, &mut kept[..]).unwrap();
            assert_eq!(&kept[..len], list);
        }
    }

    #[test]
    fn names_of_directories_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let name = |name: &str| existing(&temp.path().join(name));
        std::fs::write(temp.path().join("file"), "old").unwrap();
        assert!(matches!(name("new/"), Err(Error::DirectoryName { .. })));
        assert!(matches!(name("file/"), Err(Error::DirectoryName { .. })));
        assert!(matches!(name("./"), Err(Error::NotReplaceable { .. })));
        assert_eq!(name("new").unwrap(), Existing::Nothing);
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
