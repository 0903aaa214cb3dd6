//! Several trees as one: which layer decides, what whiteouts hide, and that numbers and listings
//! agree with lookups.

use crate::common::memory::MemoryTree;
use shale_fuse::view::{ROOT, Totals, View, ViewError};
use shale_fuse::{Subtree, Union};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Character device; 0:0 is a whiteout.
const MODE_CHAR: u32 = 0o020000;

/// A layer: a tree that tells how many inodes it has.
fn layer(make: impl FnOnce(&mut MemoryTree)) -> Arc<dyn View> {
    let mut tree = MemoryTree::new();
    make(&mut tree);
    let inode_count = (1..).take_while(|&inode| tree.attributes(inode).is_ok()).count() as u64;
    tree.totals = Some(Totals { len: 0, inode_count });
    Arc::new(tree)
}

fn whiteout(tree: &mut MemoryTree, parent: u64, name: &str) {
    let inode = tree.add(parent, name, MODE_CHAR);
    tree.node(inode).attributes.device = (0, 0);
}

/// All paths with the bytes of files. Checks on the way that every number is unique, that a lookup
/// gives what the listing gave, that a listing continues anywhere, and that a directory knows its
/// parent.
fn contents(view: &dyn View) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut directories = HashSet::new();
    let mut waiting = vec![(ROOT, String::new())];
    while let Some((directory, path)) = waiting.pop() {
        assert!(directories.insert(directory), "{path} has the number of another directory");
        let mut entries = Vec::new();
        view.list(directory, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.attributes));
            true
        })
        .unwrap();
        for first in 0..=entries.len() {
            let mut rest = Vec::new();
            view.list(directory, first as u64, &mut |entry| {
                rest.push(entry.name.to_vec());
                true
            })
            .unwrap();
            let expected: Vec<_> = entries[first..].iter().map(|(name, _)| name.clone()).collect();
            assert_eq!(rest, expected, "{path} from {first}");
        }
        for (name, attributes) in entries {
            let path = format!("{path}/{}", String::from_utf8(name.clone()).unwrap());
            assert_eq!(view.lookup(directory, &name).unwrap(), Some(attributes), "{path}");
            assert_eq!(view.attributes(attributes.inode).unwrap(), attributes, "{path}");
            if attributes.mode & 0o170000 == 0o040000 {
                assert_eq!(view.parent(attributes.inode).unwrap(), directory, "{path}");
                waiting.push((attributes.inode, path.clone()));
                found.insert(format!("{path}/"), String::new());
            } else {
                let mut bytes = vec![0; attributes.len as usize];
                let len = view.read(attributes.inode, 0, &mut bytes).unwrap();
                assert_eq!(len, bytes.len());
                found.insert(path, String::from_utf8(bytes).unwrap());
            }
        }
    }
    found
}

fn expect(view: &dyn View, expected: &[(&str, &str)]) {
    let expected = expected.iter().map(|(path, bytes)| (path.to_string(), bytes.to_string()));
    assert_eq!(contents(view), expected.collect());
}

#[test]
fn later_layers_lie_on_top_and_directories_become_one() {
    let bottom = layer(|tree| {
        let etc = tree.directory(ROOT, "etc");
        tree.file(etc, "a", b"bottom a");
        tree.file(etc, "b", b"bottom b");
        let deep = tree.directory(etc, "deep");
        tree.file(deep, "x", b"bottom x");
        let was_directory = tree.directory(ROOT, "kind1");
        tree.file(was_directory, "gone", b"");
        tree.file(ROOT, "kind2", b"was a file");
    });
    let middle = layer(|tree| {
        let etc = tree.directory(ROOT, "etc");
        tree.file(etc, "b", b"middle b");
        tree.file(ROOT, "kind1", b"is a file");
        let is_directory = tree.directory(ROOT, "kind2");
        tree.file(is_directory, "in", b"");
    });
    let top = layer(|tree| {
        let etc = tree.directory(ROOT, "etc");
        tree.file(etc, "c", b"top c");
        let deep = tree.directory(etc, "deep");
        tree.file(deep, "y", b"top y");
    });
    let union = Union::new(vec![bottom, middle, top]).unwrap();
    expect(
        &union,
        &[
            ("/etc/", ""),
            ("/etc/a", "bottom a"),
            ("/etc/b", "middle b"),
            ("/etc/c", "top c"),
            ("/etc/deep/", ""),
            ("/etc/deep/x", "bottom x"),
            ("/etc/deep/y", "top y"),
            ("/kind1", "is a file"),
            ("/kind2/", ""),
            ("/kind2/in", ""),
        ],
    );
    // A number means the same after everything was forgotten.
    let etc = union.lookup(ROOT, b"etc").unwrap().unwrap().inode;
    let deep = union.lookup(etc, b"deep").unwrap().unwrap().inode;
    union.rest();
    assert!(union.lookup(deep, b"x").unwrap().is_some());
    union.rest();
    assert_eq!(union.parent(deep).unwrap(), etc);
    assert_eq!(union.path(deep).unwrap(), b"etc/deep");
}

#[test]
fn whiteouts_and_opaque_directories_hide_what_lies_below() {
    let bottom = || {
        layer(|tree| {
            for (directory, names) in [("char", "ab"), ("oci", "ab"), ("opaque", "ab")] {
                let directory = tree.directory(ROOT, directory);
                for name in names.chars() {
                    tree.file(directory, name.to_string(), b"bottom");
                }
            }
            let xattr = tree.directory(ROOT, "xattr");
            tree.file(xattr, "a", b"bottom");
            let lost = tree.directory(ROOT, "lost");
            tree.file(lost, "a", b"bottom");
        })
    };
    let top = layer(|tree| {
        let char = tree.directory(ROOT, "char");
        whiteout(tree, char, "a");
        let oci = tree.directory(ROOT, "oci");
        tree.file(oci, ".wh.a", b"");
        // In one layer, a mark does not hide the entry beside it.
        tree.file(oci, "b", b"top");
        tree.file(oci, ".wh.b", b"");
        let opaque = tree.directory(ROOT, "opaque");
        tree.file(opaque, ".wh..wh..opq", b"");
        tree.file(opaque, "c", b"top");
        let xattr = tree.directory(ROOT, "xattr");
        tree.xattr(xattr, "trusted.overlay.opaque", b"y");
        tree.xattr(xattr, "user.kept", b"1");
        whiteout(tree, ROOT, "lost");
        whiteout(tree, ROOT, "never there");
        tree.file(ROOT, ".wh.never there either", b"");
    });
    let union = Union::new(vec![bottom(), top]).unwrap();
    expect(
        &union,
        &[
            ("/char/", ""),
            ("/char/b", "bottom"),
            ("/oci/", ""),
            ("/oci/b", "top"),
            ("/opaque/", ""),
            ("/opaque/c", "top"),
            ("/xattr/", ""),
        ],
    );
    for hidden in [&b"lost"[..], b".wh.never there either", b"never there", b".wh..wh..opq"] {
        assert!(union.lookup(ROOT, hidden).unwrap().is_none());
    }
    let xattr = union.lookup(ROOT, b"xattr").unwrap().unwrap().inode;
    let mut names = Vec::new();
    union.xattr_names(xattr, &mut |name| names.push(name.to_vec())).unwrap();
    assert_eq!(names, [b"user.kept"]);
    assert_eq!(union.xattr(xattr, b"trusted.overlay.opaque").unwrap(), None);

    // What a layer hid can come back in a layer above; an opaque root hides all below.
    let again = layer(|tree| {
        let lost = tree.directory(ROOT, "lost");
        tree.file(lost, "new", b"again");
    });
    let middle = layer(|tree| whiteout(tree, ROOT, "lost"));
    let three = Union::new(vec![bottom(), middle, again]).unwrap();
    let lost = three.lookup(ROOT, b"lost").unwrap().unwrap().inode;
    assert!(three.lookup(lost, b"a").unwrap().is_none());
    assert!(three.lookup(lost, b"new").unwrap().is_some());
    let opaque = layer(|tree| {
        tree.file(ROOT, ".wh..wh..opq", b"");
        tree.file(ROOT, "only", b"");
    });
    expect(&Union::new(vec![bottom(), opaque]).unwrap(), &[("/only", "")]);
}

#[test]
fn hard_links_of_a_layer_keep_one_number_and_layers_never_share_one() {
    let make = || {
        layer(|tree| {
            let file = tree.file(ROOT, "one", b"same");
            tree.hard_link(ROOT, "two", file);
            let directory = tree.directory(ROOT, "d");
            tree.hard_link(directory, "three", file);
        })
    };
    let other = layer(|tree| {
        tree.file(ROOT, "zero", b"zero");
        let directory = tree.directory(ROOT, "d");
        tree.file(directory, "four", b"four");
    });
    let union = Union::new(vec![make(), other]).unwrap();
    contents(&union);
    let number = |path: &[&str]| {
        path.iter().fold(ROOT, |at, name| union.lookup(at, name.as_bytes()).unwrap().unwrap().inode)
    };
    assert_eq!(number(&["one"]), number(&["two"]));
    assert_eq!(number(&["one"]), number(&["d", "three"]));
    let distinct = [number(&["one"]), number(&["zero"]), number(&["d"]), number(&["d", "four"])];
    assert_eq!(distinct.iter().collect::<HashSet<_>>().len(), 4);
    assert_eq!(union.attributes(number(&["one"])).unwrap().link_count, 3);
    for bad in [0, 1000, u64::MAX] {
        assert!(matches!(union.attributes(bad), Err(ViewError::NotFound)), "{bad}");
    }
}

#[test]
fn parts_that_overlayfs_keeps_elsewhere_are_refused() {
    let top = layer(|tree| {
        let moved = tree.directory(ROOT, "moved");
        tree.xattr(moved, "trusted.overlay.redirect", b"/old");
        let file = tree.file(ROOT, "file", b"");
        tree.xattr(file, "user.overlay.metacopy", b"");
    });
    let union = Union::new(vec![layer(|_| {}), top]).unwrap();
    let error = union.lookup(ROOT, b"moved").unwrap_err();
    assert!(error.to_string().contains("redirect"), "{error}");
    let file = union.lookup(ROOT, b"file").unwrap().unwrap().inode;
    let error = union.read(file, 0, &mut [0; 8]).unwrap_err();
    assert!(error.to_string().contains("metacopy"), "{error}");
}

#[test]
fn a_union_below_a_directory_is_a_union() {
    let bottom = layer(|tree| {
        let directory = tree.directory(ROOT, "d");
        tree.file(directory, "low", b"low");
    });
    let top = layer(|tree| {
        let directory = tree.directory(ROOT, "d");
        tree.file(directory, "high", b"high");
    });
    let union = Arc::new(Union::new(vec![bottom, top]).unwrap());
    let below = Subtree::open(union, b"d").unwrap();
    expect(&below, &[("/high", "high"), ("/low", "low")]);
}
