//! Several sources that claim one path: nothing is lost silently.

use std::fs;

use crate::stage::Stage;

/// Two trees `h1/etc` and `h2/etc` that both contain `conf/FILE` for each of `count` files.
fn two_hosts(count: usize) -> Stage {
    let stage = Stage::without_image();
    for host in ["h1", "h2"] {
        let folder = stage.path(host).join("etc/conf");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(host), host).unwrap();
        for n in 0..count {
            fs::write(folder.join(format!("file-{n:02}")), format!("{n} of {host}")).unwrap();
        }
    }
    stage
}

#[test]
fn directories_of_several_sources_merge_without_a_warning() {
    let stage = two_hosts(0);
    stage.run(0, &["create", "h1/etc", "h2/etc", "-o", "both.shale", "-q"]);
    assert_eq!(stage.text(&["ls", "both.shale", "etc/conf"]), "h1\nh2\n");
}

#[test]
fn a_path_in_several_sources_is_refused_with_a_list_and_no_image_is_written() {
    let stage = two_hosts(25);
    let before = stage.names();
    let words = ["create", "h1/etc", "h2/etc", "-o", "both.shale"];
    let complaint = String::from_utf8(stage.run(1, &words).stderr).unwrap();
    assert_eq!(complaint.matches(": in more than one source").count(), 20, "{complaint}");
    for part in ["etc/conf/file-0", "and 5 more", "25 paths", "--replace"] {
        assert!(complaint.contains(part), "no `{part}`:\n{complaint}");
    }
    assert_eq!(stage.names(), before);
    // Prefixes resolve the conflict.
    stage.run(0, &["create", "h1/etc=/h1", "h2/etc=/h2", "-o", "both.shale", "-q"]);
    assert_eq!(stage.text(&["cat", "both.shale", "h1/conf/file-03"]), "3 of h1");
}

#[test]
fn replace_keeps_the_later_source_and_says_how_many_paths_were_replaced() {
    let stage = two_hosts(3);
    let words = ["create", "h1/etc", "h2/etc", "--replace", "-o", "both.shale"];
    stage.fails(3, &words, &["3 paths were replaced"]);
    assert_eq!(stage.text(&["cat", "both.shale", "etc/conf/file-01"]), "1 of h2");
    assert_eq!(stage.text(&["cat", "both.shale", "etc/conf/h1"]), "h1");
    stage.run(0, &["check", "both.shale", "-q"]);
}

#[test]
fn images_and_archives_that_claim_one_path_are_refused() {
    let stage = two_hosts(1);
    stage.run(0, &["create", "h1", "-o", "h1.shale", "-q"]);
    stage.run(0, &["create", "h2", "-o", "h2.shale", "-q"]);
    let words = ["create", "h1.shale", "h2.shale", "-o", "month.shale"];
    stage.fails(1, &words, &["etc/conf/file-00", "1 path is"]);
    // A file and a directory, which only the paths of its entries imply.
    let tar = ["--no-recursion", "-cf", "only.tar", "-C", "h2", "etc/conf/h2"];
    assert!(stage.other("tar", &tar).status().unwrap().success());
    fs::create_dir(stage.path("flat")).unwrap();
    fs::write(stage.path("flat/conf"), "a file").unwrap();
    let words = ["create", "flat=/etc", "only.tar", "-o", "mixed.shale"];
    stage.fails(1, &words, &["etc/conf: in more", "1 path is"]);
    assert!(!stage.path("month.shale").exists() && !stage.path("mixed.shale").exists());
}
