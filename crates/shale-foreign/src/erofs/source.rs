//! An EROFS image as a source.
//!
//! Inodes in the short form have no time of their own; they get that of the image, as the kernel
//! does it. Holes are known in whole chunks.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use shale_format::InodeKind;
use shale_format::limits::{LINK_TARGET_LEN_MAX, NAME_LEN_MAX, PATH_LEN_MAX};
use shale_model::{
    Content, EntrySource, LinkId, Metadata, Problem, ProblemKind, Select, SourceEntry, SourceError,
    Timestamp, device_number,
};

use super::content::{Image, Reader};
use super::inode::{self, Inode};
use super::superblock::Superblock;
use crate::error::ForeignError;
use crate::names;
use crate::tree::{ImageFile, Pieces, le, seed_of};

const FORMAT: &str = "EROFS image";
/// Bytes of one directory.
const DIRECTORY_LEN_MAX: u64 = 1 << 30;
const DIRENT_LEN: usize = 12;
/// Contents up to this length are held in memory at once.
const SMALL_LEN_MAX: u64 = 1 << 20;

/// An EROFS image that is read.
pub(crate) struct ErofsSource {
    name: Vec<u8>,
    image: Arc<Image>,
    select: Option<Arc<dyn Select>>,
    seed: [u8; 32],
    has_root: bool,
    /// Directories to be listed, the next one last.
    waiting: Vec<(Vec<u8>, Inode)>,
    /// Entries of the directory that is being yielded, the next one last.
    entries: Vec<(Vec<u8>, Inode)>,
    /// Directories met so far.
    directories: HashSet<u64>,
    problems: Vec<Problem>,
}

impl std::fmt::Debug for ErofsSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ErofsSource").finish_non_exhaustive()
    }
}

fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}

impl ErofsSource {
    /// Opens an image. `seed` are bytes that stand for the file.
    ///
    /// # Errors
    /// The image is corrupt or uses what is not supported.
    pub(crate) fn new(
        name: &Path,
        file: ImageFile,
        seed: &[u8],
        select: Option<Arc<dyn Select>>,
    ) -> Result<Self, SourceError> {
        use std::os::unix::ffi::OsStrExt;
        let name = name.as_os_str().as_bytes().to_vec();
        let opened = Superblock::read(&file).and_then(|superblock| {
            let prefixes = inode::prefixes(&file, &superblock)?;
            let root = Inode::read(&file, &superblock, superblock.root)?;
            match root.kind {
                InodeKind::Directory => Ok((Image { file, superblock, prefixes }, root)),
                _ => Err("its root is not a directory".to_owned()),
            }
        });
        let (image, root) = opened.map_err(|what| fault(what).into_source(&name))?;
        Ok(Self {
            name,
            image: Arc::new(image),
            select,
            seed: seed_of("erofs", seed),
            has_root: false,
            waiting: Vec::new(),
            entries: vec![(Vec::new(), root)],
            directories: HashSet::new(),
            problems: Vec::new(),
        })
    }

    fn advance(&mut self) -> Result<Option<SourceEntry>, ForeignError> {
        loop {
            if let Some((path, inode)) = self.entries.pop() {
                let is_root = !std::mem::replace(&mut self.has_root, true);
                if let Some(select) = self.select.as_ref().filter(|_| !is_root)
                    && !select.takes(&path, inode.kind)
                {
                    continue;
                }
                if inode.kind == InodeKind::Directory {
                    if !self.directories.insert(inode.number) {
                        return Err(fault("its directories lead in a circle").of(&path));
                    }
                    self.waiting.push((path.clone(), inode));
                }
                match self.entry(path.clone(), inode) {
                    Ok(entry) => return Ok(Some(entry)),
                    Err(what) if is_root => return Err(fault(what)),
                    Err(what) => self.leave_out(&path, what),
                }
                continue;
            }
            let Some((path, directory)) = self.waiting.pop() else { return Ok(None) };
            let listed = self.list(&path, directory).map_err(|what| fault(what).of(&path))?;
            // Taken from the end: files by name, then directories, of which the first by name is
            // walked first as it is met last.
            let (directories, others): (Vec<_>, Vec<_>) =
                listed.into_iter().partition(|(_, inode)| inode.kind == InodeKind::Directory);
            self.entries = directories;
            self.entries.extend(others.into_iter().rev());
        }
    }

    fn leave_out(&mut self, path: &[u8], what: String) {
        let kind = ProblemKind::Unreadable(what);
        self.problems.push(Problem { path: names::cut(path), kind });
    }

    fn list(&mut self, path: &[u8], directory: Inode) -> Result<Vec<(Vec<u8>, Inode)>, String> {
        if directory.len > DIRECTORY_LEN_MAX {
            return Err(format!("a directory of {} bytes: corrupt", directory.len));
        }
        let bytes = all(Reader::new(&self.image, directory)?)?;
        let mut found = Vec::new();
        let image = Arc::clone(&self.image);
        for block in bytes.chunks(1 << image.superblock.directory_block_log2) {
            for (number, name) in names_in(block)? {
                if name == b"." || name == b".." {
                    continue;
                }
                let is_name = name.len() <= NAME_LEN_MAX
                    && !name.is_empty()
                    && !name.iter().any(|&byte| byte == b'/' || byte == 0);
                if !is_name {
                    return Err(format!("the name `{}`", names::shown(name)));
                }
                let path = match path {
                    b"" => name.to_vec(),
                    path => [path, b"/", name].concat(),
                };
                if path.len() > PATH_LEN_MAX {
                    self.leave_out(&path, format!("its path is longer than {PATH_LEN_MAX} bytes"));
                    continue;
                }
                match Inode::read(&image.file, &image.superblock, number) {
                    Ok(inode) => found.push((path, inode)),
                    Err(what) => self.leave_out(&path, what),
                }
                if found.len() as u64 > image.superblock.inode_count.max(1 << 24) {
                    return Err("it has more entries than the image has inodes".to_owned());
                }
            }
        }
        Ok(found)
    }

    fn entry(&self, path: Vec<u8>, inode: Inode) -> Result<SourceEntry, String> {
        let image = &self.image;
        let xattrs = inode.xattrs(&image.file, &image.superblock, &image.prefixes)?;
        let is_linked = inode.kind != InodeKind::Directory && inode.link_count > 1;
        let mut metadata = Metadata {
            kind: inode.kind,
            permissions: inode.permissions,
            uid: inode.uid,
            gid: inode.gid,
            mtime: inode.mtime,
            atime: Timestamp::default(),
            ctime: Timestamp::default(),
            btime: Timestamp::default(),
            len: 0,
            device: 0,
        };
        let (mut target, mut content) = (Vec::new(), Content::None);
        match inode.kind {
            InodeKind::File => {
                metadata.len = inode.len;
                if inode.len > 0 {
                    content = self.content(&path, inode)?;
                }
            }
            InodeKind::Symlink => {
                if inode.len == 0 || inode.len > LINK_TARGET_LEN_MAX as u64 {
                    return Err(format!("its link target has {} bytes", inode.len));
                }
                target = all(Reader::new(image, inode)?)?;
            }
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                let number = inode.union as u32;
                let (major, minor) = (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff00);
                metadata.device = device_number(major, minor);
            }
            _ => {}
        }
        let link = is_linked.then_some(LinkId { device: 0, inode: inode.number });
        Ok(SourceEntry { path, metadata, xattrs: xattrs.into(), link, target, content })
    }

    fn content(&self, path: &[u8], inode: Inode) -> Result<Content, String> {
        let mut reader = Reader::new(&self.image, inode)?;
        let holes = reader.holes();
        if inode.len <= SMALL_LEN_MAX && holes.is_empty() {
            return all(reader).map(Content::Bytes);
        }
        let path = path.to_vec();
        let next = move || reader.next().map_err(|what| fault(what).of(&path));
        let stored = inode.len - holes.iter().map(|hole| hole.end - hole.start).sum::<u64>();
        // Exactly this many, as the last piece may be longer.
        let reader = Box::new(Pieces::new(next).take(stored));
        Ok(Content::Reader { reader, holes })
    }
}

/// All bytes of an inode that has no holes.
fn all(mut reader: Reader) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next()? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// The entries of a block of a directory: numbers of inodes, and names.
fn names_in(block: &[u8]) -> Result<Vec<(u64, &[u8])>, String> {
    let corrupt = || "a block of a directory is corrupt".to_owned();
    let head = |at: usize| block.get(at..at + DIRENT_LEN).ok_or_else(corrupt);
    let name_at = |at: usize| head(at).map(|head| le(&head[8..10]) as usize);
    let first = name_at(0)?;
    if first % DIRENT_LEN != 0 || first == 0 || first > block.len() {
        return Err(corrupt());
    }
    let count = first / DIRENT_LEN;
    let mut found = Vec::with_capacity(count);
    for number in 0..count {
        let at = number * DIRENT_LEN;
        let start = name_at(at)?;
        let end = if number + 1 < count { name_at(at + DIRENT_LEN)? } else { block.len() };
        let name = block.get(start..end).ok_or_else(corrupt)?;
        // The last name of a block ends with it or with a zero.
        let name = match name.iter().position(|&byte| byte == 0) {
            Some(len) if number + 1 == count => &name[..len],
            _ => name,
        };
        found.push((le(&head(at)?[..8]), name));
    }
    Ok(found)
}

impl EntrySource for ErofsSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        self.advance().map_err(|error| error.into_source(&self.name))
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}
