//! Parity that is replaced, kept and removed; signatures, comparisons with a directory, checksums.

use std::fs;
use std::os::unix::fs::symlink;

use crate::stage::{Stage, text};

/// The parity of an image, as `info` describes it.
fn parity(stage: &Stage, image: &str) -> serde_json::Value {
    stage.json(0, &["info", "--json", image])["parity"].clone()
}

#[test]
fn parity_is_replaced_unless_more_is_requested() {
    let stage = Stage::new();
    let before = fs::read(stage.path("image.shale")).unwrap();
    stage.run(0, &["parity", "add", "image.shale", "--parity", "5%", "-q"]);
    let once = fs::read(stage.path("image.shale")).unwrap();
    let said = stage.run(0, &["parity", "add", "image.shale"]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("replaces the earlier parity"));
    assert!(fs::read(stage.path("image.shale")).unwrap() == once);
    stage.run(0, &["parity", "add", "image.shale", "--more", "-q"]);
    assert_eq!(parity(&stage, "image.shale")["sections"], 2);
    stage.run(0, &["check", "image.shale", "-q"]);
    stage.run(0, &["parity", "remove", "image.shale", "-q"]);
    assert!(fs::read(stage.path("image.shale")).unwrap() == before);
    assert!(parity(&stage, "image.shale").is_null());
    stage.run(0, &["parity", "remove", "image.shale", "-q"]);
    // The name of the option before.
    stage.run(0, &["parity", "add", "image.shale", "--share", "10%", "-q"]);
    assert_eq!(parity(&stage, "image.shale")["sections"], 1);
}

#[test]
fn signatures_survive_the_removal_of_parity() {
    let stage = Stage::new();
    stage.run(0, &["keygen", "key", "-q"]);
    stage.run(0, &["sign", "image.shale", "-k", "key", "--embed", "-q"]);
    stage.run(0, &["parity", "add", "image.shale", "-q"]);
    stage.run(0, &["sign", "image.shale", "-k", "key", "--embed", "-q"]);
    stage.run(0, &["parity", "remove", "image.shale", "-q"]);
    stage.run(0, &["verify", "image.shale", "-k", "key.pub", "-q"]);
    let info = stage.json(0, &["info", "--json", "image.shale"]);
    assert_eq!(info["signers"].as_array().unwrap().len(), 2);
}

#[test]
fn parity_of_a_damaged_image_is_not_removed() {
    let stage = Stage::new();
    stage.run(0, &["parity", "add", "image.shale", "-q"]);
    stage.damage_frame();
    let before = fs::read(stage.path("image.shale")).unwrap();
    for words in [&["parity", "remove", "image.shale"], &["parity", "add", "image.shale"]] {
        stage.fails(1, words, &["damaged", "repair"]);
        assert!(fs::read(stage.path("image.shale")).unwrap() == before);
    }
    stage.run(0, &["repair", "image.shale", "-o", "new.shale", "-q"]);
}

#[test]
fn a_rewritten_image_keeps_its_parity_and_a_lost_signature_is_a_warning() {
    let stage = Stage::without_image();
    let said = stage.run(0, &["create", "source", "-o", "image.shale", "--parity", "5%"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("instead of 5%"), "{said}");
    stage.run(0, &["keygen", "key", "-q"]);
    stage.run(0, &["sign", "image.shale", "-k", "key", "-q"]);
    let said = stage.run(0, &["rewrite", "image.shale", "-o", "new.shale", "-9", "-q"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("image.shale: its signature") && said.contains("sign that again"));
    assert_eq!(parity(&stage, "new.shale")["sections"], 1);
    stage.run(0, &["rewrite", "image.shale", "-o", "none.shale", "--parity", "none", "-q"]);
    assert!(parity(&stage, "none.shale").is_null());
}

#[test]
fn an_image_is_compared_with_a_directory() {
    let stage = Stage::new();
    let against = ["verify", "image.shale", "--against", "source"];
    stage.run(0, &against);
    stage.run(0, &[&against[..], &["--metadata"]].concat());
    fs::write(stage.path("source/docs/deep/text.md"), "# Deep\n").unwrap();
    fs::write(stage.path("source/docs/new"), "new").unwrap();
    fs::remove_file(stage.path("source/link")).unwrap();
    symlink("elsewhere", stage.path("source/link")).unwrap();
    fs::remove_file(stage.path("source/empty")).unwrap();
    fs::remove_file(stage.path("source/fifo")).unwrap();
    fs::create_dir(stage.path("source/fifo")).unwrap();
    stage.fails(
        1,
        &against,
        &[
            "docs/deep/text.md: content differs at offset 2",
            "docs/new: not in the image",
            "link: another link target",
            "empty: missing in the directory",
            "fifo: another kind of file",
            "5 differences",
        ],
    );
    let found = stage.json(1, &[&against[..], &["--json"]].concat());
    assert_eq!((&found["same"], &found["difference_count"]), (&false.into(), &5.into()));
    stage.fails(1, &["verify", "image.shale", "--against", "none"], &["none", "No such file"]);
    stage.fails(2, &["verify", "image.shale"], &["--key"]);
}

#[test]
fn sums_are_those_of_sha256sum() {
    let stage = Stage::new();
    let list = stage.run(0, &["sum", "image.shale"]).stdout;
    fs::write(stage.path("list"), &list).unwrap();
    let mut command = stage.other("sha256sum", &["--check", "--quiet", "../list"]);
    let Ok(output) = command.current_dir(stage.path("source")).output() else {
        println!("skipped: it needs sha256sum");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Each name of a file with several names, and files only.
    assert_eq!(list.iter().filter(|&&byte| byte == b'\n').count(), 7);
    let one = stage.json(0, &["sum", "image.shale", "--json", "docs/deep/*.md"]);
    assert_eq!(one.as_array().unwrap().len(), 1);
    stage.fails(1, &["sum", "image.shale", "none"], &["none", "matches"]);
    stage.fails(3, &["sum", "image.shale", "none", "twin"], &["none", "matches"]);
}

#[test]
fn a_single_file_is_packed_by_itself() {
    let stage = Stage::without_image();
    let said = stage.run(0, &["create", "source/docs/text.txt", "-o", "one.shale"]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("packed as a single file"));
    assert_eq!(stage.text(&["ls", "one.shale"]), "text.txt\n");
    assert_eq!(stage.run(0, &["cat", "one.shale", "text.txt"]).stdout, text());
    // A damaged archive is not a file like any other.
    fs::write(stage.path("damaged.tar.gz"), "damaged").unwrap();
    stage.fails(1, &["create", "damaged.tar.gz", "-o", "x.shale"], &["damaged.tar.gz", "format"]);
    let words = ["create", "source/docs/deep/text.md", "source/empty=/etc", "-o", "two.shale"];
    stage.run(0, &[&words[..], &["-q"]].concat());
    assert_eq!(stage.text(&["ls", "-R", "two.shale"]), "etc\ntext.md\netc/empty\n");
}

#[test]
fn progress_tells_phase_share_and_time() {
    let stage = Stage::without_image();
    fs::write(stage.path("source/long"), text().repeat(60)).unwrap();
    let said = stage.run(0, &["create", "source", "-o", "x.shale", "-9", "--progress", "plain"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    // How many lines there are depends on the machine; each has this form.
    let mut lines = said.lines().take_while(|line| !line.starts_with("x.shale:"));
    let is_line = |line: &str| {
        let phase = line.split(':').next().unwrap_or_default();
        (phase.ends_with("/9") || phase == "parity") && line.contains(" elapsed")
    };
    assert!(lines.all(is_line), "{said}");
}
