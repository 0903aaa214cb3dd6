//! Promise: a difference of two snapshots of one image costs what changed, and not what exists; a
//! search decodes each frame once; an append reads little of what the image holds.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use shale::query::{DiffOptions, GrepOptions, Side, diff, grep};
use shale::read::{Image, Options, SnapshotChoice};
use shale::{AppendOptions, CreateOptions, Input, NoProgress, Output};

const DIRECTORIES: usize = 300;
const FILES: usize = 40;
/// At most: index pages of both snapshots, and pages of the tables that all snapshots share.
const OTHER_PAGES: u64 = 12;

/// Makes a tree of 12,000 files: pages of its tables are shared by snapshots.
fn make(source: &Path) {
    for directory in 0..DIRECTORIES {
        let path = source.join(format!("dir-{directory:03}"));
        std::fs::create_dir_all(&path).unwrap();
        for file in 0..FILES {
            let text = format!("file {file} of directory {directory}\n");
            std::fs::write(path.join(format!("name-of-file-{file:03}")), text).unwrap();
        }
    }
}

fn append(source: &Path, path: &Path, name: &str) {
    let mut create = CreateOptions::default();
    create.build.level = 1;
    create.build.snapshot_name = name.as_bytes().to_vec();
    let options = AppendOptions::default().create(create);
    shale::append(path, &[Input::new(source)], &options, &NoProgress).unwrap();
}

#[test]
fn an_append_reads_a_small_part_of_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let (source, path) = (folder.path().join("source"), folder.path().join("image.shale"));
    std::fs::create_dir(&source).unwrap();
    // Noise does not compress, so the image is as large as the files are. Frames hold parts of
    // several files.
    let mut state = 1_u64;
    let mut noise = |len: usize| -> Vec<u8> {
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        std::iter::repeat_with(next).take(len).collect()
    };
    let add = |name: &str, bytes: &[u8]| std::fs::write(source.join(name), bytes).unwrap();
    // All are as long as each other: only what is known of them tells them apart without reading.
    (0..120).for_each(|file| add(&format!("file-{file:03}"), &noise(100_000)));
    let text = |range: std::ops::Range<u32>| -> String {
        range.map(|n| format!("{n}: line {} of a text\n", n % 977)).collect()
    };
    add("text", text(0..20_000).as_bytes());
    let mut options = CreateOptions::default();
    options.build.level = 6;
    shale::create(&[Input::new(&source)], Output::Path(path.clone()), &options, &NoProgress)
        .unwrap();
    let grow = || {
        let len = std::fs::metadata(&path).unwrap().len();
        let options = AppendOptions::default().create(options.clone());
        let report = shale::append(&path, &[Input::new(&source)], &options, &NoProgress).unwrap();
        println!("{} of {len} bytes read, {} added", report.read_bytes, report.added_bytes);
        (report.read_bytes, len)
    };
    // The first one notes what all frames are like; `create` leaves no index.
    add("file-new", &noise(100_000));
    let (read, len) = grow();
    assert!((len / 2..2 * len).contains(&read), "{read} of {len}");
    // Unchanged, new and unlike anything, and a longer version of a text that is held.
    for change in 0..3 {
        match change {
            1 => add("file-new-2", &noise(100_000)),
            2 => add("text", text(0..21_000).as_bytes()),
            _ => {}
        }
        let (read, len) = grow();
        // The text lies in a frame with noise.
        let share = if change == 2 { 12 } else { 20 };
        assert!(read * share <= len, "change {change}: {read} of {len}");
    }
}

/// An image of four snapshots: the tree, then another content and a name more, then no change, then
/// one more name. The first change of a table cuts it into pages that later snapshots share.
fn grown() -> &'static Path {
    static MADE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (source, path) = (folder.path().join("source"), folder.path().join("image.shale"));
        make(&source);
        let mut options = CreateOptions::default();
        options.build.level = 1;
        shale::create(&[Input::new(&source)], Output::Path(path.clone()), &options, &NoProgress)
            .unwrap();
        std::fs::write(source.join("dir-050/name-of-file-020"), "something else\n").unwrap();
        std::fs::write(source.join("dir-010/added"), "added\n").unwrap();
        append(&source, &path, "content");
        append(&source, &path, "nothing");
        let last = format!("dir-{:03}/one-more", DIRECTORIES - 1);
        std::fs::write(source.join(last), "one more\n").unwrap();
        append(&source, &path, "name");
        (folder, path)
    });
    path
}

/// Pages of all tables of a snapshot, without index pages.
fn pages(image: &Image, number: usize) -> u64 {
    let snapshot = &image.snapshots()[number];
    snapshot.inodes.page_count + snapshot.entries.page_count + snapshot.directories.page_count
}

#[test]
fn a_difference_of_snapshots_reads_the_pages_that_they_do_not_share() {
    let path = grown();
    let image = Image::open_path(path).unwrap();
    let [all, first] = [1, 0].map(|number| pages(&image, number));
    let compare = |one: usize, other: usize| {
        // A new reader, whose cache is empty.
        let image = Image::open_path(path).unwrap();
        let side = |number| Side::Snapshot(image.tree(&SnapshotChoice::Index(number)).unwrap());
        let (changes, report) = diff(&side(one), &side(other), &DiffOptions::default()).unwrap();
        let entries = image.tree(&SnapshotChoice::Index(one)).unwrap().entry_count();
        assert_eq!(report.old_entries, entries);
        let cost = image.counters().snapshot();
        assert_eq!(cost.frames_decoded, 0);
        println!("{one} to {other}: {} pages of {all}, {} hits", cost.pages_read, cost.page_hits);
        (changes.len(), cost.pages_read, cost.page_hits)
    };
    // What a comparison costs that enters every directory: two images know nothing of each other.
    let full = {
        let images = [(); 2].map(|()| Image::open_path(path).unwrap());
        let side =
            |image: &Arc<Image>| Side::Snapshot(image.tree(&SnapshotChoice::Newest).unwrap());
        diff(&side(&images[0]), &side(&images[1]), &DiffOptions::default()).unwrap();
        images.iter().map(|image| image.counters().snapshot().page_hits).sum::<u64>()
    };
    println!("a full comparison: {full} hits");
    let (changes, pages, hits) = compare(1, 2);
    assert_eq!(changes, 0);
    assert!(hits * 20 < full, "{hits} hits, {full} for all");
    assert!(pages <= 2 * all, "{pages} of {all} pages");
    // The file, the name and the time of its directory. The first append cuts the tree into pages
    // that later ones share, so nearly all differ.
    let (changes, pages, _) = compare(0, 1);
    assert_eq!(changes, 3);
    // A page that patches an earlier one needs that, and the pages that this one patches.
    let most = 2 * (first + all) + OTHER_PAGES;
    assert!(pages <= most, "{pages} of {first} and {all} pages");
    // The file and the time of its directory.
    let (changes, pages, hits) = compare(2, 3);
    assert_eq!(changes, 2);
    assert!(pages <= all + OTHER_PAGES, "{pages} of {all} pages in each");
    assert!(hits * 10 < full, "{hits} hits, {full} for all");
    // What is found is what a full comparison finds: two images know nothing of each other.
    let again = Image::open_path(path).unwrap();
    for (one, other) in [(0, 1), (1, 2), (0, 3), (3, 0)] {
        let side = |image: &Arc<Image>, number| {
            Side::Snapshot(image.tree(&SnapshotChoice::Index(number)).unwrap())
        };
        let options = DiffOptions::default();
        let quick = diff(&side(&image, one), &side(&image, other), &options).unwrap();
        let full = diff(&side(&image, one), &side(&again, other), &options).unwrap();
        assert_eq!(quick.0, full.0, "{one} and {other}");
        assert_eq!(
            (quick.1.old_entries, quick.1.new_entries),
            (full.1.old_entries, full.1.new_entries)
        );
    }
}

#[test]
fn a_search_decodes_each_frame_once() {
    // Room for a few frames only.
    let options = || Options::default().cache_bytes_max(4 << 20);
    let source = shale::read::FileSource::open(grown()).unwrap();
    let image = Image::open(Arc::new(source), options()).unwrap();
    let tree = image.tree(&SnapshotChoice::Newest).unwrap();
    let mut files = Vec::new();
    let mut walk = tree.walk(tree.root_inode()).unwrap();
    while let Some(step) = walk.advance().unwrap() {
        files.push((step.path.to_vec(), step.attributes));
    }
    assert_eq!(image.counters().snapshot().frames_decoded, 0, "a walk decodes no frame");
    // In the order of names, which is not that of contents.
    files.sort_by(|one, other| other.0.cmp(&one.0));
    for threads in [1, 2] {
        let before = image.counters().snapshot();
        let mut lines = 0;
        let mut how = GrepOptions::default();
        how.threads = threads;
        let report = grep(&tree, &files, "directory 77", &how, &mut |_, found| {
            lines += found.expect("it can be read").len();
            Ok(())
        });
        assert_eq!(report.unwrap().errors, 0);
        assert_eq!(lines, FILES);
        let cost = image.counters().snapshot().since(&before);
        assert!(cost.frames_decoded <= image.frame_count(), "{cost:?}");
        image.clear_caches();
    }
}

#[test]
fn all_snapshots_are_walked_at_the_price_of_the_pages_that_differ() {
    let image = Image::open_path(grown()).unwrap();
    let mut costs = Vec::new();
    let mut entries = 0;
    for number in 0..image.snapshots().len() {
        let before = image.counters().snapshot().pages_read;
        let tree = image.tree(&SnapshotChoice::Index(number)).unwrap();
        let mut walk = tree.walk(tree.root_inode()).unwrap();
        while walk.advance().unwrap().is_some() {
            entries += 1;
        }
        costs.push(image.counters().snapshot().pages_read - before);
    }
    assert_eq!(entries, 4 * (DIRECTORIES * FILES + DIRECTORIES + 1) + 1 + 1 + 2);
    println!("pages read: {costs:?}; {} in a snapshot", pages(&image, 1));
    // Without a change: at most the dictionaries of the tables, which are read once for each.
    assert!(costs[2] <= 4, "{costs:?}");
    assert!(costs[1] <= pages(&image, 1) + OTHER_PAGES, "{costs:?}");
    // A page of a later tree may need an earlier one as its prefix.
    assert!(costs[3] * 5 < costs[1] * 3, "{costs:?}");
}
