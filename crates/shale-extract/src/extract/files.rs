//! Creates files, and everything else except directories, in several threads.
//!
//! Items are ordered so that each frame is decoded about once and directories are still filled one
//! after the other (see [`order`]). Workers take pieces of one directory, so that they do not wait
//! for each other at its lock. Long files are written in parts: the first worker creates the file,
//! and the last one sets its attributes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use shale_format::InodeKind;
use shale_host::{ErrorKind, check_name, remove_file, thread_count, threads};
use shale_read::{Attributes, PieceKind, Unit, Xattr};

use super::attributes::{Handle, hands_acl_down};
use super::batch::{Batch, Item, LargeState};
use super::context::{Context, kind_name};
use super::options::{Overwrite, Sparse};
use super::report::{ExtractReport, ProblemKind};
use crate::error::Error;

/// Items that a worker takes at once; fewer if the directory changes or the items are long.
const PIECE_ITEMS_MAX: usize = 128;
/// A piece with fewer items goes on when the directory changes.
const PIECE_ITEMS_MIN: usize = 16;
/// Bytes of content that a worker takes at once.
const PIECE_BYTES_MAX: u64 = 4 << 20;
/// Contents this close to each other likely share a frame or lie in adjacent ones.
const NEAR: u64 = 256;
/// Bytes of a run, see [`order`]: a small part of the frame cache.
const RUN_BYTES_MAX: u64 = 16 << 20;
/// Zeroes that are written at a time.
const ZEROES_LEN: usize = 256 << 10;

/// Creates all items of a batch and empties it.
pub(super) fn extract(context: &Context<'_>, batch: &mut Batch) -> Result<(), Error> {
    let mut items = std::mem::take(&mut batch.items);
    order(&mut items);
    let shared = Shared {
        context,
        batch,
        pieces: pieces(&items),
        items: &items,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    let threads = thread_count(context.options.threads).min(shared.pieces.len().max(1));
    let results = threads::run(threads, || Worker::new(&shared).run());
    let mut cancelled = Ok(());
    for result in results {
        match result {
            // Returns the error that ended the run, not the cancellation that followed from it.
            Err(error) if error.kind() != ErrorKind::Cancelled => {
                shared.remove_incomplete();
                return Err(error);
            }
            Err(error) => cancelled = Err(error),
            Ok(()) => {}
        }
    }
    if cancelled.is_err() {
        shared.remove_incomplete();
    }
    cancelled
}

/// Orders items, which come in the order of the walk, for decoding and writing.
///
/// The walk is cut into runs of items whose contents lie near each other, and the runs are sorted
/// by their start in the image. Without duplicates this is the order of the walk. If the image
/// holds many versions of a tree, the runs of all versions with the same contents come together, so
/// that those are decoded once. Sorting single items by content would achieve this too, but would
/// fill all directories at the same time, a file here and a file there, which is costly for a file
/// system.
fn order(items: &mut Vec<Item>) {
    let mut keys: Vec<u64> = Vec::with_capacity(items.len());
    let mut run = None;
    let (mut last, mut run_bytes) = (0u64, 0u64);
    for item in items.iter() {
        if item.len > 0 {
            let goes_on = run.is_some()
                && item.content.abs_diff(last) <= NEAR
                && run_bytes.saturating_add(item.len) <= RUN_BYTES_MAX;
            if !goes_on {
                run = Some(item.content);
                run_bytes = 0;
            }
            run_bytes = run_bytes.saturating_add(item.len);
            last = item.content;
        }
        // An item without content goes with its neighbours.
        keys.push(run.unwrap_or(0));
    }
    let mut keyed: Vec<(u64, Item)> = keys.into_iter().zip(items.drain(..)).collect();
    keyed.sort_by_key(|(key, _)| *key);
    items.extend(keyed.into_iter().map(|(_, item)| item));
}

/// Cuts items into pieces for workers: consecutive items, if possible of one directory.
fn pieces(items: &[Item]) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut start, mut bytes) = (0, 0u64);
    for (at, item) in items.iter().enumerate() {
        let moves = at > start && items[at - 1].directory != item.directory;
        let is_full = at - start >= PIECE_ITEMS_MAX
            || (at > start && bytes.saturating_add(item.len) > PIECE_BYTES_MAX)
            || (moves && at - start >= PIECE_ITEMS_MIN);
        if is_full {
            pieces.push(start..at);
            (start, bytes) = (at, 0);
        }
        bytes = bytes.saturating_add(item.len);
    }
    if start < items.len() {
        pieces.push(start..items.len());
    }
    pieces
}

struct Shared<'a> {
    context: &'a Context<'a>,
    batch: &'a Batch,
    items: &'a [Item],
    pieces: Vec<Range<usize>>,
    next: AtomicUsize,
    stop: AtomicBool,
}

impl Shared<'_> {
    /// Removes long files of which parts are missing, after an error.
    fn remove_incomplete(&self) {
        for item in self.items {
            let Some((large, _)) = &item.part else { continue };
            let large = &self.batch.large[*large];
            let mut state = large.state.lock().unwrap_or_else(|e| e.into_inner());
            let is_open = matches!(*state, LargeState::Open(_));
            if is_open && large.parts_left.load(Ordering::Acquire) > 0 {
                *state = LargeState::Skipped;
                let path = self.batch.path(item.directory);
                if let Ok(directory) = self.context.beneath.directory(&path) {
                    let _ = remove_file(&directory, &item.name);
                }
            }
        }
    }
}

struct Worker<'a> {
    shared: &'a Shared<'a>,
    context: &'a Context<'a>,
    /// The directory of the previous item.
    at_hand: Option<AtHand>,
    /// The last set of xattrs that was read; adjacent items mostly share it.
    xattrs: (u64, Vec<Xattr>),
    report: ExtractReport,
}

/// An open directory.
struct AtHand {
    directory: usize,
    fd: Arc<OwnedFd>,
    /// Entries created in it inherit its default access control list.
    hands_acl_down: bool,
}

/// The outcome of creating an entry in the place of another.
enum Made<T> {
    New(T),
    Kept,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>) -> Self {
        let report = ExtractReport::default();
        Self { shared, context: shared.context, at_hand: None, xattrs: (0, Vec::new()), report }
    }

    fn run(mut self) -> Result<(), Error> {
        let result = self.run_items();
        if result.is_err() {
            self.shared.stop.store(true, Ordering::Relaxed);
        }
        self.context.lock().add(self.report);
        result
    }

    fn run_items(&mut self) -> Result<(), Error> {
        let shared = self.shared;
        loop {
            let next = shared.next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = shared.pieces.get(next) else { return Ok(()) };
            let taken = shared.items.get(piece.clone()).unwrap_or_default();
            for item in taken {
                self.context.options.cancel.check()?;
                if self.shared.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.item(item)?;
            }
        }
    }

    fn problem(&self, item: &Item, kind: ProblemKind) -> Result<(), Error> {
        let path = self.shared.batch.path_of(item.directory, &item.name);
        self.context.problem(&path, kind)
    }

    fn item(&mut self, item: &Item) -> Result<(), Error> {
        let attributes = match self.context.tree.attributes(item.inode) {
            Ok(attributes) => attributes,
            Err(error) => return self.problem(item, ProblemKind::Unreadable(error)),
        };
        let is_whole = item.part.is_none();
        match attributes.kind {
            InodeKind::File if is_whole => self.small(item, &attributes)?,
            InodeKind::File => self.part(item, &attributes)?,
            InodeKind::Symlink => self.symlink(item, &attributes)?,
            _ => self.special(item, &attributes)?,
        }
        if is_whole {
            let is_file = attributes.kind == InodeKind::File;
            self.context.progress.done(1, if is_file { attributes.size } else { 0 });
        }
        Ok(())
    }

    fn directory(&mut self, item: &Item) -> io::Result<Arc<OwnedFd>> {
        Ok(Arc::clone(&self.at_hand(item)?.fd))
    }

    /// Opens the directory of an item, unless it is the previous one.
    fn at_hand(&mut self, item: &Item) -> io::Result<&AtHand> {
        let directory = item.directory;
        let at_hand = match self.at_hand.take().filter(|found| found.directory == directory) {
            Some(found) => found,
            None => {
                let path = self.shared.batch.path(directory);
                let fd = Arc::new(self.context.beneath.directory(&path)?);
                let hands_acl_down = hands_acl_down(fd.as_fd());
                AtHand { directory, fd, hands_acl_down }
            }
        };
        Ok(self.at_hand.insert(at_hand))
    }

    /// Calls `make` for the item's name. If the name is taken and the policy allows it, removes
    /// what is there and calls `make` again.
    fn make<T>(
        &mut self,
        item: &Item,
        attributes: &Attributes,
        make: impl Fn(&OwnedFd, &[u8]) -> rustix::io::Result<T>,
    ) -> io::Result<Made<T>> {
        check_name(&item.name)?;
        let directory = self.directory(item)?;
        match make(&directory, &item.name) {
            Ok(made) => return Ok(Made::New(made)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let there = rustix::fs::statat(&directory, &*item.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_older = || {
            let mtime = attributes.mtime;
            (there.st_mtime, there.st_mtime_nsec as u32) < (mtime.sec, mtime.nsec)
        };
        match self.context.options.overwrite {
            Overwrite::Refuse => return Err(Errno::EXIST.into()),
            Overwrite::Never => return Ok(Made::Kept),
            Overwrite::Older if !is_older() => return Ok(Made::Kept),
            Overwrite::Older | Overwrite::Always => {}
        }
        if FileType::from_raw_mode(there.st_mode) == FileType::Directory {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "a directory is there already; remove it first",
            ));
        }
        remove_file(&directory, &item.name)?;
        Ok(Made::New(make(&directory, &item.name)?))
    }

    fn create(&mut self, item: &Item, attributes: &Attributes) -> io::Result<Made<File>> {
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            | OFlags::NOCTTY;
        let mode = Mode::RUSR | Mode::WUSR;
        let made = self.make(item, attributes, |directory, name| {
            rustix::fs::openat(directory, name, flags, mode)
        })?;
        Ok(match made {
            Made::New(fd) => Made::New(File::from(fd)),
            Made::Kept => Made::Kept,
        })
    }

    fn small(&mut self, item: &Item, attributes: &Attributes) -> Result<(), Error> {
        let file = match self.create(item, attributes) {
            Ok(Made::New(file)) => file,
            Ok(Made::Kept) => {
                self.report.kept += 1;
                return Ok(());
            }
            Err(error) => {
                return self.problem(item, ProblemKind::NotMade(kind_name(attributes.kind), error));
            }
        };
        let result = self.write(item, attributes, &file, 0..attributes.size).and_then(|end| {
            if end < attributes.size {
                self.set_len(item, &file, attributes.size)?;
            }
            self.restore_open(item, attributes, &file)
        });
        if let Err(error) = result {
            if let Ok(directory) = self.directory(item) {
                let _ = remove_file(&*directory, &item.name);
            }
            return Err(error);
        }
        self.report.files += 1;
        self.report.file_bytes += attributes.size;
        Ok(())
    }

    fn part(&mut self, item: &Item, attributes: &Attributes) -> Result<(), Error> {
        let Some((large, range)) = &item.part else { return Ok(()) };
        let large = &self.shared.batch.large[*large];
        let file = {
            let mut state = large.state.lock().unwrap_or_else(|e| e.into_inner());
            match &*state {
                LargeState::Open(file) => Some(Arc::clone(file)),
                LargeState::Skipped => None,
                LargeState::New => {
                    *state = LargeState::Skipped;
                    match self.create(item, attributes) {
                        Ok(Made::New(file)) => {
                            // All parts share one descriptor: the system may refuse a second one.
                            let file = Arc::new(file);
                            *state = LargeState::Open(Arc::clone(&file));
                            drop(state);
                            self.set_len(item, &file, attributes.size)?;
                            Some(file)
                        }
                        Ok(Made::Kept) => {
                            self.report.kept += 1;
                            None
                        }
                        Err(error) => {
                            let kind = ProblemKind::NotMade(kind_name(attributes.kind), error);
                            self.problem(item, kind)?;
                            None
                        }
                    }
                }
            }
        };
        if let Some(file) = &file {
            self.write(item, attributes, file, range.clone())?;
        }
        self.context.progress.done(0, range.end - range.start);
        if large.parts_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.context.progress.done(1, 0);
            if let Some(file) = &file {
                self.report.files += 1;
                self.report.file_bytes += attributes.size;
                self.restore_open(item, attributes, file)?;
                // Closed here: thousands of long files must not stay open until the batch ends.
                *large.state.lock().unwrap_or_else(|e| e.into_inner()) = LargeState::Skipped;
            }
        }
        Ok(())
    }

    fn set_len(&self, item: &Item, file: &File, len: u64) -> Result<(), Error> {
        let result = file.set_len(len);
        result.or_else(|error| self.problem(item, ProblemKind::NotMade("set the length of", error)))
    }

    /// Writes zeroes. The inner error is one of the file.
    fn write_zeroes(&self, file: &File, range: Range<u64>) -> Result<io::Result<()>, Error> {
        let len = range.end.saturating_sub(range.start).min(ZEROES_LEN as u64) as usize;
        let zeroes = vec![0; len];
        let mut at = range.start;
        while at < range.end {
            self.context.options.cancel.check()?;
            let block = &zeroes[..(range.end - at).min(len as u64) as usize];
            if let Err(error) = file.write_all_at(block, at) {
                return Ok(Err(error));
            }
            at += block.len() as u64;
        }
        Ok(Ok(()))
    }

    /// Writes a range of the content and skips holes. Returns the end of what was written.
    fn write(
        &mut self,
        item: &Item,
        attributes: &Attributes,
        file: &File,
        range: Range<u64>,
    ) -> Result<u64, Error> {
        let image = self.context.tree.image();
        let mut end = 0;
        let pieces = match image.pieces(attributes.payload, range.clone()) {
            Ok(pieces) => pieces,
            Err(error) => {
                self.damaged(item, range.start, range.end - range.start, error)?;
                return Ok(end);
            }
        };
        for piece in pieces {
            self.context.options.cancel.check()?;
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => {
                    let from = end.max(range.start);
                    self.damaged(item, from, range.end - from, error)?;
                    break;
                }
            };
            let (unit, offset) = match piece.kind {
                PieceKind::Frame { frame, frame_offset } => (Unit::Frame(frame), frame_offset),
                PieceKind::Rebuilt { chunk, chunk_offset } => (Unit::Chunk(chunk), chunk_offset),
                PieceKind::Hole if self.context.options.sparse != Sparse::Never => continue,
                PieceKind::Zero if self.context.options.sparse == Sparse::Zeroes => continue,
                // Zeroes were data in the source, so they are data in the copy, not a hole.
                PieceKind::Hole | PieceKind::Zero => {
                    let stop = piece.offset.saturating_add(piece.len);
                    if let Err(error) = self.write_zeroes(file, piece.offset..stop)? {
                        self.problem(item, ProblemKind::NotMade("write", error))?;
                        return Ok(end);
                    }
                    end = stop;
                    self.report.written_bytes += piece.len;
                    continue;
                }
            };
            let plain = match image.unit(unit) {
                Ok(plain) => plain,
                Err(error) => {
                    self.damaged(item, piece.offset, piece.len, error)?;
                    continue;
                }
            };
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let stop = start.saturating_add(usize::try_from(piece.len).unwrap_or(usize::MAX));
            let bytes = plain.get(start..stop).unwrap_or_default();
            if let Err(error) = file.write_all_at(bytes, piece.offset) {
                self.problem(item, ProblemKind::NotMade("write", error))?;
                return Ok(end);
            }
            end = piece.offset + piece.len;
            self.report.written_bytes += piece.len;
        }
        Ok(end)
    }

    fn damaged(
        &self,
        item: &Item,
        offset: u64,
        len: u64,
        error: shale_read::ReadError,
    ) -> Result<(), Error> {
        self.context.damaged().insert(item.inode);
        self.problem(item, ProblemKind::Damaged { offset, len, error })
    }

    fn symlink(&mut self, item: &Item, attributes: &Attributes) -> Result<(), Error> {
        let target = match self.context.tree.link_target(item.inode) {
            Ok(target) => target,
            Err(error) => return self.problem(item, ProblemKind::Unreadable(error)),
        };
        let made = self.make(item, attributes, |directory, name| {
            rustix::fs::symlinkat(&target[..], directory, name)
        });
        if self.named(item, attributes, made)? {
            self.report.symlinks += 1;
        }
        Ok(())
    }

    fn special(&mut self, item: &Item, attributes: &Attributes) -> Result<(), Error> {
        let kind = match attributes.kind {
            InodeKind::BlockDevice => FileType::BlockDevice,
            InodeKind::CharDevice => FileType::CharacterDevice,
            InodeKind::Fifo => FileType::Fifo,
            _ => FileType::Socket,
        };
        let is_device = matches!(kind, FileType::BlockDevice | FileType::CharacterDevice);
        if is_device && !self.context.options.devices {
            return Ok(());
        }
        if is_device && !self.context.restore.makes_devices() {
            return self.problem(item, ProblemKind::Device);
        }
        let (major, minor) = attributes.device();
        let made = self.make(item, attributes, |directory, name| {
            let device = rustix::fs::makedev(major, minor);
            rustix::fs::mknodat(directory, name, kind, Mode::RUSR | Mode::WUSR, device)
        });
        // Root inside a container may be refused as well.
        if let (true, Err(error)) = (is_device, &made)
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            return self.problem(item, ProblemKind::Device);
        }
        if self.named(item, attributes, made)? {
            self.report.specials += 1;
        }
        Ok(())
    }

    /// Sets the attributes of an entry without a descriptor. Returns true if it was created.
    fn named(
        &mut self,
        item: &Item,
        attributes: &Attributes,
        made: io::Result<Made<()>>,
    ) -> Result<bool, Error> {
        match made {
            Ok(Made::New(())) => {}
            Ok(Made::Kept) => {
                self.report.kept += 1;
                return Ok(false);
            }
            Err(error) => {
                self.problem(item, ProblemKind::NotMade(kind_name(attributes.kind), error))?;
                return Ok(false);
            }
        }
        match self.directory(item) {
            Ok(directory) => {
                let handle = Handle::Named(directory.as_fd(), &item.name);
                self.restore(item, attributes, handle)?;
            }
            Err(error) => self.problem(item, ProblemKind::Attribute("attributes", error))?,
        }
        Ok(true)
    }

    fn restore_open(
        &mut self,
        item: &Item,
        attributes: &Attributes,
        file: &File,
    ) -> Result<(), Error> {
        self.restore(item, attributes, Handle::Open(file.as_fd()))
    }

    fn restore(
        &mut self,
        item: &Item,
        attributes: &Attributes,
        handle: Handle<'_>,
    ) -> Result<(), Error> {
        let inherits_acl = self.at_hand(item).map_or(true, |found| found.hands_acl_down);
        let wanted = self.context.restore.wants_xattrs(attributes);
        if wanted && attributes.xattr_set != self.xattrs.0 {
            match self.context.tree.xattrs(item.inode) {
                Ok(xattrs) => self.xattrs = (attributes.xattr_set, xattrs),
                Err(error) => self.problem(item, ProblemKind::Unreadable(error))?,
            }
        }
        let is_had = wanted && attributes.xattr_set == self.xattrs.0;
        let xattrs = if is_had { &self.xattrs.1[..] } else { &[] };
        let mut problems = Vec::new();
        let add = &mut |kind| problems.push(kind);
        let restore = &self.context.restore;
        restore.apply(handle, inherits_acl, attributes, xattrs, &mut self.report, add);
        for kind in problems {
            self.problem(item, kind)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(content: u64, len: u64, directory: usize) -> Item {
        Item { content, len, inode: 0, directory, name: Box::default(), part: None }
    }

    fn ordered(items: &[(u64, u64, usize)]) -> Vec<(u64, usize)> {
        let mut items: Vec<Item> = items.iter().map(|&(c, l, d)| item(c, l, d)).collect();
        order(&mut items);
        items.iter().map(|item| (item.content, item.directory)).collect()
    }

    #[test]
    fn without_duplicates_the_walk_is_kept() {
        let walk: Vec<(u64, u64, usize)> =
            (0..5000).map(|n| (n as u64 + 1, 100_000, n / 7)).collect();
        let kept: Vec<(u64, usize)> = walk.iter().map(|&(c, _, d)| (c, d)).collect();
        assert_eq!(ordered(&walk), kept);
    }

    #[test]
    fn versions_of_the_same_contents_come_together_directory_by_directory() {
        // Two directories of 20 MiB in three versions; the second version has one file of its own.
        let mib = 1 << 20;
        let mut walk = Vec::new();
        for version in 0..3 {
            for half in 0..2 {
                for n in 0..20 {
                    let content = match (version, n) {
                        (1, 5) => 90_000 + half,
                        _ => 1 + half * 1000 + n,
                    };
                    walk.push((content, mib, (version * 2 + half) as usize));
                }
            }
        }
        let ordered = ordered(&walk);
        let place = |content: u64| {
            let at = ordered.iter().enumerate().filter(|(_, (c, _))| *c == content);
            let at: Vec<usize> = at.map(|(at, _)| at).collect();
            (at[0], at[at.len() - 1])
        };
        // All versions of a content lie within the size of the cache, not a whole tree apart.
        for content in (1..=20).chain(1001..=1020) {
            let (first, last) = place(content);
            assert!(last - first < 60, "content {content}: {first} to {last}");
        }
        let changes = ordered.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        assert!(changes < 24, "{changes} changes of directory for {} files", walk.len());
        let mut all: Vec<_> = ordered.clone();
        let mut expected: Vec<_> = walk.iter().map(|&(c, _, d)| (c, d)).collect();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected, "nothing is lost");
    }

    #[test]
    fn pieces_cover_everything_and_keep_to_directories() {
        let items: Vec<Item> = (0..1000)
            .map(|n| item(n, if n == 500 { 50 << 20 } else { 10 }, n as usize / 40))
            .collect();
        let pieces = pieces(&items);
        let mut next = 0;
        for piece in &pieces {
            assert_eq!(piece.start, next);
            assert!(piece.len() <= PIECE_ITEMS_MAX);
            let directories = items[piece.start].directory..items[piece.end - 1].directory;
            assert!(directories.len() <= 1, "{piece:?}");
            next = piece.end;
        }
        assert_eq!(next, items.len());
        assert!(super::pieces(&[]).is_empty());
    }
}
