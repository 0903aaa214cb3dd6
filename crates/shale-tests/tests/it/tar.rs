//! Promise: what is in a tar archive is in the image, whoever wrote it; and what is in an image is
//! in the archive that is written of it, whoever reads that.

use shale_tests::command::{create, expect_code, export, has_program, is_root, run, shale};
use shale_tests::image::manifest_at as of_image;
use shale_tests::keep::{names_apart, without_holes, without_kinds};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{make_for_others, tiny_tree};
use shale_tests::places;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn samples() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tar");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root).unwrap() {
        let folder = folder.unwrap().path();
        if folder.is_dir() {
            found.extend(std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()));
        }
    }
    found.sort();
    found
}

/// What both can be held to: directories that are not in an archive are made when it is extracted.
fn without_implied(manifest: Manifest, named: impl Fn(&[u8]) -> bool) -> Manifest {
    let records = manifest
        .records
        .into_iter()
        .filter(|(path, record)| (record.kind != 'd' || named(path)) && !path.is_empty());
    Manifest { records: records.collect() }
}

/// Samples that a program reads otherwise than they were meant, and why.
const GNU_IS_WRONG: &[(&str, &str)] = &[
    ("long-paths/star.tar", "it does not know the prefix of the first format of star"),
    ("sparse-files/star.tar", "it does not know holes of the first format of star"),
    ("xattr/acl.tar", "it asks this machine for the number of a group by name"),
    ("xattr/xattr-libarchive.tar", "it does not know these records"),
];
const BSDTAR_IS_WRONG: &[(&str, &str)] = &[
    ("long-paths/star.tar", "it does not know the prefix of the first format of star"),
    ("sparse-files/star.tar", "it does not know holes of star"),
    ("sparse-files/xstar.tar", "it does not know holes of star"),
    ("xattr/acl.tar", "it asks this machine for the number of a group by name"),
    ("volume-label/gnu.tar", "it extracts the label as a file"),
    ("volume-label/pax.tar", "it extracts the label as a file"),
    ("volume-label/star.tar", "it extracts the label as a file"),
];

#[test]
fn every_sample_is_read_as_others_read_it_or_refused_with_a_reason() {
    assert_eq!(samples().len(), 47);
    let place = places::disk();
    let root = is_root();
    let mut compared = 0;
    for sample in samples() {
        let name = sample.iter().rev().take(2).map(|part| part.to_str().unwrap());
        let name = name.collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("/");
        let path = place.path().join("sample.shale");
        let mut command = shale([OsStr::new("create"), sample.as_os_str(), OsStr::new("-1fo")]);
        command.arg(&path);
        if name.starts_with("multi-volume/") {
            let output = expect_code(&mut command, 1);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(text.contains("at byte") && !path.exists(), "{name}: {text}");
            assert!(text.contains("volume of") || text.contains("was cut"), "{name}: {text}");
            continue;
        }
        expect_code(&mut command, 0);
        let found = of_image(&path);
        std::fs::remove_file(&path).unwrap();
        if !root {
            println!("skipped: owners of {name} can only be compared by root");
            continue;
        }
        let others = [("tar", GNU_IS_WRONG), ("bsdtar", BSDTAR_IS_WRONG)];
        for (program, wrong) in others {
            if !has_program(program) {
                println!("skipped: {program} is missing");
                continue;
            }
            if let Some((_, why)) = wrong.iter().find(|(sample, _)| *sample == name) {
                println!("{program} and {name}: {why}");
                continue;
            }
            let folder = place.path().join("extracted");
            std::fs::create_dir(&folder).unwrap();
            extract_by(program, &sample, &folder);
            let expected = Manifest::of(&folder).unwrap();
            let in_archive = |_: &[u8]| false;
            without_holes(without_implied(expected, in_archive)).assert_equals(
                &without_holes(without_implied(found.clone(), in_archive)),
                &format!("{program} and {name}"),
            );
            std::fs::remove_dir_all(&folder).unwrap();
            compared += 1;
        }
    }
    println!("{compared} comparisons");
}

fn extract_by(program: &str, archive: &Path, folder: &Path) {
    let mut command = Command::new(program);
    if program == "tar" {
        command.args(["--xattrs", "--xattrs-include=*", "--acls"]);
    }
    command.args(["--numeric-owner", "-xpf"]).arg(archive).arg("-C").arg(folder);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
}

fn nasty(folder: &Path) -> Manifest {
    make_for_others(&folder.join("source"), 3, 3000)
}

/// tar has no sockets.
fn without_sockets(manifest: Manifest) -> Manifest {
    without_kinds(manifest, "s")
}

#[test]
fn the_nasty_tree_comes_back_through_tar() {
    for (place, folder) in places::all() {
        let expected = without_sockets(nasty(folder.path()));
        let path = |name: &str| folder.path().join(name);
        create(&path("source"), &path("first.shale"), &["-1"]);
        let mut export = shale(["export"]);
        export.arg(path("first.shale")).arg("-o").arg(path("nasty.tar"));
        let output = expect_code(&mut export, 3);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("tar has no sockets"), "{text}");
        create(&path("nasty.tar"), &path("second.shale"), &["-1"]);
        let found = of_image(&path("second.shale"));
        expected.assert_equals(&found, &format!("tar to shale, {place}"));

        // Every program that reads tar finds the same in it.
        for program in ["tar", "bsdtar"] {
            if !has_program(program) {
                println!("skipped: {program} is missing");
                continue;
            }
            let target = path(program);
            std::fs::create_dir(&target).unwrap();
            extract_by(program, &path("nasty.tar"), &target);
            let read = Manifest::of(&target).unwrap();
            let what = format!("{program}, {place}");
            let [expected, read] = [expected.clone(), read].map(without_holes);
            if program == "bsdtar" {
                let [expected, read] = [expected, read].map(as_libarchive);
                expected.assert_equals(&read, &what);
            } else {
                expected.assert_equals(&read, &what);
            }
        }
        python_agrees(&path("nasty.tar"), &expected);
    }
}

/// Python's tarfile sees the same names, sizes, owners and contents.
fn python_agrees(archive: &Path, expected: &Manifest) {
    if !has_program("python3") {
        println!("skipped: python3 is missing");
        return;
    }
    let script = "\
import sys, tarfile, os
out = sys.stdout.buffer
with tarfile.open(sys.argv[1], errors='surrogateescape') as archive:
    for m in archive:
        name = m.name if m.name != '.' else ''
        out.write(os.fsencode(name).hex().encode())
        out.write(f' {m.mode:o} {m.uid} {m.gid} {m.size if m.isreg() else 0}\\n'.encode())
";
    let mut python = Command::new("python3");
    let output = expect_code(python.args(["-c", script]).arg(archive), 0);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut count = 0;
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let path = unhex(fields[0]);
        let record = &expected.records.get(&path);
        let record = record.unwrap_or_else(|| panic!("{} is not there", path.escape_ascii()));
        if record.first_name == path {
            let owner = (fields[2].parse().unwrap(), fields[3].parse().unwrap());
            assert_eq!(record.owner, owner, "{}", path.escape_ascii());
            assert_eq!(format!("{:o}", record.mode), fields[1], "{}", path.escape_ascii());
            if record.kind == '-' {
                assert_eq!(record.len.to_string(), fields[4], "{}", path.escape_ascii());
            }
        }
        count += 1;
    }
    assert_eq!(count, expected.records.len());
}

/// Python takes the last path that an extended header says, and gives an inode the owner and time
/// of its last name.
#[test]
fn python_extracts_holes_with_long_names_and_owners_beyond_21_bits() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    if !has_program("python3") {
        println!("skipped: python3 is missing");
        return;
    }
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("s")).unwrap();
    let long = "n".repeat(150);
    let sparse = std::fs::File::create(path("s").join(&long)).unwrap();
    sparse.write_all_at(b"in the middle", 5 << 20).unwrap();
    sparse.set_len(9 << 20).unwrap();
    std::fs::write(path("s/one"), "two names").unwrap();
    if is_root() {
        std::os::unix::fs::chown(path("s/one"), Some(3_000_000_000), Some(2_147_483_648)).unwrap();
    }
    std::fs::hard_link(path("s/one"), path("s/two")).unwrap();
    create(&path("s"), &path("x.shale"), &["-1"]);
    export(&path("x.shale"), &path("x.tar"), &[], 0);
    let script = "\
import sys, tarfile
trust = {'filter': 'fully_trusted'} if hasattr(tarfile, 'fully_trusted_filter') else {}
with tarfile.open(sys.argv[1]) as archive:
    archive.extractall(sys.argv[2], **trust)
";
    let mut python = Command::new("python3");
    expect_code(python.args(["-c", script]).args([path("x.tar"), path("out")]), 0);
    let (before, after) = (path("s").join(&long), path("out").join(&long));
    assert!(std::fs::read(before).unwrap() == std::fs::read(after).unwrap());
    for name in ["one", "two"] {
        let [before, after] = ["s", "out"].map(|tree| path(tree).join(name).metadata().unwrap());
        let owner = |m: &std::fs::Metadata| (m.uid(), m.gid(), m.nlink());
        assert_eq!(owner(&after), owner(&before), "{name}");
        // Python's times are floating point numbers.
        let nsec = |m: &std::fs::Metadata| {
            i128::from(m.mtime()) * 1_000_000_000 + i128::from(m.mtime_nsec())
        };
        assert!((nsec(&after) - nsec(&before)).abs() < 1000, "{name}");
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// libarchive takes the fraction of a time before 1970 for one away from zero, both ways, and does
/// not restore the time of the top.
fn as_libarchive(mut manifest: Manifest) -> Manifest {
    manifest.records.remove(&Vec::new());
    for record in
        manifest.records.values_mut().filter(|record| record.mtime.0 < 1 && record.mtime.1 > 0)
    {
        record.mtime = (0, 0);
    }
    manifest
}

#[test]
fn archives_of_other_programs_come_in_whole() {
    let folder = places::disk();
    let expected = without_sockets(nasty(folder.path()));
    let path = |name: &str| folder.path().join(name);
    let writers: &[(&str, &[&str])] = &[
        ("tar", &["--xattrs", "--xattrs-include=*", "--acls", "--format=pax", "--sparse"]),
        ("tar", &["--xattrs", "--xattrs-include=*", "--acls", "--format=pax"]),
        ("bsdtar", &["--format=pax", "--xattrs", "--acls"]),
    ];
    for (index, (program, options)) in writers.iter().enumerate() {
        if !has_program(program) {
            println!("skipped: {program} is missing");
            continue;
        }
        let mut command = Command::new(program);
        command.arg("-c").args(*options).arg("-f").arg(path("x.tar"));
        command.arg("-C").arg(path("source")).arg(".");
        let output = command.output().unwrap();
        println!("{program}: {}", String::from_utf8_lossy(&output.stderr));
        let target = path(&format!("{index}.shale"));
        create(&path("x.tar"), &target, &["-1"]);
        let found = of_image(&target);
        let mut both =
            [expected.clone(), found].map(without_holes).map(|manifest| names_apart(manifest, "p"));
        if *program == "bsdtar" {
            both = both.map(as_libarchive);
        }
        both[0].assert_equals(&both[1], &format!("{program} {options:?}"));
    }
}

#[test]
fn compressed_archives_and_pipes_are_the_same_tree() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("source")).unwrap();
    make(&tiny_tree(9), &path("source"), 9).unwrap();
    create(&path("source"), &path("first.shale"), &["-1"]);
    let expected = without_sockets(of_image(&path("first.shale")));
    for ending in ["tar", "tar.gz", "tar.xz", "tar.zst", "tar.bz2", "tar.lz4", "tar.lzma"] {
        let archive = path(&format!("x.{ending}"));
        let mut export = shale(["export"]);
        expect_code(export.arg(path("first.shale")).arg("-o").arg(&archive), 3);
        let image = path(&format!("{ending}.shale"));
        create(&archive, &image, &["-1"]);
        expected.assert_equals(&of_image(&image), ending);

        let piped = path(&format!("{ending}-piped.shale"));
        let mut command = shale(["create", "-1", "-", "-o"]);
        command.arg(&piped).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&std::fs::read(&archive).unwrap()).unwrap();
        assert!(child.wait().unwrap().success());
        expected.assert_equals(&of_image(&piped), &format!("{ending} through a pipe"));
    }
}

#[test]
fn archives_that_differ_anywhere_are_images_that_differ_by_name() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("source")).unwrap();
    std::fs::write(path("source/large"), vec![1; 5 << 20]).unwrap();
    create(&path("source"), &path("first.shale"), &["-1"]);
    shale_tests::command::export(&path("first.shale"), &path("x.tar"), &[], 0);
    let same = std::fs::read(path("x.tar")).unwrap();
    let mut other = same.clone();
    other[3_000_001] ^= 1;
    // The same through a file, through a pipe and as a file for standard input.
    let pack = |bytes: &[u8], how: &str| {
        let (archive, image) = (path("y.tar"), path("y.shale"));
        std::fs::write(&archive, bytes).unwrap();
        let mut command = shale(["create", "-f", "-1", "-o"]);
        command.arg(&image).arg(if how == "file" { archive.as_os_str() } else { OsStr::new("-") });
        command.stdin(match how {
            "pipe" => Stdio::piped(),
            "input" => Stdio::from(std::fs::File::open(&archive).unwrap()),
            _ => Stdio::null(),
        });
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if let Some(mut pipe) = child.stdin.take() {
            pipe.write_all(bytes).unwrap();
        }
        assert!(child.wait().unwrap().success(), "{how}");
        std::fs::read(image).unwrap()
    };
    let id = |image: &[u8]| image[32..48].to_vec();
    let first = pack(&same, "file");
    for how in ["pipe", "input"] {
        assert!(pack(&same, how) == first, "{how}");
        assert_ne!(id(&pack(&other, how)), id(&first), "{how}");
    }
    assert_ne!(id(&pack(&other, "file")), id(&first));
    // Whatever has to be read at several places can come through a pipe for that, too.
    shale_tests::command::export(&path("first.shale"), &path("x.zip"), &[], 0);
    assert!(pack(&std::fs::read(path("x.zip")).unwrap(), "pipe").len() > 1000);
}

#[test]
fn later_entries_win_links_keep_what_they_met_and_archives_follow_each_other() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("s")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(path("s").join(name), text).unwrap();
    let tar = |more: &[&str]| {
        let mut command = Command::new("tar");
        expect_code(command.arg("-C").arg(path("s")).args(more), 0);
    };
    let (one, two) = (path("one.tar"), path("two.tar"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    write("a", "first");
    std::fs::hard_link(path("s/a"), path("s/linked")).unwrap();
    tar(&["-cf", one, "a", "linked"]);
    std::fs::remove_file(path("s/a")).unwrap();
    write("a", "second");
    tar(&["-rf", one, "a"]);
    write("b", "in the other archive");
    tar(&["-cf", two, "b"]);
    let both = [std::fs::read(one).unwrap(), std::fs::read(two).unwrap()].concat();
    std::fs::write(path("both.tar"), both).unwrap();
    create(&path("both.tar"), &path("x.shale"), &[]);
    let image = path("x.shale");
    let cat = |name: &str| run([OsStr::new("cat"), image.as_os_str(), OsStr::new(name)]).stdout;
    assert_eq!(cat("a"), b"second");
    assert_eq!(cat("linked"), b"first");
    assert_eq!(cat("b"), b"in the other archive");
    let manifest = of_image(&image);
    assert!(manifest.records.values().all(|record| record.link_count == 1));
}

#[test]
fn bad_archives_end_in_a_message_and_no_image() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("s")).unwrap();
    std::fs::write(path("s/file"), vec![7u8; 300_000]).unwrap();
    std::fs::write(path("s/big"), vec![8u8; 3_000_000]).unwrap();
    create(&path("s"), &path("x.shale"), &[]);
    run([
        OsStr::new("export"),
        path("x.shale").as_os_str(),
        OsStr::new("-o"),
        path("x.tar").as_os_str(),
    ]);
    let good = std::fs::read(path("x.tar")).unwrap();
    let refuse = |bytes: &[u8], what: &str, expected: &str| {
        std::fs::write(path("bad.tar"), bytes).unwrap();
        let mut command = shale(["create"]);
        command.arg(path("bad.tar")).arg("-o").arg(path("bad.shale")).arg("--skip-unreadable");
        let output = expect_code(&mut command, 1);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(expected), "{what}: {text}");
        assert!(!path("bad.shale").exists(), "{what}");
    };
    let end = good.len() - good.iter().rev().position(|&b| b != 0).unwrap();
    for cut in [700, 5_000, 600_000, end - 10] {
        refuse(&good[..cut], "cut", "at byte");
    }
    // Between two entries nobody can tell a cut archive from one that its writer did not end.
    std::fs::write(path("bad.tar"), &good[..end.next_multiple_of(512)]).unwrap();
    let mut command = shale(["create", "-f"]);
    let output = expect_code(command.arg(path("bad.tar")).arg("-o").arg(path("no-end.shale")), 3);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("it ends without the blocks of zeroes"), "{text}");
    let mut flipped = good.clone();
    flipped[1024 + 3] ^= 1;
    refuse(&flipped, "flipped", "its checksum is wrong");
    let mut packed = std::process::Command::new("gzip");
    if has_program("gzip") {
        let output = expect_code(packed.arg("-c").arg(path("x.tar")), 0);
        refuse(&output.stdout[..output.stdout.len() - 9], "cut gzip", "truncated");
    }
}
