//! Promises about memory: `--memory` holds for the whole process, and too little is said at once.

use std::fs;
use std::path::Path;
use std::process::Command;

use shale_tests::cgroup::MemoryLimit;
use shale_tests::command::{Mount, can_mount, create, expect_code, shale, shale_path};
use shale_tests::places;
use shale_tests::random::Random;

/// Makes a tree of this many MiB, half of it versions of each other.
fn tree(folder: &Path, mib: usize) {
    let mut random = Random::new(11);
    for number in 0..mib / 2 {
        let mut bytes = random.text(1 << 20);
        fs::write(folder.join(format!("{number}.old")), &bytes).unwrap();
        for _ in 0..200 {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = b'#';
        }
        fs::write(folder.join(format!("{number}.new")), &bytes).unwrap();
    }
}

/// Runs its arguments and prints the most memory that the process had, in KiB.
const PEAK: &str = "import resource, subprocess, sys\n\
    code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)\n\
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n\
    sys.exit(code)\n";

/// The most memory that `shale` had while it ran, in KiB, as the kernel counted it.
fn peak_kib(words: &[&str]) -> u64 {
    let mut command = Command::new("python3");
    command.args(["-c", PEAK]).arg(shale_path()).args(words);
    let output = expect_code(&mut command, 0);
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[test]
fn a_build_stays_within_its_memory() {
    let folder = places::disk();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    tree(&source, 160);
    let source = source.to_str().unwrap();
    let image = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let build = |name: &str, memory: &str, level: &str| {
        let words = ["create", source, "-o", &image(name), "-q", "--memory", memory, level];
        peak_kib(&[&words[..], &["--threads", "2", "--no-verify"]].concat())
    };
    // Less than the tree has, so most of it waits on the disk.
    for (level, mib) in [("-1", 90), ("-4", 254)] {
        let peak = build(&format!("a{level}"), &format!("{mib}M"), level);
        assert!(peak <= mib << 10, "level {level}: {peak} KiB of {mib} MiB");
        assert!(peak > 16 << 10, "level {level}: {peak} KiB is not all that was used");
        // With what the kernel holds for it, a limit from outside does as well.
        if let Some(limit) = MemoryLimit::new((mib + 8) << 20) {
            let (image, memory) = (image(&format!("a{level}")), format!("{mib}M"));
            let words = ["create", source, "-o", &image, "-f", "-q", "--memory", &memory, level];
            let mut create = shale(words);
            create.args(["--threads", "2", "--no-verify"]);
            expect_code(&mut limit.around(&create), 0);
        }
        let much = build(&format!("b{level}"), "2G", level);
        assert!(much <= 2 << 20, "level {level}: {much} KiB of 2 GiB");
        let read = |name: &str| fs::read(image(&format!("{name}{level}"))).unwrap();
        assert!(read("a") == read("b"), "level {level}: memory changes the image");
    }
}

/// A manifest of inodes with two names each, the second ones in another order, and of files that
/// have an extended attribute nobody else has.
fn links_and_attributes(inodes: u64, attributes: u64) -> String {
    use std::fmt::Write;
    let mut lines = String::from("d 755 0 0 0 - .\n");
    for folder in ["a", "b", "c"] {
        writeln!(lines, "d 755 0 0 0 - {folder}").unwrap();
    }
    for inode in 0..inodes {
        writeln!(lines, "f#{inode} 644 0 0 {inode} 0 a/{inode}").unwrap();
    }
    for turn in 0..inodes {
        let inode = turn * 99_991 % inodes;
        writeln!(lines, "f#{inode} 644 0 0 {inode} 0 b/{inode}").unwrap();
    }
    for file in 0..attributes {
        writeln!(lines, "f 644 0 0 0 0 c/{file}\nx user.sum {:0100}", file * file).unwrap();
    }
    lines
}

#[test]
fn hard_links_and_attributes_stay_within_memory_however_many() {
    let folder = places::disk();
    let manifest = folder.path().join("manifest");
    fs::write(&manifest, links_and_attributes(300_000, 100_000)).unwrap();
    let build = |name: &str, memory: &str, more: &[&str]| {
        let image = folder.path().join(name);
        let (manifest, image) = (manifest.to_str().unwrap(), image.to_str().unwrap());
        let words = ["create", "--manifest", manifest, "-o", image, "-q", "-1", "--memory", memory];
        (peak_kib(&[&words[..], more].concat()), fs::read(image).unwrap())
    };
    // In memory they would take 250 bytes an inode and as much a set: 100 MB.
    let (peak, little) = build("little", "64M", &["--threads", "2", "--no-verify"]);
    assert!(peak <= 64 << 10, "{peak} KiB of 64 MiB");
    // Read back and compared, which counts names again.
    let (_, much) = build("much", "1G", &[]);
    assert!(little == much, "memory changes the image");
}

/// A driver that takes its part of the machine's memory is killed in a container that has less.
#[test]
fn a_mount_goes_by_the_memory_of_its_control_group() {
    if !can_mount() {
        return;
    }
    let folder = places::disk();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    tree(&source, 220);
    let image = folder.path().join("image.shale");
    create(&source, &image, &["-1", "--no-verify"]);
    // Less than the tree has, which all fits in what is the default on a machine of a few GiB.
    let Some(limit) = MemoryLimit::new(180 << 20) else { return };
    let point = folder.path().join("mount");
    fs::create_dir(&point).unwrap();
    let mount = shale(
        ["mount", "-o", "auto_unmount", "--"]
            .map(AsRef::as_ref)
            .into_iter()
            .chain([image.as_os_str(), point.as_os_str()]),
    );
    expect_code(&mut limit.around(&mount), 0);
    let mount = Mount::adopt(&point);
    for file in fs::read_dir(&source).unwrap() {
        let name = file.unwrap().file_name();
        let found = fs::read(point.join(&name)).unwrap();
        assert!(found == fs::read(source.join(&name)).unwrap(), "{}", name.display());
    }
    mount.end();
}

#[test]
fn too_little_memory_is_said_with_what_suffices() {
    let folder = places::disk();
    let image = folder.path().join("x.shale");
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    tree(&source, 4);
    let run = |level: &str, memory: &str, code| {
        let mut create = shale(["create", source.to_str().unwrap(), level, "--memory", memory]);
        let output = expect_code(create.arg("-fo").arg(&image), code);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for level in ["-1", "-6", "-9"] {
        let said = run(level, "8M", 1);
        assert!(said.contains("at least"), "{said}");
        assert!(!image.exists());
        // The least that is allowed is what is said to be needed.
        let (_, advice) = said.split_once("use --memory ").unwrap_or_else(|| panic!("{said}"));
        let mib: u64 = advice.split_once('M').unwrap().0.parse().unwrap();
        assert_eq!(
            run(level, &format!("{}M", mib - 1), 1),
            said.replace("is 8 MiB", &format!("is {} MiB", mib - 1))
        );
        run(level, &format!("{mib}M"), 0);
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn in_a_group_with_a_limit_every_level_works_or_says_why_not() {
    let folder = places::disk();
    let (small, large) = (folder.path().join("small"), folder.path().join("large"));
    fs::create_dir(&small).unwrap();
    tree(&small, 2);
    fs::create_dir(&large).unwrap();
    tree(&large, 160);
    let Some(limit) = MemoryLimit::new(150 << 20) else { return };
    let image = folder.path().join("x.shale");
    for level in ["-1", "-6", "-9"] {
        let create = |source: &Path| {
            let words = ["create", source.to_str().unwrap(), "-fq", level, "-o"];
            let mut create = shale(words);
            create.arg(&image);
            limit.around(&create).output().unwrap()
        };
        let output = create(&small);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{level}: {said}");
        let output = create(&large);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => {}
            code => {
                assert_eq!(code, Some(1), "{level}: {said}");
                assert!(said.contains("150 MiB") && said.contains("--memory"), "{level}: {said}");
            }
        }
    }
}
