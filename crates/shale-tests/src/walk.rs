//! All that a reader says about an image, as facts that can be compared: the judge of damaged and
//! hostile images.
//!
//! Walks with limits, so that an image which claims a thousand million entries or files of 2^63
//! bytes ends as soon as any other. An answer of the reader is a fact; an error is an error, and
//! what it hides is no fact. A damaged image passes if each of its facts is one of the undamaged
//! image, and if facts are missing only where there were errors.

use shale_read::{ByteSource, Image, InodeKind, Options, ReadError, SnapshotChoice, Tree};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries that are visited at most.
const ENTRY_COUNT_MAX: usize = 20_000;
/// Folders within folders that are visited at most.
const DEPTH_MAX: usize = 300;
/// Bytes read of one file at most, from its start.
const FILE_READ_LEN_MAX: u64 = 1 << 20;
/// Pieces of data and holes asked for in one file at most.
const PIECE_COUNT_MAX: usize = 64;

/// What a reader said about an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Answers by path and question.
    pub answers: BTreeMap<(Vec<u8>, &'static str), Vec<u8>>,
    /// Errors, with path and question.
    pub errors: Vec<String>,
}

impl Facts {
    fn keep<T>(
        &mut self,
        path: &[u8],
        question: &'static str,
        answer: Result<T, ReadError>,
        bytes: impl FnOnce(&T) -> Vec<u8>,
    ) -> Option<T> {
        match answer {
            Ok(answer) => {
                self.answers.insert((path.to_vec(), question), bytes(&answer));
                Some(answer)
            }
            Err(error) => {
                self.errors.push(format!("{question} {}: {error}", path.escape_ascii()));
                None
            }
        }
    }

    /// Compares these facts of a damaged image with those of the whole one.
    ///
    /// # Errors
    ///
    /// The first answer that differs from that of the whole image, or one that is missing without
    /// an error.
    pub fn judge(&self, truth: &Facts) -> Result<(), String> {
        for ((path, question), answer) in &self.answers {
            match truth.answers.get(&(path.clone(), *question)) {
                Some(right) if right == answer => {}
                Some(_) => return Err(format!("wrong: {question} of {}", path.escape_ascii())),
                None => return Err(format!("invented: {question} of {}", path.escape_ascii())),
            }
        }
        if self.errors.is_empty() && self.answers.len() != truth.answers.len() {
            let missing = truth.answers.keys().find(|key| !self.answers.contains_key(*key));
            return Err(format!("missing without an error: {missing:?}"));
        }
        Ok(())
    }
}

/// Options that keep a hostile image small: caches of a few MiB.
pub fn small_options() -> Options {
    Options::default().cache_bytes_max(8 << 20).page_cache_bytes_max(4 << 20)
}

/// Opens the image in `source` and asks for everything.
///
/// # Errors
///
/// The image does not open.
pub fn facts(source: Arc<dyn ByteSource>, options: Options) -> Result<Facts, ReadError> {
    let image = Image::open(source, options)?;
    let mut facts = Facts::default();
    for index in 0..image.snapshots().len().min(4) {
        match image.tree(&SnapshotChoice::Index(index)) {
            Ok(tree) => walk(&tree, &mut facts),
            Err(error) => facts.errors.push(format!("snapshot {index}: {error}")),
        }
    }
    Ok(facts)
}

fn walk(tree: &Tree, facts: &mut Facts) {
    let mut waiting = vec![(Vec::new(), tree.root_inode(), 0)];
    let mut visited = 0;
    while let Some((path, inode, depth)) = waiting.pop() {
        visited += 1;
        if visited > ENTRY_COUNT_MAX {
            facts.errors.push("too many entries for this walk".to_owned());
            return;
        }
        let attributes = facts.keep(&path, "attributes", tree.attributes(inode), |a| {
            // Numbers of rows may move without a change of the tree; what stat tells may not.
            let times = [a.mtime, a.atime, a.ctime, a.btime];
            let device = a.device();
            format!("{:o} {} {}", a.mode(), a.uid, a.gid)
                .into_bytes()
                .into_iter()
                .chain(format!(" {} {} {device:?} {times:?}", a.link_count, a.size).into_bytes())
                .collect()
        });
        facts.keep(&path, "xattrs", tree.xattrs(inode), |xattrs| {
            xattrs.iter().flat_map(|x| [&x.name[..], b"=", &x.value, b"\0"].concat()).collect()
        });
        facts.keep(&path, "xattr names", tree.xattr_names(inode), |names| names.join(&0));
        let Some(attributes) = attributes else { continue };
        match attributes.kind {
            InodeKind::Directory => {
                let children = list(tree, &path, inode, facts);
                if depth == DEPTH_MAX {
                    facts.errors.push("too deep for this walk".to_owned());
                    continue;
                }
                waiting.extend(children.into_iter().map(|(path, inode)| (path, inode, depth + 1)));
            }
            InodeKind::File => read(tree, &path, inode, attributes.size, facts),
            InodeKind::Symlink => {
                facts.keep(&path, "target", tree.link_target(inode), Vec::clone);
            }
            _ => {}
        }
    }
}

/// Lists a folder and looks each of its names up again.
fn list(tree: &Tree, path: &[u8], inode: u64, facts: &mut Facts) -> Vec<(Vec<u8>, u64)> {
    let mut children: Vec<(Vec<u8>, u64)> = Vec::new();
    let listed = tree.list(inode, 0, |entry| {
        children.push((entry.name.to_vec(), entry.inode));
        children.len() < ENTRY_COUNT_MAX
    });
    let names = facts.keep(path, "list", listed, |()| {
        children.iter().flat_map(|(name, _)| [name, b"\0".as_slice()].concat()).collect()
    });
    if names.is_none() {
        // Names before the error are answers too, if the reader gave any.
        facts.errors.push(format!("{} names before the error", children.len()));
    }
    facts.keep(path, "parent", tree.parent(inode), |parent| {
        u8::from(*parent == inode).to_string().into_bytes()
    });
    let mut found = Vec::new();
    for (name, inode_listed) in children {
        let full = match path {
            [] => name.clone(),
            _ => [path, b"/", &name].concat(),
        };
        let looked_up = tree.lookup(inode, &name);
        facts.keep(&full, "lookup", looked_up, |inode_found| {
            u8::from(*inode_found == Some(inode_listed)).to_string().into_bytes()
        });
        found.push((full, inode_listed));
    }
    facts.keep(path, "lookup of nothing", tree.lookup(inode, b"no such name"), |none| {
        u8::from(none.is_none()).to_string().into_bytes()
    });
    found
}

/// Reads a file piece by piece, and asks where its holes are.
fn read(tree: &Tree, path: &[u8], inode: u64, len: u64, facts: &mut Facts) {
    const QUESTIONS: [&str; 8] =
        ["read 0", "read 1", "read 2", "read 3", "read 4", "read 5", "read 6", "read 7"];
    let step = FILE_READ_LEN_MAX / QUESTIONS.len() as u64;
    let mut buffer = vec![0; step as usize];
    for (index, question) in QUESTIONS.into_iter().enumerate() {
        let at = index as u64 * step;
        if at < len {
            let got = tree.read(inode, at, &mut buffer);
            facts.keep(path, question, got, |count| buffer[..*count].to_vec());
        }
    }
    // The last bytes, wherever they are.
    let at = len.saturating_sub(100);
    let got = tree.read(inode, at, &mut buffer);
    facts.keep(path, "read end", got, |count| buffer[..*count].to_vec());
    facts.keep(path, "holes", holes(tree, inode, len), |map| format!("{map:?}").into_bytes());
}

fn holes(tree: &Tree, inode: u64, len: u64) -> Result<Vec<(u64, u64)>, ReadError> {
    let (mut map, mut at) = (Vec::new(), 0);
    while at < len && map.len() < PIECE_COUNT_MAX {
        let Some(start) = tree.seek_data(inode, at)? else { break };
        let Some(end) = tree.seek_hole(inode, start)? else { break };
        map.push((start, end));
        at = end.max(at + 1);
    }
    Ok(map)
}
