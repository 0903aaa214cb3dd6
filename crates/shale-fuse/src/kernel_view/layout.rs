//! Where everything of a tree lies in the virtual EROFS image.
//!
//! The image has three parts: a superblock and all inodes, blocks of large directories and long
//! links, and the data of files. The first two are made here and kept in memory, about 100 bytes an
//! entry; of the third only the places are decided, its bytes are asked for when they are read.
//!
//! Inodes of one directory lie together, each with its attributes, its link target or its last
//! directory block right behind it, and a directory's children come before what is below them: a
//! walk reads the metadata from front to back. Contents start at a block each, in the order in
//! which the view likes them read; files of equal content share one place and so their pages.

use super::erofs::{self, BLOCK_LEN, DataLayout, Dirent, INODE_LEN, Inode, SLOT_LEN};
use crate::options::Options;
use crate::view::{
    Attributes, MODE_DIRECTORY, MODE_FILE, MODE_SYMLINK, MODE_TYPE_MASK, ROOT, Seek, View,
    ViewError,
};
use std::collections::HashMap;
use std::ops::Range;

/// Inodes beyond which the metadata is better asked for through FUSE than made at mount.
const INODE_COUNT_MAX: u64 = 3_000_000;
/// Blocks that an EROFS image can have with 32-bit addresses, the null address aside.
const BLOCK_COUNT_MAX: u64 = u32::MAX as u64 - 1;
/// Chunks of one file: a map of 16 MiB, enough for 16 GiB in which a hole begins at any block.
const CHUNK_COUNT_MAX: u64 = 1 << 22;
/// Bytes of metadata that are kept in memory at most.
const METADATA_LEN_MAX: u64 = 1 << 30;
/// Largest chunk the format knows, in bits; no file needs larger ones.
const CHUNK_BITS_MAX: u8 = erofs::BLOCK_BITS + 31;

/// The metadata, ready to be read, and where the data is.
pub(super) struct Layout {
    /// The image from its start to the first content.
    pub(super) metadata: Vec<u8>,
    /// By place.
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

/// What an inode needs beside its attributes.
enum Body {
    Nothing,
    Device(u32),
    /// A link's target, behind the inode or in a block.
    Target(Vec<u8>),
    Directory(Range<usize>),
    /// A content, by index.
    File(usize),
    /// A content with holes: bits of a chunk, and which chunks are data.
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
    /// Offset among the inodes; 0 until it is placed, as nothing is placed there.
    at: u64,
    /// First of its blocks among the blocks of large directories and links.
    block: u64,
}

struct Entry {
    /// In the pool of names.
    name: Range<usize>,
    node: usize,
}

struct Plan<'v> {
    view: &'v dyn View,
    options: &'v Options,
    has_xattrs: bool,
    nodes: Vec<Node>,
    by_inode: HashMap<u64, usize>,
    entries: Vec<Entry>,
    names: Vec<u8>,
    /// Content key, a file with it, length.
    contents: Vec<(u64, u64, u64)>,
    by_content: HashMap<u64, usize>,
    has_chunks: bool,
    /// End of what is placed among the inodes, and count of blocks elsewhere.
    end: u64,
    block_count: u64,
}

/// Lays out the tree of `view`. Reads all its metadata, no data. An error is the reason why the
/// kernel's EROFS cannot show this tree, in words.
pub(super) fn layout(view: &dyn View, options: &Options) -> Result<Layout, String> {
    let inode_count = view.totals().inode_count;
    if inode_count > INODE_COUNT_MAX {
        return Err(format!("it has {inode_count} inodes; at most {INODE_COUNT_MAX} are laid out"));
    }
    let mut plan = Plan {
        view,
        options,
        has_xattrs: view.xattr_use().any,
        nodes: Vec::new(),
        by_inode: HashMap::new(),
        entries: Vec::new(),
        names: Vec::new(),
        contents: Vec::new(),
        by_content: HashMap::new(),
        has_chunks: false,
        // Nothing has number 0: programs take it for a deleted entry.
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

impl Plan<'_> {
    /// The node of an inode, made if it is new.
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
            0o060000 | 0o020000 => match erofs::device(attributes.device) {
                Some(device) => (Body::Device(device), 0),
                None => return Err("a device has a number that is too large for EROFS".into()),
            },
            _ => (Body::Nothing, 0),
        };
        let layout = match body {
            Body::Sparse { .. } => DataLayout::Chunks,
            _ => DataLayout::Plain,
        };
        let node = self.nodes.len();
        self.nodes.push(Node { attributes, parent, xattrs, body, len, layout, at: 0, block: 0 });
        self.by_inode.insert(inode, node);
        Ok(node)
    }

    fn xattrs(&self, inode: u64) -> Result<Vec<u8>, String> {
        let mut names = Vec::new();
        self.view.xattr_names(inode, &mut |name| names.push(name.to_vec())).map_err(failed)?;
        let mut pairs = Vec::with_capacity(names.len());
        for name in names {
            if let Some(value) = self.view.xattr(inode, &name).map_err(failed)? {
                pairs.push((name, value));
            }
        }
        erofs::xattrs(pairs.iter().map(|(name, value)| (name.as_slice(), value.as_slice())))
    }

    /// The content of a file, with its holes.
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
        // The largest chunk whose ends are those of all holes; at least a block, as EROFS cannot
        // show a hole that begins or ends within one.
        let common = holes.iter().flat_map(|hole| [hole.start, hole.end]).filter(|&at| at < len);
        let bits = common.map(|at| at.trailing_zeros() as u8).min().unwrap_or(CHUNK_BITS_MAX);
        let bits = bits.clamp(erofs::BLOCK_BITS, CHUNK_BITS_MAX);
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

    /// Reads the entries of a directory and makes their nodes.
    fn list(&mut self, node: usize) -> Result<(), String> {
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
            !bad_name
        };
        self.view.list(directory, 0, each).map_err(failed)?;
        if bad_name {
            return Err("an entry has an impossible name".into());
        }
        let names = &self.names;
        found.sort_by(|a, b| names[a.0.clone()].cmp(&names[b.0.clone()]));
        let mut size = erofs::DirectorySize::default();
        let mut dots = [&b"."[..], b".."].into_iter().peekable();
        for (name, _) in &found {
            while let Some(dot) = dots.next_if(|dot| *dot < &names[name.clone()]) {
                size.add(dot.len());
            }
            size.add(name.len());
        }
        dots.for_each(|dot| size.add(dot.len()));
        let first = self.entries.len();
        for (name, attributes) in found {
            let child = self.node(attributes, node)?;
            self.entries.push(Entry { name, node: child });
        }
        self.nodes[node].body = Body::Directory(first..self.entries.len());
        self.nodes[node].len = size.len();
        Ok(())
    }

    /// Gives a node its place among the inodes.
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
        // What follows the inode must not cross a block, and the inode itself had better not.
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
        if self.end.saturating_add(self.block_count.saturating_mul(BLOCK_LEN)) > METADATA_LEN_MAX {
            return Err("its metadata takes more than 1 GiB of memory".into());
        }
        Ok(())
    }

    /// Places all that is below a directory whose own place is decided.
    fn place_below(&mut self, root: usize) -> Result<(), String> {
        let mut waiting = vec![root];
        while let Some(directory) = waiting.pop() {
            let Body::Directory(entries) = &self.nodes[directory].body else { continue };
            let entries = entries.clone();
            let below = waiting.len();
            for entry in entries {
                let child = self.entries[entry].node;
                if self.nodes[child].at > 0 {
                    continue; // Another name of what is placed.
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

    /// Decides where the data lies and writes the metadata.
    fn finish(mut self, root: usize) -> Result<Layout, String> {
        let meta_block = u64::from(erofs::META_BLOCK);
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
        let root_slot = (self.nodes[root].at / SLOT_LEN) as u16; // The first of all.
        let superblock = erofs::superblock(root_slot, inode_count, end as u32, self.has_chunks);
        let mut put = |at: u64, bytes: &[u8]| {
            let at = at as usize;
            metadata[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(erofs::SUPERBLOCK_OFFSET as u64, &superblock);
        let nodes = std::mem::take(&mut self.nodes);
        for (index, node) in nodes.iter().enumerate() {
            let at = meta_block * BLOCK_LEN + node.at;
            let place = match node.body {
                Body::Nothing => 0,
                Body::Device(device) => device,
                // All below `end`, which fits.
                Body::Target(_) | Body::Directory(_) => (blocks_at + node.block) as u32,
                Body::File(file) => starts[file] as u32,
                Body::Sparse { bits, .. } => erofs::chunk_format(bits),
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
                link_count: attributes.link_count as u32, // As was checked.
                xattrs_len: node.xattrs.len(),
            };
            put(at, &inode.encode());
            put(at + INODE_LEN, &node.xattrs);
            let behind = at + INODE_LEN + node.xattrs.len() as u64;
            let block = (blocks_at + node.block) * BLOCK_LEN;
            let mut put_body = |bytes: &[u8]| {
                let inline = match node.layout {
                    DataLayout::Inline => bytes.len() % BLOCK_LEN as usize,
                    _ => 0,
                };
                let (blocks, tail) = bytes.split_at(bytes.len() - inline);
                put(block, blocks);
                put(behind, tail);
            };
            match &node.body {
                Body::Target(target) => put_body(target),
                Body::Directory(entries) => {
                    put_body(&self.directory(&nodes, node, &self.entries[entries.clone()]));
                }
                Body::Sparse { file, bits, data } => {
                    let step = 1u64 << (bits - erofs::BLOCK_BITS);
                    let map = data.iter().enumerate().flat_map(|(chunk, &is_data)| {
                        let start = starts[*file] + chunk as u64 * step;
                        if is_data { start as u32 } else { erofs::NULL_BLOCK }.to_le_bytes()
                    });
                    put(behind, &map.collect::<Vec<u8>>());
                }
                _ => {}
            }
        }
        Ok(Layout { metadata, files, len: end * BLOCK_LEN, inode_count })
    }

    /// The blocks of a directory, `.` and `..` where they belong by name.
    fn directory(&self, nodes: &[Node], node: &Node, entries: &[Entry]) -> Vec<u8> {
        let slot = |node: &Node| node.at / SLOT_LEN;
        let dot = |name, node| Dirent { name, slot: slot(node), mode: MODE_DIRECTORY };
        let mut lines = vec![dot(b".", node), dot(b"..", &nodes[node.parent])];
        lines.extend(entries.iter().map(|entry| {
            let child = &nodes[entry.node];
            let name = &self.names[entry.name.clone()];
            Dirent { name, slot: slot(child), mode: child.attributes.mode }
        }));
        lines.sort_by_key(|line| line.name);
        erofs::directory(&lines)
    }
}
