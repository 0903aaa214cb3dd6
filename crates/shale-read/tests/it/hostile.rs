//! Images with valid checksums and hostile rows: loops, false depths, numbers out of range. Every
//! call must end with the right data or with an error that says where, without a panic and within
//! the limits.

use crate::assemble::exercise::exercise;
use crate::assemble::{self, Draft, DraftFrame, inode, noise};
use shale_codec::Codec;
use shale_format::InodeKind;
use shale_format::schema::{STREAM_HOLE, STREAM_ZERO};
use shale_read::{Fault, Options, ReadError, SnapshotChoice};

/// Exercises the sample after a change, and expects an error that contains all of `words`.
#[track_caller]
fn expect_error(change: impl FnOnce(&mut Draft), words: &[&str]) {
    let mut draft = Draft::sample();
    change(&mut draft);
    let tree = draft.tree();
    let errors = exercise(&tree);
    let found = errors.iter().any(|error| {
        let text = error.to_string();
        error.is_corrupt() && words.iter().all(|word| text.contains(word))
    });
    let mut texts: Vec<String> =
        errors.iter().filter(|error| error.is_corrupt()).map(ToString::to_string).collect();
    texts.dedup();
    assert!(found, "no error with {words:?} among {texts:#?}");
}

#[test]
fn an_honest_image_gives_no_error_of_damage() {
    let errors = exercise(&Draft::sample().tree());
    let damage: Vec<_> = errors.iter().filter(|error| error.is_corrupt()).collect();
    assert!(damage.is_empty(), "{damage:?}");
    assert!(
        errors.iter().all(|error| {
            matches!(error.fault(), Fault::NoInode { .. } | Fault::WrongKind { .. })
        })
    );
}

#[test]
fn entries_that_lead_back_up_are_refused() {
    // To the root, to itself, to an ancestor.
    expect_error(|d| d.entries[9].0 = 1, &["directory inode 3", "entries row 9", "inode of"]);
    expect_error(|d| d.entries[9].0 = 3, &["directory inode 3", "entries row 9"]);
    expect_error(|d| d.entries[10].0 = 3, &["directory inode 9", "entries row 10"]);
    // A directory that is its own parent, or its child's child.
    expect_error(|d| d.directories[2].2 = 2, &["directories row 2", "index of the parent"]);
    expect_error(|d| d.directories[1].2 = 2, &["directories row 1", "index of the parent"]);
    expect_error(|d| d.directories[0].2 = 1, &["directories row 0"]);
}

#[test]
fn a_directory_is_entered_by_one_name_only() {
    // Twice in one directory: as `e` and as `tty`.
    expect_error(|d| d.entries[9].0 = 9, &["directory inode 3", "entries row 9"]);
    // From two directories: /sparse becomes /d/e.
    expect_error(|d| d.entries[6].0 = 9, &["entries row 6", "its parent"]);
    // From another directory than its parent.
    expect_error(|d| d.directories[2].2 = 0, &["directory inode 3", "its parent"]);
}

#[test]
fn each_way_to_a_directory_checks_it_on_its_own() {
    // /sparse leads to /d/e, whose parent is /d.
    let mut draft = Draft::sample();
    draft.entries[6].0 = 9;
    let tree = draft.tree();
    let error = tree.lookup(1, b"sparse").expect_err("another's directory");
    assert!(error.to_string().contains("its parent is 1, expected 0"), "{error}");
    assert!(tree.list_attributes(1, 0, |_, _| true).is_err());
    assert_eq!(tree.lookup(3, b"e").expect("its own"), Some(9));

    // /d/e and /d/tty are one directory. A listing that begins between the two notices it too.
    let mut draft = Draft::sample();
    draft.entries[8].0 = 9;
    let tree = draft.tree();
    for cookie in [0, 1] {
        let error = tree.list(3, cookie, |_| true).expect_err("two names");
        assert!(error.to_string().contains("level order"), "{cookie}: {error}");
    }
    tree.list(3, 2, |_| true).expect("after them");
}

#[test]
fn doubling_directories_do_not_double_the_walk() {
    // 40 levels, each with two names for the next: 2^40 paths, if all were followed.
    let levels = 40;
    let mut draft = Draft::sample();
    draft.inodes = (0..levels).map(|n| inode(InodeKind::Directory, n)).collect();
    draft.entries.clear();
    draft.directories.clear();
    for n in 0..levels {
        draft.directories.push((draft.entries.len() as u64, n + 1, n.saturating_sub(1)));
        if n + 1 < levels {
            draft.entries.push((n + 2, b"a".to_vec()));
            draft.entries.push((n + 2, b"b".to_vec()));
        }
    }
    draft.directories.push((draft.entries.len() as u64, 0, 0));
    let errors = exercise(&draft.tree());
    assert!(errors.iter().any(ReadError::is_corrupt));

    // The same with diamonds: two directories per level, each with entries for both of the next.
    let mut draft = Draft::sample();
    draft.inodes = (0..2 * levels - 1).map(|n| inode(InodeKind::Directory, n)).collect();
    draft.entries.clear();
    draft.directories.clear();
    for index in 0..2 * levels - 1 {
        let level = index.div_ceil(2);
        let parent = if level < 2 { 0 } else { 2 * level - 3 };
        draft.directories.push((draft.entries.len() as u64, index + 1, parent));
        if level + 1 < levels {
            draft.entries.push((2 * level + 2, b"a".to_vec()));
            draft.entries.push((2 * level + 3, b"b".to_vec()));
        }
    }
    draft.directories.push((draft.entries.len() as u64, 0, 0));
    let errors = exercise(&draft.tree());
    assert!(errors.iter().any(ReadError::is_corrupt));
}

#[test]
fn a_very_deep_tree_is_walked_or_refused_but_not_recursed_into() {
    let depth = 100_000u64;
    let mut draft = Draft::sample();
    draft.inodes = (0..depth).map(|n| inode(InodeKind::Directory, n)).collect();
    draft.entries =
        (1..depth).map(|n| (n + 1, vec![b'x'; if n == depth - 1 { 1 } else { 30 }])).collect();
    draft.directories =
        (0..depth).map(|n| (n, n + 1, n.saturating_sub(1))).chain([(depth - 1, 0, 0)]).collect();
    draft.directories[depth as usize - 1].0 = depth - 1;
    let tree = draft.tree();
    let mut walk = tree.walk(1).expect("starts");
    let mut steps = 0;
    let error = loop {
        match walk.advance() {
            Ok(Some(_)) => steps += 1,
            Ok(None) => panic!("three megabytes of path"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("length of the path"), "{error}");
    assert_eq!(steps, (shale_format::limits::PATH_LEN_MAX + 1) / 31 + 1);
    assert!(tree.directory_path(depth).is_err());
}

#[test]
fn numbers_outside_their_tables_are_refused() {
    expect_error(|d| d.entries[4].0 = 12, &["directory inode 1", "entries row 4", "12"]);
    expect_error(|d| d.entries[4].0 = u64::MAX, &["directory inode 1", "entries row 4"]);
    expect_error(|d| d.entries[4].0 = 0, &["directory inode 1", "entries row 4"]);
    expect_error(|d| d.inodes[0].payload = 3, &["inode 1", "directory index is 3"]);
    expect_error(|d| d.inodes[2].payload = u64::MAX, &["inode 3", "directory index"]);
    expect_error(|d| d.inodes[2].payload = 2, &["directories row 2", "inode is 9, expected 3"]);
    expect_error(|d| d.inodes[2].payload = 0, &["directories row 0", "inode is 1, expected 3"]);
    expect_error(|d| d.inodes[1].payload = 4, &["inode 2", "content is 4, expected at most 3"]);
    expect_error(|d| d.inodes[1].payload = u64::MAX, &["inode 2", "content"]);
    expect_error(|d| d.inodes[4].payload = 1, &["inode 5", "row of the link target is 1"]);
    expect_error(|d| d.inodes[1].xattr_set = 3, &["inode 2", "set of xattrs is 3"]);
    expect_error(|d| d.xattr_sets[0] = (2, 2), &["inode 2", "first xattr item is 2"]);
    expect_error(|d| d.xattr_sets[0] = (u64::MAX, 1), &["inode 2", "first xattr item"]);
    expect_error(|d| d.xattr_sets[0] = (0, u64::MAX), &["inode 2", "count of xattrs"]);
    expect_error(|d| d.directories[2].0 = 12, &["directories row 1", "end of its entries is 12"]);
    expect_error(|d| d.directories[1].0 = 11, &["directories row 1", "end of its entries"]);
    expect_error(|d| d.directories[1].1 = 99, &["directories row 1", "inode is 99, expected 3"]);
    expect_error(|d| d.directories[1].1 = 1, &["directories row 1"]);
    expect_error(|d| d.inodes[1].mtime.nsec = 1_000_000_000, &["inode 2", "nanoseconds"]);
}

#[test]
fn names_that_overlap_or_lead_elsewhere_are_refused() {
    let name = |row: usize, name: &[u8]| {
        let name = name.to_vec();
        move |d: &mut Draft| d.entries[row].1 = name
    };
    expect_error(name(1, b"a.txt"), &["directory inode 1", "entries row 1", "does not come after"]);
    expect_error(name(2, b"a"), &["directory inode 1", "entries row 2", "does not come after"]);
    for bad in [&b"."[..], b"..", b"a/b", b"/", b"d\0", b"../../etc/passwd"] {
        expect_error(name(0, bad), &["directory inode 1", "entries row 0", "slash or a zero"]);
    }
    expect_error(name(0, b""), &["entries row 0", "length of the name is 0"]);
    expect_error(name(6, &[b'z'; 256]), &["entries row 6", "length of the name is 256"]);
    expect_error(|d| d.symlinks[0] = Vec::new(), &["symlinks row 0", "is 0"]);
    expect_error(|d| d.symlinks[0] = vec![b'x'; 4096], &["symlinks row 0", "is 4096"]);
    expect_error(|d| d.symlinks[0] = b"a\0b".to_vec(), &["symlinks row 0"]);
    expect_error(|d| d.xattr_items[1].0 = b"trusted.a".to_vec(), &["xattr_items row 1"]);
    expect_error(|d| d.xattr_items[0].0 = Vec::new(), &["xattr_items row 0", "is 0"]);
    expect_error(|d| d.xattr_items[2].1 = vec![0; 65_537], &["xattr_items row 2", "65537"]);
}

#[test]
fn contents_and_extents_that_do_not_fit_are_refused() {
    expect_error(|d| d.contents[2] = 0xffff, &["content 2", "end of the content"]);
    expect_error(|d| d.contents[4] = u64::MAX, &["content 3", "end of the content"]);
    // Content that continues after the last extent.
    expect_error(|d| d.contents[4] += 1, &["content 3", "after the last extent"]);
    // No extent covers the start of the content.
    expect_error(|d| d.extents[0].0 = 1, &["content 1", "no extent covers"]);
    // Extents that do not ascend.
    expect_error(|d| d.extents[2].0 = d.extents[1].0, &["content 2", "extents row"]);
    expect_error(|d| d.extents[3].0 = 0, &["extents row"]);
    // Extents beyond the last frame, far beyond it, or that wrap around.
    expect_error(|d| d.extents[6].1 = 3000, &["content 3", "beyond the last frame"]);
    expect_error(|d| d.extents[6].1 = 1 << 60, &["content 3", "beyond the last frame"]);
    expect_error(|d| d.extents[6].1 = u64::MAX - 2, &["extents row 6", "stream offset"]);
    expect_error(|d| d.extents[6].1 = u64::MAX - 20, &["extents row 6", "stream offset"]);
}

#[test]
fn frames_that_go_back_in_stream_space_are_refused() {
    // Starts at 0, 300, 200, and the end at 300.
    let mut frames: Vec<_> = (0..3).map(|n| DraftFrame::stored(noise(100, n + 1))).collect();
    frames[1].spoil = Some(|record| record.plain_start = 300);
    let tree = Draft::one_file(frames, &[(320, 0)]).tree();
    let error = tree
        .pieces(2, 0..320)
        .expect("starts")
        .collect::<Result<Vec<_>, _>>()
        .expect_err("goes back");
    assert!(error.to_string().contains("frame 1: end of its plain bytes is 200"), "{error}");
    assert!(tree.read(2, 0, &mut [0; 320]).is_err());
}

#[test]
fn tables_without_rows_are_refused() {
    for change in [
        |d: &mut Draft| d.inodes.clear(),
        |d: &mut Draft| d.directories.clear(),
        |d: &mut Draft| d.directories.truncate(1),
        |d: &mut Draft| d.entries.clear(),
        |d: &mut Draft| d.symlinks.clear(),
        |d: &mut Draft| d.xattr_sets.clear(),
        |d: &mut Draft| d.xattr_items.clear(),
        |d: &mut Draft| d.contents.clear(),
        |d: &mut Draft| d.contents.truncate(1),
        |d: &mut Draft| d.extents.clear(),
        |d: &mut Draft| d.extents.truncate(1),
        |d: &mut Draft| d.frames.clear(),
        |d: &mut Draft| d.frames.truncate(1),
    ] {
        let mut draft = Draft::sample();
        change(&mut draft);
        let errors = exercise(&draft.tree());
        assert!(!errors.is_empty());
    }
    // No row in any table.
    let mut draft = Draft::sample();
    draft.spoil_root = Some(|root| {
        let tables = Default::default();
        root.contents = tables;
        root.extents = tables;
        root.frames = tables;
        root.references = tables;
        let snapshot = &mut root.snapshots[0];
        snapshot.inodes = tables;
        snapshot.directories = tables;
        snapshot.entries = tables;
        snapshot.symlinks = tables;
        snapshot.xattr_sets = tables;
        snapshot.xattr_items = tables;
    });
    let tree = draft.tree();
    assert!(tree.attributes(1).is_err() && tree.walk(1).is_err());
    assert!(!exercise(&tree).is_empty());
}

#[test]
fn references_that_go_in_circles_are_refused() {
    // References to the frame itself, to each other, and to a later frame that refers back.
    for lies in [[2u64, 1, 3], [3, 2, 2], [3, 3, 2]] {
        for depths in [[1, 1], [1, 2], [2, 2], [2, 1], [8, 8]] {
            let mut draft = Draft::sample();
            draft.frames[2].references = vec![lies[0], lies[1]];
            draft.frames[3].references = vec![lies[2]];
            draft.frames[2].depth = depths[0];
            draft.frames[3].depth = depths[1];
            let tree = draft.tree();
            let errors = exercise(&tree);
            let circle = errors.iter().any(|error| {
                error.is_corrupt() && error.to_string().contains("depth of a reference")
            });
            assert!(circle, "{lies:?} {depths:?}: {errors:#?}");
        }
    }
}

#[test]
fn readers_of_a_circle_do_not_wait_for_each_other_for_ever() {
    let mut draft = Draft::sample();
    draft.frames[2].references = vec![3];
    draft.frames[3].references = vec![2];
    let image = draft.open();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let image = &image;
            scope.spawn(move || {
                for n in 0..200 {
                    assert!(image.frame(2 + (thread + n) % 2).is_err());
                }
            });
        }
    });
}

#[test]
fn frame_records_that_lie_are_refused() {
    let spoil = |frame: usize, spoil| move |d: &mut Draft| d.frames[frame].spoil = Some(spoil);
    expect_error(spoil(2, |r| r.depth = 0), &["frame 2", "depth is 0"]);
    expect_error(spoil(2, |r| r.depth = 9), &["frame 2", "depth is 9"]);
    expect_error(spoil(1, |r| r.depth = 1), &["frame 1", "depth is 1"]);
    expect_error(spoil(2, |r| r.reference_count = 17), &["frame 2", "reference count is 17"]);
    expect_error(spoil(2, |r| r.reference_first = 3), &["frame 2", "first reference"]);
    expect_error(spoil(2, |r| r.reference_first = u64::MAX), &["frame 2", "first reference"]);
    expect_error(|d| d.frames[2].references = vec![99], &["references row 0", "is 99"]);
    expect_error(|d| d.frames[2].references = vec![4], &["references row 0", "is 4"]);
    expect_error(spoil(0, |r| r.stored_offset = 1 << 40), &["frame 0", "end of the stored bytes"]);
    expect_error(spoil(0, |r| r.stored_offset = u64::MAX), &["frame 0", "stored offset"]);
    expect_error(spoil(0, |r| r.stored_len += 1), &["frame 0", "stored length"]);
    expect_error(spoil(0, |r| r.stored_len -= 1), &["frame 0", "stored frame"]);
    expect_error(spoil(0, |r| r.plain_start = 1), &["frame 0"]);
    expect_error(spoil(1, |r| r.plain_start += 1), &["frame"]);
    expect_error(spoil(1, |r| r.plain_start = u64::MAX), &["frame 0", "next plain start"]);
    expect_error(spoil(0, |r| r.codec = 5), &["frame 0", "codec is 5"]);
    expect_error(spoil(0, |r| r.filter = 200), &["frame 0", "filter is 200"]);
    expect_error(spoil(0, |r| r.codec = Codec::Lzma.id()), &["frame 0"]);
    expect_error(spoil(0, |r| r.stored_sum ^= 1), &["frame 0", "stored bytes"]);
    expect_error(spoil(0, |r| r.plain_sum ^= 1), &["frame 0", "plain bytes"]);
    expect_error(spoil(3, |r| r.plain_sum ^= 1), &["frame 3", "plain bytes"]);
    // A frame with other references than it was encoded with.
    expect_error(
        |d| {
            d.frames[3].spoil = Some(|r| {
                r.reference_first = 0;
                r.reference_count = 1;
            });
        },
        &["frame 3"],
    );
}

#[test]
fn a_bomb_of_references_is_stopped() {
    // Each level refers sixteen times to the one below: 16^8 decodes, if all were done.
    let plain = noise(50, 1).repeat(400);
    let mut frames = vec![DraftFrame::zstd(plain.clone(), &[], 0)];
    for depth in 1..=8u8 {
        frames.push(DraftFrame::zstd(plain.clone(), &[u64::from(depth) - 1; 16], depth));
    }
    let draft = Draft::one_file(frames, &[(plain.len() as u64 * 9, 0)]);
    for cache_bytes_max in [0, 1 << 30] {
        let options = Options::default().cache_bytes_max(cache_bytes_max);
        let image = assemble::open_with(draft.assemble(), options).expect("opens");
        assert_eq!(*image.frame(8).expect("decodes"), plain);
        assert_eq!(image.counters().snapshot().frames_decoded, 9);
    }
    // Wide: 16 frames per level, each with all 16 below as references. The limit on bytes stops it.
    let mut frames: Vec<_> = (0..16).map(|_| DraftFrame::zstd(plain.clone(), &[], 0)).collect();
    for depth in 1..=4u64 {
        let below: Vec<u64> = (16 * (depth - 1)..16 * depth).collect();
        for _ in 0..16 {
            frames.push(DraftFrame::zstd(plain.clone(), &below, depth as u8));
        }
    }
    let draft = Draft::one_file(frames, &[(1, 0)]);
    let options = Options::default().cache_bytes_max(0).read_bytes_max(400_000);
    let image = assemble::open_with(draft.assemble(), options).expect("opens");
    let error = image.frame(79).expect_err("too much");
    assert!(matches!(error.fault(), Fault::ReadBound { .. }), "{error}");
    assert!(image.counters().snapshot().plain_bytes_decoded <= 400_000);
}

#[test]
fn a_prefix_longer_than_the_limit_is_refused() {
    // Three frames that claim 64 MiB each make a prefix of 192 MiB without storing it.
    let mut frames = vec![DraftFrame::zstd(vec![7; 100], &[1, 2, 3], 1)];
    frames.extend((0..4).map(|_| DraftFrame::stored(vec![7; 100])));
    let spoils: [fn(&mut shale_format::FrameRecord); 4] = [
        |record| record.plain_start = 100,
        |record| record.plain_start = 100 + (64 << 20),
        |record| record.plain_start = 100 + (128 << 20),
        |record| record.plain_start = 100 + (192 << 20),
    ];
    for (frame, spoil) in frames[1..].iter_mut().zip(spoils) {
        frame.spoil = Some(spoil);
    }
    let image = Draft::one_file(frames, &[(1, 0)]).open();
    let error = image.frame(0).expect_err("too long");
    assert!(error.to_string().contains("length of all references"), "{error}");
    assert_eq!(image.counters().snapshot().frames_decoded, 0, "nothing is decoded for it");
}

#[test]
fn pages_that_do_not_match_their_reference_are_refused() {
    for spoil in [
        |page: &mut shale_table::PageRef| page.checksum ^= 1,
        |page: &mut shale_table::PageRef| page.offset += 1,
        |page: &mut shale_table::PageRef| page.offset = 1 << 50,
        |page: &mut shale_table::PageRef| page.stored_len -= 1,
        |page: &mut shale_table::PageRef| page.plain_len += 1,
        |page: &mut shale_table::PageRef| page.stored_len = 5 << 20,
        |page: &mut shale_table::PageRef| page.codec = 3,
        |page: &mut shale_table::PageRef| page.codec = 2,
        |page: &mut shale_table::PageRef| page.codec = 0,
        |page: &mut shale_table::PageRef| *page = shale_table::PageRef::default(),
    ] {
        // With small pages the reference is in an index page, otherwise in the root, and then the
        // whole root may be refused.
        for page_rows in [2, 4096] {
            let mut draft = Draft { compressed: true, page_rows, ..Draft::sample() };
            draft.spoil_page = Some(spoil);
            match assemble::open(draft.assemble()) {
                Err(error) => assert!(error.is_corrupt(), "{error}"),
                Ok(image) => {
                    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
                    let errors = exercise(&tree);
                    assert!(errors.iter().any(ReadError::is_corrupt));
                }
            }
        }
    }
}

#[test]
fn table_roots_that_lie_are_refused() {
    for spoil in [
        |root: &mut shale_format::Root| root.snapshots[0].inodes = root.frames,
        |root: &mut shale_format::Root| root.snapshots[0].entries = root.snapshots[0].inodes,
        |root: &mut shale_format::Root| root.frames = root.contents,
        |root: &mut shale_format::Root| root.snapshots[0].inodes.row_count = 1 << 60,
        |root: &mut shale_format::Root| root.snapshots[0].entries.row_count -= 1,
        |root: &mut shale_format::Root| root.snapshots[0].inodes.level_count = 200,
        |root: &mut shale_format::Root| root.snapshots[0].inodes.level_count += 1,
        |root: &mut shale_format::Root| root.frames.page_count = u64::MAX,
        |root: &mut shale_format::Root| root.contents.row_count = u64::MAX,
        |root: &mut shale_format::Root| root.extents.row_count = u64::MAX,
        |root: &mut shale_format::Root| root.frames.row_count = u64::MAX,
        |root: &mut shale_format::Root| root.snapshots[0].xattr_items.row_count = u64::MAX,
        |root: &mut shale_format::Root| {
            root.snapshots[0].entries.dictionary = root.snapshots[0].entries.top;
        },
        |root: &mut shale_format::Root| root.snapshots[0].entries.dictionary.codec = 2,
        |root: &mut shale_format::Root| root.snapshots[0].entries.dictionary = Default::default(),
    ] {
        for page_rows in [2, 4096] {
            let mut draft = Draft { compressed: true, page_rows, ..Draft::sample() };
            draft.spoil_root = Some(spoil);
            match assemble::open(draft.assemble()) {
                Err(error) => assert!(error.is_corrupt(), "{error}"),
                Ok(image) => {
                    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
                    assert!(exercise(&tree).iter().any(ReadError::is_corrupt));
                }
            }
        }
    }
}

#[test]
fn marks_of_holes_are_not_offsets() {
    // The largest possible extents, as a hole and as a zero run.
    let len = i64::MAX as u64;
    for mark in [STREAM_HOLE, STREAM_ZERO] {
        let tree = Draft::one_file(vec![], &[(len, mark)]).tree();
        let mut buf = [1; 10];
        assert_eq!(tree.read(2, len - 5, &mut buf).expect("reads"), 5);
        assert_eq!(buf, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
        assert!(exercise(&tree).iter().all(|error| !error.is_corrupt()));
    }
    expect_error(|d| d.contents[4] = 1 << 63 | 1 << 40, &["end of the content"]);
}
