//! Promise: images and archives of other formats come in as their own programs unpack them, and an
//! image packed anew is the same tree.

use shale_tests::command::{create, expect_code, has_program, run, shale};
use shale_tests::image::manifest_at as of_image;
use shale_tests::keep::{as_squashfs, names_apart, without_holes};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{make_for_others, tiny_tree};
use shale_tests::places;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

fn nasty(folder: &Path) -> Manifest {
    make_for_others(&folder.join("source"), 7, 50)
}

/// What mksquashfs keeps: of times the lower 32 bits; pipes and sockets of two names are two.
fn by_mksquashfs(mut manifest: Manifest) -> Manifest {
    for record in manifest.records.values_mut() {
        record.mtime = (i64::from(record.mtime.0 as u32), 0);
    }
    names_apart(as_squashfs(manifest), "lpscb")
}

#[test]
fn squashfs_of_every_compressor_is_read_as_it_was_packed() {
    if !has_program("mksquashfs") {
        println!("skipped: mksquashfs is missing");
        return;
    }
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let expected = by_mksquashfs(nasty(folder.path()));
    let sets: &[&[&str]] = &[
        &["-comp", "gzip"],
        &["-comp", "xz", "-Xbcj", "x86"],
        &["-comp", "lzo"],
        &["-comp", "lz4", "-Xhc"],
        &["-comp", "zstd", "-b", "4096"],
        &["-comp", "lzma"],
        &["-noI", "-noD", "-noF", "-noX", "-noId"],
        &["-comp", "zstd", "-no-fragments", "-b", "1M"],
        &["-comp", "zstd", "-always-use-fragments", "-no-duplicates"],
    ];
    let mut read = 0;
    for set in sets {
        let squashfs = path("x.squashfs");
        let mut command = Command::new("mksquashfs");
        command.arg(path("source")).arg(&squashfs).args(["-noappend", "-no-progress"]).args(*set);
        let output = command.output().unwrap();
        if !output.status.success() {
            println!("skipped: this mksquashfs has no {set:?}");
            continue;
        }
        create(&squashfs, &path("x.shale"), &["-f", "-1"]);
        let found = by_mksquashfs(of_image(&path("x.shale")));
        expected.assert_equals(&found, &format!("{set:?}"));
        read += 1;
    }
    assert!(read >= 4, "only {read} kinds of SquashFS could be made");
}

#[test]
fn holes_of_squashfs_stay_holes() {
    if !has_program("mksquashfs") {
        println!("skipped: mksquashfs is missing");
        return;
    }
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("s")).unwrap();
    let file = std::fs::File::create(path("s/sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"in the middle", 5 << 20).unwrap();
    file.set_len(10 << 20).unwrap();
    let mut command = Command::new("mksquashfs");
    command.arg(path("s")).arg(path("x.squashfs")).args(["-no-progress", "-b", "131072"]);
    expect_code(&mut command, 0);
    create(&path("x.squashfs"), &path("x.shale"), &[]);
    let found = of_image(&path("x.shale"));
    let record = &found.records[&b"sparse"[..]];
    assert_eq!((record.len, &record.data[..]), (10 << 20, &[(5 << 20, (5 << 20) + 131_072)][..]));
}

#[test]
fn an_image_packed_anew_is_the_same_tree() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    nasty(folder.path());
    create(&path("source"), &path("first.shale"), &["-1"]);
    let expected = of_image(&path("first.shale"));
    let mut rewrite = shale(["rewrite", "-7"]);
    expect_code(rewrite.arg(path("first.shale")).arg("-o").arg(path("second.shale")), 0);
    expected.assert_equals(&of_image(&path("second.shale")), "rewritten");
    run(["check".as_ref(), path("second.shale").as_os_str()]);
    // A part of it, and something beside it.
    create(&path("first.shale"), &path("part.shale"), &["--include=/links/***", "--exclude=*"]);
    let part = of_image(&path("part.shale"));
    assert!(part.records.len() > 5);
    assert!(part.records.keys().all(|path| path.is_empty() || path.starts_with(b"links")));
}

#[test]
fn zip_comes_in_as_unzip_unpacks_it() {
    if !has_program("zip") || !has_program("unzip") {
        println!("skipped: zip or unzip is missing");
        return;
    }
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let source = path("source");
    std::fs::create_dir(&source).unwrap();
    make(&tiny_tree(3), &source, 3).unwrap();
    for gone in ["fifo", "socket", "null", "loop"] {
        let _ = std::fs::remove_file(source.join(gone));
    }
    let text: String = (0..400_000).map(|n| format!("{n} ")).collect();
    std::fs::write(source.join("large"), text).unwrap();
    let mut zip = Command::new("zip");
    expect_code(zip.args(["-qry", "../x.zip", "."]).current_dir(&source), 0);
    std::fs::create_dir(path("unpacked")).unwrap();
    let mut unzip = Command::new("unzip");
    expect_code(unzip.args(["-qXK"]).arg(path("x.zip")).arg("-d").arg(path("unpacked")), 0);
    create(&path("x.zip"), &path("x.shale"), &[]);
    let plain = |manifest: Manifest| {
        let mut manifest = names_apart(without_holes(manifest), "-l");
        manifest.records.remove(&Vec::new());
        manifest.records.values_mut().filter(|r| r.kind == 'l').for_each(|r| r.mtime = (0, 0));
        manifest
    };
    let expected = plain(Manifest::of(&path("unpacked")).unwrap());
    expected.assert_equals(&plain(of_image(&path("x.shale"))), "zip");

    let mut bytes = std::fs::read(path("x.zip")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(path("bad.zip"), &bytes).unwrap();
    let mut command = shale(["create"]);
    expect_code(command.arg(path("bad.zip")).arg("-o").arg(path("bad.shale")), 1);
    std::fs::write(path("cut.zip"), &bytes[..bytes.len() - 30]).unwrap();
    let mut command = shale(["create"]);
    let output = expect_code(command.arg(path("cut.zip")).arg("-o").arg(path("bad.shale")), 1);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("it was cut"), "{text}");
    assert!(!path("bad.shale").exists());
}

/// The tree as formats keep it that have neither attributes nor fractions of seconds.
fn plainly(manifest: Manifest) -> Manifest {
    let mut manifest = without_holes(manifest);
    for record in manifest.records.values_mut() {
        record.mtime.1 = 0;
        record.xattrs.clear();
    }
    manifest
}

#[test]
fn cpio_of_every_dialect_comes_in_as_it_was_packed() {
    if !has_program("cpio") || !has_program("bsdtar") {
        println!("skipped: cpio or bsdtar is missing");
        return;
    }
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let source = path("source");
    std::fs::create_dir(&source).unwrap();
    make(&tiny_tree(5), &source, 5).unwrap();
    let text: String = (0..400_000).map(|n| format!("{n} ")).collect();
    std::fs::write(source.join("large"), text).unwrap();
    // Its minor number does not fit into what the older dialects have.
    for gone in ["socket", "loop"] {
        let _ = std::fs::remove_file(source.join(gone));
    }
    let expected = plainly(Manifest::of(&source).unwrap());
    let dialects = [
        "find . | cpio -o -H newc",
        "find . | cpio -o -H crc",
        "find . | cpio -o -H odc",
        "find . | cpio -o -H bin",
        "bsdtar --format newc -cf - .",
        "bsdtar --format odc -cf - .",
        "find . | cpio -o -H newc | gzip",
    ];
    for dialect in dialects {
        let mut sh = Command::new("sh");
        let script = format!("set -e; ({dialect}) > ../x.cpio 2>../log");
        expect_code(sh.args(["-c", &script]).current_dir(&source), 0);
        create(&path("x.cpio"), &path("x.shale"), &["-f1"]);
        expected.assert_equals(&plainly(of_image(&path("x.shale"))), dialect);
    }
}

#[test]
fn packages_and_rare_compressions_come_in_as_their_programs_unpack_them() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let source = path("source");
    std::fs::create_dir_all(source.join("DEBIAN")).unwrap();
    let control =
        "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n";
    std::fs::write(source.join("DEBIAN/control"), control).unwrap();
    std::fs::create_dir_all(source.join("usr/share")).unwrap();
    let text: String = (0..200_000u64).map(|n| format!("{} ", n * n % 7919)).collect();
    std::fs::write(source.join("usr/share/text"), &text).unwrap();
    let pack = |program: &str, script: &str, name: &str| {
        if !has_program(program) {
            println!("skipped: {program} is missing");
            return;
        }
        let mut sh = Command::new("sh");
        expect_code(sh.args(["-c", script]).current_dir(folder.path()), 0);
        create(&path(name), &path("x.shale"), &["-f1"]);
        let found = of_image(&path("x.shale"));
        let text_found = &found.records[&b"usr/share/text"[..]];
        assert_eq!(text_found.len, text.len() as u64, "{name}");
        shale_tests::command::extract(&path("x.shale"), &path("out"));
        assert!(std::fs::read_to_string(path("out/usr/share/text")).unwrap() == text, "{name}");
        std::fs::remove_dir_all(path("out")).unwrap();
    };
    for compression in ["gzip", "xz", "zstd", "none"] {
        let script = format!("dpkg-deb -Z{compression} --root-owner-group -b source x.deb");
        pack("dpkg-deb", &script, "x.deb");
    }
    pack("compress", "tar -C source -cf - usr | compress -c > x.tar.Z", "x.tar.Z");
    pack("compress", "tar -C source -cf - usr | compress -c -b 12 > x.tar.Z", "x.tar.Z");
    pack("lzip", "tar -C source -cf - usr | lzip > x.tar.lz", "x.tar.lz");
    pack("brotli", "tar -C source -cf - usr | brotli -c > x.tar.br", "x.tar.br");
}

#[test]
fn damaged_images_are_errors_and_leave_nothing() {
    if !has_program("mksquashfs") {
        println!("skipped: mksquashfs is missing");
        return;
    }
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("s")).unwrap();
    make(&tiny_tree(4), &path("s"), 4).unwrap();
    let mut command = Command::new("mksquashfs");
    expect_code(command.arg(path("s")).arg(path("x.squashfs")).arg("-no-progress"), 0);
    let good = std::fs::read(path("x.squashfs")).unwrap();
    let used = u64::from_le_bytes(good[40..48].try_into().unwrap()) as usize;
    let pack = |bytes: &[u8]| {
        std::fs::write(path("bad.squashfs"), bytes).unwrap();
        let mut command = shale(["create", "-f", "-1", "--no-verify"]);
        let output = command.arg(path("bad.squashfs")).arg("-o").arg(path("bad.shale")).output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
        assert!(!text.contains("panicked"), "{text}");
        output.status.code() == Some(0)
    };
    assert!(!pack(&good[..used - 1]) && !pack(&good[..200]), "cut");
    let mut refused = 0;
    for at in (0..used).step_by(used / 60 + 1) {
        let mut bytes = good.clone();
        bytes[at] ^= 0xff;
        refused += u32::from(!pack(&bytes));
    }
    assert!(refused > 10, "{refused} refused");
}

/// Images of one tree, and what it is.
fn dwarfs_images() -> Vec<std::path::PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // More of the same may lie beside the project.
    let folders = ["testdata/dwarfs", "../shared/testdata/dwarfs/made"];
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(root.join(folder)).ok());
    let files = files.flatten().map(|file| file.unwrap().path());
    files.filter(|path| path.extension() == Some(OsStr::new("dwarfs"))).collect()
}

#[test]
fn dwarfs_of_every_codec_is_the_tree_that_was_packed() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/dwarfs");
    let listed = std::fs::read_to_string(testdata.join("manifest.txt")).unwrap();
    let sums = std::fs::read_to_string(testdata.join("sha256.txt")).unwrap();
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let images = dwarfs_images();
    assert!(images.len() >= 6);
    for dwarfs in images {
        let name = dwarfs.file_name().unwrap().to_str().unwrap().to_owned();
        create(&dwarfs, &path("x.shale"), &["-f", "-1", "--keep-times=atime,ctime"]);
        let found = of_image(&path("x.shale"));
        let mut count = 0;
        for line in listed.lines() {
            let (line, target) =
                line.split_once(" -> ").map_or((line, None), |(l, t)| (l, Some(t)));
            let (fields, file) = line.split_once("./").unwrap_or((line.trim_end_matches('.'), ""));
            let fields: Vec<&str> = fields.split_whitespace().collect();
            let record = found.records.get(file.as_bytes());
            let record = record.unwrap_or_else(|| panic!("{name}: {file} is missing"));
            count += 1;
            let kind = if record.kind == '-' { "f".to_owned() } else { record.kind.to_string() };
            assert_eq!(kind, fields[0], "{name}: {file}");
            // Links have no mode in the list.
            let rest = if record.kind == 'l' { &fields[1..] } else { &fields[2..] };
            if record.kind != 'l' {
                assert_eq!(format!("{:o}", record.mode), fields[1], "{name}: {file}");
            }
            assert_eq!(format!("{} {}", record.owner.0, record.owner.1), rest[..2].join(" "));
            let (sec, nsec) = rest[2].split_once('.').unwrap();
            assert_eq!(record.mtime.0.to_string(), sec, "{name}: {file}");
            if name.contains("ns") {
                assert_eq!(format!("{:09}", record.mtime.1), nsec[..9], "{name}: {file}");
            }
            if record.kind == '-' {
                assert_eq!(format!("{} {}", record.link_count, record.len), rest[3..].join(" "));
            }
            if let Some(target) = target {
                assert_eq!(record.content, target.as_bytes(), "{name}: {file}");
            }
        }
        assert_eq!(count, found.records.len(), "{name}");
        if !has_program("sha256sum") {
            println!("skipped: sha256sum is missing");
            continue;
        }
        let target = path("out");
        shale_tests::command::extract(&path("x.shale"), &target);
        let mut check = Command::new("sha256sum");
        check.args(["--check", "--quiet", "-"]).current_dir(&target);
        check.stdin(std::process::Stdio::piped());
        let mut child = check.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), sums.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{name}: contents differ");
        std::fs::remove_dir_all(&target).unwrap();
    }
}

/// Reads the images in the folder `DWARFS_IMAGES`, such as those that DwarFS keeps of its former
/// versions to test itself. They are not part of this project, so this runs by hand only.
#[test]
fn dwarfs_of_other_versions_is_read() {
    let Some(upstream) = std::env::var_os("DWARFS_IMAGES") else { return };
    let files = std::fs::read_dir(upstream).expect("DWARFS_IMAGES is a folder");
    let folder = places::disk();
    let mut trees = Vec::new();
    for file in files {
        let dwarfs = file.unwrap().path();
        let image = folder.path().join("x.shale");
        create(&dwarfs, &image, &["-f", "-1"]);
        run(["check".as_ref(), image.as_os_str()]);
        if dwarfs.file_name().unwrap().to_str().unwrap().starts_with("compat-") {
            // One tree; the first version has no devices and pipes of it.
            let records = of_image(&image).records.into_iter();
            let records = records.filter(|(_, record)| matches!(record.kind, '-' | 'd' | 'l'));
            let contents = records.map(|(path, record)| (path, record.kind, record.content));
            trees.push(contents.collect::<Vec<_>>());
        }
    }
    assert!(trees.windows(2).all(|pair| pair[0] == pair[1]), "versions differ");
}

#[test]
fn damaged_dwarfs_is_an_error_and_leaves_nothing() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/dwarfs");
    let good = std::fs::read(testdata.join("categories.dwarfs")).unwrap();
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    create(&testdata.join("categories.dwarfs"), &path("whole.shale"), &[]);
    let whole = of_image(&path("whole.shale"));
    let refused = std::cell::Cell::new(0);
    let refuse = |bytes: &[u8], what: &str| {
        std::fs::write(path("bad.dwarfs"), bytes).unwrap();
        let mut command = shale(["create", "-1", "--skip-unreadable"]);
        let output = command.arg(path("bad.dwarfs")).arg("-o").arg(path("x.shale")).output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("panicked"), "{what}: {text}");
        if output.status.code() == Some(0) {
            // There are bytes that nothing is made of, such as second sums.
            whole.assert_equals(&of_image(&path("x.shale")), what);
        } else {
            assert!(matches!(output.status.code(), Some(1 | 3)), "{what}: {text}");
            refused.set(refused.get() + 1);
        }
        let _ = std::fs::remove_file(path("x.shale"));
    };
    for cut in [good.len() - 1, good.len() / 2, 70] {
        refuse(&good[..cut], &format!("cut to {cut}"));
    }
    for at in (60..good.len() - 100).step_by(good.len() / 25) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        refuse(&bytes, &format!("byte {at}"));
    }
    assert!(refused.get() > 20, "{} refused", refused.get());
}
