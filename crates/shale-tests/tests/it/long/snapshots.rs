//! Promise: every snapshot of an image is found by name, number and time; a mount shows all of
//! them, also those that are appended later; several images are mounted as one tree.

use shale_tests::command::{Mount, can_mount, create, expect_code, run, shale};
use shale_tests::handmade::{Cut, Shape, append};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::tiny_tree;
use shale_tests::places;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with trees, and an image of them that grows.
struct Grown {
    folder: tempfile::TempDir,
    count: usize,
}

impl Grown {
    fn new() -> Self {
        Self { folder: places::disk(), count: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn image(&self) -> PathBuf {
        self.path("image.shale")
    }

    /// The tree of a snapshot.
    fn tree(&self, number: usize) -> PathBuf {
        self.path(&format!("tree-{number}"))
    }

    /// Adds a snapshot of a tree with links, and with a file `number`.
    fn add(&mut self, name: &str) {
        let tree = self.tree(self.count);
        fs::create_dir(&tree).unwrap();
        make(&tiny_tree(self.count as u64), &tree, 1).unwrap();
        fs::write(tree.join("number"), self.count.to_string()).unwrap();
        fs::hard_link(tree.join("number"), tree.join("twin of number")).unwrap();
        let new = self.path("new.shale");
        create(&tree, &new, &["--snapshot", name, "-f"]);
        let bytes = fs::read(&new).unwrap();
        match self.count {
            0 => fs::write(self.image(), &bytes).unwrap(),
            // In place, as append does it: the file keeps its inode.
            _ => {
                let old = fs::read(self.image()).unwrap();
                let cuts = vec![Cut::new(usize::MAX, "zstd:19")];
                let shape = Shape { cuts, ..Shape::default() };
                let grown = append(&old, &bytes, name.as_bytes(), &shape);
                assert_eq!(&grown[..old.len()], old);
                let mut file = fs::File::options().append(true).open(self.image()).unwrap();
                std::io::Write::write_all(&mut file, &grown[old.len()..]).unwrap();
            }
        }
        self.count += 1;
    }
}

fn text(output: std::process::Output) -> String {
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_snapshot_is_chosen_by_name_number_or_time() {
    let mut grown = Grown::new();
    for name in ["2026-11-20", "2026-11-21T10:00:00Z", "release", "2026-11-22", "2026-11-20"] {
        grown.add(name);
    }
    let image = grown.image();
    let cat = |word: &str| {
        let mut command = shale(["cat".as_ref(), image.as_os_str()]);
        command.args(["number", "--snapshot", word]);
        text(expect_code(&mut command, 0))
    };
    for (word, number) in [
        ("latest", "4"),
        ("#0", "0"),
        ("#2", "2"),
        ("release", "2"),
        // A name comes before a time, and the newest of a name before the others.
        ("2026-11-20", "4"),
        ("2026-11-22", "3"),
        ("2026-11-21", "1"),
        ("2026-11-21T10:00", "1"),
        ("2026-11-21T09:59:59", "4"),
        ("2026-11-21 23:59", "1"),
        ("2026-11-30", "3"),
        ("2026-11", "3"),
        ("2030-01-01T00:00:00Z", "3"),
    ] {
        assert_eq!(cat(word), number, "{word}");
    }
    for (word, parts) in [
        ("2026-11-19", ["at or before 2026-11-19", "#2 `release`"]),
        ("nightly", ["named `nightly`", "#1 `2026-11-21T10:00:00Z`"]),
        ("#5", ["#5", "the image has 5"]),
        ("#99999999999999999999999", ["#9999", "the image has 5"]),
    ] {
        let mut command = shale(["ls".as_ref(), image.as_os_str()]);
        command.args(["--snapshot", word]);
        let said = String::from_utf8(expect_code(&mut command, 1).stderr).unwrap();
        parts.iter().for_each(|part| assert!(said.contains(part), "{word}: {said}"));
    }
    // The same words after an @: to compare, to pack again.
    let at = |word: &str| format!("{}@{word}", image.display());
    let differs = |old: &str, new: &str| {
        let output = shale(["diff", &at(old), &at(new)]).output().unwrap();
        output.status.code() == Some(1)
    };
    assert!(!differs("2026-11-21", "#1"));
    assert!(differs("#1", "release"));
    let again = grown.path("again.shale");
    run(["create", &at("2026-11-21"), "-o", again.to_str().unwrap(), "-q"]);
    let output = run(["cat", again.to_str().unwrap(), "number"]);
    assert_eq!(text(output), "1");
    let none = grown.path("none.shale");
    let wrong = ["create", &at("nightly"), "-o", none.to_str().unwrap()];
    let said = String::from_utf8(expect_code(&mut shale(wrong), 1).stderr).unwrap();
    assert!(said.contains("nightly") && said.contains("release") && !none.exists(), "{said}");
    // In which snapshots a version of a file is.
    let mut find = shale(["find", "--snapshots"]);
    let found = text(expect_code(find.arg(&image).args(["number", "-links", "2"]), 0));
    let found: HashSet<&str> = found.lines().collect();
    let expected = (0..5).map(|number| format!("#{number}\tnumber")).collect::<Vec<_>>();
    assert_eq!(found, expected.iter().map(String::as_str).collect());
}

#[test]
fn a_mount_shows_all_snapshots_and_those_that_come() {
    if !can_mount() {
        return;
    }
    let mut grown = Grown::new();
    grown.add("first");
    grown.add("");
    let image = grown.image();
    let fixed = Mount::new(&image, &grown.path("fixed"), &["--snapshots"]);
    let mount = Mount::new(&image, &grown.path("mount"), &["--snapshots", "--follow"]);
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let latest = || fs::read_link(mount.path().join("latest")).unwrap().into_os_string();
    let same = |name: &str, number: usize, folder: &Path| {
        let seen = Manifest::of(&folder.join(name)).unwrap();
        seen.assert_equals(&Manifest::of(&grown.tree(number)).unwrap(), name);
    };
    for folder in [fixed.path(), mount.path()] {
        assert_eq!(names(folder), ["#1", "first", "latest"]);
        same("first", 0, folder);
        same("#1", 1, folder);
        assert_eq!(fs::read_to_string(folder.join("latest/number")).unwrap(), "1");
    }
    assert_eq!(latest(), "#1");
    let missing = mount.path().join("second/number");
    assert!(!missing.exists());
    let inode = fs::metadata(mount.path().join("first/number")).unwrap().ino();
    let kept = fs::File::open(mount.path().join("first/number")).unwrap();

    for (number, name) in [(2, "second"), (3, "first")] {
        let grown = &mut grown;
        grown.add(name);
        assert_eq!(latest(), name);
        let latest = fs::read_to_string(mount.path().join("latest/number")).unwrap();
        assert_eq!(latest, number.to_string());
    }
    let same = |name: &str, number: usize, folder: &Path| {
        let seen = Manifest::of(&folder.join(name)).unwrap();
        seen.assert_equals(&Manifest::of(&grown.tree(number)).unwrap(), name);
    };
    assert_eq!(names(mount.path()), ["#0", "#1", "first", "latest", "second"]);
    for (name, number) in [("#0", 0), ("#1", 1), ("second", 2), ("first", 3), ("latest/.", 3)] {
        same(name, number, mount.path());
    }
    assert_eq!(fs::metadata(mount.path().join("#0/number")).unwrap().ino(), inode);
    assert_eq!(kept.metadata().unwrap().ino(), inode);
    let mut bytes = [0; 8];
    assert_eq!(std::os::unix::fs::FileExt::read_at(&kept, &mut bytes, 0).unwrap(), 1);
    assert_eq!(bytes[0], b'0');
    let mut inodes = HashSet::new();
    let listed = names(mount.path());
    for name in listed.iter().filter(|name| *name != "latest") {
        let seen = mount.path().join(name);
        for path in [seen.clone(), seen.join("number")] {
            assert!(inodes.insert(fs::metadata(path).unwrap().ino()), "{name}");
        }
    }
    // Half of an append is nothing yet, and another image under the name is none at all.
    let before = names(mount.path());
    let whole = fs::read(&image).unwrap();
    let mut file = fs::File::options().append(true).open(&image).unwrap();
    std::io::Write::write_all(&mut file, &whole[whole.len() - 4000..whole.len() - 100]).unwrap();
    assert_eq!(names(mount.path()), before);
    create(&grown.tree(0), &image, &["-f"]);
    assert_eq!(names(mount.path()), before);
    assert_eq!(names(fixed.path()), ["#1", "first", "latest"]);
    drop(kept);
    mount.end();
    fixed.end();
}

#[test]
fn options_of_snapshots_that_do_not_go_together_are_refused() {
    let mut grown = Grown::new();
    grown.add("a");
    let (image, at) = (grown.image(), grown.path("mount"));
    let (image, at) = (image.to_str().unwrap(), at.to_str().unwrap());
    let named = format!("{image}@a");
    for (words, part) in [
        (&["mount", image, at, "--follow"][..], "--snapshots"),
        (&["mount", image, at, "--snapshots", "--snapshot", "a"], "--snapshot"),
        (&["mount", &named, at, "--snapshots"], "IMAGE@SNAPSHOT"),
        (&["mount", &named, at, "--snapshot", "a"], "without --snapshot"),
        (&["mount", image, image, "--union", at, "--snapshot", "a"], "IMAGE@SNAPSHOT"),
        (&["mount", image, image, "--union", at, "--snapshots"], "--union"),
        (&["mount", image, at, "--snapshots", "--follow", "--view", "kernel"], "--view fuse"),
    ] {
        let said = String::from_utf8(expect_code(&mut shale(words), 2).stderr).unwrap();
        assert!(said.contains(part), "{words:?}: {said}");
    }
    let mut command = shale(["mount", &format!("{image}@b"), at, "--mkdir"]);
    let said = String::from_utf8(expect_code(&mut command, 1).stderr).unwrap();
    assert!(said.contains("named `b`") && said.contains("#0 `a`"), "{said}");
}

/// Runs a shell in a folder.
fn sh(folder: &Path, script: &str) {
    let status = Command::new("sh").arg("-ec").arg(script).current_dir(folder).status().unwrap();
    assert!(status.success(), "{script}");
}

#[test]
fn several_images_are_mounted_as_one_tree() {
    if !can_mount() {
        return;
    }
    let place = places::disk();
    let folder = place.path();
    sh(
        folder,
        "mkdir -p A/etc/deep A/lib A/var/cache B/etc/deep B/var/cache C/etc merged
         echo a > A/etc/a; echo a > A/etc/b; ln A/etc/a A/lib/a; echo x > A/etc/deep/x
         ln -s ../etc A/lib/link; echo old > A/var/cache/old; echo gone > A/lib/gone
         echo b > B/etc/b; touch B/etc/.wh.a B/var/cache/.wh..wh..opq; echo new > B/var/cache/new
         mkdir B/lib; touch B/lib/.wh.gone; echo c > C/etc/c; echo y > B/etc/deep/y
         # What it has to be.
         mkdir -p merged/etc/deep merged/lib merged/var/cache
         cp -a A/etc/deep/x B/etc/deep/y merged/etc/deep; cp -a B/etc/b C/etc/c merged/etc
         cp -a A/lib/a A/lib/link merged/lib; cp -a B/var/cache/new merged/var/cache
         touch -r C merged; touch -r C/etc merged/etc; touch -r B/etc/deep merged/etc/deep
         touch -r B/lib merged/lib; touch -r B/var merged/var; touch -r B/var/cache merged/var/cache",
    );
    for name in ["A", "B", "C"] {
        create(&folder.join(name), &folder.join(format!("{name}.shale")), &["-q"]);
    }
    let mut mount = shale(["mount"]);
    let images = ["A.shale", "B.shale@latest", "C.shale"];
    mount.current_dir(folder).args(images).args(["--union", "seen", "--mkdir"]);
    mount.stdout(std::process::Stdio::null());
    assert!(mount.status().unwrap().success());
    let seen = Mount::adopt(&folder.join("seen"));
    let mut found = Manifest::of(seen.path()).unwrap();
    // One of its two names is hidden. The kernel's overlayfs tells the links of the layer, too.
    let linked = found.records.get_mut(&b"lib/a"[..]).unwrap();
    assert_eq!(std::mem::replace(&mut linked.link_count, 1), 2);
    found.assert_equals(&Manifest::of(&folder.join("merged")).unwrap(), "the union");
    seen.end();
}
