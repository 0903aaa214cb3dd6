//! Promise: an image comes out as EROFS, ISO 9660 and 7z that the kernel and the programs of these
//! formats read as the same tree, and what the format cannot hold is said by name.

use shale_tests::command::{LoopMount, create, errors, expect_code, export, has_program, is_root};
use shale_tests::image::manifest_at;
use shale_tests::keep::{names_apart, with_xattrs, without_holes, without_kinds};
use shale_tests::manifest::Manifest;
use shale_tests::nasty::make_with_image;
use shale_tests::places;
use shale_tests::random::Random;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// The tree in an image, as the kernel mounts it; `None` if it cannot.
fn mounted(kind: &str, image: &Path, folder: &Path) -> Option<Manifest> {
    match LoopMount::new(kind, image, &folder.join("mounted")) {
        Ok(mount) => mount.map(|mount| Manifest::of(mount.path()).unwrap()),
        Err(why) => {
            // A kernel that has the file system mounts the image. Many kernels have no iso9660.
            // Other programs read those images below.
            let kinds = std::fs::read_to_string("/proc/filesystems").unwrap();
            assert!(!kinds.contains(kind), "{kind} is not mounted: {why}");
            None
        }
    }
}

/// What EROFS keeps.
fn as_erofs(manifest: Manifest) -> Manifest {
    let kept = ["user.", "trusted.", "security.", "system.posix_acl"];
    let mut manifest = without_holes(with_xattrs(manifest, &kept));
    for record in manifest.records.values_mut() {
        record.xattrs.retain(|_, value| value.len() < 1 << 16);
    }
    manifest
}

#[test]
fn erofs_is_the_same_tree_to_us_to_fsck_and_to_the_kernel() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let all = make_with_image(folder.path());
    // Not every file system takes attributes that long.
    let is_long = |value: &Vec<u8>| value.len() >= 1 << 16;
    let loses = all.records.values().any(|record| record.xattrs.values().any(is_long));
    let code = if loses { 3 } else { 0 };
    let expected = as_erofs(all);
    let image = path("x.erofs");
    let output = export(&path("x.shale"), &image, &["--threads=3"], code);
    let text = errors(&output);
    assert_eq!(text.contains("values of up to 65535 bytes"), loses, "{text}");
    create(&image, &path("again.shale"), &["-1"]);
    expected.assert_equals(&as_erofs(manifest_at(&path("again.shale"))), "shale");
    if let Some(found) = mounted("erofs", &image, folder.path()) {
        expected.assert_equals(&as_erofs(found), "kernel");
    }
    // That of Debian 12 extracts files without their holes, so it only looks.
    if has_program("fsck.erofs") {
        expect_code(Command::new("fsck.erofs").arg(&image), 0);
    }
    // Through a pipe, and whatever the number of threads: the same bytes.
    let piped = export(&path("x.shale"), Path::new("-"), &["--format=erofs", "--threads=1"], code);
    assert!(piped.stdout == std::fs::read(&image).unwrap(), "threads or a pipe change the image");
}

#[test]
fn holes_equal_files_and_tails_beside_attributes_survive_erofs() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("s/in")).unwrap();
    let file = std::fs::File::create(path("s/in/sparse")).unwrap();
    file.write_all_at(b"in the middle", 5 << 20).unwrap();
    file.write_all_at(&[7; 9000], 8 << 20).unwrap();
    file.set_len((10 << 20) + 77).unwrap();
    std::fs::File::create(path("s/hole")).unwrap().set_len(1 << 40).unwrap();
    let mut tail_only = vec![b't'; 3000];
    for name in ["a", "b", "c"] {
        std::fs::write(path("s").join(name), &tail_only).unwrap();
    }
    tail_only.extend_from_slice(&[b'u'; 8192]);
    for name in ["d", "e", "f"] {
        std::fs::write(path("s").join(name), &tail_only).unwrap();
    }
    // With these, the tails of `c` and `f` have no room beside their inodes.
    for name in ["c", "f"] {
        let set = rustix::fs::setxattr(
            path("s").join(name),
            "user.long",
            &[b'v'; 3000],
            rustix::fs::XattrFlags::empty(),
        );
        set.unwrap();
    }
    std::fs::hard_link(path("s/in/sparse"), path("s/in/second")).unwrap();
    create(&path("s"), &path("x.shale"), &[]);
    export(&path("x.shale"), &path("x.erofs"), &[], 0);
    create(&path("x.erofs"), &path("again.shale"), &[]);
    let expected = Manifest::of(&path("s")).unwrap();
    let found = manifest_at(&path("again.shale"));
    without_holes(expected.clone()).assert_equals(&without_holes(found.clone()), "shale");
    let record = &found.records[&b"in/sparse"[..]];
    let data = [(5 << 20, (5 << 20) + 4096), (8 << 20, (8 << 20) + 12_288)];
    assert_eq!(record.data, data);
    assert!(found.records[&b"hole"[..]].data.is_empty());
    if let Some(found) = mounted("erofs", &path("x.erofs"), folder.path()) {
        without_holes(expected).assert_equals(&without_holes(found), "kernel");
    }
    // Equal files share their blocks: all of this is a few hundred kilobytes.
    assert!(std::fs::metadata(path("x.erofs")).unwrap().len() < 400_000);
}

/// A target without empty components.
fn plain_target(target: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> =
        target.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    let start: &[u8] = if target.starts_with(b"/") { b"/" } else { b"" };
    [start, &parts.join(&b'/')].concat()
}

/// What ISO 9660 keeps.
fn as_iso(manifest: Manifest) -> Manifest {
    let mut manifest = without_holes(with_xattrs(manifest, &[]));
    for record in manifest.records.values_mut() {
        record.mtime = (record.mtime.0.clamp(-2_208_988_800, 5_869_583_999), 0);
        if record.kind == 'l' {
            record.content = plain_target(&record.content);
            record.len = record.content.len() as u64;
        }
    }
    let fits = |target: &[u8]| target.split(|byte| *byte == b'/').all(|part| part.len() < 256);
    manifest.records.retain(|_, record| record.kind != 'l' || fits(&record.content));
    manifest
}

#[test]
fn iso_is_the_same_tree_to_us_and_to_the_kernel() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let expected = as_iso(make_with_image(folder.path()));
    let image = path("x.iso");
    let output = export(&path("x.shale"), &image, &["--threads=3"], 3);
    let text = errors(&output);
    assert!(text.contains("attributes/user: without its attributes"), "{text}");
    assert!(text.contains("fractions of seconds"), "{text}");
    create(&image, &path("again.shale"), &["-1"]);
    // Files are known as hard links by their bytes, and other kinds have none.
    let apart = |manifest| names_apart(manifest, "lpscb");
    let again = as_iso(manifest_at(&path("again.shale")));
    apart(expected.clone()).assert_equals(&apart(again), "shale");
    if let Some(found) = mounted("iso9660", &image, folder.path()) {
        // The kernel gives each name an inode of its own, and cuts names of 254 bytes and more.
        let plain = |manifest| {
            let mut manifest = names_apart(manifest, "-lpscb");
            manifest.records.retain(|path, _| path.split(|b| *b == b'/').all(|n| n.len() < 254));
            manifest
        };
        plain(expected.clone()).assert_equals(&plain(as_iso(found)), "kernel");
    }
    let piped = export(&path("x.shale"), Path::new("-"), &["--format=iso", "--threads=1"], 3);
    assert!(piped.stdout == std::fs::read(&image).unwrap(), "threads or a pipe change the image");
}

/// xorriso and bsdtar refuse records that go on elsewhere, which long names and targets need.
#[test]
fn iso_of_an_ordinary_tree_is_read_by_xorriso_and_bsdtar() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    for d in 0..20 {
        let directory = path(&format!("source/Some Directory {d}/b/c"));
        std::fs::create_dir_all(&directory).unwrap();
        for f in 0..30usize {
            std::fs::write(directory.join(format!("file-{f}.txt")), vec![b'x'; f * 997]).unwrap();
        }
        std::os::unix::fs::symlink("../c/file-1.txt", directory.join("link")).unwrap();
        std::fs::hard_link(directory.join("file-2.txt"), directory.join("two")).unwrap();
    }
    create(&path("source"), &path("x.shale"), &["-1"]);
    export(&path("x.shale"), &path("x.iso"), &[], 0);
    let plain = |manifest| {
        let mut manifest = names_apart(as_iso(manifest), "-lpscb");
        // xorriso gives links no times.
        let links = manifest.records.values_mut().filter(|record| record.kind == 'l');
        links.for_each(|link| link.mtime = (0, 0));
        manifest
    };
    let expected = plain(Manifest::of(&path("source")).unwrap());
    assert!(has_program("xorriso") && has_program("bsdtar"), "tools of the tests are missing");
    let mut xorriso = Command::new("xorriso");
    xorriso.args(["-osirrox", "on:auto_chmod_on", "-indev"]).arg(path("x.iso"));
    expect_code(xorriso.args(["-extract", "/"]).arg(path("xorriso")), 0);
    std::fs::create_dir(path("bsdtar")).unwrap();
    let mut bsdtar = Command::new("bsdtar");
    expect_code(bsdtar.arg("-xpf").arg(path("x.iso")).arg("-C").arg(path("bsdtar")), 0);
    for name in ["xorriso", "bsdtar"] {
        let mut found = plain(Manifest::of(&path(name)).unwrap());
        let mut expected = expected.clone();
        // The top directory was there before.
        found.records.remove(&b""[..]);
        expected.records.remove(&b""[..]);
        expected.assert_equals(&found, name);
    }
}

#[test]
fn iso_of_a_file_in_several_extents_is_read() {
    const LEN: u64 = (4 << 30) + 5000;
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("source")).unwrap();
    let long = std::fs::File::create(path("source/long")).unwrap();
    long.write_all_at(b"begin", 0).unwrap();
    long.write_all_at(b"over the border", (4 << 30) - 2050).unwrap();
    long.write_all_at(b"end", LEN - 3).unwrap();
    std::fs::write(path("source/z-behind-it"), b"behind").unwrap();
    create(&path("source"), &path("x.shale"), &["-1"]);
    export(&path("x.shale"), &path("x.iso"), &[], 0);
    create(&path("x.iso"), &path("again.shale"), &["-1"]);
    let expected = as_iso(Manifest::of(&path("source")).unwrap());
    assert_eq!(expected.records[&b"long"[..]].len, LEN);
    expected.assert_equals(&as_iso(manifest_at(&path("again.shale"))), "shale");
    if let Some(found) = mounted("iso9660", &path("x.iso"), folder.path()) {
        expected.assert_equals(&as_iso(found), "kernel");
    }
}

/// What 7z keeps: files, directories and symbolic links with names in UTF-8.
fn as_7z(manifest: Manifest) -> Manifest {
    let manifest = without_kinds(with_xattrs(without_holes(manifest), &[]), "pscb");
    let mut manifest = names_apart(manifest, "-l");
    manifest.records.remove(&b""[..]);
    manifest.records.retain(|path, _| std::str::from_utf8(path).is_ok());
    for record in manifest.records.values_mut() {
        record.owner = (0, 0);
        record.mtime.1 -= record.mtime.1 % 100;
    }
    manifest
}

#[test]
fn seven_zip_is_the_same_tree_to_us_and_to_7zz() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let expected = as_7z(make_with_image(folder.path()));
    let archive = path("x.7z");
    let sets: &[&[&str]] = &[&["--threads=3"], &["--compress=none"], &["--level=0"]];
    let mut by_threads = Vec::new();
    for set in sets {
        let output = export(&path("x.shale"), &archive, &[&["-f"], *set].concat(), 3);
        if by_threads.is_empty() {
            by_threads = std::fs::read(&archive).unwrap();
        }
        let text = errors(&output);
        assert!(text.contains("special/null: left out: 7z has no devices"), "{text}");
        assert!(text.contains("links/b/file: a copy, no hard link to links/a/"), "{text}");
        assert!(text.contains("left out: its path is not UTF-8"), "{text}");
        create(&archive, &path("again.shale"), &["-1f"]);
        expected.assert_equals(&as_7z(manifest_at(&path("again.shale"))), &format!("{set:?}"));
        if !has_program("7zz") {
            println!("skipped: 7zz is missing");
            continue;
        }
        let mut seven_zip = Command::new("7zz");
        expect_code(seven_zip.args(["t", "-bd"]).arg(&archive), 0);
    }
    let piped = export(&path("x.shale"), Path::new("-"), &["--format=7z", "--threads=1"], 3);
    assert!(piped.stdout == by_threads, "threads or a pipe change the archive");
    std::fs::write(&archive, by_threads).unwrap();
    if has_program("7zz") && is_root() {
        let mut seven_zip = Command::new("sh");
        seven_zip.args(["-c", "umask 0; exec 7zz \"$@\"", "sh", "x", "-y", "-bd", "-snl"]);
        seven_zip.arg(format!("-o{}", path("out").display()));
        // It warns of links that lead out of the tree, and leaves them out.
        let output = seven_zip.arg(&archive).output().unwrap();
        assert!(output.status.code().is_some_and(|code| code <= 2), "{output:?}");
        let plain = |manifest: Manifest| {
            let mut manifest = without_kinds(as_7z(manifest), "ld");
            // A link that leads out of the tree becomes a file.
            manifest.records.remove(&b"links/symlink-up"[..]);
            manifest.records.values_mut().for_each(|record| {
                record.mtime = (0, 0);
                record.mode &= 0o777;
            });
            manifest
        };
        let found = plain(Manifest::of(&path("out")).unwrap());
        plain(expected).assert_equals(&found, "7zz");
    }
}

#[test]
fn seven_zip_of_several_blocks_and_pieces_is_whole() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("s")).unwrap();
    // A piece has 8 MiB, and a block ends after 64 MiB. The bytes compress quickly, and no 4 KiB of
    // them are the same twice.
    let noise = Random::new(1).bytes(4096);
    let numbered = |file: u8, len: usize| -> Vec<u8> {
        let mut bytes: Vec<u8> = noise.iter().copied().cycle().take(len).collect();
        for (number, part) in bytes.chunks_exact_mut(noise.len()).enumerate() {
            part[0] = file;
            part[1..9].copy_from_slice(&(number as u64).to_le_bytes());
        }
        bytes
    };
    for (name, len) in [("a", 70 << 20), ("b", 8 << 20), ("c", 1), ("d", (16 << 20) + 1)] {
        std::fs::write(path("s").join(name), numbered(name.as_bytes()[0], len)).unwrap();
    }
    std::fs::write(path("s/e"), "").unwrap();
    create(&path("s"), &path("x.shale"), &["-1"]);
    export(&path("x.shale"), &path("x.7z"), &["--level=1"], 0);
    create(&path("x.7z"), &path("again.shale"), &["-1"]);
    let expected = as_7z(Manifest::of(&path("s")).unwrap());
    expected.assert_equals(&as_7z(manifest_at(&path("again.shale"))), "shale");
    if has_program("7zz") {
        let mut seven_zip = Command::new("7zz");
        expect_code(seven_zip.args(["t", "-bd"]).arg(path("x.7z")), 0);
    }
}

#[test]
fn what_these_formats_cannot_hold_is_refused_or_named() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("s")).unwrap();
    std::fs::write(path("s/a"), "x").unwrap();
    std::os::unix::fs::symlink("a//b/", path("s/link")).unwrap();
    create(&path("s"), &path("x.shale"), &[]);
    let text = errors(&export(&path("x.shale"), &path("x.iso"), &[], 3));
    assert!(text.contains("link: its target lost slashes"), "{text}");
    for (name, more, words) in [
        ("y.iso", "--compress=gzip", "without compression"),
        ("y.erofs", "--compress=zstd", "without compression"),
        ("y.7z", "--compress=zstd", "LZMA2"),
        ("y.iso", "--block-size=4K", "only SquashFS"),
    ] {
        let text = errors(&export(&path("x.shale"), &path(name), &[more], 2));
        assert!(text.contains(words), "{text}");
        assert!(!path(name).exists());
    }
    // 16 TiB of holes do not fit into ISO 9660, and EROFS stores none of them.
    let Some(memory) = places::memory() else { return };
    let long = std::fs::File::create(memory.path().join("long")).unwrap();
    long.set_len(16 << 40).unwrap();
    create(memory.path(), &path("x.shale"), &["-f"]);
    let text = errors(&export(&path("x.shale"), &path("x.iso"), &["-f"], 3));
    assert!(text.contains("long: left out") && text.contains("8 TiB"), "{text}");
    export(&path("x.shale"), &path("x.erofs"), &[], 0);
    if let Some(found) = mounted("erofs", &path("x.erofs"), folder.path()) {
        assert_eq!(found.records[&b"long"[..]].len, 16 << 40);
    }
}
