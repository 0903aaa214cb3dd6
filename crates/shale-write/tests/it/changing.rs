//! Files that change or fail while they are read: what was read is packed and named, and nothing
//! stays in the image that no file points to.

use std::sync::atomic::Ordering;

use shale_model::Content;
use shale_write::{Change, ChangeKind, Options, Order, ProblemKind};

use crate::common::*;
use crate::trouble::{LENS, Made, Trick, entry, tricky};

/// Options for each way in which contents reach the frames.
fn ways() -> [Options; 4] {
    let level = |level| Options { level, ..options() };
    [
        level(1),
        level(4),
        // Contents go into the stream at once, and frames wait for references.
        Options { order: Some(Order::Source), ..level(4) },
        // Frames stand alone, and contents are put into order.
        Options { order: Some(Order::Path), ..level(1) },
    ]
}

#[test]
fn a_file_that_changes_is_packed_as_it_was_read_and_named() {
    for options in ways() {
        for trick in [Trick::Grows, Trick::Shrinks, Trick::Touched] {
            for len in LENS {
                let bytes = Random(len as u64).text(len);
                let (content_before, _) = tricky(trick, 0, Random(9).text(len));
                let (content_changing, opened) = tricky(trick, u64::MAX, bytes.clone());
                let entries = vec![
                    entry("before", content_before, len as u64),
                    entry("changing", content_changing, len as u64),
                    entry("later", Content::Bytes(b"later".to_vec()), 5),
                ];
                let (image, report) = build(&mut Made::new(entries), &options).unwrap();
                let tree = open(&image);
                assert_digests(&tree, &report);
                let (kind, packed_len, attempts) = match trick {
                    Trick::Grows => (ChangeKind::Grew { len: len as u64 }, len, 1),
                    Trick::Shrinks => (ChangeKind::Shrank { len: len as u64 - 1 }, len - 1, 4),
                    _ => (ChangeKind::Rewritten, len, 4),
                };
                assert_eq!(report.changes, [Change { path: b"changing".to_vec(), kind }]);
                assert!(report.problems.is_empty());
                assert_eq!(opened.load(Ordering::Relaxed), attempts, "{trick:?}");
                assert!(content(&tree, b"changing") == bytes[..packed_len], "{trick:?} {len}");
                assert_eq!(content(&tree, b"later"), b"later");
                assert_eq!(dead_bytes(&tree), 0, "{trick:?} {len} {options:?}");
            }
        }
    }
}

#[test]
fn what_vanishes_is_left_out_and_named() {
    let (gone, _) = tricky(Trick::Vanishes, u64::MAX, Vec::new());
    let (here, _) = tricky(Trick::Vanishes, 0, b"here".to_vec());
    let entries = vec![entry("gone", gone, 9), entry("here", here, 4)];
    let (image, report) = build(&mut Made::new(entries), &options()).unwrap();
    assert_eq!(report.problems.len(), 1);
    assert_eq!(
        (&report.problems[0].path[..], &report.problems[0].kind),
        (&b"gone"[..], &ProblemKind::Vanished)
    );
    let tree = open(&image);
    assert_eq!((tree.entry_count(), content(&tree, b"here")), (1, b"here".to_vec()));
}

#[test]
fn a_file_that_fails_halfway_leaves_no_bytes_in_the_image() {
    const LEN: usize = 5 << 20;
    for options in ways() {
        let options = Options { skip_unreadable: true, ..options };
        let file = |seed, times| tricky(Trick::BreaksLate, times, Random(seed).text(LEN)).0;
        let entries = || {
            vec![
                entry("small", Content::Bytes(Random(7).text(70_000)), 70_000),
                entry("whole", file(1, 0), LEN as u64),
                entry("broken", file(2, u64::MAX), LEN as u64),
                // Equal to the beginning of the one that is gone.
                entry("z", Content::Bytes(Random(2).text(LEN / 3)), LEN as u64 / 3),
            ]
        };
        let (image, report) = build(&mut Made::new(entries()), &options).unwrap();
        assert_eq!(report.problems.len(), 1);
        assert_eq!(report.problems[0].path, b"broken");
        let tree = open(&image);
        assert_digests(&tree, &report);
        assert_eq!(dead_bytes(&tree), 0, "{options:?}");
        assert!(content(&tree, b"small") == Random(7).text(70_000));
        assert!(content(&tree, b"whole") == Random(1).text(LEN));
        assert!(content(&tree, b"z") == Random(2).text(LEN / 3));
        // The frames are those of a build without the file.
        let mut without = entries();
        without.remove(2);
        let (_, other) = build(&mut Made::new(without), &options).unwrap();
        assert_eq!((report.frames, report.stored_bytes), (other.frames, other.stored_bytes));
    }
}
