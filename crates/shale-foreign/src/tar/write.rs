//! A tree as a tar archive: ustar headers, with extended ones of PAX where those do not suffice.
//!
//! What needs no extended header gets none, so that a plain tree is an archive that every tar ever
//! written reads. Names of owners are left empty. Holes are written in version 1.0 of GNU's
//! format for them, access control lists as text with numbers, other attributes as star and GNU
//! have them. The bytes depend on the entries alone.

use std::io::{self, Write};

use shale_format::inode::device_parts;
use shale_format::{InodeKind, Timestamp};

use super::header::{BLOCK_LEN, Block};
use crate::acl;
use crate::archive::{Archive, ArchiveEntry, Keeps, Taken};

/// Archives end at a multiple of this, as tapes want it.
const RECORD_LEN: u64 = 10_240;

/// Writes a tar archive.
#[derive(Debug)]
pub struct TarWriter<W> {
    out: W,
    written: u64,
    /// Data of the entry that is still to come.
    left: u64,
    times: Times,
}

/// Which times beside the modification are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Last access.
    pub access: bool,
    /// Last change of the inode.
    pub change: bool,
    /// Creation.
    pub birth: bool,
}

impl<W: Write> TarWriter<W> {
    /// Writes an archive to `out`.
    pub fn new(out: W, times: Times) -> Self {
        Self { out, written: 0, left: 0, times }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn pad(&mut self, unit: u64) -> io::Result<()> {
        let len = self.written.next_multiple_of(unit) - self.written;
        let zeroes = vec![0; len as usize];
        self.write(&zeroes)
    }

    fn extended_header(&mut self, path: &[u8], records: &[u8]) -> io::Result<()> {
        let mut block = [0; BLOCK_LEN];
        let base = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let name = [b"PaxHeaders/", &base[..base.len().min(80)]].concat();
        put(&mut block, 0..100, &name);
        put_octal(&mut block, 100..108, 0o644);
        put_octal(&mut block, 108..116, 0);
        put_octal(&mut block, 116..124, 0);
        put_octal(&mut block, 124..136, records.len() as u64);
        put_octal(&mut block, 136..148, 0);
        seal(&mut block, b'x');
        self.write(&block)?;
        self.write(records)?;
        self.pad(BLOCK_LEN as u64)
    }

    /// Records of what the header cannot say, and whether something cannot be said at all.
    fn records(&self, entry: &ArchiveEntry<'_>) -> Records {
        let mut records = Records::default();
        let metadata = entry.metadata;
        for (name, id) in [("uid", metadata.uid), ("gid", metadata.gid)] {
            if u64::from(id) > 0o777_7777 {
                records.add(name.as_bytes(), id.to_string().as_bytes());
            }
        }
        if metadata.mtime.nsec != 0 || octal_seconds(metadata.mtime).is_none() {
            records.add(b"mtime", &decimal(metadata.mtime));
        }
        if entry.hard_link.is_some() {
            // Some programs give the inode what its last name says of owners and time; the rest
            // they take from its first.
            return records;
        }
        let times = [
            (self.times.access, &b"atime"[..], metadata.atime),
            (self.times.change, b"ctime", metadata.ctime),
            (self.times.birth, b"LIBARCHIVE.creationtime", metadata.btime),
        ];
        for (_, name, time) in times.into_iter().filter(|(is_kept, ..)| *is_kept) {
            records.add(name, &decimal(time));
        }
        for xattr in entry.xattrs {
            let list = match &xattr.name[..] {
                b"system.posix_acl_access" => Some((&b"SCHILY.acl.access"[..], false)),
                b"system.posix_acl_default" => Some((&b"SCHILY.acl.default"[..], true)),
                _ => None,
            };
            let text = list.and_then(|(name, is_default)| {
                acl::to_text(&xattr.value, is_default).map(|text| (name, text))
            });
            match text {
                Some((name, text)) => records.add(name, &text),
                None => {
                    let name = [b"SCHILY.xattr.", &quoted(&xattr.name)[..]].concat();
                    records.add(&name, &xattr.value);
                }
            }
        }
        records
    }
}

#[derive(Default)]
struct Records {
    bytes: Vec<u8>,
}

impl Records {
    fn add(&mut self, name: &[u8], value: &[u8]) {
        // A length that counts itself.
        let body_len = name.len() + value.len() + 3;
        let mut len = body_len + 1;
        while len != body_len + len.to_string().len() {
            len = body_len + len.to_string().len();
        }
        self.bytes.extend_from_slice(len.to_string().as_bytes());
        self.bytes.push(b' ');
        self.bytes.extend_from_slice(name);
        self.bytes.push(b'=');
        self.bytes.extend_from_slice(value);
        self.bytes.push(b'\n');
    }

    /// In front of paths that are not UTF-8, so that nobody takes them for it.
    fn add_charset(&mut self) {
        let mut charset = Self::default();
        charset.add(b"hdrcharset", b"BINARY");
        charset.bytes.append(&mut self.bytes);
        self.bytes = charset.bytes;
    }
}

impl<W: Write> Archive for TarWriter<W> {
    fn keeps(&self) -> Keeps {
        Keeps { holes: true, hard_links: true, shared_contents: false }
    }

    fn entry(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<Taken> {
        let metadata = entry.metadata;
        let flag = match (entry.hard_link, metadata.kind) {
            (Some(_), _) => b'1',
            (None, InodeKind::File) => b'0',
            (None, InodeKind::Symlink) => b'2',
            (None, InodeKind::CharDevice) => b'3',
            (None, InodeKind::BlockDevice) => b'4',
            (None, InodeKind::Directory) => b'5',
            (None, InodeKind::Fifo) => b'6',
            (None, InodeKind::Socket) => return Ok(Taken::not("left out: tar has no sockets")),
        };
        let mut records = self.records(entry);
        let mut block = [0; BLOCK_LEN];
        let is_directory = metadata.kind == InodeKind::Directory;
        let mut path = entry.path.to_vec();
        if is_directory {
            path.extend_from_slice(if path.is_empty() { b"./" } else { b"/" });
        }
        let target = entry.hard_link.unwrap_or(entry.target);
        let is_file = flag == b'0';
        let map = (is_file && entry.has_holes()).then(|| map(entry));
        let stored_len = match (&map, is_file) {
            (_, false) => 0,
            (Some(map), true) => entry.data_len() + map.len() as u64,
            (None, true) => metadata.len,
        };
        if std::str::from_utf8(entry.path).is_err() || std::str::from_utf8(target).is_err() {
            records.add_charset();
        }
        let real_path = map.is_some().then(|| path.clone());
        if map.is_some() {
            // Whoever does not know holes shall not take the map for the file.
            let slash = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
            path.splice(slash..slash, *b"GNUSparseFile.0/");
        }
        if !put_path(&mut block, &path) {
            records.add(b"path", &path);
        }
        if let Some(real_path) = real_path {
            records.add(b"GNU.sparse.major", b"1");
            records.add(b"GNU.sparse.minor", b"0");
            // Behind the other path: for Python, the last one counts.
            records.add(b"GNU.sparse.name", &real_path);
            records.add(b"GNU.sparse.realsize", metadata.len.to_string().as_bytes());
        }
        if !put(&mut block, 157..257, target) {
            records.add(b"linkpath", target);
        }
        put_octal(&mut block, 100..108, u64::from(metadata.permissions));
        put_octal(&mut block, 108..116, u64::from(metadata.uid));
        put_octal(&mut block, 116..124, u64::from(metadata.gid));
        if !put_octal(&mut block, 124..136, stored_len) {
            records.add(b"size", stored_len.to_string().as_bytes());
        }
        put_octal(&mut block, 136..148, octal_seconds(metadata.mtime).unwrap_or(0));
        if matches!(flag, b'3' | b'4') {
            let (major, minor) = device_parts(metadata.device);
            put_number(&mut block, 329..337, major);
            put_number(&mut block, 337..345, minor);
        }
        seal(&mut block, flag);
        if !records.bytes.is_empty() {
            self.extended_header(entry.path, &records.bytes)?;
        }
        self.write(&block)?;
        self.left = stored_len;
        if let Some(map) = map {
            self.left -= map.len() as u64;
            self.write(&map)?;
        }
        Ok(Taken::whole())
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| io::Error::other("more data than the entry has"))?;
        self.write(bytes)
    }

    fn end_entry(&mut self) -> io::Result<()> {
        if self.left > 0 {
            return Err(io::Error::other("less data than the entry has"));
        }
        self.pad(BLOCK_LEN as u64)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.write(&[0; 2 * BLOCK_LEN])?;
        self.pad(RECORD_LEN)?;
        self.out.flush()
    }
}

/// The map of a file with holes, filled up to whole blocks.
fn map(entry: &ArchiveEntry<'_>) -> Vec<u8> {
    let len = entry.metadata.len;
    // A last piece without bytes says where the file ends, as GNU tar has it.
    let ends_in_hole = entry.data.last().is_none_or(|range| range.end < len);
    let last = ends_in_hole.then_some(len..len);
    let mut map = format!("{}\n", entry.data.len() + usize::from(ends_in_hole));
    for range in entry.data.iter().cloned().chain(last) {
        map += &format!("{}\n{}\n", range.start, range.end - range.start);
    }
    let mut map = map.into_bytes();
    map.resize(map.len().next_multiple_of(BLOCK_LEN), 0);
    map
}

/// False if it does not fit; then its beginning is there.
fn put(block: &mut Block, field: std::ops::Range<usize>, bytes: &[u8]) -> bool {
    let field = &mut block[field];
    let len = bytes.len().min(field.len());
    field[..len].copy_from_slice(&bytes[..len]);
    len == bytes.len()
}

/// Puts a path whole, or split at a slash into prefix and name. False if neither fits.
fn put_path(block: &mut Block, path: &[u8]) -> bool {
    if path.len() <= 100 {
        return put(block, 0..100, path);
    }
    // The name must not be empty, and a slash at its end stays with it.
    let last = path.len() - 1;
    let split = (path.len() - 101..last.min(156)).find(|&at| path[at] == b'/' && at > 0);
    match split {
        Some(at) if std::str::from_utf8(path).is_ok() => {
            put(block, 345..500, &path[..at]) && put(block, 0..100, &path[at + 1..])
        }
        _ => {
            put(block, 0..100, path);
            false
        }
    }
}

/// False if it has too many digits; then there is a zero.
fn put_octal(block: &mut Block, field: std::ops::Range<usize>, value: u64) -> bool {
    let digits = field.len() - 1;
    let fits = value >> (3 * digits) == 0;
    let text = format!("{:0digits$o}\0", if fits { value } else { 0 });
    put(block, field, text.as_bytes());
    fits
}

/// Binary where octal digits do not suffice; PAX has no record for device numbers.
fn put_number(block: &mut Block, field: std::ops::Range<usize>, value: u32) {
    if !put_octal(block, field.clone(), u64::from(value)) {
        let mut bytes = [0; 8];
        bytes[0] = 0x80;
        bytes[4..].copy_from_slice(&value.to_be_bytes());
        put(block, field, &bytes);
    }
}

fn seal(block: &mut Block, flag: u8) {
    block[156] = flag;
    put(block, 257..265, b"ustar\x0000");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    put(block, 148..156, format!("{sum:06o}\0 ").as_bytes());
}

fn octal_seconds(time: Timestamp) -> Option<u64> {
    u64::try_from(time.sec).ok().filter(|&sec| sec < 1 << 33)
}

/// Decimal seconds, with a fraction if there is one.
fn decimal(time: Timestamp) -> Vec<u8> {
    let text = match (time.sec, time.nsec) {
        (sec, 0) => sec.to_string(),
        (sec @ 0.., nsec) => format!("{sec}.{nsec:09}"),
        // The fraction counts away from zero here, and upwards there.
        (sec, nsec) => format!("-{}.{:09}", sec.unsigned_abs() - 1, 1_000_000_000 - nsec),
    };
    text.into_bytes()
}

/// As GNU tar has it.
fn quoted(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'=' => out.extend_from_slice(b"%3D"),
            b'%' => out.extend_from_slice(b"%25"),
            byte => out.push(byte),
        }
    }
    out
}
