//! A tree as an EROFS image without compression, which Linux mounts and reads in place.
//!
//! The data of a file follows that of the file before, in blocks. Inodes lie between the data, in
//! areas that are written when they are full; an inode is followed by its attributes and by the
//! tail of its file. Files of the same content share blocks. Directories come last, as they name
//! what was written before them. The superblock is known last, so the output must be one that can
//! be gone back in.
//!
//! Kept are owners, permissions, hard links, devices, attributes of the namespaces that EROFS has,
//! access control lists, holes in whole blocks, and times to the nanosecond. What is lost is
//! reported. The bytes depend on the entries alone.
//!
//! Memory: an area of inodes, 50 bytes a content, and 60 bytes and the name an entry.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use shale_codec::Hasher;
use shale_erofs::{
    BLOCK_BITS, BLOCK_LEN, DataLayout, DirectorySize, Dirent, HOLE, INODE_LEN, SLOT_LEN,
    SUPERBLOCK_LEN, SUPERBLOCK_OFFSET, Superblock,
};
use shale_format::InodeKind;
use shale_format::inode::device_parts;

use super::encode::{self, Head};
use crate::archive::{Archive, ArchiveEntry, Keeps, Taken};
use crate::way::Way;

/// Where the superblock ends; the inode of the root follows it.
const SUPERBLOCK_END: u64 = SUPERBLOCK_OFFSET + SUPERBLOCK_LEN as u64;
/// Bytes of an area of inodes, unless a single one is larger.
const AREA_LEN: u64 = 64 << 10;
/// Blocks of an image with addresses of 32 bits, without the one that marks holes: 16 TiB.
const BLOCK_COUNT_MAX: u64 = u32::MAX as u64 - 1;
/// Chunks of a file: a map of 16 MiB.
const CHUNK_COUNT_MAX: u64 = 1 << 22;
/// Bits of the length of a chunk, beyond those of a block.
const CHUNK_BITS_MAX: u8 = 31;
/// Zeroes that a file may get in place of holes because its chunks are large.
const FILL_LEN_MAX: u64 = 1 << 30;
/// A target of a symbolic link that Linux can follow.
const TARGET_LEN_MAX: usize = 4095;
const DOTS: [&[u8]; 2] = [b".", b".."];

/// Writes an EROFS image.
pub struct ErofsWriter<W> {
    out: W,
    /// Where the next block goes.
    at: u64,
    identity: Hasher,
    area: Area,
    directories: Vec<Directory>,
    /// Paths of the directories that the entry before lies in, and their numbers.
    on_the_way: Way<usize>,
    contents: HashMap<u64, Body>,
    /// Inodes with several names: slot and mode.
    links: HashMap<u64, (u64, u32)>,
    current: Option<Current>,
    inode_count: u64,
    has_chunks: bool,
}

impl<W> std::fmt::Debug for ErofsWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ErofsWriter").field("at", &self.at).finish_non_exhaustive()
    }
}

/// A place for inodes in the image, and those that lie in it so far.
#[derive(Debug, Default)]
struct Area {
    start: u64,
    len: u64,
    bytes: Vec<u8>,
}

/// A directory, which is written at the end.
#[derive(Debug)]
struct Directory {
    head: Head,
    parent: usize,
    names: Vec<Name>,
    /// Where its inode and its first block lie, once they were placed.
    slot: u64,
    block: u64,
    len: u64,
    layout: DataLayout,
}

#[derive(Debug)]
struct Name {
    name: Box<[u8]>,
    child: Child,
}

#[derive(Debug, Clone, Copy)]
enum Child {
    Inode { slot: u64, mode: u32 },
    Directory(u32),
}

/// Where the bytes of a file are.
#[derive(Debug, Clone, Copy)]
struct Body {
    layout: DataLayout,
    place: u32,
    len: u64,
    /// What follows the inode: the tail or the map of chunks.
    beside: (u64, u64),
}

/// The file whose data comes.
struct Current {
    name: Box<[u8]>,
    head: Head,
    inode: Option<u64>,
    content: u64,
    len: u64,
    /// Where data lies, and which of these it comes from now.
    data: Vec<Range<u64>>,
    range: usize,
    /// Where in the file the next byte of data lies.
    offset: u64,
    /// Bits of the length of a chunk; `None` if all lies in one piece.
    chunk_log2: Option<u8>,
    /// The block of each chunk.
    map: Vec<u32>,
    /// Where in the file the next byte goes, and the bytes before it that do not fill a block.
    given: u64,
    block: Vec<u8>,
    first_block: u64,
}

fn too_long() -> io::Error {
    io::Error::other("an EROFS image has up to 16 TiB; tar holds more")
}

impl<W: Read + Write + Seek> ErofsWriter<W> {
    /// Writes an image to `out`, which is empty.
    pub fn new(out: W) -> Self {
        Self {
            out,
            at: 0,
            identity: Hasher::new(),
            area: Area::default(),
            directories: Vec::new(),
            on_the_way: Way::new(),
            contents: HashMap::new(),
            links: HashMap::new(),
            current: None,
            inode_count: 0,
            has_chunks: false,
        }
    }

    /// Writes whole blocks at the end.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.identity.update(bytes);
        self.out.write_all(bytes)?;
        self.advance(bytes.len() as u64)
    }

    /// Leaves whole blocks of zeroes at the end.
    fn skip(&mut self, len: u64) -> io::Result<()> {
        self.identity.update(&len.to_le_bytes());
        self.advance(len)?;
        self.out.seek(SeekFrom::Start(self.at))?;
        Ok(())
    }

    fn advance(&mut self, len: u64) -> io::Result<()> {
        self.at = self.at.saturating_add(len);
        if self.at >> BLOCK_BITS > BLOCK_COUNT_MAX { Err(too_long()) } else { Ok(()) }
    }

    /// Writes `bytes` at `at`, which was left out before, and goes back to the end.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.identity.update(bytes);
        self.out.seek(SeekFrom::Start(at))?;
        self.out.write_all(bytes)?;
        self.out.seek(SeekFrom::Start(self.at))?;
        Ok(())
    }

    /// Reads back what was written, from the area of inodes or from the output.
    fn read_back(&mut self, at: u64, len: u64) -> io::Result<Vec<u8>> {
        let in_area = at.checked_sub(self.area.start).filter(|from| *from < self.area.len);
        if let Some(from) = in_area
            && let Some(bytes) = self.area.bytes.get(from as usize..(from + len) as usize)
        {
            return Ok(bytes.to_vec());
        }
        let mut bytes = Vec::new();
        self.out.seek(SeekFrom::Start(at))?;
        Read::by_ref(&mut self.out).take(len).read_to_end(&mut bytes)?;
        self.out.seek(SeekFrom::Start(self.at))?;
        // Zeroes at the end were left out so far.
        bytes.resize(len as usize, 0);
        Ok(bytes)
    }

    /// Writes the area of inodes that is full or the last.
    fn end_area(&mut self) -> io::Result<()> {
        let Area { start, len: _, bytes } = std::mem::take(&mut self.area);
        if bytes.is_empty() { Ok(()) } else { self.write_at(start, &bytes) }
    }

    /// Finds a place for an inode of `head_len` bytes, whose tail must not leave a block. `after`
    /// are further bytes after it that may. Returns its offset in the image.
    fn place(&mut self, head_len: u64, tail_len: u64, after: u64) -> io::Result<u64> {
        loop {
            let mut at = self.area.start + (self.area.bytes.len() as u64);
            at = at.next_multiple_of(SLOT_LEN);
            while !fits(at, head_len, tail_len) {
                at += SLOT_LEN;
            }
            let end = at + head_len + tail_len + after;
            if end <= self.area.start + self.area.len {
                return Ok(at);
            }
            self.end_area()?;
            let len = AREA_LEN.max((head_len + tail_len + after).next_multiple_of(BLOCK_LEN));
            self.area = Area { start: self.at, len, bytes: Vec::new() };
            self.skip(len)?;
        }
    }

    /// Puts an inode and what follows it where [`Self::place`] said.
    fn put(&mut self, at: u64, inode: &[u8], beside: &[u8]) {
        let from = (at - self.area.start) as usize;
        self.area.bytes.resize(from, 0);
        self.area.bytes.extend_from_slice(inode);
        self.area.bytes.extend_from_slice(beside);
    }

    /// Writes the inode of anything but a directory. Returns its slot, and the offset of the data
    /// that are stored beside it.
    fn inode(
        &mut self,
        head: &Head,
        layout: DataLayout,
        len: u64,
        place: u32,
        beside: &[u8],
    ) -> io::Result<(u64, u64)> {
        let beside_len = beside.len() as u64;
        let (tail_len, after) = match layout {
            DataLayout::Inline => (beside_len, 0),
            _ => (0, beside_len),
        };
        let at = self.place(head.len(), tail_len, after)?;
        self.put(at, &head.encode(layout, len, place), beside);
        self.inode_count += 1;
        Ok((at / SLOT_LEN, at + head.len()))
    }

    fn add(&mut self, name: Box<[u8]>, child: Child) -> io::Result<()> {
        let parent = self.on_the_way.last().and_then(|parent| self.directories.get_mut(*parent));
        let parent = parent.ok_or_else(|| io::Error::other("an entry without a directory"))?;
        parent.names.push(Name { name, child });
        Ok(())
    }

    fn add_inode(
        &mut self,
        name: Box<[u8]>,
        head: &Head,
        link: Option<u64>,
        slot: u64,
    ) -> io::Result<()> {
        let mode = head.mode.into();
        if let Some(link) = link {
            self.links.insert(link, (slot, mode));
        }
        self.add(name, Child::Inode { slot, mode })
    }

    fn enter(&mut self, path: &[u8], name: Box<[u8]>, head: Head) -> io::Result<()> {
        let number = self.directories.len();
        let parent = self.on_the_way.last().copied().unwrap_or(number);
        let (slot, block) = (0, 0);
        if number == 0 {
            // The number of the root has 16 bits, so its inode follows the superblock.
            self.skip((SUPERBLOCK_END + head.len()).next_multiple_of(BLOCK_LEN))?;
        } else {
            let child = u32::try_from(number).map_err(|_| io::Error::other("too many directories"));
            self.add(name, Child::Directory(child?))?;
        }
        let layout = DataLayout::Plain;
        let names = Vec::new();
        self.directories.push(Directory { head, parent, names, slot, block, len: 0, layout });
        self.on_the_way.enter(path, number);
        self.inode_count += 1;
        Ok(())
    }

    /// Begins a file whose data comes.
    fn begin(
        &mut self,
        entry: &ArchiveEntry<'_>,
        name: Box<[u8]>,
        head: Head,
        link: Option<u64>,
        chunk_log2: Option<u8>,
    ) {
        let len = entry.metadata.len;
        let chunk_count = chunk_log2.map_or(0, |bits| len.div_ceil(1 << bits));
        self.current = Some(Current {
            name,
            head,
            inode: link,
            content: entry.content,
            len,
            data: entry.data.to_vec(),
            range: 0,
            offset: entry.data.first().map_or(0, |range| range.start),
            chunk_log2,
            map: vec![HOLE; chunk_count as usize],
            given: 0,
            block: Vec::new(),
            first_block: self.at >> BLOCK_BITS,
        });
    }

    /// Adds data of the file at its offset `at`; what lies between it and the data before is zero
    /// or, where a whole chunk has none, a hole.
    fn pour(&mut self, file: &mut Current, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut at = at;
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let chunk_end = match file.chunk_log2 {
                None => u64::MAX,
                Some(bits) => {
                    let chunk = at >> bits;
                    if file.given <= chunk << bits {
                        self.end_chunk(file)?;
                        file.given = chunk << bits;
                    }
                    let place = file.map.get_mut(chunk as usize);
                    let place = place.ok_or_else(|| io::Error::other("data beyond its end"))?;
                    if *place == HOLE {
                        *place = (self.at >> BLOCK_BITS) as u32;
                    }
                    (chunk + 1).saturating_mul(1 << bits)
                }
            };
            self.fill(file, at)?;
            let len = (bytes.len() as u64).min(chunk_end - at) as usize;
            let (now, rest) = bytes.split_at(len);
            self.append(file, now)?;
            at += len as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Adds zeroes up to the offset `to`.
    fn fill(&mut self, file: &mut Current, to: u64) -> io::Result<()> {
        const ZEROES: [u8; BLOCK_LEN as usize] = [0; BLOCK_LEN as usize];
        let mut left = to.saturating_sub(file.given);
        if left == 0 {
            return Ok(());
        }
        let room = (BLOCK_LEN - file.block.len() as u64) % BLOCK_LEN;
        let first = left.min(room);
        self.append(file, &ZEROES[..first as usize])?;
        left -= first;
        let whole = left / BLOCK_LEN * BLOCK_LEN;
        if whole > 0 {
            self.skip(whole)?;
            file.given += whole;
            left -= whole;
        }
        self.append(file, &ZEROES[..left as usize])
    }

    fn append(&mut self, file: &mut Current, mut bytes: &[u8]) -> io::Result<()> {
        file.given += bytes.len() as u64;
        if !file.block.is_empty() {
            let room = BLOCK_LEN as usize - file.block.len();
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            file.block.extend_from_slice(now);
            bytes = rest;
            if file.block.len() < BLOCK_LEN as usize {
                return Ok(());
            }
            let block = std::mem::take(&mut file.block);
            self.write(&block)?;
        }
        let (whole, rest) = bytes.split_at(bytes.len() / BLOCK_LEN as usize * BLOCK_LEN as usize);
        if !whole.is_empty() {
            self.write(whole)?;
        }
        file.block.extend_from_slice(rest);
        Ok(())
    }

    /// Ends the chunk that was begun: its blocks are all there, up to the end of the file.
    fn end_chunk(&mut self, file: &mut Current) -> io::Result<()> {
        let Some(bits) = file.chunk_log2.filter(|_| file.given > 0) else { return Ok(()) };
        let end = file.given.saturating_sub(1) >> bits;
        let end = (end + 1).saturating_mul(1 << bits).min(file.len);
        self.fill(file, end)?;
        self.end_block(file)
    }

    fn end_block(&mut self, file: &mut Current) -> io::Result<()> {
        let mut block = std::mem::take(&mut file.block);
        if block.is_empty() {
            return Ok(());
        }
        block.resize(BLOCK_LEN as usize, 0);
        self.write(&block)
    }

    /// Writes the inode of the file whose data came.
    fn end(&mut self, mut file: Current) -> io::Result<()> {
        let (layout, place, beside) = match file.chunk_log2 {
            Some(bits) => {
                self.end_chunk(&mut file)?;
                self.has_chunks = true;
                let map = file.map.iter().flat_map(|block| block.to_le_bytes()).collect();
                (DataLayout::Chunks, shale_erofs::chunk_format(bits), map)
            }
            None => {
                let len = file.len;
                self.fill(&mut file, len)?;
                let tail_len = file.block.len() as u64;
                let is_inline = tail_len > 0 && file.head.len() + tail_len <= BLOCK_LEN;
                let beside = match is_inline {
                    true => std::mem::take(&mut file.block),
                    false => Vec::new(),
                };
                self.end_block(&mut file)?;
                let layout = if is_inline { DataLayout::Inline } else { DataLayout::Plain };
                let place = if file.len == 0 { 0 } else { file.first_block as u32 };
                (layout, place, beside)
            }
        };
        let (slot, beside_at) = self.inode(&file.head, layout, file.len, place, &beside)?;
        if file.content != 0 {
            let beside = (beside_at, beside.len() as u64);
            self.contents.insert(file.content, Body { layout, place, len: file.len, beside });
        }
        self.add_inode(file.name, &file.head, file.inode, slot)
    }

    /// Writes the inode of a file whose content came before.
    fn repeat(&mut self, entry: &ArchiveEntry<'_>, head: &Head) -> io::Result<u64> {
        let known = self.contents.get(&entry.content).copied();
        let known = known.ok_or_else(|| io::Error::other("a content was not given"))?;
        let mut beside = self.read_back(known.beside.0, known.beside.1)?;
        let (mut layout, mut place) = (known.layout, known.place);
        if layout == DataLayout::Inline && head.len() + known.beside.1 > BLOCK_LEN {
            // With these attributes the tail has no room beside the inode: the bytes come again.
            layout = DataLayout::Plain;
            let first = self.at >> BLOCK_BITS;
            for block in 0..known.len >> BLOCK_BITS {
                let at = (u64::from(place) + block) << BLOCK_BITS;
                let bytes = self.read_back(at, BLOCK_LEN)?;
                self.write(&bytes)?;
            }
            beside.resize(BLOCK_LEN as usize, 0);
            self.write(&beside)?;
            beside.clear();
            place = first as u32;
        }
        self.inode(head, layout, known.len, place, &beside).map(|(slot, _)| slot)
    }

    fn finish_image(&mut self) -> io::Result<()> {
        if self.directories.is_empty() {
            return Err(io::Error::other("there is nothing in it"));
        }
        let mut directories = std::mem::take(&mut self.directories);
        for directory in &mut directories {
            directory.names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            let below =
                directory.names.iter().filter(|name| matches!(name.child, Child::Directory(_)));
            directory.head.link_count = u32::try_from(below.count() + 2).unwrap_or(u32::MAX);
            let mut size = DirectorySize::default();
            with_dots(&directory.names).for_each(|(name, _)| size.add(name.len()));
            directory.len = size.len();
        }
        // All have to be placed before one can be written, since each names its parent and what is
        // in it. First the blocks, then the areas of inodes.
        if self.area.len > 0 && self.area.start + self.area.len == self.at {
            let used = self.area.start + self.area.bytes.len() as u64;
            self.at = used.next_multiple_of(BLOCK_LEN);
        }
        self.end_area()?;
        let (first, rest) = directories.split_at_mut(1);
        let blocks_at = self.at;
        let mut block = blocks_at >> BLOCK_BITS;
        for root in first {
            (root.slot, root.block) = (SUPERBLOCK_END / SLOT_LEN, block);
            block += root.len.div_ceil(BLOCK_LEN);
        }
        for directory in rest.iter_mut() {
            let tail_len = directory.len % BLOCK_LEN;
            let is_inline = tail_len > 0 && directory.head.len() + tail_len <= BLOCK_LEN;
            directory.layout = if is_inline { DataLayout::Inline } else { DataLayout::Plain };
            directory.block = block;
            block += directory.len.div_ceil(BLOCK_LEN) - u64::from(is_inline);
        }
        let inodes_at = block << BLOCK_BITS;
        let mut at = inodes_at;
        for directory in rest.iter_mut() {
            let tail_len = directory.tail_len();
            while !fits(at, directory.head.len(), tail_len) {
                at += SLOT_LEN;
            }
            directory.slot = at / SLOT_LEN;
            at = (at + directory.head.len() + tail_len).next_multiple_of(SLOT_LEN);
        }
        if at.div_ceil(BLOCK_LEN) > BLOCK_COUNT_MAX {
            return Err(too_long());
        }
        for number in 0..directories.len() {
            let mut bytes = encoded(&directories, number);
            bytes.truncate(bytes.len() - directories[number].tail_len() as usize);
            bytes.resize(bytes.len().next_multiple_of(BLOCK_LEN as usize), 0);
            self.write(&bytes)?;
        }
        self.area = Area { start: inodes_at, len: at - inodes_at, bytes: Vec::new() };
        for number in 1..directories.len() {
            let bytes = encoded(&directories, number);
            let directory = &directories[number];
            let tail = &bytes[bytes.len() - directory.tail_len() as usize..];
            let inode = directory.encode();
            let at = directory.slot * SLOT_LEN;
            if at - self.area.start >= AREA_LEN {
                // What was gathered so far ends before this inode.
                let mut bytes = std::mem::take(&mut self.area.bytes);
                bytes.resize((at - self.area.start) as usize, 0);
                self.write(&bytes)?;
                self.area.start = at;
            }
            self.put(at, &inode, tail);
        }
        let mut bytes = std::mem::take(&mut self.area.bytes);
        let end = (self.area.start + bytes.len() as u64).next_multiple_of(BLOCK_LEN);
        bytes.resize((end - self.area.start) as usize, 0);
        self.write(&bytes)?;
        let root = directories[0].encode();
        self.write_at(SUPERBLOCK_END, &root)?;
        let id = self.identity.finalize();
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&id.as_bytes()[..16]);
        let root_slot = directories[0].slot as u16;
        let block_count = (self.at >> BLOCK_BITS) as u32;
        let superblock = Superblock {
            uuid: shale_erofs::uuid(uuid),
            root_slot,
            inode_count: self.inode_count,
            block_count,
            has_chunks: self.has_chunks,
            has_mtime: true,
            ..Superblock::default()
        };
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&[0; SUPERBLOCK_OFFSET as usize])?;
        self.out.write_all(&superblock.encode())?;
        self.out.flush()
    }
}

/// Returns true if an inode of `head_len` bytes with this tail may lie at `at`: neither the inode
/// itself nor the tail crosses the border of a block.
fn fits(at: u64, head_len: u64, tail_len: u64) -> bool {
    let inode_fits = at % BLOCK_LEN + INODE_LEN <= BLOCK_LEN;
    inode_fits && (tail_len == 0 || (at + head_len) % BLOCK_LEN + tail_len <= BLOCK_LEN)
}

impl Directory {
    fn tail_len(&self) -> u64 {
        if self.layout == DataLayout::Inline { self.len % BLOCK_LEN } else { 0 }
    }

    fn encode(&self) -> Vec<u8> {
        // The block is below the limit, which was checked.
        self.head.encode(self.layout, self.len, self.block as u32)
    }
}

/// The names of a directory with `.` and `..` in their places; these have no child.
fn with_dots(names: &[Name]) -> impl Iterator<Item = (&[u8], Option<Child>)> {
    let mut dots = DOTS.into_iter().peekable();
    let mut names = names.iter().peekable();
    std::iter::from_fn(move || {
        let next = names.peek().map(|name| &name.name[..]);
        if let Some(dot) = dots.next_if(|dot| next.is_none_or(|next| *dot < next)) {
            return Some((dot, None));
        }
        names.next().map(|name| (&name.name[..], Some(name.child)))
    })
}

/// The bytes of a directory.
fn encoded(directories: &[Directory], number: usize) -> Vec<u8> {
    let this = &directories[number];
    let of = |directory: &Directory| (directory.slot, u32::from(directory.head.mode));
    shale_erofs::directory(with_dots(&this.names).map(|(name, child)| {
        let (slot, mode) = match child {
            Some(Child::Inode { slot, mode }) => (slot, mode),
            Some(Child::Directory(child)) => of(&directories[child as usize]),
            None if name == DOTS[0] => of(this),
            None => of(&directories[this.parent]),
        };
        Dirent { name, slot, mode }
    }))
}

/// How a file of `len` bytes with this data is laid out, at the least cost of map and zeroes: bits
/// of the length of a chunk, or `None` for one piece; and the bytes of the blocks.
fn chunking(len: u64, data: &[Range<u64>]) -> (Option<u8>, u64) {
    let in_blocks = |bytes: u64| bytes.div_ceil(BLOCK_LEN).saturating_mul(BLOCK_LEN);
    let mut best = (None, in_blocks(len));
    let mut best_cost = best.1;
    for bits in BLOCK_BITS..=BLOCK_BITS + CHUNK_BITS_MAX {
        let chunk_count = len.div_ceil(1 << bits);
        if chunk_count > CHUNK_COUNT_MAX {
            continue;
        }
        let mut blocks_len = 0u64;
        let mut next = 0;
        for range in data.iter().filter(|range| !range.is_empty()) {
            let (first, last) = (next.max(range.start >> bits), (range.end - 1) >> bits);
            if first <= last {
                let end = (last + 1).saturating_mul(1 << bits).min(len);
                blocks_len = blocks_len.saturating_add(in_blocks(end - (first << bits)));
                next = last + 1;
            }
        }
        let cost = blocks_len.saturating_add(4 * chunk_count);
        if cost < best_cost {
            (best, best_cost) = ((Some(bits), blocks_len), cost);
        }
    }
    best
}

impl<W: Read + Write + Seek> Archive for ErofsWriter<W> {
    fn keeps(&self) -> Keeps {
        Keeps { holes: true, hard_links: true, shared_contents: true }
    }

    fn entry(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<Taken> {
        self.on_the_way.climb(entry.path);
        let name = entry.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let name: Box<[u8]> = name.into();
        if entry.hard_link.is_some() {
            let link = self.links.get(&entry.inode).copied();
            let (slot, mode) =
                link.ok_or_else(|| io::Error::other("a link to what was not written"))?;
            self.add(name, Child::Inode { slot, mode })?;
            return Ok(Taken::whole());
        }
        let metadata = entry.metadata;
        let mut taken = Taken::whole();
        let serial = u32::try_from(self.inode_count + 1);
        let head = Head {
            mode: (metadata.kind.mode_bits() | metadata.permissions) as u16,
            owner: (metadata.uid, metadata.gid),
            mtime: (metadata.mtime.sec, metadata.mtime.nsec),
            link_count: u32::try_from(entry.link_count).unwrap_or(u32::MAX),
            serial: serial.map_err(|_| io::Error::other("more than 4294967295 inodes"))?,
            xattrs: encode::xattrs(entry.xattrs, &mut taken.lost),
        };
        let link = (entry.link_count > 1).then_some(entry.inode);
        let slot = match metadata.kind {
            InodeKind::Directory => {
                self.enter(entry.path, name, head)?;
                return Ok(taken);
            }
            InodeKind::File if entry.is_repeat => self.repeat(entry, &head)?,
            InodeKind::File => {
                let (chunk_log2, blocks_len) = chunking(metadata.len, entry.data);
                let filled = blocks_len.saturating_sub(entry.data_len());
                if filled > FILL_LEN_MAX {
                    return Ok(Taken::not(format!(
                        "left out: its holes lie so that EROFS would store {filled} zeroes of them"
                    )));
                }
                if (self.at.saturating_add(blocks_len)) >> BLOCK_BITS > BLOCK_COUNT_MAX {
                    return Ok(Taken::not(format!(
                        "left out: with its {} bytes the image has more than 16 TiB",
                        metadata.len
                    )));
                }
                self.begin(entry, name, head, link, chunk_log2);
                return Ok(taken);
            }
            InodeKind::Symlink => {
                let len = entry.target.len();
                if len > TARGET_LEN_MAX {
                    return Ok(Taken::not(format!("left out: its target has {len} bytes")));
                }
                match head.len() + len as u64 <= BLOCK_LEN {
                    true => self.inode(&head, DataLayout::Inline, len as u64, 0, entry.target)?.0,
                    false => {
                        let block = (self.at >> BLOCK_BITS) as u32;
                        let mut bytes = entry.target.to_vec();
                        bytes.resize(BLOCK_LEN as usize, 0);
                        self.write(&bytes)?;
                        self.inode(&head, DataLayout::Plain, len as u64, block, &[])?.0
                    }
                }
            }
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                let (major, minor) = device_parts(metadata.device);
                let Some(device) = shale_erofs::device((major, minor)) else {
                    return Ok(Taken::not(format!(
                        "left out: there is no device {major}:{minor} in EROFS"
                    )));
                };
                self.inode(&head, DataLayout::Plain, 0, device, &[])?.0
            }
            InodeKind::Fifo | InodeKind::Socket => {
                self.inode(&head, DataLayout::Plain, 0, 0, &[])?.0
            }
        };
        self.add_inode(name, &head, link, slot)?;
        Ok(taken)
    }

    fn data(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let too_much = || io::Error::other("more data than the entry has");
        let mut file = self.current.take().ok_or_else(too_much)?;
        while !bytes.is_empty() {
            let range = file.data.get(file.range).cloned().ok_or_else(too_much)?;
            if file.offset >= range.end {
                file.range += 1;
                file.offset = file.data.get(file.range).ok_or_else(too_much)?.start;
                continue;
            }
            let len = (bytes.len() as u64).min(range.end - file.offset);
            let (now, rest) = bytes.split_at(len as usize);
            let at = file.offset;
            self.pour(&mut file, at, now)?;
            file.offset += len;
            bytes = rest;
        }
        self.current = Some(file);
        Ok(())
    }

    fn end_entry(&mut self) -> io::Result<()> {
        let Some(file) = self.current.take() else { return Ok(()) };
        let is_complete = file
            .data
            .last()
            .is_none_or(|range| range.end == file.offset && file.range + 1 == file.data.len());
        if !is_complete {
            return Err(io::Error::other("less data than the entry has"));
        }
        self.end(file)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.finish_image()
    }
}
