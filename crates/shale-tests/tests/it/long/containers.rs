//! Promise: an image of a container is packed as the tree that its layers make, as umoci unpacks
//! it; what is damaged, missing or ambiguous in it is named.

use shale_tests::command::{expect_code, extract, has_program, run, shale};
use shale_tests::manifest::Manifest;
use shale_tests::places;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a shell in a folder.
fn sh(folder: &Path, script: &str) {
    let output = Command::new("sh").args(["-ec", script]).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}");
}

/// Makes a layout `oci` with umoci: three layers with whiteouts, hard links, owners, a directory
/// that becomes a file and back, and unpacks it into `expected`.
const LAYOUT: &str = r#"
umoci init --layout oci && umoci new --image oci:one
umoci unpack --image oci:one bundle 2>/dev/null
cd bundle/rootfs
mkdir -p etc/conf.d usr/lib var/cache empty
echo base > etc/base; echo gone > etc/gone; echo one > usr/lib/one
ln usr/lib/one usr/lib/two; ln usr/lib/one usr/lib/three; ln -s usr/lib lib
echo x > var/cache/x; echo y > var/cache/y; mkdir kind; echo in > kind/in; echo kind > other
chown 1000:2000 etc/base; chmod 4755 usr/lib/one; mkfifo pipe
head -c 3000000 /dev/urandom > usr/lib/large
find . -exec touch -h -d @1700000001 {} +
cd ../.. && umoci repack --refresh-bundle --image oci:one bundle
mkdir first && cp -a bundle/rootfs first
cd bundle/rootfs
rm etc/gone usr/lib/one; rm -r kind other var/cache; echo is a file > kind; mkdir other var/cache
echo in > other/in; echo new > var/cache/new; echo changed > etc/base; touch .early; rm -r empty
find . -exec touch -h -d @1700000002 {} +
cd ../.. && umoci repack --refresh-bundle --image oci:two bundle
cd bundle/rootfs
rm kind; mkdir kind; echo again > kind/again; rm pipe; echo conf > etc/conf.d/a
setfattr -n user.note -v kept etc/conf.d/a 2>/dev/null || true
find . -exec touch -h -d @1700000003 {} +
cd ../.. && umoci repack --refresh-bundle --image oci:three bundle
"#;

fn able() -> bool {
    let programs = ["umoci", "skopeo"];
    let missing: Vec<_> = programs.iter().filter(|name| !has_program(name)).collect();
    let is_root = rustix::process::geteuid().is_root();
    if !missing.is_empty() || !is_root {
        println!("skipped: it needs root ({is_root}), and {missing:?} are not installed");
    }
    missing.is_empty() && is_root
}

/// Packs `source`, and compares what comes out with `expected`.
fn same(folder: &Path, source: &str, more: &[&str], expected: &str) {
    let image = folder.join("packed.shale");
    let mut create = shale(["create", source, "-o", "packed.shale", "-f"]);
    expect_code(create.args(more).current_dir(folder), 0);
    let out = folder.join("out");
    extract(&image, &out);
    let what = format!("{source} {more:?}");
    let seen = Manifest::of(&out).unwrap();
    seen.assert_equals(&Manifest::of(&folder.join(expected)).unwrap(), &what);
    fs::remove_dir_all(out).unwrap();
}

fn fails(folder: &Path, words: &[&str], parts: &[&str]) {
    let mut command = shale(["create", "-o", "none.shale"]);
    let output = expect_code(command.args(words).current_dir(folder), 1);
    let said = String::from_utf8(output.stderr).unwrap();
    parts.iter().for_each(|part| assert!(said.contains(part), "{words:?}: {said}"));
    assert!(!folder.join("none.shale").exists());
}

#[test]
fn the_tree_of_an_image_is_the_one_that_umoci_packed() {
    if !able() {
        return;
    }
    let place = places::disk();
    let folder = place.path();
    sh(folder, LAYOUT);
    let (three, one) = ("bundle/rootfs", "first/rootfs");
    same(folder, "oci", &["--tag", "three"], three);
    same(folder, "oci", &["--tag", "one"], one);
    sh(
        folder,
        "skopeo copy -q oci:oci:three oci-archive:three.tar:name:three
         skopeo copy -q oci:oci:three docker-archive:docker.tar:example.org/app:3.1
         skopeo copy -q --dest-compress-format zstd --dest-compress oci:oci:three oci:zstd:three
         tar cf several.tar -C oci .
         mkdir dir && tar xf docker.tar -C dir",
    );
    same(folder, "three.tar", &[], three);
    same(folder, "docker.tar", &["--tag", "app:3.1"], three);
    same(folder, "zstd", &[], three);
    same(folder, "several.tar", &["--tag", "three"], three);
    // The same image gives the same bytes, and filters see the tree, not the layers.
    let sum = |name: &str| {
        let mut create = shale(["create", "three.tar", "-q", "-o", name, "--exclude", "usr/lib"]);
        expect_code(create.current_dir(folder), 0);
        fs::read(folder.join(name)).unwrap()
    };
    assert_eq!(sum("a.shale"), sum("b.shale"));
    let listed = run(["ls".as_ref(), folder.join("a.shale").as_os_str(), "usr".as_ref()]);
    assert_eq!(listed.stdout, b"");
    // As the files that they are.
    same(folder, "oci", &["--container-files"], "oci");
    fails(folder, &["oci"], &["--tag", "one, two, three"]);
    fails(folder, &["oci", "--tag", "four"], &["no tag `four`", "one, two, three"]);
    fails(folder, &["zstd", "--platform", "linux/s390x"], &["linux/s390x"]);
}

/// Extracts a snapshot into a folder of this name.
fn unpacked(folder: &Path, image: &str, snapshot: &str, into: &str) -> Manifest {
    let out = folder.join(into);
    let _ = fs::remove_dir_all(&out);
    fs::create_dir(&out).unwrap();
    let mut extract = shale(["extract", image, "-q", "-C", into, "--snapshot", snapshot]);
    expect_code(extract.current_dir(folder), 0);
    Manifest::of(&out).unwrap()
}

#[test]
fn all_tags_become_snapshots_and_snapshots_become_images() {
    if !able() {
        return;
    }
    let place = places::disk();
    let folder = place.path();
    sh(folder, LAYOUT);
    sh(
        folder,
        "umoci unpack --image oci:two second 2>/dev/null
         skopeo copy -q oci:oci:one docker-archive:one.tar:example.org/app:1",
    );
    let shale_here = |words: &[&str], code: i32| -> (String, String) {
        let mut command = shale(words);
        let output = expect_code(command.current_dir(folder), code);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    // In: a snapshot for each tag, and more of them later.
    shale_here(&["create", "oci", "--all-tags", "-1", "-o", "all.shale"], 0);
    shale_here(&["append", "all.shale", "one.tar", "--all-tags", "-1"], 0);
    let (said, _) = shale_here(&["snapshots", "all.shale"], 0);
    assert!(said.contains("example.org/app:1"), "{said}");
    let trees = [
        ("one", "first/rootfs"),
        ("two", "second/rootfs"),
        ("three", "bundle/rootfs"),
        ("example.org/app:1", "first/rootfs"),
    ];
    for (tag, tree) in trees {
        let expected = Manifest::of(&folder.join(tree)).unwrap();
        unpacked(folder, "all.shale", tag, "out").assert_equals(&expected, tag);
    }
    shale_here(&["check", "all.shale"], 0);
    assert!(
        fs::read_dir(folder)
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_str().unwrap().ends_with(".partial") })
    );
    let (_, said) = shale_here(&["create", "first", "--all-tags", "-o", "none.shale"], 1);
    assert!(said.contains("no tags"), "{said}");
    let (_, said) = shale_here(&["create", "oci", "--all-tags", "-o", "all.shale"], 1);
    assert!(said.contains("exists"), "{said}");

    // Out: images that grow by a layer, whose trees umoci unpacks as they were.
    let words = ["export", "all.shale", "--format", "oci", "--all-snapshots", "-o", "layout"];
    let how = ["--entrypoint", "/bin/sh", "--cmd", "-c", "--env", "A=b=c", "--workdir", "/etc"];
    let (json, _) = shale_here(&[&words[..], &how, &["--json"]].concat(), 0);
    assert!(json.contains("\"layers\": 4"), "{json}");
    for (number, (tag, tree)) in trees.into_iter().enumerate() {
        let tag = if number == 3 { "example.org-app-1" } else { tag };
        let unpack = format!("umoci unpack --image layout:{tag} again{number} 2>/dev/null");
        sh(folder, &unpack);
        let seen = Manifest::of(&folder.join(format!("again{number}/rootfs"))).unwrap();
        seen.assert_equals(&Manifest::of(&folder.join(tree)).unwrap(), tag);
    }
    sh(
        folder,
        r#"skopeo inspect oci:layout:two > two.json && grep -q '"A=b=c"' two.json
         skopeo inspect --config oci:layout:two | grep -q '"/bin/sh"'
         test $(grep -c sha256: two.json) -ge 3
         skopeo copy -q oci:layout:three docker-archive:three.tar:app:3
         umoci stat --image layout:three > /dev/null && umoci gc --layout layout"#,
    );
    // An image of it is the snapshot again.
    shale_here(&["create", "three.tar", "-1", "-o", "three.shale"], 0);
    shale_here(&["diff", "all.shale@three", "three.shale"], 0);

    // One snapshot is one layer; the same in an archive and through a pipe, and twice the same.
    let one = ["export", "all.shale", "--format", "oci", "--snapshot", "two", "--tag", "t"];
    for compress in ["gzip", "zstd", "none"] {
        let words = [&one[..], &["--compress", compress, "-f", "-o", "one-layer.tar"]].concat();
        shale_here(&words, 0);
        let (first, again) = (folder.join("one-layer.tar"), folder.join("again.tar"));
        let mut piped = shale(one);
        let piped = piped.args(["--compress", compress, "-o", "-"]).current_dir(folder);
        let piped = expect_code(piped, 0).stdout;
        assert!(piped == fs::read(&first).unwrap(), "{compress}");
        sh(folder, "skopeo copy -q oci-archive:one-layer.tar:t oci:from-archive:t");
        shale_here(&["create", "one-layer.tar", "-1", "-f", "-o", "back.shale"], 0);
        shale_here(&["diff", "all.shale@two", "back.shale"], 0);
        let _ = fs::remove_file(again);
    }
    sh(folder, "umoci unpack --image from-archive:t last 2>/dev/null");
    let expected = Manifest::of(&folder.join("second/rootfs")).unwrap();
    Manifest::of(&folder.join("last/rootfs")).unwrap().assert_equals(&expected, "an archive");
    shale_here(&[&one[..], &["-o", "layout"]].concat(), 1);
    shale_here(&[&one[..], &["--platform", "linux", "-o", "x"]].concat(), 2);
    shale_here(&[&one[..], &["--compress", "xz", "-o", "x"]].concat(), 2);
}

#[test]
fn damage_in_an_image_is_named_and_never_packed() {
    if !able() {
        return;
    }
    let place = places::disk();
    let folder = place.path();
    sh(folder, LAYOUT);
    sh(folder, "skopeo copy -q oci:oci:three docker-archive:docker.tar:app:3");
    let blobs = |folder: &Path| -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(folder.join("blobs/sha256")).unwrap();
        let mut blobs: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        blobs.sort_by_key(|path| fs::metadata(path).unwrap().len());
        blobs
    };
    // The largest blob is a layer of the image; a document is small.
    let copy = folder.join("copy");
    let fresh = || sh(folder, "rm -rf copy; cp -r oci copy");
    fresh();
    let layer = blobs(&copy).pop().unwrap();
    let mut bytes = fs::read(&layer).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&layer, &bytes).unwrap();
    fails(folder, &["copy", "--tag", "three"], &["is damaged", "sha256"]);
    fs::remove_file(&layer).unwrap();
    fails(folder, &["copy", "--tag", "three"], &["is missing"]);
    std::os::unix::fs::symlink("/etc/passwd", &layer).unwrap();
    fails(folder, &["copy", "--tag", "three"], &["cannot open"]);
    fresh();
    let index = fs::read_to_string(copy.join("index.json")).unwrap();
    for (from, to, part) in [
        ("sha256:", "sha512:", "sha256, which alone"),
        ("sha256:", "sha256:../../", "not a valid digest"),
        ("{", "[", "not valid"),
    ] {
        fs::write(copy.join("index.json"), index.replace(from, to)).unwrap();
        fails(folder, &["copy", "--tag", "three"], &[part]);
    }
    // In an archive of docker, layers are compared with the digests of the configuration.
    let mut bytes = fs::read(folder.join("docker.tar")).unwrap();
    let at = bytes.windows(9).position(|window| window == b"is a file").unwrap();
    bytes[at] ^= 1;
    fs::write(folder.join("bad.tar"), bytes).unwrap();
    fails(folder, &["bad.tar"], &["is damaged"]);
}
