//! A tree in memory, with every kind of inode, any attribute, and faults on demand.

use shale_fuse::view::{
    Attributes, Entry, MODE_DIRECTORY, MODE_FILE, MODE_SYMLINK, ROOT, Seek, Time, Totals, View,
    ViewError, XattrUse,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::mpsc::SyncSender;

/// Bytes of a file.
pub enum Content {
    /// Data at these offsets, holes elsewhere.
    Pieces(Vec<(u64, Vec<u8>)>),
    /// Bytes that [`pattern`] computes from the offset.
    Pattern,
}

/// The byte at `offset` of a patterned file.
pub fn pattern(inode: u64, offset: u64) -> u8 {
    ((offset / 8).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(inode) >> (offset % 8 * 7)) as u8
}

/// A fault of a file, which shows when the file is read.
pub enum Fault {
    None,
    /// Reads that touch this range report damage.
    Damaged(Range<u64>),
    /// Reading panics.
    Panic,
    /// A read prints `reading` and the inode number, and never returns.
    Hang,
}

pub struct Node {
    pub attributes: Attributes,
    pub parent: u64,
    pub entries: BTreeMap<Vec<u8>, u64>,
    pub content: Content,
    pub target: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub fault: Fault,
}

pub struct MemoryTree {
    nodes: Vec<Node>,
    pub generation: u32,
    pub totals: Option<Totals>,
    /// Gets a message whenever the driver asks to free caches.
    pub rested: Option<SyncSender<()>>,
}

impl MemoryTree {
    pub fn new() -> Self {
        let mut tree = Self { nodes: Vec::new(), generation: 0, totals: None, rested: None };
        tree.push(ROOT, MODE_DIRECTORY | 0o755);
        tree
    }

    fn push(&mut self, parent: u64, mode: u32) -> u64 {
        let inode = self.nodes.len() as u64 + 1;
        let time = Time { sec: 1_600_000_000, nsec: 123_456_789 };
        self.nodes.push(Node {
            attributes: Attributes {
                inode,
                mode,
                link_count: if mode & 0o170000 == MODE_DIRECTORY { 2 } else { 1 },
                uid: rustix::process::getuid().as_raw(),
                gid: rustix::process::getgid().as_raw(),
                device: (0, 0),
                len: 0,
                data_len: 0,
                atime: time,
                mtime: time,
                ctime: time,
            },
            parent,
            entries: BTreeMap::new(),
            content: Content::Pieces(Vec::new()),
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            fault: Fault::None,
        });
        inode
    }

    pub fn node(&mut self, inode: u64) -> &mut Node {
        &mut self.nodes[inode as usize - 1]
    }

    /// Adds an inode of any mode.
    pub fn add(&mut self, parent: u64, name: impl AsRef<[u8]>, mode: u32) -> u64 {
        let inode = self.push(parent, mode);
        self.node(parent).entries.insert(name.as_ref().to_vec(), inode);
        inode
    }

    pub fn directory(&mut self, parent: u64, name: impl AsRef<[u8]>) -> u64 {
        self.node(parent).attributes.link_count += 1;
        self.add(parent, name, MODE_DIRECTORY | 0o755)
    }

    pub fn file(&mut self, parent: u64, name: impl AsRef<[u8]>, bytes: &[u8]) -> u64 {
        let inode = self.add(parent, name, MODE_FILE | 0o644);
        let node = self.node(inode);
        node.content = Content::Pieces(vec![(0, bytes.to_vec())]);
        node.attributes.len = bytes.len() as u64;
        node.attributes.data_len = bytes.len() as u64;
        inode
    }

    pub fn patterned(&mut self, parent: u64, name: impl AsRef<[u8]>, len: u64) -> u64 {
        let inode = self.file(parent, name, b"");
        let node = self.node(inode);
        node.content = Content::Pattern;
        node.attributes.len = len;
        node.attributes.data_len = len;
        inode
    }

    pub fn sparse(
        &mut self,
        parent: u64,
        name: impl AsRef<[u8]>,
        len: u64,
        pieces: &[(u64, &[u8])],
    ) -> u64 {
        let inode = self.file(parent, name, b"");
        let node = self.node(inode);
        node.attributes.len = len;
        node.attributes.data_len = pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let pieces = pieces.iter().map(|&(offset, bytes)| (offset, bytes.to_vec())).collect();
        node.content = Content::Pieces(pieces);
        inode
    }

    pub fn symlink(&mut self, parent: u64, name: impl AsRef<[u8]>, target: &[u8]) -> u64 {
        let inode = self.add(parent, name, MODE_SYMLINK | 0o777);
        let node = self.node(inode);
        node.target = target.to_vec();
        node.attributes.len = target.len() as u64;
        inode
    }

    pub fn hard_link(&mut self, parent: u64, name: impl AsRef<[u8]>, inode: u64) {
        self.node(inode).attributes.link_count += 1;
        self.node(parent).entries.insert(name.as_ref().to_vec(), inode);
    }

    pub fn xattr(&mut self, inode: u64, name: &str, value: &[u8]) {
        self.node(inode).xattrs.insert(name.as_bytes().to_vec(), value.to_vec());
    }

    fn get(&self, inode: u64) -> Result<&Node, ViewError> {
        let index = inode.checked_sub(1).ok_or(ViewError::NotFound)?;
        self.nodes.get(index as usize).ok_or(ViewError::NotFound)
    }

    fn directory_node(&self, inode: u64) -> Result<&Node, ViewError> {
        let node = self.get(inode)?;
        match node.attributes.mode & 0o170000 {
            MODE_DIRECTORY => Ok(node),
            _ => Err(ViewError::NotDirectory),
        }
    }
}

impl View for MemoryTree {
    fn attributes(&self, inode: u64) -> Result<Attributes, ViewError> {
        Ok(self.get(inode)?.attributes)
    }

    fn lookup(&self, directory: u64, name: &[u8]) -> Result<Option<Attributes>, ViewError> {
        let inode = self.directory_node(directory)?.entries.get(name);
        inode.map(|&inode| self.attributes(inode)).transpose()
    }

    fn parent(&self, directory: u64) -> Result<u64, ViewError> {
        Ok(self.directory_node(directory)?.parent)
    }

    fn list(
        &self,
        directory: u64,
        first: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), ViewError> {
        for (name, &inode) in self.directory_node(directory)?.entries.iter().skip(first as usize) {
            if !each(Entry { name, attributes: self.attributes(inode)? }) {
                break;
            }
        }
        Ok(())
    }

    fn link_target(&self, inode: u64) -> Result<Vec<u8>, ViewError> {
        let node = self.get(inode)?;
        match node.attributes.mode & 0o170000 {
            MODE_SYMLINK => Ok(node.target.clone()),
            _ => Err(ViewError::WrongKind),
        }
    }

    fn xattr_names(&self, inode: u64, each: &mut dyn FnMut(&[u8])) -> Result<(), ViewError> {
        self.get(inode)?.xattrs.keys().for_each(|name| each(name));
        Ok(())
    }

    fn xattr(&self, inode: u64, name: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        Ok(self.get(inode)?.xattrs.get(name).cloned())
    }

    fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError> {
        let node = self.get(inode)?;
        let end = node.attributes.len.min(offset.saturating_add(buf.len() as u64));
        let len = end.saturating_sub(offset) as usize;
        match &node.fault {
            Fault::None => {}
            Fault::Damaged(range) if range.start >= end || range.end <= offset => {}
            Fault::Damaged(range) => {
                return Err(ViewError::Damaged(format!(
                    "frame 7 at {}: bad checksum",
                    range.start
                )));
            }
            Fault::Panic => panic!("a bug below the driver, made for a test"),
            Fault::Hang => {
                println!("reading {inode}");
                loop {
                    std::thread::park();
                }
            }
        }
        let buf = &mut buf[..len];
        match &node.content {
            Content::Pattern => {
                for (at, byte) in (offset..).zip(buf.iter_mut()) {
                    *byte = pattern(inode, at);
                }
            }
            Content::Pieces(pieces) => {
                buf.fill(0);
                for (at, byte) in (offset..).zip(buf.iter_mut()) {
                    for (start, piece) in pieces {
                        if let Some(value) =
                            at.checked_sub(*start).and_then(|i| piece.get(i as usize))
                        {
                            *byte = *value;
                        }
                    }
                }
            }
        }
        Ok(len)
    }

    fn read_ready(&self, inode: u64, buf: &mut [u8]) -> Result<bool, ViewError> {
        match self.get(inode)?.fault {
            Fault::Panic => panic!("a bug below the driver, made for a test"),
            Fault::Hang => Ok(false),
            _ => Ok(self.read(inode, 0, buf)? == buf.len()),
        }
    }

    fn seek(&self, inode: u64, offset: u64, what: Seek) -> Result<Option<u64>, ViewError> {
        let node = self.get(inode)?;
        let len = node.attributes.len;
        if offset >= len {
            return Ok(None);
        }
        let pieces: Vec<Range<u64>> = match &node.content {
            Content::Pattern => std::iter::once(0..len).collect(),
            Content::Pieces(pieces) => {
                pieces.iter().map(|(start, bytes)| *start..*start + bytes.len() as u64).collect()
            }
        };
        Ok(match what {
            Seek::Data => {
                pieces.iter().find(|piece| piece.end > offset).map(|piece| piece.start.max(offset))
            }
            Seek::Hole => match pieces.iter().find(|piece| piece.contains(&offset)) {
                Some(piece) => Some(piece.end.min(len)),
                None => Some(offset),
            },
        })
    }

    fn path(&self, inode: u64) -> Option<Vec<u8>> {
        let mut path = Vec::new();
        let mut at = self.get(inode).ok()?;
        while at.attributes.inode != ROOT {
            let inode = at.attributes.inode;
            at = self.get(at.parent).ok()?;
            let (name, _) = at.entries.iter().find(|(_, entry)| **entry == inode)?;
            let rest = std::mem::replace(&mut path, name.clone());
            if !rest.is_empty() {
                path.push(b'/');
                path.extend(rest);
            }
        }
        Some(path)
    }

    fn totals(&self) -> Totals {
        self.totals.unwrap_or(Totals {
            len: self.nodes.iter().map(|node| node.attributes.len).sum(),
            inode_count: self.nodes.len() as u64,
        })
    }

    fn xattr_use(&self) -> XattrUse {
        let names = || self.nodes.iter().flat_map(|node| node.xattrs.keys());
        XattrUse {
            any: names().next().is_some(),
            acl: names().any(|name| name.starts_with(b"system.posix_acl_")),
            trusted: names().any(|name| name.starts_with(b"trusted.")),
        }
    }

    fn generation(&self) -> u32 {
        self.generation
    }

    fn layout(&self, inode: u64) -> Result<Option<String>, ViewError> {
        let node = self.get(inode)?;
        Ok((node.attributes.mode & 0o170000 == MODE_FILE).then(|| format!("inode {inode}")))
    }

    fn rest(&self) {
        if let Some(rested) = &self.rested {
            let _ = rested.try_send(());
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("inodes", self.nodes.len() as u64)]
    }
}
