//! Promise: a source that fails, fails what needs it and nothing else, through the mount as well;
//! and when it is whole again, the same mount gives every answer.

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread};
use shale_fuse::{Mounted, Options, View, mount};
use shale_read::{FaultySource, Image, MemorySource, PieceKind, SnapshotChoice, Tree};
use shale_tests::command::{can_mount, create};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::tiny_tree;
use shale_tests::places;
use shale_tests::random::Random;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

type Source = Arc<FaultySource<MemorySource>>;

/// The image behind a source that can be spoilt, mounted at `point`; lines about errors go nowhere.
fn spoilable(image: &[u8], point: &Path) -> (Source, Tree, Mounted) {
    let source: Source = Arc::new(FaultySource::new(MemorySource::new(image)));
    let opened = Image::open(Arc::new(Arc::clone(&source)), shale_read::Options::default());
    let tree = opened.unwrap().tree(&SnapshotChoice::Newest).unwrap();
    std::fs::create_dir_all(point).unwrap();
    let options = Options { log: Arc::new(|_| ()), ..Options::default() };
    let view: Arc<dyn View> = Arc::new(tree.clone());
    let mounted = mount(view, point, &options).unwrap();
    (source, tree, mounted)
}

/// Looks at everything below `root`; returns what answered with an error.
fn look(root: &Path, expected: &Manifest) -> BTreeSet<Vec<u8>> {
    let mut failed = BTreeSet::new();
    for (path, record) in &expected.records {
        use std::os::unix::ffi::OsStrExt;
        let full = root.join(std::ffi::OsStr::from_bytes(path));
        let answer = match record.kind {
            'd' => std::fs::read_dir(&full).and_then(|list| {
                let names: Vec<_> = list.collect::<Result<_, _>>()?;
                Ok(names.len() as u64)
            }),
            '-' => std::fs::read(&full).map(|bytes| bytes.len() as u64),
            _ => std::fs::symlink_metadata(&full).map(|_| 0),
        };
        match answer {
            Ok(len) if record.kind == '-' => assert_eq!(len, record.len, "{}", full.display()),
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{error}");
                failed.insert(path.clone());
            }
        }
    }
    failed
}

#[test]
fn each_read_that_fails_is_an_error_once_and_then_forgotten() {
    if !can_mount() {
        return;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    make(&tiny_tree(6), &source, 6).unwrap();
    let expected = Manifest::of(&source).unwrap();
    let path = folder.path().join("tiny.shale");
    create(&source, &path, &[]);
    let image = std::fs::read(&path).unwrap();
    let point = folder.path().join("mount");
    let mut failures = 0;
    let mut n = 0;
    loop {
        let (source, _, mut mounted) = spoilable(&image, &point);
        let begun = source.read_count();
        source.fail_read(begun + n);
        failures += look(&point, &expected).len();
        // The oracle asks for attributes, too, and gives up at the first error.
        failures += usize::from(Manifest::of(&point).is_err());
        let was_reached = source.read_count() > begun + n;
        // It failed once; what was asked for is there now, all of it and right.
        let found = Manifest::of(&point).unwrap();
        expected.assert_equals(&found, &format!("after read {n} had failed"));
        mounted.unmount(false).unwrap();
        if !was_reached {
            break;
        }
        n += 1;
    }
    assert!(n >= 5, "only {n} reads");
    assert!(failures > 0, "no failure was ever seen");
}

#[test]
fn damage_fails_its_own_range_and_heals() {
    if !can_mount() {
        return;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let expected = Random::new(11).bytes(4 << 20);
    std::fs::write(source.join("file"), &expected).unwrap();
    let path = folder.path().join("image.shale");
    create(&source, &path, &["--frame-size", "64K"]);
    let image = std::fs::read(&path).unwrap();
    let point = folder.path().join("mount");
    let (source, tree, mut mounted) = spoilable(&image, &point);
    let inode = tree.lookup_path(b"file").unwrap().unwrap();
    let pieces: Vec<_> = tree.pieces(inode, 0..u64::MAX).unwrap().map(Result::unwrap).collect();
    assert!(pieces.len() > 16, "{}", pieces.len());
    let file = File::open(point.join("file")).unwrap();
    // So that the kernel asks for what is read, and nothing beside it.
    fadvise(&file, 0, None, Advice::Random).unwrap();
    for broken in [0, 7, pieces.len() - 1] {
        let PieceKind::Frame { frame, .. } = pieces[broken].kind else { panic!("data") };
        let record = tree.image().frame_record(frame).unwrap();
        source.damage(record.stored_offset..record.stored_offset + record.stored_len, 0x40);
        tree.image().clear_caches();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        for (number, piece) in pieces.iter().enumerate() {
            // Pages that lie in this piece alone.
            let at = piece.offset.next_multiple_of(4096);
            let mut page = [0; 4096];
            if at + 4096 > piece.offset + piece.len {
                continue;
            }
            match pread(&file, &mut page, at) {
                Err(error) => assert_eq!((number, error), (broken, Errno::IO)),
                Ok(_) => {
                    assert_ne!(number, broken, "damage was not noticed");
                    assert!(page[..] == expected[at as usize..at as usize + 4096]);
                }
            }
        }
        source.heal();
        let mut found = vec![0; expected.len()];
        let mut at = 0;
        while at < found.len() {
            at += pread(&file, &mut found[at..], at as u64).unwrap();
        }
        assert!(found == expected, "not whole after healing");
    }
    drop(file);
    mounted.unmount(false).unwrap();
}
