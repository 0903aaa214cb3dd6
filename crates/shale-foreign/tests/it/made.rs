//! Promise: what other programs make of a tree comes as that tree: every path, kind, permission,
//! link and byte that the format keeps.

use crate::common::{Taken, name};
use shale_foreign::OpenOptions;
use shale_model::InodeKind;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A tree with what archives get wrong.
fn tree(folder: &Path) -> PathBuf {
    let root = folder.join("tree");
    let path = |name: &str| root.join(name);
    fs::create_dir_all(path("d/e/empty")).unwrap();
    fs::create_dir_all(path("1/2/3/4/5/6/7/8/9/10/11")).unwrap();
    let mut noise = 1u64;
    let mut random = |len: usize| -> Vec<u8> {
        let step = |_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
            (noise >> 56) as u8
        };
        (0..len).map(step).collect()
    };
    fs::write(path("random"), random(300_000)).unwrap();
    fs::write(path("large"), random(2_500_001)).unwrap();
    fs::write(path("zeroes"), vec![0; 200_000]).unwrap();
    let mixed = [random(5000), vec![b'm'; 70_000], random(5000), b"end".repeat(40_000)].concat();
    fs::write(path("mixed"), mixed).unwrap();
    let text: String = (0..60_000).map(|n| format!("line {n} of {}\n", n % 97)).collect();
    fs::write(path("d/text"), &text).unwrap();
    fs::write(path("d/e/nothing"), b"").unwrap();
    fs::write(path("d/größe 語.txt"), "name").unwrap();
    fs::write(path(&"n".repeat(200)), b"long").unwrap();
    fs::write(path("1/2/3/4/5/6/7/8/9/10/11/file"), b"deep").unwrap();
    for number in 0..300 {
        fs::write(path(&format!("d/e/{number:03}")), format!("{number}\n").repeat(number)).unwrap();
    }
    symlink("../d/text", path("d/link")).unwrap();
    symlink("/absolute/./target/../x", path("absolute")).unwrap();
    fs::hard_link(path("d/text"), path("d/second")).unwrap();
    for (name, mode) in [("random", 0o600), ("d/text", 0o4755), ("d", 0o750), ("d/e/007", 0o444)] {
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    root
}

/// Bytes of content, target and mode of everything below `root`, by path.
fn listed(root: &Path) -> BTreeMap<String, (fs::Metadata, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let bytes = if metadata.is_dir() {
                waiting.push(path.clone());
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            found.insert(name, (metadata, bytes));
        }
    }
    found
}

/// What a format keeps.
#[derive(Clone, Copy)]
struct Keeps {
    modes: bool,
    links: bool,
    hard_links: bool,
    times: bool,
}

const ALL: Keeps = Keeps { modes: true, links: true, hard_links: true, times: true };

fn open(path: &Path, password: Option<&str>) -> Taken {
    let password = password.map(|password| Arc::from(password.as_bytes()));
    let options = OpenOptions { password, ..OpenOptions::default() };
    match shale_foreign::open(name(), fs::File::open(path).unwrap(), options) {
        Ok(None) => Taken { error: Some("unknown".to_owned()), ..Taken::default() },
        Ok(Some(source)) => Taken::of(Ok(source)),
        Err(error) => Taken { error: Some(error.to_string()), ..Taken::default() },
    }
}

#[track_caller]
fn expect_tree(taken: &Taken, root: &Path, keeps: Keeps) {
    taken.expect_whole();
    let mut expected = listed(root);
    expected.retain(|_, (metadata, _)| keeps.links || !metadata.is_symlink());
    let paths: Vec<&str> = taken.paths().into_iter().filter(|path| !path.is_empty()).collect();
    assert_eq!(paths, expected.keys().map(String::as_str).collect::<Vec<_>>());
    for (path, (metadata, bytes)) in &expected {
        let found = taken.entry(path);
        let kind = InodeKind::from_mode(metadata.mode()).unwrap();
        assert_eq!(found.metadata.kind, kind, "{path}");
        let found_bytes = if metadata.is_symlink() { &found.target } else { &found.content };
        assert!(found_bytes == bytes, "{path}: {} of {} bytes", found_bytes.len(), bytes.len());
        if metadata.is_symlink() {
            continue;
        }
        if keeps.modes {
            assert_eq!(found.metadata.permissions, metadata.mode() & 0o7777, "{path}");
        }
        if keeps.times {
            assert_eq!(found.metadata.mtime.sec, metadata.mtime(), "{path}");
        }
    }
    if keeps.hard_links {
        let link = |path: &str| taken.entry(path).link;
        assert!(link("d/text").is_some() && link("d/text") == link("d/second"));
    }
}

/// Runs a program in `folder`; false, and said so, if it is not there.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    // Administrators' programs are not in everybody's PATH.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {program}: {error}");
            return false;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    true
}

#[test]
fn seven_zip_comes() {
    expect_seven_zip(&[("default", &[])]);
}

/// Packs a tree with 7zz and these arguments, and reads it.
fn expect_seven_zip(cases: &[(&str, &[&str])]) {
    let folder = tempfile::tempdir().unwrap();
    let root = tree(folder.path());
    for (case, more) in cases {
        let archive = folder.path().join(format!("{case}.7z"));
        let mut arguments = vec!["a", "-snl", "-bd", archive.to_str().unwrap(), "."];
        arguments.extend(*more);
        if !run(&root, "7zz", &arguments) {
            return;
        }
        let keeps = Keeps { hard_links: false, ..ALL };
        expect_tree(&open(&archive, None), &root, keeps);
    }
}

#[test]
fn encrypted_archives_need_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let root = tree(folder.path());
    let keeps = Keeps { hard_links: false, ..ALL };
    let cases: &[(&str, &[&str])] = &[
        ("data.7z", &["-psesame"]),
        ("names.7z", &["-psesame", "-mhe=on"]),
        ("128.zip", &["-psesame", "-mem=AES128"]),
        ("192.zip", &["-psesame", "-mem=AES192"]),
        ("256.zip", &["-psesame", "-mem=AES256"]),
        ("old.zip", &["-psesame", "-mem=ZipCrypto"]),
    ];
    for (case, more) in cases {
        let archive = folder.path().join(case);
        let mut arguments = vec!["a", "-snl", "-bd", archive.to_str().unwrap(), "."];
        arguments.extend(*more);
        if !run(&root, "7zz", &arguments) {
            return;
        }
        expect_tree(&open(&archive, Some("sesame")), &root, keeps);
        for wrong in [None, Some("open")] {
            let taken = open(&archive, wrong);
            let first = taken.problems.first().cloned().unwrap_or_default();
            let said = [first, taken.error.unwrap_or_default()].concat();
            assert!(said.contains("password"), "{case} with {wrong:?}: {said}");
            let words = if wrong.is_some() { "wrong" } else { "no password for it" };
            assert!(said.contains(words), "{case} with {wrong:?}: {said}");
            assert!(!taken.entries.contains_key("large"), "{case} with {wrong:?}");
        }
    }
    // The old encryption tells most wrong passwords at once, and the checksum the others.
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    std::fs::write(small.join("large"), "a few words").unwrap();
    let archive = folder.path().join("small.zip");
    let arguments = ["a", "-bd", archive.to_str().unwrap(), ".", "-psesame", "-mem=ZipCrypto"];
    if run(&small, "7zz", &arguments) {
        for wrong in 0..1000 {
            let taken = open(&archive, Some(&wrong.to_string()));
            assert!(!taken.entries.contains_key("large"), "{wrong}");
            let said = [taken.problems.concat(), taken.error.unwrap_or_default()].concat();
            assert!(said.contains("the password is wrong"), "{wrong}: {said}");
        }
    }
    // What zip itself encrypts while it reads a pipe has lengths and checksums after the data.
    let archive = folder.path().join("zip.zip");
    if run(&root, "zip", &["-qry", "-P", "sesame", archive.to_str().unwrap(), "."]) {
        expect_tree(&open(&archive, Some("sesame")), &root, keeps);
    }
}

#[test]
fn zip_comes_by_every_method() {
    let folder = tempfile::tempdir().unwrap();
    let root = tree(folder.path());
    for method in ["Copy", "Deflate", "Deflate64", "BZip2", "LZMA", "PPMd"] {
        let archive = folder.path().join(format!("{method}.zip"));
        let method = format!("-mm={method}");
        let arguments = ["a", "-snl", "-bd", archive.to_str().unwrap(), ".", &method, "-tzip"];
        if !run(&root, "7zz", &arguments) {
            return;
        }
        let keeps = Keeps { hard_links: false, times: false, ..ALL };
        expect_tree(&open(&archive, None), &root, keeps);
    }
}

#[test]
fn iso_images_come_with_rock_ridge_joliet_or_neither() {
    let folder = tempfile::tempdir().unwrap();
    let root = tree(folder.path());
    let image = folder.path().join("rock.iso");
    let to = image.to_str().unwrap();
    let cases: &[(&str, &[&str])] = &[
        ("xorriso", &["-as", "mkisofs", "-quiet", "-R", "-o", to, "."]),
        ("xorriso", &["-as", "mkisofs", "-quiet", "-R", "-J", "-joliet-long", "-o", to, "."]),
        ("genisoimage", &["-quiet", "-R", "-cache-inodes", "-o", to, "."]),
        (
            "genisoimage",
            &["-quiet", "-R", "-D", "-J", "-joliet-long", "-cache-inodes", "-o", to, "."],
        ),
        // Deep directories are moved, and come back to their places.
        ("bsdtar", &["-cf", to, "--format=iso9660", "."]),
    ];
    for (program, arguments) in cases {
        if !run(&root, program, arguments) {
            continue;
        }
        let mut taken = open(&image, None);
        if !arguments.contains(&"-D") {
            // Where they were, an empty directory stays.
            taken.entries.remove("rr_moved");
        }
        // bsdtar writes modes that anybody can use.
        expect_tree(&taken, &root, Keeps { modes: *program != "bsdtar", ..ALL });
        fs::remove_file(&image).unwrap();
    }
    let plain = Keeps { modes: false, links: false, hard_links: false, times: true };
    // Joliet has names of 103 letters and no links.
    fs::rename(root.join("n".repeat(200)), root.join("n".repeat(60))).unwrap();
    let joliet = ["-quiet", "-J", "-joliet-long", "-D", "-o", to, "."];
    if run(&root, "genisoimage", &joliet) {
        expect_tree(&open(&image, None), &root, plain);
    }
    let simple = folder.path().join("simple");
    fs::create_dir_all(simple.join("DIR")).unwrap();
    fs::write(simple.join("DIR/FILE.TXT"), "content").unwrap();
    fs::write(simple.join("README"), vec![b'x'; 5000]).unwrap();
    if run(&simple, "genisoimage", &["-quiet", "-o", to, "."]) {
        expect_tree(&open(&image, None), &simple, plain);
    }
    // What a second file system has may not be in the first.
    if run(&simple, "genisoimage", &["-quiet", "-udf", "-o", to, "."]) {
        let taken = open(&image, None);
        taken.expect_whole();
        assert!(taken.warnings.concat().contains("UDF"), "{:?}", taken.warnings);
    }
}

/// Replaces the bytes at `at` behind the first `mark` in `bytes` from `from` on.
fn patched(bytes: &[u8], from: usize, mark: &[u8], at: isize, new: &[u8]) -> Vec<u8> {
    let found = bytes[from..].windows(mark.len()).position(|window| window == mark).unwrap();
    let at = (from + found).checked_add_signed(at).unwrap();
    [&bytes[..at], new, &bytes[at + new.len()..]].concat()
}

#[test]
fn an_iso_image_that_contradicts_itself_is_not_believed() {
    /// Where the first directory begins at the earliest.
    const SECTORS: usize = 18 * 2048;
    /// From the end of the fixed part of a record back to its fields.
    const PLACE: isize = 2 - 33;
    const LEN: isize = 10 - 33;
    const FLAGS: isize = 25 - 33;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("tree");
    fs::create_dir_all(root.join("D")).unwrap();
    fs::write(root.join("D/FILE"), "content").unwrap();
    fs::write(root.join("D/OTHER"), "others").unwrap();
    let image = folder.path().join("x.iso");
    let to = image.to_str().unwrap();
    if !run(&root, "genisoimage", &["-quiet", "-R", "-o", to, "."]) {
        return;
    }
    let whole = fs::read(&image).unwrap();
    let open_patched = |mark: &[u8], at, new: &[u8]| {
        fs::write(&image, patched(&whole, SECTORS, mark, at, new)).unwrap();
        open(&image, None)
    };
    open_patched(b"FILE.;1", 0, b"FILE.;1").expect_whole();
    for (mark, at, new) in [
        (&b"FILE.;1"[..], PLACE, &[1][..]),
        (b"FILE.;1", LEN, &[3]),
        (b"FILE.;1", LEN + 7, &[3]),
        (b"FILE.;1", LEN + 4, &[0; 4]),
    ] {
        let taken = open_patched(mark, at, new);
        taken.expect_problem(&["D/FILE: ", "differs between the two byte orders"]);
        assert_eq!(taken.entry("D/OTHER").content, b"others");
    }
    // One byte says that attributes precede the bytes, and would move all of them.
    open_patched(b"FILE.;1", 1 - 33, &[1]).expect_problem(&["D/FILE: ", "none does"]);
    // The record says that another part follows.
    open_patched(b"FILE.;1", FLAGS, &[0x80]).expect_problem(&["D/FILE: ", "next part is missing"]);
    // Mode and version of its fields.
    open_patched(b"FILEPX", 9, &[0]).expect_problem(&["D/FILE", "mode or owner differs"]);
    open_patched(b"FILEPX", 6, &[32]).expect_problem(&["D/FILE", "its mode is cut"]);
    open_patched(b"FILEPX", 7, &[9]).expect_problem(&["D/FILE", "PX has the version 9"]);
    // The directory begins with zeroes, and without the record of itself.
    let record = whole.windows(7).position(|window| window == b"FILE.;1").unwrap();
    let sector = record / 2048 * 2048;
    let mut bytes = whole.clone();
    bytes.copy_within(sector..sector + 1000, sector + 6);
    bytes[sector..sector + 6].fill(0);
    fs::write(&image, &bytes).unwrap();
    open(&image, None).expect_error(&["D", "does not begin with a record of itself"]);
    // Something follows the last record.
    let mut bytes = whole.clone();
    bytes[sector + 2000] = 1;
    fs::write(&image, &bytes).unwrap();
    let taken = open(&image, None);
    taken.expect_whole();
    assert!(taken.warnings.concat().contains("follows the last record"), "{:?}", taken.warnings);
}

#[test]
fn devices_and_pipes_of_an_iso_image_come() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("tree");
    fs::create_dir(&root).unwrap();
    if !run(&root, "mkfifo", &["pipe"]) || !rustix_is_root() {
        println!("skipped: devices need root");
        return;
    }
    run(&root, "mknod", &["disk", "b", "8", "17"]);
    run(&root, "mknod", &["null", "c", "1", "3"]);
    let image = folder.path().join("x.iso");
    let to = image.to_str().unwrap();
    for (program, arguments) in [
        ("xorriso", &["-as", "mkisofs", "-quiet", "-R", "-o", to, "."][..]),
        ("genisoimage", &["-quiet", "-R", "-o", to, "."]),
    ] {
        if run(&root, program, arguments) {
            let taken = open(&image, None);
            taken.expect_whole();
            assert_eq!(taken.kind("pipe"), InodeKind::Fifo);
            assert_eq!(taken.kind("disk"), InodeKind::BlockDevice);
            assert_eq!(taken.entry("disk").metadata.device, 8 << 32 | 17, "{program}");
            assert_eq!(taken.entry("null").metadata.device, 1 << 32 | 3, "{program}");
        }
    }
}

fn rustix_is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn xar_archives_come_by_every_method() {
    let folder = tempfile::tempdir().unwrap();
    let root = tree(folder.path());
    run(&root, "mkfifo", &["pipe"]);
    for method in ["none", "gzip", "bzip2", "xz", "lzma"] {
        let archive = folder.path().join("x.xar");
        let option = format!("xar:compression={method}");
        let to = archive.to_str().unwrap();
        if !run(&root, "bsdtar", &["--format=xar", "--options", &option, "-cf", to, "."]) {
            return;
        }
        let taken = open(&archive, None);
        assert_eq!(taken.kind("pipe"), InodeKind::Fifo);
        let mut taken = taken;
        taken.entries.remove("pipe");
        let pipe = root.join("pipe");
        let aside = folder.path().join("pipe");
        fs::rename(&pipe, &aside).unwrap();
        // bsdtar writes no setuid bits into xar.
        expect_tree(&taken, &root, Keeps { modes: false, ..ALL });
        assert_eq!(taken.entry("random").metadata.permissions, 0o600);
        fs::rename(&aside, &pipe).unwrap();
        assert_eq!(taken.warnings, [""; 0], "{method}");
    }
    // Sums of a kind that is not compared are said.
    let archive = folder.path().join("md5.xar");
    let to = archive.to_str().unwrap();
    let options = "xar:checksum=md5,xar:toc-checksum=md5";
    run(&root, "bsdtar", &["--format=xar", "--options", options, "-cf", to, "d"]);
    let taken = open(&archive, None);
    taken.expect_whole();
    assert!(taken.warnings.concat().contains("checksums"), "{:?}", taken.warnings);
}

#[test]
fn cabinets_come_stored_and_as_mszip() {
    let folder = tempfile::tempdir().unwrap();
    let root = tree(folder.path());
    for compression in [&[][..], &["-z"]] {
        let archive = folder.path().join("x.cab");
        let mut arguments = vec!["-c"];
        arguments.extend(compression);
        arguments.extend([archive.to_str().unwrap(), "random", "large", "mixed", "d/text"]);
        arguments.extend(["zeroes", "d/größe 語.txt", "d/e/007"]);
        if !run(&root, "gcab", &arguments) {
            return;
        }
        let taken = open(&archive, None);
        taken.expect_whole();
        let names = &arguments[arguments.len() - 7..];
        assert_eq!(taken.entries.len(), names.len());
        for name in names {
            let (found, expected) = (taken.entry(name), fs::read(root.join(name)).unwrap());
            assert!(found.content == expected, "{name}: {} bytes", found.content.len());
        }
    }
}

#[test]
fn erofs_images_come_in_every_layout() {
    // mkfs.erofs with chunks asks the file system to copy, which one in memory cannot.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = tree(folder.path());
    let cases: &[&[&str]] = &[
        &[],
        &["-Eforce-inode-extended"],
        &["-Eforce-inode-compact", "-T1700000000"],
        &["--chunksize=4096"],
        &["-Eforce-chunk-indexes", "--chunksize=16384"],
        &["-zlz4"],
        &["-zlz4hc"],
        &["-zlz4hc,12", "-C65536"],
        &["-zlz4", "-Efragments"],
        &["-zlz4", "-Eall-fragments"],
        &["-zlz4", "-Ededupe"],
        &["-zlz4", "-Eztailpacking"],
        &["-zlz4hc", "-Eztailpacking", "-C65536"],
        &["-zlz4hc", "-Eztailpacking,fragments"],
        &["-zlz4", "-Elegacy-compress"],
        &["-zlz4hc", "-Elegacy-compress"],
    ];
    for options in cases {
        let image = folder.path().join("x.erofs");
        let mut arguments = options.to_vec();
        arguments.extend(["--quiet", image.to_str().unwrap(), "."]);
        if !run(&root, "mkfs.erofs", &arguments) {
            return;
        }
        println!("{options:?}");
        let keeps = Keeps { times: !options.contains(&"-Eforce-inode-compact"), ..ALL };
        expect_tree(&open(&image, None), &root, keeps);
        fs::remove_file(&image).unwrap();
    }
}

/// A tar archive with what lrzip is for: repeats that are far apart.
fn tar_for_lrzip(folder: &Path) -> Option<PathBuf> {
    let root = tree(folder);
    fs::copy(root.join("large"), root.join("large again")).unwrap();
    let tar = folder.join("x.tar");
    run(&root, "tar", &["-cf", tar.to_str().unwrap(), "."]).then_some(tar)
}

#[test]
fn lrzip_comes_and_zpaq_is_named() {
    expect_lrzip(&[&["-n"], &["-l"]]);
}

/// Packs a tree with lrzip and these options, and reads it.
fn expect_lrzip(cases: &[&[&str]]) {
    let folder = tempfile::tempdir().unwrap();
    let Some(tar) = tar_for_lrzip(folder.path()) else { return };
    let root = folder.path().join("tree");
    let expected = open(&tar, None);
    let packed = folder.path().join("x.tar.lrz");
    let to = packed.to_str().unwrap();
    for options in cases {
        let mut arguments = vec!["-q", "-f", "-N0", "-o", to];
        arguments.extend(*options);
        arguments.push(tar.to_str().unwrap());
        if !run(folder.path(), "lrzip", &arguments) {
            return;
        }
        println!("{options:?}");
        let taken = open(&packed, None);
        taken.expect_whole();
        assert_eq!(taken.order, expected.order);
        for (path, entry) in &expected.entries {
            assert!(taken.entry(path).content == entry.content, "{path}");
        }
    }
    let bytes = fs::read(&packed).unwrap();
    for len in [bytes.len() - 1, bytes.len() / 2, 30, 5] {
        fs::write(&packed, &bytes[..len]).unwrap();
        let taken = open(&packed, None);
        let said = [taken.problems.concat(), taken.error.unwrap_or_default()].concat();
        assert!(said.contains("truncated") || said.contains("corrupt"), "cut to {len}: {said}");
    }
    let file = root.join("d/text");
    let file = file.to_str().unwrap();
    run(folder.path(), "lrzip", &["-q", "-f", "-N0", "-z", "-o", to, file]);
    let taken = open(&packed, None);
    let said = [taken.problems.concat(), taken.error.unwrap_or_default()].concat();
    assert!(said.contains("ZPAQ") && said.contains("lrunzip"), "{said}");
    // What is no archive is refused, as with every other compression.
    run(folder.path(), "lrzip", &["-q", "-f", "-N0", "-n", "-o", to, file]);
    open(&packed, None).expect_error(&["lrzip data", "unknown format"]);
}

/// What `make check` tries a sample of.
mod long {
    use super::{expect_lrzip, expect_seven_zip};

    #[test]
    fn lrzip_comes_by_every_method() {
        expect_lrzip(&[&["-g"], &["-b"], &["-L1"], &["-U", "-b"], &["-p1"]]);
    }

    #[test]
    fn seven_zip_comes_by_every_method() {
        expect_seven_zip(&[
            ("copy", &["-m0=Copy"]),
            ("lzma", &["-m0=LZMA", "-ms=off"]),
            ("ppmd", &["-m0=PPMd"]),
            ("bzip2", &["-m0=BZip2"]),
            ("deflate", &["-m0=Deflate"]),
            (
                "bcj2",
                &["-m0=BCJ2", "-m1=LZMA", "-m2=LZMA", "-m3=LZMA", "-mb0:1", "-mb0s1:2", "-mb0s2:3"],
            ),
            ("headers", &["-mhc=off"]),
            ("times", &["-mtc=on", "-mta=on"]),
        ]);
    }
}
