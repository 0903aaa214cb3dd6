//! Promise: compressed files that are stored as what is in them come back bit for bit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shale_tests::command::{
    Mount, can_mount, create, expect_code, extract, has_program, run, shale,
};
use shale_tests::manifest::Manifest;
use shale_tests::places;
use shale_tests::random::Random;
use shale_tests::second_reader::image::Image;
use tempfile::TempDir;

/// Text that differs by `seed`, about 40 bytes a line.
fn text(lines: u64, seed: u64) -> Vec<u8> {
    let line = |n: u64| format!("{n} a line of text number {} of file {seed}\n", n * n % 997);
    (0..lines).flat_map(|n| line(n * (seed + 1)).into_bytes()).collect()
}

/// Bytes of randomness in the tree.
const RANDOM_LEN: u64 = 1_300_000;

/// Digits at random, half a byte each.
fn digits(len: usize) -> Vec<u8> {
    let mut random = Random::new(7);
    (0..len).map(|_| b"0123456789abcdef"[random.below(16) as usize]).collect()
}

/// What a program makes of `bytes`.
fn through(program: &str, arguments: &[&str], bytes: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    fs::write(&input, bytes).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::from(fs::File::open(&input).unwrap()));
    expect_code(&mut command, 0).stdout
}

fn gzip(level: &str, bytes: &[u8]) -> Vec<u8> {
    through("gzip", &[level, "-nc"], bytes)
}

/// A stream of zlib. Its sum is wrong, which nothing here looks at.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let member = gzip("-6", bytes);
    [b"\x78\x9c", &member[10..member.len() - 8], b"sum!"].concat()
}

/// A tree of compressed files, honest and damaged.
fn compressed_tree() -> (TempDir, PathBuf) {
    let folder = places::disk();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(tree.join(name), bytes).unwrap();
    let plain: Vec<Vec<u8>> = (0..6).map(|seed| text(3000 + seed * 500, seed)).collect();
    for (n, plain) in plain.iter().enumerate() {
        for level in ["-1", "-4", "-6", "-9"] {
            write(&format!("{n}{level}.gz"), &gzip(level, plain));
        }
    }
    write("plain", &plain[0]);
    write("same.gz", &gzip("-6", &plain[0]));
    let large = gzip("-1", &digits(2 * RANDOM_LEN as usize));
    assert!(large.len() > 1 << 20, "large files are read in another way");
    write("large.tgz", &large);
    let member = gzip("-6", &plain[1]);
    write("members.gz", &[&member[..], &gzip("-9", &plain[2]), &member].concat());
    write("garbage-behind.gz", &[&member[..], b"and some garbage"].concat());
    write("zeroes-behind.gz", &[&member[..], &[0; 100_000]].concat());
    write("in-itself.gz", &gzip("-6", &member));
    let twice = gzip("-9", &gzip("-6", &member));
    write("in-itself-thrice.gz", &twice);
    write("in-itself-four-times.gz", &gzip("-1", &twice));
    let tar = |names: &[&str]| {
        let mut tar = Command::new("tar");
        expect_code(tar.current_dir(&tree).args(["-cf", "-"]).args(names), 0).stdout
    };
    let archive = tar(&["plain", "0-6.gz", "1-9.gz", "in-itself-thrice.gz"]);
    write("plain.tar", &archive);
    write("nested.tar.gz", &gzip("-6", &archive));
    write("cut-nested.tar.gz", &gzip("-6", &archive)[..1000]);
    write("tar-in-tar.tgz", &gzip("-9", &tar(&["plain.tar", "2-6.gz"])));
    write("bomb-in-bomb.gz", &gzip("-9", &gzip("-9", &vec![0; 40 << 20])));
    write("bomb.gz", &gzip("-9", &vec![0; 20 << 20]));
    write("tiny.gz", &gzip("-9", b"tiny"));
    write("empty.gz", &gzip("-9", b""));
    for cut in [3, 10, 11, 18, 500, member.len() / 2, member.len() - 8, member.len() - 1] {
        write(&format!("cut-{cut}.gz"), &member[..cut]);
    }
    for flipped in [0, 3, 12, 100, 5000, member.len() - 4] {
        let mut damaged = member.clone();
        damaged[flipped] ^= 0x10;
        write(&format!("flipped-{flipped}.gz"), &damaged);
    }
    let zlib: Vec<Vec<u8>> = plain.iter().map(|plain| zlib(plain)).collect();
    write("loose-object", &zlib[3]);
    let mut pack = [&b"PACK\0\0\0\x02"[..], &4u32.to_be_bytes()].concat();
    for (header, stream) in [(&[0x35][..], 0), (&[0xe5, 1, 0x83, 2], 1), (&[0x31], 2), (&[0x31], 4)]
    {
        pack.extend_from_slice(header);
        pack.extend_from_slice(&zlib[stream]);
    }
    write("a.pack", &[&pack[..], &[7; 20]].concat());
    write("cut.pack", &pack[..pack.len() / 2]);
    let mut document = b"%PDF-1.5\n".to_vec();
    for stream in &zlib {
        let dictionary = format!("1 0 obj <</Filter/FlateDecode/Length {}>>", stream.len());
        document.extend_from_slice(dictionary.as_bytes());
        document.extend_from_slice(b"\nstream\r\n");
        document.extend_from_slice(stream);
        document.extend_from_slice(b"\nendstream endobj\n");
    }
    write("a.pdf", &document);
    write("cut.pdf", &document[..document.len() / 3]);
    let names: Vec<String> = (0..6).map(|n| format!("{n}-6.gz")).collect();
    if has_program("zip") {
        for (n, plain) in plain.iter().enumerate() {
            write(&format!("member-{n}"), plain);
        }
        for (name, level) in [("fast.zip", "-1"), ("usual.zip", "-6"), ("best.jar", "-9")] {
            let mut zip = Command::new("zip");
            zip.current_dir(&tree).args(["-q", level, name, "plain", "member-1", "member-2"]);
            expect_code(zip.args(&names), 0);
        }
        let usual = fs::read(tree.join("usual.zip")).unwrap();
        write("twice.zip", &[&usual[..], &usual].concat());
        write("cut.zip", &usual[..usual.len() - 30]);
        for flipped in [4, 30, 2000, usual.len() - 20, usual.len() - 6, usual.len() - 100] {
            let mut damaged = usual.clone();
            damaged[flipped] ^= 1;
            write(&format!("flipped-{flipped}.zip"), &damaged);
        }
    }
    (folder, tree)
}

/// Packs `tree` and returns the bytes of the image, and how many streams were taken apart.
fn packed(tree: &Path, image: &Path, more: &[&str]) -> (u64, u64) {
    let mut command =
        shale(["create".as_ref(), tree.as_os_str(), "-o".as_ref(), image.as_os_str()]);
    let output = expect_code(command.args(["--json", "--force"]).args(more), 0);
    let json = String::from_utf8(output.stdout).unwrap();
    let number = |name: &str| -> u64 {
        let (_, after) = json.split_once(&format!("\"{name}\":")).expect("the name is there");
        let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    };
    (number("image_bytes"), number("streams"))
}

#[test]
fn compressed_files_come_back_bit_for_bit() {
    assert_compressed_files_come_back(&["-1"]);
}

/// Packs compressed files at these levels with and without streams, and reads them in every way.
pub fn assert_compressed_files_come_back(levels: &[&str]) {
    let (folder, tree) = compressed_tree();
    let expected = Manifest::of(&tree).unwrap();
    let image = folder.path().join("image.shale");
    for &level in levels {
        let (without, none) = packed(&tree, &image, &[level]);
        let (with, streams) = packed(&tree, &image, &[level, "--recompress"]);
        assert!(none == 0 && streams > 60, "{streams}");
        // Random digits cannot be stored in less.
        let (with, without) = (with - RANDOM_LEN, without - RANDOM_LEN);
        let factor = if level == "-6" { 2 } else { 1 };
        assert!(with * factor < without, "{level}: {with} of {without} bytes");
        run(["check".as_ref(), image.as_os_str()]);
        let bytes = fs::read(&image).unwrap();
        let second = Image::open(&bytes).expect("the second reader opens it");
        assert!(second.met().contains(&("chunk depth", 3)), "nothing is three layers deep");
        let target = folder.path().join(format!("extracted{level}"));
        extract(&image, &target);
        expected.assert_equals(&Manifest::of(&target).unwrap(), level);
    }
    // A report counts what is in the streams to the files.
    let report = folder.path().join("report.html");
    run(["report".as_ref(), image.as_os_str(), "-o".as_ref(), report.as_os_str()]);
    let page = fs::read_to_string(report).unwrap();
    let (_, root) = page.split_once("\"directories\":[[0,\"\",").expect("the root is listed");
    let stored = root.split(',').nth(1).and_then(|number| number.parse::<u64>().ok());
    let image_len = fs::metadata(&image).unwrap().len();
    assert!(
        stored.is_some_and(|stored| (image_len / 2..image_len).contains(&stored)),
        "{stored:?}"
    );
    if can_mount() {
        let mount = folder.path().join("mount");
        let mounted = Mount::new(&image, &mount, &[]);
        expected.assert_equals(&Manifest::of(&mount).unwrap(), "mounted");
        drop(mounted);
    }
    let archive = folder.path().join("archive.tar");
    run(["export".as_ref(), image.as_os_str(), "-o".as_ref(), archive.as_os_str()]);
    let again = folder.path().join("again.shale");
    create(&archive, &again, &["-1", "--recompress"]);
    let target = folder.path().join("extracted-again");
    extract(&again, &target);
    expected.assert_equals(&Manifest::of(&target).unwrap(), "through tar");
}

/// Packs with one thread and with three.
pub fn assert_threads_change_nothing() {
    let (folder, tree) = compressed_tree();
    let images = ["1", "3"].map(|threads| {
        let image = folder.path().join(format!("{threads}.shale"));
        create(&tree, &image, &["-6", "--recompress", "--threads", threads]);
        fs::read(image).unwrap()
    });
    assert!(images[0] == images[1]);
}

/// Appends files whose streams are there already, with and without streams.
pub fn assert_appends_continue() {
    let (folder, tree) = compressed_tree();
    let image = folder.path().join("image.shale");
    create(&tree, &image, &["-2", "--recompress", "--snapshot", "one"]);
    let first = Manifest::of(&tree).unwrap();
    let before = fs::metadata(&image).unwrap().len();
    let added = gzip("-6", &text(4000, 1));
    fs::write(tree.join("added.gz"), &added).unwrap();
    // What is in it is there already, and has to be rebuilt itself.
    fs::write(tree.join("added-around.gz"), gzip("-9", &fs::read(tree.join("3-6.gz")).unwrap()))
        .unwrap();
    let append = |more: &[&str]| {
        let mut command = shale(["append".as_ref(), image.as_os_str(), tree.as_os_str()]);
        expect_code(command.args(more), 0);
    };
    append(&["--recompress", "--no-append-index", "--snapshot", "two"]);
    let second = Manifest::of(&tree).unwrap();
    let growth = fs::metadata(&image).unwrap().len() - before;
    assert!(growth < added.len() as u64, "{growth} of {} bytes", added.len());
    fs::write(tree.join("plainly-added.gz"), gzip("-5", &text(3000, 20))).unwrap();
    append(&["--snapshot", "three"]);
    let third = Manifest::of(&tree).unwrap();
    run(["check".as_ref(), image.as_os_str()]);
    for (name, expected) in [("one", &first), ("two", &second), ("three", &third)] {
        let target = folder.path().join(name);
        fs::create_dir(&target).unwrap();
        let mut command = shale(["extract".as_ref(), image.as_os_str()]);
        expect_code(command.arg("-C").arg(&target).args(["--snapshot", name]), 0);
        expected.assert_equals(&Manifest::of(&target).unwrap(), name);
    }
}

/// Changes a byte in each of these parts of twelve, and reads all files and checks.
pub fn assert_damage_is_never_wrong_bytes(parts: &[usize]) {
    let (folder, tree) = compressed_tree();
    let image = folder.path().join("image.shale");
    create(&tree, &image, &["-2", "--recompress"]);
    let whole = fs::read(&image).unwrap();
    for part in parts {
        let mut damaged = whole.clone();
        damaged[whole.len() / 12 * part] ^= 4;
        fs::write(&image, &damaged).unwrap();
        let output = expect_code(&mut shale(["check".as_ref(), image.as_os_str()]), 4);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut failed = Vec::new();
        for entry in fs::read_dir(&tree).unwrap() {
            let name = entry.unwrap().file_name();
            let mut command = shale(["cat".as_ref(), image.as_os_str(), name.as_os_str()]);
            let output = command.output().unwrap();
            if output.status.success() {
                assert!(output.stdout == fs::read(tree.join(&name)).unwrap(), "{name:?}");
            } else {
                failed.push(name.into_string().unwrap());
            }
        }
        for name in failed.iter().filter(|_| said.contains("damaged file:")) {
            assert!(said.contains(name.as_str()), "{name} is not in: {said}");
        }
    }
}

/// Extracts the newest snapshot, and checks the image.
#[track_caller]
fn assert_holds(image: &Path, target: &Path, expected: &Manifest) {
    run(["check".as_ref(), image.as_os_str()]);
    extract(image, target);
    expected.assert_equals(&Manifest::of(target).unwrap(), "the copy");
}

/// Compacts and merges images with streams.
pub fn assert_copies_keep_what_is_rebuilt() {
    let (folder, tree) = compressed_tree();
    let path = |name: &str| folder.path().join(name);
    let image = path("image.shale");
    create(&tree, &image, &["-2", "--recompress", "--snapshot", "one"]);
    let first = Manifest::of(&tree).unwrap();
    for entry in fs::read_dir(&tree).unwrap() {
        let entry = entry.unwrap().path();
        if entry.extension().is_some_and(|extension| extension == "zip") {
            fs::remove_file(entry).unwrap();
        }
    }
    fs::write(tree.join("large.tgz"), gzip("-6", &text(3000, 77))).unwrap();
    let second = Manifest::of(&tree).unwrap();
    let mut command = shale(["append".as_ref(), image.as_os_str(), tree.as_os_str()]);
    expect_code(command.args(["--recompress", "--snapshot", "two"]), 0);

    let copy = |from: &Path, to: &Path, more: &[&str]| {
        let mut command = shale(["compact".as_ref(), from.as_os_str(), "-o".as_ref()]);
        expect_code(command.arg(to).args(more), 0);
    };
    copy(&image, &path("both.shale"), &[]);
    copy(&image, &path("newest.shale"), &["--keep", "two"]);
    copy(&path("both.shale"), &path("again.shale"), &[]);
    assert!(fs::read(path("both.shale")).unwrap() == fs::read(path("again.shale")).unwrap());
    assert_holds(&path("newest.shale"), &path("newest"), &second);
    assert_holds(&path("both.shale"), &path("both"), &second);
    let target = path("both-first");
    fs::create_dir(&target).unwrap();
    let mut command = shale(["extract".as_ref(), path("both.shale").as_os_str()]);
    expect_code(command.arg("-C").arg(&target).args(["--snapshot", "one"]), 0);
    first.assert_equals(&Manifest::of(&target).unwrap(), "the first snapshot");
    let len = |name: &str| fs::metadata(path(name)).unwrap().len();
    assert!(len("newest.shale") < len("both.shale"));

    // What a stream in one image holds is a file that is rebuilt in the other one.
    let around = path("around");
    fs::create_dir(&around).unwrap();
    let inner = fs::read(tree.join("3-6.gz")).unwrap();
    fs::write(around.join("around.gz"), gzip("-9", &inner)).unwrap();
    fs::write(around.join("1-6.gz"), fs::read(tree.join("1-6.gz")).unwrap()).unwrap();
    create(&around, &path("around.shale"), &["-2", "--recompress"]);
    create(&around, &path("plain.shale"), &["-6"]);
    let merged = path("merged.shale");
    let part = |name: &str, prefix: &str| format!("{}=/{prefix}", path(name).display());
    let parts = ["newest.shale", "around.shale", "plain.shale"];
    let parts = parts.map(|name| part(name, name.trim_end_matches(".shale")));
    let mut command = shale(["merge", &parts[0], &parts[1], &parts[2], "-o"]);
    expect_code(command.arg(&merged), 0);
    run(["check".as_ref(), merged.as_os_str()]);
    let target = path("merged");
    extract(&merged, &target);
    second.assert_equals(&Manifest::of(&target.join("newest")).unwrap(), "the first part");
    let around = Manifest::of(&around).unwrap();
    for name in ["around", "plain"] {
        around.assert_equals(&Manifest::of(&target.join(name)).unwrap(), name);
    }
    assert!(fs::metadata(&merged).unwrap().len() < len("newest.shale") * 3 / 2);
}
