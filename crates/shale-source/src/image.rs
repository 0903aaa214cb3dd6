//! A ShaleFS image as a source, to pack it again: at another level, with other metadata, or a part
//! of it.
//!
//! Several threads read contents through the frame cache, in the order of the walk. Everything that
//! the image stores is packed; times that it does not store are absent.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use shale_format::InodeKind;
use shale_model::{Content, ContentFile, LinkId, Metadata, OpenContent, Xattr};
use shale_model::{EntrySource, Problem, Select, SourceEntry, SourceError};
use shale_read::files::{Bases, FilePlace, Place, gather};
use shale_read::{
    Attributes, ByteSource, FileSource, Image, Options, ReadError, SnapshotChoice, Tree, Walk,
};

use crate::choose::Choose;
use crate::error::Error;

/// An image that is read as a source.
pub struct ImageSource {
    name: Vec<u8>,
    tree: Tree,
    /// Tells the snapshot from others of the image, if one was chosen.
    snapshot: Option<Vec<u8>>,
    walk: Walk,
    select: Option<Arc<dyn Select>>,
    /// The writer knows the contents by number: they are named, not read. The number of the first.
    held_from: Option<u64>,
    /// Sets of attributes read so far, by number.
    xattr_sets: HashMap<u64, Arc<[Xattr]>>,
}

/// Sets of attributes kept; a system with security labels has some hundred.
const XATTR_SETS_MAX: usize = 10_000;

impl ImageSource {
    /// Opens a snapshot, by default the newest. Bases of a thin image are looked for in `bases` and
    /// beside it.
    ///
    /// # Errors
    /// The image is damaged, a base is missing, or there is no such snapshot.
    pub fn open(
        file: File,
        path: &Path,
        snapshot: Option<&SnapshotChoice>,
        select: Option<Arc<dyn Select>>,
        bases: &Bases,
    ) -> Result<Self, Error> {
        let first = FileSource::new(file).map_err(Error::io("open", path))?;
        Self::at(Arc::new(first), &FilePlace::new(path), path, snapshot, select, bases)
    }

    /// Opens a snapshot as [`ImageSource::open`] does, of an image whose first file is `first`, at
    /// `place`, and which is named `path`.
    ///
    /// # Errors
    /// As [`ImageSource::open`].
    pub fn at(
        first: Arc<dyn ByteSource>,
        place: &dyn Place,
        path: &Path,
        snapshot: Option<&SnapshotChoice>,
        select: Option<Arc<dyn Select>>,
        bases: &Bases,
    ) -> Result<Self, Error> {
        use std::os::unix::ffi::OsStrExt;
        let source = gather(first, place, bases)?.source;
        let image = Image::open(source, Options::default())?;
        let tree = image.tree(snapshot.unwrap_or(&SnapshotChoice::Newest))?;
        let snapshot = snapshot.map(|_| tree.snapshot().inodes.top.offset.to_le_bytes().to_vec());
        let walk = tree.walk(tree.root_inode())?;
        let name = path.as_os_str().as_bytes().to_vec();
        let xattr_sets = HashMap::new();
        Ok(Self { name, tree, snapshot, walk, select, held_from: None, xattr_sets })
    }

    fn advance(&mut self) -> Result<Option<SourceEntry>, ReadError> {
        loop {
            let Some(visit) = self.walk.advance()? else { return Ok(None) };
            let (path, attributes) = (visit.path.to_vec(), visit.attributes);
            if let Some(select) = &self.select
                && !path.is_empty()
                && !select.takes(&path, attributes.kind)
            {
                self.walk.skip_directory();
                continue;
            }
            let place = path.clone();
            return self
                .entry(path, &attributes)
                .map(Some)
                .map_err(|error| error.at(place.escape_ascii().to_string()));
        }
    }

    fn entry(&mut self, path: Vec<u8>, attributes: &Attributes) -> Result<SourceEntry, ReadError> {
        let metadata = attributes.metadata();
        let target = match attributes.kind {
            InodeKind::Symlink => self.tree.link_target(attributes.inode)?,
            _ => Vec::new(),
        };
        let is_linked = attributes.kind != InodeKind::Directory && attributes.link_count > 1;
        let content = match attributes.content() {
            Some(content) if attributes.size > 0 => match self.held_from {
                Some(first) => Content::Held(first + content),
                None => Content::File(Box::new(ImageContent {
                    image: Arc::clone(self.tree.image()),
                    content,
                    metadata,
                })),
            },
            _ => Content::None,
        };
        Ok(SourceEntry {
            path,
            metadata,
            xattrs: self.xattrs(attributes)?,
            link: is_linked.then_some(LinkId { device: 0, inode: attributes.inode }),
            target,
            content,
        })
    }

    fn xattrs(&mut self, attributes: &Attributes) -> Result<Arc<[Xattr]>, ReadError> {
        if attributes.xattr_set == 0 {
            return Ok(Arc::default());
        }
        if let Some(set) = self.xattr_sets.get(&attributes.xattr_set) {
            return Ok(Arc::clone(set));
        }
        let set: Arc<[Xattr]> = self.tree.xattrs(attributes.inode)?.into();
        if self.xattr_sets.len() >= XATTR_SETS_MAX {
            self.xattr_sets.clear();
        }
        self.xattr_sets.insert(attributes.xattr_set, Arc::clone(&set));
        Ok(set)
    }
}

/// Returns a tree of an image whose contents the writer knows, without what `removes` leaves out.
/// Contents are named by their IDs, counted from `first`, and not read.
///
/// # Errors
/// The image is damaged.
pub fn held(tree: Tree, removes: &Choose, first: u64) -> Result<Box<dyn EntrySource>, Error> {
    held_chosen(tree, removes.select(b"", None, None), first)
}

/// As [`held`], with only what `select` takes.
///
/// # Errors
/// The image is damaged.
pub fn held_chosen(
    tree: Tree,
    select: Option<Arc<dyn Select>>,
    first: u64,
) -> Result<Box<dyn EntrySource>, Error> {
    let (walk, name) = (tree.walk(tree.root_inode())?, b"the image".to_vec());
    let (snapshot, held_from, xattr_sets) = (None, Some(first), HashMap::new());
    Ok(Box::new(ImageSource { name, tree, snapshot, walk, select, held_from, xattr_sets }))
}

impl EntrySource for ImageSource {
    fn seed(&self) -> [u8; 32] {
        let image = self.tree.image();
        let id = image.superblock().image_id;
        let snapshot = self.snapshot.as_deref().unwrap_or_default();
        let seed = [&b"shale"[..], &id, &image.len().to_le_bytes(), snapshot].concat();
        *shale_codec::hash(&seed).as_bytes()
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        self.advance().map_err(|error| {
            let error = io::Error::new(io::ErrorKind::InvalidData, error.to_string());
            SourceError::Unreadable { path: self.name.clone(), error }
        })
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        Vec::new()
    }
}

/// The content of a file, which needs no opening.
#[derive(Clone)]
struct ImageContent {
    image: Arc<Image>,
    content: u64,
    metadata: Metadata,
}

impl OpenContent for ImageContent {
    fn open(&self) -> io::Result<Box<dyn ContentFile>> {
        Ok(Box::new(self.clone()))
    }
}

fn failed(error: ReadError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

impl ContentFile for ImageContent {
    fn metadata(&mut self) -> io::Result<Metadata> {
        Ok(self.metadata)
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        self.image.read_content(self.content, offset, out).map_err(failed)
    }

    fn data_after(&mut self, offset: u64, len: u64) -> io::Result<Option<Range<u64>>> {
        let mut data: Option<Range<u64>> = None;
        for piece in self.image.pieces(self.content, offset..len).map_err(failed)? {
            let piece = piece.map_err(failed)?;
            let is_hole = piece.kind == shale_read::PieceKind::Hole;
            match &mut data {
                None if is_hole => {}
                None => data = Some(piece.offset..piece.offset + piece.len),
                Some(_) if is_hole => break,
                Some(data) => data.end = piece.offset + piece.len,
            }
        }
        Ok(data)
    }
}
