//! Where the pieces of a compressed file are.
//!
//! A file is cut into clusters of 4 KiB or more, each with an entry of an index. An entry says that
//! a piece begins in its cluster and in which block the stored bytes are, or that the cluster
//! belongs to a piece before. Indexes have 8 bytes for an entry, or are packed: 2 or 16 entries
//! share the number of a block. The layout is that of the kernel's `erofs_fs.h`.

use super::inode::{Inode, Layout};
use super::superblock::Superblock;
use crate::tree::{ImageFile, le};

const HEADER_LEN: u64 = 8;
/// Bits of the header: packed entries of 2 bytes; clusters of several blocks for both compressors;
/// the last piece beside the inode; stored pieces begin where their plain bytes do; the tail is a
/// fragment.
const PACKED_BY_16: u64 = 1;
const BIG_1: u64 = 2;
const BIG_2: u64 = 4;
const INLINE: u64 = 8;
const INTERLACED: u64 = 16;
const FRAGMENT: u64 = 32;
/// The whole file is a fragment: then the header is the offset of it.
const ALL_FRAGMENT: u64 = 1 << 63;
/// The number of blocks of a piece, in place of a distance.
const BLOCK_COUNT_FLAG: u64 = 1 << 11;
/// Entries of 2 bytes, packed by 16.
const ENTRIES_OF_2: u64 = 16;
/// A piece that is longer is refused.
const PIECE_LEN_MAX: u64 = 16 << 20;

/// Names of compressors, by number.
const COMPRESSORS: [&str; 4] = ["LZ4", "LZMA", "deflate", "zstd"];

/// How a piece is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Lz4,
    /// As it is, from the beginning of its block.
    Plain,
    /// As it is, but turned round: it begins in its block where it begins in its cluster.
    Interlaced,
}

/// A piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Where it begins in the file, and where it ends.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where its stored bytes begin, and how many there may be.
    pub(super) at: u64,
    pub(super) stored_len: u64,
    pub(super) stored: Stored,
}

/// The index of a file, read entry by entry.
#[derive(Debug)]
pub(super) struct Index {
    /// Where the entries begin, and all of them.
    at: u64,
    bytes: Vec<u8>,
    advice: u64,
    cluster_log2: u32,
    block_log2: u32,
    compressors: [u64; 2],
    is_packed: bool,
    file_len: u64,
    cluster_count: u64,
    inline_len: u64,
    /// Where the tail is in the packed inode, and where it begins in the file.
    pub(super) fragment: Option<u64>,
}

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Entry {
    /// A piece begins: at this offset in the cluster, stored from this block on; `None` if plain,
    /// else by the first or second compressor.
    Head { offset: u64, block: u64, compressor: Option<usize> },
    /// The cluster belongs to a piece before; the number of its blocks, if this is the entry that
    /// says it.
    Inside(Option<u64>),
}

impl Index {
    /// Reads the header of the index of `inode`.
    ///
    /// # Errors
    /// Says what is wrong or not supported.
    pub(super) fn read(file: &ImageFile, sb: &Superblock, inode: &Inode) -> Result<Self, String> {
        let is_packed = inode.layout == Layout::Compressed(true);
        let at = inode.end().next_multiple_of(8);
        let header = file.read(at, HEADER_LEN)?;
        if le(&header) & ALL_FRAGMENT != 0 {
            return Ok(Self {
                at,
                bytes: Vec::new(),
                advice: FRAGMENT,
                cluster_log2: sb.block_log2,
                block_log2: sb.block_log2,
                compressors: [0; 2],
                is_packed,
                file_len: inode.len,
                cluster_count: 0,
                inline_len: 0,
                fragment: Some(le(&header) & !ALL_FRAGMENT),
            });
        }
        let advice = le(&header[4..6]);
        let cluster_log2 = sb.block_log2 + u32::from(header[7] & 15);
        if advice & !63 != 0 || cluster_log2 > 14 {
            return Err(format!("a compressed file with the features {advice:#x}"));
        }
        let fragment = (advice & FRAGMENT != 0).then(|| le(&header[..4]));
        let inline_len = if advice & INLINE != 0 { le(&header[2..4]) } else { 0 };
        let after = if is_packed { HEADER_LEN } else { 2 * HEADER_LEN };
        let mut index = Self {
            at: at + after,
            bytes: Vec::new(),
            advice,
            cluster_log2,
            block_log2: sb.block_log2,
            compressors: [u64::from(header[6] & 15), u64::from(header[6] >> 4)],
            is_packed,
            file_len: inode.len,
            cluster_count: inode.len.div_ceil(1 << cluster_log2),
            inline_len,
            fragment,
        };
        index.bytes = file.read(index.at, index.end() - index.at)?;
        Ok(index)
    }

    /// The cluster in which the piece with the byte `at` begins.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(super) fn cluster_of(&self, at: u64) -> Result<u64, String> {
        let mut cluster = (at >> self.cluster_log2).min(self.cluster_count.saturating_sub(1));
        for _ in 0..=PIECE_LEN_MAX >> self.cluster_log2 {
            if let Entry::Head { offset, .. } = self.entry(cluster)?
                && (cluster << self.cluster_log2) + offset <= at
            {
                return Ok(cluster);
            }
            cluster = cluster.checked_sub(1).ok_or("its index is corrupt")?;
        }
        Err("its index is corrupt".to_owned())
    }

    /// The piece that begins in the cluster `from` or the first one after it, and the cluster in
    /// which the next one begins; `None` after the last.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(super) fn piece(&self, from: u64) -> Result<Option<(Piece, u64)>, String> {
        if from >= self.cluster_count {
            return Ok(None);
        }
        let corrupt = || "its index is corrupt".to_owned();
        let Entry::Head { offset, block, compressor } = self.entry(from)? else {
            return Err(corrupt());
        };
        let start = (from << self.cluster_log2) + offset;
        // Without an entry that says otherwise, a piece has one block.
        let mut block_count = 1;
        let mut next = from + 1;
        let mut end = self.file_len;
        while next < self.cluster_count {
            match self.entry(next)? {
                Entry::Inside(count) => {
                    if let Some(count) = count.filter(|_| next == from + 1) {
                        block_count = count;
                    }
                }
                Entry::Head { offset, .. } => {
                    end = (next << self.cluster_log2) + offset;
                    break;
                }
            }
            next += 1;
            if (next - from) << self.cluster_log2 > PIECE_LEN_MAX {
                return Err(corrupt());
            }
        }
        let end = end.min(self.file_len);
        if start > end || end - start > PIECE_LEN_MAX {
            return Err(corrupt());
        }
        // An entry that only marks the end of the file may follow the last piece.
        let is_inline = end == self.file_len && self.inline_len > 0;
        let stored = match compressor {
            None if is_inline => Stored::Plain,
            None if self.advice & INTERLACED != 0 => Stored::Interlaced,
            None => Stored::Plain,
            Some(which) => match self.compressors[which] {
                0 => Stored::Lz4,
                other => {
                    let name = COMPRESSORS.get(other as usize).unwrap_or(&"an unknown compressor");
                    return Err(format!(
                        "it is compressed with {name}, which is not supported; mount the image or \
                         unpack it with fsck.erofs --extract, and pack the files"
                    ));
                }
            },
        };
        let (mut at, mut stored_len) = (block << self.block_log2, block_count << self.block_log2);
        if is_inline {
            at = self.end();
            stored_len = self.inline_len;
        }
        Ok(Some((Piece { start, end, at, stored_len, stored }, next)))
    }

    /// Where the index ends, and what lies beside the inode begins.
    fn end(&self) -> u64 {
        match self.is_packed {
            false => self.at + self.cluster_count * 8,
            true => {
                let (first, by_16) = self.packed_counts();
                let rest = self.cluster_count - first - by_16;
                // Entries of four bytes come in pairs.
                let pairs = first.next_multiple_of(2) + rest.next_multiple_of(2);
                self.at + pairs * 4 + by_16 * 2
            }
        }
    }

    /// Entries before those packed by 16, which begin at a multiple of 32 bytes, and of those.
    fn packed_counts(&self) -> (u64, u64) {
        let first = ((32 - self.at % 32) / 4 % 8).min(self.cluster_count);
        let by_16 = match self.advice & PACKED_BY_16 {
            0 => 0,
            _ => (self.cluster_count - first) / ENTRIES_OF_2 * ENTRIES_OF_2,
        };
        (first, by_16)
    }

    fn is_big(&self) -> bool {
        self.advice & (BIG_1 | BIG_2) != 0
    }

    /// Bytes of the index, by their place in the image.
    fn bytes_at(&self, at: u64, len: u64) -> Result<&[u8], String> {
        let start = at.checked_sub(self.at).map(|start| start as usize);
        let found = start.and_then(|start| self.bytes.get(start..start + len as usize));
        found.ok_or_else(|| "its index is corrupt".to_owned())
    }

    fn entry(&self, cluster: u64) -> Result<Entry, String> {
        if self.is_packed {
            return self.packed_entry(cluster);
        }
        let bytes = self.bytes_at(self.at + cluster * 8, 8)?;
        let kind = le(&bytes[..2]) & 3;
        Ok(match kind {
            2 => {
                let count = le(&bytes[4..6]);
                let says = count & BLOCK_COUNT_FLAG != 0;
                Entry::Inside(says.then_some(count & !BLOCK_COUNT_FLAG))
            }
            kind => Entry::Head {
                offset: le(&bytes[2..4]),
                block: le(&bytes[4..8]),
                compressor: compressor(kind),
            },
        })
    }

    fn packed_entry(&self, cluster: u64) -> Result<Entry, String> {
        let (first, by_16) = self.packed_counts();
        // Where the entry is in its part, and bytes of an entry there.
        let (part, number, len) = if cluster < first {
            (self.at, cluster, 4)
        } else if cluster < first + by_16 {
            (self.at + first * 4, cluster - first, 2)
        } else {
            (self.at + first * 4 + by_16 * 2, cluster - first - by_16, 4)
        };
        let count = if len == 2 { ENTRIES_OF_2 } else { 2 };
        if len == 2 && self.cluster_log2 > 12 {
            return Err("its index is packed in an unknown way".to_owned());
        }
        // Groups count from multiples of their length in the image.
        let at = part + number * len;
        let group_len = count * len;
        let group = at / group_len * group_len;
        let bytes = self.bytes_at(group, group_len)?;
        let bits = (group_len - 4) * 8 / count;
        let low_bits = self.cluster_log2.max(12);
        let value = |number: u64| {
            let bit = number * bits;
            let from = (bit / 8) as usize;
            let word = le(&bytes[from..bytes.len().min(from + 4)]) >> (bit % 8);
            (word & ((1 << low_bits) - 1), word >> low_bits & 3)
        };
        let number = (at - group) / len;
        let (low, kind) = value(number);
        if kind == 2 {
            let says = self.is_big() && low & BLOCK_COUNT_FLAG != 0;
            return Ok(Entry::Inside(says.then_some(low & !BLOCK_COUNT_FLAG)));
        }
        // The block is that of the group, and the blocks of the pieces that begin before.
        let mut before = number;
        let mut blocks = if self.is_big() { 0 } else { 1 };
        while before > 0 {
            before -= 1;
            let (low, kind) = value(before);
            if kind != 2 {
                blocks += 1;
            } else if !self.is_big() {
                // A piece that began in the group before counts there.
                match before.checked_sub(low) {
                    Some(head) => before = head,
                    None => break,
                }
                blocks += 1;
            } else if low & BLOCK_COUNT_FLAG != 0 {
                blocks += low & !BLOCK_COUNT_FLAG;
                before = before.saturating_sub(1);
            } else {
                if low <= 1 {
                    return Err("its index is corrupt".to_owned());
                }
                // To the entry that says how many blocks the piece has.
                match before.checked_sub(low - 2) {
                    Some(at) => before = at,
                    None => break,
                }
            }
        }
        let base = le(&bytes[bytes.len() - 4..]);
        Ok(Entry::Head { offset: low, block: base + blocks, compressor: compressor(kind) })
    }
}

fn compressor(kind: u64) -> Option<usize> {
    match kind {
        0 => None,
        1 => Some(0),
        _ => Some(1),
    }
}
