//! What is left of each layer when all layers lie on top of each other.
//!
//! A layer replaces what lower layers have at its paths, and removes what its whiteouts name:
//! `.wh.NAME` removes NAME, `.wh..wh..opq` everything that lower layers have in its directory. The
//! whiteouts of a layer concern lower layers only, wherever they stand in its archive.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use shale_model::InodeKind;

use super::fault::fault;
use crate::error::ForeignError;
use crate::names;

/// What the names of whiteouts begin with.
const MARK: &[u8] = b".wh.";
/// The whiteout of everything in a directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Paths of all layers together; a billion would not fit into memory.
const PATHS_MAX: usize = 100_000_000;

/// An entry of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayerEntry {
    pub(super) layer: u32,
    /// Number of the entry in the layer, from 0.
    pub(super) sequence: u64,
}

struct Node {
    place: LayerEntry,
    /// The inode in its layer; directories have none.
    inode: Option<u64>,
    kind: InodeKind,
}

/// The paths that are left.
#[derive(Default)]
pub(super) struct LayeredTree {
    nodes: BTreeMap<Vec<u8>, Node>,
}

/// A layer that is being put on top.
pub(super) struct NewLayer {
    number: u32,
    nodes: BTreeMap<Vec<u8>, Node>,
    removed: Vec<Vec<u8>>,
    opaque: Vec<Vec<u8>>,
}

/// What the name of an entry says.
pub(super) fn is_mark(path: &[u8]) -> bool {
    split(path).1.starts_with(MARK)
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

fn join(parent: &[u8], name: &[u8]) -> Vec<u8> {
    match parent {
        b"" => name.to_vec(),
        parent => [parent, b"/", name].concat(),
    }
}

impl NewLayer {
    pub(super) fn new(number: u32) -> Self {
        Self { number, nodes: BTreeMap::new(), removed: Vec::new(), opaque: Vec::new() }
    }

    /// Adds an entry of the layer; `inode` is that of its hard links.
    pub(super) fn add(&mut self, path: &[u8], sequence: u64, inode: Option<u64>, kind: InodeKind) {
        let (parent, name) = split(path);
        if name == OPAQUE {
            self.opaque.push(parent.to_vec());
        } else if let Some(name) = name.strip_prefix(MARK) {
            // Other programs' own marks, such as `.wh..wh.plnk`, name nothing.
            if !name.starts_with(MARK) && !name.is_empty() {
                self.removed.push(join(parent, name));
            }
        } else {
            let place = LayerEntry { layer: self.number, sequence };
            if kind != InodeKind::Directory {
                remove_below(&mut self.nodes, path);
            }
            self.nodes.insert(path.to_vec(), Node { place, inode, kind });
        }
    }
}

/// Removes everything below a path.
fn remove_below(nodes: &mut BTreeMap<Vec<u8>, Node>, path: &[u8]) {
    if path.is_empty() {
        nodes.retain(|path, _| path.is_empty());
        return;
    }
    // `0` follows `/`.
    let range = ([path, b"/"].concat(), [path, b"0"].concat());
    let bounds = (Bound::Included(&range.0), Bound::Excluded(&range.1));
    let below: Vec<Vec<u8>> =
        nodes.range::<Vec<u8>, _>(bounds).map(|(path, _)| path.clone()).collect();
    for path in below {
        nodes.remove(&path);
    }
}

impl LayeredTree {
    /// Puts a layer on top.
    ///
    /// # Errors
    /// An entry lies below what is not a directory, or there are too many.
    pub(super) fn put(&mut self, layer: NewLayer) -> Result<(), ForeignError> {
        for directory in &layer.opaque {
            remove_below(&mut self.nodes, directory);
        }
        for path in &layer.removed {
            remove_below(&mut self.nodes, path);
            self.nodes.remove(path);
        }
        for (path, node) in layer.nodes {
            if node.kind != InodeKind::Directory {
                remove_below(&mut self.nodes, &path);
            }
            for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                let above = &path[..at];
                if let Some(node) = self.nodes.get(above)
                    && node.kind != InodeKind::Directory
                {
                    let above = names::shown(above);
                    let what = format!(
                        "in layer {}, it lies below {above}, which is not a directory in the \
                         layers up to there",
                        layer.number + 1
                    );
                    return Err(fault(what).of(&path));
                }
            }
            self.nodes.insert(path, node);
        }
        if self.nodes.len() > PATHS_MAX {
            return Err(fault("it has too many paths"));
        }
        Ok(())
    }

    /// Keeps what `takes` says of a path; what lies below a directory follows it.
    pub(super) fn retain(&mut self, mut takes: impl FnMut(&[u8], InodeKind) -> bool) {
        self.nodes.retain(|path, node| takes(path, node.kind));
    }

    /// Says what becomes of each entry of the layers.
    ///
    /// An inode has its content with its first entry. If another layer took the path of that entry,
    /// the content comes under another name of the inode instead, and the entry of that name is
    /// left out.
    pub(super) fn fates(self, first_names: &HashMap<(u32, u64), u64>) -> Fates {
        // Sequence and path of each name, by layer and inode.
        type Names = Vec<(u64, Vec<u8>)>;
        let mut later: HashMap<(u32, u64), Names> = HashMap::new();
        let mut fates: HashMap<(u32, u64), Fate> = HashMap::with_capacity(self.nodes.len());
        for (path, node) in self.nodes {
            let LayerEntry { layer, sequence } = node.place;
            fates.insert((layer, sequence), Fate::Kept);
            if let Some(inode) = node.inode {
                later.entry((layer, inode)).or_default().push((sequence, path));
            }
        }
        for ((layer, inode), names) in later {
            let Some(&first) = first_names.get(&(layer, inode)) else { continue };
            if names.iter().any(|(sequence, _)| *sequence == first) {
                continue;
            }
            if let Some((sequence, path)) = names.into_iter().min() {
                fates.remove(&(layer, sequence));
                fates.insert((layer, first), Fate::Named(path));
            }
        }
        Fates(fates)
    }
}

/// What becomes of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is in the tree.
    Kept,
    /// It is in the tree, under this path.
    Named(Vec<u8>),
}

/// What becomes of each entry; those that are not here are hidden.
pub(super) struct Fates(HashMap<(u32, u64), Fate>);

impl Fates {
    pub(super) fn of(&self, place: LayerEntry) -> Option<&Fate> {
        self.0.get(&(place.layer, place.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts layers on top of each other: `d` a directory, `f` a file, `=N` a name of inode N.
    fn left(layers: &[&[(&str, &str)]]) -> Result<Vec<(String, u32)>, String> {
        let mut tree = LayeredTree::default();
        for (number, entries) in (0..).zip(layers) {
            let mut layer = NewLayer::new(number);
            for (sequence, (path, what)) in (0..).zip(entries.iter()) {
                let (kind, inode) = match *what {
                    "d" => (InodeKind::Directory, None),
                    "f" => (InodeKind::File, Some(1000 + sequence)),
                    link => (InodeKind::File, link[1..].parse().ok()),
                };
                layer.add(path.as_bytes(), sequence, inode, kind);
            }
            tree.put(layer).map_err(|error| error.to_string())?;
        }
        let show = |(path, node): (&Vec<u8>, &Node)| {
            (String::from_utf8(path.clone()).unwrap(), node.place.layer)
        };
        Ok(tree.nodes.iter().map(show).collect())
    }

    fn expect(layers: &[&[(&str, &str)]], expected: &[(&str, u32)]) {
        let expected: Vec<_> = expected.iter().map(|(path, at)| (path.to_string(), *at)).collect();
        assert_eq!(left(layers), Ok(expected));
    }

    #[test]
    fn layers_replace_and_remove() {
        let base: &[_] = &[("a", "d"), ("a/x", "f"), ("a/y", "f"), ("a.b", "f"), ("c", "f")];
        expect(
            &[base, &[("a", "d"), ("a/x", "f")]],
            &[("a", 1), ("a.b", 0), ("a/x", 1), ("a/y", 0), ("c", 0)],
        );
        expect(&[base, &[(".wh.a", "f")]], &[("a.b", 0), ("c", 0)]);
        expect(
            &[base, &[("a/.wh..wh..opq", "f"), ("a/z", "f")]],
            &[("a", 0), ("a.b", 0), ("a/z", 1), ("c", 0)],
        );
        expect(&[base, &[(".wh..wh..opq", "f"), ("n", "f")]], &[("n", 1)]);
        // A whiteout does not concern its own layer, whichever comes first.
        expect(
            &[base, &[("c", "f"), (".wh.c", "f"), (".wh.a", "f"), ("a", "d")]],
            &[("a", 1), ("a.b", 0), ("c", 1)],
        );
        expect(&[base, &[("a", "f")]], &[("a", 1), ("a.b", 0), ("c", 0)]);
        expect(
            &[base, &[(".wh..wh.plnk", "d")]],
            &[("a", 0), ("a.b", 0), ("a/x", 0), ("a/y", 0), ("c", 0)],
        );
    }

    #[test]
    fn nothing_lies_below_a_file_of_a_lower_layer() {
        let error = left(&[&[("a", "f")], &[("a/b", "f")]]).unwrap_err();
        assert!(error.contains("layer 2") && error.contains("not a directory"), "{error}");
        expect(&[&[("a", "f")], &[("a", "d"), ("a/b", "f")]], &[("a", 1), ("a/b", 1)]);
    }

    #[test]
    fn a_content_comes_under_a_name_that_is_left() {
        let mut tree = LayeredTree::default();
        let mut layer = NewLayer::new(0);
        for (sequence, name) in (0..).zip(["a", "b", "c"]) {
            layer.add(name.as_bytes(), sequence, Some(7), InodeKind::File);
        }
        tree.put(layer).unwrap();
        let mut upper = NewLayer::new(1);
        upper.add(b".wh.a", 0, Some(1), InodeKind::File);
        tree.put(upper).unwrap();
        let fates = tree.fates(&HashMap::from([((0, 7), 0)]));
        let of = |sequence| fates.of(LayerEntry { layer: 0, sequence });
        assert_eq!(of(0), Some(&Fate::Named(b"b".to_vec())));
        assert_eq!(of(1), None);
        assert_eq!(of(2), Some(&Fate::Kept));
    }
}
