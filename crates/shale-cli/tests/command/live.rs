//! Trees that change while they are packed: a file that grows is packed with a warning, and no byte
//! of an image is in vain.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

use crate::stage::{Stage, noise};

/// Adds up the plain bytes of an image that no file points to.
fn dead_bytes(stage: &Stage, image: &str) -> u64 {
    let entries = stage.json(0, &["--json", "find", image, "-type", "f"]);
    let mut used: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for entry in entries.as_array().unwrap() {
        let path = entry["path"].as_str().unwrap();
        let stat = stage.json(0, &["stat", image, path, "--json"]);
        let stat = stat.as_array().map_or(&stat, |all| &all[0]);
        for piece in stat["pieces"].as_array().unwrap() {
            if let (Some(frame), Some(offset)) =
                (piece["frame"].as_u64(), piece["frame_offset"].as_u64())
            {
                let len = used.entry((frame, offset)).or_default();
                *len = piece["len"].as_u64().unwrap().max(*len);
            }
        }
    }
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    let mut covered = 0;
    for ((frame, offset), len) in used {
        let end = ends.entry(frame).or_default();
        covered += (offset + len).saturating_sub(offset.max(*end));
        *end = (*end).max(offset + len);
    }
    let info = stage.json(0, &["info", image, "--json"]);
    info["plain_bytes"].as_u64().unwrap() - covered
}

#[test]
fn a_file_that_grows_all_the_time_is_packed_and_named() {
    let stage = Stage::without_image();
    fs::remove_dir_all(stage.path("source")).unwrap();
    fs::create_dir(stage.path("source")).unwrap();
    let before = noise(40 << 20);
    let path = stage.path("source/log");
    fs::write(&path, &before).unwrap();
    fs::write(stage.path("source/other"), "other").unwrap();
    for (level, image) in [("-1", "a.shale"), ("-4", "b.shale")] {
        let is_done = AtomicBool::new(false);
        let output = thread::scope(|scope| {
            scope.spawn(|| {
                let mut log = OpenOptions::new().append(true).open(&path).unwrap();
                while !is_done.load(Ordering::Relaxed) {
                    log.write_all(b"one more line\n").unwrap();
                }
            });
            let words = ["create", "source", "-o", image, level, "--json"];
            let output = stage.command(&words).output().unwrap();
            is_done.store(true, Ordering::Relaxed);
            output
        });
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("log: grew while it was read; its first"), "{said}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["changed"].as_array().unwrap().len(), 1);
        let packed = stage.run(0, &["cat", image, "log"]).stdout;
        assert!(fs::read(&path).unwrap().starts_with(&packed) && packed.starts_with(&before));
        assert_eq!(dead_bytes(&stage, image), 0);
        stage.run(0, &["check", image, "-q"]);
        fs::write(&path, &before).unwrap();
    }
}

#[test]
fn what_a_later_source_replaces_leaves_no_bytes() {
    let stage = Stage::without_image();
    for (host, seed) in [("h1", 0), ("h2", 9)] {
        fs::create_dir(stage.path(host)).unwrap();
        fs::write(stage.path(host).join("small"), &noise(50_000 + seed)[seed..]).unwrap();
        fs::write(stage.path(host).join("large"), &noise((3 << 20) + seed)[seed..]).unwrap();
        fs::write(stage.path(host).join(host), host).unwrap();
        let tar = ["-cf", &format!("{host}.tar"), "-C", host, "."];
        assert!(stage.other("tar", &tar).status().unwrap().success());
        stage.run(0, &["create", host, "-o", &format!("{host}.shale"), "-q"]);
    }
    for (n, sources) in
        [["h1=/", "h2=/"], ["h1.tar", "h2.tar"], ["h1.shale", "h2.shale"]].iter().enumerate()
    {
        for level in ["-1", "-6"] {
            let image = format!("both-{n}{level}.shale");
            let words = ["create", sources[0], sources[1], "--replace", level, "-qo", &image];
            stage.fails(3, &words, &["2 paths were replaced"]);
            assert_eq!(stage.run(0, &["cat", &image, "small"]).stdout, &noise(50_009)[9..]);
            assert_eq!(dead_bytes(&stage, &image), 0, "{sources:?} {level}");
        }
    }
}
