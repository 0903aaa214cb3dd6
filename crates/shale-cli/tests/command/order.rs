//! `--order` and `--hot`: the order of contents in the image.

use std::fs;

use crate::stage::{Stage, noise};

/// A tree of text files without similarities. Data of one category shares frames.
pub fn stage() -> Stage {
    let stage = Stage::without_image();
    fs::remove_dir_all(stage.path("source")).unwrap();
    let noise = noise(1000 * FILES.len());
    for (path, bytes) in FILES.into_iter().zip(noise.chunks(1000)) {
        let path = stage.path("source").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let lines = bytes.iter().map(|byte| format!("line {byte:02x}\n"));
        fs::write(path, lines.collect::<String>()).unwrap();
    }
    stage
}

pub const FILES: [&str; 5] = ["a/one.h", "a/two.c", "b/three.h", "b/two.c", "c/c.c"];

/// Packs the tree uncompressed and returns its files in their order in the image.
pub fn order(stage: &Stage, level: &str, words: &[&str]) -> Vec<&'static str> {
    let create = ["create", "source", "-o", "image.shale", "-q", "-f", "-C", "stored", level];
    stage.run(0, &[&create[..], words].concat());
    _ = fs::remove_dir_all(stage.path("out"));
    stage.run(0, &["extract", "image.shale", "-C", "out", "-q"]);
    for path in FILES {
        let back = fs::read(stage.path("out").join(path)).unwrap();
        assert!(back == fs::read(stage.path("source").join(path)).unwrap(), "{path}");
    }
    let image = fs::read(stage.path("image.shale")).unwrap();
    let place = |path: &&str| {
        let bytes = fs::read(stage.path("source").join(path)).unwrap();
        image.windows(640).position(|window| window == &bytes[..640]).expect("it is stored")
    };
    let mut files = FILES.to_vec();
    files.sort_by_key(place);
    files
}

#[test]
fn contents_are_stored_in_the_requested_order() {
    let stage = stage();
    for level in ["-0", "-5"] {
        assert_eq!(order(&stage, level, &[]), FILES);
        assert_eq!(order(&stage, level, &["--order", "none"]), FILES);
        assert_eq!(order(&stage, level, &["--order", "path"]), FILES);
        assert_eq!(order(&stage, level, &["--order", "similarity"]), FILES);
        let by_ends = ["c/c.c", "a/two.c", "b/two.c", "b/three.h", "a/one.h"];
        assert_eq!(order(&stage, level, &["--order", "revpath"]), by_ends);
    }
}

#[test]
fn listed_files_come_first() {
    let stage = stage();
    fs::write(stage.path("list"), "./b/two.c\nno/such\n/a/two.c\n").unwrap();
    let listed = ["b/two.c", "a/two.c", "a/one.h", "b/three.h", "c/c.c"];
    assert_eq!(order(&stage, "-0", &["--order", "explicit:list"]), listed);
    assert_eq!(order(&stage, "-6", &["--hot", "list"]), listed);
    fs::write(stage.path("list"), b"c/c.c\0a/one.h\0").unwrap();
    let both = ["c/c.c", "a/one.h", "a/two.c", "b/two.c", "b/three.h"];
    assert_eq!(order(&stage, "-1", &["--hot", "list", "--order", "revpath"]), both);
    let create = stage.run(0, &["create", "source", "-o", "image.shale", "-f", "--hot", "list"]);
    let text = String::from_utf8_lossy(&create.stderr);
    assert!(text.contains("stored first: 2 contents of 2 listed paths"), "{text}");
}

#[test]
fn an_invalid_order_is_refused() {
    let stage = stage();
    let create = ["create", "source", "-o", "image.shale"];
    let wrong = |words: &[&str], parts: &[&str]| {
        stage.fails(2, &[&create[..], words].concat(), parts);
    };
    wrong(&["--order", "size"], &["size", "revpath"]);
    stage.fails(1, &[&create[..], &["--hot", "absent"]].concat(), &["absent"]);
    fs::write(stage.path("list"), "c/c.c\n").unwrap();
    let both = ["--hot", "list", "--order", "explicit:list"];
    stage.fails(2, &[&create[..], &both].concat(), &["--hot", "use one"]);
    assert!(!stage.names().contains(&"image.shale".to_owned()));
}
