//! Names, attributes, links and extended attributes of an honest tree, and what they cost to read.

use crate::assemble::{self, Draft};
use shale_format::InodeKind;
use shale_read::{Fault, Kind, SnapshotChoice, Timestamp, Tree};

fn names(tree: &Tree, inode: u64, cookie: u64) -> Vec<(u64, Vec<u8>, u64)> {
    let mut names = Vec::new();
    tree.list(inode, cookie, |entry| {
        names.push((entry.cookie, entry.name.to_vec(), entry.inode));
        true
    })
    .expect("lists");
    names
}

/// The sample with each way of storing its pages.
fn samples() -> Vec<Draft> {
    let mut samples = Vec::new();
    for compressed in [false, true] {
        for page_rows in [1, 2, 3, 4096] {
            samples.push(Draft { page_rows, compressed, ..Draft::sample() });
        }
    }
    samples
}

#[test]
fn attributes_are_those_that_were_stored() {
    for draft in samples() {
        let tree = draft.tree();
        assert_eq!((tree.inode_count(), tree.entry_count(), tree.directory_count()), (11, 11, 3));
        let file = tree.attributes(2).expect("a file");
        assert_eq!(file.kind, InodeKind::File);
        assert_eq!(file.mode(), 0o100644);
        assert_eq!((file.uid, file.gid, file.link_count), (1000, u32::MAX, 2));
        assert_eq!(file.size, 61);
        assert_eq!(file.mtime, Timestamp { sec: -5, nsec: 999_999_999 });
        assert_eq!(file.content(), Some(1));
        let sizes: Vec<u64> =
            (1..=11).map(|inode| tree.attributes(inode).expect("exists").size).collect();
        let sparse = assemble::sparse_bytes().len() as u64;
        assert_eq!(sizes[..10], [7, 61, 3, 0, 5, 0, 0, sparse, 1, 0]);
        assert_eq!(tree.attributes(10).expect("exists").device(), (5, 70_000));
        assert_eq!(tree.attributes(6).expect("exists").device(), (0, 0));
        for inode in [0, 12, u64::MAX] {
            let error = tree.attributes(inode).expect_err("no such inode");
            assert!(matches!(error.fault(), Fault::NoInode { .. }), "{error}");
            assert!(!error.is_corrupt());
        }
    }
}

#[test]
fn names_lead_to_inodes() {
    for draft in samples() {
        let tree = draft.tree();
        for (_, name, inode) in names(&tree, 1, 0) {
            assert_eq!(tree.lookup(1, &name).expect("looks up"), Some(inode));
        }
        for absent in [&b""[..], b".", b"..", b"a", b"a.txt\0", b"zz", &[b'x'; 300]] {
            assert_eq!(tree.lookup(1, absent).expect("looks up"), None);
        }
        assert_eq!(tree.lookup(3, b"a.txt").expect("looks up"), None);
        let error = tree.lookup(2, b"x").expect_err("a file");
        let Fault::WrongKind { inode: 2, expected: Kind::Directory } = error.fault() else {
            panic!("{error}")
        };
    }
}

#[test]
fn paths_are_followed_name_by_name() {
    let tree = Draft::sample().tree();
    let at = |path: &str| tree.lookup_path(path.as_bytes());
    for (path, inode) in [
        ("", 1),
        ("/", 1),
        ("..", 1),
        ("/../..//./", 1),
        ("a.txt", 2),
        ("/d/hard", 2),
        ("d//e/../tty", 10),
        ("d/e/", 9),
        ("d/.", 3),
        ("link", 5),
    ] {
        assert_eq!(at(path).expect("follows"), Some(inode), "{path}");
    }
    assert_eq!(at("nothing").expect("follows"), None);
    assert_eq!(at("d/nothing/more").expect("follows"), None);
    for path in ["a.txt/x", "a.txt/", "link/x", "a.txt/..", "pipe/."] {
        let error = at(path).expect_err("not a directory");
        assert!(matches!(error.fault(), Fault::WrongKind { .. }), "{path}: {error}");
    }
}

#[test]
fn every_inode_is_led_to_by_its_path() {
    for draft in samples() {
        let tree = draft.tree();
        assert_eq!(tree.path_of(1).expect("the root"), b"");
        assert_eq!(tree.path_of(2).expect("a file"), b"a.txt");
        for inode in 1..=11 {
            let path = tree.path_of(inode).expect("has a path");
            assert_eq!(tree.lookup_path(&path).expect("follows"), Some(inode));
        }
        for inode in [0, 12, u64::MAX] {
            let error = tree.path_of(inode).expect_err("no such inode");
            assert!(matches!(error.fault(), Fault::NoInode { .. }), "{error}");
        }
    }
}

#[test]
fn a_path_is_found_among_many_hard_links() {
    // Runs of extra hard links of all lengths, to inodes far before and right before.
    let mut draft = Draft::many_files(3000);
    let mut entries = Vec::new();
    for inode in 2..=3001 {
        let mut add = |inode| entries.push((inode, format!("{:08}", entries.len()).into_bytes()));
        add(inode);
        for n in 0..(inode % 97) * u64::from(inode % 31 == 0) * 40 {
            add(2 + n % (inode - 1));
        }
    }
    let count = entries.len() as u64;
    assert!(count > 100_000, "{count}");
    draft.entries = entries;
    draft.directories = vec![(0, 1, 0), (count, 0, 0)];
    let tree = draft.tree();
    for inode in 1..=3001 {
        let path = tree.path_of(inode).expect("has a path");
        assert_eq!(tree.lookup_path(&path).expect("follows"), Some(inode));
    }
}

#[test]
fn a_listing_resumes_at_any_cookie() {
    for draft in samples() {
        let tree = draft.tree();
        for inode in [1, 3, 9] {
            let all = names(&tree, inode, 0);
            assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].1));
            assert_eq!(all.len() as u64, tree.attributes(inode).expect("exists").size);
            for (at, (cookie, ..)) in all.iter().enumerate() {
                assert_eq!(names(&tree, inode, *cookie), all[at + 1..]);
            }
            for behind in [all.len() as u64, all.len() as u64 + 1, u64::MAX] {
                assert_eq!(names(&tree, inode, behind), []);
            }
        }
        let mut seen = 0;
        tree.list(1, 2, |_| {
            seen += 1;
            seen < 3
        })
        .expect("lists");
        assert_eq!(seen, 3, "stops when told");
        assert!(tree.list(2, 0, |_| true).is_err());
    }
}

#[test]
fn a_listing_with_attributes_gives_the_same() {
    let tree = Draft::sample().tree();
    let mut found = Vec::new();
    tree.list_attributes(1, 0, |entry, attributes| {
        assert_eq!(*attributes, tree.attributes(entry.inode).expect("exists"));
        found.push((entry.cookie, entry.name.to_vec(), entry.inode));
        true
    })
    .expect("lists");
    assert_eq!(found, names(&tree, 1, 0));
}

#[test]
fn a_large_directory_is_listed_in_chunks_and_found_by_search() {
    let count = 30_000;
    let mut draft = Draft::many_files(count);
    draft.page_rows = 500;
    let image = draft.open();
    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
    let all = names(&tree, 1, 0);
    assert_eq!(all.len() as u64, count);
    for (at, (cookie, name, inode)) in all.iter().enumerate() {
        assert_eq!((*cookie, *inode), (at as u64 + 1, at as u64 + 2));
        assert_eq!(*name, format!("file-{at:08}").into_bytes());
    }
    // Each page of names was read once, and the pages of the inodes not at all, because the listing
    // does not need them. The rest is index pages, and one page each for inode and directory.
    let pages = image.counters().snapshot().pages_read;
    assert!((60..=70).contains(&pages), "{pages} pages");
    assert_eq!(names(&tree, 1, 29_998).len(), 2);
}

#[test]
fn a_lookup_touches_few_pages() {
    let count = 100_000;
    let mut draft = Draft::many_files(count);
    draft.page_rows = 1000;
    let image = draft.open();
    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
    let before = image.counters().snapshot();
    assert_eq!(tree.lookup(1, b"file-00077777").expect("looks up"), Some(77_779));
    let cost = image.counters().snapshot().since(&before);
    // An index and a data page of inodes, one of directories, an index and at most log2(100) + 1
    // data pages of entries, another data page of inodes.
    assert!(cost.pages_read <= 4 + 1 + 8, "{cost:?}");
    assert_eq!(cost.source_reads, cost.pages_read);

    let before = image.counters().snapshot();
    assert_eq!(tree.lookup(1, b"file-00077777").expect("looks up"), Some(77_779));
    let cost = image.counters().snapshot().since(&before);
    assert_eq!(cost.pages_read, 0, "{cost:?}");

    let before = image.counters().snapshot();
    tree.attributes(50_000).expect("exists");
    let cost = image.counters().snapshot().since(&before);
    assert!(cost.pages_read <= 2, "one of inodes, one of contents: {cost:?}");
    image.clear_caches();
    assert_eq!(image.page_cache_bytes(), 0);
    assert!(tree.attributes(50_000).is_ok());
}

#[test]
fn links_and_parents_are_those_of_the_sample() {
    for draft in samples() {
        let tree = draft.tree();
        assert_eq!(tree.link_target(5).expect("a link"), b"a.txt");
        let error = tree.link_target(1).expect_err("no link");
        assert!(matches!(error.fault(), Fault::WrongKind { .. }), "{error}");
        assert_eq!(tree.parent(1).expect("the root"), 1);
        assert_eq!(tree.parent(3).expect("a directory"), 1);
        assert_eq!(tree.parent(9).expect("a directory"), 3);
        assert!(tree.parent(2).is_err());
        assert_eq!(tree.directory_path(1).expect("the root"), b"");
        assert_eq!(tree.directory_path(9).expect("a directory"), b"d/e");
    }
}

#[test]
fn xattrs_are_found_by_name() {
    for draft in samples() {
        let tree = draft.tree();
        let all = tree.xattrs(2).expect("reads");
        let of = |name: &[u8]| tree.xattr(2, name).expect("reads");
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].name.as_slice(), all[0].value.as_slice()),
            (&b"trusted.a"[..], &b"1"[..])
        );
        assert_eq!(of(b"trusted.a"), Some(b"1".to_vec()));
        assert_eq!(of(b"user.b"), Some(Vec::new()));
        assert_eq!(of(b"user.c"), None);
        assert_eq!(tree.xattr_names(2).expect("reads"), [&b"trusted.a"[..], b"user.b"]);
        assert_eq!(tree.xattr(8, b"user.c").expect("reads"), Some(assemble::noise(100, 9)));
        assert_eq!(tree.xattrs(1).expect("reads"), []);
        assert_eq!(tree.xattr(1, b"user.c").expect("reads"), None);
        assert!(tree.xattr_names(99).is_err());
    }
}

#[test]
fn a_walk_visits_everything_once_in_order() {
    for draft in samples() {
        let tree = draft.tree();
        let mut walk = tree.walk(1).expect("starts");
        let mut met = Vec::new();
        while let Some(visit) = walk.advance().expect("advances") {
            assert_eq!(visit.depth, {
                if visit.path.is_empty() { 0 } else { visit.path.split(|b| *b == b'/').count() }
            });
            assert_eq!(visit.attributes, tree.attributes(visit.attributes.inode).expect("exists"));
            met.push((visit.attributes.inode, String::from_utf8_lossy(visit.path).into_owned()));
        }
        let expected = [
            (1, ""),
            (2, "a.txt"),
            (3, "d"),
            (9, "d/e"),
            (11, "d/e/long\u{fffd}"),
            (2, "d/hard"),
            (10, "d/tty"),
            (4, "empty"),
            (5, "link"),
            (6, "pipe"),
            (7, "socket"),
            (8, "sparse"),
        ];
        assert_eq!(met, expected.map(|(inode, path)| (inode, path.to_owned())));
        assert!(walk.advance().expect("stays at the end").is_none());
    }
}

#[test]
fn a_walk_can_skip_directories_and_start_anywhere() {
    let tree = Draft::sample().tree();
    let mut walk = tree.walk(1).expect("starts");
    let mut met = Vec::new();
    while let Some(visit) = walk.advance().expect("advances") {
        met.push(visit.attributes.inode);
        if visit.name() == b"d" {
            walk.skip_directory();
        }
    }
    assert_eq!(met, [1, 2, 3, 4, 5, 6, 7, 8]);
    let mut walk = tree.walk(2).expect("a file");
    assert_eq!(walk.advance().expect("itself").map(|visit| visit.attributes.inode), Some(2));
    assert!(walk.advance().expect("the end").is_none());
    assert!(tree.walk(99).is_err());
}

#[test]
fn iterators_give_what_callbacks_give() {
    let tree = Draft { page_rows: 100, ..Draft::many_files(2_000) }.tree();
    for cookie in [0, 3, 511, 512, 1_999, 2_000, u64::MAX] {
        let mut listed = Vec::new();
        tree.list_attributes(1, cookie, |entry, attributes| {
            listed.push((entry.cookie, entry.name.to_vec(), *attributes));
            true
        })
        .expect("lists");
        let entries: Vec<_> = tree
            .entries(1, cookie)
            .map(|entry| entry.map(|entry| (entry.cookie, entry.name, entry.attributes)))
            .collect::<Result<_, _>>()
            .expect("lists");
        assert_eq!(entries, listed, "after {cookie}");
    }
    let mut not_a_directory = tree.entries(2, 0);
    assert!(not_a_directory.next().is_some_and(|entry| entry.is_err()));
    assert!(not_a_directory.next().is_none());

    let tree = Draft::sample().tree();
    let mut steps = tree.walk(1).expect("starts");
    for entry in tree.walk(1).expect("starts") {
        let entry = entry.expect("reads");
        let step = steps.advance().expect("reads").expect("as many steps");
        assert_eq!((&*entry.path, entry.depth, entry.attributes), {
            (step.path, step.depth, step.attributes)
        });
    }
    assert!(steps.advance().expect("reads").is_none());
}

#[test]
fn a_tree_is_shared_between_threads() {
    fn is_shared<T: Send + Sync + Clone + 'static>() {}
    is_shared::<Tree>();
    let tree = Draft { page_rows: 100, ..Draft::many_files(5_000) }.tree();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let tree = tree.clone();
            scope.spawn(move || {
                for n in (thread..5_000).step_by(7) {
                    let name = format!("file-{n:08}");
                    assert_eq!(tree.lookup(1, name.as_bytes()).expect("looks up"), Some(n + 2));
                }
            });
        }
    });
    // Read once, however many threads missed them: 50 data pages of entries, 51 of inodes (the
    // root is one too), an index page each, one page of directories.
    assert_eq!(tree.image().counters().snapshot().pages_read, 50 + 51 + 2 + 1);
}
