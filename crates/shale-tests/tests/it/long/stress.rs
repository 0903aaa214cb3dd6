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
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const THREADS: u64 = 4;
const STEPS: usize = 4000;
/// Mounts that are made and taken away, unless a time is asked for.
const MOUNTS: u64 = 4;
/// Questions of each process to a mount.
const QUESTIONS: u64 = 10_000;
/// Files that are mapped or opened by handle in a mount.
const FILES_MAPPED: u64 = 4000;

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

/// Both views in turn, each mounted, asked by processes, compared with the source and taken away
/// under open files, again and again. By hand an hour, and on any tree:
/// `STRESS_SECONDS=3600 STRESS_TREE=/usr cargo test --release -p shale-tests --test it stress`.
#[test]
fn processes_that_ask_anything_get_the_answers_of_the_source() {
    if !can_mount() {
        return;
    }
    let seconds = std::env::var("STRESS_SECONDS").ok();
    let seconds: Option<u64> = seconds.map(|text| text.parse().expect("a number of seconds"));
    let folder = places::disk();
    let source = match std::env::var_os("STRESS_TREE") {
        Some(tree) => PathBuf::from(tree),
        None => {
            let source = folder.path().join("source");
            std::fs::create_dir(&source).unwrap();
            let mut options = Options::for_other_programs(9);
            options.large_directory = 1500;
            make(&tree(options), &source, 9).unwrap();
            source
        }
    };
    let image = folder.path().join("image.shale");
    create(&source, &image, &[]);
    let point = folder.path().join("mount");
    let begun = Instant::now();
    let amounts = match seconds {
        Some(seconds) => [(); 2].map(|()| format!("{}s", (seconds / MOUNTS).clamp(1, 60))),
        None => [QUESTIONS, FILES_MAPPED].map(|count| count.to_string()),
    };
    let mut seed = 100;
    let mut left: Option<OpenFiles> = None;
    let views = if kernel_view_works(&image, &point) { &["fuse", "kernel"][..] } else { &["fuse"] };
    // A cache that is far too small, so that everything is evicted and decoded again.
    for (cycle, view) in (1..).zip(views.iter().cycle()) {
        let words = ["--view", view, "-o", "dev,suid,cache=4M,prefetch=1M,idle=1"];
        let mount = Mount::new(&image, &point, &words);
        // Of the mount before, which nobody can see any more, while the next one works.
        if let Some(open) = left.take() {
            open.compare();
        }
        ask_both_ways(&source, &point, &amounts, seed, view);
        seed += 10;
        left = Some(OpenFiles::of(&source, &point, seed));
        let lazily = ["umount".as_ref(), "--lazy".as_ref(), point.as_os_str()];
        shale_tests::command::run(lazily);
        drop(mount);
        if seconds.map_or(cycle == MOUNTS, |seconds| begun.elapsed().as_secs() >= seconds) {
            break;
        }
    }
    left.take().expect("there was a mount").compare();
    println!("{} mounts in {:.0} s", (seed - 100) / 10, begun.elapsed().as_secs_f64());
}

/// Whether the kernel can show this image here; says why not.
fn kernel_view_works(image: &Path, point: &Path) -> bool {
    std::fs::create_dir_all(point).unwrap();
    let mut command = shale_tests::command::shale(["mount", "--view", "kernel"]);
    let log = point.with_extension("log");
    command.arg(image).arg(point).stderr(File::create(&log).unwrap());
    if command.status().unwrap().success() {
        Mount::adopt(point).end();
        return true;
    }
    println!("skipped: {}", std::fs::read_to_string(&log).unwrap());
    false
}

/// Runs the tools, each with its amount: processes that ask anything, and one that maps files.
fn ask_both_ways(source: &Path, point: &Path, amounts: &[String; 2], seed: u64, view: &str) {
    let mut stress = Command::new(env!("CARGO_BIN_EXE_shale-stress"));
    stress.arg(source).arg(point).args([&amounts[0], "3", &seed.to_string()]);
    let mapped = mapped(source, point, &amounts[1], seed + 5);
    std::thread::scope(|scope| {
        for mut command in [stress, mapped] {
            scope.spawn(move || {
                let output = shale_tests::command::expect_code(&mut command, 0);
                print!("{view}: {}", String::from_utf8_lossy(&output.stdout));
            });
        }
    });
}

/// The tool that maps files and opens them by handle.
fn mapped(source: &Path, copy: &Path, amount: &str, seed: u64) -> Command {
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/mapped.py"));
    command.arg(source).arg(copy).args([amount, &seed.to_string()]);
    command
}

/// Files of a mount that stay open while it is taken away, and their originals.
struct OpenFiles(Vec<(PathBuf, File, File)>);

impl OpenFiles {
    /// Some files, chosen by chance.
    fn of(source: &Path, mount: &Path, seed: u64) -> Self {
        let manifest: Vec<PathBuf> = files_below(source);
        let mut random = Random::new(seed);
        let pick = |_| manifest[random.below(manifest.len() as u64) as usize].clone();
        let pairs = std::iter::repeat_n((), 8).map(pick).map(|path| {
            let original = File::open(source.join(&path)).unwrap();
            let copy = File::open(mount.join(&path)).unwrap();
            (path, original, copy)
        });
        Self(pairs.collect())
    }

    /// Compares each with its original.
    fn compare(self) {
        for (path, original, copy) in self.0 {
            for step in 0..64 {
                let (mut expected, mut found) = (vec![0; 100_000], vec![0; 100_000]);
                let at = step * 100_000;
                let expected_len = pread(&original, &mut expected, at).unwrap();
                let found_len = pread(&copy, &mut found, at).unwrap();
                assert_eq!(found_len, expected_len, "{} at {at}", path.display());
                assert!(found == expected, "{} at {at}, unmounted", path.display());
            }
        }
    }
}

/// Regular files below a folder, as paths from it, in a fixed order.
fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::new()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(path),
                // What a path can say; deeper ones are for the tools.
                kind if kind.is_file() && root.join(&path).as_os_str().len() < 2000 => {
                    files.push(path);
                }
                _ => {}
            }
        }
        folders.retain(|folder| root.join(folder).as_os_str().len() < 2000);
    }
    files.sort();
    files
}

/// The tool above is worth nothing if it cannot find a difference: one byte, one mode, one name.
#[test]
fn a_wrong_answer_is_found() {
    use std::os::unix::fs::PermissionsExt;
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    for n in 0..4 {
        std::fs::write(source.join(format!("file-{n}")), vec![n; 20_000]).unwrap();
    }
    for (number, what) in ["byte", "mode", "name", "nothing"].into_iter().enumerate() {
        let copy = folder.path().join(what);
        let mut cp = std::process::Command::new("cp");
        shale_tests::command::expect_code(cp.arg("-a").arg(&source).arg(&copy), 0);
        let file = copy.join("file-2");
        match what {
            "byte" => {
                let times = std::fs::metadata(&file).unwrap().modified().unwrap();
                let mut bytes = std::fs::read(&file).unwrap();
                bytes[12_345] ^= 1;
                std::fs::write(&file, bytes).unwrap();
                File::options().write(true).open(&file).unwrap().set_modified(times).unwrap();
            }
            "mode" => {
                let mode = std::fs::Permissions::from_mode(0o604);
                std::fs::set_permissions(&file, mode).unwrap();
            }
            "name" => std::fs::write(copy.join("file-4"), "").unwrap(),
            _ => {}
        }
        let mut stress = std::process::Command::new(env!("CARGO_BIN_EXE_shale-stress"));
        stress.arg(&source).arg(&copy).args(["20000", "1", &number.to_string()]);
        let code = i32::from(what != "nothing");
        let output = shale_tests::command::expect_code(&mut stress, code);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(code == 0 || said.contains(&format!("seed {number}")), "{said}");
        if matches!(what, "byte" | "nothing") {
            let output =
                shale_tests::command::expect_code(&mut mapped(&source, &copy, "2000", 1), code);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(code == 0 || said.contains("file-2"), "{said}");
        }
    }
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
