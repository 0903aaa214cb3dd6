//! Promise: images and archives of other formats come in as their own programs unpack them, and an
//! image packed anew is the same tree.

use shale_tests::command::{create, expect_code, has_program, run, shale};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{Options, tiny_tree, tree};
use shale_tests::{image, places};
use std::path::Path;
use std::process::Command;

fn of_image(path: &Path) -> Manifest {
    image::manifest(&std::fs::read(path).unwrap()).unwrap()
}

fn nasty(folder: &Path) -> Manifest {
    let source = folder.join("source");
    std::fs::create_dir(&source).unwrap();
    let mut options = Options::for_other_programs(7);
    options.large_directory = 50;
    make(&tree(options), &source, 7).unwrap();
    Manifest::of(&source).unwrap()
}

/// What SquashFS keeps: whole seconds of 32 bits, no access control lists, holes by blocks.
fn as_squashfs(mut manifest: Manifest) -> Manifest {
    for record in manifest.records.values_mut() {
        record.mtime = (i64::from(record.mtime.0 as u32), 0);
        record.xattrs.retain(|name, _| !name.starts_with(b"system."));
        record.data.clear();
    }
    manifest
}

#[test]
fn squashfs_of_every_compressor_is_read_as_it_was_packed() {
    if !has_program("mksquashfs") {
        println!("skipped: mksquashfs is missing");
        return;
    }
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let expected = as_squashfs(nasty(folder.path()));
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
        create(&squashfs, &path("x.shale"), &["-f"]);
        let mut found = as_squashfs(of_image(&path("x.shale")));
        // mksquashfs makes two pipes and sockets of one that has two names.
        let mut expected = expected.clone();
        for manifest in [&mut found, &mut expected] {
            for (path, record) in &mut manifest.records {
                if !matches!(record.kind, '-' | 'd') {
                    record.link_count = 1;
                    record.first_name.clone_from(path);
                }
            }
        }
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
    let plain = |mut manifest: Manifest| {
        manifest.records.remove(&Vec::new());
        for (path, record) in &mut manifest.records {
            record.data.clear();
            record.link_count = 1;
            record.first_name.clone_from(path);
            if record.kind == 'l' {
                record.mtime = (0, 0);
            }
        }
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
        let mut command = shale(["create", "-f", "--no-verify"]);
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
