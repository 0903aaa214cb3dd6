//! Promise: many readers at once see what one reader sees. Threads list, look up, read links and
//! read random ranges of a mount, each compared with the source at once; caches are dropped in
//! between where the user may.

use rustix::fs::{AtFlags, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::pread;
use shale_tests::command::{Mount, can_mount, create};
use shale_tests::manifest::{Manifest, Record};
use shale_tests::model::{make, open_parent};
use shale_tests::nasty::{Options, tree};
use shale_tests::places;
use shale_tests::random::Random;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

const THREADS: u64 = 4;
const STEPS: usize = 4000;

#[test]
fn many_readers_see_what_one_sees() {
    if !can_mount() {
        return;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let mut options = Options::everything(8);
    options.large_directory = 400;
    make(&tree(options), &source, 8).unwrap();
    let manifest = Manifest::of(&source).unwrap();
    let image = folder.path().join("image.shale");
    create(&source, &image, &[]);
    let mount = Mount::new(&image, &folder.path().join("mount"), &[]);
    std::thread::scope(|scope| {
        for seed in 0..THREADS {
            let (manifest, source, mount) = (&manifest, &source, mount.path());
            scope.spawn(move || reader(seed, manifest, source, mount));
        }
    });
    mount.end();
}

fn reader(seed: u64, manifest: &Manifest, source: &Path, mount: &Path) {
    let mut random = Random::new(seed);
    let entries: Vec<(&Vec<u8>, &Record)> = manifest.records.iter().collect();
    let source = File::open(source).unwrap();
    let mount = File::open(mount).unwrap();
    for step in 0..STEPS {
        // Most steps go to a few hundred neighbours, as programs do; some anywhere.
        let near = random.below(300) as usize + seed as usize * 37;
        let any = random.below(entries.len() as u64) as usize;
        let (path, record) = entries[if step % 4 == 0 { any } else { near % entries.len() }];
        let what = || format!("thread {seed} step {step}: {}", path.escape_ascii());
        let (folder, name) = open_parent(mount.as_fd(), path).unwrap();
        let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        assert_eq!(stat.st_mode & 0o7777, record.mode, "{}", what());
        assert_eq!((stat.st_mtime, stat.st_mtime_nsec as u32), record.mtime, "{}", what());
        match record.kind {
            'l' => {
                let target = readlinkat(&folder, name, Vec::new()).unwrap();
                assert_eq!(target.as_bytes(), record.content, "{}", what());
            }
            'd' => assert_eq!(names(&folder, name), names_in(manifest, path), "{}", what()),
            '-' if record.len > 0 => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let copy = openat(&folder, name, flags, Mode::empty()).unwrap();
                let (folder, name) = open_parent(source.as_fd(), path).unwrap();
                let original = openat(&folder, name, flags, Mode::empty()).unwrap();
                let at = random.below(record.len);
                let len = 1 + random.below(200_000) as usize;
                let (mut expected, mut found) = (vec![0; len], vec![0; len]);
                let expected_len = pread(&original, &mut expected, at).unwrap();
                let found_len = pread(&copy, &mut found, at).unwrap();
                assert_eq!(found_len, expected_len, "{} at {at}", what());
                assert!(found == expected, "{}: {len} bytes at {at} differ", what());
            }
            _ => {}
        }
        if seed == 0 && step % 1000 == 999 {
            // Only root may; for others the kernel keeps what it has.
            let _ = std::fs::write("/proc/sys/vm/drop_caches", "2");
        }
    }
}

fn names(folder: impl AsFd, name: &std::ffi::OsStr) -> BTreeSet<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = openat(folder, name, flags, Mode::empty()).unwrap();
    let entries = rustix::fs::Dir::read_from(&open).unwrap();
    let mut names: Vec<Vec<u8>> =
        entries.map(|entry| entry.unwrap().file_name().to_bytes().to_vec()).collect();
    names.retain(|name| name != b"." && name != b"..");
    let count = names.len();
    let names: BTreeSet<Vec<u8>> = names.into_iter().collect();
    assert_eq!(names.len(), count, "a name is listed twice");
    names
}

/// The names in a folder by the manifest.
fn names_in(manifest: &Manifest, folder: &[u8]) -> BTreeSet<Vec<u8>> {
    let prefix = if folder.is_empty() { Vec::new() } else { [folder, b"/"].concat() };
    let inside =
        manifest.records.range(prefix.clone()..).take_while(|(p, _)| p.starts_with(&prefix));
    let names = inside.map(|(path, _)| path[prefix.len()..].to_vec());
    names.filter(|name| !name.is_empty() && !name.contains(&b'/')).collect()
}
