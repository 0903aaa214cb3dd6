//! Options that choose what is packed by metadata, marks and caches; and the label.

use std::fs;

use crate::stage::Stage;

/// The files of an image.
fn files(stage: &Stage, image: &str) -> Vec<String> {
    let listed = stage.run(0, &["find", image, "-type", "f"]).stdout;
    String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect()
}

#[test]
fn directories_of_caches_keep_only_their_tag() {
    let stage = Stage::without_image();
    let tag = "Signature: 8a477f597d28d172789f06886806bc55\n# a cache\n";
    for (directory, tag) in [("a/cache", tag), ("not", "Signature: other"), ("a/cache/below", tag)]
    {
        let directory = stage.path("tree").join(directory);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("CACHEDIR.TAG"), tag).unwrap();
        fs::write(directory.join("data"), "data").unwrap();
    }
    stage.run(0, &["create", "tree", "--exclude-caches", "-qo", "x.shale"]);
    assert_eq!(files(&stage, "x.shale"), ["a/cache/CACHEDIR.TAG", "not/CACHEDIR.TAG", "not/data"]);
    let words = ["create", "tree", "--exclude-caches", "--filter-dry-run", "-o", "y.shale"];
    assert!(stage.text(&words).contains("- a/cache/data    [it is in the directory of a cache]"));
}

#[test]
fn sizes_and_times_choose_files_of_trees_and_archives() {
    let stage = Stage::without_image();
    fs::create_dir_all(stage.path("tree/d")).unwrap();
    for (name, len, time) in
        [("d/large", 5000, "2024-01-02"), ("d/small", 10, "2024-01-02"), ("old", 10, "2023-12-31")]
    {
        let path = stage.path("tree").join(name);
        fs::write(&path, vec![b'x'; len]).unwrap();
        let touch = ["-d", &format!("{time}T12:00:00Z"), path.to_str().unwrap()];
        assert!(stage.other("touch", &touch).status().unwrap().success());
    }
    let tar = ["-cf", "tree.tar", "-C", "tree", "."];
    assert!(stage.other("tar", &tar).status().unwrap().success());
    let reference = stage.path("tree/d/small");
    for source in ["tree", "tree.tar"] {
        let make = |more: &[&str]| {
            let words = [&["create", source, "-fqo", "x.shale"], more].concat();
            stage.run(0, &words);
            files(&stage, "x.shale")
        };
        assert_eq!(make(&["--max-size", "4999"]), ["d/small", "old"], "{source}");
        assert_eq!(make(&["--newer", "2024-01-01T00:00:00Z"]), ["d/large", "d/small"]);
        assert_eq!(make(&["--newer", reference.to_str().unwrap()]), ["d/large", "d/small"]);
        assert_eq!(make(&["--newer", "2024-01-03T00:00:00Z"]), [""; 0]);
        assert!(stage.text(&["ls", "x.shale"]).contains('d'), "directories stay");
    }
    stage.fails(
        2,
        &["create", "tree", "--newer", "reference", "-o", "y"],
        &["--newer", "./reference"],
    );
    stage.fails(1, &["create", "tree", "--newer", "./none", "-o", "y"], &["--newer", "./none"]);
    let words = ["create", "tree", "--max-size", "4999", "--filter-dry-run", "-o", "y.shale"];
    assert!(stage.text(&words).contains("- d/large    [it is larger than 4999 bytes]"));
}

#[test]
fn files_marked_as_not_to_be_dumped_are_left_out() {
    let stage = Stage::without_image();
    let path = stage.path("source/empty");
    let marks = stage.other("chattr", &["+d", path.to_str().unwrap()]).output();
    if !marks.is_ok_and(|output| output.status.success()) {
        println!("skipped: the file system has no such mark");
        return;
    }
    stage.run(0, &["create", "source", "--exclude-nodump", "-qo", "x.shale"]);
    assert!(!files(&stage, "x.shale").contains(&"empty".to_owned()));
    stage.run(0, &["create", "source", "-qo", "y.shale"]);
    assert!(files(&stage, "y.shale").contains(&"empty".to_owned()));
}

#[test]
fn a_label_is_shown_and_changes_nothing_else() {
    let stage = Stage::new();
    stage.run(0, &["create", "source", "--label", "nightly = build 7", "-qo", "x.shale"]);
    assert!(stage.text(&["info", "x.shale"]).contains("label        nightly = build 7\n"));
    let info = stage.json(0, &["info", "x.shale", "--json"]);
    assert_eq!(info["label"], "nightly = build 7");
    assert!(stage.json(0, &["info", "image.shale", "--json"])["label"].is_null());
    let bad = ["create", "source", "--label", "a\nb", "-o", "y.shale"];
    stage.fails(2, &bad, &["label", "control characters"]);
    stage.run(0, &["check", "x.shale", "-q"]);
}

#[test]
fn a_pseudo_file_adds_entries_and_changes_others() {
    let stage = Stage::without_image();
    fs::create_dir_all(stage.path("tree/bin")).unwrap();
    fs::write(stage.path("tree/bin/su"), "su").unwrap();
    let text = "dev d 755 0 0\ndev/console c 600 0 5 5 1\netc/mtab s 777 0 0 ../proc/mounts\n\
                bin/su M 99 4755 1 2\n";
    fs::write(stage.path("pseudo"), text).unwrap();
    stage.run(0, &["create", "tree", "--pseudo", "pseudo", "-qo", "x.shale"]);
    let listed = stage.text(&["ls", "-lnR", "x.shale"]);
    for part in ["crw-------", "-rwsr-xr-x", "../proc/mounts"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let stat = stage.json(0, &["stat", "x.shale", "bin/su", "--json"]);
    assert_eq!((&stat[0]["uid"], &stat[0]["gid"]), (&1.into(), &2.into()));
    assert_eq!(stat[0]["mtime"], "99.000000000");
    assert_eq!(stage.text(&["cat", "x.shale", "bin/su"]), "su");
    // What a source has is not lost, and what is not there is named.
    fs::write(stage.path("clash"), "bin/su c 600 0 0 1 1\n").unwrap();
    let words = ["create", "tree", "--pseudo", "clash", "-o", "y.shale"];
    stage.fails(1, &words, &["bin/su", "--replace"]);
    fs::write(stage.path("none"), "bin/none m 600 0 0\n").unwrap();
    let words = ["create", "tree", "--pseudo", "none", "-qo", "y.shale"];
    stage.fails(3, &words, &["bin/none"]);
    fs::write(stage.path("wrong"), "\nx f 644 0 0 date\n").unwrap();
    let words = ["create", "tree", "--pseudo", "wrong", "-o", "z.shale"];
    stage.fails(1, &words, &["wrong, line 2", "runs a command"]);
    assert!(!stage.path("z.shale").exists());
}
