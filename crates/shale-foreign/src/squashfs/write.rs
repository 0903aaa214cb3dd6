//! A tree as a SquashFS 4.0 image, which Linux mounts.
//!
//! Data is cut into blocks, which several threads compress and one writes in order; what is left at
//! the end of files goes together into blocks of fragments. Files of the same content share it.
//! Blocks that lie in a hole are not stored. Metadata is compressed as it comes and follows the
//! data, so the output must be one that can be gone back in: the first 96 bytes come last.
//!
//! Kept are owners, permissions, hard links, devices, attributes of the namespaces that SquashFS
//! has, and times in seconds from 1970 to 2106. Access control lists and what else is lost are
//! reported. The bytes depend on the entries alone.
//!
//! Memory: the compressed metadata, about 30 bytes an entry, 60 bytes a content, and the names of
//! the directories on the way down.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;

use shale_codec::stream::StreamFormat;
use shale_format::InodeKind;
use shale_format::inode::device_parts;

use super::layout::{
    Blocks, Body, FileBody, Head, MetadataOffset, Name, Packer, Xattrs, keeps_xattr, stored_len,
    table, write_list,
};
use super::metadata::{Compressor, MAGIC, METADATA_PLAIN};
use crate::archive::{Archive, ArchiveEntry, Keeps, Taken};
use crate::cpio::seconds;
use crate::ordered::Ordered;
use crate::way::Way;

/// Bytes of the superblock.
const SUPERBLOCK_LEN: usize = 96;
/// Images end at a multiple of this, as devices do.
const END_UNIT: u64 = 4096;
/// Blocks of a file: 2 TiB in the usual ones.
const BLOCK_COUNT_MAX: u64 = 1 << 24;
/// A target of a symbolic link that Linux can follow.
const TARGET_LEN_MAX: usize = 4095;
/// Owners and groups together.
const ID_COUNT_MAX: usize = 65_535;

// Bits of the superblock.
const FLAG_PLAIN: u16 = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 8 | 1 << 11;
const FLAG_NO_FRAGMENTS: u16 = 1 << 4;
const FLAG_SHARED: u16 = 1 << 6;
const FLAG_EXPORTABLE: u16 = 1 << 7;
const FLAG_NO_XATTRS: u16 = 1 << 9;
const FLAG_OPTIONS: u16 = 1 << 10;

/// How an image is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SquashfsOptions {
    /// Plain bytes of a block: a power of two from 4 KiB to 1 MiB.
    pub block_len: u32,
    /// gzip, xz, lz4 or zstd; `None`: nothing is compressed.
    pub compression: Option<StreamFormat>,
    /// The level of that; its usual one without.
    pub level: Option<u32>,
    /// Threads that compress.
    pub threads: usize,
}

impl SquashfsOptions {
    /// What mksquashfs does, but with zstd.
    pub const USUAL_BLOCK_LEN: u32 = 128 << 10;

    fn packer(&self) -> Result<Packer, String> {
        if !self.block_len.is_power_of_two() || !(4096..=1 << 20).contains(&self.block_len) {
            return Err(format!(
                "blocks of {} bytes; 4 KiB to 1 MiB by powers of two are possible",
                self.block_len
            ));
        }
        let (compressor, usual, max) = match self.compression {
            None => (None, 0, 0),
            Some(StreamFormat::Gzip) => (Some(Compressor::Gzip), 9, 9),
            Some(StreamFormat::Xz) => (Some(Compressor::Xz), 6, 9),
            Some(StreamFormat::Lz4) => (Some(Compressor::Lz4), 0, 0),
            Some(StreamFormat::Zstd) => (Some(Compressor::Zstd), 15, 22),
            Some(other) => {
                return Err(format!(
                    "SquashFS has no {}; it has gzip, xz, lz4 and zstd",
                    other.extension()
                ));
            }
        };
        let level = self.level.unwrap_or(usual).min(max);
        Ok(Packer { compressor, level, block_len: self.block_len })
    }
}

/// Writes a SquashFS image.
pub struct SquashfsWriter<W> {
    out: W,
    /// Where the next block of data goes.
    at: u64,
    packer: Packer,
    pool: Ordered<Job, io::Result<Done>>,
    /// What waits for its data, in order, and the sequence number of the first.
    waiting: VecDeque<Waiting>,
    first_waiting: u64,
    /// Paths of the directories that the entry before lies in.
    on_the_way: Way<()>,
    assembly: Option<Assembly>,
    /// Tails that are not in a block yet.
    fragment: Vec<u8>,
    fragments: Vec<(u64, u32)>,
    contents: HashMap<u64, FileBody>,
    /// Inodes with several names.
    links: HashMap<u64, (MetadataOffset, u32, u16)>,
    inodes: Blocks,
    directories: Blocks,
    xattrs: Xattrs,
    ids: HashMap<u32, u16>,
    id_table: Vec<u8>,
    /// Places of inodes, by number from 1.
    places: Vec<u64>,
    open: Vec<OpenDirectory>,
    root: Option<(MetadataOffset, u32)>,
}

impl<W> std::fmt::Debug for SquashfsWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SquashfsWriter").field("at", &self.at).finish_non_exhaustive()
    }
}

/// A directory whose names are being gathered.
struct OpenDirectory {
    name: Vec<u8>,
    head: Head,
    names: Vec<Name>,
}

/// Something that goes into the metadata once all before it is there.
enum Waiting {
    Enter { name: Vec<u8>, head: Head },
    Leave,
    Inode { name: Vec<u8>, head: Head, body: Body, link: Option<u64>, share: Share, left: usize },
    Link { name: Vec<u8>, inode: u64 },
}

/// What a file has to do with others of its content.
#[derive(Clone, Copy)]
enum Share {
    Nothing,
    /// It brings the content with this number.
    Brings(u64),
    /// It has the content that was brought before.
    Takes(u64),
}

/// The file whose data comes.
struct Assembly {
    sequence: u64,
    len: u64,
    /// Where data lies, and which of these it comes from now.
    data: Vec<Range<u64>>,
    range: usize,
    /// Where in the file the next byte of data lies.
    offset: u64,
    /// The block that is being filled.
    block: Option<(u64, Vec<u8>)>,
    /// Bytes of the blocks that are over; the rest of the file lies in holes.
    given_len: u64,
}

/// A block to be compressed, and whose it is.
struct Job {
    owner: Owner,
    plain: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Owner {
    /// A block of the file that waits with this sequence number.
    File(u64, u64),
    Fragments(usize),
}

struct Done {
    owner: Owner,
    stored: Vec<u8>,
    is_plain: bool,
}

impl<W: Write + Seek> SquashfsWriter<W> {
    /// Writes an image to `out`, which is empty.
    ///
    /// # Errors
    /// Options that SquashFS does not have; nothing was written then.
    pub fn new(mut out: W, options: &SquashfsOptions) -> io::Result<Self> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let packer = options.packer().map_err(invalid)?;
        out.write_all(&[0; SUPERBLOCK_LEN])?;
        let mut at = SUPERBLOCK_LEN as u64;
        if packer.compressor == Some(Compressor::Lz4) {
            // LZ4 says its version, which is 1, in a block of metadata.
            out.write_all(&(8 | METADATA_PLAIN as u16).to_le_bytes())?;
            out.write_all(&[1, 0, 0, 0, 0, 0, 0, 0])?;
            at += 10;
        }
        let work = move |job: Job| {
            let (stored, is_plain) = packer.pack(job.plain)?;
            Ok(Done { owner: job.owner, stored, is_plain })
        };
        Ok(Self {
            out,
            at,
            packer,
            pool: Ordered::new(options.threads, work),
            waiting: VecDeque::new(),
            first_waiting: 0,
            on_the_way: Way::new(),
            assembly: None,
            fragment: Vec::new(),
            fragments: Vec::new(),
            contents: HashMap::new(),
            links: HashMap::new(),
            inodes: Blocks::new(packer),
            directories: Blocks::new(packer),
            xattrs: Xattrs::new(packer),
            ids: HashMap::new(),
            id_table: Vec::new(),
            places: Vec::new(),
            open: Vec::new(),
            root: None,
        })
    }

    /// Gives a block to the threads.
    fn give(&mut self, owner: Owner, plain: Vec<u8>) -> io::Result<()> {
        while self.pool.is_full() {
            self.take(true)?;
        }
        self.pool.give(Job { owner, plain })?;
        while self.take(false)? {}
        Ok(())
    }

    /// Writes the oldest block that is compressed; false if there is none.
    fn take(&mut self, waits: bool) -> io::Result<bool> {
        let Some(done) = self.pool.take(waits)? else { return Ok(false) };
        let Done { owner, stored, is_plain } = done?;
        let (start, len) = (self.at, stored_len(stored.len(), is_plain));
        self.out.write_all(&stored)?;
        self.at += stored.len() as u64;
        match owner {
            Owner::Fragments(index) => {
                if let Some(fragment) = self.fragments.get_mut(index) {
                    *fragment = (start, len);
                }
            }
            Owner::File(sequence, index) => {
                let at = sequence.checked_sub(self.first_waiting).map(|at| at as usize);
                let waiting = at.and_then(|at| self.waiting.get_mut(at));
                if let Some(Waiting::Inode { body: Body::File(file), left, .. }) = waiting {
                    *left -= 1;
                    if file.start == 0 {
                        file.start = start;
                    }
                    if let Some(block) = file.blocks.get_mut(index as usize) {
                        *block = len;
                    }
                }
            }
        }
        Ok(true)
    }

    fn wait(&mut self, waiting: Waiting) -> u64 {
        self.waiting.push_back(waiting);
        self.first_waiting + self.waiting.len() as u64 - 1
    }

    /// Puts what does not wait any more into the metadata.
    fn settle(&mut self) -> io::Result<()> {
        while !matches!(self.waiting.front(), None | Some(Waiting::Inode { left: 1.., .. })) {
            let Some(next) = self.waiting.pop_front() else { break };
            self.first_waiting += 1;
            match next {
                Waiting::Enter { name, head } => {
                    self.open.push(OpenDirectory { name, head, names: Vec::new() });
                }
                Waiting::Leave => self.leave()?,
                Waiting::Link { name, inode } => {
                    let &(place, number, short_type) = self
                        .links
                        .get(&inode)
                        .ok_or_else(|| io::Error::other("a link to what was not written"))?;
                    self.add(Name { name, inode: place, number, short_type })?;
                }
                Waiting::Inode { name, head, body, link, share, .. } => {
                    self.inode(name, head, body, link, share)?;
                }
            }
        }
        Ok(())
    }

    fn inode(
        &mut self,
        name: Vec<u8>,
        head: Head,
        mut body: Body,
        link: Option<u64>,
        share: Share,
    ) -> io::Result<()> {
        if let Body::File(file) = &mut body {
            match share {
                Share::Nothing => {}
                Share::Brings(content) => drop(self.contents.insert(content, file.clone())),
                Share::Takes(content) => {
                    let known = self.contents.get(&content).cloned();
                    *file = known.ok_or_else(|| io::Error::other("a content was not given"))?;
                }
            }
        }
        let place = self.place_inode(head.number, &head.inode(&body))?;
        let (number, short_type) = (head.number, head.short_type());
        if let Some(link) = link {
            self.links.insert(link, (place, number, short_type));
        }
        self.add(Name { name, inode: place, number, short_type })
    }

    fn place_inode(&mut self, number: u32, bytes: &[u8]) -> io::Result<MetadataOffset> {
        let place = self.inodes.place();
        if place.block > u64::from(u32::MAX) {
            return Err(io::Error::other("inodes of more than 4 GiB"));
        }
        self.inodes.write(bytes)?;
        if let Some(at) = self.places.get_mut(number as usize - 1) {
            *at = place.reference();
        }
        Ok(place)
    }

    fn add(&mut self, name: Name) -> io::Result<()> {
        let parent = self.open.last_mut();
        parent.ok_or_else(|| io::Error::other("an entry without a directory"))?.names.push(name);
        Ok(())
    }

    /// Writes the directory that is complete.
    fn leave(&mut self) -> io::Result<()> {
        let Some(OpenDirectory { name, mut head, names }) = self.open.pop() else {
            return Ok(());
        };
        let short_type = head.short_type();
        let below = names.iter().filter(|name| name.short_type == short_type).count();
        head.link_count = u32::try_from(below + 2).unwrap_or(u32::MAX);
        let list = write_list(&mut self.directories, &names)?;
        if list.place.block > u64::from(u32::MAX) {
            return Err(io::Error::other("directories of more than 4 GiB"));
        }
        // The directory above the top is one that no inode is.
        let parent = match self.open.last() {
            Some(parent) => parent.head.number,
            None => self.places.len() as u32 + 1,
        };
        let number = head.number;
        let inode = self.place_inode(number, &head.directory(&list, parent))?;
        if self.open.is_empty() {
            self.root = Some((inode, head.mtime));
            return Ok(());
        }
        self.add(Name { name, inode, number, short_type })
    }

    fn id(&mut self, id: u32) -> io::Result<u16> {
        if let Some(&index) = self.ids.get(&id) {
            return Ok(index);
        }
        let index = self.ids.len();
        if index >= ID_COUNT_MAX {
            let what = "there are more owners and groups than the 65535 that SquashFS holds; \
                        tar holds them";
            return Err(io::Error::other(what));
        }
        self.ids.insert(id, index as u16);
        self.id_table.extend_from_slice(&id.to_le_bytes());
        Ok(index as u16)
    }

    fn head(&mut self, entry: &ArchiveEntry<'_>, taken: &mut Taken) -> io::Result<Head> {
        let metadata = entry.metadata;
        taken.lose_xattrs(entry.xattrs, keeps_xattr);
        let number = u32::try_from(self.places.len() + 1);
        let number = number.ok().filter(|&number| number < u32::MAX - 1);
        let number = number.ok_or_else(|| io::Error::other("more than 4294967293 inodes"))?;
        self.places.push(0);
        Ok(Head {
            kind: metadata.kind,
            permissions: metadata.permissions as u16,
            uid_index: self.id(metadata.uid)?,
            gid_index: self.id(metadata.gid)?,
            mtime: seconds(metadata.mtime, taken),
            number,
            link_count: u32::try_from(entry.link_count).unwrap_or(u32::MAX),
            xattr_set: self.xattrs.set(entry.xattrs)?,
        })
    }

    /// What differs by kind; `Err` says why the entry cannot be in.
    fn body(&self, entry: &ArchiveEntry<'_>) -> Result<Body, String> {
        let metadata = entry.metadata;
        Ok(match metadata.kind {
            InodeKind::File => {
                let block_count = metadata.len.div_ceil(u64::from(self.packer.block_len));
                if block_count > BLOCK_COUNT_MAX {
                    return Err(format!(
                        "left out: {} bytes are {block_count} blocks, {BLOCK_COUNT_MAX} are \
                         possible; larger blocks may help",
                        metadata.len
                    ));
                }
                let blocks = match entry.is_repeat {
                    true => Vec::new(),
                    false => vec![0; block_count as usize],
                };
                Body::File(FileBody { len: metadata.len, blocks, ..FileBody::default() })
            }
            InodeKind::Symlink if entry.target.len() > TARGET_LEN_MAX => {
                return Err(format!("left out: its target has {} bytes", entry.target.len()));
            }
            InodeKind::Symlink => Body::Symlink(entry.target.to_vec()),
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                let (major, minor) = device_parts(metadata.device);
                if major > 0xfff || minor > 0xf_ffff {
                    return Err(format!(
                        "left out: there is no device {major}:{minor} in SquashFS"
                    ));
                }
                // As Linux packs it into 32 bits.
                Body::Device(minor & 0xff | major << 8 | (minor & !0xff) << 12)
            }
            InodeKind::Directory | InodeKind::Fifo | InodeKind::Socket => Body::Other,
        })
    }

    /// Leaves the directories that `path` is not in.
    fn climb(&mut self, path: &[u8]) {
        for _ in 0..self.on_the_way.climb(path) {
            self.wait(Waiting::Leave);
        }
    }

    /// Ends the block that is being filled: gives it away, or takes it for a tail.
    fn end_block(&mut self, assembly: &mut Assembly) -> io::Result<()> {
        let Some((index, mut block)) = assembly.block.take() else { return Ok(()) };
        let block_len = u64::from(self.packer.block_len);
        let plain_len = block_len.min(assembly.len - index * block_len) as usize;
        block.resize(plain_len, 0);
        assembly.given_len += plain_len as u64;
        let at = assembly.sequence.checked_sub(self.first_waiting).map(|at| at as usize);
        let Some(Waiting::Inode { body: Body::File(file), left, .. }) =
            at.and_then(|at| self.waiting.get_mut(at))
        else {
            return Err(io::Error::other("data without a file"));
        };
        if plain_len as u64 == block_len {
            *left += 1;
            return self.give(Owner::File(assembly.sequence, index), block);
        }
        let is_full = self.fragment.len() + plain_len > block_len as usize;
        let number = self.fragments.len() + usize::from(is_full);
        let offset = if is_full { 0 } else { self.fragment.len() };
        file.tail = Some((number as u32, offset as u32));
        file.blocks.pop();
        if is_full {
            self.end_fragments()?;
        }
        self.fragment.extend_from_slice(&block);
        Ok(())
    }

    fn end_fragments(&mut self) -> io::Result<()> {
        if self.fragment.is_empty() {
            return Ok(());
        }
        let plain = std::mem::take(&mut self.fragment);
        self.fragments.push((0, 0));
        self.give(Owner::Fragments(self.fragments.len() - 1), plain)
    }

    /// Writes a table: its blocks, then where each is. Gives the place of the latter.
    fn write_table(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let (stored, starts) = table(self.packer, bytes)?;
        let base = self.at;
        self.write(&stored)?;
        let list_at = self.at;
        let list: Vec<u8> = starts.iter().flat_map(|start| (base + start).to_le_bytes()).collect();
        self.write(&list)?;
        Ok(list_at)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn write_xattrs(&mut self) -> io::Result<u64> {
        let xattrs = std::mem::replace(&mut self.xattrs, Xattrs::new(self.packer));
        if xattrs.sets.is_empty() {
            return Ok(u64::MAX);
        }
        let pairs_at = self.at;
        self.write(&xattrs.pairs.finish()?)?;
        let (stored, starts) = table(self.packer, &xattrs.sets)?;
        let base = self.at;
        self.write(&stored)?;
        let table_at = self.at;
        let mut head = pairs_at.to_le_bytes().to_vec();
        head.extend_from_slice(&((xattrs.sets.len() / 16) as u32).to_le_bytes());
        head.extend_from_slice(&[0; 4]);
        head.extend(starts.iter().flat_map(|start| (base + start).to_le_bytes()));
        self.write(&head)?;
        Ok(table_at)
    }
}

impl<W: Write + Seek> Archive for SquashfsWriter<W> {
    fn keeps(&self) -> Keeps {
        Keeps { holes: true, hard_links: true, shared_contents: true }
    }

    fn entry(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<Taken> {
        self.climb(entry.path);
        let name = entry.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
        if entry.hard_link.is_some() {
            let inode = entry.inode;
            self.wait(Waiting::Link { name, inode });
            self.settle()?;
            return Ok(Taken::whole());
        }
        let body = match self.body(entry) {
            Ok(body) => body,
            Err(why) => return Ok(Taken::not(why)),
        };
        let mut taken = Taken::whole();
        let head = self.head(entry, &mut taken)?;
        if entry.metadata.kind == InodeKind::Directory {
            self.on_the_way.enter(entry.path, ());
            self.wait(Waiting::Enter { name, head });
            self.settle()?;
            return Ok(taken);
        }
        let share = match (entry.content, entry.is_repeat) {
            (0, _) => Share::Nothing,
            (content, false) => Share::Brings(content),
            (content, true) => Share::Takes(content),
        };
        let link = (entry.link_count > 1).then_some(entry.inode);
        let is_file = matches!(body, Body::File(_)) && !entry.is_repeat;
        // One more is left than blocks are on their way, until all were given.
        let left = usize::from(is_file);
        let sequence = self.wait(Waiting::Inode { name, head, body, link, share, left });
        match is_file {
            true => {
                let (len, data) = (entry.metadata.len, entry.data.to_vec());
                let offset = data.first().map_or(0, |range| range.start);
                self.assembly = Some(Assembly {
                    sequence,
                    len,
                    data,
                    range: 0,
                    offset,
                    block: None,
                    given_len: 0,
                });
            }
            false => self.settle()?,
        }
        Ok(taken)
    }

    fn data(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let too_much = || io::Error::other("more data than the entry has");
        let mut assembly = self.assembly.take().ok_or_else(too_much)?;
        let block_len = u64::from(self.packer.block_len);
        while !bytes.is_empty() {
            let range = assembly.data.get(assembly.range).cloned().ok_or_else(too_much)?;
            if assembly.offset >= range.end {
                assembly.range += 1;
                let next = assembly.data.get(assembly.range).ok_or_else(too_much)?;
                assembly.offset = next.start;
                continue;
            }
            let index = assembly.offset / block_len;
            if assembly.block.as_ref().is_some_and(|(current, _)| *current != index) {
                self.end_block(&mut assembly)?;
            }
            let start = (assembly.offset % block_len) as usize;
            let room = (block_len - assembly.offset % block_len).min(range.end - assembly.offset);
            let len = bytes.len().min(room as usize);
            let (now, rest) = bytes.split_at(len);
            let (_, block) = assembly
                .block
                .get_or_insert_with(|| (index, Vec::with_capacity(block_len as usize)));
            // What lies between is a hole.
            block.resize(start, 0);
            block.extend_from_slice(now);
            assembly.offset += len as u64;
            bytes = rest;
        }
        self.assembly = Some(assembly);
        Ok(())
    }

    fn end_entry(&mut self) -> io::Result<()> {
        let Some(mut assembly) = self.assembly.take() else { return Ok(()) };
        let is_complete = assembly.data.last().is_none_or(|range| {
            range.end == assembly.offset && assembly.range + 1 == assembly.data.len()
        });
        if !is_complete {
            return Err(io::Error::other("less data than the entry has"));
        }
        self.end_block(&mut assembly)?;
        let at = assembly.sequence.checked_sub(self.first_waiting).map(|at| at as usize);
        if let Some(Waiting::Inode { body: Body::File(file), left, .. }) =
            at.and_then(|at| self.waiting.get_mut(at))
        {
            *left -= 1;
            file.hole_len = assembly.len - assembly.given_len;
        }
        self.settle()
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        while self.on_the_way.leave().is_some() {
            self.wait(Waiting::Leave);
        }
        self.end_fragments()?;
        while self.take(true)? {}
        self.settle()?;
        let (root, mtime) = self.root.ok_or_else(|| io::Error::other("there is nothing in it"))?;
        let empty = || Blocks::new(self.packer);
        let inodes = std::mem::replace(&mut self.inodes, empty()).finish()?;
        let directories = std::mem::replace(&mut self.directories, empty()).finish()?;
        let inode_table = self.at;
        self.write(&inodes)?;
        let directory_table = self.at;
        self.write(&directories)?;
        let fragments: Vec<u8> = self
            .fragments
            .iter()
            .flat_map(|(start, len)| {
                [&start.to_le_bytes()[..], &len.to_le_bytes(), &[0; 4]].concat()
            })
            .collect();
        let fragment_table = self.write_table(&fragments)?;
        let places: Vec<u8> = self.places.iter().flat_map(|place| place.to_le_bytes()).collect();
        let export_table = self.write_table(&places)?;
        let ids = std::mem::take(&mut self.id_table);
        let id_table = self.write_table(&ids)?;
        let xattr_table = self.write_xattrs()?;
        let bytes_used = self.at;
        let padding = bytes_used.next_multiple_of(END_UNIT) - bytes_used;
        self.write(&vec![0; padding as usize])?;

        let compressor = self.packer.compressor;
        let flags = FLAG_SHARED
            | FLAG_EXPORTABLE
            | if compressor.is_none() { FLAG_PLAIN } else { 0 }
            | if self.fragments.is_empty() { FLAG_NO_FRAGMENTS } else { 0 }
            | if xattr_table == u64::MAX { FLAG_NO_XATTRS } else { 0 }
            | if compressor == Some(Compressor::Lz4) { FLAG_OPTIONS } else { 0 };
        let mut superblock = MAGIC.to_vec();
        let block_len = self.packer.block_len;
        for value in [self.places.len() as u32, mtime, block_len, self.fragments.len() as u32] {
            superblock.extend_from_slice(&value.to_le_bytes());
        }
        let compressor = compressor.unwrap_or(Compressor::Gzip).number();
        let id_count = self.ids.len() as u16;
        for value in [compressor, block_len.ilog2() as u16, flags, id_count, 4, 0] {
            superblock.extend_from_slice(&value.to_le_bytes());
        }
        let tables = [
            root.reference(),
            bytes_used,
            id_table,
            xattr_table,
            inode_table,
            directory_table,
            fragment_table,
            export_table,
        ];
        superblock.extend(tables.iter().flat_map(|place| place.to_le_bytes()));
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&superblock)?;
        self.out.flush()
    }
}
