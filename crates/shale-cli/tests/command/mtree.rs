//! mtree lists as sources: what bsdtar reads of the same list, and what is refused.

use std::fs;

use crate::stage::{Stage, expect, text};

fn refuses(stage: &Stage, text: &str, parts: &[&str]) {
    fs::write(stage.path("bad.mtree"), text).unwrap();
    stage.fails(1, &["create", "bad.mtree", "-qo", "bad.shale"], parts);
    assert!(!stage.path("bad.shale").exists(), "{text}");
}

#[test]
fn a_list_that_bsdtar_writes_packs_what_bsdtar_packs() {
    let stage = Stage::without_image();
    fs::remove_file(stage.path("source/fifo")).unwrap();
    let options = "--options=!all,type,mode,uid,gid,time,size,link,sha256";
    let listed = stage
        .other("bsdtar", &["--format=mtree", options, "-C", "source", "-cf", "source/l.mtree", "."])
        .status();
    if !listed.is_ok_and(|status| status.success()) {
        println!("skipped: bsdtar is not there");
        return;
    }
    let mut bsdtar = stage.other("bsdtar", &["--format=pax", "-cf", "../x.tar", "@l.mtree"]);
    bsdtar.current_dir(stage.path("source"));
    expect(0, bsdtar);
    stage.run(0, &["create", "source/l.mtree", "-qo", "list.shale"]);
    stage.run(0, &["create", "x.tar", "-qo", "tar.shale"]);
    assert_eq!(stage.text(&["diff", "list.shale", "tar.shale"]), "");
    let names = stage.run(0, &["find", "list.shale"]).stdout;
    assert!(names.iter().filter(|byte| **byte == b'\n').count() >= 10);
}

#[test]
fn a_list_that_mtree_writes_packs_the_tree() {
    let stage = Stage::new();
    let words = ["-c", "-K", "sha256", "-p", "source"];
    let Ok(list) = stage.other("mtree", &words).output() else {
        println!("skipped: mtree of mtree-netbsd is not there");
        return;
    };
    assert!(list.status.success() && !list.stdout.starts_with(b"#mtree"));
    fs::write(stage.path("source/list"), list.stdout).unwrap();
    stage.run(0, &["create", "source/list", "-qo", "x.shale"]);
    assert_eq!(stage.text(&["diff", "x.shale", "image.shale"]), "");
}

#[test]
fn a_list_that_shale_exports_packs_the_same_tree() {
    let stage = Stage::new();
    stage.run(0, &["export", "image.shale", "-qo", "source/list.mtree"]);
    stage.run(0, &["create", "source/list.mtree", "-qo", "x.shale"]);
    assert_eq!(stage.text(&["diff", "x.shale", "image.shale"]), "");
}

#[test]
fn names_follow_directories_and_words_can_be_set_for_all() {
    let stage = Stage::without_image();
    fs::write(
        stage.path("source/list.mtree"),
        "#mtree v2.0\n\
         # user: root\n\
         \n\
         /set type=file uid=7 gname=wheel mode=0644 time=5.000000009\n\
         .               type=dir mode=0755\n\
         docs            type=dir mode=02750 uid=8\n    \
           text.txt      nochange\n    \
           deep\\040er    type=dir mode=0700\n        \
               a\\043b  \\\n            \
                   contents=docs/deep/text.md\\\n             \
                   mode=04755\n    \
           ..\n\
         /unset gname\n\
         ..\n\
         null            type=char device=linux,1,3 gid=0\n\
         ./docs/link     type=link link=../x\\sy gid=9\n\
         gone            optional gid=0\n\
         empty           size=0 gid=0\n",
    )
    .unwrap();
    stage.run(0, &["create", "source/list.mtree", "-qo", "x.shale"]);
    let listed = stage.text(&["ls", "-R", "--format", "%A %u %g %Y %s %n %l\n", "x.shale"]);
    let text_len = text().len();
    let expected = format!(
        "drwxr-s--- 8 0 5 3 docs \n\
         -rw-r--r-- 7 0 5 0 empty \n\
         crw-r--r-- 7 0 5 1,3 null \n\
         drwx------ 7 0 5 1 docs/deep er \n\
         lrw-r--r-- 7 9 5 6 docs/link ../x y\n\
         -rw-r--r-- 7 0 5 {text_len} docs/text.txt \n\
         -rwsr-xr-x 7 0 5 7 docs/deep er/a#b \n"
    );
    assert_eq!(listed, expected);
}

#[test]
fn what_an_image_cannot_hold_is_said() {
    let stage = Stage::without_image();
    let text = "#mtree\n. type=dir mode=755 uid=0 gid=0 time=0 flags=uchg colour=red\n";
    fs::write(stage.path("x.mtree"), text).unwrap();
    let said = ["1 entries have file flags", "the keyword `colour` is not known (first in line 2)"];
    stage.fails(3, &["create", "x.mtree", "-qo", "x.shale"], &said);
    assert!(stage.path("x.shale").exists());
}

#[test]
fn patterns_and_pipes_work_as_for_archives() {
    let stage = Stage::new();
    stage.run(0, &["export", "image.shale", "-qo", "source/list.mtree"]);
    let words = ["create", "source/list.mtree", "--exclude", "deep", "-qo", "x.shale"];
    stage.run(0, &words);
    let deep = stage.run(0, &["find", "x.shale", "-name", "deep*"]).stdout;
    assert!(deep.is_empty(), "{}", deep.escape_ascii());
    // From a pipe, files are those of the working directory.
    let mut piped = stage.command(&["create", "-", "-qo", "../y.shale"]);
    piped.current_dir(stage.path("source"));
    piped.stdin(fs::File::open(stage.path("source/list.mtree")).unwrap());
    expect(0, piped);
    assert_eq!(stage.text(&["diff", "y.shale", "image.shale"]), "");
}

#[test]
fn wrong_lines_are_named() {
    let stage = Stage::without_image();
    let sum = "0".repeat(64);
    let meta = "mode=644 uid=0 gid=0 time=0";
    for (line, part) in [
        (format!("a type=door {meta}"), "line 2: expected type file, dir"),
        (format!("source/empty type=file {meta} size=3"), "expected 3 bytes in"),
        (format!("source/.hidden type=file {meta} sha256={sum}"), "another SHA-256"),
        (format!("nothing type=file {meta}"), "nothing: No such file"),
        (format!("source/docs type=file {meta}"), "expected a regular file"),
        ("n type=dir mode=755 uid=0 gid=0".to_owned(), "expected time="),
        (format!("n type=dir uname=no-such-user {meta}").replace(" uid=0", ""), "expected uid="),
        (format!("a/../b type=dir {meta}"), "without `.` and `..`"),
        ("..\n..".to_owned(), "line 3: expected a name, found `..` above the root"),
        ("/a type=dir".to_owned(), "below the root without empty names"),
        (format!(". type=file {meta}"), "expected type dir for the root"),
        (format!("a type=fifo {meta}\n./a type=fifo {meta}"), "line 3: expected each path once"),
        (format!("a type=fifo {meta} link=\\q"), "expected an escape"),
        ("a \\\n".repeat(70_000), "bytes in a line"),
    ] {
        refuses(&stage, &format!("#mtree\n{line}\n"), &["bad.mtree", part]);
    }
}
