//! All snapshots of an image as directories of one root, and the link `latest`.
//!
//! Snapshot k has the inode numbers that follow those of the snapshots before it, so numbers stay
//! what they are when snapshots are appended. The link `latest` has another number whenever another
//! snapshot is the newest: the kernel may keep its target for ever, as it keeps everything but the
//! root.

use crate::view::{
    Attributes, Entry, MODE_DIRECTORY, MODE_SYMLINK, ROOT, Seek, Totals, View, ViewError, XattrUse,
};
use shale_read::{Image, Snapshot, SnapshotChoice, Tree};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The name of the link to the newest snapshot.
const LATEST: &[u8] = b"latest";
/// Longest name of a directory.
const NAME_LEN_MAX: usize = 255;

/// Opens an image again if it has grown since the last call; `None` if it has not, or if what was
/// appended is not complete.
pub type Reopen = Box<dyn Fn() -> Option<Arc<Image>> + Send + Sync>;

/// Every snapshot of an image as a directory.
///
/// The directory of a snapshot has the name of the snapshot. It is called `#NUMBER` instead if a
/// newer snapshot has the same name, or if the name is empty, `.`, `..`, `latest`, has a slash or a
/// zero byte, is too long, or looks like `#NUMBER` itself.
pub struct Snapshots {
    state: RwLock<Arc<State>>,
    reopen: Option<Mutex<Reopen>>,
}

/// The snapshots at one time.
struct State {
    image: Arc<Image>,
    mounted: Vec<Mounted>,
}

struct Mounted {
    tree: Tree,
    name: Vec<u8>,
    /// Number of the link `latest` while this snapshot is the newest; the inodes of the snapshot
    /// follow.
    base: u64,
    inode_count: u64,
}

/// What an inode number means.
enum Node<'a> {
    Root,
    /// The link `latest`, which leads to this snapshot.
    Latest(&'a Mounted),
    /// An inode of a snapshot.
    Inside(&'a Mounted, u64),
}

impl Snapshots {
    /// Shows the snapshots that `image` has.
    ///
    /// # Errors
    /// The image has more inodes in all than there are numbers.
    pub fn new(image: &Arc<Image>) -> Result<Self, ViewError> {
        Ok(Self { state: RwLock::new(Arc::new(State::new(image, None)?)), reopen: None })
    }

    /// Shows the snapshots that `image` has, and those that are appended later: `reopen` is called
    /// before each answer about the root.
    ///
    /// # Errors
    /// As [`Snapshots::new`].
    pub fn following(image: &Arc<Image>, reopen: Reopen) -> Result<Self, ViewError> {
        Ok(Self { reopen: Some(Mutex::new(reopen)), ..Self::new(image)? })
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the present state, after a look at what was appended.
    fn refreshed(&self) -> Arc<State> {
        let Some(reopen) = &self.reopen else { return self.state() };
        // Two requests that come at once wait for one look.
        let reopen = reopen.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        let Some(image) = reopen() else { return state };
        let is_same = image.superblock() == state.image.superblock();
        if !is_same || image.snapshots().len() < state.mounted.len() {
            return state;
        }
        let Ok(new) = State::new(&image, Some(&state)) else { return state };
        let new = Arc::new(new);
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&new);
        new
    }
}

impl State {
    /// Numbers the snapshots of `image`. Those that changed since `old` stay as they were.
    fn new(image: &Arc<Image>, old: Option<&Self>) -> Result<Self, ViewError> {
        let mut base = ROOT + 1;
        let mut mounted = Vec::with_capacity(image.snapshots().len());
        let names = directory_names(image.snapshots());
        for (number, name) in names.into_iter().enumerate() {
            let mut tree = image.tree(&SnapshotChoice::Index(number))?;
            if let Some(old) = old.and_then(|old| old.mounted.get(number))
                && old.tree.snapshot() != tree.snapshot()
            {
                tree = old.tree.clone();
            }
            let inode_count = tree.inode_count();
            let next = base.checked_add(inode_count).and_then(|next| next.checked_add(1));
            let next = next.ok_or_else(|| ViewError::Damaged("too many inodes".to_owned()))?;
            mounted.push(Mounted { tree, name, base, inode_count });
            base = next;
        }
        Ok(Self { image: Arc::clone(image), mounted })
    }

    fn newest(&self) -> Result<&Mounted, ViewError> {
        self.mounted.last().ok_or(ViewError::NotFound)
    }

    fn place(&self, number: u64) -> Result<Node<'_>, ViewError> {
        if number == ROOT {
            return Ok(Node::Root);
        }
        let after = self.mounted.partition_point(|mounted| mounted.base <= number);
        let mounted = after.checked_sub(1).and_then(|at| self.mounted.get(at));
        let mounted = mounted.ok_or(ViewError::NotFound)?;
        match number - mounted.base {
            0 => Ok(Node::Latest(mounted)),
            inode if inode <= mounted.inode_count => Ok(Node::Inside(mounted, inode)),
            _ => Err(ViewError::NotFound),
        }
    }

    fn inside(&self, number: u64) -> Result<(&Mounted, u64), ViewError> {
        match self.place(number)? {
            Node::Inside(mounted, inode) => Ok((mounted, inode)),
            Node::Root | Node::Latest(_) => Err(ViewError::WrongKind),
        }
    }

    /// Attributes of the root, with the owner and the times of the newest snapshot's.
    fn root(&self) -> Result<Attributes, ViewError> {
        let newest = View::attributes(&self.newest()?.tree, ROOT)?;
        let count = self.mounted.len() as u64;
        Ok(Attributes {
            inode: ROOT,
            mode: MODE_DIRECTORY | 0o555,
            link_count: count + 2,
            len: count + 1,
            ..newest
        })
    }

    fn link(&self, to: &Mounted) -> Result<Attributes, ViewError> {
        let len = to.name.len() as u64;
        let mode = MODE_SYMLINK | 0o777;
        Ok(Attributes { inode: to.base, mode, link_count: 1, len, ..self.root()? })
    }
}

impl Mounted {
    fn ours(&self, theirs: Attributes) -> Result<Attributes, ViewError> {
        if !(1..=self.inode_count).contains(&theirs.inode) {
            return Err(ViewError::Damaged(format!("inode {} does not exist", theirs.inode)));
        }
        Ok(Attributes { inode: self.base + theirs.inode, ..theirs })
    }

    fn root(&self) -> Result<Attributes, ViewError> {
        self.ours(View::attributes(&self.tree, ROOT)?)
    }
}

/// Returns the name of the directory of each snapshot. Every one of them is also what
/// `--snapshot` accepts for that snapshot.
fn directory_names(snapshots: &[Snapshot]) -> Vec<Vec<u8>> {
    let is_number = |name: &[u8]| {
        name.strip_prefix(b"#")
            .is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
    };
    let is_usable = |name: &[u8]| {
        !matches!(name, b"" | b"." | b".." | LATEST)
            && name.len() <= NAME_LEN_MAX
            && !name.iter().any(|&byte| byte == b'/' || byte == 0)
            && !is_number(name)
    };
    let mut newer = std::collections::HashSet::new();
    let mut names: Vec<Vec<u8>> = snapshots
        .iter()
        .enumerate()
        .rev()
        .map(|(number, snapshot)| {
            let name = &snapshot.name[..];
            match is_usable(name) && newer.insert(name) {
                true => name.to_vec(),
                false => format!("#{number}").into_bytes(),
            }
        })
        .collect();
    names.reverse();
    names
}

impl View for Snapshots {
    fn attributes(&self, inode: u64) -> Result<Attributes, ViewError> {
        let state = if inode == ROOT { self.refreshed() } else { self.state() };
        match state.place(inode)? {
            Node::Root => state.root(),
            Node::Latest(to) => state.link(to),
            Node::Inside(mounted, inode) => mounted.ours(View::attributes(&mounted.tree, inode)?),
        }
    }

    fn lookup(&self, directory: u64, name: &[u8]) -> Result<Option<Attributes>, ViewError> {
        if directory == ROOT {
            let state = self.refreshed();
            if name == LATEST {
                return state.link(state.newest()?).map(Some);
            }
            let found = state.mounted.iter().find(|mounted| mounted.name == name);
            return found.map(Mounted::root).transpose();
        }
        let state = self.state();
        let (mounted, directory) = match state.place(directory)? {
            Node::Inside(mounted, directory) => (mounted, directory),
            Node::Root | Node::Latest(_) => return Err(ViewError::NotDirectory),
        };
        let found = View::lookup(&mounted.tree, directory, name)?;
        found.map(|theirs| mounted.ours(theirs)).transpose()
    }

    fn parent(&self, directory: u64) -> Result<u64, ViewError> {
        let state = self.state();
        match state.place(directory)? {
            Node::Root | Node::Inside(_, ROOT) => Ok(ROOT),
            Node::Latest(_) => Err(ViewError::NotDirectory),
            Node::Inside(mounted, directory) => {
                Ok(mounted.base + View::parent(&mounted.tree, directory)?)
            }
        }
    }

    fn list(
        &self,
        directory: u64,
        first: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), ViewError> {
        // A listing that continues goes on in what it began with, or in more of it.
        let begins = directory == ROOT && first == 0;
        let state = if begins { self.refreshed() } else { self.state() };
        match state.place(directory)? {
            Node::Root => {
                if first == 0 {
                    let attributes = state.link(state.newest()?)?;
                    if !each(Entry { name: LATEST, attributes }) {
                        return Ok(());
                    }
                }
                let skipped = usize::try_from(first.saturating_sub(1)).unwrap_or(usize::MAX);
                for mounted in state.mounted.iter().skip(skipped) {
                    if !each(Entry { name: &mounted.name, attributes: mounted.root()? }) {
                        break;
                    }
                }
                Ok(())
            }
            Node::Latest(_) => Err(ViewError::NotDirectory),
            Node::Inside(mounted, directory) => {
                let mut outcome = Ok(());
                View::list(&mounted.tree, directory, first, &mut |entry| match mounted
                    .ours(entry.attributes)
                {
                    Ok(attributes) => each(Entry { name: entry.name, attributes }),
                    Err(error) => {
                        outcome = Err(error);
                        false
                    }
                })?;
                outcome
            }
        }
    }

    fn link_target(&self, inode: u64) -> Result<Vec<u8>, ViewError> {
        let state = self.state();
        match state.place(inode)? {
            Node::Root => Err(ViewError::WrongKind),
            Node::Latest(to) => Ok(to.name.clone()),
            Node::Inside(mounted, inode) => View::link_target(&mounted.tree, inode),
        }
    }

    fn xattr_names(&self, inode: u64, each: &mut dyn FnMut(&[u8])) -> Result<(), ViewError> {
        let state = self.state();
        match state.place(inode)? {
            Node::Root | Node::Latest(_) => Ok(()),
            Node::Inside(mounted, inode) => View::xattr_names(&mounted.tree, inode, each),
        }
    }

    fn xattr(&self, inode: u64, name: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        let state = self.state();
        match state.place(inode)? {
            Node::Root | Node::Latest(_) => Ok(None),
            Node::Inside(mounted, inode) => View::xattr(&mounted.tree, inode, name),
        }
    }

    fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError> {
        let state = self.state();
        let (mounted, inode) = state.inside(inode)?;
        View::read(&mounted.tree, inode, offset, buf)
    }

    fn read_ready(&self, inode: u64, buf: &mut [u8]) -> Result<bool, ViewError> {
        let state = self.state();
        let (mounted, inode) = state.inside(inode)?;
        View::read_ready(&mounted.tree, inode, buf)
    }

    fn seek(&self, inode: u64, offset: u64, what: Seek) -> Result<Option<u64>, ViewError> {
        let state = self.state();
        let (mounted, inode) = state.inside(inode)?;
        View::seek(&mounted.tree, inode, offset, what)
    }

    fn totals(&self) -> Totals {
        let state = self.state();
        let mut sum = Totals { len: 0, inode_count: 1 };
        for totals in state.mounted.iter().map(|mounted| mounted.tree.totals()) {
            sum.len = sum.len.saturating_add(totals.len);
            sum.inode_count = sum.inode_count.saturating_add(totals.inode_count + 1);
        }
        sum
    }

    fn xattr_use(&self) -> XattrUse {
        let all = XattrUse { any: true, acl: true, trusted: true };
        if self.reopen.is_some() {
            // The snapshots to come may have any.
            return all;
        }
        let state = self.state();
        state.mounted.iter().fold(XattrUse { any: false, acl: false, trusted: false }, |sum, m| {
            let of = m.tree.xattr_use();
            XattrUse {
                any: sum.any | of.any,
                acl: sum.acl | of.acl,
                trusted: sum.trusted | of.trusted,
            }
        })
    }

    fn root_changes(&self) -> bool {
        self.reopen.is_some()
    }

    fn generation(&self) -> u32 {
        // That of the first snapshot, which stays when others are appended.
        let first = self.state().mounted.first().map_or(0, |mounted| mounted.tree.generation());
        first ^ 0x534E_4150
    }

    fn id(&self) -> [u8; 16] {
        let first = self.state().mounted.first().map_or([0; 16], |mounted| mounted.tree.id());
        (u128::from_le_bytes(first) ^ 0x534E_4150 << 64).to_le_bytes()
    }

    fn path(&self, inode: u64) -> Option<Vec<u8>> {
        let state = self.state();
        match state.place(inode).ok()? {
            Node::Root => Some(Vec::new()),
            Node::Latest(_) => Some(LATEST.to_vec()),
            Node::Inside(mounted, ROOT) => Some(mounted.name.clone()),
            Node::Inside(mounted, inode) => {
                Some([&mounted.name, &b"/"[..], &mounted.tree.path(inode)?].concat())
            }
        }
    }

    fn layout(&self, inode: u64) -> Result<Option<String>, ViewError> {
        let state = self.state();
        match state.place(inode)? {
            Node::Root | Node::Latest(_) => Ok(None),
            Node::Inside(mounted, inode) => mounted.tree.layout(inode),
        }
    }

    fn content_key(&self, inode: u64) -> Result<u64, ViewError> {
        // Snapshots share their contents.
        let state = self.state();
        let (mounted, inode) = state.inside(inode)?;
        mounted.tree.content_key(inode)
    }

    fn rest(&self) {
        self.state().image.clear_caches();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.state().mounted.last().map_or(Vec::new(), |mounted| mounted.tree.counters())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_the_name_of_its_snapshot_or_its_number() {
        let names = |names: &[&[u8]]| {
            let named = |name: &&[u8]| Snapshot { name: name.to_vec(), ..Snapshot::default() };
            let snapshots: Vec<Snapshot> = names.iter().map(named).collect();
            let found = directory_names(&snapshots);
            found.iter().map(|name| name.escape_ascii().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[b"2026-11-22", b"b"]), ["2026-11-22", "b"]);
        assert_eq!(names(&[b"a", b"b", b"a"]), ["#0", "b", "a"]);
        let odd: &[&[u8]] = &[b"", b".", b"..", b"latest", b"a/b", b"\0", b"#7", b"#", b"#1x"];
        assert_eq!(names(odd), ["#0", "#1", "#2", "#3", "#4", "#5", "#6", "#", "#1x"]);
        assert_eq!(names(&[&[b'x'; 255]])[0].len(), 255);
    }
}
