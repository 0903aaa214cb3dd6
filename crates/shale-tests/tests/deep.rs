//! Promise: a deep path costs what its bytes cost. Reading an image is linear in the depth of a
//! tree; packing and writing it out is linear in the bytes of all its paths, because every
//! directory has one. The memory of a build has a bound.
//!
//! Work is counted as bytes that are allocated, by this process alone: a copy of a path, a list of
//! its names and a buffer for it all count, and no clock is asked. Costs at three depths are
//! compared by their differences, so that constants do not count.

// An allocator cannot be written without it.
#![allow(unsafe_code)]

use shale::read::{Image, MemorySource, Options as ReadOptions, SnapshotChoice, Tree};
use shale::{
    CheckOptions, CreateOptions, ExportFormat, ExportOptions, ExtractOptions, NoProgress, Output,
    check, create, export, extract,
};
use shale_tests::places;
use shale_tests::tar::Tar;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that were ever allocated, that are now, and the most of these since the last reset.
static ALL: AtomicU64 = AtomicU64::new(0);
static NOW: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

fn count(more: usize, less: usize) {
    ALL.fetch_add(more as u64, Relaxed);
    let change = more as i64 - less as i64;
    PEAK.fetch_max(NOW.fetch_add(change, Relaxed) + change, Relaxed);
}

// SAFETY: the allocator of the system does everything; this only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller promises what the system asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count(len, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, len) }
    }
}

/// What an action took.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Bytes that were allocated.
    work: u64,
    /// The most that it held at once.
    peak: u64,
}

/// One test at a time: all counts are those of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cost<T>(what: impl FnOnce() -> T) -> (T, Cost) {
    let (all, now) = (ALL.load(Relaxed), NOW.load(Relaxed));
    PEAK.store(now, Relaxed);
    let given = what();
    let work = ALL.load(Relaxed) - all;
    (given, Cost { work, peak: (PEAK.load(Relaxed) - now).max(0) as u64 })
}

/// How work grows with the depth.
#[derive(Clone, Copy)]
enum Growth {
    /// With the depth: twice the depth costs twice as much.
    Depth,
    /// With the bytes of the paths of all directories: twice the depth, four times the bytes.
    Paths,
}

/// Differences below this may be those of threads and buffers.
const NOISE: u64 = 1 << 20;

/// Checks that work at depths that double grows as it may.
#[track_caller]
fn expect(growth: Growth, what: &str, costs: [Cost; 3]) {
    println!("{what}: {costs:?}");
    let [small, middle, large] = costs.map(|cost| cost.work);
    let factor = match growth {
        Growth::Depth => 2,
        Growth::Paths => 4,
    };
    let (first, second) = (middle.saturating_sub(small), large.saturating_sub(middle));
    // A quarter more for what a buffer that doubles leaves empty.
    let most = factor * first + factor * first / 4 + NOISE;
    assert!(second <= most, "{what}: {second} bytes more after {first}, {most} allowed");
}

const DEPTHS: [usize; 3] = [2000, 4000, 8000];

/// Directories in each other, and a file in the last one.
fn path(depth: usize) -> String {
    "d/".repeat(depth) + "f"
}

/// A zip archive of one stored file.
fn zip(path: &str) -> Vec<u8> {
    // CRC-32 of the one byte.
    let crc = 0x8cdc_1683_u32.to_le_bytes();
    let lens = [1u32.to_le_bytes(), 1u32.to_le_bytes()].concat();
    let name_len = (path.len() as u16).to_le_bytes();
    let head = [&[0; 4][..], &[0, 0, 0x21, 0], &crc, &lens, &name_len, &[0; 2]].concat();
    let local = [b"PK\x03\x04\x14\0", &head[..], path.as_bytes(), b"x"].concat();
    let attributes = (0o100_644u32 << 16).to_le_bytes();
    let record =
        [b"PK\x01\x02\x14\x03\x14\0", &head[..], &[0; 6], &attributes, &[0; 4], path.as_bytes()];
    let record = record.concat();
    let (record_len, start) = (record.len() as u32, local.len() as u32);
    let end = [
        b"PK\x05\x06\0\0\0\0\x01\0\x01\0",
        &record_len.to_le_bytes()[..],
        &start.to_le_bytes(),
        &[0; 2],
    ];
    [local, record, end.concat()].concat()
}

/// A tar archive of one file.
fn tar(path: &str) -> Vec<u8> {
    Tar::default().records(&[("path", path.as_bytes())]).entry("x", b'0', b"x").bytes()
}

fn pack(source: &Path, image: &Path) -> Cost {
    let build = shale::write::Options { level: 1, threads: 1, ..Default::default() };
    let options = CreateOptions::default().build(build).overwrite(true);
    let output = Output::Path(image.to_owned());
    let (report, cost) = cost(|| create(&[source.into()], output, &options, &NoProgress));
    report.unwrap();
    cost
}

/// Packs the bytes of an archive.
fn pack_bytes(folder: &Path, bytes: &[u8]) -> Cost {
    fs::write(folder.join("archive"), bytes).unwrap();
    pack(&folder.join("archive"), &folder.join("image"))
}

fn tree(image: &[u8]) -> Tree {
    let source = Arc::new(MemorySource::new(image));
    let image = Image::open(source, ReadOptions::default()).unwrap();
    image.tree(&SnapshotChoice::Newest).unwrap()
}

/// The image of one deep file.
fn image(folder: &Path, depth: usize) -> Vec<u8> {
    pack_bytes(folder, &zip(&path(depth)));
    fs::read(folder.join("image")).unwrap()
}

#[test]
fn reading_is_linear_in_the_depth() {
    let _alone = alone();
    let folder = places::disk();
    let images = DEPTHS.map(|depth| image(folder.path(), depth));
    // The table of entries is as long as the tree is deep, and nothing is there for each path.
    assert!(images[2].len() < 64 << 10, "{} bytes", images[2].len());
    let costs = images.each_ref().map(|image| {
        cost(|| {
            let report = check(
                Arc::new(MemorySource::new(&image[..])),
                &CheckOptions::default(),
                &NoProgress,
            );
            assert!(report.unwrap().is_clean());
        })
        .1
    });
    expect(Growth::Depth, "check", costs);
    let costs = [0, 1, 2].map(|which| {
        cost(|| {
            let tree = tree(&images[which]);
            let mut walk = tree.walk(tree.root_inode()).unwrap();
            let mut count = 0;
            while let Some(step) = walk.advance().unwrap() {
                assert_eq!(step.depth, count);
                count += 1;
            }
            assert_eq!(count, DEPTHS[which] + 2);
        })
        .1
    });
    expect(Growth::Depth, "walk", costs);
    // As a mount sees it: a name at a time, and each directory listed.
    let costs = [0, 1, 2].map(|which| {
        cost(|| {
            let tree = tree(&images[which]);
            let mut inode = tree.root_inode();
            for _ in 0..DEPTHS[which] {
                let mut names = 0;
                tree.list_attributes(inode, 0, |_, _| {
                    names += 1;
                    true
                })
                .unwrap();
                assert_eq!(names, 1);
                inode = tree.lookup(inode, b"d").unwrap().unwrap();
            }
            let file = tree.lookup(inode, b"f").unwrap().unwrap();
            assert_eq!(tree.attributes(file).unwrap().size, 1);
        })
        .1
    });
    expect(Growth::Depth, "look up", costs);
    for cost in costs {
        assert!(cost.peak < 16 << 20, "{cost:?}");
    }
}

#[test]
fn packing_is_linear_in_the_bytes_of_paths_and_bounded_in_memory() {
    let _alone = alone();
    let folder = places::disk();
    let of = |bytes: fn(&str) -> Vec<u8>| {
        DEPTHS.map(|depth| pack_bytes(folder.path(), &bytes(&path(depth))))
    };
    for (what, costs) in [("zip in", of(zip)), ("tar in", of(tar))] {
        expect(Growth::Paths, what, costs);
        assert!(costs[2].peak < costs[0].peak + (16 << 20), "{what}: {costs:?}");
    }
}

/// What `make check` has no time for.
mod long {
    use super::*;

    #[test]
    fn extraction_and_directories_in_are_linear_in_the_bytes_of_paths() {
        let _alone = alone();
        let Some(folder) = places::memory() else { return };
        let target = folder.path().join("target");
        let mut costs = Vec::new();
        for depth in DEPTHS {
            let tree = tree(&image(folder.path(), depth));
            let options = ExtractOptions::default().threads(1);
            let (report, out) = cost(|| extract(&tree, &target, &options, &NoProgress));
            let report = report.unwrap();
            assert_eq!((report.directories, report.files), (depth as u64, 1));
            let back = pack(&target, &folder.path().join("back"));
            // The standard library removes by recursion.
            let removed = std::process::Command::new("rm").arg("-rf").arg(&target).status();
            assert!(removed.unwrap().success());
            costs.push((out, back));
        }
        let [small, middle, large] = costs[..] else { panic!("three depths") };
        expect(Growth::Paths, "extract", [small.0, middle.0, large.0]);
        expect(Growth::Paths, "directory in", [small.1, middle.1, large.1]);
        assert!(large.0.peak < small.0.peak + (16 << 20), "extract: {costs:?}");
        assert!(large.1.peak < small.1.peak + (96 << 20), "directory in: {costs:?}");
    }

    #[test]
    fn every_format_is_linear_in_the_bytes_of_paths_both_ways() {
        let _alone = alone();
        let folder = places::disk();
        let archive = folder.path().join("archive");
        for (format, name, is_lean) in [
            (ExportFormat::Tar, "tar", true),
            (ExportFormat::Cpio, "cpio", true),
            (ExportFormat::Mtree, "mtree", true),
            (ExportFormat::Squashfs, "squashfs", true),
            (ExportFormat::Erofs, "erofs", true),
            (ExportFormat::Iso, "iso", true),
            // Their directories are at their end, with whole paths.
            (ExportFormat::Zip, "zip", false),
            (ExportFormat::Sevenz, "7z", false),
        ] {
            // 7z compresses its paths.
            let depths = if is_lean { DEPTHS } else { DEPTHS.map(|depth| depth / 4) };
            let mut costs = Vec::new();
            for depth in depths {
                let tree = tree(&image(folder.path(), depth));
                let options = ExportOptions::default().format(format).threads(1).overwrite(true);
                let output = Output::Path(archive.clone());
                let (report, out) = cost(|| export(&tree, output, &options, &NoProgress));
                report.unwrap();
                let back = match format {
                    ExportFormat::Mtree => out,
                    _ => pack(&archive, &folder.path().join("back")),
                };
                costs.push((out, back));
            }
            let [small, middle, large] = costs[..] else { panic!("three depths") };
            expect(Growth::Paths, &format!("{name} out"), [small.0, middle.0, large.0]);
            expect(Growth::Paths, &format!("{name} in"), [small.1, middle.1, large.1]);
            let most = small.0.peak + (24 << 20);
            assert!(large.0.peak < most || !is_lean, "{name}: {costs:?}");
        }
    }
}
