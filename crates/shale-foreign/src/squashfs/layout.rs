//! What SquashFS metadata is made of, out: blocks of metadata, inodes, directories, attributes.

use std::collections::HashMap;
use std::io;

use shale_codec::stream;
use shale_format::InodeKind;
use shale_model::Xattr;

use super::metadata::{Compressor, DATA_PLAIN, METADATA_LEN, METADATA_PLAIN};

/// Stands for no set of attributes, and for no fragment.
pub(super) const NONE: u32 = u32::MAX;
/// Entries of one run of a directory.
const RUN_LEN_MAX: usize = 256;
/// Entries of the index of one directory.
const INDEX_LEN_MAX: usize = u16::MAX as usize;
/// Bytes of a directory, and an offset of it, that its short inode can say.
const SHORT_DIRECTORY_LEN_MAX: u64 = u16::MAX as u64;

/// How blocks are compressed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packer {
    /// `None`: not at all.
    pub(super) compressor: Option<Compressor>,
    pub(super) level: u32,
    pub(super) block_len: u32,
}

impl Packer {
    /// The stored form, and whether it is the plain one.
    pub(super) fn pack(&self, plain: Vec<u8>) -> io::Result<(Vec<u8>, bool)> {
        let packed = match self.compressor {
            None => return Ok((plain, true)),
            Some(Compressor::Zstd) => stream::zstd_block_encode(&plain, self.level as i32)?,
            Some(Compressor::Xz) => {
                // The kernel allows a dictionary of a block and no more.
                let dictionary_len = self.block_len.max(METADATA_LEN as u32);
                stream::xz_block_encode(&plain, self.level, dictionary_len)?
            }
            Some(Compressor::Lz4) => stream::lz4_block_encode(&plain),
            Some(Compressor::Gzip | Compressor::Lzma | Compressor::Lzo) => {
                stream::zlib_block_encode(&plain, self.level)?
            }
        };
        Ok(if packed.len() < plain.len() { (packed, false) } else { (plain, true) })
    }
}

/// A place in metadata: the offset of a stored block, and one in its plain bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MetadataOffset {
    pub(super) block: u64,
    pub(super) offset: u16,
}

impl MetadataOffset {
    pub(super) fn reference(self) -> u64 {
        self.block << 16 | u64::from(self.offset)
    }
}

/// Metadata that is being written: stored blocks, and the one that is not full yet.
#[derive(Debug)]
pub(super) struct Blocks {
    packer: Packer,
    stored: Vec<u8>,
    plain: Vec<u8>,
}

impl Blocks {
    pub(super) fn new(packer: Packer) -> Self {
        Self { packer, stored: Vec::new(), plain: Vec::with_capacity(METADATA_LEN) }
    }

    /// Where the next byte goes.
    pub(super) fn place(&self) -> MetadataOffset {
        MetadataOffset { block: self.stored.len() as u64, offset: self.plain.len() as u16 }
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let len = bytes.len().min(METADATA_LEN - self.plain.len());
            let (now, rest) = bytes.split_at(len);
            self.plain.extend_from_slice(now);
            bytes = rest;
            if self.plain.len() == METADATA_LEN {
                self.seal()?;
            }
        }
        Ok(())
    }

    fn seal(&mut self) -> io::Result<()> {
        let plain = std::mem::replace(&mut self.plain, Vec::with_capacity(METADATA_LEN));
        let (stored, is_plain) = self.packer.pack(plain)?;
        let flag = if is_plain { METADATA_PLAIN as u16 } else { 0 };
        self.stored.extend_from_slice(&(stored.len() as u16 | flag).to_le_bytes());
        self.stored.extend_from_slice(&stored);
        Ok(())
    }

    /// All stored blocks.
    pub(super) fn finish(mut self) -> io::Result<Vec<u8>> {
        if !self.plain.is_empty() {
            self.seal()?;
        }
        Ok(self.stored)
    }
}

/// A table as stored blocks, and where each begins in them.
pub(super) fn table(packer: Packer, bytes: &[u8]) -> io::Result<(Vec<u8>, Vec<u64>)> {
    let mut blocks = Blocks::new(packer);
    let mut starts = Vec::new();
    for plain in bytes.chunks(METADATA_LEN) {
        starts.push(blocks.place().block);
        blocks.write(plain)?;
    }
    Ok((blocks.finish()?, starts))
}

/// What all inodes have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) kind: InodeKind,
    pub(super) permissions: u16,
    pub(super) uid_index: u16,
    pub(super) gid_index: u16,
    pub(super) mtime: u32,
    pub(super) number: u32,
    pub(super) link_count: u32,
    /// Set of attributes, or [`NONE`].
    pub(super) xattr_set: u32,
}

/// Where the content of a file is.
#[derive(Debug, Clone, Default)]
pub(super) struct FileBody {
    pub(super) len: u64,
    pub(super) start: u64,
    /// Stored lengths of whole blocks, with the flag of plain ones; 0 for a hole.
    pub(super) blocks: Vec<u32>,
    /// Number of the block of fragments that the tail is in, and where.
    pub(super) tail: Option<(u32, u32)>,
    /// Bytes in blocks that are holes.
    pub(super) hole_len: u64,
}

/// What differs by kind.
#[derive(Debug, Clone)]
pub(super) enum Body {
    File(FileBody),
    Symlink(Vec<u8>),
    Device(u32),
    Other,
}

impl Head {
    /// The type of a short inode, which directories say, too.
    pub(super) fn short_type(&self) -> u16 {
        match self.kind {
            InodeKind::Directory => 1,
            InodeKind::File => 2,
            InodeKind::Symlink => 3,
            InodeKind::BlockDevice => 4,
            InodeKind::CharDevice => 5,
            InodeKind::Fifo => 6,
            InodeKind::Socket => 7,
        }
    }

    fn start(&self, is_long: bool) -> Vec<u8> {
        let kind = self.short_type() + if is_long { 7 } else { 0 };
        let mut out = Vec::with_capacity(64);
        for value in [kind, self.permissions, self.uid_index, self.gid_index] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        put(&mut out, &[self.mtime, self.number]);
        out
    }

    /// An inode that is no directory.
    pub(super) fn inode(&self, body: &Body) -> Vec<u8> {
        let has_xattrs = self.xattr_set != NONE;
        if let Body::File(file) = body {
            return self.file(file);
        }
        let mut out = self.start(has_xattrs);
        put(&mut out, &[self.link_count]);
        match body {
            Body::Symlink(target) => {
                put(&mut out, &[target.len() as u32]);
                out.extend_from_slice(target);
            }
            Body::Device(number) => put(&mut out, &[*number]),
            Body::File(_) | Body::Other => {}
        }
        if has_xattrs {
            put(&mut out, &[self.xattr_set]);
        }
        out
    }

    fn file(&self, file: &FileBody) -> Vec<u8> {
        let (fragment, offset) = file.tail.unwrap_or((NONE, 0));
        let short = (u32::try_from(file.start), u32::try_from(file.len));
        let mut out = match short {
            (Ok(start), Ok(len))
                if self.link_count == 1 && self.xattr_set == NONE && file.hole_len == 0 =>
            {
                let mut out = self.start(false);
                put(&mut out, &[start, fragment, offset, len]);
                out
            }
            _ => {
                let mut out = self.start(true);
                // Linux takes the length less the holes less one for blocks: it must not be
                // below zero.
                let hole_len = file.hole_len.min(file.len.saturating_sub(1));
                for value in [file.start, file.len, hole_len] {
                    out.extend_from_slice(&value.to_le_bytes());
                }
                put(&mut out, &[self.link_count, fragment, offset, self.xattr_set]);
                out
            }
        };
        put(&mut out, &file.blocks);
        out
    }

    /// A directory whose list was written.
    pub(super) fn directory(&self, list: &List, parent: u32) -> Vec<u8> {
        let len = list.len + 3;
        let MetadataOffset { block, offset } = list.place;
        let is_short =
            len <= SHORT_DIRECTORY_LEN_MAX && self.xattr_set == NONE && list.index.is_empty();
        if is_short {
            let mut out = self.start(false);
            put(&mut out, &[block as u32, self.link_count]);
            out.extend_from_slice(&(len as u16).to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
            put(&mut out, &[parent]);
            return out;
        }
        let mut out = self.start(true);
        put(&mut out, &[self.link_count, len as u32, block as u32, parent]);
        out.extend_from_slice(&(list.index.len() as u16).to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
        put(&mut out, &[self.xattr_set]);
        for (at, block, name) in &list.index {
            put(&mut out, &[*at, *block, name.len() as u32 - 1]);
            out.extend_from_slice(name);
        }
        out
    }
}

fn put(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

/// One name in a directory.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) name: Vec<u8>,
    pub(super) inode: MetadataOffset,
    pub(super) number: u32,
    pub(super) short_type: u16,
}

/// A written list of names.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) place: MetadataOffset,
    pub(super) len: u64,
    /// For each block but the first: where the list goes on in it, the block, the first name.
    pub(super) index: Vec<(u32, u32, Vec<u8>)>,
}

/// Writes the names of a directory, which are in order.
pub(super) fn write_list(blocks: &mut Blocks, names: &[Name]) -> io::Result<List> {
    let mut list = List { place: blocks.place(), ..List::default() };
    let mut last_block = list.place.block;
    let mut rest = names;
    while let Some(first) = rest.first() {
        let place = blocks.place();
        if place.block != last_block && list.index.len() < INDEX_LEN_MAX {
            last_block = place.block;
            list.index.push((list.len as u32, place.block as u32, first.name.clone()));
        }
        // A run ends with its block, so that the index leads to the beginning of one.
        let mut room = METADATA_LEN.saturating_sub(usize::from(place.offset) + 12);
        let run_len = rest.iter().take(RUN_LEN_MAX).take_while(|name| {
            let len = 8 + name.name.len();
            let fits = len <= room || std::ptr::eq(*name, first);
            room = room.saturating_sub(len);
            let delta = i64::from(name.number) - i64::from(first.number);
            fits && name.inode.block == first.inode.block && i16::try_from(delta).is_ok()
        });
        let (run, after) = rest.split_at(run_len.count());
        rest = after;
        let mut out = Vec::new();
        put(&mut out, &[run.len() as u32 - 1, first.inode.block as u32, first.number]);
        for name in run {
            let delta = name.number.wrapping_sub(first.number) as u16;
            let name_len = name.name.len() as u16 - 1;
            for value in [name.inode.offset, delta, name.short_type, name_len] {
                out.extend_from_slice(&value.to_le_bytes());
            }
            out.extend_from_slice(&name.name);
        }
        blocks.write(&out)?;
        list.len += out.len() as u64;
    }
    if list.len + 3 > u64::from(u32::MAX) {
        return Err(io::Error::other("a directory of more than 4 GiB"));
    }
    Ok(list)
}

/// Sets of attributes, each once.
#[derive(Debug)]
pub(super) struct Xattrs {
    /// Names and values.
    pub(super) pairs: Blocks,
    /// The table of sets.
    pub(super) sets: Vec<u8>,
    /// Sets by their hash.
    known: HashMap<[u8; 32], u32>,
}

/// Whether SquashFS has attributes of this namespace.
pub(super) fn keeps_xattr(name: &[u8]) -> bool {
    namespace(name).is_some()
}

fn namespace(name: &[u8]) -> Option<(u16, &[u8])> {
    let prefixes = [(0, &b"user."[..]), (1, b"trusted."), (2, b"security.")];
    prefixes.into_iter().find_map(|(number, prefix)| {
        name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(|rest| (number, rest))
    })
}

impl Xattrs {
    pub(super) fn new(packer: Packer) -> Self {
        Self { pairs: Blocks::new(packer), sets: Vec::new(), known: HashMap::new() }
    }

    /// The number of a set; [`NONE`] for one without anything that is kept.
    pub(super) fn set(&mut self, xattrs: &[Xattr]) -> io::Result<u32> {
        let mut bytes = Vec::new();
        let mut count = 0u32;
        for (xattr, (number, name)) in
            xattrs.iter().filter_map(|xattr| Some((xattr, namespace(&xattr.name)?)))
        {
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
            bytes.extend_from_slice(name);
            put(&mut bytes, &[xattr.value.len() as u32]);
            bytes.extend_from_slice(&xattr.value);
            count += 1;
        }
        if count == 0 {
            return Ok(NONE);
        }
        let key = *shale_codec::hash(&bytes).as_bytes();
        if let Some(&set) = self.known.get(&key) {
            return Ok(set);
        }
        let set = (self.sets.len() / 16) as u32;
        self.sets.extend_from_slice(&self.pairs.place().reference().to_le_bytes());
        put(&mut self.sets, &[count, bytes.len() as u32]);
        self.pairs.write(&bytes)?;
        self.known.insert(key, set);
        Ok(set)
    }
}

/// The stored length of a block of data as tables have it.
pub(super) fn stored_len(len: usize, is_plain: bool) -> u32 {
    len as u32 | if is_plain { DATA_PLAIN as u32 } else { 0 }
}
