//! Walks the tree. Creates directories on the way and gathers everything else into batches.
//!
//! The walk keeps one frame for each directory on the way down. After a batch, directories that are
//! no longer on that way are complete and get their attributes, deepest first.

use std::collections::HashMap;
use std::ops::Range;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use shale_format::InodeKind;
use shale_host::{Phase, check_name, remove_file};
use shale_model::pattern::Position;
use shale_read::Attributes;

use super::attributes::Handle;
use super::batch::{Batch, Directory, Item, Large, Link};
use super::context::{Context, kind_name};
use super::files;
use super::options::Overwrite;
use super::report::{ExtractReport, ProblemKind};
use crate::error::Error;

/// Files longer than this are written by several threads, in parts of this length.
const PART_LEN: u64 = 16 << 20;

/// The first name of a file with several names.
struct FirstName {
    path: Vec<u8>,
    names_left: u64,
}

/// One directory on the way down.
struct Frame {
    directory: usize,
    cookie: u64,
    position: Position,
}

/// Why the listing of a directory was interrupted.
enum Pause {
    Enter { inode: u64, name: Vec<u8>, position: Position },
    Full,
}

/// Extracts everything that is selected.
pub(super) fn run(context: &Context<'_>, target_was_empty: bool) -> Result<(), Error> {
    let start = context.options.patterns.start();
    let root = Directory {
        parent: 0,
        name: Vec::new(),
        inode: context.tree.root_inode(),
        is_made: true,
        is_restored: start.is_selected()
            && target_was_empty
            && context.options.strip_components == 0,
        is_stripped: false,
    };
    let mut walk = Walk {
        context,
        batch: Batch {
            directories: vec![root],
            items: Vec::new(),
            large: Vec::new(),
            links: Vec::new(),
            bytes: 0,
        },
        frames: vec![Frame { directory: 0, cookie: 0, position: start }],
        first_names: HashMap::new(),
        at_hand: None,
    };
    walk.run()
}

struct Walk<'a> {
    context: &'a Context<'a>,
    batch: Batch,
    frames: Vec<Frame>,
    first_names: HashMap<u64, FirstName>,
    /// The directory in which the last entry was created.
    at_hand: Option<(usize, OwnedFd)>,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), Error> {
        while let Some(frame) = self.frames.last() {
            self.context.options.cancel.check()?;
            let directory = frame.directory;
            match self.list(directory) {
                Ok(Some(Pause::Full)) => self.flush()?,
                Ok(Some(Pause::Enter { inode, name, position })) => {
                    self.enter(directory, inode, name, position)?;
                }
                Ok(None) => {
                    self.frames.pop();
                    if self.batch.is_full(self.frames.len()) {
                        self.flush()?;
                    }
                }
                Err(error) => {
                    self.frames.pop();
                    let path = self.batch.path(directory);
                    self.context.problem(&path, ProblemKind::Unreadable(error))?;
                }
            }
        }
        self.flush()
    }

    /// Gathers the entries of the innermost directory until there is one to enter, the batch is
    /// full, or no entry is left.
    fn list(&mut self, directory: usize) -> Result<Option<Pause>, shale_read::ReadError> {
        let Some(mut frame) = self.frames.pop() else { return Ok(None) };
        let inode = self.batch.directories[directory].inode;
        let (tree, patterns) = (self.context.tree, &self.context.options.patterns);
        let mut pause = None;
        let mut cookie = frame.cookie;
        let is_stripped = self.frames.len() < self.context.options.strip_components;
        let mut stripped = 0;
        let result = tree.list_attributes(inode, frame.cookie, |entry, attributes| {
            cookie = entry.cookie;
            let below = patterns.step(&frame.position, entry.name);
            if attributes.kind == InodeKind::Directory {
                if below.may_match_below() {
                    let (inode, name) = (entry.inode, entry.name.to_vec());
                    pause = Some(Pause::Enter { inode, name, position: below });
                }
            } else if below.is_selected() && is_stripped {
                stripped += 1;
            } else if below.is_selected() {
                self.gather(directory, entry.name, attributes);
                // The frame of the directory itself is not among the others.
                if self.batch.is_full(self.frames.len() + 1) {
                    pause = Some(Pause::Full);
                }
            }
            pause.is_none()
        });
        if stripped > 0 {
            self.context.lock().stripped += stripped;
        }
        frame.cookie = cookie;
        self.frames.push(frame);
        result.map(|()| pause)
    }

    fn gather(&mut self, directory: usize, name: &[u8], attributes: &Attributes) {
        let inode = attributes.inode;
        if attributes.link_count > 1 {
            if let Some(first) = self.first_names.get_mut(&inode) {
                first.names_left = first.names_left.saturating_sub(1);
                self.batch.links.push(Link { inode, directory, name: name.to_vec() });
                return;
            }
            let path = self.batch.path_of(directory, name);
            let names_left = attributes.link_count - 1;
            self.first_names.insert(inode, FirstName { path, names_left });
        }
        let is_file = attributes.kind == InodeKind::File;
        let len = if is_file { attributes.size } else { 0 };
        let content = if is_file { attributes.payload } else { 0 };
        let item = |part: Option<(usize, Range<u64>)>| {
            let len = part.as_ref().map_or(len, |(_, range)| range.end - range.start);
            Item { content, len, inode, directory, name: name.into(), part }
        };
        self.batch.bytes = self.batch.bytes.saturating_add(len);
        if len <= PART_LEN {
            return self.batch.items.push(item(None));
        }
        // Longer parts for very long files, so that no file has more than about ten thousand.
        let part_len = PART_LEN.max(len.div_ceil(10_000));
        let count = len.div_ceil(part_len);
        let large = self.batch.large.len();
        self.batch.large.push(Large::new(count));
        for part in 0..count {
            let start = part * part_len;
            let range = start..start.saturating_add(part_len).min(len);
            self.batch.items.push(item(Some((large, range))));
        }
    }

    /// Enters a directory; creates it if it is selected itself.
    fn enter(
        &mut self,
        parent: usize,
        inode: u64,
        name: Vec<u8>,
        position: Position,
    ) -> Result<(), Error> {
        if let Err(error) = check_name(&name) {
            let path = self.batch.path_of(parent, &name);
            return self.context.problem(&path, ProblemKind::NotMade("use the name", error));
        }
        let is_stripped = self.frames.len() <= self.context.options.strip_components;
        let is_selected = position.is_selected();
        let directory = self.batch.directories.len();
        self.batch.directories.push(Directory {
            parent,
            name,
            inode,
            is_made: is_stripped,
            is_restored: !is_stripped,
            is_stripped,
        });
        if is_selected && !self.make(directory)? {
            self.batch.directories.pop();
            return Ok(());
        }
        self.frames.push(Frame { directory, cookie: 0, position });
        Ok(())
    }

    /// Creates a directory and its parents, unless they exist. Returns false if it cannot be
    /// created, which is reported.
    fn make(&mut self, directory: usize) -> Result<bool, Error> {
        let mut chain = Vec::new();
        let mut at = directory;
        while !self.batch.directories[at].is_made {
            chain.push(at);
            at = self.batch.directories[at].parent;
        }
        for &at in chain.iter().rev() {
            let parent = self.batch.directories[at].parent;
            let result = self
                .open(parent)
                .and_then(|()| self.make_one(parent, at))
                .map_err(|error| (self.batch.path(at), error));
            if let Err((path, error)) = result {
                let kind = ProblemKind::NotMade(kind_name(InodeKind::Directory), error);
                self.context.problem(&path, kind)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn make_one(&mut self, parent: usize, directory: usize) -> std::io::Result<()> {
        let Some((_, fd)) = self.at_hand.as_ref().filter(|(at, _)| *at == parent) else {
            return Err(Errno::NOENT.into());
        };
        let name = &self.batch.directories[directory].name;
        // Accessible to the owner only, until all its entries exist.
        let made = rustix::fs::mkdirat(fd, name, Mode::RWXU);
        if made == Err(Errno::EXIST) {
            let found = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let kind = InodeKind::from_mode(found.st_mode);
            match (kind, self.context.options.overwrite) {
                (Some(InodeKind::Directory), Overwrite::Never | Overwrite::Older) => {
                    self.batch.directories[directory].is_restored = false;
                }
                (Some(InodeKind::Directory), _) => {}
                (_, Overwrite::Always) => {
                    remove_file(fd, name)?;
                    rustix::fs::mkdirat(fd, name, Mode::RWXU)?;
                }
                _ => {
                    return Err(std::io::Error::new(
                        std::io::ErrorKind::NotADirectory,
                        "something else is there already; remove it, or overwrite always",
                    ));
                }
            }
        } else {
            made?;
        }
        self.batch.directories[directory].is_made = true;
        self.context.lock().directories += 1;
        Ok(())
    }

    fn open(&mut self, directory: usize) -> std::io::Result<()> {
        if self.at_hand.as_ref().is_none_or(|(at, _)| *at != directory) {
            let fd = self.context.beneath.directory(&self.batch.path(directory))?;
            self.at_hand = Some((directory, fd));
        }
        Ok(())
    }

    /// Extracts the batch, creates its hard links, completes directories, and starts a new batch
    /// with the directories on the way down.
    fn flush(&mut self) -> Result<(), Error> {
        let context = self.context;
        self.make_needed()?;
        let count = (self.batch.items.len() + self.batch.links.len()) as u64;
        context.progress.phase(Phase::Files);
        context.progress.found(count, self.batch.bytes);
        files::extract(context, &mut self.batch)?;
        context.progress.phase(Phase::Finish);
        self.link()?;
        self.complete()?;
        self.first_names.retain(|_, first| first.names_left > 0);
        context.progress.phase(Phase::Plan);
        Ok(())
    }

    /// Creates directories that were only on the way, once an entry in them is selected.
    fn make_needed(&mut self) -> Result<(), Error> {
        let mut needed: Vec<usize> = self.batch.items.iter().map(|item| item.directory).collect();
        needed.extend(self.batch.links.iter().map(|link| link.directory));
        needed.sort_unstable();
        needed.dedup();
        needed.retain(|&directory| !self.batch.directories[directory].is_made);
        let mut refused = Vec::new();
        for directory in needed {
            if !self.make(directory)? {
                refused.push(directory);
            }
        }
        if !refused.is_empty() {
            self.batch.items.retain(|item| !refused.contains(&item.directory));
            self.batch.links.retain(|link| !refused.contains(&link.directory));
        }
        Ok(())
    }

    fn link(&mut self) -> Result<(), Error> {
        for link in std::mem::take(&mut self.batch.links) {
            self.context.options.cancel.check()?;
            let result = self.link_one(&link);
            match result {
                Ok(true) => {
                    self.context.lock().hard_links += 1;
                    if self.context.damaged().contains(&link.inode)
                        && let Some(first) = self.first_names.get(&link.inode)
                    {
                        let path = self.batch.path_of(link.directory, &link.name);
                        let kind = ProblemKind::DamagedAs(first.path.clone());
                        self.context.problem(&path, kind)?;
                    }
                }
                Ok(false) => self.context.lock().kept += 1,
                Err(error) => {
                    let path = self.batch.path_of(link.directory, &link.name);
                    let kind = ProblemKind::NotMade("make the hard link", error);
                    self.context.problem(&path, kind)?;
                }
            }
            self.context.progress.done(1, 0);
        }
        Ok(())
    }

    /// Returns false if an existing file was kept.
    fn link_one(&mut self, link: &Link) -> std::io::Result<bool> {
        check_name(&link.name)?;
        self.open(link.directory)?;
        let Some(first) = self.first_names.get(&link.inode) else {
            return Err(Errno::NOENT.into());
        };
        let slash = first.path.iter().rposition(|&byte| byte == b'/');
        let (from_path, from_name) = match slash {
            Some(slash) => (&first.path[..slash], &first.path[slash + 1..]),
            None => (&[][..], &first.path[..]),
        };
        let from = self.context.beneath.directory(from_path)?;
        let Some((_, to)) = &self.at_hand else { return Err(Errno::NOENT.into()) };
        let made = rustix::fs::linkat(&from, from_name, to, &link.name, AtFlags::empty());
        if made != Err(Errno::EXIST) {
            return Ok(made.map(|()| true)?);
        }
        // The policy already decided about the first name; the other names follow it.
        let there = rustix::fs::statat(to, &link.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let wanted = rustix::fs::statat(&from, from_name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino) {
            return Ok(true);
        }
        let mtime = |found: &rustix::fs::Stat| (found.st_mtime, found.st_mtime_nsec);
        match self.context.options.overwrite {
            Overwrite::Refuse => Err(Errno::EXIST.into()),
            Overwrite::Never => Ok(false),
            Overwrite::Older if mtime(&there) >= mtime(&wanted) => Ok(false),
            Overwrite::Older | Overwrite::Always => {
                remove_file(to, &link.name)?;
                rustix::fs::linkat(&from, from_name, to, &link.name, AtFlags::empty())?;
                Ok(true)
            }
        }
    }

    /// Sets the attributes of directories that get no more entries, children before parents, and
    /// keeps the others.
    fn complete(&mut self) -> Result<(), Error> {
        // Ascending, as each is the parent of the next.
        let open: Vec<usize> = self.frames.iter().map(|frame| frame.directory).collect();
        let is_open = |at: &usize| open.binary_search(at).is_ok();
        for at in (0..self.batch.directories.len()).rev() {
            self.context.options.cancel.check()?;
            let directory = &self.batch.directories[at];
            if is_open(&at) || !directory.is_made || !directory.is_restored {
                continue;
            }
            self.restore(at)?;
        }
        self.at_hand = None;
        // The way down becomes the beginning of the next batch: each directory is the parent of the
        // next.
        let mut kept = Vec::with_capacity(open.len());
        for (at, directory) in std::mem::take(&mut self.batch.directories).into_iter().enumerate() {
            if is_open(&at) {
                let parent = kept.len().saturating_sub(1);
                kept.push(Directory { parent, ..directory });
            }
        }
        for (depth, frame) in self.frames.iter_mut().enumerate() {
            frame.directory = depth;
        }
        self.batch.directories = kept;
        self.batch.large.clear();
        self.batch.bytes = 0;
        Ok(())
    }

    fn restore(&mut self, at: usize) -> Result<(), Error> {
        let context = self.context;
        let path = self.batch.path(at);
        let inode = self.batch.directories[at].inode;
        let read = context.tree.attributes(inode).and_then(|attributes| {
            let wanted = context.restore.wants_xattrs(&attributes);
            Ok((attributes, if wanted { context.tree.xattrs(inode)? } else { Vec::new() }))
        });
        let (attributes, xattrs) = match read {
            Ok(read) => read,
            Err(error) => return context.problem(&path, ProblemKind::Unreadable(error)),
        };
        let fd = match context.beneath.directory_for_attributes(&path) {
            Ok(fd) => fd,
            Err(error) => {
                return context.problem(&path, ProblemKind::Attribute("attributes", error));
            }
        };
        let mut report = ExtractReport::default();
        let mut problems = Vec::new();
        let handle = Handle::Open(fd.as_fd());
        let add = &mut |kind| problems.push(kind);
        // Its access list may be inherited from its parent or an old one; neither is from the
        // image.
        context.restore.apply(handle, true, &attributes, &xattrs, &mut report, add);
        context.lock().add(report);
        for kind in problems {
            context.problem(&path, kind)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use shale_read::{Image, MemorySource, SnapshotChoice, Tree};
    use shale_source::{DirectorySource, ScanOptions};
    use shale_write::NoProgress;

    use super::*;
    use crate::extract::batch::BATCH_ITEMS_MAX;
    use crate::extract::{ExtractOptions, extract};
    use shale_host::Progress;
    use shale_model::pattern::Patterns;

    fn tree_of(source: &Path) -> Tree {
        let mut source =
            DirectorySource::open(source, &ScanOptions::default(), &NoProgress).unwrap();
        let mut image = Vec::new();
        let options = shale_write::Options { level: 1, ..Default::default() };
        shale_write::create(&mut source, &mut image, &options, &NoProgress).unwrap();
        let image = Image::open(Arc::new(MemorySource::new(image)), Default::default()).unwrap();
        image.tree(&SnapshotChoice::Newest).unwrap()
    }

    /// Counts batches.
    #[derive(Default)]
    struct Batches(AtomicUsize);

    impl Progress for Batches {
        fn phase(&self, phase: Phase) {
            self.0.fetch_add(usize::from(phase == Phase::Finish), Ordering::Relaxed);
        }
    }

    #[test]
    fn directories_fill_a_batch_like_files() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        // Some are deeper than a batch is long, and stay open while others are created.
        let deep: std::path::PathBuf = (0..2 * BATCH_ITEMS_MAX).map(|_| "deep").collect();
        std::fs::create_dir_all(source.join(&deep)).unwrap();
        let count = 4 * BATCH_ITEMS_MAX;
        for top in ["a", "z"] {
            for n in 0..count / 2 {
                std::fs::create_dir_all(source.join(top).join(n.to_string())).unwrap();
            }
        }
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o751);
        std::fs::set_permissions(source.join("a/7"), mode).unwrap();
        let tree = tree_of(&source);
        let run = |target: &Path, patterns: &[&str]| {
            let batches = Batches::default();
            let patterns = Patterns::new(patterns).unwrap();
            let options = ExtractOptions::default().patterns(patterns);
            let report = extract(&tree, target, &options, &batches);
            (report.map(|report| report.directories), batches.0.into_inner())
        };
        let target = folder.path().join("target");
        let (made, batches) = run(&target, &[]);
        assert_eq!(made.unwrap(), (count + 2 + 2 * BATCH_ITEMS_MAX) as u64);
        // All but those on the way down; the rest is completed at once.
        assert!((4..=8).contains(&batches), "{batches} batches");
        for (path, expected) in [("a/7", 0o751), ("a/8", 0o755), ("z/7", 0o755)] {
            let found = std::fs::metadata(target.join(path)).unwrap();
            let found = std::os::unix::fs::MetadataExt::mode(&found) & 0o777;
            assert_eq!(found, expected, "{path}");
        }
        assert!(target.join(deep).is_dir());
        // Directories that are only walked through fill batches too.
        let (made, batches) = run(&folder.path().join("none"), &["*/*/nothing"]);
        assert!(made.is_err());
        assert!(batches >= 4, "{batches} batches");
    }
}
