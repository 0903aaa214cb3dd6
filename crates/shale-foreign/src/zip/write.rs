//! A tree as a zip archive: deflated, Zip64 where lengths ask for it, with what Info-ZIP adds for
//! Unix.
//!
//! Files are deflated by several threads: short ones whole, longer ones in chunks that are one
//! stream of deflate together. A short file says its lengths in front of its data, a longer one
//! after it, so the output may be a pipe. What does not get smaller is stored. Permissions, owners
//! and symbolic links are kept, times to 100 ns. There are no devices, pipes and sockets, which
//! are left out, no attributes, and no hard links, which become copies; holes are zeroes. The top
//! directory has no entry.
//!
//! Keeps the directory of the archive in memory, about 100 bytes and the path for each entry.

use std::io::{self, Write};

use shale_codec::stream::{Crc32, deflate_part};
use shale_format::InodeKind;

use super::records::{
    DESCRIPTOR_MAGIC, END_MAGIC, END64_LOCATOR_MAGIC, END64_MAGIC, ENTRY_MAGIC, EXTRA_LARGE,
    EXTRA_OWNER, EXTRA_UNIX_TIME, EXTRA_WINDOWS, FLAG_DESCRIPTOR, FLAG_UTF8, LOCAL_MAGIC,
};
use super::time;
use crate::archive::{Archive, ArchiveEntry, Keeps, Taken};
use crate::ordered::Ordered;

/// Plain bytes deflated at a time; a file up to this length is deflated whole.
const CHUNK_LEN: usize = 1 << 20;
/// Files from this length on get lengths of 64 bits: deflating may add a little.
const LARGE_LEN: u64 = 0xff00_0000;
/// Stands for a number that is in the extra field of large ones.
const IN_EXTRA: u32 = u32::MAX;

const METHOD_STORED: u16 = 0;
const METHOD_DEFLATED: u16 = 8;
/// Written on Unix, by version 3.0 of the specification.
const MADE_BY: u16 = 3 << 8 | 30;
const VERSION_USUAL: u16 = 20;
const VERSION_LARGE: u16 = 45;

/// Writes a zip archive.
pub struct ZipWriter<W> {
    out: W,
    written: u64,
    pool: Ordered<Job, io::Result<Done>>,
    /// The directory at the end, as far as it is known, and its entries.
    directory: Vec<u8>,
    entry_count: u64,
    current: Option<Current>,
    /// The long file whose chunks are being written.
    long: Option<Long>,
}

/// A long file on its way out.
struct Long {
    head: Box<Head>,
    /// Where its header is.
    start: u64,
    stored_len: u64,
}

impl<W> std::fmt::Debug for ZipWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZipWriter").field("entries", &self.entry_count).finish_non_exhaustive()
    }
}

/// What headers say of an entry.
struct Head {
    name: Vec<u8>,
    mode: u32,
    dos_time: (u16, u16),
    /// Extra fields, but that of large lengths.
    extra: Vec<u8>,
    len: u64,
}

/// The file whose data comes.
struct Current {
    /// Until it was handed on.
    head: Option<Head>,
    chunk: Vec<u8>,
    left: u64,
    len: u64,
    crc: Crc32,
}

enum Job {
    /// A whole entry with its data.
    Whole(Box<Head>, Vec<u8>),
    /// A long file begins.
    Start(Box<Head>),
    /// A part of its data; true for the last.
    Chunk(Vec<u8>, bool),
    /// It ends; its sum.
    End(u32),
}

/// A job that was done, to be written.
enum Done {
    Whole { head: Box<Head>, method: u16, crc: u32, stored: Vec<u8> },
    Start(Box<Head>),
    Chunk(Vec<u8>),
    End(u32),
}

impl<W: Write> ZipWriter<W> {
    /// Writes an archive to `out`, deflated at a level of 0 to 9.
    pub fn new(out: W, level: u32, threads: usize) -> Self {
        Self {
            out,
            written: 0,
            pool: Ordered::new(threads, move |job| work(job, level)),
            directory: Vec::new(),
            entry_count: 0,
            current: None,
            long: None,
        }
    }

    fn give(&mut self, job: Job) -> io::Result<()> {
        while self.pool.is_full() {
            self.take(true)?;
        }
        self.pool.give(job)?;
        while self.take(false)? {}
        Ok(())
    }

    /// Writes the oldest job that is done; false if there is none.
    fn take(&mut self, waits: bool) -> io::Result<bool> {
        let Some(done) = self.pool.take(waits)? else { return Ok(false) };
        match done? {
            Done::Whole { head, method, crc, stored } => {
                let start = self.written;
                let lens = (stored.len() as u64, head.len);
                self.local_header(&head, method, crc, Some(lens))?;
                self.write(&stored)?;
                self.directory_entry(&head, method, crc, stored.len() as u64, start)?;
            }
            Done::Start(head) => {
                let start = self.written;
                self.local_header(&head, METHOD_DEFLATED, 0, None)?;
                self.long = Some(Long { head, start, stored_len: 0 });
            }
            Done::Chunk(stored) => {
                self.write(&stored)?;
                if let Some(long) = &mut self.long {
                    long.stored_len += stored.len() as u64;
                }
            }
            Done::End(crc) => {
                let Some(Long { head, start, stored_len }) = self.long.take() else {
                    return Err(io::Error::other("an end without a beginning"));
                };
                let mut tail = DESCRIPTOR_MAGIC.to_vec();
                tail.extend_from_slice(&crc.to_le_bytes());
                for len in [stored_len, head.len] {
                    match head.len >= LARGE_LEN {
                        true => tail.extend_from_slice(&len.to_le_bytes()),
                        false => tail.extend_from_slice(&(len as u32).to_le_bytes()),
                    }
                }
                self.write(&tail)?;
                self.directory_entry(&head, METHOD_DEFLATED, crc, stored_len, start)?;
            }
        }
        Ok(true)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// The header in front of data; without `lens` those follow the data.
    fn local_header(
        &mut self,
        head: &Head,
        method: u16,
        crc: u32,
        lens: Option<(u64, u64)>,
    ) -> io::Result<()> {
        let is_large = lens.is_none() && head.len >= LARGE_LEN;
        let mut extra = head.extra.clone();
        if is_large {
            add_extra(&mut extra, EXTRA_LARGE, &[0; 16]);
        }
        let (stored_len, len) = match lens {
            Some((stored_len, len)) => (stored_len as u32, len as u32),
            None if is_large => (IN_EXTRA, IN_EXTRA),
            None => (0, 0),
        };
        let mut header = LOCAL_MAGIC.to_vec();
        let version = if is_large { VERSION_LARGE } else { VERSION_USUAL };
        put16(&mut header, &[version, head.flags(lens.is_none()), method]);
        put16(&mut header, &[head.dos_time.1, head.dos_time.0]);
        put32(&mut header, &[crc, stored_len, len]);
        put16(&mut header, &[head.name.len() as u16, extra.len() as u16]);
        header.extend_from_slice(&head.name);
        header.extend_from_slice(&extra);
        self.write(&header)
    }

    fn directory_entry(
        &mut self,
        head: &Head,
        method: u16,
        crc: u32,
        stored_len: u64,
        start: u64,
    ) -> io::Result<()> {
        let mut large = Vec::new();
        let mut fit = |value: u64| match u32::try_from(value) {
            Ok(value) if value != IN_EXTRA => value,
            _ => {
                large.extend_from_slice(&value.to_le_bytes());
                IN_EXTRA
            }
        };
        // In the order in which the extra field has them.
        let (len, stored, start) = (fit(head.len), fit(stored_len), fit(start));
        let mut extra = head.extra.clone();
        if !large.is_empty() {
            add_extra(&mut extra, EXTRA_LARGE, &large);
        }
        let version = if large.is_empty() { VERSION_USUAL } else { VERSION_LARGE };
        let is_directory = head.name.ends_with(b"/");
        let entry = &mut self.directory;
        entry.extend_from_slice(ENTRY_MAGIC);
        // A file longer than one chunk has its lengths after it.
        let is_long = head.len > CHUNK_LEN as u64;
        put16(entry, &[MADE_BY, version, head.flags(is_long), method]);
        put16(entry, &[head.dos_time.1, head.dos_time.0]);
        put32(entry, &[crc, stored, len]);
        put16(entry, &[head.name.len() as u16, extra.len() as u16, 0, 0, 0]);
        put32(entry, &[head.mode << 16 | u32::from(is_directory) << 4, start]);
        entry.extend_from_slice(&head.name);
        entry.extend_from_slice(&extra);
        self.entry_count += 1;
        Ok(())
    }
}

impl Head {
    /// `Err` says why there can be none.
    fn new(entry: &ArchiveEntry<'_>, taken: &mut Taken) -> Result<Self, String> {
        let metadata = entry.metadata;
        let mut name = entry.path.to_vec();
        if metadata.kind == InodeKind::Directory {
            name.push(b'/');
        }
        if name.len() > usize::from(u16::MAX) {
            return Err("its path is longer than 65535 bytes".to_owned());
        }
        let mtime = metadata.mtime;
        let mut extra = Vec::new();
        let seconds = i32::try_from(mtime.sec);
        if let Ok(seconds) = seconds {
            let field = [&[1][..], &seconds.to_le_bytes()].concat();
            add_extra(&mut extra, EXTRA_UNIX_TIME, &field);
        }
        taken.is_rounded = !mtime.nsec.is_multiple_of(100);
        match time::to_windows(mtime) {
            Some(ticks) if seconds.is_err() || mtime.nsec > 99 => {
                let mut field = vec![0, 0, 0, 0, 1, 0, 24, 0];
                // Modification, access, creation: the latter two are not known.
                (0..3).for_each(|_| field.extend_from_slice(&ticks.to_le_bytes()));
                add_extra(&mut extra, EXTRA_WINDOWS, &field);
            }
            Some(_) => {}
            None if seconds.is_ok() => {}
            None => taken.lost.push(format!("its time {} is not kept", mtime.sec)),
        }
        let ids = [metadata.uid.to_le_bytes(), metadata.gid.to_le_bytes()];
        let owner = [&[1, 4][..], &ids[0], &[4], &ids[1]].concat();
        add_extra(&mut extra, EXTRA_OWNER, &owner);
        Ok(Self {
            name,
            mode: metadata.kind.mode_bits() | metadata.permissions,
            dos_time: time::to_dos(mtime),
            extra,
            len: if metadata.kind == InodeKind::File { metadata.len } else { 0 },
        })
    }

    fn flags(&self, has_descriptor: bool) -> u16 {
        let utf8 = if std::str::from_utf8(&self.name).is_ok() { FLAG_UTF8 } else { 0 };
        utf8 | if has_descriptor { FLAG_DESCRIPTOR } else { 0 }
    }
}

fn add_extra(extra: &mut Vec<u8>, kind: u16, field: &[u8]) {
    put16(extra, &[kind, field.len() as u16]);
    extra.extend_from_slice(field);
}

fn put16(out: &mut Vec<u8>, values: &[u16]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn put32(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

/// What the threads do.
fn work(job: Job, level: u32) -> io::Result<Done> {
    Ok(match job {
        Job::Whole(head, plain) => {
            let mut crc = Crc32::new();
            crc.update(&plain);
            let deflated = match plain.is_empty() {
                true => Vec::new(),
                false => deflate_part(&plain, level, true)?,
            };
            let (method, stored) = match deflated.len() < plain.len() {
                true => (METHOD_DEFLATED, deflated),
                false => (METHOD_STORED, plain),
            };
            Done::Whole { head, method, crc: crc.sum(), stored }
        }
        Job::Start(head) => Done::Start(head),
        Job::Chunk(plain, is_last) => Done::Chunk(deflate_part(&plain, level, is_last)?),
        Job::End(crc) => Done::End(crc),
    })
}

impl<W: Write> Archive for ZipWriter<W> {
    fn keeps(&self) -> Keeps {
        Keeps { holes: false, hard_links: false, shared_contents: false }
    }

    fn entry(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<Taken> {
        let metadata = entry.metadata;
        let what = match metadata.kind {
            InodeKind::BlockDevice | InodeKind::CharDevice => "devices",
            InodeKind::Fifo => "pipes",
            InodeKind::Socket => "sockets",
            InodeKind::File | InodeKind::Directory | InodeKind::Symlink => "",
        };
        if !what.is_empty() {
            return Ok(Taken::not(format!("left out: zip has no {what}")));
        }
        let mut taken = Taken::whole();
        taken.lose_xattrs(entry.xattrs, |_| false);
        if entry.path.is_empty() {
            taken.is_rounded = false;
            return Ok(taken);
        }
        let mut head = match Head::new(entry, &mut taken) {
            Ok(head) => head,
            Err(why) => return Ok(Taken::not(format!("left out: {why}"))),
        };
        if let Some(first) = entry.hard_link {
            taken.lost.push(format!("a copy, no hard link to {}", first.escape_ascii()));
        }
        match metadata.kind {
            InodeKind::File => {
                let (len, crc) = (head.len, Crc32::new());
                let chunk = Vec::with_capacity(len.min(CHUNK_LEN as u64) as usize);
                self.current = Some(Current { head: Some(head), chunk, left: len, len, crc });
            }
            _ => {
                head.len = entry.target.len() as u64;
                self.give(Job::Whole(Box::new(head), entry.target.to_vec()))?;
            }
        }
        Ok(taken)
    }

    fn data(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let too_much = || io::Error::other("more data than the entry has");
        let mut current = self.current.take().ok_or_else(too_much)?;
        current.left = current.left.checked_sub(bytes.len() as u64).ok_or_else(too_much)?;
        if current.len > CHUNK_LEN as u64 {
            current.crc.update(bytes);
            if let Some(head) = current.head.take() {
                self.give(Job::Start(Box::new(head)))?;
            }
        }
        while !bytes.is_empty() {
            // Only a long file has more; its last chunk waits for its end.
            if current.chunk.len() == CHUNK_LEN {
                let chunk = std::mem::replace(&mut current.chunk, Vec::with_capacity(CHUNK_LEN));
                self.give(Job::Chunk(chunk, false))?;
            }
            let len = bytes.len().min(CHUNK_LEN - current.chunk.len());
            let (now, rest) = bytes.split_at(len);
            current.chunk.extend_from_slice(now);
            bytes = rest;
        }
        self.current = Some(current);
        Ok(())
    }

    fn end_entry(&mut self) -> io::Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        if current.left > 0 {
            return Err(io::Error::other("less data than the entry has"));
        }
        match current.head {
            Some(head) => self.give(Job::Whole(Box::new(head), current.chunk)),
            None => {
                self.give(Job::Chunk(current.chunk, true))?;
                self.give(Job::End(current.crc.sum()))
            }
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        while self.take(true)? {}
        let start = self.written;
        let directory = std::mem::take(&mut self.directory);
        self.write(&directory)?;
        let (len, count) = (directory.len() as u64, self.entry_count);
        let is_large = count >= u64::from(u16::MAX) || start.max(len) >= u64::from(u32::MAX);
        let mut end = Vec::new();
        if is_large {
            end.extend_from_slice(END64_MAGIC);
            end.extend_from_slice(&44u64.to_le_bytes());
            put16(&mut end, &[MADE_BY, VERSION_LARGE]);
            put32(&mut end, &[0, 0]);
            for value in [count, count, len, start] {
                end.extend_from_slice(&value.to_le_bytes());
            }
            end.extend_from_slice(END64_LOCATOR_MAGIC);
            put32(&mut end, &[0]);
            end.extend_from_slice(&(start + len).to_le_bytes());
            put32(&mut end, &[1]);
        }
        let count = count.min(u64::from(u16::MAX)) as u16;
        let [len, start] = [len, start].map(|value| u32::try_from(value).unwrap_or(IN_EXTRA));
        end.extend_from_slice(END_MAGIC);
        put16(&mut end, &[0, 0, count, count]);
        put32(&mut end, &[len, start]);
        put16(&mut end, &[0]);
        self.write(&end)?;
        self.out.flush()
    }
}
