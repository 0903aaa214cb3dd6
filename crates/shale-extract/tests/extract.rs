//! Extraction under hostile conditions that the command's tests do not reach: batches, deep trees,
//! failing sources, and a target that changes meanwhile.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use shale_extract::{Error, ExtractOptions, Overwrite, Owner, extract};
use shale_host::NoProgress;
use shale_model::Patterns;
use shale_read::{ByteSource, Image, MemorySource, Options, SnapshotChoice, Tree};
use shale_source::{DirectorySource, ManifestSource, ScanOptions};
use shale_write::NoProgress as NoBuildProgress;

fn image_of(source: &Path) -> Vec<u8> {
    let mut tree =
        DirectorySource::open(source, &ScanOptions::default(), &NoBuildProgress).unwrap();
    let mut image = Vec::new();
    let options = shale_write::Options { level: 1, ..Default::default() };
    shale_write::create(&mut tree, &mut image, &options, &NoBuildProgress).unwrap();
    image
}

fn tree_in(source: Arc<dyn ByteSource>) -> Tree {
    let image = Image::open(source, Options::default()).unwrap();
    image.tree(&SnapshotChoice::Newest).unwrap()
}

fn tree_of(source: &Path) -> Tree {
    tree_in(Arc::new(MemorySource::new(image_of(source))))
}

#[test]
fn trees_deeper_than_a_path_may_be_long_come_out() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    // Made step by step: no single path is within the system's limit.
    let name = "d".repeat(200);
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
    let mode = rustix::fs::Mode::from_raw_mode(0o755);
    let mut at = rustix::fs::open(&source, flags, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..60 {
        rustix::fs::mkdirat(&at, &name, mode).unwrap();
        at = rustix::fs::openat(&at, &name, flags, rustix::fs::Mode::empty()).unwrap();
    }
    let wronly = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    let file = rustix::fs::openat(&at, "bottom", wronly, mode).unwrap();
    rustix::io::write(&file, b"deep").unwrap();
    rustix::fs::linkat(&at, "bottom", &at, "linked", rustix::fs::AtFlags::empty()).unwrap();

    let target = folder.path().join("target");
    let report =
        extract(&tree_of(&source), &target, &ExtractOptions::default(), &NoProgress).unwrap();
    assert_eq!((report.directories, report.files, report.hard_links), (60, 1, 1));
    let mut at = rustix::fs::open(&target, flags, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..60 {
        at = rustix::fs::openat(&at, &name, flags, rustix::fs::Mode::empty()).unwrap();
    }
    let found = rustix::fs::statat(&at, "bottom", rustix::fs::AtFlags::empty()).unwrap();
    assert_eq!((found.st_size, found.st_nlink), (4, 2));
    for top in [source, target] {
        // The library cannot remove what it cannot name either.
        assert!(std::process::Command::new("rm").arg("-rf").arg(top).status().unwrap().success());
    }
}

#[test]
fn a_target_that_changes_meanwhile_never_lets_anything_out() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    for d in 0..20 {
        fs::create_dir_all(source.join(format!("{d}/in"))).unwrap();
        for n in 0..40 {
            fs::write(source.join(format!("{d}/in/{n}")), format!("{d} {n}")).unwrap();
        }
    }
    let tree = tree_of(&source);
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let target = folder.path().join("target");
    let done = AtomicBool::new(false);
    let swaps = AtomicU64::new(0);
    std::thread::scope(|scope| {
        // Puts links out of the target in the place of its directories, and back.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for d in 0..20 {
                    let (there, away) = (target.join(format!("{d}")), target.join("away"));
                    if fs::rename(&there, &away).is_ok() {
                        let linked = symlink(&outside, &there).is_ok();
                        swaps.fetch_add(u64::from(linked), Ordering::Relaxed);
                        std::thread::yield_now();
                        if linked {
                            let _ = fs::remove_file(&there);
                        }
                        let _ = fs::rename(&away, &there);
                    }
                }
            }
        });
        for _ in 0..10 {
            let options = ExtractOptions::default().keep_going(true).overwrite(Overwrite::Always);
            // Whatever comes of it, nothing may come of it outside.
            let _ = extract(&tree, &target, &options, &NoProgress);
        }
        done.store(true, Ordering::Relaxed);
    });
    let leaked: Vec<PathBuf> = fs::read_dir(&outside).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(leaked.is_empty(), "{leaked:?}");
    assert!(swaps.into_inner() > 0, "nothing was ever swapped");
}

/// Fails every read from the `after`-th on.
struct Failing {
    inner: MemorySource,
    left: AtomicU64,
}

impl ByteSource for Failing {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        let left =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if left.is_err() {
            return Err(std::io::Error::other("the disk is gone"));
        }
        self.inner.read_at(offset, buf)
    }
}

#[test]
fn a_source_that_fails_at_any_read_leaves_only_whole_files() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir_all(source.join("d")).unwrap();
    let text = |n: u64| {
        let mut state = n + 1;
        (0..300_000u64)
            .map(|at| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(at);
                (state >> 33) as u8
            })
            .collect::<Vec<u8>>()
    };
    for n in 0..6 {
        fs::write(source.join(format!("d/{n}")), text(n)).unwrap();
    }
    let image = image_of(&source);
    let mut failures = 0;
    for after in 3..40 {
        let failing =
            Failing { inner: MemorySource::new(image.clone()), left: AtomicU64::new(after) };
        let Ok(opened) = Image::open(Arc::new(failing), Options::default()) else { continue };
        let Ok(tree) = opened.tree(&SnapshotChoice::Newest) else { continue };
        let target = folder.path().join(format!("target-{after}"));
        match extract(&tree, &target, &ExtractOptions::default(), &NoProgress) {
            Ok(report) => assert_eq!(report.files, 6),
            Err(error) => {
                assert!(error.to_string().contains("the disk is gone"), "{error}");
                failures += 1;
            }
        }
        for n in 0..6 {
            if let Ok(found) = fs::read(target.join(format!("d/{n}"))) {
                assert!(found == text(n), "file {n} of target {after} is not whole");
            }
        }
    }
    assert!(failures > 3, "only {failures} runs failed");
}

#[test]
fn frames_are_decoded_about_once_whatever_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    for n in 0..2000 {
        let directory = source.join(format!("{}", n % 13));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("{n}")), format!("{n} ").repeat(1000)).unwrap();
    }
    for threads in [1, 4] {
        let tree = tree_of(&source);
        let target = folder.path().join(format!("target-{threads}"));
        let options = ExtractOptions::default().threads(threads);
        let report = extract(&tree, &target, &options, &NoProgress).unwrap();
        assert_eq!(report.files, 2000);
        let decoded = tree.image().counters().snapshot().frames_decoded;
        assert_eq!(decoded, tree.image().frame_count(), "{threads} threads");
    }
}

#[test]
fn long_files_are_written_in_parts_and_come_out_whole() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    let long: Vec<u8> = (0..50_000_000u32).map(|n| (n / 1000 * 7 + n % 11) as u8).collect();
    fs::write(source.join("long"), &long).unwrap();
    fs::write(source.join("short"), "short").unwrap();
    let tree = tree_of(&source);
    for threads in [1, 3] {
        let target = folder.path().join(format!("target-{threads}"));
        let options = ExtractOptions::default().threads(threads);
        let report = extract(&tree, &target, &options, &NoProgress).unwrap();
        assert_eq!((report.files, report.file_bytes), (2, 50_000_005));
        assert!(fs::read(target.join("long")).unwrap() == long, "{threads} threads");
        let [before, after] = [&source, &target].map(|top| fs::metadata(top.join("long")).unwrap());
        assert_eq!(before.mtime_nsec(), after.mtime_nsec());
        assert_eq!(before.mode(), after.mode());
    }
    // Cut off in the middle, no half of it stays.
    let target = folder.path().join("cancelled");
    let options = ExtractOptions::default();
    struct Stop<'a>(&'a shale_host::Cancel);
    impl shale_host::Progress for Stop<'_> {
        fn done(&self, _items: u64, bytes: u64) {
            if bytes > 1 << 20 {
                self.0.cancel();
            }
        }
    }
    let error = extract(&tree, &target, &options, &Stop(&options.cancel)).unwrap_err();
    assert!(matches!(error, Error::Host(shale_host::Error::Cancelled)), "{error}");
    assert!(!target.join("long").exists());
}

#[test]
fn only_what_is_wanted_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir_all(source.join("wanted")).unwrap();
    fs::create_dir_all(source.join("other")).unwrap();
    for n in 0..200u32 {
        let noise: Vec<u8> = (0..20_000u32).map(|at| (at.wrapping_mul(n + 7) >> 5) as u8).collect();
        fs::write(source.join(format!("other/{n}")), noise).unwrap();
    }
    fs::write(source.join("wanted/a"), "a").unwrap();
    let tree = tree_of(&source);
    let options = ExtractOptions::default().patterns(Patterns::new(&["wanted/*"]).unwrap());
    let report = extract(&tree, &folder.path().join("target"), &options, &NoProgress).unwrap();
    assert_eq!((report.files, report.directories), (1, 1));
    assert!(tree.image().counters().snapshot().frames_decoded <= 1);
}

#[test]
fn every_name_of_a_damaged_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir_all(source.join("b")).unwrap();
    fs::write(source.join("first"), b"some text\n".repeat(2000)).unwrap();
    fs::hard_link(source.join("first"), source.join("b/second")).unwrap();
    fs::hard_link(source.join("first"), source.join("third")).unwrap();
    let mut bytes = image_of(&source);
    // The first frame follows the superblock and the header of its section.
    bytes[64 + 64 + 20] ^= 1;
    let tree = tree_in(Arc::new(MemorySource::new(bytes)));
    let target = folder.path().join("target");
    let options = ExtractOptions::default().keep_going(true);
    let report = extract(&tree, &target, &options, &NoProgress).unwrap();
    let mut named: Vec<_> = report.problems.iter().map(|problem| &problem.path[..]).collect();
    named.sort_unstable();
    assert_eq!(named, [&b"b/second"[..], b"first", b"third"]);
}

#[test]
fn set_id_bits_are_not_given_to_files_whose_owner_cannot_be_set() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root sets owners");
    }
    let folder = tempfile::tempdir().unwrap();
    let none = u32::MAX;
    let text = format!(
        "f 6755 {none} 7 0 0 no-user\nf 6755 7 {none} 0 0 no-group\n\
         f 6755 {none} {none} 0 0 neither\nf 6755 7 7 0 0 both\nd 6755 {none} {none} 0 - dir\n"
    );
    let text = Box::new(std::io::Cursor::new(text.into_bytes()));
    let mut manifest = ManifestSource::open(text, b"a test", folder.path().into()).unwrap();
    let mut image = Vec::new();
    let options = shale_write::Options { level: 1, ..Default::default() };
    shale_write::create(&mut manifest, &mut image, &options, &NoBuildProgress).unwrap();
    let tree = tree_in(Arc::new(MemorySource::new(image)));
    for owner in [Owner::Auto, Owner::Stored] {
        let target = folder.path().join(format!("{owner:?}"));
        let options = ExtractOptions::default().owner(owner);
        let report = extract(&tree, &target, &options, &NoProgress).unwrap();
        assert_eq!(report.set_id_left_out, 3, "{owner:?}");
        for (name, mode, uid, gid) in [
            ("no-user", 0o2755, 0, 7),
            ("no-group", 0o4755, 7, 0),
            ("neither", 0o755, 0, 0),
            ("both", 0o6755, 7, 7),
        ] {
            let found = fs::metadata(target.join(name)).unwrap();
            let found = (found.mode() & 0o7777, found.uid(), found.gid());
            assert_eq!(found, (mode, uid, gid), "{owner:?} {name}");
        }
    }
}

/// What `getfacl` would show: the access control lists of a path, empty where it has none.
fn acls(path: &Path) -> [Vec<u8>; 2] {
    ["system.posix_acl_access", "system.posix_acl_default"].map(|name| {
        let mut value = vec![0; 256];
        match rustix::fs::lgetxattr(path, name, &mut value[..]) {
            Ok(len) => value[..len].to_vec(),
            Err(_) => Vec::new(),
        }
    })
}

#[test]
fn no_list_of_rights_is_inherited_from_any_directory_of_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    for directory in ["a/there/new", "b"] {
        fs::create_dir_all(source.join(directory)).unwrap();
        fs::write(source.join(directory).join("file"), "text").unwrap();
        fs::write(source.join(directory).join("more"), vec![7; 40 << 20]).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let (at, mode) = (source.join(directory).join("fifo"), rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, at, fifo, mode, 0).unwrap();
    }
    fs::write(source.join("a/there/file"), "text").unwrap();
    let tree = tree_of(&source);
    // Reading, writing and searching for user 1 and nobody else: a version, then tag, rights, id.
    let entry = |tag: u16, rights: u16, id: u32| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    let list = [
        2u32.to_le_bytes().to_vec(),
        entry(1, 7, none),
        entry(2, 7, 1),
        entry(4, 0, none),
        entry(16, 7, none),
        entry(32, 0, none),
    ]
    .concat();
    for inner in ["", "a", "a/there"] {
        let target = folder.path().join("target");
        fs::create_dir_all(target.join(inner)).unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        let name = "system.posix_acl_default";
        if rustix::fs::setxattr(target.join(inner), name, &list, flags).is_err() {
            println!("skipped: no access control lists here");
            return;
        }
        let report = extract(&tree, &target, &ExtractOptions::default(), &NoProgress).unwrap();
        assert_eq!(report.problem_count, 0, "{:?}", report.problems);
        let mut waiting = vec![target.clone()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let entry = entry.unwrap();
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                let shown = path.display();
                assert_eq!(acls(&path), [[0_u8; 0]; 2], "{shown}, with the list on `{inner}`");
                let as_made = source.join(path.strip_prefix(&target).unwrap());
                assert_eq!(entry.metadata().unwrap().mode(), as_made.metadata().unwrap().mode());
                if kind.is_dir() {
                    waiting.push(path);
                }
            }
        }
        fs::remove_dir_all(&target).unwrap();
    }
}
