//! A tree as a list in memory, and how it becomes a tree on disk.
//!
//! A model can be made in any order of its items, so that two copies of a tree differ in nothing
//! but the order in which they were made. What the file system or the user cannot do is left out
//! and reported, never silently: `Made::left_out` has one line for each. Works below open folders,
//! so paths may be longer than PATH_MAX.

use crate::random::Random;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, makedev,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What an item of a model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file of `len` bytes: holes where no piece lies. Pieces ascend.
    File {
        /// Size of the file.
        len: u64,
        /// Bytes at offsets.
        pieces: Vec<(u64, Data)>,
    },
    /// A symbolic link to a target.
    Symlink(Vec<u8>),
    /// Another name of the item with this path.
    HardLink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A block device with major and minor number.
    Block(u32, u32),
    /// A character device with major and minor number.
    Char(u32, u32),
}

/// Bytes of a file that are made when needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// Incompressible bytes from a seed.
    Random(u64, usize),
    /// Prose from a seed.
    Text(u64, usize),
    /// Lines of a log from a seed.
    Log(u64, usize),
    /// An array of numbers: seed, which also says of what kind, and length.
    Array(u64, usize),
    /// A file of sound or a picture, of about as many bytes: the number says which kind.
    Samples(u64, usize),
    /// What looks like machine code from a seed.
    Code(u64, usize),
    /// The prose of a seed's first 1000 bytes, again and again.
    Again(u64, usize),
    /// These bytes.
    Bytes(&'static [u8]),
    /// Zeroes, written.
    Zero(usize),
}

impl Data {
    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match *self {
            Self::Random(seed, len) => Random::new(seed).bytes(len),
            Self::Text(seed, len) => Random::new(seed).text(len),
            Self::Log(seed, len) => Random::new(seed).log(len),
            Self::Array(seed, len) => Random::new(seed).array(seed, len),
            Self::Samples(kind, len) => samples(kind, len),
            Self::Code(seed, len) => Random::new(seed).code(len),
            Self::Again(seed, len) => {
                Random::new(seed).text(1000).into_iter().cycle().take(len).collect()
            }
            Self::Bytes(bytes) => bytes.to_vec(),
            Self::Zero(len) => vec![0; len],
        }
    }
}

/// One item of a model. A hard link has the metadata of what it leads to, its own is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Path from the top of the tree; empty for the top itself.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permissions with setuid, setgid and sticky.
    pub mode: u32,
    /// Owner and group; `None` leaves what the system gives.
    pub owner: Option<(u32, u32)>,
    /// Seconds and nanoseconds of the last modification.
    pub mtime: (i64, u32),
    /// Full names and values.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What making a tree did not do.
#[derive(Debug, Default)]
pub struct Made {
    /// One line for each thing the file system or the user cannot do.
    pub left_out: Vec<String>,
}

/// Makes the tree below the existing folder `root`. `order` shuffles items that do not depend on
/// each other; the tree is the same for every order.
///
/// # Errors
///
/// A system call fails in a way that the file system and the user do not explain.
pub fn make(items: &[Item], root: &Path, order: u64) -> io::Result<Made> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty())?;
    let mut made = Made::default();
    let mut order: Vec<&Item> = {
        let mut shuffled: Vec<&Item> = items.iter().collect();
        Random::new(order).shuffle(&mut shuffled);
        shuffled
    };
    // Folders before what lies in them, things before their other names, otherwise as shuffled.
    let depth = |item: &Item| item.path.split(|b| *b == b'/').filter(|p| !p.is_empty()).count();
    order.sort_by_key(|item| match item.kind {
        Kind::Directory => (0, depth(item)),
        Kind::HardLink(_) => (2, 0),
        _ => (1, 0),
    });
    let mut there = Vec::with_capacity(order.len());
    for item in order {
        match make_item(root.as_fd(), item) {
            Ok(()) => there.push(item),
            Err(error) => {
                let error = may_be_left_out(error)?;
                made.left_out.push(format!("{}: {error}", show(item)));
            }
        }
    }
    // Attributes last, and folders after all that is in them: making an item changes its folder's
    // time, and a folder may lose the permission to make one.
    there.sort_by_key(|item| std::cmp::Reverse(depth(item)));
    for item in there.iter().filter(|item| !matches!(item.kind, Kind::HardLink(_))) {
        set_attributes(root.as_fd(), item, &mut made)?;
    }
    Ok(made)
}

/// Errors that mean "not here" and not "the test is broken".
fn may_be_left_out(error: Errno) -> io::Result<Errno> {
    const NOT_HERE: [Errno; 9] = [
        Errno::PERM,
        Errno::ACCESS,
        Errno::OPNOTSUPP,
        Errno::NOSPC,
        Errno::TOOBIG,
        Errno::RANGE,
        Errno::INVAL,
        Errno::NAMETOOLONG,
        Errno::FBIG,
    ];
    if NOT_HERE.contains(&error) { Ok(error) } else { Err(error.into()) }
}

fn show(item: &Item) -> String {
    let path = String::from_utf8_lossy(&item.path);
    let short: String = path.chars().take(60).collect();
    let kind = match &item.kind {
        Kind::File { len, .. } => format!("file of {len} bytes"),
        Kind::HardLink(_) => "hard link".to_owned(),
        Kind::Symlink(target) => format!("symlink of {} bytes", target.len()),
        other => format!("{other:?}"),
    };
    format!("{kind} `{}`", short.escape_debug())
}

/// Opens the folder that holds `path`, name by name. Returns it with the last name of the path.
///
/// # Errors
///
/// A folder on the way cannot be opened.
pub fn open_parent<'p>(
    root: BorrowedFd<'_>,
    path: &'p [u8],
) -> rustix::io::Result<(OwnedFd, &'p OsStr)> {
    let (folder, name) = match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    };
    let name = if name.is_empty() { b".".as_slice() } else { name };
    Ok((open_folder(root, folder)?, OsStr::from_bytes(name)))
}

/// Opens the folder at `path` below `root`, in pieces that one call can name.
///
/// # Errors
///
/// A folder on the way cannot be opened.
pub fn open_folder(root: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    const PIECE_LEN_MAX: usize = 2048;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = rustix::fs::openat(root, ".", flags, Mode::empty())?;
    let mut rest = path;
    while !rest.is_empty() {
        let end = match rest.len() <= PIECE_LEN_MAX {
            true => rest.len(),
            // A name has 255 bytes at most, so there is a slash.
            false => rest[..PIECE_LEN_MAX].iter().rposition(|b| *b == b'/').unwrap_or(rest.len()),
        };
        folder =
            rustix::fs::openat(&folder, OsStr::from_bytes(&rest[..end]), flags, Mode::empty())?;
        rest = rest[end..].strip_prefix(b"/").unwrap_or(&rest[end..]);
    }
    Ok(folder)
}

fn make_item(root: BorrowedFd<'_>, item: &Item) -> rustix::io::Result<()> {
    if item.path.is_empty() {
        return Ok(());
    }
    let (folder, name) = open_parent(root, &item.path)?;
    let node =
        |kind, device| rustix::fs::mknodat(&folder, name, kind, Mode::from_raw_mode(0o600), device);
    match &item.kind {
        Kind::Directory => rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o700)),
        Kind::File { len, pieces } => make_file(folder.as_fd(), name, *len, pieces),
        Kind::Symlink(target) => rustix::fs::symlinkat(OsStr::from_bytes(target), &folder, name),
        Kind::HardLink(path) => {
            let (from, from_name) = open_parent(root, path)?;
            rustix::fs::linkat(&from, from_name, &folder, name, AtFlags::empty())
        }
        Kind::Fifo => node(FileType::Fifo, 0),
        Kind::Socket => node(FileType::Socket, 0),
        Kind::Block(major, minor) => node(FileType::BlockDevice, makedev(*major, *minor)),
        Kind::Char(major, minor) => node(FileType::CharacterDevice, makedev(*major, *minor)),
    }
}

fn make_file(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    len: u64,
    pieces: &[(u64, Data)],
) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?;
    let fill = || {
        rustix::fs::ftruncate(&file, len)?;
        for (offset, data) in pieces {
            let (bytes, mut at) = (data.bytes(), 0);
            while at < bytes.len() {
                at += rustix::io::pwrite(&file, &bytes[at..], offset + at as u64)?;
            }
        }
        Ok(())
    };
    fill().inspect_err(|_| {
        // Half a file would be another tree than the one described.
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
    })
}

fn set_attributes(root: BorrowedFd<'_>, item: &Item, made: &mut Made) -> io::Result<()> {
    let (folder, name) = open_parent(root, &item.path)?;
    let mut leave_out = |what: &str, result: rustix::io::Result<()>| match result {
        Ok(()) => Ok(()),
        Err(error) => {
            let error = may_be_left_out(error)?;
            made.left_out.push(format!("{what} of {}: {error}", show(item)));
            io::Result::Ok(())
        }
    };
    if let Some((uid, gid)) = item.owner {
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        let done = rustix::fs::chownat(&folder, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW);
        leave_out("owner", done)?;
    }
    // A path that names the item itself even where it is a link or its own path is too long.
    let mut link = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    link.extend_from_slice(name.as_bytes());
    let link = OsStr::from_bytes(&link);
    // Permissions come after the owner, whose change clears setuid and setgid.
    if !matches!(item.kind, Kind::Symlink(_)) {
        let mode = Mode::from_raw_mode(item.mode);
        let done = rustix::fs::chmodat(&folder, name, mode, AtFlags::empty());
        leave_out("mode", done)?;
    }
    for (key, value) in &item.xattrs {
        let what = format!("xattr {} of {} bytes", String::from_utf8_lossy(key), value.len());
        let key = OsStr::from_bytes(key);
        leave_out(&what, rustix::fs::lsetxattr(link, key, value, XattrFlags::empty()))?;
    }
    let time = Timespec { tv_sec: item.mtime.0, tv_nsec: item.mtime.1.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    let done = rustix::fs::utimensat(&folder, name, &times, AtFlags::SYMLINK_NOFOLLOW);
    leave_out("mtime", done)?;
    let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if (stat.st_mtime, stat.st_mtime_nsec as u32) != item.mtime {
        let what = format!("mtime {:?} of {}: kept as", item.mtime, show(item));
        made.left_out.push(format!("{what} ({}, {})", stat.st_mtime, stat.st_mtime_nsec));
    }
    Ok(())
}

/// A file of sound (WAV, AIFF) or of a telescope (FITS), with noise on a wave. Even lengths vary
/// little: `len` bytes are those of the samples.
pub fn samples(kind: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(kind + 900);
    // A triangle, as a sine is not the same on every machine.
    let mut wave = |at: u64, period: u64, height: i64| {
        let place = (at % period) as i64 * 4 * height / period as i64;
        let value = if place < 2 * height { place - height } else { 3 * height - place };
        value + random.below(height as u64 / 50 + 2) as i64
    };
    let mut file = Vec::new();
    let mut tail: &[u8] = &[];
    match kind % 6 {
        0 | 1 => {
            // Stereo of 16 bits; one has a chunk after the samples.
            file.extend(b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0\x44\xac\0\0\x10\xb1\x02\0");
            file.extend(b"\x04\0\x10\0data");
            file.extend((len as u32).to_le_bytes());
            for at in 0..len as u64 / 4 {
                let left = wave(at, 90 + kind * 7, 9000) as i16;
                file.extend(left.to_le_bytes());
                file.extend((left / 2 + wave(at, 700, 200) as i16).to_le_bytes());
            }
            tail = if kind.is_multiple_of(6) { b"LIST\x04\0\0\0INFO" } else { b"" };
        }
        2 => {
            // 24 bits, big-endian, and a length that is not true.
            file.extend(b"FORM\0\0\0\0AIFFCOMM\0\0\0\x12\0\x01\0\0\0\0\0\x18\0\0\0\0\0\0\0\0\0\0");
            file.extend(b"SSND\xff\xff\xff\0\0\0\0\0\0\0\0\0");
            (0..len as u64 / 3).for_each(|at| {
                file.extend(&(wave(at, 130, 2_000_000) as i32).to_be_bytes()[1..]);
            });
        }
        3 => {
            // Eight bits of one channel, and silence.
            file.extend(b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0");
            file.extend(b"\x01\0\x08\0data\xff\xff\xff\xff");
            file.extend((0..len as u64 / 2).map(|at| (wave(at, 50, 90) + 128) as u8));
            file.resize(file.len() + len / 2, 128);
        }
        _ => {
            // A picture of 16 bits, of which one kind uses 12.
            let (width, unused) = (300, if kind % 6 == 4 { 0 } else { 4 });
            let height = len as u64 / 2 / width;
            let cards = [
                "SIMPLE  =                    T".to_owned(),
                "BITPIX  =                   16".to_owned(),
                "NAXIS   =                    2".to_owned(),
                format!("NAXIS1  = {width:20}"),
                format!("NAXIS2  = {height:20}"),
                "END".to_owned(),
            ];
            cards.iter().for_each(|card| file.extend(format!("{card:80}").bytes()));
            file.resize(2880, b' ');
            for at in 0..width * height {
                let (x, y) = (at % width, at / width);
                let value = wave(x, 200, 3000) + wave(y, 60, 2000);
                file.extend(((value as i16) >> unused << unused).to_be_bytes());
            }
            file.resize(file.len().next_multiple_of(2880), 0);
        }
    }
    file.extend_from_slice(tail);
    file
}
