//! A tree as a 7z archive, with LZMA2 or without compression. Source: `DOC/7zFormat.txt` of 7-Zip.
//!
//! Files go into solid blocks, which end with the file that makes them long enough. The bytes of a
//! block are compressed in pieces by several threads; a sequence of LZMA2 chunks may begin anew
//! anywhere, so the pieces in order are one stream. The header comes last, and what says where it
//! is comes first, so the output must be one that can be gone back in.
//!
//! Kept are names, permissions, symbolic links, and times to 100 ns from 1601 on. Owners, hard
//! links, attributes and special files are not, and are reported; an owner is only reported if it
//! is not that of the top directory, which has no entry. The bytes depend on the entries alone.
//!
//! Memory: the pieces on their way, and 60 bytes and twice the path an entry.

use std::io::{self, Seek, SeekFrom, Write};

use shale_codec::stream::{Crc32, lzma2_block_encode};
use shale_format::InodeKind;

use super::MAGIC;
use crate::archive::{Archive, ArchiveEntry, Keeps, Taken};
use crate::ordered::Ordered;
use crate::zip::to_windows;

/// Bytes at the beginning that say where the header is.
const START_LEN: u64 = 32;
/// Plain bytes that are compressed at once, and the dictionary.
const PIECE_LEN: usize = 8 << 20;
const DICTIONARY_LOG2: u8 = 23;
/// Plain bytes after which a solid block ends with the file at hand.
const BLOCK_LEN: u64 = 64 << 20;
/// Latest time in steps of 100 ns: what 63 bits hold, as other programs read them with a sign.
const TICKS_MAX: u64 = i64::MAX as u64;

const ID_LZMA2: u8 = 0x21;
const ATTRIBUTE_READ_ONLY: u32 = 1;
const ATTRIBUTE_DIRECTORY: u32 = 0x10;
/// The high half of the attributes is a mode of Unix.
const ATTRIBUTE_UNIX: u32 = 0x8000;

// Properties of the header.
const END: u8 = 0x00;
const HEADER: u8 = 0x01;
const MAIN_STREAMS: u8 = 0x04;
const FILES: u8 = 0x05;
const PACK_INFO: u8 = 0x06;
const UNPACK_INFO: u8 = 0x07;
const SUBSTREAMS: u8 = 0x08;
const SIZE: u8 = 0x09;
const CRC: u8 = 0x0a;
const FOLDER: u8 = 0x0b;
const UNPACK_SIZE: u8 = 0x0c;
const STREAM_COUNT: u8 = 0x0d;
const EMPTY_STREAM: u8 = 0x0e;
const EMPTY_FILE: u8 = 0x0f;
const NAMES: u8 = 0x11;
const MODIFIED: u8 = 0x14;
const ATTRIBUTES: u8 = 0x15;
const ENCODED_HEADER: u8 = 0x17;

/// Writes a 7z archive.
pub struct SevenzWriter<W> {
    out: W,
    /// Bytes after the start, which are those of the blocks.
    packed_len: u64,
    /// Level of LZMA2; `None`: nothing is compressed.
    level: Option<u32>,
    pool: Ordered<Job, io::Result<(usize, Vec<u8>)>>,
    /// Bytes of the block at hand that were not given away yet.
    piece: Vec<u8>,
    blocks: Vec<Block>,
    files: Vec<File>,
    current: Option<Current>,
    /// Owner of the first entry.
    owner: Option<(u32, u32)>,
}

impl<W> std::fmt::Debug for SevenzWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SevenzWriter").field("packed_len", &self.packed_len).finish_non_exhaustive()
    }
}

/// A solid block.
#[derive(Debug, Default)]
struct Block {
    plain_len: u64,
    packed_len: u64,
    /// Lengths and sums of the files in it.
    files: Vec<(u64, u32)>,
}

#[derive(Debug)]
struct File {
    name: Vec<u16>,
    ticks: u64,
    attributes: u32,
    has_stream: bool,
}

struct Current {
    len: u64,
    left: u64,
    sum: Crc32,
}

/// A piece to be compressed, and the number of its block. The last one of a block ends it.
struct Job {
    block: usize,
    plain: Vec<u8>,
    is_last: bool,
}

fn pack(job: Job, level: Option<u32>) -> io::Result<(usize, Vec<u8>)> {
    let Some(level) = level else { return Ok((job.block, job.plain)) };
    let mut packed = lzma2_block_encode(&job.plain, level, 1 << DICTIONARY_LOG2)?;
    // Each stream ends with a zero.
    if !job.is_last && packed.pop() != Some(0) {
        return Err(io::Error::other("LZMA2 without its end"));
    }
    Ok((job.block, packed))
}

impl<W: Write + Seek> SevenzWriter<W> {
    /// Writes an archive to `out`, which is empty; `level` is that of LZMA2, from 0 to 9, or `None`
    /// for no compression.
    ///
    /// # Errors
    /// The output fails.
    pub fn new(mut out: W, level: Option<u32>, threads: usize) -> io::Result<Self> {
        out.write_all(&[0; START_LEN as usize])?;
        Ok(Self {
            out,
            packed_len: 0,
            level,
            pool: Ordered::new(threads, move |job| pack(job, level)),
            piece: Vec::new(),
            blocks: Vec::new(),
            files: Vec::new(),
            current: None,
            owner: None,
        })
    }

    /// Gives the piece at hand to the threads.
    fn give(&mut self, is_last: bool) -> io::Result<()> {
        while self.pool.is_full() {
            self.take(true)?;
        }
        let Some(block) = self.blocks.len().checked_sub(1) else { return Ok(()) };
        let plain = std::mem::take(&mut self.piece);
        self.pool.give(Job { block, plain, is_last })?;
        while self.take(false)? {}
        Ok(())
    }

    /// Writes the oldest piece that is compressed; false if there is none.
    fn take(&mut self, waits: bool) -> io::Result<bool> {
        let Some(done) = self.pool.take(waits)? else { return Ok(false) };
        let (block, packed) = done?;
        self.out.write_all(&packed)?;
        self.packed_len += packed.len() as u64;
        self.blocks[block].packed_len += packed.len() as u64;
        Ok(true)
    }

    /// Adds bytes to the solid block.
    fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.piece.len() >= PIECE_LEN {
                self.give(false)?;
            }
            let (now, rest) = bytes.split_at(bytes.len().min(PIECE_LEN - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = rest;
        }
        Ok(())
    }

    fn begin(&mut self, len: u64) {
        if self.blocks.last().is_none_or(|block| block.plain_len >= BLOCK_LEN) {
            self.blocks.push(Block::default());
        }
        self.current = Some(Current { len, left: len, sum: Crc32::new() });
    }

    fn data_of_current(&mut self, bytes: &[u8]) -> io::Result<()> {
        let current = self.current.as_mut();
        let left = current.and_then(|current| {
            current.sum.update(bytes);
            current.left = current.left.checked_sub(bytes.len() as u64)?;
            Some(())
        });
        left.ok_or_else(|| io::Error::other("more data than the entry has"))?;
        self.push(bytes)
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(Current { len, left, sum }) = self.current.take() else { return Ok(()) };
        if left > 0 {
            return Err(io::Error::other("less data than the entry has"));
        }
        let Some(block) = self.blocks.last_mut() else { return Ok(()) };
        block.files.push((len, sum.sum()));
        block.plain_len = block.plain_len.saturating_add(len);
        if block.plain_len >= BLOCK_LEN { self.give(true) } else { Ok(()) }
    }

    fn header(&self) -> Vec<u8> {
        let mut out = vec![HEADER];
        if !self.blocks.is_empty() {
            out.push(MAIN_STREAMS);
            let packed: Vec<u64> = self.blocks.iter().map(|block| block.packed_len).collect();
            let plain: Vec<u64> = self.blocks.iter().map(|block| block.plain_len).collect();
            streams(&mut out, 0, &packed, &plain, self.level.is_some(), None);
            out.push(SUBSTREAMS);
            out.push(STREAM_COUNT);
            for block in &self.blocks {
                number(&mut out, block.files.len() as u64);
            }
            out.push(SIZE);
            for block in &self.blocks {
                // The last length follows from the others.
                let lens = block.files.iter().map(|(len, _)| *len);
                lens.take(block.files.len() - 1).for_each(|len| number(&mut out, len));
            }
            out.extend_from_slice(&[CRC, 1]);
            let sums = self.blocks.iter().flat_map(|block| &block.files);
            sums.for_each(|(_, sum)| out.extend_from_slice(&sum.to_le_bytes()));
            out.extend_from_slice(&[END, END]);
        }
        out.push(FILES);
        number(&mut out, self.files.len() as u64);
        let mut property = |id: u8, bytes: &[u8]| {
            out.push(id);
            number(&mut out, bytes.len() as u64);
            out.extend_from_slice(bytes);
        };
        if self.files.iter().any(|file| !file.has_stream) {
            property(EMPTY_STREAM, &bits(self.files.iter().map(|file| !file.has_stream)));
            let empty = self.files.iter().filter(|file| !file.has_stream);
            let is_file = |file: &File| file.attributes & ATTRIBUTE_DIRECTORY == 0;
            property(EMPTY_FILE, &bits(empty.map(is_file)));
        }
        let names = self.files.iter().flat_map(|file| file.name.iter().chain([&0]));
        let names = names.flat_map(|unit| unit.to_le_bytes());
        // Not in another stream.
        property(NAMES, &[0].into_iter().chain(names).collect::<Vec<u8>>());
        let times = self.files.iter().flat_map(|file| file.ticks.to_le_bytes());
        // All have one, and not in another stream.
        property(MODIFIED, &[1, 0].into_iter().chain(times).collect::<Vec<u8>>());
        let attributes = self.files.iter().flat_map(|file| file.attributes.to_le_bytes());
        property(ATTRIBUTES, &[1, 0].into_iter().chain(attributes).collect::<Vec<u8>>());
        out.extend_from_slice(&[END, END]);
        out
    }

    fn finish_archive(&mut self) -> io::Result<()> {
        if self.blocks.last().is_some_and(|block| block.plain_len < BLOCK_LEN) {
            self.give(true)?;
        }
        while self.take(true)? {}
        let mut header = if self.files.is_empty() { Vec::new() } else { self.header() };
        let mut header_at = self.packed_len;
        if !header.is_empty() && self.level.is_some() {
            let packed = lzma2_block_encode(&header, 6, 1 << DICTIONARY_LOG2)?;
            let mut encoded = vec![ENCODED_HEADER];
            let lens = ([packed.len() as u64], [header.len() as u64]);
            streams(&mut encoded, header_at, &lens.0, &lens.1, true, Some(sum_of(&header)));
            encoded.push(END);
            self.out.write_all(&packed)?;
            header_at += packed.len() as u64;
            header = encoded;
        }
        self.out.write_all(&header)?;
        let mut place = header_at.to_le_bytes().to_vec();
        place.extend_from_slice(&(header.len() as u64).to_le_bytes());
        place.extend_from_slice(&sum_of(&header).to_le_bytes());
        if header.is_empty() {
            place = vec![0; place.len()];
        }
        let mut start = MAGIC.to_vec();
        start.extend_from_slice(&[0, 4]);
        start.extend_from_slice(&sum_of(&place).to_le_bytes());
        start.extend_from_slice(&place);
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&start)?;
        self.out.flush()
    }
}

fn sum_of(bytes: &[u8]) -> u32 {
    let mut sum = Crc32::new();
    sum.update(bytes);
    sum.sum()
}

/// A number: the first byte has a bit for each further byte, and the highest bits of the number.
fn number(out: &mut Vec<u8>, value: u64) {
    let more = (0..8).find(|more| value < 1 << (7 * (more + 1))).unwrap_or(8);
    let marks = !(0xff_u16 >> more) as u8;
    let high = if more < 8 { (value >> (8 * more)) as u8 } else { 0 };
    out.push(marks | high);
    out.extend_from_slice(&value.to_le_bytes()[..more as usize]);
}

/// Bits, the highest of a byte first.
fn bits(flags: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, flag) in flags.enumerate() {
        if number % 8 == 0 {
            out.push(0);
        }
        if let Some(last) = out.last_mut().filter(|_| flag) {
            *last |= 0x80 >> (number % 8);
        }
    }
    out
}

/// Blocks that are stored one after the other from `at` on, with the sum of the only one.
fn streams(
    out: &mut Vec<u8>,
    at: u64,
    packed: &[u64],
    plain: &[u64],
    is_compressed: bool,
    sum: Option<u32>,
) {
    out.push(PACK_INFO);
    number(out, at);
    number(out, packed.len() as u64);
    out.push(SIZE);
    packed.iter().for_each(|len| number(out, *len));
    out.push(END);
    out.extend_from_slice(&[UNPACK_INFO, FOLDER]);
    number(out, plain.len() as u64);
    // Not in another stream.
    out.push(0);
    for _ in plain {
        // One coder: bytes of its ID and whether there are settings, the ID, the settings.
        match is_compressed {
            true => out.extend_from_slice(&[1, 0x21, ID_LZMA2, 1, 2 * (DICTIONARY_LOG2 - 12)]),
            false => out.extend_from_slice(&[1, 0x01, 0]),
        }
    }
    out.push(UNPACK_SIZE);
    plain.iter().for_each(|len| number(out, *len));
    if let Some(sum) = sum {
        out.extend_from_slice(&[CRC, 1]);
        out.extend_from_slice(&sum.to_le_bytes());
    }
    out.push(END);
}

impl<W: Write + Seek> Archive for SevenzWriter<W> {
    fn keeps(&self) -> Keeps {
        Keeps { holes: false, hard_links: false, shared_contents: false }
    }

    fn entry(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<Taken> {
        let metadata = entry.metadata;
        let mut taken = Taken::whole();
        let owner = (metadata.uid, metadata.gid);
        if *self.owner.get_or_insert(owner) != owner {
            taken.lost.push(format!("without its owner {}:{}", owner.0, owner.1));
        }
        if entry.path.is_empty() {
            return Ok(taken);
        }
        let is_special =
            !matches!(metadata.kind, InodeKind::File | InodeKind::Directory | InodeKind::Symlink);
        if is_special {
            return Ok(Taken::not("left out: 7z has no devices, pipes and sockets"));
        }
        let Ok(path) = std::str::from_utf8(entry.path) else {
            return Ok(Taken::not("left out: its path is not UTF-8, which 7z has"));
        };
        taken.lose_xattrs(entry.xattrs, |_| false);
        if let Some(first) = entry.hard_link {
            taken.lost.push(format!("a copy, no hard link to {}", first.escape_ascii()));
        }
        let ticks = match to_windows(metadata.mtime) {
            Some(ticks) if ticks <= TICKS_MAX => {
                taken.is_rounded = !metadata.mtime.nsec.is_multiple_of(100);
                ticks
            }
            _ => {
                let nearest = if metadata.mtime.sec < 0 { 0 } else { TICKS_MAX };
                taken.lost.push(format!(
                    "its time {} became {}",
                    metadata.mtime.sec,
                    crate::zip::from_windows(nearest).sec
                ));
                nearest
            }
        };
        let mode = metadata.kind.mode_bits() | metadata.permissions;
        let mut attributes = ATTRIBUTE_UNIX | mode << 16;
        if metadata.kind == InodeKind::Directory {
            attributes |= ATTRIBUTE_DIRECTORY;
        }
        if metadata.permissions & 0o222 == 0 {
            attributes |= ATTRIBUTE_READ_ONLY;
        }
        let len = match metadata.kind {
            InodeKind::File => metadata.len,
            InodeKind::Symlink => entry.target.len() as u64,
            _ => 0,
        };
        let name = path.encode_utf16().collect();
        self.files.push(File { name, ticks, attributes, has_stream: len > 0 });
        if len > 0 {
            self.begin(len);
            if metadata.kind == InodeKind::Symlink {
                self.data_of_current(entry.target)?;
                self.end()?;
            }
        }
        Ok(taken)
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.data_of_current(bytes)
    }

    fn end_entry(&mut self) -> io::Result<()> {
        self.end()
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.finish_archive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_possible() {
        let of = |value| {
            let mut out = Vec::new();
            number(&mut out, value);
            out
        };
        assert_eq!(of(0), [0]);
        assert_eq!(of(127), [127]);
        assert_eq!(of(128), [0x80, 128]);
        assert_eq!(of(0x3fff), [0xbf, 0xff]);
        assert_eq!(of(0x4000), [0xc0, 0, 0x40]);
        assert_eq!(of((1 << 56) - 1), [0xfe, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(of(1 << 56), [0xff, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(of(u64::MAX), [255; 9]);
        assert_eq!(bits([true, false, true].into_iter().chain([true; 8])), [0xbf, 0xe0]);
    }
}
