//! Cuts directory trees into shares of about equal size, for several builds.
//!
//! The cuts depend on paths, lengths and hard links only. Entries are taken in path order, and
//! weigh their length and [`ENTRY_WEIGHT`]. Once a share weighs half of its maximum, it may end:
//! where the path changes nearest to the root, and as late as possible. A file is never cut. Hard
//! links between shares go into shares of their own, all names of an inode in one.
//!
//! Memory: the names of one directory for each level of the tree, a path for each share, and all
//! names of the files that have several. Nothing is read but directories and attributes.

use std::collections::{BTreeMap, HashMap, HashSet, btree_map};
use std::ffi::OsStr;
use std::fs::{self, FileType, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use shale_format::InodeKind;
use shale_host::{Cancel, Phase, Progress};
use shale_model::LinkId;

use crate::choose::Choose;
use crate::described::{Input, InputKind};
use crate::error::Error;
use crate::options::SourceOptions;
use crate::share::{Share, path_order};

/// Smallest size of a share: below it, most of an image would be tables.
pub const PART_BYTES_MIN: u64 = 1 << 20;

/// Bytes that an entry weighs besides its content, so that empty files are cut, too.
const ENTRY_WEIGHT: u64 = 1024;

/// Shares of the inputs, as [`cut`] makes them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cutting {
    /// The shares. Together they contain every path once.
    pub shares: Vec<Share>,
    /// Entries that were listed.
    pub entries: u64,
    /// Bytes of the regular files among them; hard links count once.
    pub bytes: u64,
    /// Inodes with names in several shares, which got shares of their own.
    pub links: u64,
}

/// Lists `sources`, which are directories, and cuts them into shares of at most `part_bytes`, each
/// for one build with the same options. Rules and kinds of `options.choose` are applied.
///
/// What cannot be listed weighs nothing: the build of its share will say what is wrong with it.
///
/// # Errors
/// A source is not a directory; cancellation.
pub fn cut(
    sources: &[Input],
    options: &SourceOptions,
    part_bytes: u64,
    progress: &dyn Progress,
) -> Result<Cutting, Error> {
    progress.phase(Phase::Scan);
    let mut roots = Vec::with_capacity(sources.len());
    for source in sources {
        let InputKind::Path(path) = &source.kind else {
            return Err(Error::NotTree { path: source.name().to_owned() });
        };
        if !fs::metadata(path).map_err(Error::io("look at", path))?.is_dir() {
            return Err(Error::NotTree { path: path.clone() });
        }
        roots.push((names_of(source.prefix.as_deref().unwrap_or_default()), path.clone()));
    }
    let mut cutter = Cutter::new(part_bytes.max(PART_BYTES_MIN));
    let mut walk = Walk { choose: &options.choose, cancel: &options.cancel, cutter: &mut cutter };
    walk.run(roots, progress)?;
    Ok(cutter.finish())
}

/// The names of a path.
fn names_of(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|&byte| byte == b'/');
    names.filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec).collect()
}

/// What one name of the tree leads to: a file, or directories of any number of inputs.
#[derive(Default)]
struct Node {
    /// Attributes of the last input that has the name.
    found: Option<Metadata>,
    /// The directories that are one here.
    directories: Vec<PathBuf>,
    /// Inputs whose prefix continues here: the rest of it, last name first.
    below: Vec<(Vec<Vec<u8>>, PathBuf)>,
}

impl Node {
    fn kind(&self) -> InodeKind {
        match &self.found {
            _ if !self.directories.is_empty() || !self.below.is_empty() => InodeKind::Directory,
            Some(found) => kind_of(found.file_type()),
            None => InodeKind::Directory,
        }
    }

    /// Lists the names below.
    fn list(self) -> BTreeMap<Vec<u8>, Node> {
        let mut names: BTreeMap<Vec<u8>, Node> = BTreeMap::new();
        for directory in self.directories {
            let Ok(listed) = fs::read_dir(&directory) else { continue };
            for entry in listed.flatten() {
                let Ok(found) = entry.metadata() else { continue };
                let node = names.entry(entry.file_name().as_bytes().to_vec()).or_default();
                if found.is_dir() {
                    node.directories.push(directory.join(entry.file_name()));
                }
                node.found = Some(found);
            }
        }
        for (mut prefix, path) in self.below {
            if let Some(name) = prefix.pop() {
                names.entry(name).or_default().add(prefix, path);
            }
        }
        names
    }

    fn add(&mut self, prefix: Vec<Vec<u8>>, path: PathBuf) {
        match prefix.is_empty() {
            true => self.directories.push(path),
            false => self.below.push((prefix, path)),
        }
    }
}

struct Walk<'a> {
    choose: &'a Choose,
    cancel: &'a Cancel,
    cutter: &'a mut Cutter,
}

impl Walk<'_> {
    fn run(
        &mut self,
        roots: Vec<(Vec<Vec<u8>>, PathBuf)>,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let mut root = Node::default();
        for (mut prefix, path) in roots {
            prefix.reverse();
            root.add(prefix, path);
        }
        let mut path: Vec<u8> = Vec::new();
        // The rest of each directory, and the length of its path.
        let mut stack: Vec<(btree_map::IntoIter<Vec<u8>, Node>, usize)> =
            vec![(root.list().into_iter(), 0)];
        while let Some((names, path_len)) = stack.last_mut() {
            path.truncate(*path_len);
            let Some((name, node)) = names.next() else {
                stack.pop();
                continue;
            };
            self.cancel.check()?;
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            let kind = node.kind();
            if !self.choose.takes(&path, kind) {
                continue;
            }
            let found = node.found.as_ref().filter(|_| kind != InodeKind::Directory);
            let len = found.filter(|_| kind == InodeKind::File).map_or(0, Metadata::len);
            let link = found.filter(|found| found.nlink() > 1).map(link_of);
            self.cutter.add(&path, len, link);
            progress.found(1, len);
            if kind == InodeKind::Directory {
                stack.push((node.list().into_iter(), path.len()));
            }
        }
        Ok(())
    }
}

fn kind_of(of: FileType) -> InodeKind {
    match of {
        of if of.is_dir() => InodeKind::Directory,
        of if of.is_symlink() => InodeKind::Symlink,
        of if of.is_fifo() => InodeKind::Fifo,
        of if of.is_socket() => InodeKind::Socket,
        of if of.is_block_device() => InodeKind::BlockDevice,
        of if of.is_char_device() => InodeKind::CharDevice,
        _ => InodeKind::File,
    }
}

fn link_of(found: &Metadata) -> LinkId {
    LinkId { device: found.dev(), inode: found.ino() }
}

/// Chooses the cuts, from entries in path order.
struct Cutter {
    part_bytes: u64,
    /// Where shares begin, except the first.
    cuts: Vec<Vec<u8>>,
    /// Weight since the last cut.
    weight: u64,
    /// The best place to cut since then.
    best: Option<CutPoint>,
    /// Path of the last entry.
    last: Vec<u8>,
    entries: u64,
    bytes: u64,
    /// Names and weight of the inodes that may have several names.
    links: HashMap<LinkId, (Vec<Vec<u8>>, u64)>,
}

/// A place to cut.
struct CutPoint {
    path: Vec<u8>,
    /// Names that this path shares with the one before.
    shared: usize,
    /// Weight between the last cut and this place.
    weight: u64,
}

impl Cutter {
    fn new(part_bytes: u64) -> Self {
        Self {
            part_bytes,
            cuts: Vec::new(),
            weight: 0,
            best: None,
            last: Vec::new(),
            entries: 0,
            bytes: 0,
            links: HashMap::new(),
        }
    }

    fn add(&mut self, path: &[u8], mut len: u64, link: Option<LinkId>) {
        if let Some(link) = link {
            let (names, weight) = self.links.entry(link).or_default();
            // The content comes with the first name.
            len = if names.is_empty() { len } else { 0 };
            *weight = weight.saturating_add(len).saturating_add(ENTRY_WEIGHT);
            names.push(path.to_vec());
        }
        let weight = len.saturating_add(ENTRY_WEIGHT);
        let shared = shared_names(&self.last, path);
        if self.weight >= self.part_bytes / 2
            && self.best.as_ref().is_none_or(|best| shared <= best.shared)
        {
            self.best = Some(CutPoint { path: path.to_vec(), shared, weight: self.weight });
        }
        while self.weight > 0 && self.weight.saturating_add(weight) > self.part_bytes {
            match self.best.take() {
                Some(best) => {
                    self.weight -= best.weight;
                    self.cuts.push(best.path);
                }
                None => {
                    self.weight = 0;
                    self.cuts.push(path.to_vec());
                }
            }
        }
        self.weight = self.weight.saturating_add(weight);
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(len);
        self.last.clear();
        self.last.extend_from_slice(path);
    }

    /// Returns the share that a path lies in.
    fn share_of(&self, path: &[u8]) -> usize {
        self.cuts.partition_point(|cut| path_order(cut, path).is_le())
    }

    fn finish(mut self) -> Cutting {
        let mut links: Vec<(Vec<Vec<u8>>, u64)> =
            std::mem::take(&mut self.links).into_values().collect();
        links.retain(|(names, _)| {
            let first = names.first().map(|name| self.share_of(name));
            names.iter().any(|name| Some(self.share_of(name)) != first)
        });
        // The names of an inode came in path order, and so do the inodes by their first names.
        links.sort_unstable_by(|(one, _), (other, _)| path_order(&one[0], &other[0]));
        let mut without: HashMap<usize, HashSet<Vec<u8>>> = HashMap::new();
        let mut apart: Vec<Vec<Vec<u8>>> = Vec::new();
        let mut room = 0;
        for (names, weight) in &links {
            for name in names {
                without.entry(self.share_of(name)).or_default().insert(name.clone());
            }
            if *weight > room {
                apart.push(Vec::new());
                room = self.part_bytes;
            }
            room = room.saturating_sub(*weight);
            if let Some(last) = apart.last_mut() {
                last.extend(names.iter().cloned());
            }
        }
        let starts = std::iter::once(Vec::new()).chain(self.cuts.iter().cloned());
        let ends = self.cuts.iter().cloned().map(Some).chain([None]);
        let intervals = starts.zip(ends).enumerate().map(|(index, (start, end))| {
            let without = without.remove(&index).unwrap_or_default();
            Share::Interval { start, end, without }
        });
        let mut shares: Vec<Share> = intervals.collect();
        shares.extend(apart.into_iter().map(Share::paths));
        let links = links.len() as u64;
        Cutting { shares, entries: self.entries, bytes: self.bytes, links }
    }
}

/// Returns the number of leading names that two paths have in common.
fn shared_names(one: &[u8], other: &[u8]) -> usize {
    let names = |path| Path::new(OsStr::from_bytes(path)).components();
    names(one).zip(names(other)).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use shale_host::NoProgress;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn starts(cutting: &Cutting) -> Vec<String> {
        let start = |share: &Share| match share {
            Share::Interval { start, .. } => String::from_utf8(start.clone()).unwrap(),
            Share::Paths { paths, .. } => format!("{} paths", paths.len()),
        };
        cutting.shares.iter().map(start).collect()
    }

    fn cut_of(entries: &[(&str, u64)]) -> Vec<String> {
        let mut cutter = Cutter::new(10 * MIB);
        for (path, len) in entries {
            cutter.add(path.as_bytes(), *len, None);
        }
        starts(&cutter.finish())
    }

    #[test]
    fn shares_end_between_directories_where_they_can() {
        let cut = cut_of(&[
            ("a", 0),
            ("a/1", 4 * MIB),
            ("a/2", 2 * MIB),
            ("b", 0),
            ("b/1", 2 * MIB),
            ("b/2", 2 * MIB),
            ("b/3", 2 * MIB),
        ]);
        assert_eq!(cut, ["", "b"], "not within b, where the share is full");
    }

    #[test]
    fn a_large_directory_is_cut_and_a_large_file_is_not() {
        let names: Vec<String> = (0..25).map(|number| format!("d/{number:02}")).collect();
        let mut entries: Vec<(&str, u64)> = names.iter().map(|name| (&**name, MIB)).collect();
        assert_eq!(cut_of(&entries), ["", "d/09", "d/18"]);
        entries.insert(12, ("d/11large", 50 * MIB));
        assert_eq!(cut_of(&entries), ["", "d/09", "d/11large", "d/12", "d/21"]);
    }

    #[test]
    fn entries_without_bytes_are_cut_too() {
        let names: Vec<String> = (0..30_000).map(|number| format!("d/{number:05}")).collect();
        let entries: Vec<(&str, u64)> = names.iter().map(|name| (&**name, 0)).collect();
        assert_eq!(cut_of(&entries), ["", "d/10240", "d/20480"]);
    }

    #[test]
    fn all_names_of_an_inode_are_in_one_share() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        for name in ["a", "b", "c"] {
            fs::create_dir(place.join(name)).unwrap();
            fs::write(place.join(name).join("large"), vec![7; 700 << 10]).unwrap();
        }
        fs::hard_link(place.join("a/large"), place.join("a/near")).unwrap();
        fs::hard_link(place.join("b/large"), place.join("c/far")).unwrap();
        let inputs = [Input::new(place)];
        let cut = || cut(&inputs, &SourceOptions::default(), 0, &NoProgress).unwrap();
        let cutting = cut();
        assert_eq!(starts(&cutting), ["", "b", "c", "2 paths"]);
        assert_eq!((cutting.links, cutting.entries), (1, 8));
        for (share, missing) in cutting.shares.iter().zip([None, Some("b/large"), Some("c/far")]) {
            let Share::Interval { without, .. } = share else { panic!() };
            let missing = missing.map(|name| name.as_bytes().to_vec());
            assert_eq!(*without, missing.into_iter().collect());
        }
        assert_eq!(cut(), cutting);
    }

    #[test]
    fn inputs_below_each_other_are_cut_as_one_tree() {
        let folder = tempfile::tempdir().unwrap();
        for (name, len) in [("one/b/x", 900 << 10), ("two/y", 800 << 10), ("two/z", 900 << 10)] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![1; len]).unwrap();
        }
        let input = |name: &str, prefix: &[u8]| Input {
            prefix: Some(prefix.to_vec()),
            ..Input::new(folder.path().join(name))
        };
        let inputs = [input("one", b""), input("two", b"b/deep")];
        let cutting = cut(&inputs, &SourceOptions::default(), 0, &NoProgress).unwrap();
        assert_eq!(starts(&cutting), ["", "b/deep/z", "b/x"]);
        let file = [Input::new(folder.path().join("two/y"))];
        let refused = cut(&file, &SourceOptions::default(), 0, &NoProgress);
        assert!(matches!(refused, Err(Error::NotTree { .. })));
    }
}
