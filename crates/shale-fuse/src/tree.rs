//! A snapshot of an image as a view.
//!
//! Every question goes to the reader, which verifies what it takes from the image; this only
//! translates. A reader's error about the image's bytes is damage, any other is an error of the
//! source, so that the driver can say which.

use crate::view::{Attributes, Entry, Seek, Time, Totals, View, ViewError, XattrUse};
use shale_read::{Fault, InodeKind, Kind, PieceKind, ReadError, Timestamp, Tree};
use std::fmt::Write;

/// Pieces of a file that [`View::layout`] tells before it says how many follow.
const LAYOUT_PIECES_MAX: usize = 256;

impl From<ReadError> for ViewError {
    fn from(error: ReadError) -> Self {
        match error.fault() {
            Fault::NoInode { .. } => Self::NotFound,
            Fault::WrongKind { expected: Kind::Directory, .. } => Self::NotDirectory,
            Fault::WrongKind { .. } => Self::WrongKind,
            _ if error.is_corrupt() => Self::Damaged(error.to_string()),
            _ => Self::Source(std::io::Error::other(error.to_string())),
        }
    }
}

fn time(stamp: Timestamp) -> Time {
    Time { sec: stamp.sec, nsec: stamp.nsec }
}

impl View for Tree {
    fn attributes(&self, inode: u64) -> Result<Attributes, ViewError> {
        let found = Tree::attributes(self, inode)?;
        let data_len = match found.kind {
            InodeKind::File => self.data_len(inode)?,
            _ => found.size,
        };
        // Times that are not kept are shown as the modification time, the only one that means
        // something, rather than as 1970.
        let kept = self.snapshot().times_kept;
        let or_mtime = |bit: u8, stamp| time(if kept & bit == 0 { found.mtime } else { stamp });
        Ok(Attributes {
            inode,
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

    fn lookup(&self, directory: u64, name: &[u8]) -> Result<Option<u64>, ViewError> {
        Ok(Tree::lookup(self, directory, name)?)
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
        Ok(Tree::list(self, directory, first, |entry| {
            each(Entry { name: entry.name, inode: entry.inode })
        })?)
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
        // Which names there are is not known without reading them all.
        let any = self.snapshot().xattr_sets.row_count > 0;
        XattrUse { any, acl: any }
    }

    fn generation(&self) -> u32 {
        let id = self.image().superblock().image_id;
        u32::from_le_bytes([id[0], id[1], id[2], id[3]])
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
                    writeln!(out, "frame {frame} offset {frame_offset}")
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

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut named = self.image().counters().snapshot().named();
        named.push(("frame_cache_bytes", self.image().cache().bytes()));
        named.push(("page_cache_bytes", self.image().page_cache_bytes()));
        named
    }
}
