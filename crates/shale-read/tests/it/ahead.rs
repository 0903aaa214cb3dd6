//! Decoding by workers: nothing is decoded twice, a guessed frame is used or counted as wasted, and
//! a scan does not evict frames that are used again and again.

use std::sync::Arc;

use crate::assemble::{self, Draft, DraftFrame, noise};
use shale_read::{FrameCache, Image, Options, SnapshotChoice, Tree, Workers};

const FRAME_LEN: usize = 50_000;

/// A file of `count` frames, every fourth of which is a reference of the three after it.
fn draft(count: u64) -> Draft {
    let frames = (0..count).map(|n| {
        let plain = noise(FRAME_LEN, n / 4 + 1);
        match n % 4 {
            0 => DraftFrame::zstd(plain, &[], 0),
            _ => DraftFrame::zstd(plain, &[n - n % 4], 1),
        }
    });
    Draft::one_file(frames.collect(), &[(count * FRAME_LEN as u64, 0)])
}

fn open(draft: &Draft, options: Options) -> (Arc<Image>, Tree) {
    let image = assemble::open_with(draft.assemble(), options).expect("opens");
    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
    (image, tree)
}

/// Opens the draft with a cache of 256 MiB and three workers.
fn open_with_workers(draft: &Draft, prefetch_bytes_max: u64) -> (Arc<Image>, Tree, Arc<Workers>) {
    let workers = Workers::new(3);
    let options = Options::default()
        .cache_bytes_max(256 << 20)
        .prefetch_bytes_max(prefetch_bytes_max)
        .workers(Arc::clone(&workers));
    let (image, tree) = open(draft, options);
    (image, tree, workers)
}

fn plain(draft: &Draft) -> Vec<u8> {
    draft.frames.iter().flat_map(|frame| frame.plain.clone()).collect()
}

/// Waits until the workers have nothing to do.
fn settle(image: &Image, workers: &Workers) -> shale_read::CounterSnapshot {
    workers.wait_idle();
    image.counters().snapshot()
}

#[test]
fn the_frames_of_a_long_read_are_decoded_once_each() {
    let draft = draft(40);
    let expected = plain(&draft);
    for readers in [1, 4] {
        let (image, tree, workers) = open_with_workers(&draft, 0);
        std::thread::scope(|scope| {
            for _ in 0..readers {
                scope.spawn(|| {
                    let mut buf = vec![0; expected.len()];
                    assert_eq!(tree.read(2, 0, &mut buf).expect("reads"), buf.len());
                    assert!(buf == expected);
                });
            }
        });
        let counters = settle(&image, &workers);
        assert_eq!(counters.frames_decoded, 40);
        assert_eq!(counters.plain_bytes_decoded, expected.len() as u64);
        assert_eq!(counters.frames_prefetched, 0);
    }
}

#[test]
fn what_is_guessed_for_a_reader_in_sequence_is_used() {
    let draft = draft(200);
    let expected = plain(&draft);
    let (image, tree, workers) = open_with_workers(&draft, 1 << 20);
    let mut buf = vec![0; 20_000];
    for (n, part) in expected.chunks(buf.len()).enumerate() {
        let found = tree.read(2, (n * buf.len()) as u64, &mut buf).expect("reads");
        assert!(buf[..found] == *part);
        // Without a wait, what the workers do is chance; with one, they are ahead.
        if n % 20 == 0 {
            settle(&image, &workers);
        }
    }
    let counters = settle(&image, &workers);
    assert_eq!(counters.frames_decoded, 200, "none twice");
    assert!(counters.frames_prefetched > 0, "{counters:?}");
    assert_eq!(counters.prefetch_used, counters.frames_prefetched, "{counters:?}");
    image.clear_caches();
    assert_eq!(image.counters().snapshot().prefetch_wasted, 0);
}

#[test]
fn what_is_guessed_in_vain_is_counted() {
    let draft = draft(100);
    let (image, tree, workers) = open_with_workers(&draft, 1 << 20);
    let mut buf = vec![0; 40_000];
    for n in 0..4 {
        tree.read(2, n * 40_000, &mut buf).expect("reads");
    }
    let counters = settle(&image, &workers);
    assert!(counters.frames_prefetched > counters.prefetch_used, "{counters:?}");
    image.clear_caches();
    let after = image.counters().snapshot();
    assert_eq!(after.prefetch_wasted, counters.frames_prefetched - counters.prefetch_used);
}

#[test]
fn a_random_reader_costs_no_guess() {
    let draft = draft(400);
    let expected = plain(&draft);
    let (image, tree, workers) = open_with_workers(&draft, 4 << 20);
    let mut state = 7u64;
    let mut buf = vec![0; 4096];
    for _ in 0..300 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (state >> 33) as usize % (expected.len() - buf.len());
        tree.read(2, at as u64, &mut buf).expect("reads");
        assert!(buf == expected[at..at + buf.len()]);
    }
    let counters = settle(&image, &workers);
    // In a file of only 20 MB some random reads are sequential by chance.
    assert!(counters.frames_prefetched < 40, "{counters:?}");
}

#[test]
fn guesses_end_with_the_image() {
    let draft = draft(100);
    let (image, tree, workers) = open_with_workers(&draft, 4 << 20);
    let mut buf = vec![0; 40_000];
    for n in 0..5 {
        tree.read(2, n * 40_000, &mut buf).expect("reads");
    }
    let weak = Arc::downgrade(&image);
    drop((image, tree));
    workers.wait_idle();
    assert_eq!(weak.strong_count(), 0, "a job keeps its image alive");
}

#[test]
fn a_scan_of_small_reads_does_not_defeat_the_cache() {
    // 100 frames fit. 20 are used again and again while 2000 others pass, each of them read thirty
    // times in a row, as a frame of small files is.
    let cache = FrameCache::new(100 * FRAME_LEN as u64);
    let options = Options::default().cache(cache);
    let (image, tree) = open(&draft(2000), options);
    let touch = |frame: u64, times: u64| {
        let mut byte = [0];
        for time in 0..times {
            let at = frame * FRAME_LEN as u64 + time;
            tree.read(2, at, &mut byte).expect("reads");
        }
    };
    let hot = || (0..20).for_each(|frame| touch(frame * 4, 1));
    for frame in 0..120 {
        hot();
        touch(frame, 30);
    }
    let before = image.counters().snapshot();
    hot();
    assert_eq!(image.counters().snapshot().since(&before).frames_decoded, 0, "warmed up");
    // The scan alone, which is much larger than the cache.
    for frame in 120..2000 {
        touch(frame, 30);
    }
    let before = image.counters().snapshot();
    hot();
    let decoded = image.counters().snapshot().since(&before).frames_decoded;
    assert!(decoded <= 2, "{decoded} of 20 frames were driven out");
}
