//! ls, tree, stat, cat, info, dump, check and the commands about the command.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use serde_json::Value;

use crate::stage::{ODD_NAME, Stage, noise, text};

#[test]
fn ls_writes_unescaped_names_to_a_pipe() {
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

/// Names that `ls` lists in a directory with files of different sizes and times.
fn sorted(stage: &Stage, words: &[&str]) -> Vec<String> {
    let all = [&["ls", "sorted.shale"], words].concat();
    stage.text(&all).lines().map(str::to_owned).collect()
}

#[test]
fn ls_sorts_and_formats() {
    let stage = Stage::without_image();
    std::fs::create_dir(stage.path("sizes")).unwrap();
    for (name, len, sec) in [("a", 2000, 30), ("b", 70_000, 10), ("c", 5, 20)] {
        let path = stage.path("sizes").join(name);
        std::fs::write(&path, vec![b'x'; len]).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(sec);
        File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
    }
    stage.run(0, &["create", "sizes", "-o", "sorted.shale", "-q", "--all-root"]);
    assert_eq!(sorted(&stage, &[]), ["a", "b", "c"]);
    assert_eq!(sorted(&stage, &["-r"]), ["c", "b", "a"]);
    assert_eq!(sorted(&stage, &["-t"]), ["a", "c", "b"]);
    assert_eq!(sorted(&stage, &["-S1"]), ["b", "a", "c"]);
    assert_eq!(sorted(&stage, &["-Sr"]), ["c", "a", "b"]);
    assert_eq!(sorted(&stage, &["-d"]), ["/"]);
    assert_eq!(sorted(&stage, &["[ab]", "c"]), ["a", "b", "c"]);
    assert_eq!(sorted(&stage, &["--format", "%n=%s\\n"]), ["a=2000", "b=70000", "c=5"]);
    let mut command = stage.command(&["ls", "-lh", "sorted.shale"]);
    command.env("TZ", "CET-1");
    let long = String::from_utf8(crate::stage::expect(0, command).stdout).unwrap();
    assert!(long.contains("root     root          2.0K 1970-01-01 01:00 +0100 a\n"), "{long}");
    let long = stage.text(&["ls", "-ln", "sorted.shale", "b"]);
    assert!(long.contains(" 0        0            70000 "), "{long}");
    stage.fails(1, &["ls", "sorted.shale", "x*"], &["x*", "matches"]);
    stage.fails(2, &["ls", "sorted.shale", "--format", "%q"], &["%q", "%n name"]);
    stage.fails(2, &["ls", "sorted.shale", "--format", "wide"], &["names, long, tar"]);
    assert!(stage.text(&["ls", "--help"]).contains("--human-readable"));
}

#[test]
fn ls_lists_several_paths_under_their_names() {
    let stage = Stage::new();
    let listed = stage.text(&["ls", "image.shale", "docs/deep", "empty", "docs/*.txt"]);
    assert_eq!(listed, "empty\ndocs/text.txt\n\ndocs/deep:\nnoise.bin\ntext.md\n");
    let listed = stage.json(0, &["ls", "image.shale", "docs/deep", "empty", "--json"]);
    let names: Vec<&Value> = listed.as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["empty", "docs/deep/noise.bin", "docs/deep/text.md"]);
}

#[test]
fn a_listing_in_the_format_of_tar_is_that_of_tar() {
    let stage = Stage::without_image();
    let docs = stage.path("source/docs");
    std::fs::hard_link(docs.join("text.txt"), docs.join("z-twin")).unwrap();
    std::os::unix::fs::symlink("text.txt", docs.join("link")).unwrap();
    stage.run(0, &["create", "source/docs", "-o", "docs.shale", "-q"]);
    stage.run(0, &["export", "docs.shale", "-o", "out.tar", "-q"]);
    let Ok(output) = stage.other("tar", &["--numeric-owner", "-tvf", "out.tar"]).output() else {
        println!("skipped: it needs tar");
        return;
    };
    let expected = String::from_utf8(output.stdout).unwrap();
    assert_eq!(stage.text(&["ls", "docs.shale", "-n", "--format", "tar"]), expected);
}

#[test]
fn du_adds_up_sizes() {
    let stage = Stage::new();
    let (text, deep) = (text().len(), 700_000 + 7);
    let lines = stage.text(&["du", "image.shale", "docs"]);
    assert_eq!(lines, format!("{deep}\tdocs/deep\n{}\tdocs\n", deep + text));
    let lines = stage.text(&["du", "-s", "image.shale"]);
    assert_eq!(lines, format!("{}\t/\n", deep + text + "hodd".len()));
    let lines = stage.text(&["du", "-ad1", "image.shale", "docs"]);
    let expected = format!("{deep}\tdocs/deep\n{text}\tdocs/text.txt\n{}\tdocs\n", deep + text);
    assert_eq!(lines, expected);
    // A file with two names counts once.
    let lines = stage.text(&["du", "-sc", "image.shale", "docs/text.txt", "twin"]);
    assert_eq!(lines, format!("{text}\tdocs/text.txt\n0\ttwin\n{text}\ttotal\n"));
    assert!(stage.text(&["du", "-sh", "image.shale", "docs/deep"]).starts_with("684K\t"));
    let found = stage.json(0, &["du", "--json", "-s", "image.shale", "docs"]);
    assert_eq!((&found[0]["bytes"], &found[0]["files"]), (&(deep + text).into(), &3.into()));
}

#[test]
fn patterns_select_files_for_cat_and_stat() {
    let stage = Stage::new();
    assert_eq!(stage.text(&["cat", "image.shale", "docs/deep/*.md"]), "# deep\n");
    let found = stage.json(0, &["stat", "image.shale", "docs/{text.txt,deep/*}", "--json"]);
    let paths: Vec<&Value> = found.as_array().unwrap().iter().map(|it| &it["path"]).collect();
    assert_eq!(paths, ["docs/deep/noise.bin", "docs/deep/text.md", "docs/text.txt"]);
    stage.fails(1, &["cat", "image.shale", "no*"], &["no*", "matches"]);
}

#[test]
fn tree_shows_directories_and_sizes() {
    let stage = Stage::new();
    let tree = stage.text(&["tree", "-d", "image.shale", "docs"]);
    assert_eq!(tree, "docs\n└── deep\n\n1 directories\n");
    let tree = stage.text(&["tree", "-h", "image.shale", "docs/deep"]);
    assert!(tree.contains("├── [ 684K]  noise.bin\n└── [    7]  text.md\n"), "{tree}");
}

#[test]
fn ls_and_tree_write_json_with_all_names() {
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
fn stat_shows_all_metadata_and_does_not_follow_links() {
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
fn errors_escape_names() {
    let stage = Stage::new();
    let odd = OsStr::from_bytes(b"no\x1b[2Jsuch\n\xff");
    let complaint = stage.run(1, &[OsStr::new("cat"), OsStr::new("image.shale"), odd]).stderr;
    let lines = complaint.iter().filter(|&&byte| byte == b'\n').count();
    assert!(!complaint.contains(&0x1b) && lines == 1, "{:?}", complaint.escape_ascii().to_string());
    let complaint = stage.run(1, &[OsStr::new("ls"), odd]).stderr;
    assert!(!complaint.contains(&0x1b), "{:?}", complaint.escape_ascii().to_string());
}

#[test]
fn create_says_where_time_and_temporary_space_go() {
    let stage = Stage::without_image();
    std::fs::create_dir(stage.path("temporary")).unwrap();
    std::fs::write(stage.path("source/noise"), crate::stage::noise(40 << 20)).unwrap();
    let words = ["create", "source", "-o", "image.shale", "-v", "-4", "--memory", "240M"];
    let words = [&words[..], &["--threads", "1", "--temp-dir", "temporary"]].concat();
    let said = stage.run(0, &words).stderr;
    let said = String::from_utf8_lossy(&said);
    let place = |what: &str| said.find(what).unwrap_or_else(|| panic!("no {what:?} in\n{said}"));
    let before = place("temporary files may take up to ");
    assert!(said[before..].lines().next().unwrap().ends_with(" in temporary (--temp-dir)"));
    let after = place("in temporary files");
    assert!(before < after && after < place("before the build: scan "));
    for stage in ["read", "segment", "refer", "compress", "tables", "write"] {
        let line = said.lines().find(|line| line.contains(" CPU seconds: ")).unwrap();
        assert!(line.contains(&format!("{stage} ")), "{line}");
        assert!(line.contains("in brackets: of the one thread that decides, "), "{line}");
    }
    // Nothing is said of temporary files if there cannot be any.
    let little = stage.run(0, &["create", "source/docs", "-o", "x.shale", "-v"]).stderr;
    assert!(!String::from_utf8_lossy(&little).contains("temporary"));
}

/// A file system in memory, of known size, until it is dropped.
struct Small(std::path::PathBuf);

impl Small {
    /// `None` where the user may not mount.
    fn mount(stage: &Stage, name: &str, bytes: usize) -> Option<Self> {
        let place = stage.path(name);
        std::fs::create_dir(&place).unwrap();
        let size = format!("size={bytes}");
        let mounted = stage.other("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", name]).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(place))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

/// Promise: temporary files take at most 1.2 times the contents, and a full disk is named.
#[test]
fn temporary_files_fit_into_little_more_than_the_contents() {
    const LEN: usize = 60 << 20;
    let stage = Stage::without_image();
    let source = stage.path("contents");
    std::fs::create_dir(&source).unwrap();
    let noise = crate::stage::noise(LEN / 2);
    std::fs::write(source.join("long"), &noise).unwrap();
    for (number, part) in crate::stage::noise(LEN).rchunks(100_000).enumerate().take(LEN / 200_000)
    {
        std::fs::write(source.join(format!("{number:03}")), part).unwrap();
    }
    let words = ["create", "contents", "-o", "image.shale", "-f", "-q", "-4", "--threads", "1"];
    let words = [&words[..], &["--memory", "256M", "--temp-dir"]].concat();
    let Some(enough) = Small::mount(&stage, "enough", LEN / 5 * 6) else {
        println!("skipped: it needs to mount");
        return;
    };
    stage.run(0, &[&words[..], &["enough"]].concat());
    drop(enough);
    let _little = Small::mount(&stage, "little", LEN / 3).unwrap();
    let parts = ["in the folder little", "No space left", "use --temp-dir to name a directory"];
    stage.fails(1, &[&words[..], &["little"]].concat(), &parts);
}

#[test]
fn info_and_check_agree_with_create() {
    let stage = Stage::without_image();
    let made = stage.json(0, &["create", "source", "-o", "image.shale", "--json"]);
    let info = stage.json(0, &["info", "--json", "image.shale"]);
    let checked = stage.json(0, &["check", "--json", "image.shale"]);
    let file_len = std::fs::metadata(stage.path("image.shale")).unwrap().len();
    assert_eq!(made["verified"], true);
    // Stages add up to all processor time, and the deciding thread is part of it.
    let stages = made["stages"].as_array().unwrap();
    let sum = |key: &str| -> f64 { stages.iter().map(|stage| stage[key].as_f64().unwrap()).sum() };
    let all = made["cpu_seconds"].as_f64().unwrap();
    assert!(all > 0.0);
    assert!((sum("deciding_seconds") + sum("helping_seconds") - all).abs() < all / 1e6);
    let share = made["deciding_share"].as_f64().unwrap();
    assert!((sum("deciding_seconds") / all - share).abs() < 1e-6 && share > 0.0 && share <= 1.0);
    let names: Vec<_> = stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect();
    for name in ["read", "segment", "refer", "compress", "tables", "write"] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    // What comes before and after the build is apart.
    assert!(made["scan_cpu_seconds"].as_f64().unwrap() > 0.0);
    assert!(made["verify_cpu_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(made["temporary_bytes"], 0);
    assert!(made["flight_bytes_max"].as_u64().unwrap() > 1 << 20);
    assert_eq!(made["image_bytes"], file_len);
    assert_eq!(info["image_bytes"], file_len);
    assert_eq!(checked["image_len"], file_len);
    assert_eq!(info["image_id"], made["image_id"]);
    assert_eq!(info["snapshots"][0]["entries"], made["entries"]);
    assert_eq!(checked["checked"]["entries"], made["entries"]);
    assert_eq!(checked["checked"]["plain_bytes"], info["plain_bytes"]);
    assert_eq!(checked["checked"]["frames"], info["frames"]);
    // Each frame is decoded once, as all of them fit into the cache.
    assert_eq!(checked["checked"]["frames_decoded"], info["frames"]);
    assert_eq!(checked["clean"], true);
    let details = stage.text(&["info", "-v", "image.shale"]);
    assert!(details.contains("a random read decodes"), "{details}");
    assert_eq!((&made["schema"], &info["schema"]), (&1.into(), &1.into()));
}

#[test]
fn info_answers_in_ten_lines() {
    let stage = Stage::without_image();
    let words = ["create", "source", "-o", "image.shale", "-q", "-3", "--snapshot", "first"];
    stage.run(0, &words);
    let shown = stage.text(&["info", "image.shale"]);
    assert!(shown.lines().count() <= 10, "{shown}");
    for part in [
        "image        image.shale, ",
        "with 6 files and 3 directories",
        "snapshots    1: #0 \"first\"",
        "made with    shale 0.",
        ", level 3, ",
        "no parity; not signed",
        "random read  decodes",
        "100%  docs",
    ] {
        assert!(shown.contains(part), "no `{part}` in\n{shown}");
    }
    stage.run(0, &["parity", "add", "image.shale", "-q"]);
    let shown = stage.text(&["info", "image.shale"]);
    assert!(shown.contains("parity of ") && shown.contains("any burst of"), "{shown}");
    let info = stage.json(0, &["info", "image.shale", "--json"]);
    assert_eq!(info["largest_directories"][0]["path"], "docs");
    assert!(info["history"][0].as_str().unwrap().starts_with("create writer="));
}

#[test]
fn info_and_check_take_several_images() {
    let stage = Stage::new();
    std::fs::copy(stage.path("image.shale"), stage.path("good.shale")).unwrap();
    stage.damage_frame();
    let both = stage.json(0, &["info", "--json", "image.shale", "good.shale"]);
    assert_eq!((&both[0]["path"], &both[1]["path"]), (&"image.shale".into(), &"good.shale".into()));
    let both = stage.json(4, &["check", "--json", "image.shale", "good.shale"]);
    assert_eq!((&both[0]["clean"], &both[1]["clean"]), (&false.into(), &true.into()));
    // The others are checked all the same.
    let output = stage.run(1, &["check", "missing", "good.shale"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("missing") && said.contains("good.shale: no damage found"), "{said}");
    stage.fails(4, &["check", "image.shale", "missing"], &["missing", "docs/deep/noise.bin"]);
    let output = stage.run(1, &["info", "missing", "good.shale"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("good.shale"));
}

#[test]
fn errors_and_warnings_are_json_lines_on_request() {
    let stage = Stage::new();
    let line = |code: i32, words: &[&str]| -> Value {
        let output = stage.run(code, words);
        let said = String::from_utf8(output.stderr).unwrap();
        let last = said.lines().last().unwrap_or_else(|| panic!("{words:?} says nothing"));
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {said}"))
    };
    let found = line(1, &["create", "source", "-o", "image.shale", "--json"]);
    assert_eq!((&found["kind"], &found["schema"]), (&"error".into(), &1.into()));
    assert_eq!(found["exit_code"], 1);
    assert!(found["message"].as_str().unwrap().contains("image.shale"));
    assert!(found["advice"].as_str().unwrap().contains("--force"));
    let found = line(2, &["ls", "--json"]);
    assert_eq!((&found["kind"], &found["exit_code"]), (&"error".into(), &2.into()));
    let words = ["create", "source", "-o", "x.shale", "--exclude", "none", "--json"];
    let output = stage.run(0, &words);
    let said = String::from_utf8(output.stderr).unwrap();
    let warning = said.lines().find(|line| line.contains("matched nothing")).unwrap();
    let warning: Value = serde_json::from_str(warning).unwrap();
    assert_eq!(warning["kind"], "warning");
}

#[test]
fn check_finds_damage_and_names_the_damaged_files() {
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
fn dump_shows_every_structure_with_its_offset() {
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
fn a_closed_pipe_ends_a_listing_quietly() {
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
fn unwritable_output_is_an_error() {
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
