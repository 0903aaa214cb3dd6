//! File content: every range returns the stored bytes, holes stay where they were, and the cost of
//! a read depends on its range only.

use crate::assemble::{Draft, DraftFrame, noise, sparse_bytes};
use shale_format::schema::{STREAM_HOLE, STREAM_ZERO};
use shale_read::{Fault, Kind, Piece, PieceKind, SnapshotChoice, Tree};
use std::io::{self, Read, Seek, SeekFrom};

fn whole(tree: &Tree, inode: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    tree.visit_data(inode, 0..u64::MAX, |slice| {
        bytes.extend_from_slice(slice);
        true
    })
    .expect("reads");
    bytes
}

#[test]
fn every_range_of_every_file_gives_the_stored_bytes() {
    let draft = Draft { page_rows: 2, ..Draft::sample() };
    let tree = draft.tree();
    let long = [draft.frames[2].plain.as_slice(), &draft.frames[3].plain].concat();
    let text = draft.frames[0].plain[..61].to_vec();
    for (inode, expected) in [(2, text), (4, Vec::new()), (8, sparse_bytes()), (11, long)] {
        assert_eq!(whole(&tree, inode), expected);
        let len = expected.len();
        let step = (len / 40).max(1);
        for from in (0..len + 2 * step).step_by(step) {
            for wanted in [0, 1, step, step + 1, len / 2, len, len + 7] {
                let mut buf = vec![0xee; wanted];
                let found = tree.read(inode, from as u64, &mut buf).expect("reads");
                let expected = &expected[from.min(len)..(from + wanted).min(len)];
                assert_eq!(&buf[..found], expected, "inode {inode} {from}+{wanted}");
            }
        }
        assert_eq!(tree.read(inode, u64::MAX, &mut [0; 10]).expect("reads"), 0);
        assert_eq!(tree.read(inode, i64::MAX as u64, &mut [0; 10]).expect("reads"), 0);
    }
    let error = tree.read(1, 0, &mut [0; 10]).expect_err("a directory");
    assert!(matches!(error.fault(), Fault::WrongKind { expected: Kind::File, .. }), "{error}");
}

#[test]
fn holes_are_where_they_were_and_zero_runs_are_data() {
    let tree = Draft::sample().tree();
    let size = sparse_bytes().len() as u64;
    for offset in 0..size {
        let in_hole = (16..116).contains(&offset);
        let data = tree.seek_data(8, offset).expect("seeks");
        assert_eq!(data, Some(if in_hole { 116 } else { offset }));
        let hole = tree.seek_hole(8, offset).expect("seeks");
        assert_eq!(
            hole,
            Some(if offset < 16 {
                16
            } else if in_hole {
                offset
            } else {
                size
            })
        );
    }
    for offset in [size, size + 1, u64::MAX] {
        assert_eq!(tree.seek_data(8, offset).expect("seeks"), None);
        assert_eq!(tree.seek_hole(8, offset).expect("seeks"), None);
    }
    assert_eq!(tree.data_len(8).expect("counts"), size - 100);
    assert_eq!(tree.data_len(2).expect("counts"), 61);
    assert_eq!(tree.data_len(4).expect("counts"), 0);
    assert!(tree.seek_data(1, 0).is_err());

    let all_hole = Draft::one_file(vec![], &[(1000, STREAM_HOLE)]).tree();
    assert_eq!(all_hole.seek_data(2, 0).expect("seeks"), None);
    assert_eq!(all_hole.seek_hole(2, 0).expect("seeks"), Some(0));
    assert_eq!(whole(&all_hole, 2), vec![0; 1000]);
}

#[test]
fn the_layout_lists_frames_holes_and_zero_runs() {
    let tree = Draft::sample().tree();
    let pieces: Vec<Piece> =
        tree.pieces(8, 0..u64::MAX).expect("starts").collect::<Result<_, _>>().expect("continues");
    let frame = |frame, frame_offset| PieceKind::Frame { frame, frame_offset };
    let sizes = Draft::sample().frames;
    let tail = (sizes[2].plain.len() + sizes[0].plain.len()) as u64;
    let expected = [
        (0, 16, frame(0, 61)),
        (16, 100, PieceKind::Hole),
        (116, 16, frame(0, 77)),
        (132, 50, PieceKind::Zero),
        (182, 200, frame(1, 100)),
        (382, 200, frame(3, tail)),
    ];
    assert_eq!(pieces, expected.map(|(offset, len, kind)| Piece { offset, len, kind }));
    // Cut to a range, and across the end.
    let part: Vec<Piece> =
        tree.pieces(8, 120..140).expect("starts").collect::<Result<_, _>>().expect("continues");
    let expected = [(120, 12, frame(0, 81)), (132, 8, PieceKind::Zero)];
    assert_eq!(part, expected.map(|(offset, len, kind)| Piece { offset, len, kind }));
    assert_eq!(tree.pieces(8, 5..5).expect("starts").count(), 0);
    assert_eq!(tree.pieces(8, 10_000..20_000).expect("starts").count(), 0);
}

#[test]
fn zeroes_cost_no_decode_and_no_memory() {
    let len = 5 << 40;
    let tree = Draft::one_file(vec![], &[(len, STREAM_ZERO), (7, STREAM_HOLE)]).tree();
    assert_eq!(tree.attributes(2).expect("exists").size, len + 7);
    let mut buf = vec![1; 100_000];
    assert_eq!(tree.read(2, len - 50_000, &mut buf).expect("reads"), 50_007);
    assert!(buf[..50_007].iter().all(|byte| *byte == 0));
    assert_eq!(tree.seek_hole(2, 0).expect("seeks"), Some(len));
    assert_eq!(tree.image().counters().snapshot().frames_decoded, 0);
    // A visitor that stops does not wait for the rest of five terabytes.
    let mut slices = 0;
    tree.visit_data(2, 0..u64::MAX, |_| {
        slices += 1;
        slices < 3
    })
    .expect("stops");
    assert_eq!(slices, 3);
}

#[test]
fn a_file_of_many_extents_is_read_by_search() {
    // Extents of 1 to 5 bytes that jump around in 64 frames.
    let count = 100_000u64;
    let frames: Vec<_> = (0..64).map(|n| DraftFrame::stored(noise(1000, n + 1))).collect();
    let stream: Vec<u8> = frames.iter().flat_map(|frame| frame.plain.clone()).collect();
    let mut expected = Vec::new();
    let mut extents = Vec::new();
    for n in 0..count {
        let len = 1 + n % 5;
        let at = n.wrapping_mul(7919) % (stream.len() as u64 - 5);
        match n % 10 {
            3 => extents.push((len, STREAM_HOLE)),
            7 => extents.push((len, STREAM_ZERO)),
            _ => extents.push((len, at)),
        }
        match n % 10 {
            3 | 7 => expected.extend(std::iter::repeat_n(0, len as usize)),
            _ => expected.extend_from_slice(&stream[at as usize..(at + len) as usize]),
        }
    }
    let draft = Draft { page_rows: 512, ..Draft::one_file(frames, &extents) };
    let image = draft.open();
    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
    let before = image.counters().snapshot();
    let mut buf = [0; 100];
    for from in [0, 150_000, 299_950, 77] {
        assert_eq!(tree.read(2, from, &mut buf).expect("reads") as u64, (300_000 - from).min(100));
        let from = from as usize;
        assert_eq!(buf[..50], expected[from..from + 50]);
    }
    // Of 196 pages of extents, three and their index were read, and a page each of inodes, contents
    // and frames.
    let cost = image.counters().snapshot().since(&before);
    assert!(cost.pages_read <= 8, "{cost:?}");
    assert_eq!(whole(&tree, 2), expected);
    assert_eq!(image.counters().snapshot().frames_decoded, 64, "each once");
    assert_eq!(tree.data_len(2).expect("counts"), {
        extents.iter().filter(|(_, stream)| *stream != STREAM_HOLE).map(|(len, _)| len).sum::<u64>()
    });
}

#[test]
fn a_file_handle_reads_and_seeks_like_a_file() {
    let tree = Draft { page_rows: 2, ..Draft::sample() }.tree();
    for inode in [2, 4, 8, 11] {
        let expected = whole(&tree, inode);
        let mut file = tree.open_file(inode).expect("opens");
        assert_eq!((file.len(), file.is_empty()), (expected.len() as u64, expected.is_empty()));
        let mut reference = io::Cursor::new(&expected);
        let seeks = [
            SeekFrom::Start(0),
            SeekFrom::Start(7),
            SeekFrom::Current(-3),
            SeekFrom::End(-5),
            SeekFrom::End(20),
            SeekFrom::Current(-1000),
            SeekFrom::Start(u64::MAX),
        ];
        for seek in seeks {
            match (file.seek(seek), reference.seek(seek)) {
                (Ok(found), Ok(position)) => assert_eq!(found, position, "{seek:?}"),
                (Err(_), Err(_)) => {}
                (found, position) => panic!("{seek:?}: {found:?} instead of {position:?}"),
            }
            let (mut found, mut wanted) = (Vec::new(), Vec::new());
            file.read_to_end(&mut found).expect("reads");
            reference.read_to_end(&mut wanted).expect("reads");
            assert_eq!(found, wanted, "inode {inode}, {seek:?}");
        }
        // A positioned read does not move the position.
        file.rewind().expect("seeks");
        let mut buf = vec![0; expected.len()];
        assert_eq!(file.read_at(0, &mut buf).expect("reads"), expected.len());
        assert_eq!(file.stream_position().expect("tells"), 0);
        assert_eq!(buf, expected);
    }
    let error = tree.open_file(1).expect_err("a directory");
    assert!(matches!(error.fault(), Fault::WrongKind { expected: Kind::File, .. }));
}

#[test]
fn a_whole_file_is_read_up_to_the_length_that_the_caller_allows() {
    let tree = Draft::sample().tree();
    let expected = whole(&tree, 8);
    assert_eq!(tree.read_to_vec(8, expected.len()).expect("reads"), expected);
    let error = tree.read_to_vec(8, expected.len() - 1).expect_err("too long");
    assert!(matches!(error.fault(), Fault::TooLong { .. }) && !error.is_corrupt(), "{error}");
    assert!(tree.read_to_vec(1, 100).is_err(), "a directory");
}

#[test]
fn places_are_in_the_order_of_storage() {
    let draft = Draft::sample();
    let image = draft.open();
    // Contents: empty, text, sparse, the whole of frames 2 and 3.
    let places: Vec<u64> =
        (0..4).map(|content| image.content_place(content).expect("is")).collect();
    let text_len = 61;
    let third = draft.frames[..2].iter().map(|frame| frame.plain.len() as u64).sum();
    assert_eq!(places, [u64::MAX, 0, text_len, third]);
    assert!(image.content_place(4).is_err());
    // Nothing stored at the beginning: it comes last.
    let hole = Draft::one_file(vec![DraftFrame::stored(noise(100, 1))], &[(50, STREAM_HOLE)]);
    assert_eq!(hole.open().content_place(1).expect("is"), u64::MAX);
    let later = [(9, STREAM_HOLE), (9, STREAM_ZERO), (50, 30)];
    let later = Draft::one_file(vec![DraftFrame::stored(noise(100, 1))], &later);
    assert_eq!(later.open().content_place(1).expect("is"), 30);
}

#[test]
fn bytes_that_are_taken_are_those_that_are_copied() {
    let draft = Draft::sample();
    let image = draft.open();
    let wanted = sparse_bytes();
    for range in [0..u64::MAX, 0..0, 10..120, 115..133, 581..583, 582..600] {
        let mut taken = Vec::new();
        image
            .read_content_with(2, range.clone(), |bytes| taken.extend_from_slice(bytes))
            .expect("reads");
        let len = wanted.len() as u64;
        let (start, end) = (range.start.min(len) as usize, range.end.min(len) as usize);
        assert!(taken == wanted[start..end], "{range:?}");
    }
    assert!(image.read_content_with(9, 0..1, |_| panic!("there is no such content")).is_err());
}
