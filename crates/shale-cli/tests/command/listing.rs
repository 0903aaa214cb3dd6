//! ls, tree, stat, cat, info, dump, check and the commands about the command.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use serde_json::Value;

use crate::stage::{ODD_NAME, Stage, noise, text};

#[test]
fn ls_lists_names_as_they_are_in_a_pipe() {
    let stage = Stage::new();
    let listed = stage.run(0, &["ls", "image.shale"]).stdout;
    let expected = [
        &b".hidden\nabsolute\ndocs\nempty\nfifo\nlink\nloop-a\nloop-b\n"[..],
        ODD_NAME,
        b"\ntwin\n",
    ]
    .concat();
    assert_eq!(listed, expected);
    assert_eq!(stage.text(&["ls", "image.shale", "docs"]), "deep\ntext.txt\n");
    assert_eq!(stage.text(&["ls", "-a", "image.shale", "/docs/"]), "deep\ntext.txt\n");
    assert_eq!(stage.text(&["ls", "image.shale", "absolute"]), "noise.bin\ntext.md\n");
    assert_eq!(stage.text(&["ls", "image.shale", "docs/text.txt"]), "docs/text.txt\n");
    assert_eq!(stage.text(&["ls", "-0", "image.shale", "docs"]), "deep\0text.txt\0");
    assert_eq!(
        stage.text(&["ls", "-R", "image.shale", "docs"]),
        "deep\ntext.txt\ndeep/noise.bin\ndeep/text.md\n"
    );
}

#[test]
fn ls_shows_attributes() {
    let stage = Stage::new();
    let long = stage.run(0, &["ls", "-l", "image.shale"]).stdout;
    let long = String::from_utf8_lossy(&long);
    let line = |end: &str| long.lines().find(|l| l.ends_with(end)).unwrap().to_owned();
    assert!(line(" docs").starts_with("drwx"));
    assert!(line(" fifo").starts_with("prw-r-----") || line(" fifo").starts_with("prw-"));
    assert!(line(" link -> docs/text.txt").starts_with("lrwxrwxrwx"));
    let twin = line(" twin");
    let fields: Vec<&str> = twin.split_whitespace().collect();
    assert_eq!(fields[1], "2", "links of {twin}");
    assert_eq!(fields[4], text().len().to_string(), "size of {twin}");
}

#[test]
fn ls_and_tree_speak_json_and_lose_no_name() {
    let stage = Stage::new();
    let all = stage.json(0, &["ls", "-R", "--json", "image.shale"]);
    let all = all.as_array().unwrap();
    let find = |name: &str| all.iter().find(|entry| entry["name"] == name).unwrap();
    assert_eq!(find("docs/text.txt")["size"], text().len());
    assert_eq!(find("docs/text.txt")["inode"], find("twin")["inode"]);
    assert_eq!(find("link")["target"], "docs/text.txt");
    let hex: String = ODD_NAME.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(all.iter().any(|entry| entry["name_hex"] == hex));
    assert_eq!(stage.json(0, &["tree", "--json", "image.shale"]).as_array().unwrap(), all);
    let tree = String::from_utf8_lossy(&stage.run(0, &["tree", "image.shale"]).stdout).into_owned();
    assert!(tree.contains("│   ├── noise.bin"), "{tree}");
    assert!(tree.ends_with("\n2 directories, 12 files\n"), "{tree}");
    let shallow = stage.text(&["tree", "-L", "1", "image.shale", "docs"]);
    assert_eq!(shallow, "docs\n├── deep\n└── text.txt\n\n1 directories, 1 files\n");
}

#[test]
fn stat_shows_everything_and_follows_nothing() {
    let stage = Stage::new();
    let shown = stage.text(&["stat", "image.shale", "link", "docs/deep/noise.bin"]);
    assert!(shown.contains("symlink to docs/text.txt"), "{shown}");
    assert!(shown.contains("size: 700000"), "{shown}");
    assert!(shown.contains("frame"), "{shown}");
    let both = stage.json(0, &["stat", "--json", "image.shale", "twin", "fifo"]);
    assert_eq!(both[0]["links"], 2);
    assert_eq!(both[1]["kind"], "fifo");
    let pieces = both[0]["pieces"].as_array().unwrap();
    let sum: u64 = pieces.iter().map(|piece| piece["len"].as_u64().unwrap()).sum();
    assert_eq!(sum, text().len() as u64);
}

#[test]
fn cat_writes_bytes_and_follows_links() {
    let stage = Stage::new();
    let both = stage.run(0, &["cat", "image.shale", "link", "absolute/noise.bin"]).stdout;
    assert_eq!(both, [text(), noise(700_000)].concat());
    let odd = [OsStr::new("cat"), OsStr::new("image.shale"), OsStr::from_bytes(ODD_NAME)];
    assert_eq!(stage.run(0, &odd).stdout, b"odd");
    for (path, why) in [
        ("missing", "no such file"),
        ("docs/missing", "no such file"),
        ("empty/x", "not a directory"),
        ("docs", "not a regular file"),
        ("fifo", "not a regular file"),
        ("loop-a", "links"),
        ("empty/", "not a directory"),
    ] {
        stage.fails(1, &["cat", "image.shale", path], &[path, why]);
    }
}

#[test]
fn a_name_cannot_speak_to_the_terminal_through_an_error() {
    let stage = Stage::new();
    let odd = OsStr::from_bytes(b"no\x1b[2Jsuch\n\xff");
    let complaint = stage.run(1, &[OsStr::new("cat"), OsStr::new("image.shale"), odd]).stderr;
    let lines = complaint.iter().filter(|&&byte| byte == b'\n').count();
    assert!(!complaint.contains(&0x1b) && lines == 1, "{:?}", complaint.escape_ascii().to_string());
    let complaint = stage.run(1, &[OsStr::new("ls"), odd]).stderr;
    assert!(!complaint.contains(&0x1b), "{:?}", complaint.escape_ascii().to_string());
}

#[test]
fn info_and_check_agree_with_what_was_made() {
    let stage = Stage::without_image();
    let made = stage.json(0, &["create", "source", "-o", "image.shale", "--json"]);
    let info = stage.json(0, &["info", "--json", "image.shale"]);
    let checked = stage.json(0, &["check", "--json", "image.shale"]);
    let file_len = std::fs::metadata(stage.path("image.shale")).unwrap().len();
    assert_eq!(made["verified"], true);
    assert_eq!(made["image_bytes"], file_len);
    assert_eq!(info["image_bytes"], file_len);
    assert_eq!(checked["image_len"], file_len);
    assert_eq!(info["image_id"], made["image_id"]);
    assert_eq!(info["snapshots"][0]["entries"], made["entries"]);
    assert_eq!(checked["checked"]["entries"], made["entries"]);
    assert_eq!(checked["checked"]["plain_bytes"], info["plain_bytes"]);
    assert_eq!(checked["checked"]["frames"], info["frames"]);
    // Each frame once: nothing here is large enough to fall out of the cache.
    assert_eq!(checked["checked"]["frames_decoded"], info["frames"]);
    assert_eq!(checked["clean"], true);
    let people = stage.text(&["info", "image.shale"]);
    assert!(people.contains("a random read decodes at most"), "{people}");
}

#[test]
fn check_finds_damage_and_names_the_files_it_hits() {
    let stage = Stage::new();
    stage.damage_frame();
    let found = stage.json(4, &["check", "--json", "image.shale"]);
    assert_eq!(found["clean"], false);
    assert_eq!(found["damaged_frame_count"], 1);
    assert_eq!(found["damaged_paths"][0]["path"], "docs/deep/noise.bin");
    let places: Vec<&str> =
        found["problems"].as_array().unwrap().iter().filter_map(|p| p["place"].as_str()).collect();
    assert!(places.iter().any(|place| place.starts_with("frame ")), "{places:?}");
    stage.fails(
        4,
        &["check", "image.shale"],
        &["docs/deep/noise.bin", "frame", "extract --continue"],
    );
    let stored = stage.json(4, &["check", "--json", "--no-decode", "image.shale"]);
    assert_eq!(stored["damaged_frame_count"], 1);
    // Other files can still be read.
    assert_eq!(stage.run(0, &["cat", "image.shale", "twin"]).stdout, text());
    stage.fails(1, &["cat", "image.shale", "docs/deep/noise.bin"], &["checksum", "frame"]);
}

#[test]
fn dump_shows_every_structure_with_its_place() {
    let stage = Stage::new();
    let whole = stage.text(&["dump", "image.shale"]);
    for word in
        ["superblock at 0..64", "section 0 at 64..", "trailer at", "root at", "table frames"]
    {
        assert!(whole.contains(word), "no `{word}` in\n{whole}");
    }
    for table in [
        "contents",
        "extents",
        "frames",
        "references",
        "inodes",
        "directories",
        "entries",
        "symlinks",
        "xattr_sets",
        "xattr_items",
    ] {
        let rows = stage.json(0, &["dump", "--json", "image.shale", table]);
        for (index, row) in rows.as_array().unwrap().iter().enumerate() {
            assert_eq!(row["index"], index);
            assert_eq!(row["structure"], format!("{table} row"));
        }
        stage.json(0, &["dump", "--json", "image.shale", "pages", table]);
    }
    let entries = stage.json(0, &["dump", "--json", "image.shale", "entries", "--range", "1..3"]);
    let names: Vec<&Value> =
        entries.as_array().unwrap().iter().map(|entry| &entry["fields"]["name"]).collect();
    assert_eq!(names, ["absolute", "docs"]);
    let frames = stage.text(&["dump", "image.shale", "frames", "--range", "0"]);
    assert!(frames.contains("codec=") && frames.contains("plain_sum="), "{frames}");
    stage.fails(2, &["dump", "image.shale", "nonsense"], &["nonsense", "superblock"]);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let stage = Stage::without_image();
    for n in 0..20_000 {
        File::create(stage.path(format!("source/docs/file-{n:08}"))).unwrap();
    }
    stage.run(0, &["create", "source", "-o", "image.shale", "-q", "--no-verify"]);
    for words in [
        &["ls", "-R", "image.shale"][..],
        &["tree", "image.shale"],
        &["dump", "image.shale", "entries"],
    ] {
        let mut child =
            stage.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{words:?}");
        assert!(output.stderr.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure_and_no_panic() {
    let stage = Stage::new();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for words in
        [&["ls", "image.shale"][..], &["cat", "image.shale", "twin"], &["info", "image.shale"]]
    {
        let mut command = stage.command(words);
        command.stdout(full());
        let output = crate::stage::expect(1, command);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(complaint.contains("No space left"), "{words:?}: {complaint}");
    }
    let mut command = stage.command(&["cat", "image.shale", "missing"]);
    command.stderr(full());
    crate::stage::expect(1, command);
}

#[test]
fn the_command_explains_itself() {
    let stage = Stage::without_image();
    let codes = stage.text(&["help", "exit-codes"]);
    for code in ["  0  ", "  1  ", "  2  ", "  3  ", "  4  ", "130  ", "141  "] {
        assert!(codes.contains(code), "{codes}");
    }
    assert!(stage.text(&["exit-codes"]).contains("130"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(stage.text(&["completions", shell]).contains("extract"), "{shell}");
    }
    assert!(stage.text(&["man"]).contains(".TH shale"));
    stage.run(0, &["man", "--dir", "pages"]);
    for page in ["shale.1", "shale-create.1", "shale-mount.1"] {
        assert!(stage.path("pages").join(page).is_file(), "{page}");
    }
    assert!(stage.text(&["--version"]).starts_with("shale 0."));
    assert!(stage.text(&["help"]).contains("extract"));
}
