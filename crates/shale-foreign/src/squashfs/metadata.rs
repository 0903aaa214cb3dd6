//! The superblock, blocks of metadata, and the tables that are found through them.
//!
//! Metadata lies in blocks of 8 KiB, each compressed for itself; a place in it is the offset of a
//! stored block and an offset in its plain bytes.

use shale_codec::stream;
use shale_model::Xattr;

use crate::decompress::what_is_wrong;
use crate::tree::{Blocks, ImageFile, le};

/// First bytes of an image.
pub(crate) const MAGIC: &[u8; 4] = b"hsqs";
/// Bytes of the superblock.
const SUPERBLOCK_LEN: usize = 96;

/// Where an image begins in the first bytes of a file that has `file_len` bytes: a superblock whose
/// fields agree with each other.
pub(crate) fn find(bytes: &[u8], file_len: u64) -> Option<u64> {
    let is_superblock = |at: usize, head: &[u8]| {
        let field = |at: usize, len: usize| le(&head[at..at + len]);
        let end = (at as u64).checked_add(field(40, 8));
        &head[..4] == MAGIC
            && (field(28, 2), field(30, 2)) == (4, 0)
            && (12..=20).contains(&field(22, 2))
            && field(12, 4) == 1 << field(22, 2)
            && end.is_some_and(|end| end <= file_len)
    };
    let mut windows = bytes.windows(SUPERBLOCK_LEN).enumerate();
    windows
        .find(|(at, head)| head[0] == MAGIC[0] && is_superblock(*at, head))
        .map(|(at, _)| at as u64)
}

/// Plain bytes of a block of metadata.
pub(super) const METADATA_LEN: usize = 8192;
/// Set in the stored length of a block of metadata that is not compressed.
pub(super) const METADATA_PLAIN: u64 = 1 << 15;
/// Set in the stored length of a block of data that is not compressed.
pub(super) const DATA_PLAIN: u64 = 1 << 24;
/// Decompressed metadata held.
const METADATA_CACHE_LEN: usize = 16 << 20;
/// Stands for a table that is not there.
const NONE: u64 = u64::MAX;
/// Entries of the tables of ids and fragments that are read at most; more than any image has.
const TABLE_LEN_MAX: u64 = 1 << 27;

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compressor {
    Gzip,
    Lzma,
    Lzo,
    Xz,
    Lz4,
    Zstd,
}

impl Compressor {
    /// The number that a superblock has for it.
    pub(super) fn number(self) -> u16 {
        match self {
            Self::Gzip => 1,
            Self::Lzma => 2,
            Self::Lzo => 3,
            Self::Xz => 4,
            Self::Lz4 => 5,
            Self::Zstd => 6,
        }
    }

    fn from_number(number: u64) -> Option<Self> {
        let all = [Self::Gzip, Self::Lzma, Self::Lzo, Self::Xz, Self::Lz4, Self::Zstd];
        all.into_iter().find(|compressor| u64::from(compressor.number()) == number)
    }

    /// Decompresses a block of at most `len_max` plain bytes.
    pub(super) fn decode(self, bytes: &[u8], len_max: usize) -> Result<Vec<u8>, String> {
        let (result, name) = match self {
            Self::Gzip => (stream::zlib_block(bytes, len_max), "zlib"),
            Self::Lzma => (stream::lzma_block(bytes, false, len_max), "LZMA"),
            Self::Lzo => (stream::lzo_block(bytes, len_max), "LZO"),
            Self::Xz => (stream::lzma_block(bytes, true, len_max), "xz"),
            Self::Lz4 => (stream::lz4_block(bytes, len_max), "LZ4"),
            Self::Zstd => (stream::zstd_block(bytes, len_max), "zstd"),
        };
        result.map_err(|error| what_is_wrong(name, &error))
    }
}

/// What the superblock says, checked.
#[derive(Debug, Clone)]
pub(super) struct Superblock {
    pub(super) inode_count: u64,
    pub(super) block_len: u64,
    pub(super) compressor: Compressor,
    pub(super) root: u64,
    pub(super) bytes_used: u64,
    id_count: u64,
    fragment_count: u64,
    id_table: u64,
    xattr_table: u64,
    inode_table: u64,
    directory_table: u64,
    fragment_table: u64,
}

/// An open image.
pub(super) struct Image {
    pub(super) file: ImageFile,
    pub(super) superblock: Superblock,
    blocks: Blocks,
    pub(super) ids: Vec<u32>,
    /// Start and stored length of each block of fragments.
    pub(super) fragments: Vec<(u64, u64)>,
    xattrs: Option<Xattrs>,
}

/// Where attributes are.
struct Xattrs {
    /// Of the stored block that names and values begin with.
    start: u64,
    count: u64,
    /// Offsets of the stored blocks of the table of sets.
    blocks: Vec<u64>,
}

/// A place in the metadata, moved on by reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetadataCursor {
    pub(super) block: u64,
    pub(super) offset: usize,
}

impl Image {
    /// Opens an image and reads its tables of ids and fragments.
    pub(super) fn open(file: ImageFile) -> Result<Self, String> {
        let bytes = file.read(0, SUPERBLOCK_LEN as u64)?;
        let field = |at: usize, len: usize| le(&bytes[at..at + len]);
        if &bytes[..4] != MAGIC {
            return Err("it does not begin like one".to_owned());
        }
        let (major, minor) = (field(28, 2), field(30, 2));
        if (major, minor) != (4, 0) {
            return Err(format!("version {major}.{minor} is not known, only 4.0"));
        }
        let block_len = field(12, 4);
        if !block_len.is_power_of_two() || !(4096..=1 << 20).contains(&block_len) {
            return Err(format!("its blocks are of {block_len} bytes, allowed are 4 KiB to 1 MiB"));
        }
        let number = field(20, 2);
        let compressor = Compressor::from_number(number)
            .ok_or_else(|| format!("compressor {number} is not known"))?;
        let superblock = Superblock {
            inode_count: field(4, 4),
            block_len,
            compressor,
            fragment_count: field(16, 4),
            id_count: field(26, 2),
            root: field(32, 8),
            bytes_used: field(40, 8),
            id_table: field(48, 8),
            xattr_table: field(56, 8),
            inode_table: field(64, 8),
            directory_table: field(72, 8),
            fragment_table: field(80, 8),
        };
        if superblock.bytes_used > file.len() {
            return Err(format!(
                "it has {} bytes, the file {}: it was cut",
                superblock.bytes_used,
                file.len()
            ));
        }
        let blocks = Blocks::new(METADATA_CACHE_LEN);
        let mut image =
            Self { file, superblock, blocks, ids: Vec::new(), fragments: Vec::new(), xattrs: None };
        let (id_count, id_table) = (image.superblock.id_count, image.superblock.id_table);
        let ids = image.table(id_table, id_count * 4)?;
        image.ids = ids.chunks_exact(4).map(|id| le(id) as u32).collect();
        let fragment_count = image.superblock.fragment_count;
        if fragment_count > 0 && image.superblock.fragment_table != NONE {
            let fragments = image.table(image.superblock.fragment_table, fragment_count * 16)?;
            let entries = fragments.chunks_exact(16);
            image.fragments = entries.map(|entry| (le(&entry[..8]), le(&entry[8..12]))).collect();
        }
        image.xattrs = image.open_xattrs()?;
        Ok(image)
    }

    /// A table of `len` plain bytes whose list of blocks is at `start`.
    fn table(&self, start: u64, len: u64) -> Result<Vec<u8>, String> {
        if len > TABLE_LEN_MAX {
            return Err(format!("a table of {len} bytes is beyond {TABLE_LEN_MAX}"));
        }
        let block_count = len.div_ceil(METADATA_LEN as u64);
        let list = self.file.read(start, block_count * 8)?;
        let mut out = Vec::new();
        for offset in list.chunks_exact(8).map(le) {
            out.extend_from_slice(&self.block(offset)?.0);
        }
        if out.len() < len as usize {
            return Err("a table is shorter than its count says".to_owned());
        }
        out.truncate(len as usize);
        Ok(out)
    }

    fn open_xattrs(&self) -> Result<Option<Xattrs>, String> {
        let table = self.superblock.xattr_table;
        if table == NONE {
            return Ok(None);
        }
        let head = self.file.read(table, 16)?;
        let (start, count) = (le(&head[..8]), le(&head[8..12]));
        let block_count = (count * 16).div_ceil(METADATA_LEN as u64);
        let blocks = self.file.read(table + 16, block_count * 8)?;
        Ok(Some(Xattrs { start, count, blocks: blocks.chunks_exact(8).map(le).collect() }))
    }

    /// Plain bytes of the block of metadata stored at `offset`, and where the next one is.
    fn block(&self, offset: u64) -> Result<(std::sync::Arc<Vec<u8>>, u64), String> {
        let head = le(&self.file.read(offset, 2)?);
        let stored_len = head & (METADATA_PLAIN - 1);
        // A length of zero is one of 32 KiB in the oldest images; none that is current has it.
        let next = offset + 2 + stored_len;
        let block = self.blocks.get(offset, || {
            let bytes = self.file.read(offset + 2, stored_len)?;
            let plain = match head & METADATA_PLAIN {
                0 => self.superblock.compressor.decode(&bytes, METADATA_LEN)?,
                _ => bytes,
            };
            if plain.is_empty() || plain.len() > METADATA_LEN {
                return Err(format!("a block of metadata has {} bytes", plain.len()));
            }
            Ok(plain)
        })?;
        Ok((block, next))
    }

    /// Reads `len` bytes of metadata and moves on.
    pub(super) fn read(&self, place: &mut MetadataCursor, len: usize) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(len.min(METADATA_LEN));
        loop {
            let (block, next) = self.block(place.block)?;
            let rest = block.get(place.offset..).ok_or("an offset leads out of its block")?;
            let taken = rest.len().min(len - out.len());
            out.extend_from_slice(&rest[..taken]);
            place.offset += taken;
            if place.offset >= block.len() {
                *place = MetadataCursor { block: next, offset: 0 };
            }
            if out.len() == len {
                return Ok(out);
            }
        }
    }

    /// The place of an inode.
    pub(super) fn inode_place(&self, reference: u64) -> Result<MetadataCursor, String> {
        let block = self.superblock.inode_table.checked_add(reference >> 16);
        let block = block.filter(|&block| block < self.superblock.bytes_used);
        Ok(MetadataCursor {
            block: block.ok_or("an inode lies beyond the end")?,
            offset: (reference & 0xffff) as usize,
        })
    }

    /// The place of a list of a directory.
    pub(super) fn directory_place(
        &self,
        block: u64,
        offset: u64,
    ) -> Result<MetadataCursor, String> {
        let block = self.superblock.directory_table.checked_add(block);
        let block = block.filter(|&block| block < self.superblock.bytes_used);
        let block = block.ok_or("a directory lies beyond the end")?;
        Ok(MetadataCursor { block, offset: offset as usize })
    }

    /// The attributes of a set.
    pub(super) fn xattrs(&self, set: u32) -> Result<Vec<Xattr>, String> {
        if set == u32::MAX {
            return Ok(Vec::new());
        }
        let xattrs = self.xattrs.as_ref().ok_or("attributes are named, but there is no table")?;
        if u64::from(set) >= xattrs.count {
            return Err("a set of attributes is beyond their table".to_owned());
        }
        let at = u64::from(set) * 16;
        let block = (at / METADATA_LEN as u64) as usize;
        let block = *xattrs.blocks.get(block).ok_or("the table of attributes is too short")?;
        let mut place = MetadataCursor { block, offset: at as usize % METADATA_LEN };
        let entry = self.read(&mut place, 16)?;
        let (reference, count) = (le(&entry[..8]), le(&entry[8..12]));
        if count > shale_format::limits::XATTR_COUNT_MAX {
            return Err(format!("{count} attributes on one file"));
        }
        let mut place = self.xattr_place(xattrs, reference)?;
        let mut found = Vec::new();
        for _ in 0..count {
            let head = self.read(&mut place, 4)?;
            let (kind, name_len) = (le(&head[..2]), le(&head[2..]) as usize);
            let prefix: &[u8] = match kind & 0xff {
                0 => b"user.",
                1 => b"trusted.",
                2 => b"security.",
                other => return Err(format!("attributes of kind {other} are not known")),
            };
            let name = [prefix, &self.read(&mut place, name_len)?].concat();
            let value_len = le(&self.read(&mut place, 4)?);
            let value = if kind & 0x100 != 0 {
                // Kept elsewhere, as others have the same.
                if value_len != 8 {
                    return Err("an attribute's reference is not of 8 bytes".to_owned());
                }
                let reference = le(&self.read(&mut place, 8)?);
                let mut place = self.xattr_place(xattrs, reference)?;
                let value_len = le(&self.read(&mut place, 4)?);
                self.value(&mut place, value_len)?
            } else {
                self.value(&mut place, value_len)?
            };
            found.push(Xattr { name, value });
        }
        Ok(found)
    }

    fn value(&self, place: &mut MetadataCursor, len: u64) -> Result<Vec<u8>, String> {
        if len > shale_format::limits::XATTR_VALUE_LEN_MAX as u64 {
            return Err(format!("an attribute of {len} bytes"));
        }
        self.read(place, len as usize)
    }

    fn xattr_place(&self, xattrs: &Xattrs, reference: u64) -> Result<MetadataCursor, String> {
        let block = xattrs.start.checked_add(reference >> 16);
        let block = block.filter(|&block| block < self.superblock.bytes_used);
        let block = block.ok_or("attributes lie beyond the end")?;
        Ok(MetadataCursor { block, offset: (reference & 0xffff) as usize })
    }
}
