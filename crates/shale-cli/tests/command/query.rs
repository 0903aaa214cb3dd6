//! find, diff, grep and snapshots.

use std::fs;

use crate::stage::Stage;

#[test]
fn find_selects_entries_as_find_does() {
    let stage = Stage::new();
    let find = |words: &[&str]| stage.text(&[&["find", "image.shale"], words].concat());
    assert_eq!(find(&["-name", "*.md"]), "docs/deep/text.md\n");
    assert_eq!(find(&["docs", "-type", "f", "-size", "+500k"]), "docs/deep/noise.bin\n");
    assert_eq!(find(&["-links", "2", "-type", "f"]), "docs/text.txt\ntwin\n");
    assert_eq!(find(&["-type", "p", "-perm", "640", "-print0"]), "fifo\0");
    assert_eq!(find(&["(", "-name", "empty", "-o", "-name", "twin", ")", "!", "-empty"]), "twin\n");
    assert_eq!(find(&["docs", "-maxdepth", "1"]), "docs\ndocs/deep\ndocs/text.txt\n");
    assert_eq!(
        find(&["-name", "deep", "-prune", "-o", "-path", "docs/*"]),
        "docs/deep\ndocs/text.txt\n"
    );
    assert!(find(&["twin", "-ls"]).starts_with("-rw"));
    // The same entries as the system's find sees in the source, the root apart.
    let names = |text: String| {
        let mut lines: Vec<_> =
            text.split('\0').filter(|line| !line.is_empty()).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let script = "cd source && find . -mindepth 1 -type f -size -2 -printf '%P\\0'";
    let theirs = stage.other("sh", &["-c", script]).output().unwrap();
    let ours = stage
        .run(0, &["find", "image.shale", "-mindepth", "1", "-type", "f", "-size", "-2", "-print0"]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(names(text(&ours.stdout)), names(text(&theirs.stdout)));
    let json = stage.json(0, &["find", "--json", "image.shale", "-name", "*.md"]);
    assert_eq!(json[0]["path"], "docs/deep/text.md");
}

#[test]
fn find_says_which_test_is_wrong() {
    let stage = Stage::new();
    for (words, wanted) in [
        (&["-size", "big"][..], "-size"),
        (&["-exec", "rm"], "-exec"),
        (&["missing", "-name", "x"], "missing"),
    ] {
        let code = if words[0] == "missing" { 1 } else { 2 };
        let output = stage.run(code, &[&["find", "image.shale"], words].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn diff_of_equal_trees_is_empty_and_of_others_names_each_change() {
    let stage = Stage::new();
    assert_eq!(stage.text(&["diff", "image.shale", "source"]), "");
    assert_eq!(stage.text(&["diff", "image.shale", "image.shale"]), "");
    let source = stage.path("source");
    fs::write(source.join("docs/deep/text.md"), "# changed").unwrap();
    fs::rename(source.join("docs/deep/noise.bin"), source.join("moved.bin")).unwrap();
    fs::remove_file(source.join("empty")).unwrap();
    fs::write(source.join("new"), "new").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(source.join(".hidden"), mode).unwrap();
    let output = stage.run(1, &["diff", "--no-times", "image.shale", "source"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        "M p         .hidden\n\
         M c         docs/deep/text.md\n\
         - \u{20}         empty\n\
         > \u{20}         docs/deep/noise.bin -> moved.bin\n\
         + \u{20}         new\n"
    );
    stage.run(0, &["create", "source", "-o", "second.shale", "-q"]);
    let json = stage.json(1, &["diff", "--json", "--no-times", "image.shale", "second.shale"]);
    assert_eq!(json["added"], 1);
    assert_eq!(json["removed"], 1);
    assert_eq!(json["moved"], 1);
    assert_eq!(json["changed"], 2);
    assert_eq!(json["changes"][3]["from"], "docs/deep/noise.bin");
    let stat = stage.run(1, &["diff", "--stat", "--no-times", "image.shale", "second.shale"]);
    assert!(
        String::from_utf8_lossy(&stat.stdout).starts_with("1 added, 1 removed, 2 changed, 1 moved")
    );
}

#[test]
fn diff_fails_with_code_2() {
    let stage = Stage::new();
    for words in [["diff", "image.shale", "missing"], ["diff", "image.shale@none", "image.shale"]] {
        let output = stage.run(2, &words);
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn grep_finds_lines_once_for_each_path() {
    let stage = Stage::without_image();
    let source = stage.path("source");
    fs::write(source.join("a.log"), "one ERROR here\nfine\nanother error\n").unwrap();
    fs::write(source.join("b.log"), "one ERROR here\nfine\nanother error\n").unwrap();
    fs::write(source.join("binary"), b"ERROR\0\n").unwrap();
    stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
    let grep = |words: &[&str]| stage.text(&[&["grep"], words].concat());
    assert_eq!(grep(&["ERROR", "image.shale"]), "a.log:one ERROR here\nb.log:one ERROR here\n");
    assert_eq!(
        grep(&["-n", "-i", "error", "image.shale", "a.log"]),
        "1:one ERROR here\n3:another error\n"
    );
    assert_eq!(grep(&["-c", "-i", "error", "image.shale"]), "a.log:2\nb.log:2\n");
    assert_eq!(grep(&["-l", "-a", "-F", "ERROR", "image.shale"]), "a.log\nb.log\nbinary\n");
    assert_eq!(grep(&["-w", "-F", "fine", "image.shale", "b.log"]), "fine\n");
    assert_eq!(stage.run(1, &["grep", "nowhere to be seen", "image.shale"]).stdout, b"");
    stage.run(2, &["grep", "(", "image.shale"]);
    let json = stage.text(&["grep", "--json", "ERROR", "image.shale", "a.log"]);
    assert_eq!(json, "{\"line\":\"one ERROR here\",\"line_number\":1,\"path\":\"a.log\"}\n");
}

#[test]
fn grep_is_grep_for_many_files_and_threads() {
    let stage = Stage::without_image();
    let source = stage.path("source");
    fs::create_dir(source.join("many")).unwrap();
    for file in 0..300 {
        let lines: String = (0..200)
            .map(|line| {
                format!(
                    "{} line {line} of {file}\n",
                    if (line + file) % 7 == 0 { "hit" } else { "-" }
                )
            })
            .collect();
        fs::write(source.join(format!("many/{file}.txt")), lines).unwrap();
    }
    stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
    let theirs =
        stage.other("sh", &["-c", "cd source && grep -rn hit many | sort"]).output().unwrap();
    for threads in ["1", "3"] {
        let words = ["grep", "-n", "hit", "image.shale", "many", "--threads", threads];
        let ours = stage.text(&words);
        let mut lines: Vec<_> = ours.lines().collect();
        lines.sort_unstable();
        let theirs = String::from_utf8(theirs.stdout.clone()).unwrap();
        let mut wanted: Vec<_> = theirs.lines().collect();
        wanted.sort_unstable();
        assert_eq!(lines, wanted);
    }
}

#[test]
fn snapshots_are_listed_and_searched() {
    let stage = Stage::new();
    let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/images/");
    let image = &format!("{images}0.3-snapshots.shale");
    let json = stage.json(0, &["snapshots", "--json", image]);
    assert_eq!(json.as_array().unwrap().len(), 2);
    assert_eq!(json[1]["name"], "second");
    assert!(stage.text(&["snapshots", image]).contains("second"));
    let all = stage.text(&["find", "--snapshots", image, "-type", "f"]);
    assert!(all.contains("#0\td/text\n") && all.contains("#1\td/text\n"), "{all}");
    stage.run(1, &["diff", &format!("{image}@#0"), image]);
    stage.run(0, &["diff", &format!("{image}@second"), image]);
}
