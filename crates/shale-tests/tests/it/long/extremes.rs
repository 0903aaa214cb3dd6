//! Promise: what is far beyond the usual comes back, too: through the image, a mount, an
//! extraction, tar and, as far as it holds such things, SquashFS.

use shale_tests::command::{
    Mount, can_mount, create, expect_code, export, extract, has_program, run, shale,
};
use shale_tests::image::manifest_at;
use shale_tests::keep::as_squashfs;
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::extreme_tree;
use shale_tests::places;
use std::process::Command;

/// Entries of the long directory; `SHALE_EXTREME_ENTRIES` makes it longer.
fn entries() -> usize {
    let asked = std::env::var("SHALE_EXTREME_ENTRIES").ok();
    asked.map_or(20_000, |text| text.parse().expect("it is a number"))
}

#[test]
fn extremes_come_back_through_every_chain() {
    // Most disks hold neither such files nor such attributes.
    let Some(folder) = places::memory() else { return };
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("source")).unwrap();
    let made = make(&extreme_tree(5, entries(), 5_000), &path("source"), 5).unwrap();
    for line in &made.left_out {
        println!("left out: {line}");
    }
    let expected = Manifest::of(&path("source")).unwrap();
    assert!(expected.records.len() > 25_000);
    assert_eq!(expected.records[&b"sixteen-tebibytes"[..]].len, 16 << 40);
    create(&path("source"), &path("x.shale"), &["-1"]);
    expected.assert_equals(&manifest_at(&path("x.shale")), "image");
    if can_mount() {
        let mount = Mount::new(&path("x.shale"), &path("mount"), &[]);
        expected.assert_equals(&Manifest::of(mount.path()).unwrap(), "mount");
        mount.end();
    }
    extract(&path("x.shale"), &path("out"));
    expected.assert_equals(&Manifest::of(&path("out")).unwrap(), "extraction");

    export(&path("x.shale"), &path("x.tar"), &[], 0);
    create(&path("x.tar"), &path("tar.shale"), &["-1"]);
    expected.assert_equals(&manifest_at(&path("tar.shale")), "tar");

    // 16 TiB need the largest blocks; times outside of 32 bits are said.
    export(&path("x.shale"), &path("x.squashfs"), &["--block-size=1M"], 3);
    create(&path("x.squashfs"), &path("squashfs.shale"), &["-1"]);
    let found = as_squashfs(manifest_at(&path("squashfs.shale")));
    as_squashfs(expected).assert_equals(&found, "SquashFS");

    // Not every remover of folders can leave one so deep.
    for name in ["source", "out"] {
        let mut rm = Command::new("rm");
        expect_code(rm.arg("-rf").arg(path(name)), 0);
    }
}

#[test]
fn more_owners_than_16_bits_count_come_back_or_are_refused() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let mut text = String::from("d 755 0 0 0 - .\n");
    for index in 0..66_000u32 {
        let (uid, gid) = (u32::MAX - 1 - index, index);
        text += &format!("f 644 {uid} {gid} 0 0 {index}\n");
    }
    std::fs::write(path("manifest"), text).unwrap();
    let mut command = shale(["create", "--manifest"]);
    expect_code(command.arg(path("manifest")).arg("-o").arg(path("x.shale")), 0);
    let expected = manifest_at(&path("x.shale"));
    assert_eq!(expected.records[&b"65999"[..]].owner, (u32::MAX - 66_000, 65_999));
    for name in ["x.tar", "x.zip"] {
        export(&path("x.shale"), &path(name), &[], 0);
        create(&path(name), &path("again.shale"), &["-1f"]);
        let mut found = manifest_at(&path("again.shale"));
        // zip does not say what the top is.
        found.records.insert(Vec::new(), expected.records[&b""[..]].clone());
        expected.assert_equals(&found, name);
    }
    let output = export(&path("x.shale"), &path("x.squashfs"), &[], 1);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("more owners and groups than the 65535"), "{text}");
    assert!(!path("x.squashfs").exists());
    if has_program("bsdtar") {
        let mut bsdtar = Command::new("bsdtar");
        export(&path("x.shale"), &path("x.cpio"), &[], 0);
        let output = expect_code(bsdtar.args(["--numeric-owner", "-tvf"]).arg(path("x.cpio")), 0);
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert!(lines.any(|line| line[2..4] == ["4294901295", "65999"]));
    }
    run(["check".as_ref(), path("x.shale").as_os_str()]);
}
