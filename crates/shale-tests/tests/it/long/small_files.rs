//! Promise: a program that reads a tree of small files through a mount sends few requests, and gets
//! the bytes that it gets without pushing.

use shale_tests::cgroup::{MemoryLimit, is_limited};
use shale_tests::command::{Mount, can_mount, create, expect_code, shale};
use shale_tests::places;
use std::path::Path;
use std::process::Command;

const DIRECTORY_COUNT: u64 = 60;
const FILE_COUNT: u64 = 25;

/// The value of a counter in the statistics of a mount; 0 if it is not there.
fn counter(mount: &Path, name: &str) -> u64 {
    let output = expect_code(shale(["stats", "--json"]).arg(mount), 0);
    let json = String::from_utf8(output.stdout).unwrap();
    let Some(at) = json.find(&format!("\"{name}\":")) else { return 0 };
    // Either a number, or an object whose first member is the number of requests.
    let digits = json[at..].split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty());
    digits.unwrap().parse().unwrap()
}

fn tar(mount: &Path) -> Vec<u8> {
    expect_code(Command::new("tar").args(["--sort=none", "-cf-", "-C"]).arg(mount).arg("."), 0)
        .stdout
}

#[test]
fn tar_of_small_files_sends_a_quarter_of_the_reads() {
    if !can_mount() {
        return;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    for d in 0..DIRECTORY_COUNT {
        let directory = source.join(format!("part{}/d{d}", d % 7));
        std::fs::create_dir_all(&directory).unwrap();
        for f in 0..FILE_COUNT {
            let text =
                format!("{d} {f} a line of a small file\n").repeat((d * f % 300) as usize + 1);
            std::fs::write(directory.join(format!("f{f}")), text).unwrap();
        }
        // A hole, and the kind that is not small.
        let sparse = std::fs::File::create(directory.join("sparse")).unwrap();
        sparse.set_len(10_000 + d).unwrap();
    }
    let image = folder.path().join("image.shale");
    create(&source, &image, &[]);
    let mount = |words: &str| Mount::new(&image, &folder.path().join("mount"), &["-o", words]);
    let file_count = DIRECTORY_COUNT * FILE_COUNT;

    let plain = mount("threads=2,push=off");
    let expected = tar(plain.path());
    let plain_reads = counter(plain.path(), "read");
    assert_eq!(counter(plain.path(), "files_pushed"), 0);
    assert!(plain_reads >= file_count, "{plain_reads}");
    plain.end();

    // This reads what the command says to its end: the driver and what watches it must let it go.
    let point = folder.path().join("pushing");
    std::fs::create_dir(&point).unwrap();
    let options = if is_limited() { "threads=2,push=16K" } else { "threads=2" };
    expect_code(shale(["mount", "-o", options]).arg(&image).arg(&point), 0);
    let pushing = Mount::adopt(&point);
    assert!(tar(pushing.path()) == expected, "tar of the mount differs with pushing");
    let reads = counter(pushing.path(), "read");
    assert!(reads <= plain_reads / 4, "{reads} reads, {plain_reads} without pushing");
    let pushed = counter(pushing.path(), "files_pushed");
    assert!(pushed >= file_count * 7 / 10, "{pushed} of {file_count}");
    pushing.end();

    // A list of first reads has to see every file.
    let listing =
        mount(&format!("threads=2,push=16K,hotlog={}", folder.path().join("hot").display()));
    assert!(tar(listing.path()) == expected);
    assert_eq!(counter(listing.path(), "files_pushed"), 0);
    assert!(counter(listing.path(), "read") >= file_count);
    listing.end();
}

/// Pushed pages count as memory of the driver's group, so one with a limit pushes only if asked to.
#[test]
fn a_driver_with_a_memory_limit_pushes_only_if_asked_to() {
    if !can_mount() {
        return;
    }
    let folder = places::disk();
    let (image, point) = (folder.path().join("image.shale"), folder.path().join("mount"));
    std::fs::create_dir(&point).unwrap();
    create(&point, &image, &["-1"]);
    let Some(limit) = MemoryLimit::new(300 << 20) else { return };
    for (options, says) in [("threads=2", "pushing: off"), ("push=8K,threads=2", "up to 8 KiB")] {
        let mut mount = shale(["mount", "-v", "-o", options]);
        mount.arg(&image).arg(&point);
        let output = expect_code(&mut limit.around(&mount), 0);
        let mount = Mount::adopt(&point);
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(says), "{options}: {said}");
        mount.end();
    }
}
