//! What the headers of RAR archives say, as entries of a tree: paths, kinds, metadata, links.
//!
//! RAR up to 4 separates names by backslashes and has times of MS-DOS, which have no zone and are
//! read as UTC. RAR 5 and later have slashes, UTF-8 and times in UTC.

use rars::{ArchiveFamily, ArchiveMember, ArchiveMemberDetail, AttrSource, FileTimestamp};
use shale_codec::stream::Crc32;
use shale_format::limits::LINK_TARGET_LEN_MAX;
use shale_model::{InodeKind, Metadata, Timestamp};

use super::MAGIC;
use crate::names;
use crate::tree::ImageFile;
use crate::zip::{from_code_page_437, from_dos};

/// Kinds of links in RAR 5 and later.
const LINK_UNIX: u64 = 1;
const LINK_WINDOWS: u64 = 2;
const LINK_JUNCTION: u64 = 3;
const LINK_HARD: u64 = 4;
const LINK_COPY: u64 = 5;

const DOS_READ_ONLY: u64 = 1;

/// A record of a header of RAR 5: the owner on Unix.
const RECORD_OWNER: u64 = 6;
const OWNER_HAS_USER_NAME: u64 = 1;
const OWNER_HAS_GROUP_NAME: u64 = 2;
const OWNER_HAS_UID: u64 = 4;
const OWNER_HAS_GID: u64 = 8;

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// An inode of its own. The content of a symbolic link is its target.
    Inode(InodeKind),
    /// A symbolic link whose target is in its header.
    Symlink(Vec<u8>),
    /// A further name of an earlier entry.
    HardLink(Vec<u8>),
    /// A file with the content of an earlier entry.
    Copy(Vec<u8>),
}

impl Kind {
    /// The kind that rules are asked about.
    pub(super) fn inode(&self) -> InodeKind {
        match self {
            Self::Inode(kind) => *kind,
            Self::Symlink(_) => InodeKind::Symlink,
            Self::HardLink(_) | Self::Copy(_) => InodeKind::File,
        }
    }
}

/// The path of an entry in the tree.
///
/// # Errors
/// The path cannot be used.
pub(super) fn path(member: &ArchiveMember) -> Result<Vec<u8>, String> {
    let raw = &member.meta.name;
    let is_old = member.meta.family != ArchiveFamily::Rar50Plus;
    let is_dos = member.meta.attr_source() == AttrSource::Dos;
    let is_known = member.name_is_unicode() || std::str::from_utf8(raw).is_ok();
    let mut path = match is_old && is_dos && !is_known {
        true => from_code_page_437(raw),
        // Names of Unix are bytes, in whatever encoding, and stay so.
        false => raw.clone(),
    };
    if is_old {
        path.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
    }
    names::relative(&path)
}

/// The mode that Unix gave an entry.
fn mode(member: &ArchiveMember) -> Option<u32> {
    let is_unix = member.meta.attr_source() == AttrSource::Unix;
    is_unix.then(|| u32::try_from(member.meta.file_attr).ok()).flatten()
}

/// What an entry is.
///
/// # Errors
/// It is of a kind that no tree has, or that is not supported.
pub(super) fn kind(member: &ArchiveMember) -> Result<Kind, String> {
    if let ArchiveMemberDetail::Rar50Plus { redirection: Some(link), .. } = &member.detail {
        let target = link.target_name.clone();
        return match link.redirection_type {
            LINK_UNIX => symlink(target),
            LINK_WINDOWS if !target.contains(&b':') => {
                symlink(target.iter().map(|&b| if b == b'\\' { b'/' } else { b }).collect())
            }
            LINK_WINDOWS | LINK_JUNCTION => {
                let target = names::shown(&target);
                Err(format!("it is a link of Windows to {target}, which means nothing on Linux"))
            }
            LINK_HARD => Ok(Kind::HardLink(target)),
            LINK_COPY => Ok(Kind::Copy(target)),
            other => Err(format!("it is a link of the unknown kind {other}")),
        };
    }
    if member.meta.is_directory {
        return Ok(Kind::Inode(InodeKind::Directory));
    }
    match mode(member).map(|mode| (mode, InodeKind::from_mode(mode))) {
        // Some writers leave out the kind.
        None => Ok(Kind::Inode(InodeKind::File)),
        Some((mode, None)) if mode & 0o170_000 == 0 => Ok(Kind::Inode(InodeKind::File)),
        Some((_, Some(kind @ (InodeKind::File | InodeKind::Symlink)))) => Ok(Kind::Inode(kind)),
        Some((mode, _)) => Err(format!("an entry of mode {mode:o} is neither a file nor a link")),
    }
}

fn symlink(target: Vec<u8>) -> Result<Kind, String> {
    if target.is_empty() || target.len() > LINK_TARGET_LEN_MAX || target.contains(&0) {
        return Err(format!("its link target has {} bytes or is not valid", target.len()));
    }
    Ok(Kind::Symlink(target))
}

/// Metadata of an entry, except its length. `owner` is its user and group.
pub(super) fn metadata(member: &ArchiveMember, kind: InodeKind, owner: (u32, u32)) -> Metadata {
    let meta = &member.meta;
    let is_read_only = meta.attr_source() == AttrSource::Dos && meta.file_attr & DOS_READ_ONLY != 0;
    let usual = match (kind, is_read_only) {
        (InodeKind::Directory, false) => 0o755,
        (InodeKind::Directory, true) => 0o555,
        (_, false) => 0o644,
        (_, true) => 0o444,
    };
    let mut times = [Timestamp::default(); 3];
    match &member.detail {
        ArchiveMemberDetail::Rar50Plus { file_times, .. } => {
            let known = file_times.unwrap_or_default();
            let known = [known.modified, known.accessed, known.created];
            for (time, known) in times.iter_mut().zip(known) {
                *time = known.map_or(Timestamp::default(), timestamp);
            }
            if let (None, Some(sec)) = (file_times.and_then(|t| t.modified), meta.file_time) {
                times[0] = Timestamp { sec: i64::from(sec), nsec: 0 };
            }
        }
        _ => {
            if let Some(dos) = meta.file_time {
                times[0] = from_dos(u64::from(dos >> 16), u64::from(dos & 0xffff));
            }
            if let Some(finer) = meta.mtime_refinement {
                times[0].sec += i64::from(finer.add_second);
                times[0].nsec = finer.nanoseconds.min(999_999_999);
            }
        }
    }
    Metadata {
        kind,
        permissions: match kind {
            InodeKind::Symlink => 0o777,
            _ => mode(member).map_or(usual, |mode| mode & 0o7777),
        },
        uid: owner.0,
        gid: owner.1,
        mtime: times[0],
        atime: times[1],
        ctime: Timestamp::default(),
        btime: times[2],
        len: 0,
        device: 0,
    }
}

fn timestamp(time: FileTimestamp) -> Timestamp {
    let nanoseconds = time.unix_nanoseconds();
    let sec = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).unwrap_or_default();
    Timestamp { sec, nsec: nanoseconds.rem_euclid(1_000_000_000) as u32 }
}

/// The owner that a header of RAR 5 names by numbers; 0 for what it does not.
///
/// The library does not read this record. `header` is what follows the length of the header, whose
/// sum was compared, and `extra_len` the length of its records.
pub(super) fn owner(header: &[u8], extra_len: u64) -> (u32, u32) {
    let extra_len = usize::try_from(extra_len).unwrap_or(usize::MAX);
    let Some(start) = header.len().checked_sub(extra_len) else { return (0, 0) };
    let mut records = &header[start..];
    while let Some(len) = number(&mut records) {
        let Some(mut record) = usize::try_from(len).ok().and_then(|len| records.get(..len)) else {
            break;
        };
        records = &records[record.len()..];
        if number(&mut record) == Some(RECORD_OWNER) {
            return numbers_of_owner(record).unwrap_or((0, 0));
        }
    }
    (0, 0)
}

fn numbers_of_owner(mut record: &[u8]) -> Option<(u32, u32)> {
    let flags = number(&mut record)?;
    for flag in [OWNER_HAS_USER_NAME, OWNER_HAS_GROUP_NAME] {
        if flags & flag != 0 {
            let len = usize::try_from(number(&mut record)?).ok()?;
            record = record.get(len..)?;
        }
    }
    let mut id = |flag| match flags & flag {
        0 => Some(0),
        _ => u32::try_from(number(&mut record)?).ok(),
    };
    Some((id(OWNER_HAS_UID)?, id(OWNER_HAS_GID)?))
}

/// Takes a number of RAR 5: seven bits a byte, the lowest first, the eighth says that more follow.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for place in 0..9 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The header of RAR 5 at `offset` of the archive: what follows its length.
pub(super) fn header(file: &ImageFile, offset: u64, len: u64) -> Option<Vec<u8>> {
    const HEADER_LEN_MAX: u64 = 2 << 20;
    if len > HEADER_LEN_MAX {
        return None;
    }
    // A sum and the length itself.
    let head = file.read(offset, 4 + 3).ok()?;
    let len_len = head[4..].iter().position(|byte| byte & 0x80 == 0)? as u64 + 1;
    file.read(offset + 4 + len_len, len).ok()
}

/// Where in `bytes` an archive begins: its magic, and a first header whose sum is right.
/// Programs that know RAR have its magic in them.
pub(crate) fn find(bytes: &[u8]) -> Option<u64> {
    let mut from = 0;
    loop {
        let at = from + bytes[from..].windows(MAGIC.len()).position(|window| window == MAGIC)?;
        if is_start(&bytes[at + MAGIC.len()..]) {
            return Some(at as u64);
        }
        from = at + 1;
    }
}

/// Returns true if these bytes follow the first six of an archive.
fn is_start(bytes: &[u8]) -> bool {
    let crc_of = |bytes: &[u8]| {
        let mut crc = Crc32::new();
        crc.update(bytes);
        crc.sum()
    };
    match bytes {
        [1, 0, sum @ ..] if sum.len() > 4 => {
            let (sum, mut rest) = sum.split_at(4);
            let before = rest.len();
            let Some(len) = number(&mut rest) else { return false };
            let len_len = before - rest.len();
            let Some(end) = usize::try_from(len).ok().and_then(|len| len.checked_add(len_len))
            else {
                return false;
            };
            let header = bytes[6..].get(..end);
            len > 0 && header.is_some_and(|header| crc_of(header).to_le_bytes() == sum)
        }
        // Sum, type of the main header, flags, length.
        [0, sum_0, sum_1, 0x73, rest @ ..] if rest.len() >= 4 => {
            let len = usize::from(u16::from_le_bytes([rest[2], rest[3]]));
            let header = bytes.get(3..(1 + len).max(3));
            let sum = u16::from_le_bytes([*sum_0, *sum_1]);
            len >= 7 && header.is_some_and(|header| crc_of(header) as u16 == sum)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_the_numbers_of_the_record() {
        let record = |flags: u8, rest: &[u8]| [&[6, flags][..], rest].concat();
        let header = |record: &[u8]| {
            // A record before it.
            let mut extra = vec![2, 9, 9, record.len() as u8];
            extra.extend_from_slice(record);
            let len = extra.len() as u64;
            ([b"header".to_vec(), extra].concat(), len)
        };
        for (record, expected) in [
            (record(12, &[0xe8, 7, 100]), (1000, 100)),
            (record(15, b"\x03bin\x01x\x05\x06"), (5, 6)),
            (record(3, b"\x03bin\x01x"), (0, 0)),
            (record(8, &[7]), (0, 7)),
            (record(12, &[0xe8]), (0, 0)),
            (record(1, &[200]), (0, 0)),
        ] {
            let (bytes, len) = header(&record);
            assert_eq!(owner(&bytes, len), expected, "{record:?}");
        }
        assert_eq!(owner(b"short", 100), (0, 0));
    }

    #[test]
    fn an_archive_begins_with_a_header_whose_sum_is_right() {
        let old = b"Rar!\x1a\x07\0\xcf\x90\x73\0\0\x0d\0\0\0\0\0\0\0";
        assert_eq!(find(&[b"MZ... Rar!\x1a\x07\0 and ", &old[..]].concat()), Some(18));
        let mut bad = old.to_vec();
        bad[9] = 9;
        assert_eq!(find(&bad), None);
        assert_eq!(find(&old[..15]), None);
        let mut crc = Crc32::new();
        crc.update(&[3, 1, 0, 0]);
        let new = [b"Rar!\x1a\x07\x01\0", &crc.sum().to_le_bytes()[..], &[3, 1, 0, 0]].concat();
        assert_eq!(find(&[b"x", &new[..]].concat()), Some(1));
        assert_eq!(find(&new[..13]), None);
    }
}
