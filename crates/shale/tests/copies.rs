//! Promise: a copy decodes no frame that need not be compared, neither of its sources nor of the
//! new image, and has no frame that its sources do not have.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use shale::read::{Image, SnapshotChoice};
use shale::{Adjust, CreateOptions, Input, MergePart, NoProgress, Output};

/// Bytes that do not compress.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Packs a directory of files with these lengths and seeds at level 5, and opens the image.
fn image(folder: &Path, name: &str, files: &[(usize, u64)]) -> Arc<Image> {
    let source = folder.join(name);
    std::fs::create_dir(&source).unwrap();
    for (number, &(len, seed)) in files.iter().enumerate() {
        std::fs::write(source.join(format!("{number}")), noise(len, seed)).unwrap();
    }
    let path = folder.join(format!("{name}.shale"));
    let mut options = CreateOptions::default();
    options.build.level = 5;
    shale::create(&[Input::new(&source)], Output::Path(path.clone()), &options, &NoProgress)
        .unwrap();
    Image::open_path(path).unwrap()
}

fn decoded(image: &Arc<Image>) -> u64 {
    image.counters().snapshot().frames_decoded
}

fn frames(image: &Arc<Image>) -> HashSet<(u64, u64)> {
    let records = image.frame_records(0..u64::MAX).map(|record| record.unwrap().1);
    records.map(|record| (record.stored_sum, record.plain_sum)).collect()
}

#[test]
fn rewrite_and_compact_decode_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<(usize, u64)> = (0..60).map(|n| (1000 + 7000 * (n % 20), n as u64)).collect();
    let old = image(folder.path(), "old", &files);
    let before = decoded(&old);
    let mut options = CreateOptions::default();
    options.source.adjust = Adjust { owner: Some(7), ..Adjust::default() };
    let path = folder.path().join("new.shale");
    let parts = [MergePart::new(Arc::clone(&old))];
    let report = shale::rewrite(&parts, &path, &options, &NoProgress).unwrap();
    let verified = report.verified.unwrap();
    assert_eq!(decoded(&old), before);
    assert_eq!((verified.frames_decoded, report.compared_contents), (0, 0));
    assert_eq!(verified.contents, 60);
    assert_eq!(verified.content_bytes, files.iter().map(|(len, _)| *len as u64).sum::<u64>());
    let new = Image::open_path(&path).unwrap();
    assert_eq!(frames(&new), frames(&old));
    let tree = new.tree(&SnapshotChoice::Newest).unwrap();
    let inode = tree.lookup_path(b"7").unwrap().unwrap();
    assert_eq!(tree.attributes(inode).unwrap().uid, 7);

    let path = folder.path().join("compact.shale");
    let options = CreateOptions::default();
    let report = shale::compact(&old, &[0], &path, &options, &NoProgress).unwrap();
    assert_eq!(decoded(&old), before);
    assert_eq!(report.verified.unwrap().frames_decoded, 0);
}

#[test]
fn merge_decodes_only_what_can_be_equal() {
    let folder = tempfile::tempdir().unwrap();
    // Large files of lengths that only one of the images has, and two of a common length.
    let large = |first: u64| (0..10).map(move |n| (100_000 + (first + n) as usize, first + n));
    let own: Vec<(usize, u64)> = large(100).chain([(5000, 1), (6000, 2)]).collect();
    let other: Vec<(usize, u64)> = large(200).chain([(5000, 1), (6000, 3)]).collect();
    let one = image(folder.path(), "one", &own);
    let two = image(folder.path(), "two", &other);
    let before = decoded(&one) + decoded(&two);
    let parts = [
        MergePart::new(Arc::clone(&one)).prefix(b"one".to_vec()),
        MergePart::new(Arc::clone(&two)).prefix(b"two".to_vec()),
    ];
    let path = folder.path().join("both.shale");
    let report =
        shale::merge(&parts, false, &path, &CreateOptions::default(), &NoProgress).unwrap();
    assert_eq!((report.compared_contents, report.equal_contents), (4, 1));
    assert_eq!(report.verified.unwrap().frames_decoded, 0);
    // The short files of an image lie together.
    let decoded = decoded(&one) + decoded(&two) - before;
    assert!((2..=8).contains(&decoded), "{decoded} of {} frames", one.frame_count() * 2);
    let all: HashSet<_> = frames(&one).union(&frames(&two)).copied().collect();
    assert!(frames(&Image::open_path(&path).unwrap()).is_subset(&all));
}
