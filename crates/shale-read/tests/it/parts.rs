//! Frames of which only the front is decoded: a short read decodes what it wants, going on decodes
//! nothing twice, and what is wrong further back is found there.

use std::sync::{Arc, OnceLock};

use crate::assemble::{self, Draft, DraftFrame, noise};
use shale_codec::{Codec, Filter};
use shale_format::FrameRecord;
use shale_read::{FaultySource, Image, MemorySource, Options, SnapshotChoice, Tree};

const BLOCK: u64 = 128 << 10;

/// Bytes of which every 64 KiB compress a little, and none by those before.
fn long(len: usize, seed: u64) -> Vec<u8> {
    noise(len, seed).into_iter().map(|byte| byte & 0x3f).collect()
}

fn one_file(frames: Vec<DraftFrame>) -> Draft {
    let len = frames.iter().map(|frame| frame.plain.len() as u64).sum();
    Draft::one_file(frames, &[(len, 0)])
}

fn bytes_of(draft: &Draft) -> Vec<u8> {
    draft.frames.iter().flat_map(|frame| frame.plain.clone()).collect()
}

fn tree(image: &Arc<Image>) -> Tree {
    image.tree(&SnapshotChoice::Newest).expect("a snapshot")
}

fn read(tree: &Tree, at: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0; len];
    let found = tree.read(2, at, &mut buf).expect("reads");
    buf.truncate(found);
    buf
}

/// Frames of 300,000 to 500,000 bytes, zstd and LZMA, with filters, alone and with references; the
/// plain bytes of all; and the image.
fn mixed() -> &'static (Draft, Vec<u8>, Vec<u8>) {
    static MIXED: OnceLock<(Draft, Vec<u8>, Vec<u8>)> = OnceLock::new();
    MIXED.get_or_init(|| {
        let draft = mixed_draft();
        let (plain, image) = (bytes_of(&draft), draft.assemble());
        (draft, plain, image)
    })
}

fn mixed_draft() -> Draft {
    let mut frames = Vec::new();
    for codec in [Codec::Zstd, Codec::Lzma] {
        for filter in [Filter::None, Filter::BcjX86, Filter::BcjArm64] {
            let first = frames.len() as u64;
            let mut plain = long(400_000 + frames.len(), first + 1);
            for call in plain.chunks_mut(50) {
                call[0] = 0xe8;
            }
            frames.push(DraftFrame { codec, filter, ..DraftFrame::stored(plain.clone()) });
            plain[250_000..].reverse();
            let references = vec![first];
            frames.push(DraftFrame {
                codec,
                filter,
                references,
                depth: 1,
                ..DraftFrame::stored(plain)
            });
            let plain = [&frames[first as usize].plain[100_000..], &long(100_000, 77)].concat();
            let references = vec![first, first + 1];
            frames.push(DraftFrame {
                codec,
                filter,
                references,
                depth: 2,
                ..DraftFrame::stored(plain)
            });
        }
    }
    one_file(frames)
}

#[test]
fn a_short_read_decodes_up_to_its_end_and_the_next_goes_on() {
    let plain = long(512 << 10, 1);
    let image = one_file(vec![DraftFrame::zstd(plain.clone(), &[], 0)]).open();
    let tree = tree(&image);
    let counted = || {
        let counters = image.counters().snapshot();
        (counters.plain_bytes_decoded, counters.frames_decoded, counters.frames_continued)
    };
    assert_eq!(read(&tree, 0, 4096), plain[..4096]);
    assert_eq!(counted(), (BLOCK, 1, 0));
    assert_eq!(read(&tree, BLOCK - 4096, 4096), plain[BLOCK as usize - 4096..BLOCK as usize]);
    assert_eq!(counted(), (BLOCK, 1, 0));
    let reads = image.counters().snapshot().source_reads;
    // One byte of the second block.
    assert_eq!(read(&tree, BLOCK, 1), plain[BLOCK as usize..][..1]);
    assert_eq!(counted(), (2 * BLOCK, 1, 1));
    // Twice as much as before would be all of it.
    assert_eq!(read(&tree, 300_000, 4096), plain[300_000..304_096]);
    assert_eq!(counted(), (4 * BLOCK, 1, 2));
    assert_eq!(read(&tree, 0, 512 << 10), plain);
    assert_eq!(counted(), (4 * BLOCK, 1, 2));
    assert_eq!(image.counters().snapshot().source_reads, reads, "nothing is read again");
    let counters = image.counters().snapshot();
    assert_eq!((counters.frame_misses, counters.frame_hits), (1, 2));
}

#[test]
fn a_reader_of_the_whole_decodes_it_at_once_or_the_rest() {
    let draft = one_file(vec![DraftFrame::zstd(long(512 << 10, 1), &[], 0)]);
    let expected = bytes_of(&draft);
    for read_first in [false, true] {
        for reader in 0..4 {
            let image = draft.open();
            let tree = tree(&image);
            if read_first {
                read(&tree, 10, 10);
            }
            match reader {
                0 => assert_eq!(*image.frame(0).expect("decodes"), expected),
                1 => assert_eq!(read(&tree, 0, 512 << 10), expected),
                2 => {
                    let mut found = Vec::new();
                    let visit = |bytes: &[u8]| {
                        found.extend_from_slice(bytes);
                        true
                    };
                    tree.visit_data(2, 5..10_000, visit).expect("reads");
                    assert_eq!(found, expected[5..10_000]);
                }
                _ => assert_eq!(tree.read_to_vec(2, 1 << 20).expect("reads"), expected),
            }
            let counters = image.counters().snapshot();
            assert_eq!(counters.plain_bytes_decoded, 512 << 10);
            assert_eq!(counters.frames_continued, u64::from(read_first));
            assert_eq!(counters.frames_decoded, 1);
            assert_eq!(image.cache().frame_count(), 1);
        }
    }
}

#[test]
fn reads_in_any_order_and_any_cache_give_the_bytes() {
    let (_, expected, image) = mixed();
    for cache_bytes_max in [0, 700_000, 8 << 20, 40 << 20, 256 << 20] {
        let options = Options::default().cache_bytes_max(cache_bytes_max);
        let image = assemble::open_with(image.clone(), options).expect("opens");
        let tree = tree(&image);
        let mut state = 5u64;
        for _ in 0..if cache_bytes_max < 8 << 20 { 40 } else { 400 } {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) % expected.len() as u64;
            let len = [1, 4096, 70_000, 300_000][(state >> 20) as usize % 4];
            let end = expected.len().min(at as usize + len);
            assert_eq!(read(&tree, at, len), expected[at as usize..end], "{at} {len}");
            let cache = image.cache();
            assert!(cache.bytes() <= cache.bytes_max().max(700_000), "{cache:?}");
        }
    }
}

#[test]
fn going_on_decodes_no_byte_twice() {
    let (draft, expected, image) = mixed();
    let options = Options::default().cache_bytes_max(1 << 30);
    let image = assemble::open_with(image.clone(), options).expect("opens");
    let tree = tree(&image);
    for at in (0..expected.len()).step_by(50_000) {
        let end = expected.len().min(at + 9_000);
        assert_eq!(read(&tree, at as u64, 9_000), expected[at..end]);
    }
    for frame in 0..draft.frames.len() {
        assert_eq!(*image.frame(frame as u64).expect("decodes"), draft.frames[frame].plain);
    }
    let counters = image.counters().snapshot();
    assert_eq!(counters.plain_bytes_decoded, expected.len() as u64);
    assert_eq!(counters.frames_decoded, draft.frames.len() as u64);
    assert!(counters.frames_continued > 0);
}

#[test]
fn many_readers_of_one_frame_decode_it_once() {
    let (draft, expected, image) = mixed();
    for _ in 0..2 {
        let options = Options::default().cache_bytes_max(1 << 30);
        let image = assemble::open_with(image.clone(), options).expect("opens");
        let tree = tree(&image);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let tree = &tree;
                scope.spawn(move || {
                    let mut places: Vec<usize> = (0..expected.len()).step_by(40_009).collect();
                    match thread % 3 {
                        0 => places.reverse(),
                        1 => places.rotate_left(thread * 20),
                        _ => {}
                    }
                    for at in places {
                        let end = expected.len().min(at + 5000);
                        assert_eq!(read(tree, at as u64, 5000), expected[at..end]);
                    }
                });
            }
        });
        for frame in 0..draft.frames.len() {
            image.frame(frame as u64).expect("decodes");
        }
        assert_eq!(image.counters().snapshot().plain_bytes_decoded, expected.len() as u64);
    }
}

#[test]
fn states_of_decoders_are_bounded_and_what_they_decoded_stays() {
    let frames = (0..40).map(|n| DraftFrame::zstd(long(512 << 10, n + 1), &[], 0)).collect();
    let draft = one_file(frames);
    let expected = bytes_of(&draft);
    let bytes_max = 64 << 20;
    let image =
        assemble::open_with(draft.assemble(), Options::default().cache_bytes_max(bytes_max))
            .expect("opens");
    let tree = tree(&image);
    let check = |at: u64| {
        let found = read(&tree, at, 1000);
        assert_eq!(found, expected[at as usize..][..1000]);
    };
    for n in 0..40 {
        check(n << 19);
        assert!(image.cache().bytes() <= bytes_max, "{:?}", image.cache());
    }
    let decoded = || image.counters().snapshot().plain_bytes_decoded;
    assert_eq!((decoded(), image.cache().frame_count()), (40 * BLOCK, 40));
    // A state takes its frame, its stored bytes and the decoder: some 1.1 MB. An eighth of the
    // cache holds seven, and a front is 128 KiB.
    let bytes = image.cache().bytes();
    assert!(bytes <= (bytes_max / 8) + 40 * (BLOCK + 1000), "{bytes}");
    for n in 0..40 {
        check((n << 19) + 100_000);
    }
    assert_eq!(decoded(), 40 * BLOCK, "all fronts are still there");
    // The newest goes on, the oldest begins anew.
    check((39 << 19) + 200_000);
    assert_eq!(decoded(), 41 * BLOCK);
    check(200_000);
    assert_eq!(decoded(), 45 * BLOCK);
}

#[test]
fn what_is_wrong_behind_the_front_fails_there_and_never_gives_wrong_bytes() {
    let plain = long(300_000, 1);
    for codec in [Codec::Zstd, Codec::Lzma] {
        for filter in [Filter::None, Filter::BcjX86] {
            let honest = DraftFrame { codec, filter, ..DraftFrame::stored(plain.clone()) };
            let bytes = one_file(vec![honest.clone()]).assemble();
            let record = assemble::open(bytes.clone()).expect("opens").frame_record(0).expect("is");
            let from = record.stored_offset as usize;
            let stored = &bytes[from..from + record.stored_len as usize];
            // Cut, lengthened, and with a sum that is not that of the frame: as a hostile writer
            // would do it, so the sums of the stored bytes are right.
            let mut others: Vec<Option<Vec<u8>>> =
                (1..16).map(|n| Some(stored[..stored.len() * n / 16].to_vec())).collect();
            others.push(Some([stored, &[0][..]].concat()));
            others.push(None);
            for other in others {
                let spoil: Option<fn(&mut FrameRecord)> =
                    if other.is_none() { Some(|record| record.plain_sum ^= 1) } else { None };
                let image =
                    one_file(vec![DraftFrame { stored: other, spoil, ..honest.clone() }]).open();
                let tree = tree(&image);
                for _ in 0..2 {
                    let mut buf = [0; 4096];
                    if tree.read(2, 1000, &mut buf).is_ok() {
                        assert_eq!(buf, plain[1000..5096]);
                    }
                    let error = tree.read(2, 295_000, &mut buf).expect_err("is wrong");
                    assert!(error.is_corrupt(), "{error}");
                    assert!(error.to_string().contains("frame 0"), "{error}");
                    assert!(image.frame(0).is_err());
                    assert!(tree.read(2, 0, &mut vec![0; 300_000]).is_err());
                }
                assert!(image.frame_verified(0).is_err());
            }
        }
    }
}

#[test]
fn several_zstd_frames_in_a_row_read_as_they_do_at_once() {
    // Another decoder may refuse them; what is read must not depend on where reading began.
    let plain = long(300_000, 1);
    let half = one_file(vec![DraftFrame::zstd(plain.clone(), &[], 0)]).assemble();
    let record = assemble::open(half.clone()).expect("opens").frame_record(0).expect("is there");
    let stored = half[record.stored_offset as usize..][..record.stored_len as usize].repeat(2);
    let frame = DraftFrame { stored: Some(stored), ..DraftFrame::zstd(plain.repeat(2), &[], 0) };
    let draft = one_file(vec![frame]);
    let whole = draft.open().frame(0).expect("decodes");
    let image = draft.open();
    let tree = tree(&image);
    for at in [0u64, 200_000, 310_000, 100, 599_000] {
        assert_eq!(read(&tree, at, 1000), whole[at as usize..][..1000], "{at}");
    }
}

#[test]
fn a_failed_read_leaves_nothing_behind_and_the_front_is_enough_without_the_source() {
    let plain = long(512 << 10, 1);
    let draft = one_file(vec![
        DraftFrame::zstd(plain.clone(), &[], 0),
        DraftFrame::zstd(plain.clone(), &[0], 1),
    ]);
    let source = Arc::new(FaultySource::new(MemorySource::new(draft.assemble())));
    let image = Image::open(source.clone(), Options::default()).expect("opens");
    let tree = tree(&image);
    let mut buf = [0; 4096];
    read(&tree, 600_000, 1); // The tables, and both frames.
    image.cache().clear();
    source.fail_all(true);
    assert!(tree.read(2, 600_000, &mut buf).is_err());
    source.heal();
    assert_eq!(read(&tree, 600_000, 4096), plain[600_000 - (512 << 10)..][..4096]);
    // Stored bytes and references are at hand.
    source.fail_all(true);
    assert_eq!(read(&tree, 800_000, 4096), plain[800_000 - (512 << 10)..][..4096]);
    assert_eq!(read(&tree, 512 << 10, 512 << 10), plain);
}
