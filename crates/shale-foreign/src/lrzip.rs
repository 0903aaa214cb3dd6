//! lrzip, version 0.6: data without their repeats, however far apart, compressed by others.
//!
//! A file is a row of chunks. A chunk has two streams: one of instructions, which copy bytes of the
//! other stream or bytes that the chunk gave before, and that other stream. A stream is a chain of
//! blocks, each compressed by one of several methods. The sum of each chunk and the MD5 digest of
//! all bytes are compared.
//!
//! Instructions reach back to the beginning of their chunk. A chunk up to [`CHUNK_HELD_MAX`] is
//! held in memory, and of a longer one the last bytes; what precedes them is read back from a
//! temporary file. Blocks are decompressed as they are read, except those of LZO.
//!
//! ZPAQ, encrypted files and other versions of the format are refused by name.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use md5::{Digest, Md5};
use shale_codec::stream::{Crc32, StreamFormat, deflate_reader, lzo_block};

use crate::decompress::in_words;
use crate::error::ForeignError;
use crate::tree::{FileRange, ImageFile, le};

/// First bytes of a file.
pub(crate) const MAGIC: &[u8] = b"LRZI";

const FORMAT: &str = "lrzip file";
/// A chunk that is held in memory as a whole.
const CHUNK_HELD_MAX: u64 = 32 << 20;
/// Of a longer one: bytes that are held, and how many of them go to the file at once.
const HELD_LEN_MAX: usize = 8 << 20;
const SPOOLED_LEN: usize = 4 << 20;
/// A block of LZO is decompressed in memory.
const LZO_LEN_MAX: u64 = 1 << 30;

const HEAD_LEN: u64 = 24;
const MD5_LEN: u64 = 16;

/// Methods of blocks.
const PLAIN: u8 = 3;
const BZIP2: u8 = 4;
const LZO: u8 = 5;
const LZMA: u8 = 6;
const GZIP: u8 = 7;
const ZPAQ: u8 = 8;

/// Instructions.
const LITERAL: u8 = 0;
const MATCH: u8 = 1;

/// Makes a temporary file without a name.
pub type Spool = Arc<dyn Fn() -> io::Result<File> + Send + Sync>;

/// Decompresses a file as it is read.
pub(crate) struct Lrzip {
    file: Arc<ImageFile>,
    head: Option<Head>,
    /// Where the next chunk or the digest begins.
    at: u64,
    chunk: Option<Chunk>,
    history: History,
    /// Bytes of this chunk that were given, and of all before it.
    given: u64,
    given_before: u64,
    digest: Md5,
    is_last: bool,
    is_done: bool,
}

/// What the head of a file says.
struct Head {
    /// Bytes that come out; 0 if the writer did not know.
    len: u64,
    lzma_properties: [u8; 5],
    has_digest: bool,
}

struct Chunk {
    instructions: Stream,
    literals: Stream,
    len: u64,
    sum: Crc32,
    /// Where what was read of it ends.
    end: u64,
}

fn fault(at: u64, what: impl Into<String>) -> io::Error {
    ForeignError::new(FORMAT, what).at(at).into()
}

fn corrupt(at: u64) -> io::Error {
    fault(at, "corrupt")
}

/// The temporary file cannot be used.
fn unspooled(action: &str, error: &io::Error) -> io::Error {
    let what = format!("cannot {action} a temporary file for lrzip data: {error}");
    io::Error::new(error.kind(), ForeignError::new(FORMAT, what))
}

impl Lrzip {
    pub(crate) fn new(file: ImageFile, spool: Option<Spool>) -> Self {
        Self {
            file: Arc::new(file),
            head: None,
            at: HEAD_LEN,
            chunk: None,
            history: History { spool, file: None, held: Vec::new(), start: 0 },
            given: 0,
            given_before: 0,
            digest: Md5::new(),
            is_last: false,
            is_done: false,
        }
    }

    fn array<const N: usize>(&self, at: u64) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_at(at, &mut bytes)?;
        Ok(bytes)
    }

    fn read_head(&mut self) -> io::Result<()> {
        let head = self.array::<{ HEAD_LEN as usize }>(0)?;
        let version = (head[4], head[5]);
        if &head[..4] != MAGIC || version != (0, 6) {
            let (major, minor) = version;
            return Err(fault(
                4,
                format!(
                    "it is of version {major}.{minor} of the format, and only 0.6 is supported; \
                     decompress it with lrunzip"
                ),
            ));
        }
        if head[22] != 0 {
            let what = "it is encrypted, which is not supported; decompress it with lrunzip";
            return Err(fault(22, what));
        }
        let mut lzma_properties = [0; 5];
        lzma_properties.copy_from_slice(&head[16..21]);
        self.head =
            Some(Head { len: le(&head[6..14]), lzma_properties, has_digest: head[21] != 0 });
        Ok(())
    }

    fn begin_chunk(&mut self) -> io::Result<()> {
        let [width, is_last] = self.array(self.at)?;
        if !(1..=8).contains(&width) || is_last > 1 {
            return Err(corrupt(self.at));
        }
        let width = u64::from(width);
        let mut len = [0; 8];
        self.file.read_at(self.at + 2, &mut len[..width as usize])?;
        let base = self.at + 2 + width;
        let header_len = 1 + 3 * width;
        let stream = |number: u64| Stream {
            base,
            width,
            next: Some(base + number * header_len),
            block: None,
            left: 0,
        };
        let (instructions, literals) = (stream(0), stream(1));
        let end = base + 2 * header_len;
        let len = u64::from_le_bytes(len);
        // The sum of lrzip begins with 0. These bytes bring that of others there.
        let mut sum = Crc32::new();
        sum.update(&[0xff; 4]);
        self.chunk = Some(Chunk { instructions, literals, len, sum, end });
        self.is_last = is_last == 1;
        self.given_before += self.given;
        self.given = 0;
        self.history.begin(len)
    }

    /// Carries out the next instruction.
    fn step(&mut self) -> io::Result<()> {
        if self.head.is_none() {
            self.read_head()?;
        }
        if self.chunk.is_none() {
            match self.is_last {
                true => return self.finish(),
                false => self.begin_chunk()?,
            }
        }
        let (Some(head), Some(chunk)) = (&self.head, &mut self.chunk) else { return Ok(()) };
        let from = (&self.file, head.lzma_properties);
        let Chunk { instructions, literals, end, .. } = chunk;
        let mut instruction = [0; 3];
        instructions.fill(from, &mut instruction, end)?;
        let len = usize::from(u16::from_le_bytes([instruction[1], instruction[2]]));
        match instruction[0] {
            LITERAL if len == 0 => return self.end_chunk(),
            LITERAL => {
                let start = self.history.grow(len)?;
                literals.fill(from, &mut self.history.held[start..], end)?;
            }
            MATCH => {
                let mut back = [0; 8];
                instructions.fill(from, &mut back[..instructions.width as usize], end)?;
                let back = u64::from_le_bytes(back);
                if back == 0 || back > self.history.len() {
                    return Err(fault(self.at, "corrupt: it repeats what is not there"));
                }
                self.history.repeat(back, len)?;
            }
            _ => return Err(corrupt(self.at)),
        }
        let new = &self.history.held[self.history.held.len() - len..];
        chunk.sum.update(new);
        self.digest.update(new);
        if self.history.len() > chunk.len {
            return Err(fault(self.at, "corrupt: a chunk is longer than its length"));
        }
        Ok(())
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        let (Some(head), Some(mut chunk)) = (&self.head, self.chunk.take()) else { return Ok(()) };
        let from = (&self.file, head.lzma_properties);
        let mut sum = [0; 4];
        chunk.instructions.fill(from, &mut sum, &mut chunk.end)?;
        let is_right = !chunk.sum.sum() == u32::from_le_bytes(sum);
        if !is_right || self.history.len() != chunk.len {
            return Err(fault(self.at, "corrupt: a chunk does not have its checksum or length"));
        }
        for stream in [&mut chunk.instructions, &mut chunk.literals] {
            if stream.left > 0 || stream.open_next(from, &mut chunk.end)? {
                return Err(fault(self.at, "corrupt: a chunk has data that it does not use"));
            }
        }
        self.at = chunk.end;
        Ok(())
    }

    /// Compares what is known of all chunks.
    fn finish(&mut self) -> io::Result<()> {
        let Some(head) = &self.head else { return Ok(()) };
        let len = self.given_before + self.given;
        if head.len != 0 && head.len != len {
            let what = format!("corrupt: it gives {len} bytes, not {} as its head says", head.len);
            return Err(fault(6, what));
        }
        let mut end = self.at;
        if head.has_digest {
            let digest = self.array::<{ MD5_LEN as usize }>(self.at)?;
            if digest != *std::mem::take(&mut self.digest).finalize() {
                return Err(fault(self.at, "corrupt: its bytes do not have its MD5 digest"));
            }
            end += MD5_LEN;
        }
        if end != self.file.len() {
            return Err(fault(end, "there is something else after its end"));
        }
        self.is_done = true;
        Ok(())
    }
}

impl Read for Lrzip {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let waiting = self.history.after(self.given);
            if !waiting.is_empty() || self.is_done || out.is_empty() {
                let len = out.len().min(waiting.len());
                out[..len].copy_from_slice(&waiting[..len]);
                self.given += len as u64;
                return Ok(len);
            }
            self.step()?;
        }
    }
}

/// What a chunk gave so far.
struct History {
    spool: Option<Spool>,
    /// What is not held any more, of a long chunk.
    file: Option<File>,
    /// The last bytes, and how many precede them.
    held: Vec<u8>,
    start: u64,
}

impl History {
    /// Begins a chunk of `len` bytes.
    fn begin(&mut self, len: u64) -> io::Result<()> {
        self.held.clear();
        self.start = 0;
        if len > CHUNK_HELD_MAX && self.file.is_none() {
            let spool = self.spool.as_ref().ok_or_else(|| {
                io::Error::other(format!("{} MiB of it need a temporary file", len >> 20))
            })?;
            self.file = Some(spool().map_err(|error| unspooled("create", &error))?);
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.start + self.held.len() as u64
    }

    /// The bytes from `at` on, of which none was moved to the file.
    fn after(&self, at: u64) -> &[u8] {
        let at = at.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.held.get(at..)).unwrap_or_default()
    }

    /// Makes room for `len` further bytes, and returns where it begins in those held.
    fn grow(&mut self, len: usize) -> io::Result<usize> {
        if let Some(file) = &self.file
            && self.held.len() >= HELD_LEN_MAX
        {
            // All of it was given before the next instruction came.
            let written = file.write_all_at(&self.held[..SPOOLED_LEN], self.start);
            written.map_err(|error| unspooled("write to", &error))?;
            self.held.drain(..SPOOLED_LEN);
            self.start += SPOOLED_LEN as u64;
        }
        let start = self.held.len();
        self.held.resize(start + len, 0);
        Ok(start)
    }

    /// Repeats `len` bytes from `back` bytes before the end on; they may reach into themselves.
    fn repeat(&mut self, back: u64, len: usize) -> io::Result<()> {
        let from = self.len() - back;
        let start = self.grow(len)?;
        let mut done = 0;
        if let Some(file) = &self.file
            && from < self.start
        {
            done = len.min(usize::try_from(self.start - from).unwrap_or(usize::MAX));
            file.read_exact_at(&mut self.held[start..start + done], from)?;
        }
        // What is left begins in the bytes held.
        while done < len {
            let at = (from + done as u64 - self.start) as usize;
            let count = (len - done).min(start + done - at);
            self.held.copy_within(at..at + count, start + done);
            done += count;
        }
        Ok(())
    }
}

/// A chain of blocks.
struct Stream {
    /// What places of blocks count from, and the bytes of a number.
    base: u64,
    width: u64,
    /// Where the next block is.
    next: Option<u64>,
    block: Option<Box<dyn Read + Send>>,
    /// Plain bytes of the block that are to come.
    left: u64,
}

impl Stream {
    /// Fills `out` with the next bytes, and notes how far the file was read.
    fn fill(
        &mut self,
        from: (&Arc<ImageFile>, [u8; 5]),
        mut out: &mut [u8],
        end: &mut u64,
    ) -> io::Result<()> {
        while !out.is_empty() {
            if self.left == 0 && !self.open_next(from, end)? {
                return Err(fault(self.base, "corrupt: a stream ends too early"));
            }
            let Some(block) = &mut self.block else { continue };
            let len = self.left.min(out.len() as u64) as usize;
            match block.read(&mut out[..len]) {
                Ok(0) => return Err(fault(self.base, "corrupt: a block is too short")),
                Ok(read) => {
                    self.left -= read as u64;
                    out = &mut out[read..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Its end is known, so that it was not cut.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(corrupt(self.base));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Goes on to the next block that is not empty; false if there is none.
    fn open_next(&mut self, from: (&Arc<ImageFile>, [u8; 5]), end: &mut u64) -> io::Result<bool> {
        let (file, lzma_properties) = from;
        self.block = None;
        while let Some(at) = self.next {
            let mut header = [0; 25];
            let header_len = 1 + 3 * self.width;
            file.read_at(at, &mut header[..header_len as usize])?;
            let number = |n: u64| {
                let start = (1 + n * self.width) as usize;
                le(&header[start..start + self.width as usize])
            };
            let (stored_len, plain_len, next) = (number(0), number(1), number(2));
            let data = at + header_len;
            let data_end = data.checked_add(stored_len).ok_or_else(|| corrupt(at))?;
            if header[0] == PLAIN && stored_len != plain_len {
                return Err(corrupt(at));
            }
            if data_end > file.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            *end = data_end.max(*end);
            self.next = match next {
                0 => None,
                _ => {
                    // Blocks follow each other, so a chain has an end.
                    let next = self.base.checked_add(next).filter(|&next| next >= data_end);
                    Some(next.ok_or_else(|| corrupt(at))?)
                }
            };
            if plain_len == 0 {
                continue;
            }
            let range = FileRange::new(file, data..data_end);
            self.block = Some(block(header[0], range, stored_len, plain_len, lzma_properties, at)?);
            self.left = plain_len;
            return Ok(true);
        }
        Ok(false)
    }
}

/// The plain bytes of a block.
fn block(
    method: u8,
    mut stored: FileRange,
    stored_len: u64,
    plain_len: u64,
    lzma_properties: [u8; 5],
    at: u64,
) -> io::Result<Box<dyn Read + Send>> {
    let (plain, name): (Box<dyn Read + Send>, _) = match method {
        PLAIN => return Ok(Box::new(stored)),
        BZIP2 => (StreamFormat::Bzip2.decoder(stored)?, "bzip2"),
        GZIP => {
            let mut head = [0; 2];
            stored.read_exact(&mut head)?;
            if head[0] & 15 != 8 || head[1] & 0x20 != 0 {
                return Err(corrupt(at));
            }
            (deflate_reader(BufReader::new(stored)), "zlib")
        }
        LZMA => {
            let head = [&lzma_properties[..], &plain_len.to_le_bytes()].concat();
            (StreamFormat::Lzma.decoder(io::Cursor::new(head).chain(stored))?, "LZMA")
        }
        LZO => {
            if plain_len > LZO_LEN_MAX || stored_len > LZO_LEN_MAX {
                return Err(fault(
                    at,
                    "a block of LZO has more than 1 GiB, which is not supported",
                ));
            }
            let mut bytes = Vec::new();
            stored.read_to_end(&mut bytes)?;
            let plain = lzo_block(&bytes, plain_len as usize).map_err(|_| corrupt(at))?;
            return Ok(Box::new(io::Cursor::new(plain)));
        }
        ZPAQ => {
            let what = "it is compressed with ZPAQ, which is not supported; decompress it with \
                        lrunzip";
            return Err(fault(at, what));
        }
        other => return Err(fault(at, format!("a block has the unknown method {other}"))),
    };
    Ok(Box::new(InBlock { plain, name, at }))
}

/// A block whose decompressor says what is wrong in words.
struct InBlock {
    plain: Box<dyn Read + Send>,
    name: &'static str,
    at: u64,
}

impl Read for InBlock {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.plain.read(out).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => corrupt(self.at),
            _ => in_words(self.name, error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// An instruction, and what it needs.
    enum Do<'a> {
        Say(&'a [u8]),
        Repeat { back: u64, len: u16 },
    }

    struct Made {
        bytes: Vec<u8>,
        plain: Vec<u8>,
    }

    /// Chunks of stored blocks, each with both streams in blocks of `block_len`.
    fn made(chunks: &[Vec<Do<'_>>], block_len: usize) -> Made {
        const WIDTH: usize = 4;
        let mut out = [MAGIC, &[0, 6], &[0; 15], &[1, 0, 0]].concat();
        let mut all = Vec::new();
        for (number, chunk) in chunks.iter().enumerate() {
            let (mut steps, mut literals, mut plain) = (Vec::new(), Vec::new(), Vec::new());
            for step in chunk {
                match step {
                    Do::Say(bytes) => {
                        steps.push(LITERAL);
                        steps.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
                        literals.extend_from_slice(bytes);
                        plain.extend_from_slice(bytes);
                    }
                    Do::Repeat { back, len } => {
                        steps.push(MATCH);
                        steps.extend_from_slice(&len.to_le_bytes());
                        steps.extend_from_slice(&back.to_le_bytes()[..WIDTH]);
                        for _ in 0..*len {
                            plain.push(plain[plain.len() - *back as usize]);
                        }
                    }
                }
            }
            let mut sum = Crc32::new();
            sum.update(&[0xff; 4]);
            sum.update(&plain);
            steps.extend_from_slice(&[LITERAL, 0, 0]);
            steps.extend_from_slice(&(!sum.sum()).to_le_bytes());
            out.extend_from_slice(&[WIDTH as u8, u8::from(number + 1 == chunks.len())]);
            out.extend_from_slice(&(plain.len() as u32).to_le_bytes());
            let base = out.len();
            let header = |len: usize| {
                let len = (len as u32).to_le_bytes();
                [&[PLAIN][..], &len, &len, &[0; 4]].concat()
            };
            // The place of the last header of each stream, which the next block is written into.
            let mut last = [base, base + 1 + 3 * WIDTH];
            out.extend_from_slice(&header(0));
            out.extend_from_slice(&header(0));
            let mut streams = [literals.chunks(block_len), steps.chunks(block_len)];
            loop {
                let pieces = [(1, streams[0].next()), (0, streams[1].next())];
                for (stream, piece) in pieces {
                    let Some(piece) = piece else { continue };
                    let next = ((out.len() - base) as u32).to_le_bytes();
                    let at = last[stream] + 1 + 2 * WIDTH;
                    out[at..at + WIDTH].copy_from_slice(&next);
                    last[stream] = out.len();
                    out.extend_from_slice(&header(piece.len()));
                    out.extend_from_slice(piece);
                }
                if pieces.iter().all(|(_, piece)| piece.is_none()) {
                    break;
                }
            }
            all.extend_from_slice(&plain);
        }
        out[6..14].copy_from_slice(&(all.len() as u64).to_le_bytes());
        out.extend_from_slice(&Md5::digest(&all));
        Made { bytes: out, plain: all }
    }

    fn unpacked_with(bytes: &[u8], spool: Option<Spool>) -> io::Result<Vec<u8>> {
        let mut file = tempfile::tempfile()?;
        file.write_all(bytes)?;
        let mut plain = Vec::new();
        Lrzip::new(ImageFile::new(file, 0)?, spool).read_to_end(&mut plain)?;
        Ok(plain)
    }

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        unpacked_with(bytes, None)
    }

    fn small() -> Made {
        let first = vec![
            Do::Say(b"abcdefgh"),
            Do::Repeat { back: 3, len: 100 },
            Do::Say(b"xyz"),
            Do::Repeat { back: 111, len: 50 },
        ];
        let second = vec![Do::Say(b"a second chunk"), Do::Repeat { back: 1, len: 9 }];
        made(&[first, second], 10)
    }

    #[test]
    fn chunks_of_blocks_come_back() {
        let small = small();
        assert_eq!(unpacked(&small.bytes).unwrap(), small.plain);
        let empty = made(&[vec![]], 10);
        assert_eq!(unpacked(&empty.bytes).unwrap(), b"");
    }

    #[test]
    fn damage_is_an_error_and_never_other_bytes() {
        let small = small();
        let mut harmless = Vec::new();
        for at in 0..small.bytes.len() {
            for bit in 0..8 {
                let mut bytes = small.bytes.clone();
                bytes[at] ^= 1 << bit;
                if let Ok(plain) = unpacked(&bytes) {
                    assert_eq!(plain, small.plain, "bit {bit} of byte {at}");
                    harmless.push(at);
                }
            }
        }
        // Properties of LZMA, the flag of the digest, and the methods of four empty blocks.
        harmless.dedup();
        assert!(harmless.len() <= 14, "{harmless:?}");
        for len in 0..small.bytes.len() {
            assert!(unpacked(&small.bytes[..len]).is_err(), "cut to {len}");
        }
        assert!(unpacked(&[&small.bytes[..], b"x"].concat()).is_err());
    }

    #[test]
    fn what_lies_far_back_is_read_from_a_temporary_file() {
        let noise: Vec<u8> = (0..60_000u32).map(|n| (n.wrapping_mul(n) >> 9) as u8).collect();
        let mut steps = vec![Do::Say(&noise)];
        for _ in 0..700 {
            steps.push(Do::Repeat { back: 60_000, len: 60_000 });
        }
        // All of these begin in the file; the last ends in what is held.
        steps.push(Do::Repeat { back: 701 * 60_000, len: 60_000 });
        steps.push(Do::Repeat { back: 20_000_001, len: 65_535 });
        steps.push(Do::Repeat { back: HELD_LEN_MAX as u64 + 12_345, len: 65_535 });
        for back in (SPOOLED_LEN as u64..HELD_LEN_MAX as u64 + 65_535).step_by(40_009) {
            steps.push(Do::Repeat { back, len: 65_535 });
        }
        let long = made(&[steps, vec![Do::Say(b"short")]], 40_000);
        let files = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&files);
        let spool: Spool = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            tempfile::tempfile()
        });
        assert!(unpacked_with(&long.bytes, Some(spool)).unwrap() == long.plain);
        assert_eq!(files.load(Ordering::Relaxed), 1);
        assert!(unpacked(&long.bytes).unwrap_err().to_string().contains("temporary file"));
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let change = |at: usize, byte: u8| {
            let mut bytes = small().bytes;
            bytes[at] = byte;
            unpacked(&bytes).unwrap_err().to_string()
        };
        assert!(change(5, 13).contains("version 0.13"));
        assert!(change(22, 1).contains("encrypted"));
        // The method of the first block that has data, after both headers.
        assert!(change(24 + 6 + 26, ZPAQ).contains("ZPAQ"));
        assert!(change(24 + 6 + 26, 99).contains("method 99"));
    }
}
