//! The oracle: what a tree is, as a sorted list that can be compared.
//!
//! Sees a tree through system calls only and shares no code with the product. A record holds type,
//! permissions, owner, size, mtime with nanoseconds, device number, hard link group, all extended
//! attributes that the caller may see, a hash of the content and the map of its data and holes.
//! Sizes and link counts of directories and all other times are not in it: they belong to the file
//! system and not to the tree.

use crate::model::{open_folder, open_parent};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, SeekFrom, major, minor};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Files up to this size are read whole; of larger ones, holes are not read.
const READ_WHOLE_MAX: u64 = 64 << 20;
/// Unit of the hash of a content.
const BLOCK: usize = 4096;

/// A tree by path from its top; the top itself has the empty path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// The records.
    pub records: BTreeMap<Vec<u8>, Record>,
}

/// What one path of a tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// One letter as `ls -l` has it: `-dlpscb`.
    pub kind: char,
    /// Permissions with setuid, setgid and sticky.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Size; 0 for directories.
    pub len: u64,
    /// Last modification.
    pub mtime: (i64, u32),
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Names of the inode; 1 for directories.
    pub link_count: u64,
    /// First path of the tree that leads to the same inode.
    pub first_name: Vec<u8>,
    /// Extended attributes by name.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Hash of the content, or the target of a link.
    pub content: Vec<u8>,
    /// Start and end of each piece of data, as SEEK_DATA and SEEK_HOLE tell.
    pub data: Vec<(u64, u64)>,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sec, nsec) = self.mtime;
        write!(f, "{}{:04o} {}:{}", self.kind, self.mode, self.owner.0, self.owner.1)?;
        write!(f, " len {} mtime {sec}.{nsec:09}", self.len)?;
        write!(f, " dev {}:{} links {}", self.device.0, self.device.1, self.link_count)?;
        write!(f, " first {}", self.first_name.escape_ascii())?;
        match self.kind {
            'l' => write!(f, " -> {}", self.content.escape_ascii())?,
            _ => {
                let hex = self.content.iter().take(8).map(|b| format!("{b:02x}"));
                write!(f, " hash {}", hex.collect::<String>())?;
            }
        }
        for (name, value) in &self.xattrs {
            let hash = blake3::hash(value).to_hex();
            write!(f, " {}={}:{}", name.escape_ascii(), value.len(), &hash[..8])?;
        }
        write!(f, " data {:?}", self.data)
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.records.iter().try_for_each(|(path, r)| writeln!(f, "{} {r}", path.escape_ascii()))
    }
}

impl Manifest {
    /// Reads the tree below `root`, staying on its file system.
    ///
    /// # Errors
    ///
    /// A system call fails.
    pub fn of(root: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(root, flags, Mode::empty())?;
        let device = rustix::fs::fstat(&top)?.st_dev;
        let mut records = BTreeMap::new();
        let mut inodes: HashMap<u64, Vec<Vec<u8>>> = HashMap::new();
        let mut waiting = vec![Vec::new()];
        while let Some(path) = waiting.pop() {
            let (record, inode, record_device) = record(top.as_fd(), &path)
                .map_err(|e| io::Error::other(format!("{}: {e}", path.escape_ascii())))?;
            if record_device == device && record.kind == 'd' {
                let folder = open_folder(top.as_fd(), &path)?;
                for entry in Dir::read_from(&folder)? {
                    let entry = entry?;
                    let name = entry.file_name().to_bytes();
                    if name != b"." && name != b".." {
                        let mut inner = path.clone();
                        if !inner.is_empty() {
                            inner.push(b'/');
                        }
                        inner.extend_from_slice(name);
                        waiting.push(inner);
                    }
                }
            } else {
                inodes.entry(inode).or_default().push(path.clone());
            }
            records.insert(path, record);
        }
        Ok(Self::with_links(records, inodes))
    }

    /// A manifest of these records, with the paths of each inode told to be names of one.
    pub(crate) fn with_links(
        mut records: BTreeMap<Vec<u8>, Record>,
        inodes: HashMap<u64, Vec<Vec<u8>>>,
    ) -> Self {
        for names in inodes.into_values() {
            let first = names.iter().min().cloned().unwrap_or_default();
            for name in &names {
                if let Some(record) = records.get_mut(name) {
                    record.first_name.clone_from(&first);
                }
            }
        }
        Self { records }
    }

    /// What differs from `other`, one line each. Empty where the trees are equal.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, record) in &self.records {
            match other.records.get(path) {
                None => lines.push(format!("missing: {} {record}", path.escape_ascii())),
                Some(found) if found != record => lines.push(format!(
                    "{}\n  expected {record}\n  found    {found}",
                    path.escape_ascii()
                )),
                Some(_) => {}
            }
        }
        let more = other.records.keys().filter(|path| !self.records.contains_key(*path));
        lines.extend(more.map(|path| format!("unexpected: {}", path.escape_ascii())));
        lines
    }

    /// Panics with the first differences, if there are any: for tests.
    #[track_caller]
    pub fn assert_equals(&self, other: &Self, what: &str) {
        let lines = self.differences(other);
        let shown: Vec<&str> = lines.iter().take(12).map(String::as_str).collect();
        assert!(lines.is_empty(), "{what}: {} differences\n{}", lines.len(), shown.join("\n"));
    }
}

fn record(root: BorrowedFd<'_>, path: &[u8]) -> io::Result<(Record, u64, u64)> {
    let (folder, name) = open_parent(root, path)?;
    let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let letter = match kind {
        FileType::RegularFile => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::CharacterDevice => 'c',
        FileType::BlockDevice => 'b',
        _ => '?',
    };
    let is_directory = kind == FileType::Directory;
    let is_device = matches!(letter, 'c' | 'b');
    let mut record = Record {
        kind: letter,
        mode: stat.st_mode & 0o7777,
        owner: (stat.st_uid, stat.st_gid),
        len: if is_directory { 0 } else { stat.st_size as u64 },
        mtime: (stat.st_mtime, stat.st_mtime_nsec as u32),
        device: if is_device { (major(stat.st_rdev), minor(stat.st_rdev)) } else { (0, 0) },
        link_count: if is_directory { 1 } else { stat.st_nlink as u64 },
        first_name: path.to_vec(),
        xattrs: xattrs(folder.as_fd(), name)?,
        content: Vec::new(),
        data: Vec::new(),
    };
    if kind == FileType::Symlink {
        record.content = rustix::fs::readlinkat(&folder, name, Vec::new())?.into_bytes();
    } else if kind == FileType::RegularFile {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name, flags, Mode::empty())?;
        record.data = data_map(file.as_fd(), record.len)?;
        record.content = hash(file.as_fd(), record.len, &record.data)?;
    }
    Ok((record, stat.st_ino, stat.st_dev))
}

fn xattrs(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut link = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    link.extend_from_slice(name.as_bytes());
    let link = OsStr::from_bytes(&link);
    let mut names = vec![0; 65536];
    let len = match rustix::fs::llistxattr(link, &mut names[..]) {
        Ok(len) => len,
        Err(Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut found = BTreeMap::new();
    for name in names[..len].split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 65536];
        match rustix::fs::lgetxattr(link, OsStr::from_bytes(name), &mut value[..]) {
            Ok(len) => value.truncate(len),
            // Listed for everybody, readable for some: absent for this caller.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS) => continue,
            Err(error) => return Err(error.into()),
        }
        found.insert(name.to_vec(), value);
    }
    Ok(found)
}

/// Start and end of every piece of data. Where the file system knows no holes, the whole file.
fn data_map(file: BorrowedFd<'_>, len: u64) -> io::Result<Vec<(u64, u64)>> {
    let (mut map, mut at) = (Vec::new(), 0);
    while at < len {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) => return Ok(vec![(0, len)]),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
        if end <= start || start < at {
            return Err(io::Error::other(format!("SEEK_HOLE({start}) answers {end}")));
        }
        map.push((start, end));
        at = end;
    }
    Ok(map)
}

fn hash(file: BorrowedFd<'_>, len: u64, data: &[(u64, u64)]) -> io::Result<Vec<u8>> {
    content_hash(len, data, |at, mut buffer| {
        let mut at = at;
        while !buffer.is_empty() {
            match rustix::io::pread(file, &mut *buffer, at)? {
                0 => return Err(io::Error::other(format!("ends at {at}"))),
                count => {
                    buffer = &mut buffer[count..];
                    at += count as u64;
                }
            }
        }
        Ok(())
    })
}

/// A hash of all blocks that are not zero, with their offsets: the same for every map of holes.
/// `read` fills a buffer from an offset. Of very long files only what the map calls data is read.
pub(crate) fn content_hash<E>(
    len: u64,
    data: &[(u64, u64)],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let whole = [(0, len)];
    let mut done = 0;
    for &(start, end) in if len <= READ_WHOLE_MAX { &whole[..] } else { data } {
        // Whole blocks, so that the hash does not depend on where data begins in one.
        let mut at = (start / BLOCK as u64 * BLOCK as u64).max(done);
        let end = end.next_multiple_of(BLOCK as u64).min(len);
        while at < end {
            let want = usize::try_from((end - at).min(buffer.len() as u64)).unwrap_or(BLOCK);
            read(at, &mut buffer[..want])?;
            for (index, block) in buffer[..want].chunks(BLOCK).enumerate() {
                if block.iter().any(|b| *b != 0) {
                    hasher.update(&(at + (index * BLOCK) as u64).to_le_bytes());
                    hasher.update(block);
                }
            }
            at += want as u64;
        }
        done = end;
    }
    Ok(hasher.finalize().as_bytes().to_vec())
}
