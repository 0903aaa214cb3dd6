//! Thin images, deltas and patches: the same answers as one whole image, nothing but what is new in
//! the file, and a clear error wherever the base is missing, another or damaged.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::mount::Point;
use crate::stage::{Stage, expect, noise, text};
use crate::web::Nginx;

/// Noise that is not in the tree yet.
fn other_noise(turn: usize) -> Vec<u8> {
    noise(750_000).split_off(700_000 + turn * 4000)
}

impl Stage {
    /// Changes the tree a little.
    fn change(&self, turn: usize) {
        let mut changed = text();
        changed.extend_from_slice(format!("turn {turn}\n").repeat(500).as_bytes());
        fs::write(self.path("source/docs/text.txt"), changed).unwrap();
        fs::write(self.path(format!("source/new-{turn}")), other_noise(turn)).unwrap();
    }

    /// Contains `image.shale` of the tree, and `thin.shale` over it of a changed tree.
    fn with_thin() -> Self {
        let stage = Self::new();
        stage.change(1);
        let words = ["create", "source", "--base", "image.shale", "-o", "thin.shale"];
        stage.run(0, &[&words[..], &["--snapshot", "new", "-q"]].concat());
        stage
    }

    fn len(&self, name: &str) -> u64 {
        fs::metadata(self.path(name)).unwrap().len()
    }

    fn identity(&self, image: &str) -> String {
        let info = self.json(0, &["info", "--json", image]);
        info["identity"].as_str().unwrap().to_owned()
    }

    fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }
}

#[test]
fn a_thin_image_answers_every_command_as_the_whole_one() {
    let stage = Stage::with_thin();
    stage.run(0, &["merge", "--thick", "thin.shale", "-o", "whole.shale", "-q"]);
    let commands: [&[&str]; 15] = [
        &["ls", "-lR", "IMAGE"],
        &["cat", "IMAGE", "docs/text.txt"],
        &["stat", "--json", "IMAGE", "docs/deep/noise.bin"],
        &["tree", "IMAGE"],
        &["find", "IMAGE", "-size", "+1k"],
        &["check", "--level", "content", "IMAGE", "-q"],
        &["grep", "-c", "turn 1", "IMAGE"],
        &["du", "IMAGE"],
        &["sum", "IMAGE"],
        &["snapshots", "IMAGE"],
        &["verify", "--against", "source", "--metadata", "IMAGE"],
        &["diff", "IMAGE", "source"],
        &["diff", "IMAGE@#0", "image.shale"],
        &["export", "--format", "tar", "IMAGE", "-o", "-"],
        &["dump", "IMAGE"],
    ];
    for words in commands {
        let of = |image: &str| {
            let words: Vec<String> =
                words.iter().map(|word| word.replace("IMAGE", image)).collect();
            stage.command(&words).output().unwrap()
        };
        let (thin, whole) = (of("thin.shale"), of("whole.shale"));
        assert_eq!(thin.status.code(), whole.status.code(), "{words:?}");
        assert!(thin.stdout == whole.stdout, "{words:?} says something else of the thin image");
    }
    assert_eq!(stage.identity("thin.shale"), stage.identity("whole.shale"));
    // From another directory, and by a symbolic link.
    fs::create_dir(stage.path("links")).unwrap();
    std::os::unix::fs::symlink("../thin.shale", stage.path("links/now")).unwrap();
    stage.run(0, &["check", "links/now", "-q"]);
    // Its snapshots are those of the base, and its own.
    let snapshots = stage.json(0, &["snapshots", "--json", "thin.shale"]);
    let names = |value: &Value| value["snapshots"].as_array().map(Vec::len);
    assert_eq!(names(&snapshots).or(snapshots.as_array().map(Vec::len)), Some(2));
}

#[test]
fn a_thin_image_is_what_an_append_adds_byte_for_byte() {
    let stage = Stage::with_thin();
    fs::copy(stage.path("image.shale"), stage.path("grown.shale")).unwrap();
    stage.run(0, &["append", "grown.shale", "source", "--snapshot", "new", "-q"]);
    let (base, grown) = (stage.read("image.shale"), stage.read("grown.shale"));
    let thin = stage.read("thin.shale");
    let added = &grown[base.len()..];
    assert!(thin.ends_with(added), "the thin image holds something else than an append adds");
    // The head, and the name of the base in it.
    assert_eq!(thin.len() - added.len(), 64 + 64 + 48 + "image.shale".len());
    // Joined, they are the image; so is what goes to a pipe.
    stage.run(0, &["merge", "--thick", "thin.shale", "-o", "whole.shale", "-q"]);
    assert!(stage.read("whole.shale") == grown);
    let words = ["create", "source", "--base", "image.shale", "-o", "-", "--snapshot", "new", "-q"];
    assert!(stage.run(0, &words).stdout == thin);
    // A base that grew since is the base still, up to where it was.
    stage.run(0, &["append", "image.shale", "source/docs", "-q"]);
    stage.run(0, &["check", "thin.shale", "-q"]);
    assert_eq!(stage.identity("thin.shale"), stage.identity("whole.shale"));
}

#[test]
fn a_missing_or_other_base_is_named_with_its_identity() {
    let stage = Stage::with_thin();
    let wanted = stage.identity("image.shale");
    let said = [wanted.as_str(), "image.shale", "--base"];
    fs::create_dir(stage.path("bases")).unwrap();
    fs::rename(stage.path("image.shale"), stage.path("bases/image.shale")).unwrap();
    for words in [&["ls", "thin.shale"][..], &["check", "thin.shale"], &["info", "thin.shale"]] {
        stage.fails(1, words, &said);
    }
    // Where it is, as a file and as a directory.
    for base in ["bases/image.shale", "bases"] {
        stage.run(0, &["check", "thin.shale", "--base", base, "-q"]);
    }
    if let Some(point) = Point::new(&stage) {
        let option = format!("base={}", stage.path("bases/image.shale").display());
        for words in [["--base", "bases"], ["-o", &option]] {
            stage.run(0, &[&["mount", "thin.shale", "mnt", "-q"], &words[..]].concat());
            point.becomes(true);
            assert!(stage.read("mnt/docs/text.txt") == stage.read("source/docs/text.txt"));
            stage.run(0, &["umount", "mnt", "-q"]);
            point.becomes(false);
        }
    }
    // Other images in its place.
    stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
    stage.fails(1, &["ls", "thin.shale"], &[wanted.as_str(), "another image"]);
    fs::write(stage.path("image.shale"), "no image at all").unwrap();
    stage.fails(1, &["ls", "thin.shale"], &[wanted.as_str(), "not a ShaleFS image"]);
    let base = stage.read("bases/image.shale");
    fs::write(stage.path("image.shale"), &base[..base.len() - 100]).unwrap();
    stage.fails(1, &["ls", "thin.shale"], &[wanted.as_str(), "truncated"]);
    // The same image, continued in another way.
    fs::write(stage.path("image.shale"), &base).unwrap();
    stage.run(0, &["ls", "thin.shale"]);
    stage.run(0, &["append", "image.shale", "source/docs", "--snapshot", "a", "-q"]);
    let words = ["create", "source", "--base", "image.shale", "-o", "second.shale", "-q"];
    stage.run(0, &words);
    fs::write(stage.path("image.shale"), &base).unwrap();
    stage.run(0, &["append", "image.shale", "source/docs", "--snapshot", "b", "-q"]);
    stage.fails(1, &["ls", "second.shale"], &["its base was not found", "image.shale"]);
    // A library that looks for no base, and commands that change the file of an image.
    for words in [
        &["parity", "add", "thin.shale"][..],
        &["sign", "thin.shale", "-k", "key", "--embed"],
        &["patch", "thin.shale", "second.shale"],
    ] {
        stage.fails(1, words, &["--thick"]);
    }
}

#[test]
fn damage_of_either_file_is_damage() {
    let stage = Stage::with_thin();
    let (base, thin) = (stage.read("image.shale"), stage.read("thin.shale"));
    let head_len = 64 + 64 + 48 + "image.shale".len();
    // A frame of the base.
    stage.damage_frame();
    stage.run(4, &["check", "thin.shale", "-q"]);
    stage.run(0, &["cat", "thin.shale", "new-1"]);
    stage.fails(1, &["cat", "thin.shale", "docs/deep/noise.bin"], &["damaged"]);
    stage.fails(1, &["merge", "--thick", "thin.shale", "-o", "x"], &["damaged: the base"]);
    stage.fails(1, &["patch", "image.shale", "thin.shale", "-o", "x"], &["damaged: the base"]);
    stage.fails(1, &["patch", "image.shale", "thin.shale"], &["damaged: the base"]);
    assert_eq!(stage.len("image.shale"), base.len() as u64);
    let expected = stage.identity("thin.shale");
    stage.fails(1, &["cat", "thin.shale", "docs/deep/noise.bin", "--expect", &expected], &[]);
    fs::write(stage.path("image.shale"), &base).unwrap();
    // A frame of the thin image.
    let new = other_noise(1);
    let at = thin.windows(64).position(|window| window == &new[100..164]).unwrap();
    let mut damaged = thin.clone();
    damaged[at] ^= 1;
    fs::write(stage.path("thin.shale"), &damaged).unwrap();
    stage.run(4, &["check", "thin.shale", "-q"]);
    stage.run(0, &["cat", "thin.shale", "docs/deep/noise.bin"]);
    stage.fails(1, &["patch", "image.shale", "thin.shale", "-o", "x"], &["damaged: the thin"]);
    // Every byte of its head.
    for at in 0..head_len {
        let mut damaged = thin.clone();
        damaged[at] ^= 0x10;
        fs::write(stage.path("thin.shale"), &damaged).unwrap();
        if (48..56).contains(&at) {
            continue; // Unused bytes, below the checksum of the superblock.
        }
        assert!(!stage.succeeds(&["ls", "thin.shale", "-q"]), "byte {at} of the head");
    }
    // Its end is missing: the base is not taken for it.
    for len in [head_len, head_len + 1, head_len + 200, thin.len() - 129, thin.len() - 1] {
        fs::write(stage.path("thin.shale"), &thin[..len]).unwrap();
        stage.fails(1, &["ls", "thin.shale"], &["truncated"]);
    }
    let zeroes = [&thin[..head_len], &vec![0; 5000]].concat();
    fs::write(stage.path("thin.shale"), zeroes).unwrap();
    stage.run(1, &["ls", "thin.shale"]);
    assert!(!stage.path("x").exists());
}

#[test]
fn parity_of_the_base_repairs_the_base_of_a_thin_image() {
    let stage = Stage::without_image();
    stage.run(0, &["create", "source", "-o", "image.shale", "--parity", "20%", "-q"]);
    stage.change(1);
    let words = ["create", "source", "--base", "image.shale", "-o", "thin.shale", "-q"];
    stage.run(0, &words);
    stage.damage_frame();
    let found = stage.run(0, &["cat", "thin.shale", "docs/deep/noise.bin"]);
    assert!(found.stdout == stage.read("source/docs/deep/noise.bin"));
    // A repair makes one whole image.
    stage.run(0, &["repair", "thin.shale", "-o", "whole.shale", "-q"]);
    stage.run(0, &["check", "whole.shale", "-q"]);
    stage.run(0, &["diff", "whole.shale", "source"]);
    let words = ["create", "source", "--base", "image.shale", "-o", "x", "--parity", "5%"];
    stage.fails(2, &words, &["parity"]);
}

#[test]
fn thin_images_are_bases_of_others_up_to_a_limit() {
    let stage = Stage::with_thin();
    fs::rename(stage.path("thin.shale"), stage.path("1.shale")).unwrap();
    for turn in 2..=9 {
        stage.change(turn);
        let (base, thin) = (format!("{}.shale", turn - 1), format!("{turn}.shale"));
        let words = ["create", "source", "--base", &base, "-o", &thin, "--snapshot", &thin, "-q"];
        if turn == 9 {
            stage.fails(1, &words, &["8 thin images over each other"]);
            break;
        }
        stage.run(0, &words);
        stage.run(0, &["check", &thin, "-q"]);
        stage.run(0, &["diff", &thin, "source"]);
    }
    stage.run(0, &["merge", "--thick", "8.shale", "-o", "whole.shale", "-q"]);
    assert_eq!(stage.identity("8.shale"), stage.identity("whole.shale"));
    // A chain that leads back to itself ends.
    fs::copy(stage.path("8.shale"), stage.path("7.shale")).unwrap();
    stage.fails(1, &["ls", "8.shale"], &["its base was not found"]);
    stage.fails(1, &["ls", "8.shale", "--base", "8.shale", "--base", "7.shale"], &["base"]);
}

#[test]
fn thin_images_grow_and_are_copied() {
    let stage = Stage::with_thin();
    let before = stage.read("thin.shale");
    stage.change(2);
    stage.run(0, &["append", "thin.shale", "source", "--snapshot", "third", "-q"]);
    assert!(stage.read("thin.shale").starts_with(&before), "bytes of the thin image were changed");
    stage.run(0, &["check", "thin.shale", "-q"]);
    stage.run(0, &["diff", "thin.shale", "source"]);
    assert_eq!(stage.json(0, &["info", "--json", "thin.shale"])["base"]["name"], "image.shale");
    // What an interrupted append left is cut off, and is no part of it meanwhile.
    let grown = stage.read("thin.shale");
    fs::write(stage.path("thin.shale"), &grown[..grown.len() - 50]).unwrap();
    let said = stage.run(0, &["snapshots", "thin.shale"]);
    assert!(!String::from_utf8(said.stdout).unwrap().contains("third"));
    stage.run(0, &["append", "thin.shale", "source", "--snapshot", "third", "-q"]);
    assert!(stage.read("thin.shale") == grown);
    // Copies hold all of it, whatever becomes of the base.
    stage.run(0, &["compact", "thin.shale", "--keep", "latest", "-o", "small.shale", "-q"]);
    stage.run(0, &["merge", "thin.shale", "-o", "merged.shale", "-q"]);
    stage.run(0, &["rewrite", "thin.shale", "-o", "again.shale", "-1", "-q"]);
    fs::remove_file(stage.path("image.shale")).unwrap();
    for image in ["small.shale", "merged.shale", "again.shale"] {
        stage.run(0, &["check", image, "-q"]);
        stage.run(0, &["diff", image, "source"]);
    }
    stage.fails(1, &["merge", "--thick", "small.shale", "-o", "x"], &["not a thin image"]);
    stage.fails(2, &["merge", "--thick", "small.shale", "thin.shale", "-o", "x"], &["one"]);
}

#[test]
fn deltas_make_the_same_image_on_every_machine() {
    let stage = Stage::new();
    stage.change(1);
    stage.run(
        0,
        &[
            "create",
            "source",
            "-o",
            "new.shale",
            "--snapshot",
            "v2",
            "-q",
            "--keep-times",
            "atime,ctime",
        ],
    );
    let delta = stage.json(0, &["delta", "image.shale", "new.shale", "-o", "d", "--json"]);
    assert_eq!(delta["thin_bytes"].as_u64(), Some(stage.len("d")));
    let patched = stage.json(0, &["patch", "image.shale", "d", "-o", "p.shale", "--json"]);
    assert_eq!(patched["identity"], delta["identity"]);
    assert_eq!(patched["verified"], true);
    stage.run(0, &["diff", "p.shale", "new.shale"]);
    let times = |image: &str| {
        let found = stage.json(0, &["stat", "--json", image, "docs/text.txt"]);
        ["mtime", "atime", "ctime"].map(|time| found[0][time].as_str().unwrap().to_owned())
    };
    assert_eq!(times("p.shale"), times("new.shale"));
    let info = stage.json(0, &["info", "--json", "p.shale"]);
    assert_eq!(info["snapshots"][1]["name"], "v2");
    // In place: the same bytes. A second time it is no longer the old image.
    fs::copy(stage.path("image.shale"), stage.path("here.shale")).unwrap();
    stage.run(0, &["patch", "here.shale", "d", "-q"]);
    assert!(stage.read("here.shale") == stage.read("p.shale"));
    stage.fails(1, &["patch", "here.shale", "d"], &["appended to since"]);
    // To a new file that works: the state before is its beginning.
    stage.run(0, &["patch", "here.shale", "d", "-o", "again.shale", "-q"]);
    assert!(stage.read("again.shale") == stage.read("p.shale"));
    // Something that is no image works as well, and so does a padded image.
    stage.run(0, &["delta", "image.shale", "source", "-o", "e", "-q"]);
    stage.run(0, &["patch", "image.shale", "e", "-o", "q.shale", "-q"]);
    stage.run(0, &["diff", "q.shale", "source"]);
    stage.run(0, &["create", "source", "-o", "padded.shale", "--pad", "-q"]);
    stage.change(2);
    stage.run(0, &["delta", "padded.shale", "source", "-o", "f", "-q"]);
    stage.run(0, &["patch", "padded.shale", "f", "-q"]);
    stage.run(0, &["diff", "padded.shale", "source"]);
    stage.run(0, &["check", "padded.shale", "-q"]);
}

#[test]
fn a_delta_is_applied_to_its_image_only() {
    let stage = Stage::new();
    stage.change(1);
    let delta = stage.json(0, &["delta", "image.shale", "source", "-o", "d", "--json"]);
    let wanted = stage.identity("image.shale");
    stage.run(0, &["create", "source", "-o", "other.shale", "-q"]);
    let before = stage.read("other.shale");
    // Also where the right image lies beside the delta.
    stage.fails(1, &["patch", "other.shale", "d", "-o", "x"], &[&wanted, "other.shale"]);
    stage.fails(1, &["patch", "other.shale", "d"], &[&wanted, "other.shale"]);
    stage.fails(1, &["patch", "image.shale", "other.shale", "-o", "x"], &["not a thin image"]);
    stage.fails(1, &["patch", "image.shale", "source/empty", "-o", "x"], &["not"]);
    let zeroes = "0".repeat(64);
    stage.fails(1, &["patch", "image.shale", "d", "--expect", &zeroes, "-o", "x"], &["identity"]);
    let identity = delta["identity"].as_str().unwrap();
    stage.run(0, &["patch", "image.shale", "d", "--expect", identity, "-o", "y", "-q"]);
    stage.fails(1, &["patch", "image.shale", "d", "-o", "y"], &["--force"]);
    stage.run(0, &["patch", "image.shale", "d", "-o", "y", "-f", "-q"]);
    assert!(stage.read("other.shale") == before && !stage.path("x").exists());
}

#[test]
fn identities_and_signatures_of_thin_images_cover_their_base() {
    let stage = Stage::with_thin();
    let identity = stage.identity("thin.shale");
    stage.run(0, &["cat", "thin.shale", "docs/text.txt", "--expect", &identity]);
    let other = stage.identity("image.shale");
    stage.fails(1, &["ls", "thin.shale", "--expect", &other], &[&identity]);
    stage.run(0, &["keygen", "key", "-q"]);
    stage.run(0, &["sign", "thin.shale", "-k", "key", "-q"]);
    stage.run(0, &["verify", "thin.shale", "-k", "key.pub", "-q"]);
    // The signature is of the image, and not of the file: it holds for the whole one.
    stage.run(0, &["merge", "--thick", "thin.shale", "-o", "whole.shale", "-q"]);
    let words = ["verify", "whole.shale", "-k", "key.pub", "--signature", "thin.shale.sig", "-q"];
    stage.run(0, &words);
    stage.damage_frame();
    stage.fails(1, &["verify", "thin.shale", "-k", "key.pub"], &["thin.shale"]);
}

#[test]
fn a_base_that_is_replaced_under_a_mount_changes_nothing_there() {
    let stage = Stage::with_thin();
    let Some(point) = Point::new(&stage) else { return };
    stage.run(0, &["mount", "thin.shale", "mnt", "-q"]);
    point.becomes(true);
    // Replaced by name, as programs do, and both files removed.
    fs::write(stage.path("other"), "something else").unwrap();
    fs::rename(stage.path("other"), stage.path("image.shale")).unwrap();
    fs::remove_file(stage.path("thin.shale")).unwrap();
    for name in ["docs/text.txt", "docs/deep/noise.bin", "new-1"] {
        let found = stage.read(Path::new("mnt").join(name));
        assert!(found == stage.read(Path::new("source").join(name)), "{name}");
    }
    stage.run(0, &["umount", "mnt", "-q"]);
    point.becomes(false);
    drop(point);
    // Overwritten in place: damage, and never other bytes.
    let stage = Stage::with_thin();
    let Some(point) = Point::new(&stage) else { return };
    stage.run(0, &["mount", "thin.shale", "mnt", "-q"]);
    point.becomes(true);
    let len = stage.len("image.shale") as usize;
    let file = fs::File::options().write(true).open(stage.path("image.shale")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &noise(len), 0).unwrap();
    assert!(fs::read(stage.path("mnt/docs/deep/noise.bin")).is_err());
    stage.run(0, &["umount", "mnt", "-q"]);
    point.becomes(false);
}

#[test]
fn thin_images_and_bases_are_read_from_web_servers() {
    let stage = Stage::with_thin();
    let Some(server) = Nginx::new(&stage, "") else { return };
    let far = |code: i32, words: &[&str]| {
        let mut command = stage.command(words);
        command.env("XDG_CACHE_HOME", stage.path("xdg"));
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(name);
        }
        expect(code, command)
    };
    let (thin, base) = (server.url("thin.shale"), server.url("image.shale"));
    let text = stage.read("source/docs/text.txt");
    assert!(far(0, &["cat", &thin, "docs/text.txt"]).stdout == text, "both elsewhere");
    fs::create_dir(stage.path("near")).unwrap();
    fs::copy(stage.path("thin.shale"), stage.path("near/thin.shale")).unwrap();
    let words = ["cat", "near/thin.shale", "docs/text.txt", "--base", &base];
    assert!(far(0, &words).stdout == text, "the base elsewhere");
    let words = ["cat", &thin, "docs/text.txt", "--base", "image.shale"];
    assert!(far(0, &words).stdout == text, "the thin image elsewhere");
    let words = ["create", "source", "--base", &base, "-o", "near/second.shale", "-q"];
    far(0, &words);
    far(0, &["check", "near/second.shale", "--base", "image.shale", "-q"]);
}
