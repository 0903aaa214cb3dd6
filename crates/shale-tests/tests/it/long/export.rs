//! Promise: an image comes out as an archive that the programs of its format read as the same tree,
//! and what the format cannot hold is said by name.

use shale_tests::command::{
    LoopMount, create, errors, expect_code, export, has_program, is_root, run, shale,
};
use shale_tests::image::manifest_at;
use shale_tests::keep::{
    as_squashfs, in_seconds, names_apart, with_xattrs, without_holes, without_kinds,
};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{make_with_image, tiny_tree};
use shale_tests::places;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

#[test]
fn squashfs_is_the_same_tree_to_us_to_unsquashfs_and_to_the_kernel() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let expected = as_squashfs(make_with_image(folder.path()));
    let image = path("x.squashfs");
    let sets: &[&[&str]] = &[
        &["--threads=3"],
        &["--compress=gzip", "--block-size=4K"],
        &["--compress=xz", "--block-size=1M"],
        &["--compress=lz4", "--level=1"],
        &["--compress=none", "--block-size=64K"],
    ];
    let mut by_threads = Vec::new();
    for set in sets {
        let output = export(&path("x.shale"), &image, &[&["-f"], *set].concat(), 3);
        let text = errors(&output);
        assert!(text.contains("attributes/acl: without its attributes system.posix_acl"), "{text}");
        assert!(text.contains("became 0") && text.contains("fractions of seconds"), "{text}");
        create(&image, &path("again.shale"), &["-f", "-1"]);
        let found = as_squashfs(manifest_at(&path("again.shale")));
        expected.assert_equals(&found, &format!("{set:?}"));
        if by_threads.is_empty() {
            by_threads = std::fs::read(&image).unwrap();
        }

        match LoopMount::new("squashfs", &image, &path("mounted")) {
            Ok(mount) => {
                let Some(mount) = mount else { continue };
                let found = as_squashfs(Manifest::of(mount.path()).unwrap());
                expected.assert_equals(&found, &format!("kernel, {set:?}"));
            }
            Err(why) => println!("skipped: the kernel does not mount {set:?}: {why}"),
        }
    }
    // Through a pipe, and whatever the number of threads: the same bytes.
    let piped = export(&path("x.shale"), Path::new("-"), &["--format=squashfs", "--threads=1"], 3);
    assert!(piped.stdout == by_threads, "threads or a pipe change the image");

    if is_root() && has_program("unsquashfs") {
        std::fs::write(&image, by_threads).unwrap();
        let mut unsquashfs = Command::new("unsquashfs");
        unsquashfs.args(["-quiet", "-no-progress", "-dest"]).arg(path("out")).arg(&image);
        expect_code(&mut unsquashfs, 0);
        let found = as_squashfs(Manifest::of(&path("out")).unwrap());
        expected.assert_equals(&found, "unsquashfs");
    } else {
        println!("skipped: root and unsquashfs are needed to unpack devices and owners");
    }
}

#[test]
fn holes_and_links_of_a_part_survive_squashfs() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("s/in")).unwrap();
    let file = std::fs::File::create(path("s/in/sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"in the middle", 5 << 20).unwrap();
    file.set_len((10 << 20) + 77).unwrap();
    for name in ["s/in/other", "s/in/third", "s/out"] {
        std::fs::hard_link(path("s/in/sparse"), path(name)).unwrap();
    }
    create(&path("s"), &path("x.shale"), &[]);
    export(&path("x.shale"), &path("x.squashfs"), &["in"], 0);
    create(&path("x.squashfs"), &path("again.shale"), &[]);
    let found = manifest_at(&path("again.shale"));
    let names: Vec<&[u8]> = found.records.keys().map(|path| &path[..]).collect();
    assert_eq!(names, [&b""[..], b"in", b"in/other", b"in/sparse", b"in/third"]);
    let record = &found.records[&b"in/sparse"[..]];
    assert_eq!(record.data, [(5 << 20, (5 << 20) + 131_072)]);
    assert_eq!((record.link_count, &record.first_name[..]), (3, &b"in/other"[..]));
}

/// What zip keeps: no special files, links or attributes, times to 100 ns; the top is not in it.
fn as_zip(manifest: Manifest) -> Manifest {
    let manifest = without_kinds(with_xattrs(without_holes(manifest), &[]), "pscb");
    let mut manifest = names_apart(manifest, "-l");
    manifest.records.remove(&b""[..]);
    for record in manifest.records.values_mut() {
        record.mtime.1 -= record.mtime.1 % 100;
    }
    manifest
}

#[test]
fn zip_is_the_same_tree_to_us_unzip_bsdtar_and_python() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let expected = as_zip(make_with_image(folder.path()));
    let output = export(&path("x.shale"), &path("x.zip"), &["--threads=3"], 3);
    let text = errors(&output);
    assert!(text.contains("special/null: left out: zip has no devices"), "{text}");
    assert!(text.contains("links/b/file: a copy, no hard link to links/a/"), "{text}");
    assert!(text.contains("attributes/user: without its attributes"), "{text}");
    create(&path("x.zip"), &path("again.shale"), &["-1"]);
    expected.assert_equals(&as_zip(manifest_at(&path("again.shale"))), "shale");
    let piped = export(&path("x.shale"), Path::new("-"), &["--format=zip", "--threads=1"], 3);
    assert!(piped.stdout == std::fs::read(path("x.zip")).unwrap(), "threads change the archive");
    export(&path("x.shale"), &path("plain.zip"), &["--compress=none"], 3);
    create(&path("plain.zip"), &path("again.shale"), &["-1f"]);
    expected.assert_equals(&as_zip(manifest_at(&path("again.shale"))), "not compressed");

    if has_program("unzip") {
        let mut unzip = Command::new("unzip");
        expect_code(unzip.arg("-tqq").arg(path("x.zip")), 0);
        let mut unzip = Command::new("unzip");
        unzip.arg("-tqq").arg(path("plain.zip"));
        expect_code(&mut unzip, 0);
    }
    if has_program("bsdtar") && is_root() {
        std::fs::create_dir(path("out")).unwrap();
        let mut bsdtar = Command::new("bsdtar");
        bsdtar.args(["--numeric-owner", "-xpf"]).arg(path("x.zip")).arg("-C").arg(path("out"));
        expect_code(&mut bsdtar, 0);
        // It knows times in 32 bits, and names beyond ASCII come out in another form.
        let plain = |manifest: Manifest| {
            let mut manifest = as_zip(manifest);
            manifest.records.retain(|path, _| path.is_ascii());
            manifest.records.values_mut().for_each(|record| record.mtime = (0, 0));
            manifest
        };
        let found = plain(Manifest::of(&path("out")).unwrap());
        plain(expected.clone()).assert_equals(&found, "bsdtar");
    }
    if has_program("python3") {
        let script = "import sys, zipfile\n\
                      z = zipfile.ZipFile(sys.argv[1])\n\
                      assert z.testzip() is None\n\
                      print(len(z.namelist()))";
        let mut python = Command::new("python3");
        let output = expect_code(python.args(["-c", script]).arg(path("x.zip")), 0);
        let count: usize = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        assert_eq!(count, expected.records.len());
    }
}

#[test]
fn zip_of_more_entries_than_16_bits_count_is_read() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let mut manifest = std::fs::File::create(path("manifest")).unwrap();
    let mut text = String::from("d 755 0 0 0 - .\n");
    for index in 0..66_000 {
        text += &format!("l 777 0 0 7 x {index}\n");
    }
    std::io::Write::write_all(&mut manifest, text.as_bytes()).unwrap();
    let mut command = shale(["create", "--manifest"]);
    expect_code(command.arg(path("manifest")).arg("-o").arg(path("x.shale")), 0);
    export(&path("x.shale"), &path("x.zip"), &[], 0);
    create(&path("x.zip"), &path("again.shale"), &["-1"]);
    assert_eq!(manifest_at(&path("again.shale")).records.len(), 66_001);
    if has_program("unzip") {
        let mut unzip = Command::new("unzip");
        expect_code(unzip.arg("-tqq").arg(path("x.zip")), 0);
    }
}

#[test]
fn zip_of_a_file_longer_than_32_bits_count_is_read() {
    const LEN: u64 = (4 << 30) + 3;
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("source")).unwrap();
    let long = std::fs::File::create(path("source/long")).unwrap();
    long.write_all_at(b"begin", 0).unwrap();
    long.write_all_at(b"end", LEN - 3).unwrap();
    std::fs::write(path("source/z-behind-it"), b"behind").unwrap();
    create(&path("source"), &path("x.shale"), &["-1"]);
    export(&path("x.shale"), &path("x.zip"), &[], 0);
    create(&path("x.zip"), &path("again.shale"), &["-1"]);
    let expected = as_zip(Manifest::of(&path("source")).unwrap());
    assert_eq!(expected.records[&b"long"[..]].len, LEN);
    expected.assert_equals(&as_zip(manifest_at(&path("again.shale"))), "shale");
    if has_program("python3") {
        let script = "import sys, zipfile\n\
                      z = zipfile.ZipFile(sys.argv[1])\n\
                      assert z.read('z-behind-it') == b'behind'\n\
                      print(z.getinfo('long').file_size)";
        let mut python = Command::new("python3");
        let output = expect_code(python.args(["-c", script]).arg(path("x.zip")), 0);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), LEN.to_string());
    }
}

#[test]
fn cpio_is_the_same_tree_to_cpio_and_bsdtar() {
    if !is_root() {
        println!("skipped: owners and devices can only be unpacked by root");
        return;
    }
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let plain = |manifest: Manifest| {
        let manifest = with_xattrs(without_holes(manifest), &[]);
        // These programs make a link and a pipe of each name.
        names_apart(in_seconds(manifest), "lpscb")
    };
    let expected = plain(make_with_image(folder.path()));
    let output = export(&path("x.shale"), &path("x.cpio"), &[], 3);
    let text = errors(&output);
    assert!(text.contains("attributes/user: without its attributes"), "{text}");
    for program in ["cpio", "bsdtar"] {
        if !has_program(program) {
            println!("skipped: {program} is missing");
            continue;
        }
        let out = path(program);
        std::fs::create_dir(&out).unwrap();
        let mut command = Command::new(program);
        command.current_dir(&out);
        match program {
            "cpio" => command.args(["-idm", "--quiet", "--no-absolute-filenames"]),
            _ => command.args(["--numeric-owner", "-xpf", "-"]),
        };
        command.stdin(std::fs::File::open(path("x.cpio")).unwrap());
        expect_code(&mut command, 0);
        let [mut expected, mut found] = [expected.clone(), plain(Manifest::of(&out).unwrap())];
        for manifest in [&mut expected, &mut found] {
            // Neither restores the time of the top and of links.
            manifest.records.remove(&b""[..]);
            // bsdtar makes a file of a socket.
            if program == "bsdtar" {
                manifest.records.remove(&b"special/socket"[..]);
            }
            // cpio sets the time of a directory before there is something in it.
            let kinds = if program == "cpio" { "ld" } else { "l" };
            let lost = manifest.records.values_mut().filter(|r| kinds.contains(r.kind));
            lost.for_each(|r| r.mtime = (0, 0));
        }
        expected.assert_equals(&found, program);
    }
}

#[test]
fn mtree_lists_the_tree_that_bsdtar_and_sha256sum_see() {
    if !has_program("bsdtar") || !has_program("sha256sum") {
        println!("skipped: bsdtar and sha256sum are needed to read a list");
        return;
    }
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("s/d/e")).unwrap();
    let files = ["a b#\\ü\n[x]=*?", "d/text", "d/e/empty"];
    for name in files {
        let content = if name.ends_with("empty") { String::new() } else { name.repeat(5000) };
        std::fs::write(path("s").join(name), content).unwrap();
    }
    std::fs::hard_link(path("s/d/text"), path("s/d/twin")).unwrap();
    std::os::unix::fs::symlink("../d/a b", path("s/d/link")).unwrap();
    create(&path("s"), &path("x.shale"), &["-1"]);
    export(&path("x.shale"), &path("x.mtree"), &[], 0);
    let list = std::fs::read_to_string(path("x.mtree")).unwrap();
    for name in &files[1..] {
        let output = expect_code(Command::new("sha256sum").arg(path("s").join(name)), 0);
        let sum = String::from_utf8(output.stdout).unwrap();
        let line = list.lines().find(|line| line.starts_with(&format!("./{name} "))).unwrap();
        let sum = format!(" sha256digest={}", sum.split_once(' ').unwrap().0);
        assert!(line.ends_with(&sum), "{line} has not {sum}");
    }
    // It takes names and attributes from the list, and contents from the tree.
    let mut bsdtar = Command::new("bsdtar");
    bsdtar.current_dir(path("s")).args(["--format=pax", "-cf", "../x.tar", "@../x.mtree"]);
    expect_code(&mut bsdtar, 0);
    create(&path("x.tar"), &path("y.shale"), &["-1"]);
    let [expected, found] = ["x.shale", "y.shale"]
        .map(|image| names_apart(with_xattrs(manifest_at(&path(image)), &[]), "f"));
    expected.assert_equals(&found, "bsdtar");
}

#[test]
fn what_a_format_cannot_hold_is_refused_or_named() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("s")).unwrap();
    make(&tiny_tree(2), &path("s"), 2).unwrap();
    std::fs::File::create(path("s/long")).unwrap().set_len(4 << 30).unwrap();
    std::fs::write(path("s/TRAILER!!!"), "not the end").unwrap();
    create(&path("s"), &path("x.shale"), &[]);
    let output = export(&path("x.shale"), &path("x.cpio"), &[], 3);
    let text = errors(&output);
    assert!(text.contains("long: it has 4294967296 bytes, cpio holds less than 4 GiB"), "{text}");
    if has_program("cpio") {
        let mut cpio = Command::new("cpio");
        cpio.args(["-it", "--quiet"]).stdin(std::fs::File::open(path("x.cpio")).unwrap());
        let names = String::from_utf8(expect_code(&mut cpio, 0).stdout).unwrap();
        assert!(names.contains("TRAILER!!!") && names.contains("symlink"), "{names}");
    }
    let refused: &[(&str, &[&str], &str)] = &[
        ("x.squashfs", &["--compress=bzip2"], "no bz2"),
        ("x.squashfs", &["--block-size=100000"], "blocks of 100000 bytes"),
        ("x.squashfs", &["--block-size=2M"], "blocks of 2097152 bytes"),
        ("x.zip", &["--compress=xz"], "deflate"),
        ("x.tar", &["--block-size=4K"], "only SquashFS"),
    ];
    for (name, more, expected) in refused {
        let output = export(&path("x.shale"), &path(name), more, 2);
        assert!(errors(&output).contains(expected), "{}", errors(&output));
        assert!(!path(name).exists());
    }
    // 16 TiB fit into SquashFS with its largest blocks only.
    // Most disks do not hold such a file.
    let Some(memory) = places::memory() else { return };
    std::fs::File::create(memory.path().join("long")).unwrap().set_len(16 << 40).unwrap();
    create(memory.path(), &path("x.shale"), &["-f"]);
    let output = export(&path("x.shale"), &path("x.squashfs"), &[], 3);
    assert!(errors(&output).contains("long: left out"), "{}", errors(&output));
    run(["check".as_ref(), path("x.shale").as_os_str()]);
}

#[test]
fn every_name_of_an_inode_that_a_format_cannot_hold_is_left_out() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("s")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("s/socket")).unwrap();
    // More blocks of 4 KiB than SquashFS has.
    std::fs::File::create(path("s/long")).unwrap().set_len(65 << 30).unwrap();
    for name in ["socket", "long"] {
        std::fs::hard_link(path(&format!("s/{name}")), path(&format!("s/{name}-again"))).unwrap();
    }
    std::fs::write(path("s/z"), "the rest").unwrap();
    create(&path("s"), &path("x.shale"), &["-1"]);
    for (format, kind, more) in [("tar", "socket", None), ("squashfs", "long", Some("4K"))] {
        let archive = path(&format!("x.{format}"));
        let more: Vec<_> = more.map(|len| format!("--block-size={len}")).into_iter().collect();
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let text = errors(&export(&path("x.shale"), &archive, &more, 3));
        for name in [kind.to_owned(), format!("{kind}-again")] {
            assert!(text.contains(&format!("{name}: left out")), "{format}: {text}");
        }
        create(&archive, &path("again.shale"), &["-f", "-1"]);
        let found = manifest_at(&path("again.shale"));
        let names: Vec<&[u8]> = found.records.keys().map(|path| &path[..]).collect();
        let other = if kind == "socket" { "long" } else { "socket" };
        let again = format!("{other}-again");
        assert_eq!(names, [&b""[..], other.as_bytes(), again.as_bytes(), b"z"], "{format}");
    }
}
