//! A SquashFS image as a source.
//!
//! Directories are walked breadth first within one, files before directories, so contents come
//! nearly in the order in which they lie. What SquashFS does not keep is not there: nanoseconds,
//! times beyond 32 bits, access control lists. Holes are known in whole blocks.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use shale_format::limits::NAME_LEN_MAX;
use shale_format::{InodeKind, Timestamp};
use shale_model::{Content, LinkId, Metadata};
use shale_model::{EntrySource, Problem, Select, SourceEntry, SourceError};

use super::inode::{Body, FileBody, Inode};
use super::metadata::{DATA_PLAIN, Image};
use crate::error::ForeignError;
use crate::tree::{Blocks, ImageFile, Pieces, le, seed_of};

const FORMAT: &str = "SquashFS image";
/// Decompressed blocks of fragments held.
const FRAGMENT_CACHE_LEN: usize = 16 << 20;
/// Contents up to this length are held in memory at once.
const SMALL_LEN_MAX: u64 = 1 << 20;

/// A SquashFS image that is read.
pub struct SquashfsSource {
    name: Vec<u8>,
    shared: Arc<Shared>,
    select: Option<Arc<dyn Select>>,
    seed: [u8; 32],
    root: Option<Inode>,
    /// Directories to be listed, the next one last.
    waiting: Vec<(Vec<u8>, Inode)>,
    /// Entries of the directory that is being yielded, the next one last.
    entries: Vec<(Vec<u8>, Inode)>,
    /// Directories met so far: more than there are inodes is a circle.
    directory_count: u64,
}

struct Shared {
    image: Image,
    fragments: Blocks,
}

/// How far a file was read.
struct Cursor {
    /// Block, or the tail after them.
    index: usize,
    /// Where the next stored block is.
    offset: u64,
}

impl std::fmt::Debug for SquashfsSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SquashfsSource").finish_non_exhaustive()
    }
}

fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}

impl SquashfsSource {
    /// Opens an image. `seed` are bytes that stand for the file, such as samples of it.
    ///
    /// # Errors
    /// The image is damaged, of an unsupported version, or cannot be read.
    pub fn new(
        name: &Path,
        file: ImageFile,
        seed: &[u8],
        select: Option<Arc<dyn Select>>,
    ) -> Result<Self, SourceError> {
        use std::os::unix::ffi::OsStrExt;
        let name = name.as_os_str().as_bytes().to_vec();
        let image = Image::open(file).map_err(|what| fault(what).into_source(&name))?;
        let root = image.inode(image.superblock.root);
        let root = root.map_err(|what| fault(what).into_source(&name))?;
        if root.kind != InodeKind::Directory {
            return Err(fault("its root is not a directory").into_source(&name));
        }
        let shared = Arc::new(Shared { image, fragments: Blocks::new(FRAGMENT_CACHE_LEN) });
        Ok(Self {
            seed: seed_of("squashfs", seed),
            name,
            shared,
            select,
            waiting: Vec::new(),
            entries: Vec::new(),
            root: Some(root),
            directory_count: 0,
        })
    }

    fn advance(&mut self) -> Result<Option<SourceEntry>, ForeignError> {
        if let Some(root) = self.root.take() {
            self.waiting.push((Vec::new(), root.clone()));
            return self.entry(Vec::new(), root).map(Some);
        }
        loop {
            if let Some((path, inode)) = self.entries.pop() {
                if let Some(select) = &self.select
                    && !select.takes(&path, inode.kind)
                {
                    continue;
                }
                if inode.kind == InodeKind::Directory {
                    self.waiting.push((path.clone(), inode.clone()));
                }
                return self.entry(path, inode).map(Some);
            }
            let Some((path, directory)) = self.waiting.pop() else { return Ok(None) };
            self.directory_count += 1;
            if self.directory_count > self.shared.image.superblock.inode_count {
                return Err(fault("its directories lead in a circle").of(&path));
            }
            let listed = self.list(&path, &directory).map_err(|what| fault(what).of(&path))?;
            // Taken from the end: files by name, then directories, of which the first by name is
            // walked first as it is met last.
            let (directories, others): (Vec<_>, Vec<_>) =
                listed.into_iter().partition(|(_, inode)| inode.kind == InodeKind::Directory);
            self.entries = directories;
            self.entries.extend(others.into_iter().rev());
        }
    }

    fn list(&self, path: &[u8], directory: &Inode) -> Result<Vec<(Vec<u8>, Inode)>, String> {
        let image = &self.shared.image;
        let Body::Directory { block, offset, len } = directory.body else {
            return Err("it is no directory".to_owned());
        };
        let mut left = len.saturating_sub(3);
        let mut found = Vec::new();
        if left == 0 {
            return Ok(found);
        }
        let mut place = image.directory_place(block, offset)?;
        while left > 0 {
            let head = image.read(&mut place, 12)?;
            let (count, start) = (le(&head[..4]) + 1, le(&head[4..8]));
            if count > 256 {
                return Err(format!("a run of {count} entries in a directory"));
            }
            left = left.checked_sub(12).ok_or("a directory is longer than it says")?;
            for _ in 0..count {
                let entry = image.read(&mut place, 8)?;
                let name_len = le(&entry[6..8]) as usize + 1;
                if name_len > NAME_LEN_MAX {
                    return Err(format!("a name of {name_len} bytes"));
                }
                let name = image.read(&mut place, name_len)?;
                left = left
                    .checked_sub(8 + name_len as u64)
                    .ok_or("a directory is longer than it says")?;
                if name.contains(&b'/') || name.contains(&0) || name == b"." || name == b".." {
                    return Err(format!("the name `{}`", name.escape_ascii()));
                }
                let inode = image.inode(start << 16 | le(&entry[..2]))?;
                let path = match path {
                    b"" => name,
                    path => [path, b"/", &name].concat(),
                };
                found.push((path, inode));
            }
        }
        Ok(found)
    }

    fn entry(&self, path: Vec<u8>, inode: Inode) -> Result<SourceEntry, ForeignError> {
        let xattrs = self.shared.image.xattrs(inode.xattr_set);
        let mut xattrs = xattrs.map_err(|what| fault(what).of(&path))?;
        xattrs.sort();
        let link = (inode.kind != InodeKind::Directory && inode.link_count > 1)
            .then(|| LinkId { device: 0, inode: u64::from(inode.number) });
        let mut metadata = Metadata {
            kind: inode.kind,
            permissions: inode.permissions,
            uid: inode.uid,
            gid: inode.gid,
            mtime: Timestamp { sec: i64::from(inode.mtime), nsec: 0 },
            atime: Timestamp::default(),
            ctime: Timestamp::default(),
            btime: Timestamp::default(),
            len: 0,
            device: 0,
        };
        let (mut target, mut content) = (Vec::new(), Content::None);
        match inode.body {
            Body::File(file) => {
                metadata.len = file.len;
                if file.len > 0 {
                    content = self.content(&path, file)?;
                }
            }
            Body::Symlink(to) => target = to,
            Body::Device(device) => metadata.device = device,
            Body::Directory { .. } | Body::Other => {}
        }
        Ok(SourceEntry { path, metadata, xattrs: xattrs.into(), link, target, content })
    }

    fn content(&self, path: &[u8], file: FileBody) -> Result<Content, ForeignError> {
        let holes = holes(&file, self.shared.image.superblock.block_len);
        let shared = Arc::clone(&self.shared);
        let len = file.len;
        let is_small = len <= SMALL_LEN_MAX && holes.is_empty();
        let path = path.to_vec();
        let mut cursor = Cursor { index: 0, offset: file.start };
        let next = move || {
            let piece = shared.piece(&file, &mut cursor);
            piece.map_err(|what| fault(what).of(&path))
        };
        let mut reader = Pieces::new(next);
        if is_small {
            let mut bytes = vec![0; len as usize];
            let read = reader.read_exact(&mut bytes);
            read.map_err(|error| ForeignError::of_read(FORMAT, error))?;
            return Ok(Content::Bytes(bytes));
        }
        Ok(Content::Reader { reader: Box::new(reader), holes })
    }
}

/// Blocks that are not stored at all.
fn holes(file: &FileBody, block_len: u64) -> Vec<Range<u64>> {
    let mut holes: Vec<Range<u64>> = Vec::new();
    for (index, _) in file.blocks.iter().enumerate().filter(|(_, stored)| **stored == 0) {
        let start = index as u64 * block_len;
        let end = (start + block_len).min(file.len);
        match holes.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => holes.push(start..end),
        }
    }
    holes
}

impl Shared {
    /// The next block of a file that is stored, or its tail.
    fn piece(&self, file: &FileBody, cursor: &mut Cursor) -> Result<Option<Vec<u8>>, String> {
        let block_len = self.image.superblock.block_len;
        while let Some(&stored) = file.blocks.get(cursor.index) {
            let plain_len = block_len.min(file.len - cursor.index as u64 * block_len);
            cursor.index += 1;
            if stored != 0 {
                let plain = self.block(cursor.offset, u64::from(stored), plain_len)?;
                cursor.offset += u64::from(stored) & (DATA_PLAIN - 1);
                return Ok(Some(plain));
            }
        }
        if cursor.index > file.blocks.len() {
            return Ok(None);
        }
        cursor.index += 1;
        let Some((number, offset)) = file.tail else { return Ok(None) };
        let &(start, stored) = self
            .image
            .fragments
            .get(number as usize)
            .ok_or("a fragment is beyond the table of fragments")?;
        let make = || self.block_up_to(start, stored, block_len);
        let block = self.fragments.get(u64::from(number), make)?;
        let len = (file.len % block_len) as usize;
        let offset = offset as usize;
        let tail = offset.checked_add(len).and_then(|end| block.get(offset..end));
        let tail = tail.ok_or("a fragment leads out of its block")?;
        Ok((!tail.is_empty()).then(|| tail.to_vec()))
    }

    /// A block of exactly this many bytes.
    fn block(&self, offset: u64, stored: u64, plain_len: u64) -> Result<Vec<u8>, String> {
        let plain = self.block_up_to(offset, stored, plain_len)?;
        match plain.len() as u64 == plain_len {
            true => Ok(plain),
            false => Err(format!("a block has {} bytes instead of {plain_len}", plain.len())),
        }
    }

    fn block_up_to(&self, offset: u64, stored: u64, len_max: u64) -> Result<Vec<u8>, String> {
        let stored_len = stored & (DATA_PLAIN - 1);
        if stored_len > self.image.superblock.block_len {
            return Err(format!("a block of {stored_len} stored bytes"));
        }
        let bytes = self.image.file.read(offset, stored_len)?;
        match stored & DATA_PLAIN {
            0 => self.image.superblock.compressor.decode(&bytes, len_max as usize),
            _ => Ok(bytes),
        }
    }
}

impl EntrySource for SquashfsSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        self.advance().map_err(|error| error.into_source(&self.name))
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        Vec::new()
    }
}
