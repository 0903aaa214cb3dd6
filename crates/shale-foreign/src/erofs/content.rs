//! The bytes of a file or of a directory.

use std::ops::Range;
use std::sync::Arc;

use super::compressed::{Index, Piece, Stored};
use super::inode::{Inode, Layout};
use super::lz4;
use super::superblock::{Superblock, ZERO_PADDING};
use crate::tree::{ImageFile, le};

/// Bytes of a file that are not compressed, read at once.
const STEP_LEN: u64 = 256 << 10;
/// No block: a hole.
const NO_BLOCK: u64 = 0xffff_ffff;
/// Chunks of one file.
const CHUNK_COUNT_MAX: u64 = 1 << 28;
/// Chunks have an index of 8 bytes instead of a number of 4.
const CHUNK_INDEXES: u64 = 0x20;

/// An image, and what its inodes share.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) file: ImageFile,
    pub(super) superblock: Superblock,
    pub(super) prefixes: Vec<Vec<u8>>,
}

/// The bytes of one inode, read from front to back.
#[derive(Debug)]
pub(super) struct Reader {
    image: Arc<Image>,
    inode: Inode,
    /// How far it was read.
    at: u64,
    chunks: Chunks,
    index: Option<Index>,
    /// The cluster in which the next piece begins.
    cluster: u64,
    /// The packed inode, and where the tail is in it.
    tail: Option<(Box<Reader>, u64)>,
}

/// The chunks of a file.
#[derive(Debug, Default)]
struct Chunks {
    log2: u32,
    /// First blocks.
    blocks: Vec<u64>,
}

impl Reader {
    /// Begins to read an inode.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(super) fn new(image: &Arc<Image>, inode: Inode) -> Result<Self, String> {
        Self::with_tail(image, inode, true)
    }

    fn with_tail(image: &Arc<Image>, inode: Inode, may_have_tail: bool) -> Result<Self, String> {
        let mut reader = Self {
            image: Arc::clone(image),
            inode,
            at: 0,
            chunks: Chunks::default(),
            index: None,
            cluster: 0,
            tail: None,
        };
        match inode.layout {
            Layout::Flat(_) => {}
            Layout::Chunks => reader.chunks = chunks(image, &inode)?,
            Layout::Compressed(_) => {
                let index = Index::read(&image.file, &image.superblock, &inode)?;
                if let Some(offset) = index.fragment {
                    if !may_have_tail || !image.superblock.has_fragments() {
                        return Err("its tail is in an inode that is not there: corrupt".to_owned());
                    }
                    let number = image.superblock.packed;
                    let packed = Inode::read(&image.file, &image.superblock, number)?;
                    let packed = Self::with_tail(image, packed, false)?;
                    reader.tail = Some((Box::new(packed), offset));
                }
                reader.index = Some(index);
            }
        }
        Ok(reader)
    }

    /// Ranges that are not stored.
    pub(super) fn holes(&self) -> Vec<Range<u64>> {
        let mut holes: Vec<Range<u64>> = Vec::new();
        let blocks = self.chunks.blocks.iter().enumerate();
        for (number, _) in blocks.filter(|(_, block)| **block == NO_BLOCK) {
            let start = (number as u64) << self.chunks.log2;
            let end = (start + (1 << self.chunks.log2)).min(self.inode.len);
            match holes.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => holes.push(start..end),
            }
        }
        holes
    }

    /// The next bytes that are stored; `None` at the end.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        if self.at >= self.inode.len {
            return Ok(None);
        }
        let bytes = match self.inode.layout {
            Layout::Flat(has_tail) => self.flat(has_tail)?,
            Layout::Chunks => match self.chunk()? {
                Some(bytes) => bytes,
                None => return Ok(None),
            },
            Layout::Compressed(_) => self.piece()?,
        };
        self.at += bytes.len() as u64;
        Ok(Some(bytes))
    }

    fn flat(&self, has_tail: bool) -> Result<Vec<u8>, String> {
        let block_len = self.image.superblock.block_len();
        let whole = match has_tail {
            true => self.inode.len / block_len * block_len,
            false => self.inode.len,
        };
        if self.at >= whole {
            let end = self.inode.end();
            if (self.inode.len - whole) > block_len - end % block_len {
                return Err("its tail crosses a block: corrupt".to_owned());
            }
            return self.image.file.read(end, self.inode.len - whole);
        }
        let start = self.inode.union << self.image.superblock.block_log2;
        self.image.file.read(start + self.at, (whole - self.at).min(STEP_LEN))
    }

    fn chunk(&mut self) -> Result<Option<Vec<u8>>, String> {
        let log2 = self.chunks.log2;
        loop {
            if self.at >= self.inode.len {
                return Ok(None);
            }
            let number = self.at >> log2;
            let block = *self.chunks.blocks.get(number as usize).ok_or("a chunk is missing")?;
            let end = ((number + 1) << log2).min(self.inode.len);
            if block == NO_BLOCK {
                self.at = end;
                continue;
            }
            let start = block << self.image.superblock.block_log2;
            let inner = self.at - (number << log2);
            let len = (end - self.at).min(STEP_LEN);
            return self.image.file.read(start + inner, len).map(Some);
        }
    }

    fn piece(&mut self) -> Result<Vec<u8>, String> {
        let index = self.index.as_ref().ok_or("it has no index")?;
        let found = index.piece(self.cluster)?;
        // A fragment is the last piece, and has no bytes of its own.
        let is_tail = match &found {
            None => true,
            Some((_, next)) => self.tail.is_some() && index.piece(*next)?.is_none(),
        };
        if is_tail && let Some((packed, offset)) = &mut self.tail {
            let start = found.map_or(self.at, |(piece, _)| piece.start);
            if start == self.at {
                let len = self.inode.len - start;
                return packed.range(*offset, len.min(STEP_LEN)).inspect(|bytes| {
                    *offset += bytes.len() as u64;
                });
            }
        }
        let (piece, next) = found.ok_or("it has fewer pieces than bytes: corrupt")?;
        if piece.start != self.at || piece.end == piece.start {
            return Err("its pieces do not follow each other: corrupt".to_owned());
        }
        self.cluster = next;
        self.image.plain(&piece)
    }

    /// Some bytes from `start` on, at most `len`, of an inode that others have a part of.
    fn range(&mut self, start: u64, len: u64) -> Result<Vec<u8>, String> {
        let corrupt = || "a fragment lies beyond the fragments: corrupt".to_owned();
        if start >= self.inode.len {
            return Err(corrupt());
        }
        let (bytes, begin) = match &self.index {
            Some(index) => {
                let found = index.piece(index.cluster_of(start)?)?;
                let (piece, _) = found.ok_or_else(corrupt)?;
                (self.image.plain(&piece)?, piece.start)
            }
            None => {
                self.at = start;
                (self.next()?.ok_or_else(corrupt)?, start)
            }
        };
        let from = start.checked_sub(begin).ok_or_else(corrupt)? as usize;
        let rest = bytes.get(from..).filter(|rest| !rest.is_empty()).ok_or_else(corrupt)?;
        Ok(rest[..rest.len().min(len as usize)].to_vec())
    }
}

impl Image {
    fn plain(&self, piece: &Piece) -> Result<Vec<u8>, String> {
        let len = (piece.end - piece.start) as usize;
        let block_len = self.superblock.block_len();
        let bytes = self.file.read(piece.at, piece.stored_len)?;
        match piece.stored {
            Stored::Plain => bytes.get(..len).map(<[u8]>::to_vec),
            Stored::Interlaced => {
                let offset = (piece.start % block_len) as usize;
                let from = bytes.get(offset..).unwrap_or_default();
                let first = &from[..from.len().min(len)];
                let rest = bytes.get(..len - first.len());
                rest.map(|rest| [first, rest].concat())
            }
            Stored::Lz4 => return self.lz4(&bytes, len),
        }
        .ok_or_else(|| "a piece is longer than what is stored of it: corrupt".to_owned())
    }

    fn lz4(&self, bytes: &[u8], len: usize) -> Result<Vec<u8>, String> {
        // The first versions of mkfs.erofs padded blocks after their data, later ones before it.
        let start = match self.superblock.incompatible & ZERO_PADDING {
            0 => 0,
            _ => bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len()),
        };
        lz4::plain(&bytes[start..], len)
    }
}

fn chunks(image: &Image, inode: &Inode) -> Result<Chunks, String> {
    let log2 = image.superblock.block_log2 + (inode.union & 31) as u32;
    if inode.union & !63 != 0 || log2 > 40 {
        return Err(format!("chunks of the form {:#x}", inode.union));
    }
    let count = inode.len.div_ceil(1 << log2);
    if count > CHUNK_COUNT_MAX {
        return Err(format!("a file of {count} chunks"));
    }
    let has_indexes = inode.union & CHUNK_INDEXES != 0;
    let (start, len) = match has_indexes {
        true => (inode.end().next_multiple_of(8), 8),
        false => (inode.end().next_multiple_of(4), 4),
    };
    let bytes = image.file.read(start, count * len)?;
    let mut blocks = Vec::with_capacity(count as usize);
    for entry in bytes.chunks_exact(len as usize) {
        let block = if has_indexes { le(&entry[4..]) } else { le(entry) };
        if has_indexes && le(&entry[2..4]) != 0 && block != NO_BLOCK {
            return Err("a part of it is in another file".to_owned());
        }
        blocks.push(block);
    }
    Ok(Chunks { log2, blocks })
}
