//! Promise: what is chosen is packed and nothing else, as rsync would choose it; and what is
//! overruled is stored so.

use shale_tests::command::{create, expect_code, has_program, is_root, run, shale};
use shale_tests::image::manifest_at as of_image;
use shale_tests::manifest::Manifest;
use shale_tests::places;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

fn names(manifest: &Manifest) -> Vec<String> {
    let paths = manifest.records.keys().filter(|path| !path.is_empty());
    paths.map(|path| String::from_utf8(path.clone()).unwrap()).collect()
}

fn fill(root: &Path, files: &[&str]) {
    for file in files {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file).unwrap();
    }
}

const FILES: &[&str] = &[
    "a.c",
    "a.o",
    "src/b.c",
    "src/b.o",
    "src/deep/c.o",
    "src/deep/keep.o",
    "tmp/x",
    "x/tmp/y",
    "cache/1/2/data",
    "doc/a[1].txt",
    "doc/star*",
    "only/dirs/here/z.o",
];

#[test]
fn rules_choose_what_rsync_chooses() {
    let folder = places::disk();
    let source = folder.path().join("s");
    fill(&source, FILES);
    fill(&source, &["doc/back\\slash"]);
    let sets: &[&[&str]] = &[
        &["--exclude=*.o"],
        &["--include=keep.o", "--exclude=*.o"],
        &["--exclude=*.o", "--include=keep.o"],
        &["--exclude=/tmp/"],
        &["--exclude=tmp/"],
        &["--include=/src/", "--include=/src/**", "--exclude=*"],
        &["--include=src/***", "--exclude=*"],
        &["--exclude=deep/c.o", "--exclude=cache/**/data"],
        &["--filter=- /doc/*[[]*", "--filter=- star\\*"],
        &["--filter=+ *.c", "--filter=+ */", "--filter=- *"],
        &["--filter=- */here/**"],
        &["--exclude=**/a.o", "--exclude=**/tmp/"],
        &["--exclude=[[:alpha:]].o", "--exclude=src/[![:alpha:]]*"],
        &["--exclude=doc/back\\slash", "--exclude=doc/star\\*"],
    ];
    let image = folder.path().join("x.shale");
    for (index, set) in sets.iter().enumerate() {
        create(&source, &image, &[&["-f"], *set].concat());
        let found = names(&of_image(&image));
        if !has_program("rsync") {
            println!("skipped: rsync is missing");
            continue;
        }
        let target = folder.path().join(index.to_string());
        let mut rsync = Command::new("rsync");
        rsync.arg("-a").args(*set).arg(source.join("")).arg(target.join(""));
        expect_code(&mut rsync, 0);
        assert_eq!(found, names(&Manifest::of(&target).unwrap()), "{set:?}");
    }
}

#[test]
fn archives_are_chosen_from_like_trees_and_a_dry_run_says_how() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    fill(&path("s"), FILES);
    create(&path("s"), &path("all.shale"), &[]);
    let all = path("all.shale");
    run([OsStr::new("export"), all.as_os_str(), "-o".as_ref(), path("s.tar").as_os_str()]);
    let rules = ["--include=keep.o", "--exclude=*.o", "--exclude=/cache", "--remove-empty-dirs"];
    create(&path("s"), &path("tree.shale"), &rules);
    create(&path("s.tar"), &path("tar.shale"), &rules);
    let found = of_image(&path("tree.shale"));
    found.assert_equals(&of_image(&path("tar.shale")), "tree and tar");
    let expected = [
        "a.c",
        "doc",
        "doc/a[1].txt",
        "doc/star*",
        "src",
        "src/b.c",
        "src/deep",
        "src/deep/keep.o",
        "tmp",
        "tmp/x",
        "x",
        "x/tmp",
        "x/tmp/y",
    ];
    assert_eq!(names(&found), expected);
    for source in ["s", "s.tar"] {
        let mut dry = shale(["create"]);
        dry.arg(path(source)).arg("-o").arg(path("none.shale")).args(rules).arg("--filter-dry-run");
        let output = expect_code(&mut dry, 0);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("- cache/    [/cache]\n"), "{text}");
        assert!(text.contains("- a.o    [*.o]\n"), "{text}");
        assert!(text.contains("+ src/deep/keep.o    [keep.o]\n"), "{text}");
        assert!(!text.contains("cache/1"), "what is below is not asked for: {text}");
        assert!(!path("none.shale").exists());
    }
}

#[test]
fn a_link_to_what_is_filtered_out_of_an_archive_is_a_problem_not_an_empty_file() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    fill(&path("s"), &["a", "other"]);
    std::fs::hard_link(path("s/a"), path("s/b")).unwrap();
    create(&path("s"), &path("s.shale"), &[]);
    run(["export".as_ref(), path("s.shale").as_os_str(), "-o".as_ref(), path("s.tar").as_os_str()]);
    let mut command = shale(["create", "--exclude=a"]);
    command.arg(path("s.tar")).arg("-o").arg(path("x.shale"));
    let output = expect_code(&mut command, 1);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("b: ") && text.contains("filtered out"), "{text}");
    // Of a tree every name can be read.
    create(&path("s"), &path("x.shale"), &["--exclude=a"]);
    let manifest = of_image(&path("x.shale"));
    assert_eq!(names(&manifest), ["b", "other"]);
    assert_eq!(manifest.records[&b"b"[..]].len, 1);
}

#[test]
fn lists_choose_by_path() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    fill(&path("s"), FILES);
    std::fs::write(path("list"), "src/b.c\n./tmp\n/doc/star*\n").unwrap();
    let list = format!("--input-list={}", path("list").display());
    create(&path("s"), &path("x.shale"), &[&list]);
    assert_eq!(names(&of_image(&path("x.shale"))), ["doc", "doc/star*", "src", "src/b.c", "tmp"]);
    std::fs::write(path("list"), b"a.c\0not\nthere\0").unwrap();
    let mut command = shale(["create", &list]);
    let output = expect_code(command.arg(path("s")).arg("-fo").arg(path("x.shale")), 1);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("1 of the listed paths") && text.contains("not\\nthere"), "{text}");
}

#[test]
fn several_sources_come_under_their_names_or_prefixes() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    fill(&path("one"), &["a", "same"]);
    fill(&path("two"), &["b", "same"]);
    create(&path("two"), &path("two.shale"), &[]);
    let archive = path("two.tar");
    run(["export".as_ref(), path("two.shale").as_os_str(), "-o".as_ref(), archive.as_os_str()]);
    let pack_as = |options: &[&str], sources: &[String], code: i32| {
        let mut command = shale(["create", "-f"]);
        let command = command.args(options).args(sources);
        expect_code(command.arg("-o").arg(path("x.shale")), code);
        of_image(&path("x.shale"))
    };
    let at = |name: &str, prefix: &str| format!("{}{prefix}", path(name).display());
    let pack = |sources: &[String]| pack_as(&[], sources, 0);
    let found = pack(&[at("one", ""), at("two", "")]);
    assert_eq!(names(&found), ["one", "one/a", "one/same", "two", "two/b", "two/same"]);
    let found = pack(&[at("one", "=/opt/app"), at("two.tar", "=/")]);
    assert_eq!(names(&found), ["b", "opt", "opt/app", "opt/app/a", "opt/app/same", "same"]);
    // With --replace, the later source wins. One archive twice is not one inode.
    let sources = [at("one", "=/"), at("two.tar", "=/"), at("two.tar", "=/again")];
    let found = pack_as(&["--replace"], &sources, 3);
    assert_eq!(found.records[&b"same"[..]].len, 4);
    assert_eq!(names(&found), ["a", "again", "again/b", "again/same", "b", "same"]);
    assert!(found.records.values().all(|record| record.link_count == 1));
}

#[test]
fn metadata_is_overruled() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    fill(&path("s"), &["d/file", "run"]);
    let x = path("x.shale");
    let chmod = Command::new("chmod").args(["755"]).arg(path("s/run")).status().unwrap();
    assert!(chmod.success());
    create(&path("s"), &x, &["--owner=7", "--group", "4294967294", "--chmod=Dg+s,Fo-r,a-w"]);
    let found = of_image(&x);
    let record = |manifest: &Manifest, name: &str| manifest.records[name.as_bytes()].clone();
    assert!(found.records.values().all(|record| record.owner == (7, 4_294_967_294)));
    assert_eq!(record(&found, "d").mode & 0o7222, 0o2000);
    assert_eq!(record(&found, "run").mode, 0o551);

    std::fs::write(path("map"), "user 0-10 1000\ngroup 0 5\n").unwrap();
    if is_root() {
        let map = format!("--map-users={}", path("map").display());
        create(&path("s"), &x, &["-f", &map]);
        assert!(of_image(&x).records.values().all(|record| record.owner == (1000, 5)));
    }
    create(&path("s"), &x, &["-f", "--mtime=-5.5"]);
    let found = of_image(&x);
    assert!(found.records.values().all(|record| record.mtime == (-6, 500_000_000)));

    let mut command = shale(["create", "-f", "--all-root"]);
    command.env("SOURCE_DATE_EPOCH", "1000000").arg(path("s")).arg("-o").arg(&x);
    expect_code(&mut command, 0);
    let found = of_image(&x);
    assert!(found.records.values().all(|record| record.mtime == (1_000_000, 0)));
    assert!(found.records.values().all(|record| record.owner == (0, 0)));
    let mut command = shale(["create", "-f"]);
    command.env("SOURCE_DATE_EPOCH", "soon").arg(path("s")).arg("-o").arg(&x);
    expect_code(&mut command, 1);
}

#[test]
fn an_epoch_makes_images_of_the_same_files_the_same_bytes() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    let pack = |source: &str, image: &str| {
        let mut command = shale(["create", "--all-root"]);
        command.env("SOURCE_DATE_EPOCH", "1500000000");
        expect_code(command.arg(path(source)).arg("-o").arg(path(image)), 0);
        std::fs::read(path(image)).unwrap()
    };
    fill(&path("one"), FILES);
    fill(&path("two"), FILES);
    for file in FILES {
        let later = SystemTime::now() + Duration::from_secs(3600);
        std::fs::File::open(path("two").join(file)).unwrap().set_modified(later).unwrap();
    }
    assert!(pack("one", "1.shale") == pack("two", "2.shale"), "times of now reach the image");
}

#[test]
fn attributes_are_chosen_by_name() {
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    fill(&path("s"), &["file"]);
    for name in ["user.one", "user.two", "user.other"] {
        let set = rustix::fs::setxattr(path("s/file"), name, b"v", rustix::fs::XattrFlags::empty());
        if set.is_err() {
            println!("skipped: no user attributes here");
            return;
        }
    }
    let kept = |options: &[&str]| {
        create(&path("s"), &path("x.shale"), &[&["-f"], options].concat());
        let record = of_image(&path("x.shale")).records[&b"file"[..]].clone();
        record.xattrs.into_keys().map(|k| String::from_utf8(k).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(kept(&[]).len(), 3);
    assert_eq!(kept(&["--no-xattrs"]).len(), 0);
    assert_eq!(kept(&["--xattr-include=user.o*"]), ["user.one", "user.other"]);
    assert_eq!(kept(&["--xattr-exclude=*.o*"]), ["user.two"]);
}

#[test]
fn links_are_packed_as_what_they_lead_to_if_asked() {
    use std::os::unix::fs::symlink;
    let folder = places::disk();
    let path = |name: &str| folder.path().join(name);
    fill(&path("s"), &["a/file", "b"]);
    fill(&path("outside"), &["deep/x", "deep/y.o", "one"]);
    symlink("a/file", path("s/to-file")).unwrap();
    symlink("to-file", path("s/to-link")).unwrap();
    symlink("../outside", path("s/to-folder")).unwrap();
    symlink("../../outside/one", path("s/a/to-one")).unwrap();
    symlink("deep/x", path("outside/inner")).unwrap();
    create(&path("s"), &path("x.shale"), &["-L", "--exclude=*.o"]);
    let found = of_image(&path("x.shale"));
    let expected = [
        "a",
        "a/file",
        "a/to-one",
        "b",
        "to-file",
        "to-folder",
        "to-folder/deep",
        "to-folder/deep/x",
        "to-folder/inner",
        "to-folder/one",
        "to-link",
    ];
    assert_eq!(names(&found), expected);
    assert!(found.records.values().all(|record| matches!(record.kind, '-' | 'd')));
    if has_program("rsync") {
        let mut rsync = Command::new("rsync");
        rsync.args(["-aL", "--exclude=*.o"]).arg(path("s/")).arg(path("copy"));
        expect_code(&mut rsync, 0);
        // A time of the same second is near enough to rsync, for a directory.
        let [mut copied, mut found] = [Manifest::of(&path("copy")).unwrap(), found.clone()];
        for manifest in [&mut copied, &mut found] {
            let folders = manifest.records.values_mut().filter(|record| record.kind == 'd');
            folders.for_each(|record| record.mtime.1 = 0);
        }
        copied.assert_equals(&found, "rsync");
    }
    create(&path("s"), &path("again.shale"), &["-L", "--exclude=*.o"]);
    let bytes = |name: &str| std::fs::read(path(name)).unwrap();
    assert!(bytes("x.shale") == bytes("again.shale"), "the same tree is the same image");
    // What lies outside is part of what the image is known by.
    std::fs::write(path("outside/one"), "more than before").unwrap();
    create(&path("s"), &path("again.shale"), &["-fL", "--exclude=*.o"]);
    assert_ne!(bytes("x.shale")[32..48], bytes("again.shale")[32..48]);

    symlink("nothing", path("s/dangling")).unwrap();
    symlink("..", path("s/a/up")).unwrap();
    symlink("../s", path("outside/back")).unwrap();
    let mut command = shale(["create", "-fL", "--skip-unreadable"]);
    let output = expect_code(command.arg(path("s")).arg("-o").arg(path("x.shale")), 3);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("dangling: ") && text.contains("leads to nothing"), "{text}");
    assert!(text.contains("a/up: ") && text.contains("to-folder/back: "), "{text}");
    let mut command = shale(["create", "-fL"]);
    expect_code(command.arg(path("s")).arg("-o").arg(path("x.shale")), 1);
}

#[test]
fn what_git_ignores_is_left_out_if_asked() {
    if !has_program("git") {
        return println!("skipped: no git");
    }
    let folder = places::disk();
    let source = folder.path().join("s");
    fill(
        &source,
        &[
            "a.o",
            "src/b.o",
            "src/b.c",
            "src/keep.o",
            "target/x",
            "src/target/y",
            "doc/out/z",
            "doc/a/b/out/z",
            "top",
            "src/top",
            "log/1.log",
            "log/keep/1.log",
            "star*",
            "starry",
            "sp ace",
            "tail ",
            "deep/a/b/c/d",
            "deep/d",
            "one/x.tmp",
            "one/two/x.tmp",
            "#hash",
            "!bang",
            "[set]",
            "s",
            "braces.one",
            "braces.{one,two}",
            "7z",
            "d]",
        ],
    );
    let write = |path: &str, text: &[u8]| std::fs::write(source.join(path), text).unwrap();
    write(
        ".gitignore",
        b"# comment\n*.o\n!keep.o\n/target/\n**/out/\n/top\nlog/*\n!log/keep\nstar\\*\n\
          sp ace   \ntail\\ \ndeep/**/d\n\\#hash\n\\!bang\n[[]set]\n\xff\xfe\n\
          *.{one,two}\n[[:digit:]]*\n",
    );
    write("src/.gitignore", b"!b.o\ntarget\n");
    write("one/.gitignore", b"/*.tmp\n");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(&source).env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", folder.path());
        expect_code(command.args(words), 0).stdout
    };
    git(&["init", "-q"]);
    let listed = git(&["ls-files", "--others", "--exclude-standard", "-z"]);
    let listed = listed.split(|&byte| byte == 0).filter(|path| !path.is_empty());
    let mut expected: Vec<_> =
        listed.map(|path| String::from_utf8(path.to_vec()).unwrap()).collect();
    expected.sort();
    let image = folder.path().join("x.shale");
    create(&source, &image, &["--gitignore", "--exclude=/.git/"]);
    let manifest = of_image(&image);
    let mut found = names(&manifest);
    found.retain(|path| !source.join(path).is_dir());
    assert_eq!(found, expected);
    assert!(expected.len() >= 11 && !expected.contains(&"a.o".to_owned()), "{expected:?}");
    // Which file and line it was is told.
    let mut dry = shale(["create", "--gitignore", "--filter-dry-run"]);
    let output = expect_code(dry.arg(&source).arg("-o").arg(folder.path().join("none")), 0);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("- src/target/    [src/.gitignore: target]\n"), "{text}");
    assert!(text.contains("- a.o    [.gitignore: *.o]\n"), "{text}");
}
