//! Frames: decoded once with their references, however many readers ask, within bounds, and again
//! after a failure.

use std::sync::Arc;

use crate::assemble::{self, Draft, DraftFrame, noise};
use shale_codec::{Codec, Filter};
use shale_read::{Fault, FaultySource, FrameCache, Image, MemorySource, Options, SnapshotChoice};

/// `count` frames. Each but the first few refers to four earlier ones, at a depth of at most 2.
fn related_frames(count: u64, len: usize) -> Vec<DraftFrame> {
    let base = noise(len, 1);
    (0..count)
        .map(|n| {
            let mut plain = base.clone();
            plain[(n as usize * 13) % len] ^= 0xff;
            plain.extend_from_slice(&n.to_le_bytes());
            match n {
                0..4 => DraftFrame::zstd(plain, &[], 0),
                4..8 => DraftFrame::zstd(plain, &[0, 1, 2, 3], 1),
                _ => DraftFrame::zstd(plain, &[4, 5, 1, 7], 2),
            }
        })
        .collect()
}

fn one_file(frames: Vec<DraftFrame>) -> Draft {
    let len = frames.iter().map(|frame| frame.plain.len() as u64).sum();
    Draft::one_file(frames, &[(len, 0)])
}

fn cached(draft: &Draft, cache_bytes_max: u64) -> Arc<Image> {
    let options = Options::default().cache_bytes_max(cache_bytes_max);
    assemble::open_with(draft.assemble(), options).expect("opens")
}

#[test]
fn each_frame_is_decoded_once_however_many_readers_wait() {
    let count = 40;
    let draft = one_file(related_frames(count, 60_000));
    let image = draft.open();
    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
    let expected: Vec<u8> = draft.frames.iter().flat_map(|frame| frame.plain.clone()).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (tree, expected) = (&tree, &expected);
            scope.spawn(move || {
                // All start at once and read in different orders.
                let mut order: Vec<u64> = (0..count).collect();
                order.rotate_left(thread % 2 * 7);
                if thread % 3 == 0 {
                    order.reverse();
                }
                let mut buf = vec![0; 60_008];
                for n in order {
                    let from = n as usize * buf.len();
                    let found = tree.read(2, from as u64, &mut buf).expect("reads");
                    assert_eq!(buf[..found], expected[from..from + found]);
                }
            });
        }
    });
    let counters = image.counters().snapshot();
    assert_eq!(counters.frames_decoded, count);
    assert_eq!(counters.plain_bytes_decoded, expected.len() as u64);
    assert_eq!(counters.frame_misses, count);
    assert!(counters.frame_hits >= 7 * count, "{counters:?}");
}

#[test]
fn every_codec_and_filter_comes_back_with_and_without_references() {
    let mut code = noise(3000, 8);
    for call in code.chunks_mut(16) {
        call[0] = 0xe8; // Looks like x86 calls, so that the filter has something to do.
        call[3..5].copy_from_slice(&[0, 0]);
    }
    for codec in [Codec::Stored, Codec::Zstd, Codec::Lzma, Codec::Brotli, Codec::Lz4] {
        for filter in Filter::ALL.into_iter().filter(|filter| filter.is_in_place()) {
            let mut frames = vec![
                DraftFrame { filter, codec, ..DraftFrame::stored(code.repeat(2)) },
                DraftFrame::zstd(code.clone(), &[], 0),
            ];
            if matches!(codec, Codec::Zstd | Codec::Lzma) {
                let references = vec![1, 0];
                frames.push(DraftFrame {
                    filter,
                    codec,
                    references,
                    depth: 1,
                    ..DraftFrame::stored(code.repeat(3))
                });
            }
            let image = one_file(frames.clone()).open();
            for (n, frame) in frames.iter().enumerate() {
                let bytes = image.frame(n as u64).expect("decodes");
                assert_eq!(*bytes, frame.plain, "{codec} {filter:?} frame {n}");
            }
        }
    }
}

#[test]
fn lines_come_back_with_every_codec_and_never_with_references() {
    let log: String = (0..900).map(|i| format!("{:05}: {} of 7\n", i * 3, i % 5)).collect();
    for codec in [Codec::Stored, Codec::Zstd, Codec::Lzma, Codec::Brotli, Codec::Lz4] {
        let frame = DraftFrame {
            filter: Filter::Lines,
            codec,
            ..DraftFrame::stored(log.clone().into_bytes())
        };
        let image = one_file(vec![frame.clone()]).open();
        assert_eq!(*image.frame(0).expect("decodes"), frame.plain, "{codec}");
        let other = DraftFrame::zstd(b"another frame".to_vec(), &[], 0);
        let with = DraftFrame { references: vec![1], depth: 1, ..frame };
        let error = one_file(vec![with, other]).open().frame(0).expect_err("refused");
        assert!(error.to_string().contains("references"), "{error}");
    }
}

#[test]
fn a_cold_frame_costs_itself_and_what_it_refers_to() {
    let draft = one_file(related_frames(40, 5_000));
    let image = draft.open();
    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
    let mut byte = [0];
    tree.read(2, 30 * 5_008, &mut byte).expect("reads");
    // The frame itself, 4, 5 and 7 at depth 1, and 0 to 3 below them.
    let counters = image.counters().snapshot();
    assert_eq!(counters.frames_decoded, 8);
    // Three reads to open, one per page, one per frame.
    assert_eq!(counters.source_reads, 3 + counters.pages_read + 8);
    tree.read(2, 30 * 5_008, &mut byte).expect("reads");
    assert_eq!(image.counters().snapshot().frames_decoded, 8);
    tree.read(2, 31 * 5_008, &mut byte).expect("reads");
    assert_eq!(image.counters().snapshot().frames_decoded, 9);
}

#[test]
fn a_cache_that_holds_nothing_still_decodes_none_twice_for_one_read() {
    let draft = one_file(related_frames(12, 5_000));
    let image = cached(&draft, 0);
    let bytes = image.frame(10).expect("decodes");
    assert_eq!(*bytes, draft.frames[10].plain);
    assert_eq!(image.counters().snapshot().frames_decoded, 8);
    // The frame that was read is kept beside the cache, so the next read in it costs nothing.
    image.frame(10).expect("kept");
    assert_eq!(image.counters().snapshot().frames_decoded, 8);
}

#[test]
fn a_frame_larger_than_the_cache_is_decoded_once_for_many_reads() {
    let draft = one_file(vec![DraftFrame::zstd(noise(50_000, 4).repeat(40), &[], 0)]);
    let image = cached(&draft, 100_000);
    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
    let mut buf = [0; 4096];
    for from in (0..2_000_000).step_by(4096) {
        tree.read(2, from, &mut buf).expect("reads");
    }
    assert_eq!(image.counters().snapshot().frames_decoded, 1);
    assert_eq!(image.cache().frame_count(), 1);
    image.clear_caches();
    assert_eq!((image.cache().frame_count(), image.cache().bytes()), (0, 0));
}

#[test]
fn the_cache_stays_within_its_bound_and_can_be_shrunk() {
    let draft = one_file((0..100).map(|n| DraftFrame::stored(noise(10_000, n + 1))).collect());
    let image = cached(&draft, 200_000);
    for frame in 0..100 {
        image.frame(frame).expect("decodes");
        assert!(image.cache().bytes() <= 200_000, "{:?}", image.cache());
    }
    assert!(image.cache().frame_count() >= 15, "{:?}", image.cache());
    image.cache().set_bytes_max(50_000);
    assert!(image.cache().bytes() <= 50_000, "{:?}", image.cache());
    image.cache().clear();
    assert_eq!(image.cache().bytes(), 0);
    assert_eq!(*image.frame(7).expect("again"), draft.frames[7].plain);
}

#[test]
fn images_share_a_cache_without_mixing_their_frames() {
    let cache = FrameCache::new(1 << 20);
    let draft_a = one_file(vec![DraftFrame::stored(noise(1000, 1))]);
    let draft_b = one_file(vec![DraftFrame::stored(noise(1000, 2))]);
    let open = |draft: &Draft| {
        let options = Options::default().cache(Arc::clone(&cache));
        assemble::open_with(draft.assemble(), options).expect("opens")
    };
    let (a, b) = (open(&draft_a), open(&draft_b));
    assert_eq!(*a.frame(0).expect("decodes"), draft_a.frames[0].plain);
    assert_eq!(*b.frame(0).expect("decodes"), draft_b.frames[0].plain);
    assert_eq!(cache.frame_count(), 2);
    drop(a);
    assert_eq!(cache.frame_count(), 1, "an image takes its frames along");
    assert_eq!(*b.frame(0).expect("cached"), draft_b.frames[0].plain);
    assert_eq!(b.counters().snapshot().frames_decoded, 1);
}

#[test]
fn a_failed_read_is_not_remembered() {
    let draft = one_file(related_frames(12, 5_000));
    let source = Arc::new(FaultySource::new(MemorySource::new(draft.assemble())));
    let image = Image::open(source.clone(), Options::default()).expect("opens");
    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
    let mut buf = [0; 10];
    // Each of the reads fails once, and the next attempt succeeds.
    let mut failures = 0;
    loop {
        image.clear_caches();
        source.fail_read(source.read_count() + failures);
        let Err(error) = tree.read(2, 10 * 5_008, &mut buf) else { break };
        assert!(matches!(error.fault(), Fault::Io { .. }), "{error}");
        assert!(!error.is_corrupt());
        failures += 1;
        assert_eq!(tree.read(2, 10 * 5_008, &mut buf).expect("the next try"), 10);
        assert_eq!(buf, draft.frames[10].plain[..10]);
    }
    // A page each of inodes, contents, extents, frames and references, and eight frames.
    assert_eq!(failures, 5 + 8);
    source.heal();

    // Temporary damage, as by a bad cable: an error, then the right bytes.
    image.clear_caches();
    source.damage(0..1 << 20, 0x40);
    let error = tree.read(2, 0, &mut buf).expect_err("damaged");
    assert!(error.is_corrupt(), "{error}");
    source.heal();
    assert_eq!(tree.read(2, 0, &mut buf).expect("healed"), 10);
}

#[test]
fn waiting_readers_each_learn_of_a_failure() {
    let draft = one_file(related_frames(8, 50_000));
    let source = Arc::new(FaultySource::new(MemorySource::new(draft.assemble())));
    let image = Image::open(source.clone(), Options::default()).expect("opens");
    image.frame_record(0).expect("warms the pages");
    image.references(&image.frame_record(5).expect("exists")).expect("warms the pages");
    source.fail_all(true);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(image.frame(5).is_err()));
        }
    });
    source.heal();
    assert_eq!(*image.frame(5).expect("healed"), draft.frames[5].plain);
}

#[test]
fn verified_access_reads_anew_and_leaves_the_cache_alone() {
    let draft = one_file(related_frames(12, 5_000));
    let source = Arc::new(FaultySource::new(MemorySource::new(draft.assemble())));
    let image = Image::open(source.clone(), Options::default()).expect("opens");
    for frame in 0..12 {
        let bytes = image.frame_verified(frame).expect("verifies");
        assert_eq!(*bytes, draft.frames[frame as usize].plain);
    }
    // Seven of the twelve are references.
    assert_eq!(image.cache().frame_count(), 7);
    let record = image.frame_record(9).expect("exists");
    image.frame(9).expect("now cached");
    source.damage(record.stored_offset..record.stored_offset + 1, 1);
    assert!(image.frame(9).is_ok(), "the cache has it");
    let error = image.frame_verified(9).expect_err("the source has not");
    assert!(matches!(error.fault(), Fault::Checksum { what: "stored", .. }), "{error}");
    assert!(error.to_string().contains("frame 9"), "{error}");
}

#[test]
fn one_read_decodes_no_more_than_it_may() {
    let draft = one_file(related_frames(12, 5_000));
    let read_bytes_max = 5_008 * 8 + 24; // Eight frames, the first four of which are no longer.
    for (bytes_max, enough) in [(read_bytes_max, true), (5_008 * 7, false), (0, false)] {
        let options = Options::default().read_bytes_max(bytes_max);
        let image = assemble::open_with(draft.assemble(), options).expect("opens");
        match image.frame(10) {
            Ok(_) => assert!(enough),
            Err(error) => {
                assert!(!enough && matches!(error.fault(), Fault::ReadBound { .. }), "{error}");
            }
        }
    }
}

#[test]
fn the_cost_of_a_read_is_known_before_it() {
    let draft = one_file(related_frames(12, 5_000));
    for frame in 0..12 {
        let image = draft.open();
        let cost = image.read_cost(frame).expect("sound");
        assert_eq!(image.counters().snapshot().frames_decoded, 0);
        image.frame(frame).expect("decodes");
        let counters = image.counters().snapshot();
        assert_eq!(cost.frames, counters.frames_decoded, "frame {frame}");
        assert_eq!(cost.plain_bytes, counters.plain_bytes_decoded);
        assert_eq!(cost.frames, [1, 5, 8][frame.clamp(0, 11) as usize / 4]);
    }
}

#[test]
fn records_come_in_bulk_as_one_by_one() {
    let mut draft = one_file((0..2000).map(|n| DraftFrame::stored(noise(10, n))).collect());
    draft.page_rows = 100;
    let image = draft.open();
    let all: Vec<_> = image.frame_records(0..u64::MAX).collect::<Result<_, _>>().expect("reads");
    assert_eq!(all.len(), 2000);
    // 21 data pages and an index page.
    assert_eq!(image.counters().snapshot().pages_read, 22);
    for (frame, record) in &all {
        assert_eq!(*record, image.frame_record(*frame).expect("exists"));
    }
    let some: Vec<_> = image.frame_records(1500..1600).collect::<Result<_, _>>().expect("reads");
    assert_eq!(some, all[1500..1600]);
    assert_eq!(image.frame_records(2000..3000).count(), 0);
    assert!(image.frame_record(2000).is_err());

    // A damaged page hides only its own frames. Page 7 holds frames 700 to 799 and the end of 699.
    let root = image.tables().into_iter().find(|table| table.schema.name == "frames");
    let root = root.expect("a table");
    let mut page_at = None;
    image
        .check_table(&root, |check| {
            if check.visit.level == 0 && check.visit.first_row == 700 {
                page_at = Some(check.visit.page.offset);
            }
            true
        })
        .expect("sound");
    let source = Arc::new(FaultySource::new(MemorySource::new(draft.assemble())));
    let at = page_at.expect("page 7");
    source.damage(at..at + 1, 1);
    let image = Image::open(source, Options::default()).expect("opens");
    let bad: Vec<usize> = image
        .frame_records(0..u64::MAX)
        .enumerate()
        .filter_map(|(n, record)| record.is_err().then_some(n))
        .collect();
    assert_eq!(bad, (699..800).collect::<Vec<_>>());
    let mut damaged = 0;
    image
        .check_table(&root, |check| {
            damaged += u32::from(check.page.is_err());
            true
        })
        .expect("the index is sound");
    assert_eq!(damaged, 1);
}
