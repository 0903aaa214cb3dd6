//! A snapshot of an image as a view.
//!
//! Translates every call to the reader, which verifies what it takes from the image. An error of
//! the reader about bytes of the image becomes [`ViewError::Damaged`], any other
//! [`ViewError::Source`].

use crate::view::{Attributes, Entry, Seek, Time, Totals, View, ViewError, XattrUse};
use shale_read::{Category, Codec, Fault, InodeKind, Kind, PieceKind, ReadError, Timestamp, Tree};
use std::fmt::Write;

/// Pages of extended attributes that are scanned before a mount.
const XATTR_PAGES_MAX: u64 = 8;
/// Pieces of a file that [`View::layout`] lists; of the rest it gives the number.
const LAYOUT_PIECES_MAX: usize = 256;

impl From<ReadError> for ViewError {
    fn from(error: ReadError) -> Self {
        match error.fault() {
            Fault::NoInode { .. } => Self::NotFound,
            Fault::WrongKind { expected: Kind::Directory, .. } => Self::NotDirectory,
            Fault::WrongKind { .. } => Self::WrongKind,
            _ if error.is_corrupt() => Self::Damaged(message(&error)),
            _ => Self::Source(std::io::Error::other(message(&error))),
        }
    }
}

/// Returns the message of an error without the inode at its beginning, as the driver names that
/// itself.
fn message(error: &ReadError) -> String {
    let text = error.to_string();
    match text.split_once(": ") {
        Some((place, rest)) if place.contains("inode ") => rest.to_owned(),
        _ => text,
    }
}

fn time(stamp: Timestamp) -> Time {
    Time { sec: stamp.sec, nsec: stamp.nsec }
}

/// Returns which kinds of extended attributes the tree has. Scans their names if these lie in a few
/// pages, as in most images, since inodes share attributes. Otherwise it assumes that there are
/// attributes of every kind.
fn xattr_use(tree: &Tree) -> XattrUse {
    const NONE: XattrUse = XattrUse { any: false, acl: false, trusted: false };
    const ALL: XattrUse = XattrUse { any: true, acl: true, trusted: true };
    let root = tree.snapshot().xattr_items;
    if tree.snapshot().xattr_sets.row_count == 0 {
        return NONE;
    }
    if root.page_count > XATTR_PAGES_MAX {
        return ALL;
    }
    let tables = tree.image().tables();
    let items = tables.iter().find(|t| t.schema.name == "xattr_items" && t.root == root);
    let Some(items) = items else { return ALL };
    let columns = items.schema.columns;
    let Some(name) = columns.iter().position(|c| c.name.eq_ignore_ascii_case("name")) else {
        return ALL;
    };
    let mut found = XattrUse { any: true, ..NONE };
    let scanned = tree.image().check_table(items, |check| {
        if check.visit.level > 0 {
            return true;
        }
        let scan = check.page.is_ok_and(|page| {
            let each = |_, name: &[u8]| {
                found.acl |= name.starts_with(b"system.posix_acl_");
                found.trusted |= name.starts_with(b"trusted.");
                found != ALL
            };
            page.scan_bytes(name, 0..page.row_count(), each).is_ok()
        });
        if !scan {
            // The error is reported when the attribute is read.
            found = ALL;
        }
        found != ALL
    });
    if scanned.is_ok() { found } else { ALL }
}

/// Converts the attributes of an inode.
fn to_view(tree: &Tree, found: &shale_read::Attributes) -> Result<Attributes, ViewError> {
    let data_len = match found.content() {
        Some(content) if found.size > 0 => tree.image().content_data_len(content)?,
        // Only files take up blocks, as on SquashFS.
        _ => 0,
    };
    // A time that the image does not keep is shown as the modification time, not as 1970.
    let kept = tree.snapshot().times_kept;
    let or_mtime = |bit: u8, stamp| time(if kept & bit == 0 { found.mtime } else { stamp });
    Ok(Attributes {
        inode: found.inode,
        mode: found.mode(),
        link_count: found.link_count,
        uid: found.uid,
        gid: found.gid,
        device: found.device(),
        len: found.size,
        data_len,
        atime: or_mtime(shale_read::TIME_ATIME, found.atime),
        mtime: time(found.mtime),
        ctime: or_mtime(shale_read::TIME_CTIME, found.ctime),
    })
}

/// Describes a frame in a line of a layout: its lengths, codec and category, and the frames that
/// have to be decoded first.
fn frame_text(tree: &Tree, frame: u64) -> Result<String, ViewError> {
    let record = tree.image().frame_record(frame)?;
    let mut text = format!(
        " stored {} of {} codec {} category {}",
        record.stored_len,
        record.plain_len,
        Codec::from_id(record.codec).map_or_else(|| record.codec.to_string(), |c| c.to_string()),
        format!("{:?}", Category::from_id(record.category)).to_lowercase(),
    );
    let references = tree.image().references(&record)?;
    if !references.frames().is_empty() {
        let list: Vec<String> = references.frames().iter().map(u64::to_string).collect();
        let _ = write!(text, " references {}", list.join(","));
    }
    Ok(text)
}

impl View for Tree {
    fn attributes(&self, inode: u64) -> Result<Attributes, ViewError> {
        let found = Tree::attributes(self, inode)?;
        to_view(self, &found)
    }

    fn lookup(&self, directory: u64, name: &[u8]) -> Result<Option<Attributes>, ViewError> {
        let found = Tree::lookup_attributes(self, directory, name)?;
        found.map(|found| to_view(self, &found)).transpose()
    }

    fn parent(&self, directory: u64) -> Result<u64, ViewError> {
        Ok(Tree::parent(self, directory)?)
    }

    fn list(
        &self,
        directory: u64,
        first: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), ViewError> {
        let mut outcome = Ok(());
        Tree::list_attributes(self, directory, first, |entry, found| match to_view(self, found) {
            Ok(attributes) => each(Entry { name: entry.name, attributes }),
            Err(error) => {
                outcome = Err(error);
                false
            }
        })?;
        outcome
    }

    fn link_target(&self, inode: u64) -> Result<Vec<u8>, ViewError> {
        Ok(Tree::link_target(self, inode)?)
    }

    fn xattr_names(&self, inode: u64, each: &mut dyn FnMut(&[u8])) -> Result<(), ViewError> {
        for name in Tree::xattr_names(self, inode)? {
            each(&name);
        }
        Ok(())
    }

    fn xattr(&self, inode: u64, name: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        Ok(Tree::xattr(self, inode, name)?)
    }

    fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError> {
        Ok(Tree::read(self, inode, offset, buf)?)
    }

    fn read_ready(&self, inode: u64, buf: &mut [u8]) -> Result<bool, ViewError> {
        Ok(Tree::read_ready(self, inode, buf)?)
    }

    fn seek(&self, inode: u64, offset: u64, what: Seek) -> Result<Option<u64>, ViewError> {
        Ok(match what {
            Seek::Data => self.seek_data(inode, offset)?,
            Seek::Hole => self.seek_hole(inode, offset)?,
        })
    }

    fn totals(&self) -> Totals {
        Totals { len: self.file_bytes(), inode_count: self.inode_count() }
    }

    fn xattr_use(&self) -> XattrUse {
        xattr_use(self)
    }

    fn generation(&self) -> u32 {
        // Inode numbers keep their meaning as long as the table of inodes is the same.
        let table = self.snapshot().inodes.top.offset.to_le_bytes();
        let id = self.image().superblock().image_id;
        // FNV-1a: the input is short and collisions are harmless.
        id.iter()
            .chain(&table)
            .fold(0x811C_9DC5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }

    fn id(&self) -> [u8; 16] {
        let table = u128::from(self.snapshot().inodes.top.offset);
        (u128::from_le_bytes(self.image().superblock().image_id) ^ table).to_le_bytes()
    }

    fn path(&self, inode: u64) -> Option<Vec<u8>> {
        self.path_of(inode).ok()
    }

    fn layout(&self, inode: u64) -> Result<Option<String>, ViewError> {
        if Tree::attributes(self, inode)?.kind != InodeKind::File {
            return Ok(None);
        }
        let mut out = String::new();
        let mut more = 0;
        for (number, piece) in self.pieces(inode, 0..u64::MAX)?.enumerate() {
            let piece = piece?;
            if number >= LAYOUT_PIECES_MAX {
                more += 1;
                continue;
            }
            let _ = write!(out, "{} {} ", piece.offset, piece.len);
            let _ = match piece.kind {
                PieceKind::Frame { frame, frame_offset } => {
                    writeln!(out, "frame {frame} offset {frame_offset}{}", frame_text(self, frame)?)
                }
                PieceKind::Rebuilt { chunk, chunk_offset } => {
                    writeln!(out, "rebuilt chunk {chunk} offset {chunk_offset}")
                }
                PieceKind::Hole => writeln!(out, "hole"),
                PieceKind::Zero => writeln!(out, "zero"),
            };
        }
        if more > 0 {
            let _ = writeln!(out, "and {more} more");
        }
        Ok(Some(out))
    }

    fn content_key(&self, inode: u64) -> Result<u64, ViewError> {
        Ok(Tree::attributes(self, inode)?.content().unwrap_or(u64::MAX))
    }

    fn rest(&self) {
        self.image().clear_caches();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut named = self.image().counters().snapshot().named();
        named.push(("frame_cache_bytes", self.image().cache().bytes()));
        named.push(("page_cache_bytes", self.image().page_cache_bytes()));
        named
    }
}
