//! Promise: the kernel view is the same tree as the FUSE view and the source, by the same oracle;
//! and where the kernel's EROFS cannot show a tree, the reason is told and FUSE serves it.

use shale_tests::command::{Mount, can_mount, create, expect_code, is_mount, shale};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{Options, tiny_tree, tree};
use shale_tests::places;
use shale_tests::random::Random;
use shale_tests::wait;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Mounts as the kernel view, or says why that is not possible.
fn kernel_view(image: &Path, folder: &Path, more: &[&str]) -> Result<Mount, String> {
    std::fs::create_dir_all(folder).unwrap();
    let log = folder.with_extension("log");
    let mut command = shale(["mount".as_ref(), image.as_os_str(), folder.as_os_str()]);
    command.args(["--view", "kernel"]).args(more).stdout(Stdio::null());
    command.stderr(std::fs::File::create(&log).unwrap());
    let status = command.status().unwrap();
    let said = std::fs::read_to_string(&log).unwrap();
    if !status.success() {
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(!is_mount(folder), "a refused mount stays");
        assert!(said.contains("the kernel view is not possible"), "{said}");
        return Err(said);
    }
    assert!(is_mount(folder), "{said}");
    Ok(Mount::adopt(folder))
}

/// Whether this machine can, shown with a tree that EROFS can show.
fn able() -> bool {
    if !can_mount() {
        return false;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    make(&tiny_tree(3), &source, 3).unwrap();
    let image = folder.path().join("tiny.shale");
    create(&source, &image, &[]);
    match kernel_view(&image, &folder.path().join("mount"), &[]) {
        Ok(mount) => mount.end(),
        Err(reason) => {
            println!("skipped: {reason}");
            return false;
        }
    }
    true
}

/// Where the driver of this kernel view has its inner mount.
fn place_of(point: &Path) -> PathBuf {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table.lines().find(|line| line.split(' ').nth(1) == point.to_str()).unwrap();
    Path::new(line.split(' ').next().unwrap()).parent().unwrap().to_owned()
}

/// The process whose place this is.
fn process_of(place: &Path) -> String {
    place.file_name().unwrap().to_str().unwrap().split('-').next().unwrap().to_owned()
}

/// Waits until a driver has ended.
fn process_ends(process: &str) {
    wait::for_end(process.parse().expect("a process has a number"));
}

/// Waits until no inner mount of ours with this source is left.
fn inner_mounts_end(image: &Path) {
    let image = image.canonicalize().unwrap();
    wait::for_mounts("the mount below stays", || {
        let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
        !table.lines().any(|line| line.split(' ').next() == image.to_str())
    });
}

#[test]
fn the_kernel_view_of_the_nasty_tree_is_the_tree() {
    if !able() {
        return;
    }
    let mut shown = 0;
    for (place, folder) in places::all() {
        let source = folder.path().join("source");
        std::fs::create_dir(&source).unwrap();
        make(&tree(Options::everything(4)), &source, 4).unwrap();
        let expected = Manifest::of(&source).unwrap();
        let image = folder.path().join("nasty.shale");
        create(&source, &image, &[]);
        let point = folder.path().join("mount");
        match kernel_view(&image, &point, &["-o", "dev,suid"]) {
            Ok(mount) => {
                shown += 1;
                for _ in 0..2 {
                    let found = Manifest::of(mount.path()).unwrap();
                    expected.assert_equals(&found, &format!("kernel view, {place}"));
                    // And once more from the driver, not from what the kernel remembers.
                    let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
                }
                let stats = expect_code(&mut shale(["stats", point.to_str().unwrap()]), 0);
                assert!(String::from_utf8_lossy(&stats.stdout).contains("frames_decoded"));
                mount.end();
                inner_mounts_end(&image);
            }
            Err(reason) => {
                println!("{place}: {reason}");
                // In memory the tree has attributes of 64 KiB, one byte more than EROFS can count.
                assert!(reason.contains("EROFS"), "{reason}");
                let mount = Mount::new(&image, &point, &["--view", "auto"]);
                let found = Manifest::of(mount.path()).unwrap();
                expected.assert_equals(&found, &format!("fallback, {place}"));
                mount.end();
            }
        }
    }
    assert!(shown > 0, "no place has a tree that EROFS can show");
}

#[test]
fn what_erofs_cannot_show_is_told_and_served_by_fuse() {
    if !able() {
        return;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("file"), "text").unwrap();
    let file = std::fs::File::options().write(true).open(source.join("file")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let image = folder.path().join("times.shale");
    create(&source, &image, &["--keep-times", "atime,ctime"]);
    let point = folder.path().join("mount");
    let reason = kernel_view(&image, &point, &[]).unwrap_err();
    assert!(reason.contains("change times"), "{reason}");
    let mount = Mount::new(&image, &point, &["-o", "view=auto"]);
    assert_eq!(std::fs::read(mount.path().join("file")).unwrap(), b"text");
    mount.end();
}

/// An image of one file, `file` with `text`.
fn small_image(folder: &Path) -> PathBuf {
    let source = folder.join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("file"), "text").unwrap();
    let image = folder.join("small.shale");
    create(&source, &image, &[]);
    image
}

/// Kernels differ in what their EROFS makes of a file that it cannot read; ways around those that
/// make it zeroes are the driver's part.
#[test]
fn what_cannot_be_read_is_an_error_in_the_kernel_view_and_no_zeroes() {
    if !able() {
        return;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let expected = Random::new(11).bytes(4 << 20);
    std::fs::write(source.join("file"), &expected).unwrap();
    let image = folder.path().join("damaged.shale");
    create(&source, &image, &["-1"]);
    let mut bytes = std::fs::read(&image).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&image, bytes).unwrap();
    let mount = kernel_view(&image, &folder.path().join("mount"), &[]).unwrap();
    for len in [4 << 10, 64 << 10, 1 << 20, 4 << 20] {
        // Only root may; what failed is asked for again in any case.
        let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
        let file = std::fs::File::open(mount.path().join("file")).unwrap();
        let (mut buf, mut at, mut failed_count) = (vec![0; len], 0, 0);
        while at < expected.len() {
            match file.read_at(&mut buf, at as u64) {
                Ok(read) => {
                    assert!(read > 0 && buf[..read] == expected[at..at + read], "{len} at {at}");
                    at += read;
                }
                Err(_) => {
                    failed_count += 1;
                    at += 4 << 10;
                }
            }
        }
        assert!(failed_count > 0, "the damage was not met by reads of {len}");
    }
    mount.end();
}

#[test]
fn both_mounts_end_together_whoever_ends_one() {
    if !able() {
        return;
    }
    let folder = places::disk();
    let image = small_image(folder.path());
    let point = folder.path().join("mount");
    // By mount(8)'s counterpart, which knows nothing of the mount below.
    let mount = kernel_view(&image, &point, &["-o", "uid=7"]).unwrap();
    let owner = std::os::unix::fs::MetadataExt::uid(&point.join("file").metadata().unwrap());
    assert_eq!(owner, 7);
    expect_code(Command::new("umount").arg(&point), 0);
    inner_mounts_end(&image);
    drop(mount);
    // In use, it is refused, or goes on for those that have it open.
    let mount = kernel_view(&image, &point, &[]).unwrap();
    let open = std::fs::File::open(point.join("file")).unwrap();
    let words = ["umount", point.to_str().unwrap()];
    expect_code(&mut shale(words), 1);
    expect_code(shale(words).arg("--lazy"), 0);
    let text = std::io::read_to_string(&open).unwrap();
    assert_eq!(text, "text");
    drop(open);
    inner_mounts_end(&image);
    drop(mount);
    // A killed driver that was asked to leaves neither behind.
    let mount = kernel_view(&image, &point, &["-o", "auto_unmount"]).unwrap();
    let process = process_of(&place_of(&point));
    expect_code(Command::new("kill").args(["-9", &process]), 0);
    wait::for_mounts("a killed driver's mount stays", || !is_mount(&point));
    inner_mounts_end(&image);
    drop(mount);
}

#[test]
fn a_kernel_view_leaves_no_place_behind() {
    if !able() {
        return;
    }
    let folder = places::disk();
    let image = small_image(folder.path());
    let point = folder.path().join("mount");
    // Unmounted, by our own command and by another, and ended by a signal.
    for end in ["shale", "umount", "signal"] {
        let mount = kernel_view(&image, &point, &[]).unwrap();
        let place = place_of(&point);
        let process = process_of(&place);
        assert!(place.exists());
        match end {
            "shale" => expect_code(&mut shale(["umount", point.to_str().unwrap()]), 0),
            "umount" => expect_code(Command::new("umount").arg(&point), 0),
            _ => expect_code(Command::new("kill").arg(&process), 0),
        };
        process_ends(&process);
        assert!(!place.exists(), "{} stays after {end}", place.display());
        assert!(!is_mount(&point));
        drop(mount);
    }
    // What a killed driver leaves goes with the next mount, once nothing is mounted there.
    let mount = kernel_view(&image, &point, &[]).unwrap();
    let place = place_of(&point);
    let process = process_of(&place);
    expect_code(Command::new("kill").args(["-9", &process]), 0);
    process_ends(&process);
    expect_code(Command::new("umount").arg(&point), 0);
    drop(mount);
    let mount = kernel_view(&image, &point, &[]).unwrap();
    assert!(is_mount(&place), "what is mounted there was taken away");
    mount.end();
    expect_code(Command::new("umount").arg(&place), 0);
    let mount = kernel_view(&image, &point, &[]).unwrap();
    assert!(!place.exists(), "{} stays", place.display());
    mount.end();
}

#[test]
fn the_view_that_is_faster_is_taken_and_the_reason_told() {
    if !able() {
        return;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    for n in 0..100 {
        let below = source.join(format!("{n}"));
        std::fs::create_dir_all(&below).unwrap();
        (0..100).for_each(|m| std::fs::write(below.join(format!("{m}")), "small").unwrap());
    }
    let image = folder.path().join("many.shale");
    create(&source, &image, &["-1"]);
    let timed = folder.path().join("timed.shale");
    create(&source, &timed, &["-1", "--keep-times", "atime,ctime"]);
    let few = folder.path().join("few.shale");
    create(&source.join("7"), &few, &["-1"]);
    let point = folder.path().join("mount");
    for (image, option, view, reason) in [
        (&image, "allow_other", "view: kernel", ""),
        (&image, "ro", "view: fuse", "allow_other is not set"),
        (&few, "allow_other", "view: fuse", "fast in either view"),
        // Only the attempt shows that it is not possible.
        (&timed, "allow_other", "view: fuse", "change times"),
    ] {
        std::fs::create_dir_all(&point).unwrap();
        let log = folder.path().join("log");
        let mut command = shale(["mount", "-v", "--view", "auto", "-o", option]);
        command.arg(image).arg(&point).stdout(Stdio::null());
        let status = command.stderr(std::fs::File::create(&log).unwrap()).status().unwrap();
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(status.success(), "{said}");
        let mount = Mount::adopt(&point);
        assert!(said.contains(view) && said.contains(reason), "{said}");
        assert_eq!(reason.is_empty(), !said.contains("not the kernel view"), "{said}");
        let file = if image == &few { "9" } else { "7/9" };
        assert_eq!(std::fs::read(point.join(file)).unwrap(), b"small");
        mount.end();
        inner_mounts_end(image);
    }
}

/// What kernels before 6.12 have to do, on any kernel.
#[test]
fn the_kernel_view_through_a_loop_device_is_the_tree_and_ends_like_any_mount() {
    if !able() {
        return;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let mut options = Options::for_other_programs(6);
    options.large_directory = 300;
    make(&tree(options), &source, 6).unwrap();
    let expected = Manifest::of(&source).unwrap();
    let image = folder.path().join("image.shale");
    create(&source, &image, &[]);
    let point = folder.path().join("mount");
    let words = ["-v", "-o", "dev,suid,loop"];
    let mount = match kernel_view(&image, &point, &words) {
        Ok(mount) => mount,
        Err(reason) => return println!("skipped: no loop device here: {reason}"),
    };
    let said = std::fs::read_to_string(point.with_extension("log")).unwrap();
    assert!(said.contains("through a loop device"), "{said}");
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table.lines().find(|line| line.split(' ').nth(1) == point.to_str()).unwrap();
    assert!(line.starts_with("/dev/loop") && line.contains(" erofs "), "{line}");
    expected.assert_equals(&Manifest::of(mount.path()).unwrap(), "through a loop device");
    let stats = expect_code(&mut shale(["stats", point.to_str().unwrap()]), 0);
    assert!(String::from_utf8_lossy(&stats.stdout).contains("frames_decoded"));
    // It is known as ours: not mounted over, and unmounted by our own command.
    let again = ["mount".as_ref(), image.as_os_str(), point.as_os_str()];
    let refused = expect_code(&mut shale(again), 1);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("already mounted"));
    mount.end();
    inner_mounts_end(&image);
}

/// An overlay has handles of the files that it copied up, and tells by the UUID whose they are.
#[test]
fn a_kernel_view_has_the_uuid_of_its_image_and_no_others() {
    if !able() {
        return;
    }
    let folder = places::disk();
    let image = small_image(folder.path());
    std::fs::write(folder.path().join("source/file"), "other").unwrap();
    let other = folder.path().join("other.shale");
    create(&folder.path().join("source"), &other, &[]);
    let point = folder.path().join("mount");
    let uuid = |image: &Path| {
        let mount = kernel_view(image, &point, &[]).unwrap();
        let file = std::fs::File::open(place_of(&point).join("shale.erofs")).unwrap();
        let mut uuid = [0; 16];
        // Where EROFS has it in its superblock, at 1024.
        file.read_exact_at(&mut uuid, 1024 + 48).unwrap();
        drop(file);
        mount.end();
        uuid
    };
    let found = uuid(&image);
    assert_ne!(found, [0; 16]);
    assert_eq!(uuid(&image), found);
    assert_ne!(uuid(&other), found);
}

#[test]
fn an_overlay_over_the_kernel_view_takes_changes() {
    if !able() {
        return;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir_all(source.join("dir")).unwrap();
    std::fs::write(source.join("dir/old"), "old").unwrap();
    std::fs::write(source.join("dir/doomed"), "doomed").unwrap();
    let image = folder.path().join("small.shale");
    create(&source, &image, &[]);
    let point = folder.path().join("mount");
    let mount = kernel_view(&image, &point, &[]).unwrap();
    // The upper layer may not lie on an overlay itself, as temporary folders often do.
    let top = folder.path().join("top");
    std::fs::create_dir(&top).unwrap();
    expect_code(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&top), 0);
    for name in ["upper", "work", "merged"] {
        std::fs::create_dir(top.join(name)).unwrap();
    }
    let merged = top.join("merged");
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        point.display(),
        top.join("upper").display(),
        top.join("work").display()
    );
    let mut overlay = Command::new("mount");
    overlay.args(["-t", "overlay", "overlay", "-o", &options]).arg(&merged);
    let laid = overlay.output().unwrap();
    if laid.status.success() {
        std::fs::write(merged.join("dir/old"), "new").unwrap();
        std::fs::remove_file(merged.join("dir/doomed")).unwrap();
        std::fs::rename(merged.join("dir"), merged.join("moved")).unwrap_or(());
        std::fs::create_dir(merged.join("more")).unwrap();
        let names = || std::fs::read_dir(&merged).unwrap().count();
        assert_eq!(names(), 2);
        assert_eq!(std::fs::read(point.join("dir/old")).unwrap(), b"old");
        assert!(point.join("dir/doomed").exists());
    } else {
        println!("skipped: no overlay here: {}", String::from_utf8_lossy(&laid.stderr).trim());
    }
    let _ = Command::new("umount").arg(&merged).status();
    expect_code(Command::new("umount").arg(&top), 0);
    mount.end();
}
