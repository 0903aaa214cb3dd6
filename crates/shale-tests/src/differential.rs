//! The differential stress: random questions to a copy of a tree and to the tree itself, by several
//! processes at once, every answer compared.
//!
//! What a worker asks depends on its seed alone, so a difference can be found again. Questions are
//! listings from the start, in small steps and from remembered positions; attributes; link targets;
//! extended attributes; names that are not there; reads, aligned or not, within and beyond the
//! end, through the page cache and past it, and by `sendfile`; data and holes by `lseek`. In
//! between, read-ahead is advised on and off, and the kernel's caches are dropped where the user
//! may.

use crate::model::open_parent;
use crate::random::Random;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Advice, AtFlags, Mode, OFlags, RawDir, SeekFrom, openat, readlinkat, statat};
use rustix::io::{Errno, pread};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Longest read.
const READ_LEN_MAX: u64 = 3 << 20;
/// Questions between two checks for the end.
const STEPS: u64 = 64;

/// How much is asked: a number of questions (`5000`), or as many as fit into a time (`60s`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// At least this number of questions.
    Questions(u64),
    /// Questions for this time.
    Time(Duration),
}

impl FromStr for Amount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = text.strip_suffix('s').unwrap_or(text);
        let number: u64 = number.parse().map_err(|_| {
            Error::other(format!("`{text}` is neither a number of questions nor of seconds (60s)"))
        })?;
        Ok(match text.ends_with('s') {
            true => Self::Time(Duration::from_secs(number)),
            false => Self::Questions(number),
        })
    }
}

/// What is compared, and how often.
#[derive(Debug, Clone)]
pub struct Task<'p> {
    /// The tree that is right.
    pub source: &'p Path,
    /// Its copy.
    pub copy: &'p Path,
    /// How much is asked.
    pub amount: Amount,
    /// Decides the questions.
    pub seed: u64,
}

/// One path of the source.
struct SourcePath {
    path: Vec<u8>,
    mode: u32,
    len: u64,
}

/// Asks the questions and returns the number of equal answers.
///
/// # Errors
///
/// The first question that got different answers, or one that could not be asked.
pub fn compare(task: &Task<'_>) -> Result<u64> {
    let source = File::open(task.source)?;
    let copy = File::open(task.copy)?;
    let places = places(task.source)?;
    let begin = Instant::now();
    let mut random = Random::new(task.seed);
    let mut count = 0;
    // Where programs work: in one neighbourhood for a while.
    let mut home = random.below(places.len() as u64);
    while match task.amount {
        Amount::Questions(wanted) => count < wanted,
        Amount::Time(time) => begin.elapsed() < time,
    } {
        for _ in 0..STEPS {
            let at = match random.below(8) {
                0 => random.below(places.len() as u64),
                _ => (home + random.below(200)) % places.len() as u64,
            };
            let place = &places[at as usize];
            ask(source.as_fd(), copy.as_fd(), place, &mut random).map_err(|error| {
                let path = place.path.escape_ascii();
                Error::other(format!("seed {} question {count}: {path}: {error}", task.seed))
            })?;
            count += 1;
        }
        match random.below(200) {
            // Only root may; for others the kernel keeps what it has.
            0 => drop(std::fs::write("/proc/sys/vm/drop_caches", "3")),
            1 => drop(std::fs::write("/proc/sys/vm/drop_caches", "2")),
            2..40 => home = random.below(places.len() as u64),
            _ => {}
        }
    }
    Ok(count)
}

fn places(root: &Path) -> Result<Vec<SourcePath>> {
    let manifest = crate::manifest::Manifest::of(root)?;
    let places = manifest.records.into_iter().map(|(path, record)| {
        let kind = match record.kind {
            'd' => 0o040000,
            'l' => 0o120000,
            '-' => 0o100000,
            _ => 0,
        };
        SourcePath { path, mode: kind, len: record.len }
    });
    Ok(places.collect())
}

/// One question to both, and whether the answers are the same.
fn ask(
    source: BorrowedFd<'_>,
    copy: BorrowedFd<'_>,
    place: &SourcePath,
    random: &mut Random,
) -> Result<()> {
    let (folder, name) = open_parent(source, &place.path)?;
    let (folder2, _) = open_parent(copy, &place.path)?;
    let pair = (folder.as_fd(), folder2.as_fd());
    match (random.below(8), place.mode) {
        (0, _) => same("attributes", stat(pair.0, name), stat(pair.1, name)),
        (1, _) => xattrs(pair, name),
        (2, 0o040000) => {
            let absent = format!("absent {}", random.below(50));
            let path = [name.as_bytes(), b"/", absent.as_bytes()].concat();
            let path = OsStr::from_bytes(&path);
            same("an absent name", stat(pair.0, path), stat(pair.1, path))
        }
        (_, 0o040000) => listing(pair, name, random),
        (_, 0o120000) => {
            let target = |folder| readlinkat(folder, name, Vec::new()).map(CString::into_bytes);
            same("link target", target(pair.0), target(pair.1))
        }
        (_, 0o100000) => file(pair, name, place.len, random),
        _ => same("attributes", stat(pair.0, name), stat(pair.1, name)),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: rustix::io::Result<T>,
    found: rustix::io::Result<T>,
) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let short = |text: String| text.chars().take(300).collect::<String>();
    Err(Error::other(format!(
        "{what}: {} in the source, {} in the copy",
        short(format!("{expected:?}")),
        short(format!("{found:?}"))
    )))
}

/// What is the same on every file system.
fn stat(folder: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<[i64; 9]> {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_folder = found.st_mode & 0o170000 == 0o040000;
    Ok([
        found.st_mode.into(),
        found.st_uid.into(),
        found.st_gid.into(),
        if is_folder { 0 } else { found.st_nlink as i64 },
        if is_folder { 0 } else { found.st_size },
        found.st_rdev as i64,
        found.st_mtime,
        found.st_mtime_nsec as i64,
        0,
    ])
}

fn xattrs((source, copy): (BorrowedFd<'_>, BorrowedFd<'_>), name: &OsStr) -> Result<()> {
    let all = |folder: BorrowedFd<'_>| -> rustix::io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        // The calls take paths only; the folder's handle has one.
        use rustix::fd::AsRawFd;
        let mut path = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
        path.extend_from_slice(name.as_bytes());
        let path = OsStr::from_bytes(&path);
        let mut names = vec![0u8; 64 << 10];
        let len = match rustix::fs::llistxattr(path, &mut names[..]) {
            // That a file system knows none is the same as that a file has none.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => 0,
            found => found?,
        };
        let mut found = BTreeMap::new();
        for name in names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let mut value = vec![0u8; 64 << 10];
            let name_text = OsStr::from_bytes(name);
            let len = rustix::fs::lgetxattr(path, name_text, &mut value[..])?;
            value.truncate(len);
            found.insert(name.to_vec(), value);
        }
        Ok(found)
    };
    same("extended attributes", all(source), all(copy))
}

fn open(folder: BorrowedFd<'_>, name: &OsStr, more: OFlags) -> rustix::io::Result<OwnedFd> {
    let name = if name.is_empty() { OsStr::new(".") } else { name };
    openat(folder, name, OFlags::RDONLY | OFlags::CLOEXEC | more, Mode::empty())
}

/// The names of a folder with their types, the copy's read in steps of any size and partly twice.
fn listing(
    (source, copy): (BorrowedFd<'_>, BorrowedFd<'_>),
    name: &OsStr,
    random: &mut Random,
) -> Result<()> {
    let expected = names(&open(source, name, OFlags::DIRECTORY)?, 32 << 10, None)?;
    let open_copy = open(copy, name, OFlags::DIRECTORY)?;
    let buffer_len = 300 + random.below(20_000) as usize;
    let found = names(&open_copy, buffer_len, None)?;
    let plain = |list: &[(Vec<u8>, u8, u64)]| {
        let mut list: Vec<_> = list.iter().map(|(n, kind, _)| (n.clone(), *kind)).collect();
        list.sort();
        list
    };
    same("listing", Ok(plain(&expected)), Ok(plain(&found)))?;
    // From the middle: the rest must be the rest.
    let from = random.below(found.len() as u64) as usize;
    let rest = names(&open_copy, buffer_len, Some(found[from].2))?;
    let tail: Vec<_> = found[from + 1..].iter().map(|(n, kind, _)| (n.clone(), *kind)).collect();
    let rest: Vec<_> = rest.into_iter().map(|(n, kind, _)| (n, kind)).collect();
    same("listing from the middle", Ok(tail), Ok(rest))
}

/// Names, types and positions after them, from a position on.
fn names(
    folder: &OwnedFd,
    buffer_len: usize,
    from: Option<u64>,
) -> Result<Vec<(Vec<u8>, u8, u64)>> {
    rustix::fs::seek(folder, SeekFrom::Start(from.unwrap_or(0)))?;
    let mut buffer = vec![MaybeUninit::uninit(); buffer_len];
    let mut listing = RawDir::new(folder, &mut buffer);
    let mut found = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let kind = format!("{:?}", entry.file_type());
        let name = entry.file_name().to_bytes().to_vec();
        found.push((name, kind.as_bytes()[0], entry.next_entry_cookie()));
    }
    Ok(found)
}

fn file(
    (source, copy): (BorrowedFd<'_>, BorrowedFd<'_>),
    name: &OsStr,
    len: u64,
    random: &mut Random,
) -> Result<()> {
    let (expected, found) =
        (open(source, name, OFlags::empty()), open(copy, name, OFlags::empty()));
    let (expected, found) = match (expected, found) {
        (Ok(expected), Ok(found)) => (expected, found),
        (expected, found) => return same("open", expected.map(drop), found.map(drop)),
    };
    let at = random.below(len + len / 8 + 10);
    match random.below(10) {
        0 => {
            let seek = |file: &OwnedFd, to| rustix::fs::seek(file, to);
            same(
                "next hole",
                seek(&expected, SeekFrom::Hole(at)),
                seek(&found, SeekFrom::Hole(at)),
            )?;
            same("next data", seek(&expected, SeekFrom::Data(at)), seek(&found, SeekFrom::Data(at)))
        }
        1 => {
            let advice = [Advice::Random, Advice::Sequential, Advice::WillNeed, Advice::DontNeed];
            let advice = advice[random.below(4) as usize];
            rustix::fs::fadvise(&found, 0, NonZeroU64::new(random.below(len + 1)), advice)?;
            read(&expected, &found, at, 1 + random.below(10_000))
        }
        2 => {
            // In sequence, as most programs read.
            let step = 1 + random.below(300_000);
            let mut at = at;
            for _ in 0..8 {
                read(&expected, &found, at, step)?;
                at += step;
            }
            Ok(())
        }
        3 => {
            // Past the page cache, where the file system has a way to; on whole blocks.
            let Ok(direct) = open(copy, name, OFlags::DIRECT) else { return Ok(()) };
            let wanted = 4096 * (1 + random.below(32));
            match read(&expected, &direct, at / 4096 * 4096, wanted) {
                // An address that is not aligned is refused by some, which is their right.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
                outcome => outcome,
            }
        }
        4 => {
            let wanted = 1 + random.below(200_000) as usize;
            same("sendfile", sent(&expected, at, wanted), sent(&found, at, wanted))
        }
        5 => read(&expected, &found, at, 1 + random.below(READ_LEN_MAX)),
        6 => read(&expected, &found, at / 4096 * 4096, 4096 * (1 + random.below(64))),
        _ => read(&expected, &found, at, 1 + random.below(100_000)),
    }
}

fn read(expected: &OwnedFd, found: &OwnedFd, at: u64, len: u64) -> Result<()> {
    let all = |file: &OwnedFd| -> rustix::io::Result<Vec<u8>> {
        let mut bytes = vec![0xA5; len as usize];
        let len = pread(file, &mut bytes, at)?;
        bytes.truncate(len);
        Ok(bytes)
    };
    let (expected, found) = (all(expected)?, all(found)?);
    if expected == found {
        return Ok(());
    }
    let first = expected.iter().zip(&found).position(|(a, b)| a != b);
    Err(Error::other(format!(
        "read of {len} at {at}: {} bytes and {}, first difference at {first:?}",
        expected.len(),
        found.len()
    )))
}

/// What `sendfile` puts into a file in memory.
fn sent(file: &OwnedFd, at: u64, len: usize) -> rustix::io::Result<Vec<u8>> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let target = rustix::fs::memfd_create("shale-stress", flags)?;
    let mut at = at;
    let sent = rustix::fs::sendfile(&target, file, Some(&mut at), len)?;
    let mut bytes = vec![0; sent];
    let found = pread(&target, &mut bytes, 0)?;
    bytes.truncate(found);
    Ok(bytes)
}
