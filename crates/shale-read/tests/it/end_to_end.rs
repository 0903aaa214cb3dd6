//! Images of the real writer: a tree of similar files, read back by many threads with a small
//! cache, within the bounds that the image states.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::assemble::noise;
use shale_read::{Image, InodeKind, MemorySource, Options, SnapshotChoice, Tree};
use shale_source::{DirectorySource, ScanOptions};
use shale_write::NoProgress;
use shale_write::level::ReferenceLimits;

/// Thirty versions of a few files, each slightly different from the previous one.
fn make_versions(root: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut files = BTreeMap::new();
    for version in 0..30u64 {
        let directory = format!("version-{version:02}/src");
        std::fs::create_dir_all(root.join(&directory)).expect("makes a directory");
        for file in 0..6u64 {
            let mut bytes = noise(30_000 + 1_000 * file as usize, file + 1);
            for change in 0..=version {
                let at = (change * 7_919 + file * 31) as usize % bytes.len();
                bytes[at] = change as u8;
            }
            let path = format!("{directory}/file-{file}.bin");
            std::fs::write(root.join(&path), &bytes).expect("writes a file");
            files.insert(path.into_bytes(), bytes);
        }
        std::fs::write(root.join(&directory).join("empty"), b"").expect("writes a file");
        files.insert(format!("{directory}/empty").into_bytes(), Vec::new());
    }
    files
}

fn pack(root: &Path) -> Vec<u8> {
    let options = shale_write::Options {
        level: 3,
        threads: 2,
        frame_len: Some(64 << 10),
        references: Some(ReferenceLimits {
            count_max: 4,
            depth_max: 2,
            closure_bytes_max: 4 << 20,
            ..ReferenceLimits::UNBOUNDED
        }),
        ..shale_write::Options::default()
    };
    let mut source =
        DirectorySource::open(root, &ScanOptions::default(), &NoProgress).expect("scans");
    let mut image = Vec::new();
    shale_write::create(&mut source, &mut image, &options, &NoProgress).expect("packs");
    image
}

fn open(bytes: &[u8], cache_bytes_max: u64) -> (Arc<Image>, Tree) {
    let options = Options::default().cache_bytes_max(cache_bytes_max);
    let image = Image::open(Arc::new(MemorySource::new(bytes)), options).expect("opens");
    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
    (image, tree)
}

fn read(tree: &Tree, path: &[u8]) -> Vec<u8> {
    let inode = tree.lookup_path(path).expect("looks up").expect("exists");
    let size = tree.attributes(inode).expect("has attributes").size as usize;
    let mut bytes = vec![0; size + 1];
    assert_eq!(tree.read(inode, 0, &mut bytes).expect("reads"), size);
    bytes.truncate(size);
    bytes
}

#[test]
fn what_the_writer_packs_the_reader_gives_back_within_the_stated_bounds() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = make_versions(dir.path());
    let bytes = pack(dir.path());
    let total: usize = files.values().map(Vec::len).sum();
    assert!(bytes.len() < total / 4, "references are in use: {} of {total}", bytes.len());

    // Everything, in order, with a walk.
    let (image, tree) = open(&bytes, 256 << 20);
    assert_eq!(image.counters().snapshot().source_reads, 3);
    let mut met = 0;
    let mut walk = tree.walk(1).expect("starts");
    while let Some(visit) = walk.advance().expect("advances") {
        if visit.attributes.kind == InodeKind::File {
            assert_eq!(read(&tree, visit.path), files[visit.path]);
            met += 1;
        }
    }
    assert_eq!(met, files.len());
    assert_eq!(image.counters().snapshot().frames_decoded, image.frame_count());
    assert_eq!(image.counters().snapshot().plain_bytes_decoded, {
        let records = image.frame_records(0..u64::MAX);
        records.map(|record| record.expect("sound").1.plain_len).sum::<u64>()
    });

    // One byte of each frame with an empty cache costs at most what the image promises.
    let bounds = image.root().bounds;
    assert!(bounds.depth_max > 0 && bounds.read_bytes_max < 5 << 20, "{bounds:?}");
    let mut worst = 0;
    for frame in 0..image.frame_count() {
        image.clear_caches();
        let before = image.counters().snapshot();
        image.frame(frame).expect("decodes");
        let cost = image.counters().snapshot().since(&before);
        assert!(cost.plain_bytes_decoded <= bounds.read_bytes_max, "frame {frame}: {cost:?}");
        assert_eq!(image.read_cost(frame).expect("sound").plain_bytes, cost.plain_bytes_decoded);
        worst = worst.max(cost.plain_bytes_decoded);
    }
    assert_eq!(worst, bounds.read_bytes_max, "the promise is not looser than it must be");
}

#[test]
fn many_readers_and_a_small_cache_give_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = make_versions(dir.path());
    let bytes = pack(dir.path());
    for cache_bytes_max in [0, 300_000, 256 << 20] {
        let (image, tree) = open(&bytes, cache_bytes_max);
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (tree, files) = (tree.clone(), &files);
                scope.spawn(move || {
                    for (path, expected) in files.iter().skip(thread * 11).step_by(3) {
                        assert_eq!(read(&tree, path), *expected);
                    }
                });
            }
        });
        let counters = image.counters().snapshot();
        if cache_bytes_max > 1 << 20 {
            assert!(counters.frames_decoded <= image.frame_count(), "{counters:?}");
        }
        assert!(image.cache().bytes() <= cache_bytes_max + (64 << 10) + 1024);
    }
}
