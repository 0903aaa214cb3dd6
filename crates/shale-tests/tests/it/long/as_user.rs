//! Promise: an ordinary user extracts whatever an ordinary user may have, it becomes his, and what
//! he may not have is told.

use shale_tests::command::{as_nobody, create, expect_code, shale};
use shale_tests::keep::{with_xattrs, without_kinds};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{Options, tree};
use shale_tests::places;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

const NOBODY: u32 = 65_534;
const PARTIAL: i32 = 3;

/// An extraction as an ordinary user, if this is root.
fn nobody_extracts(folder: &Path, image: &Path, words: &[&str]) -> Option<Command> {
    let mut command = shale(["extract"]);
    command.arg(image).args(words);
    let mut nobody = as_nobody(folder, &command)?;
    nobody.current_dir(folder);
    Some(nobody)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A tree of root as it comes to a user.
fn as_his(manifest: Manifest) -> Manifest {
    let mut manifest = with_xattrs(without_kinds(manifest, "bc"), &["user.", "system.posix_acl"]);
    for record in manifest.records.values_mut() {
        record.owner = (NOBODY, NOBODY);
        if record.kind != 'd' {
            record.mode &= !0o6000;
        }
    }
    manifest
}

#[test]
fn all_that_a_user_may_have_comes_out_and_is_his() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("source")).unwrap();
    make(&tree(Options::everything(1)), &path("source"), 1).unwrap();
    create(&path("source"), &path("x.shale"), &["-1"]);
    let expected = as_his(Manifest::of(&path("source")).unwrap());
    let Some(mut nobody) = nobody_extracts(folder.path(), &path("x.shale"), &["-C", "all"]) else {
        return;
    };
    // Devices are problems, the rest of what is not his is counted.
    let output = expect_code(&mut nobody, PARTIAL);
    let text = said(&output);
    assert!(text.contains("only root can make them"), "{text}");
    assert!(text.contains("privileged extended attributes, and the setuid"), "{text}");
    expected.assert_equals(&Manifest::of(&path("all")).unwrap(), "extraction by a user");

    // Whoever asks for less gets it without a problem.
    let words = ["-C", "less", "--no-devices", "--no-xattrs"];
    let mut nobody = nobody_extracts(folder.path(), &path("x.shale"), &words).unwrap();
    expect_code(&mut nobody, 0);
    let found = Manifest::of(&path("less")).unwrap();
    with_xattrs(expected, &[]).assert_equals(&found, "extraction by a user without attributes");

    // Whoever asks for owners that he cannot give is told.
    let words = ["-C", "same", "--same-owner", "--no-devices", "-q", "folders/*"];
    let mut nobody = nobody_extracts(folder.path(), &path("x.shale"), &words).unwrap();
    let text = said(&expect_code(&mut nobody, PARTIAL));
    assert!(text.contains("cannot set its owner"), "{text}");
}

#[test]
fn the_other_options_hold_for_a_user_too() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("source/a/b")).unwrap();
    std::fs::write(path("source/a/b/text"), b"text of b").unwrap();
    std::fs::write(path("source/a/zeroes"), vec![0; 4 << 20]).unwrap();
    create(&path("source"), &path("x.shale"), &[]);
    let run = |words: &[&str], code: i32| {
        let command = nobody_extracts(folder.path(), &path("x.shale"), words);
        command.map(|mut command| expect_code(&mut command, code))
    };
    let words = ["-C", "out", "--strip-components=1", "--sparse=always"];
    if run(&words, 0).is_none() {
        return;
    }
    let zeroes = std::fs::metadata(path("out/zeroes")).unwrap();
    assert_eq!((zeroes.len(), zeroes.blocks(), zeroes.uid()), (4 << 20, 0, NOBODY));
    let contents = run(&["--to-stdout", "a/b/text"], 0).unwrap();
    assert_eq!(contents.stdout, b"text of b");

    // What is there already: refused, kept, replaced.
    let text = said(&run(&words, 1).unwrap());
    assert!(text.contains("exist already"), "{text}");
    std::fs::write(path("out/b/text"), b"mine").unwrap();
    run(&[&words[..], &["--overwrite=never"]].concat(), 0);
    assert_eq!(std::fs::read(path("out/b/text")).unwrap(), b"mine");
    run(&[&words[..], &["--overwrite=always"]].concat(), 0);
    assert_eq!(std::fs::read(path("out/b/text")).unwrap(), b"text of b");

    // A place where he may not write is named, and nothing is there then.
    std::fs::create_dir(path("roots")).unwrap();
    let text = said(&run(&["-C", "roots/out"], 1).unwrap());
    assert!(text.contains("roots") && text.contains("Permission denied"), "{text}");
    assert!(!path("roots/out").exists());
}
