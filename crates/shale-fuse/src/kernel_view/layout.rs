//! Lays out a tree in the virtual EROFS image.
//!
//! The image has three parts: the superblock with all inodes, the blocks of large directories and
//! long links, and the data of files. The first two are built here and kept in memory, about 100
//! bytes for each entry. For the data only the offsets are decided; the bytes are read on demand.
//!
//! The inodes of one directory lie together. Each is followed by its attributes and by its link
//! target or last directory block. The children of a directory come before their own children, so a
//! walk reads the metadata from front to back. Each content starts at a block boundary, in the
//! order of the view's content keys. Files of equal content share one place, and so their pages.

use crate::options::Options;
use crate::view::{
    Attributes, MODE_DIRECTORY, MODE_FILE, MODE_SYMLINK, MODE_TYPE_MASK, ROOT, Seek, View,
    ViewError,
};
use shale_erofs::{
    BLOCK_BITS, BLOCK_LEN, DIRENT_LEN, DataLayout, DirectorySize, Dirent, HOLE, INODE_LEN, Inode,
    SLOT_LEN, SUPERBLOCK_OFFSET, Superblock, Unheld, Xattrs,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Inode count above which metadata is better served through FUSE than built at mount time.
const INODE_COUNT_MAX: u64 = 3_000_000;
/// Blocks of an EROFS image with 32-bit addresses, without the null address.
const BLOCK_COUNT_MAX: u64 = u32::MAX as u64 - 1;
/// Chunks of one file: a map of 16 MiB, enough for 16 GiB in chunks of one block.
const CHUNK_COUNT_MAX: u64 = 1 << 22;
/// Limit of metadata in memory, in bytes. It exists twice during the layout: as read from the view
/// and as encoded for the kernel. Tests use a smaller limit to be able to reach it.
const METADATA_LEN_MAX: u64 = if cfg!(test) { 1 << 20 } else { 1 << 30 };
/// Entries to read from a directory at once; their attributes are held in memory meanwhile.
const LIST_COUNT_MAX: usize = 4096;
/// The entries that every directory has.
const DOTS: [&[u8]; 2] = [b".", b".."];
/// Largest chunk the format knows, in bits; no file needs larger ones.
const CHUNK_BITS_MAX: u8 = BLOCK_BITS + 31;
/// The block at which the numbers of inodes begin.
const META_BLOCK: u32 = 1;
/// Version of the placement of inodes. Change it when the placement changes: the place of an inode
/// is its number, and UUID and number together identify the inode for ever.
const NUMBERING: u8 = 1;

/// The encoded metadata, and where the data lies.
pub(super) struct Layout {
    /// The image from its start to the first content.
    pub(super) metadata: Vec<u8>,
    /// In the order of `start`.
    pub(super) files: Vec<DataFile>,
    /// Bytes of the whole image.
    pub(super) len: u64,
    pub(super) inode_count: u64,
}

/// A content in the image.
#[derive(Debug, Clone, Copy)]
pub(super) struct DataFile {
    /// Where it starts in the image.
    pub(super) start: u64,
    pub(super) len: u64,
    /// A file of the view with this content.
    pub(super) inode: u64,
}

/// The part of an inode beside its attributes.
enum Body {
    Nothing,
    Device(u32),
    /// The target of a link, which follows the inode or lies in a block.
    Target(Vec<u8>),
    Directory(Range<usize>),
    /// A content, by index.
    File(usize),
    /// A content with holes: the chunk length is 2^`bits`, and `data` tells which chunks are data.
    Sparse {
        file: usize,
        bits: u8,
        data: Vec<bool>,
    },
}

struct Node {
    attributes: Attributes,
    /// Parent of a directory, by index.
    parent: usize,
    xattrs: Vec<u8>,
    body: Body,
    len: u64,
    layout: DataLayout,
    /// Offset in the area of inodes; 0 until it is placed, since no inode lies there.
    at: u64,
    /// Index of its first block in the area of large directories and links.
    block: u64,
}

/// No larger than its encoded form, so that the limit of metadata bounds the entries in memory too.
/// The same limit keeps names and nodes below 2^32.
struct Entry {
    /// Offset in the pool of names.
    name_start: u32,
    name_end: u32,
    node: u32,
}

impl Entry {
    fn name<'n>(&self, names: &'n [u8]) -> &'n [u8] {
        &names[self.name_start as usize..self.name_end as usize]
    }
}

struct Plan<'v> {
    view: &'v dyn View,
    options: &'v Options,
    cancel: &'v AtomicBool,
    has_xattrs: bool,
    nodes: Vec<Node>,
    by_inode: HashMap<u64, usize>,
    entries: Vec<Entry>,
    names: Vec<u8>,
    /// For each content: its key, one file with it, its length.
    contents: Vec<(u64, u64, u64)>,
    by_content: HashMap<u64, usize>,
    has_chunks: bool,
    /// Lower bound of the metadata bytes of everything read so far.
    known_len: u64,
    /// End of the placed inodes, and count of the blocks outside that area.
    end: u64,
    block_count: u64,
}

/// Lays out the tree of `view`. Reads all its metadata and no data.
///
/// # Errors
/// The reason, in words, why the kernel's EROFS cannot show this tree, or that `cancel` became
/// true.
pub(super) fn layout(
    view: &dyn View,
    options: &Options,
    cancel: &AtomicBool,
) -> Result<Layout, String> {
    let inode_count = view.totals().inode_count;
    if inode_count > INODE_COUNT_MAX {
        return Err(format!("it has {inode_count} inodes, and {INODE_COUNT_MAX} is the limit"));
    }
    let mut plan = Plan {
        view,
        options,
        cancel,
        has_xattrs: view.xattr_use().any,
        nodes: Vec::new(),
        by_inode: HashMap::new(),
        entries: Vec::new(),
        names: Vec::new(),
        contents: Vec::new(),
        by_content: HashMap::new(),
        has_chunks: false,
        known_len: 0,
        // No inode has number 0: programs take it for a deleted entry.
        end: 2 * SLOT_LEN,
        block_count: 0,
    };
    let root = plan.node(view.attributes(ROOT).map_err(failed)?, 0)?;
    plan.list(root)?;
    plan.place(root)?;
    plan.place_below(root)?;
    plan.finish(root)
}

fn failed(error: ViewError) -> String {
    format!("its metadata cannot be read: {error}")
}

/// Checks a length of metadata against the limit.
fn check_len(len: u64) -> Result<(), String> {
    if len > METADATA_LEN_MAX {
        return Err("its metadata takes more than 1 GiB of memory".into());
    }
    Ok(())
}

impl Plan<'_> {
    /// Fails if the layout was cancelled. Called in every loop that may run millions of times.
    fn check_cancel(&self) -> Result<(), String> {
        if self.cancel.load(Relaxed) { Err("the layout was cancelled".into()) } else { Ok(()) }
    }

    /// Counts `len` more bytes of metadata. Fails as soon as the limit is exceeded, and not only
    /// when the bytes are placed: one directory may have more entries than fit in memory.
    fn count(&mut self, len: u64) -> Result<(), String> {
        self.check_cancel()?;
        self.known_len = self.known_len.saturating_add(len);
        check_len(self.known_len)
    }

    /// Returns the node of an inode, and adds it if it is new.
    fn node(&mut self, attributes: Attributes, parent: usize) -> Result<usize, String> {
        if let Some(&node) = self.by_inode.get(&attributes.inode) {
            return Ok(node);
        }
        let attributes = Attributes {
            uid: self.options.uid.unwrap_or(attributes.uid),
            gid: self.options.gid.unwrap_or(attributes.gid),
            ..attributes
        };
        if attributes.atime != attributes.mtime || attributes.ctime != attributes.mtime {
            return Err("it keeps access or change times, EROFS only modification times".into());
        }
        if u32::try_from(attributes.link_count).is_err() {
            return Err("an inode has more links than EROFS can count".into());
        }
        let inode = attributes.inode;
        let xattrs = if self.has_xattrs { self.xattrs(inode)? } else { Vec::new() };
        let (body, len) = match attributes.mode & MODE_TYPE_MASK {
            MODE_DIRECTORY => (Body::Directory(0..0), 0),
            MODE_SYMLINK => {
                let target = self.view.link_target(inode).map_err(failed)?;
                let len = target.len() as u64;
                (Body::Target(target), len)
            }
            MODE_FILE => (self.file(&attributes)?, attributes.len),
            0o060000 | 0o020000 => match shale_erofs::device(attributes.device) {
                Some(device) => (Body::Device(device), 0),
                None => return Err("a device has a number that is too large for EROFS".into()),
            },
            _ => (Body::Nothing, 0),
        };
        let (layout, body_len) = match &body {
            Body::Sparse { data, .. } => (DataLayout::Chunks, 4 * data.len()),
            Body::Target(target) => (DataLayout::Plain, target.len()),
            _ => (DataLayout::Plain, 0),
        };
        self.count(INODE_LEN + (xattrs.len() + body_len) as u64)?;
        let node = self.nodes.len();
        self.nodes.push(Node { attributes, parent, xattrs, body, len, layout, at: 0, block: 0 });
        self.by_inode.insert(inode, node);
        Ok(node)
    }

    fn xattrs(&self, inode: u64) -> Result<Vec<u8>, String> {
        let mut names = Vec::new();
        self.view.xattr_names(inode, &mut |name| names.push(name.to_vec())).map_err(failed)?;
        let mut out = Xattrs::default();
        for name in names {
            let Some(value) = self.view.xattr(inode, &name).map_err(failed)? else { continue };
            let shown = name.escape_ascii();
            out.add(&name, &value).map_err(|why| match why {
                Unheld::Prefix => format!("EROFS has no place for the attribute {shown}"),
                Unheld::Length => format!("the attribute {shown} is too long for EROFS"),
                Unheld::Total => "the attributes of a file are too long for EROFS".into(),
            })?;
        }
        Ok(out.into_bytes())
    }

    /// Returns the content of a file, with its holes.
    fn file(&mut self, attributes: &Attributes) -> Result<Body, String> {
        let (inode, len) = (attributes.inode, attributes.len);
        if len == 0 {
            return Ok(Body::Nothing);
        }
        let key = self.view.content_key(inode).map_err(failed)?;
        let file = *self.by_content.entry(key).or_insert(self.contents.len());
        if file == self.contents.len() {
            self.contents.push((key, inode, len));
        }
        if attributes.data_len >= len {
            return Ok(Body::File(file));
        }
        let holes = self.holes(inode, len)?;
        // The largest chunk length that divides the ends of all holes, but at least a block, since
        // EROFS cannot show a hole that begins or ends within a block.
        let common = holes.iter().flat_map(|hole| [hole.start, hole.end]).filter(|&at| at < len);
        let bits = common.map(|at| at.trailing_zeros() as u8).min().unwrap_or(CHUNK_BITS_MAX);
        let bits = bits.clamp(BLOCK_BITS, CHUNK_BITS_MAX);
        let chunk_count = len.div_ceil(1 << bits);
        if chunk_count > CHUNK_COUNT_MAX {
            return Err("a file has too many holes for EROFS".into());
        }
        let mut data = vec![true; chunk_count as usize];
        for hole in holes {
            let first = hole.start.div_ceil(1 << bits);
            let end = if hole.end >= len { chunk_count } else { hole.end >> bits };
            if first < end {
                data[first as usize..end as usize].fill(false);
            }
        }
        self.has_chunks = true;
        Ok(Body::Sparse { file, bits, data })
    }

    fn holes(&self, inode: u64, len: u64) -> Result<Vec<Range<u64>>, String> {
        let mut holes = Vec::new();
        let mut at = 0;
        while let Some(start) = self.view.seek(inode, at, Seek::Hole).map_err(failed)? {
            self.check_cancel()?;
            if start >= len {
                break;
            }
            let end = self.view.seek(inode, start, Seek::Data).map_err(failed)?.unwrap_or(len);
            if end <= start || holes.len() as u64 >= CHUNK_COUNT_MAX {
                return Err("a file has too many holes for EROFS".into());
            }
            holes.push(start..end);
            at = end;
        }
        Ok(holes)
    }

    /// Reads the entries of a directory and adds their nodes.
    fn list(&mut self, node: usize) -> Result<(), String> {
        let first = self.entries.len();
        while self.list_some(node, (self.entries.len() - first) as u64)? {}
        let names = &self.names;
        self.entries[first..].sort_by(|a, b| a.name(names).cmp(b.name(names)));
        let mut size = DirectorySize::default();
        let mut dots = DOTS.into_iter().peekable();
        for entry in &self.entries[first..] {
            let name = entry.name(names);
            while let Some(dot) = dots.next_if(|dot| *dot < name) {
                size.add(dot.len());
            }
            size.add(name.len());
        }
        dots.for_each(|dot| size.add(dot.len()));
        self.nodes[node].body = Body::Directory(first..self.entries.len());
        self.nodes[node].len = size.len();
        Ok(())
    }

    /// Reads some entries of a directory after the first `count`. Returns false if there are no
    /// more.
    fn list_some(&mut self, node: usize, count: u64) -> Result<bool, String> {
        let directory = self.nodes[node].attributes.inode;
        let mut found: Vec<(Range<usize>, Attributes)> = Vec::new();
        let names = &mut self.names;
        let mut bad_name = false;
        let each = &mut |entry: crate::view::Entry<'_>| {
            let name = entry.name;
            bad_name |= name.is_empty() || name.len() > 255 || matches!(name, b"." | b"..");
            bad_name |= name.iter().any(|&byte| byte == b'/' || byte == 0);
            let start = names.len();
            names.extend_from_slice(name);
            found.push((start..names.len(), entry.attributes));
            !bad_name && found.len() < LIST_COUNT_MAX
        };
        self.view.list(directory, count, each).map_err(failed)?;
        if bad_name {
            return Err("an entry has an invalid name".into());
        }
        let has_more = found.len() >= LIST_COUNT_MAX;
        for (name, attributes) in found {
            self.count((DIRENT_LEN + name.len()) as u64)?;
            let child = self.node(attributes, node)?;
            // All of these are below the limit that was just checked.
            let (name_start, name_end) = (name.start as u32, name.end as u32);
            self.entries.push(Entry { name_start, name_end, node: child as u32 });
        }
        Ok(has_more)
    }

    /// Places a node in the area of inodes.
    fn place(&mut self, index: usize) -> Result<(), String> {
        let node = &mut self.nodes[index];
        let mut head = INODE_LEN + node.xattrs.len() as u64;
        let mut tail = 0;
        match &node.body {
            Body::Sparse { data, .. } => head += 4 * data.len() as u64,
            Body::Directory(_) | Body::Target(_) => {
                tail = node.len % BLOCK_LEN;
                if tail > 0 && head + tail <= BLOCK_LEN {
                    node.layout = DataLayout::Inline;
                } else {
                    tail = 0;
                }
                let inline_count = u64::from(node.layout == DataLayout::Inline);
                node.block = self.block_count;
                self.block_count += node.len.div_ceil(BLOCK_LEN) - inline_count;
            }
            _ => {}
        }
        // The tail must not cross a block boundary, and the inode itself should not.
        let fits = |at: u64| {
            let inode_fits = at % BLOCK_LEN + INODE_LEN <= BLOCK_LEN;
            inode_fits && (tail == 0 || (at + head) % BLOCK_LEN + tail <= BLOCK_LEN)
        };
        let mut at = self.end;
        while !fits(at) {
            at += SLOT_LEN;
        }
        node.at = at;
        self.end = (at + head + tail).next_multiple_of(SLOT_LEN);
        check_len(self.end.saturating_add(self.block_count.saturating_mul(BLOCK_LEN)))
    }

    /// Places everything below a directory that is placed itself.
    fn place_below(&mut self, root: usize) -> Result<(), String> {
        let mut waiting = vec![root];
        while let Some(directory) = waiting.pop() {
            let Body::Directory(entries) = &self.nodes[directory].body else { continue };
            let entries = entries.clone();
            let below = waiting.len();
            for entry in entries {
                let child = self.entries[entry].node as usize;
                if self.nodes[child].at > 0 {
                    continue; // Another name of a placed inode.
                }
                if matches!(self.nodes[child].body, Body::Directory(_)) {
                    self.list(child)?;
                    waiting.push(child);
                }
                self.place(child)?;
            }
            waiting[below..].reverse();
        }
        Ok(())
    }

    /// Decides where the data lies and encodes the metadata.
    fn finish(mut self, root: usize) -> Result<Layout, String> {
        let meta_block = u64::from(META_BLOCK);
        let blocks_at = meta_block + self.end.div_ceil(BLOCK_LEN);
        let data_at = blocks_at + self.block_count;
        let mut order: Vec<usize> = (0..self.contents.len()).collect();
        order.sort_unstable_by_key(|&file| self.contents[file].0);
        let mut starts = vec![0; self.contents.len()];
        let mut files = Vec::with_capacity(order.len());
        let mut end = data_at;
        for file in order {
            let (_, inode, len) = self.contents[file];
            starts[file] = end;
            files.push(DataFile { start: end * BLOCK_LEN, len, inode });
            end = end.saturating_add(len.div_ceil(BLOCK_LEN));
        }
        if end > BLOCK_COUNT_MAX {
            return Err("it is larger than an EROFS image, 16 TiB".into());
        }
        let mut metadata = vec![0; (data_at * BLOCK_LEN) as usize];
        let inode_count = self.nodes.len() as u64;
        let root_slot = (self.nodes[root].at / SLOT_LEN) as u16; // Placed first.
        let superblock = Superblock {
            uuid: uuid(self.view.id()),
            label: *b"shale\0\0\0\0\0\0\0\0\0\0\0",
            root_slot,
            inode_count,
            block_count: end as u32,
            meta_block: META_BLOCK,
            has_chunks: self.has_chunks,
            has_mtime: false,
        };
        let mut put = |at: u64, bytes: &[u8]| {
            let at = at as usize;
            metadata[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(SUPERBLOCK_OFFSET, &superblock.encode());
        let nodes = std::mem::take(&mut self.nodes);
        for (index, node) in nodes.iter().enumerate() {
            self.check_cancel()?;
            let at = meta_block * BLOCK_LEN + node.at;
            let place = match node.body {
                Body::Nothing => 0,
                Body::Device(device) => device,
                // Below `end`, which fits in 32 bits.
                Body::Target(_) | Body::Directory(_) => (blocks_at + node.block) as u32,
                Body::File(file) => starts[file] as u32,
                Body::Sparse { bits, .. } => shale_erofs::chunk_format(bits),
            };
            let attributes = &node.attributes;
            let inode = Inode {
                layout: node.layout,
                mode: attributes.mode as u16,
                len: node.len,
                place,
                number: index as u32 + 1,
                uid: attributes.uid,
                gid: attributes.gid,
                mtime: (attributes.mtime.sec, attributes.mtime.nsec),
                link_count: attributes.link_count as u32, // Checked in `node`.
                xattrs_len: node.xattrs.len(),
            };
            put(at, &inode.encode());
            put(at + INODE_LEN, &node.xattrs);
            let after = at + INODE_LEN + node.xattrs.len() as u64;
            let block = (blocks_at + node.block) * BLOCK_LEN;
            let mut put_body = |bytes: &[u8]| {
                let inline = match node.layout {
                    DataLayout::Inline => bytes.len() % BLOCK_LEN as usize,
                    _ => 0,
                };
                let (blocks, tail) = bytes.split_at(bytes.len() - inline);
                put(block, blocks);
                put(after, tail);
            };
            match &node.body {
                Body::Target(target) => put_body(target),
                Body::Directory(entries) => {
                    put_body(&self.directory(&nodes, node, &self.entries[entries.clone()]));
                }
                Body::Sparse { file, bits, data } => {
                    let step = 1u64 << (bits - BLOCK_BITS);
                    let map = data.iter().enumerate().flat_map(|(chunk, &is_data)| {
                        let start = starts[*file] + chunk as u64 * step;
                        if is_data { start as u32 } else { HOLE }.to_le_bytes()
                    });
                    put(after, &map.collect::<Vec<u8>>());
                }
                _ => {}
            }
        }
        Ok(Layout { metadata, files, len: end * BLOCK_LEN, inode_count })
    }

    /// Encodes the blocks of a directory, with `.` and `..` in their places by name.
    fn directory(&self, nodes: &[Node], node: &Node, entries: &[Entry]) -> Vec<u8> {
        let slot = |node: &Node| node.at / SLOT_LEN;
        let dot = |name, node| Dirent { name, slot: slot(node), mode: MODE_DIRECTORY };
        let mut dots =
            [dot(DOTS[0], node), dot(DOTS[1], &nodes[node.parent])].into_iter().peekable();
        let mut entries = entries.iter().peekable();
        let lines = std::iter::from_fn(|| {
            let next = entries.peek().map(|entry| entry.name(&self.names));
            if let Some(dot) = dots.next_if(|dot| next.is_none_or(|next| dot.name < next)) {
                return Some(dot);
            }
            let entry = entries.next()?;
            let child = &nodes[entry.node as usize];
            let name = entry.name(&self.names);
            Some(Dirent { name, slot: slot(child), mode: child.attributes.mode })
        });
        shale_erofs::directory(lines)
    }
}

/// Makes the UUID of the file system from `id`; zeroes remain zeroes.
fn uuid(mut id: [u8; 16]) -> [u8; 16] {
    if id == [0; 16] {
        return id;
    }
    id[15] ^= NUMBERING;
    shale_erofs::uuid(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_numbering_and_zeroes_remain_zeroes() {
        assert_eq!(uuid([0; 16]), [0; 16]);
        assert_eq!(uuid([0xFF; 16])[15], 0xFF ^ NUMBERING);
    }

    use crate::view::{MODE_DIRECTORY, Time, Totals, XattrUse};
    use std::sync::atomic::AtomicU64;

    /// A directory with one file under very many names, and attributes of any size.
    struct Links {
        count: u64,
        asked: AtomicU64,
        inode_count: u64,
        value_len: usize,
        /// Becomes true when `cancel_at` entries were read.
        cancel: AtomicBool,
        cancel_at: u64,
    }

    impl Links {
        fn new(count: u64) -> Self {
            Self {
                count,
                asked: AtomicU64::new(0),
                inode_count: 2,
                value_len: 0,
                cancel: AtomicBool::new(false),
                cancel_at: u64::MAX,
            }
        }

        fn lay_out(&self) -> Result<Layout, String> {
            layout(self, &Options::default(), &self.cancel)
        }
    }

    impl View for Links {
        fn attributes(&self, inode: u64) -> Result<Attributes, ViewError> {
            Ok(Attributes {
                inode,
                mode: if inode == ROOT { MODE_DIRECTORY } else { MODE_FILE },
                link_count: 2,
                uid: 0,
                gid: 0,
                device: (0, 0),
                len: 0,
                data_len: 0,
                atime: Time::default(),
                mtime: Time::default(),
                ctime: Time::default(),
            })
        }

        fn list(
            &self,
            _: u64,
            first: u64,
            each: &mut dyn FnMut(crate::view::Entry<'_>) -> bool,
        ) -> Result<(), ViewError> {
            for n in first..self.count {
                if self.asked.fetch_add(1, Relaxed) + 1 == self.cancel_at {
                    self.cancel.store(true, Relaxed);
                }
                let attributes = self.attributes(2 + n % (self.inode_count - 1))?;
                // Every third name is shorter, so that entries are not in the order of their names.
                let name = if n % 3 == 0 { format!("{n}") } else { format!("{n:010}") };
                if !each(crate::view::Entry { name: name.as_bytes(), attributes }) {
                    break;
                }
            }
            Ok(())
        }

        fn xattr_names(&self, _: u64, each: &mut dyn FnMut(&[u8])) -> Result<(), ViewError> {
            each(b"user.a");
            Ok(())
        }

        fn xattr(&self, _: u64, _: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
            Ok(Some(vec![7; self.value_len]))
        }

        fn totals(&self) -> Totals {
            Totals { len: 0, inode_count: self.inode_count }
        }

        fn xattr_use(&self) -> XattrUse {
            XattrUse { any: self.value_len > 0, acl: false, trusted: false }
        }

        fn lookup(&self, _: u64, _: &[u8]) -> Result<Option<Attributes>, ViewError> {
            Err(ViewError::NotFound)
        }

        fn parent(&self, _: u64) -> Result<u64, ViewError> {
            Ok(ROOT)
        }

        fn link_target(&self, _: u64) -> Result<Vec<u8>, ViewError> {
            Err(ViewError::WrongKind)
        }

        fn read(&self, _: u64, _: u64, _: &mut [u8]) -> Result<usize, ViewError> {
            Err(ViewError::WrongKind)
        }

        fn seek(&self, _: u64, _: u64, _: Seek) -> Result<Option<u64>, ViewError> {
            Err(ViewError::WrongKind)
        }
    }

    #[test]
    fn a_directory_is_read_only_up_to_the_limit_of_metadata() {
        let view = Links::new(10_000_000);
        let reason = view.lay_out().map(|_| ()).unwrap_err();
        assert!(reason.contains("1 GiB"), "{reason}");
        // Each takes more than 12 bytes; one step may exceed the limit.
        let asked_max = METADATA_LEN_MAX / 12 + LIST_COUNT_MAX as u64;
        let asked = view.asked.into_inner();
        assert!(asked <= asked_max, "{asked} entries were read");
        // The same holds if attributes, not names, are many.
        let view = Links { inode_count: 100_001, value_len: 60_000, ..Links::new(100_000) };
        let reason = view.lay_out().map(|_| ()).unwrap_err();
        assert!(reason.contains("1 GiB"), "{reason}");
        let asked = view.asked.into_inner();
        assert!(asked <= LIST_COUNT_MAX as u64, "{asked} entries were read");
    }

    #[test]
    fn a_cancelled_layout_does_not_read_the_rest_of_the_tree() {
        let (count, step) = (10 * LIST_COUNT_MAX as u64, LIST_COUNT_MAX as u64);
        for cancel_at in [1, step, 3 * step + 1, count] {
            let view = Links { cancel_at, ..Links::new(count) };
            let reason = view.lay_out().map(|_| ()).unwrap_err();
            assert!(reason.contains("cancelled"), "{reason}");
            let asked = view.asked.into_inner();
            assert!(asked < cancel_at + step, "{asked} entries were read, not {cancel_at}");
        }
    }

    #[test]
    fn a_directory_read_in_steps_is_complete_and_in_order() {
        let count = 3 * LIST_COUNT_MAX as u64 + 7;
        let view = Links::new(count);
        let layout = view.lay_out().unwrap();
        assert_eq!(view.asked.into_inner(), count);
        // In each block, the name offset of the first entry tells the number of entries.
        let mut names = Vec::new();
        for block in layout.metadata.chunks(BLOCK_LEN as usize).skip(2) {
            let number = |at: usize| usize::from(u16::from_le_bytes([block[at], block[at + 1]]));
            let entry_count = number(8) / DIRENT_LEN;
            for entry in 0..entry_count {
                let start = number(entry * DIRENT_LEN + 8);
                let end = match entry + 1 < entry_count {
                    true => number((entry + 1) * DIRENT_LEN + 8),
                    false => start + block[start..].iter().take_while(|byte| **byte != 0).count(),
                };
                names.push(block[start..end].to_vec());
            }
        }
        // The last, partial block follows the inode of the directory.
        assert!(names.len() as u64 > count - 300, "{}", names.len());
        assert!(names.is_sorted() && names[0] == b"." && names[1] == b"..");
    }
}
