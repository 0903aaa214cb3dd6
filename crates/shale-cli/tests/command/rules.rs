//! `--rule`: files that are packed in another way, by their path.

use std::fs;

use serde_json::Value;

use crate::stage::{Stage, noise, text};

/// A tree with logs, a program and something in a compressed file.
fn stage() -> Stage {
    let stage = Stage::without_image();
    fs::create_dir_all(stage.path("tree/logs")).unwrap();
    fs::create_dir_all(stage.path("tree/bin")).unwrap();
    fs::write(stage.path("tree/logs/a.log"), text()).unwrap();
    // It shares nothing with the log.
    let tables: Vec<u8> = (0..60_000u32).flat_map(|n| (n * n / 7).to_le_bytes()).collect();
    fs::write(stage.path("tree/bin/tool"), [b"\x7fELF", &tables[..]].concat()).unwrap();
    fs::write(stage.path("tree/data"), [noise(5000), vec![7; 90_000], noise(500)].concat())
        .unwrap();
    let zipped = stage.other("gzip", &["-9nkc", "tree/logs/a.log"]).output().unwrap();
    fs::write(stage.path("tree/data.gz"), zipped.stdout).unwrap();
    stage
}

/// Codecs of frames, and the bytes that each holds.
fn codecs(stage: &Stage, image: &str) -> Vec<(String, u64)> {
    let info = stage.json(0, &["info", image, "--json"]);
    let of = |codec: &Value| {
        (codec["name"].as_str().unwrap().to_owned(), codec["plain_bytes"].as_u64().unwrap())
    };
    info["codecs"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn rules_give_files_another_codec_and_level_and_the_same_bytes_each_time() {
    let stage = stage();
    let rules = ["--rule", "*.log: codec=lz4, lines=off", "--rule", "/bin/: codec=lzma:6,lc=4"];
    for level in ["-0", "-1", "-3", "-6"] {
        let make = |threads, output| {
            let words = ["create", "tree", level, "--threads", threads, "-fqo", output];
            stage.run(0, &[&words[..], &rules].concat());
            fs::read(stage.path(output)).unwrap()
        };
        assert_eq!(make("1", "x.shale"), make("3", "y.shale"), "level {level}");
        let codecs = codecs(&stage, "x.shale");
        let log_len = text().len() as u64;
        let lz4: u64 = codecs.iter().filter(|(name, _)| name == "lz4").map(|(_, len)| len).sum();
        assert!(level == "-0" || lz4 == log_len, "level {level}: {codecs:?}");
        assert!(codecs.iter().any(|(name, _)| name.starts_with("lzma")), "{level}: {codecs:?}");
        stage.run(0, &["verify", "x.shale", "--against", "tree", "-q"]);
    }
    // A level has other frames and codecs.
    stage.run(0, &["create", "tree", "-qo", "low.shale", "-1"]);
    stage.run(0, &["create", "tree", "-qo", "mixed.shale", "-1", "--rule", "logs/: level=9"]);
    let len = |name| fs::metadata(stage.path(name)).unwrap().len();
    assert!(len("mixed.shale") < len("low.shale"));
    stage.run(0, &["verify", "mixed.shale", "--against", "tree", "-q"]);
    // The first rule that matches decides.
    let words = ["create", "tree", "-qo", "first.shale", "--rule", "*: codec=stored"];
    stage.run(0, &[&words[..], &rules].concat());
    assert!(codecs(&stage, "first.shale").iter().all(|(name, _)| name == "stored"));
}

#[test]
fn rules_say_what_files_are_and_whether_they_are_taken_apart() {
    let stage = stage();
    let kinds = |image: &str| {
        let info = stage.json(0, &["info", image, "--json"]);
        let categories = info["categories"].as_array().unwrap().clone();
        let names = categories.iter().map(|kind| kind["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>(), info["streams"].as_array().map_or(0, Vec::len))
    };
    stage.run(0, &["create", "tree", "-qo", "x.shale", "--rule", "*.gz: recompress=on"]);
    assert_eq!(kinds("x.shale").1, 1);
    let words = ["create", "tree", "--recompress", "-qo", "y.shale", "--rule"];
    stage.run(0, &[&words[..], &["*.gz: recompress=off"]].concat());
    assert_eq!(kinds("y.shale").1, 0);
    stage.run(0, &["create", "tree", "-qo", "z.shale", "--rule", "*: category=generic"]);
    assert!(!kinds("z.shale").0.contains(&"code".to_owned()), "{:?}", kinds("z.shale"));
    for image in ["x.shale", "y.shale", "z.shale"] {
        stage.run(0, &["verify", image, "--against", "tree", "-q"]);
    }
}

#[test]
fn rules_are_shown_and_wrong_or_idle_ones_are_named() {
    let stage = stage();
    let words = ["create", "tree", "-o", "x.shale", "--filter-dry-run", "--rule", "*.log: level=9"];
    let shown = stage.text(&words);
    assert!(shown.contains("+ logs/a.log    (rule: *.log: level=9)\n"), "{shown}");
    assert!(shown.contains("+ bin/tool\n"), "{shown}");
    let json = stage.json(0, &[&words[..], &["--json"]].concat());
    let rule_of = |path: &str| {
        let all = json.as_array().unwrap().iter();
        all.clone().find(|entry| entry["path"] == path).unwrap()["rule"].clone()
    };
    assert_eq!(rule_of("logs/a.log"), "*.log: level=9");
    assert!(rule_of("data").is_null());
    stage.fails(
        0,
        &["create", "tree", "-o", "idle.shale", "--rule", "*.none: level=9"],
        &["'*.none: level=9' matched no file"],
    );
    for (rule, valid) in [
        ("*.log", "PATTERN: KEY=VALUE"),
        ("*.log: codek=lz4", "codec=CODEC[:SETTINGS], level=0 to 9"),
        ("*.log: codec=zip", "stored, zstd, lz4, lzma"),
        ("*.log: codec=brotli", "can only be read"),
        ("*.log: category=pictures", "generic, text, code"),
    ] {
        stage.fails(2, &["create", "tree", "-o", "bad.shale", "--rule", rule], &[valid]);
        assert!(!stage.path("bad.shale").exists());
    }
}

#[test]
fn appends_follow_rules_too() {
    let stage = stage();
    stage.run(0, &["create", "tree", "-qo", "x.shale"]);
    fs::write(
        stage.path("tree/logs/b.log"),
        noise(3000).iter().flat_map(|b| [*b; 40]).collect::<Vec<_>>(),
    )
    .unwrap();
    let words = ["append", "x.shale", "tree", "-q", "--rule", "b.log: codec=lz4"];
    stage.run(0, &words);
    assert!(codecs(&stage, "x.shale").iter().any(|(name, _)| name == "lz4"));
    stage.run(0, &["verify", "x.shale", "--against", "tree", "-q"]);
    stage.run(0, &["check", "x.shale", "-q"]);
}
