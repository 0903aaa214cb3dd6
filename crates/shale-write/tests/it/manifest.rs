//! Trees that are written down: any order gives the same tree, and what is wrong is said.

use std::path::PathBuf;
use std::sync::Arc;

use shale_read::{Image, MemorySource, SnapshotChoice, Tree};
use shale_source::ManifestSource;
use shale_write::{NoProgress, Options, Report, WriteError, create};

fn options() -> Options {
    Options { level: 1, threads: 2, ..Options::default() }
}

fn pack_with(text: &[u8], options: &Options) -> Result<(Vec<u8>, Report), WriteError> {
    let input = Box::new(std::io::Cursor::new(text.to_vec()));
    let mut source = ManifestSource::open(input, b"list", PathBuf::new())?;
    let mut image = Vec::new();
    let report = create(&mut source, &mut image, options, &NoProgress)?;
    Ok((image, report))
}

fn pack(text: &str) -> Result<(Tree, Report), WriteError> {
    let (image, report) = pack_with(text.as_bytes(), &options())?;
    Ok((open(image), report))
}

fn open(image: Vec<u8>) -> Tree {
    let image =
        Image::open(Arc::new(MemorySource::new(image)), shale_read::Options::default()).unwrap();
    image.tree(&SnapshotChoice::Newest).unwrap()
}

/// Lines of a forest, the root first.
fn forest(levels: &[usize]) -> Vec<String> {
    let mut lines = vec!["d 755 0 0 1500000000 - .".to_owned()];
    let (files, directories) = levels.split_last().unwrap();
    let mut above = vec![String::new()];
    for count in directories {
        let mut paths = Vec::new();
        for path in &above {
            for number in 0..*count {
                let inner = format!("{path}dir-{number}");
                lines.push(format!("d 755 0 0 1500000000 - {inner}"));
                paths.push(inner + "/");
            }
        }
        above = paths;
    }
    for path in &above {
        lines.extend((0..*files).map(|n| format!("f 644 0 0 1500000000 0 {path}file-{n}.txt")));
    }
    lines
}

/// Everything a tree holds, by a walk over names.
fn listing(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let mut walk = tree.walk(tree.root_inode()).unwrap();
    while let Some(visit) = walk.advance().unwrap() {
        let attributes = &visit.attributes;
        let path = String::from_utf8_lossy(visit.path);
        found.push(format!("{path} {} {:o}", attributes.inode, attributes.mode()));
    }
    found
}

#[test]
fn any_order_gives_the_same_tree_in_the_same_bytes() {
    let mut lines = forest(&[30, 20, 40]);
    let (image, report) = pack_with(lines.join("\n").as_bytes(), &options()).unwrap();
    let expected = listing(&open(image.clone()));
    assert_eq!(expected.len(), 1 + 30 + 600 + 24_000);
    // What is the same whatever the order: all but identity, offsets and sums of it.
    let size = image.len();
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % below
    };
    for turn in 0..3 {
        match turn {
            0 => lines.reverse(),
            1 => lines.sort_by_key(|line| line.rsplit('/').next().map(str::to_owned)),
            _ => (1..lines.len()).rev().for_each(|at| lines.swap(at, random(at + 1))),
        }
        // Little memory: through temporary files.
        let options =
            Options { memory_bytes_max: if turn == 2 { 61 << 20 } else { 0 }, ..options() };
        let (image, again) = pack_with(lines.join("\n").as_bytes(), &options).unwrap();
        assert_eq!(again.tree_digest, report.tree_digest, "turn {turn}");
        assert_eq!((again.tables.clone(), image.len()), (report.tables.clone(), size));
        assert_eq!(listing(&open(image)), expected, "turn {turn}");
    }
}

#[test]
fn a_million_entries_are_small_in_the_image_and_in_pages_touched() {
    let text = forest(&[100, 100, 100]).join("\n");
    let (image, report) = pack_with(text.as_bytes(), &options()).unwrap();
    assert_eq!(report.entries.total, 1_010_100);
    assert!(image.len() < 100_000, "{} bytes", image.len());
    let tree = open(image);
    let touched = || {
        let counters = tree.image().counters().snapshot();
        counters.pages_read + counters.page_hits
    };
    let mut most = 0;
    for number in (0..1_000_000).step_by(9973) {
        let (a, b, c) = (number / 10_000, number / 100 % 100, number % 100);
        let path = format!("dir-{a}/dir-{b}/file-{c}.txt");
        let before = touched();
        let inode = tree.lookup_path(path.as_bytes()).unwrap().unwrap();
        tree.attributes(inode).unwrap();
        most = most.max(touched() - before);
        assert_eq!(tree.lookup_path(format!("{path}x").as_bytes()).unwrap(), None);
    }
    // Three names and the attributes: a few pages each, whatever the number of entries.
    assert!(most <= 40, "{most} pages");
}

#[test]
fn a_directory_of_a_million_names_lists_from_any_position() {
    const COUNT: u64 = 1_000_000;
    let (tree, _) = pack(&forest(&[COUNT as usize]).join("\n")).unwrap();
    let mut names: Vec<String> = (0..COUNT).map(|number| format!("file-{number}.txt")).collect();
    names.sort();
    // A cookie is the number of entries before it, whatever was listed before.
    for cookie in [0, 1, 16_383, 16_384, 16_385, 777_777, COUNT - 1, COUNT, COUNT + 5] {
        let mut next = cookie;
        let list = tree.list(1, cookie, |entry| {
            assert_eq!(entry.name, names[next as usize].as_bytes());
            next += 1;
            assert_eq!((entry.cookie, entry.inode), (next, next + 1));
            next < cookie + 40_000
        });
        list.unwrap();
        assert_eq!(next, (cookie + 40_000).min(COUNT).max(cookie));
    }
    // A name that is not there costs a search over the page index.
    let pages = || {
        let counters = tree.image().counters().snapshot();
        counters.pages_read + counters.page_hits
    };
    let before = pages();
    assert_eq!(tree.lookup(1, b"file-5x.txt").unwrap(), None);
    assert!(pages() - before <= 40, "{}", pages() - before);
}

#[test]
fn hard_links_attributes_and_holes_are_as_written() {
    let (tree, report) = pack(
        "# all of it\n\nd 700 1 2 -1.5 - .\nf#9 640 3 4 5 100000 b\nx user.b B\\x00\nx user.a A\n\
         f#9 = = = = 0 a\nd = = = = - dir\nf#9 = = = = 0 dir/c\nl 777 0 0 0 to\\x20there l\n\
         c 600 0 0 0 4:64 tty\np 600 0 0 0 - pipe\ns 600 0 0 0 - sock\nf 644 0 0 0 7 with space",
    )
    .unwrap();
    assert_eq!((report.entries.hard_links, report.entries.files), (2, 4));
    let get = |path: &str| {
        let inode = tree.lookup_path(path.as_bytes()).unwrap().unwrap_or_else(|| panic!("{path}"));
        tree.attributes(inode).unwrap()
    };
    let a = get("a");
    assert_eq!((a.inode, a.link_count, a.size, a.uid), (get("dir/c").inode, 3, 100_000, 3));
    assert_eq!(a.inode, get("b").inode);
    let xattrs = tree.xattrs(a.inode).unwrap();
    assert_eq!((&xattrs[0].name[..], &xattrs[1].value[..]), (&b"user.a"[..], &b"B\0"[..]));
    assert_eq!((get("tty").device(), get("with space").size), ((4, 64), 7));
    assert_eq!(tree.link_target(get("l").inode).unwrap(), b"to there");
    assert_eq!((tree.attributes(1).unwrap().mtime.sec, report.hole_bytes), (-2, 100_007));
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let ok = "d 755 0 0 0 - .\nd 755 0 0 0 - a\n";
    let wrong: [(&str, &str); 8] = [
        ("f 644 0 0 0 0 a/b\nq", "line 4: expected a type and then more"),
        (
            "\n# c\nf 644 0 0 0 0 a/b\nf 644 0 0 0 0 a/b",
            "line 6: expected each path once, found `a/b` again, which line 5",
        ),
        ("f 644 0 0 0 0 a", "line 3: expected each path once, found `a` again, which line 2"),
        ("d 644 0 0 0 - a", "line 3: expected each path once, found `a` again, which line 2"),
        ("f 644 0 0 0 0 b/c/d\n", "expected an entry for the directory `b"),
        ("x user.a 1\nx user.a 2", "line 4: the entry has an attribute `user.a` already"),
        ("f 644 0 0 0 0 .", "line 3: expected type d for the root"),
        ("f 644 0 0 0 @/nowhere/at/all f", "line 3: /nowhere/at/all: No such file"),
    ];
    for (text, expected) in wrong {
        let error = pack(&format!("{ok}{text}")).err().unwrap_or_else(|| panic!("{text}"));
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
    assert!(
        pack("x user.a 1").unwrap_err().to_string().contains("line 1: expected an entry before")
    );
    // A child before its parent, and no root, are fine.
    assert_eq!(pack("f 644 0 0 0 0 a/b\nd 755 0 0 0 - a").unwrap().1.entries.total, 2);
}

#[test]
fn a_full_temporary_directory_is_said() {
    let options = Options {
        memory_bytes_max: 60_377_216,
        temp_dir: Some(PathBuf::from("/nonexistent/for/sure")),
        ..options()
    };
    // Little repeats, so that it does not fit into the memory there is.
    let mut text = String::from("d 755 0 0 0 - .\n");
    let mut state = 7u64;
    for number in 0..120_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number);
        text += &format!("f 644 {} 0 {} 0 {state:016x}\n", state % 1000, state >> 32);
    }
    let error = pack_with(text.as_bytes(), &options).unwrap_err();
    assert!(matches!(error, WriteError::TemporaryFile(_)), "{error}");
}
