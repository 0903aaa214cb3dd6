//! `--file-contexts`: SELinux labels, compared with those of libselinux.

use std::fs;
use std::os::unix::fs::symlink;

use crate::stage::Stage;

const CONTEXTS: &str = "\
# made for this test
/.*\t\tsystem_u:object_r:default_t:s0
/\t\t-d\tsystem_u:object_r:root_t:s0
/bin/(.*/)?ping.*\t--\tsystem_u:object_r:ping_exec_t:s0
/bin/sh\t--\tsystem_u:object_r:shell_exec_t:s0
/bin(/.*)?\tsystem_u:object_r:bin_t:s0
/etc(/.*)?\tsystem_u:object_r:etc_t:s0
/etc/.*\\.conf\t--\tsystem_u:object_r:conf_t:s0
/etc/shadow[-+]?\t--\tsystem_u:object_r:shadow_t:s0
/etc/alternatives(/.*)?\t-l\tsystem_u:object_r:link_t:s0
/dev/[^/]+\t-c\tsystem_u:object_r:device_t:s0
/run/.*\t-p\tsystem_u:object_r:fifo_t:s0
/run/.*\t-s\tsystem_u:object_r:sock_t:s0
/proc(/.*)?\t<<none>>
/usr/lib/ld\\.so\tsystem_u:object_r:ld_t:s0
/usr/lib(64)?/.*\tsystem_u:object_r:lib_t:s0
/var/www(/.*)?\tsystem_u:object_r:web_t:s0
";

/// The label that an image gives to an entry; empty if it has none.
fn label(stage: &Stage, image: &str, path: &str) -> String {
    let stat = stage.json(0, &["stat", image, path, "--json"]);
    let xattrs = stat[0]["xattrs"].as_array().unwrap();
    let label = xattrs.iter().find(|xattr| xattr["name"] == "security.selinux");
    let hex = label.map_or("", |label| label["value_hex"].as_str().unwrap());
    let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>().unwrap();
    String::from_utf8(bytes).unwrap().trim_end_matches('\0').to_owned()
}

#[test]
fn labels_are_those_of_libselinux() {
    let stage = Stage::without_image();
    let files = [
        "bin/sh",
        "bin/ping6",
        "bin/x/ping",
        "bin/ls",
        "etc/a.conf",
        "etc/shadow",
        "etc/shadow-",
        "etc/shadows",
        "etc/sub/b.conf",
        "proc/x",
        "usr/lib/ld.so",
        "usr/lib/ldxso",
        "usr/lib64/a",
        "srv/web/index",
        "srv/website",
        "home/me/x y",
        "lib/libc.so",
    ];
    for file in files {
        let file = stage.path("tree").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "x").unwrap();
    }
    for directory in ["etc/alternatives", "etc/c.conf", "run"] {
        fs::create_dir_all(stage.path("tree").join(directory)).unwrap();
    }
    symlink("ls", stage.path("tree/etc/alternatives/a")).unwrap();
    let fifo = stage.path("tree/run/fifo");
    assert!(stage.other("mkfifo", &[fifo]).status().unwrap().success());
    fs::write(stage.path("fc"), CONTEXTS).unwrap();
    fs::write(stage.path("fc.local"), "/home/.* user_u:object_r:home_t:s0\n").unwrap();
    fs::write(stage.path("fc.subs"), "/srv/web /var/www\n").unwrap();
    fs::write(stage.path("fc.subs_dist"), "/lib /usr/lib\n").unwrap();
    stage.run(0, &["create", "tree", "--file-contexts", "fc", "-qo", "x.shale"]);
    assert_eq!(label(&stage, "x.shale", "etc/shadow-"), "system_u:object_r:shadow_t:s0");
    assert_eq!(label(&stage, "x.shale", "srv/web/index"), "system_u:object_r:web_t:s0");
    assert_eq!(label(&stage, "x.shale", "etc/c.conf"), "system_u:object_r:etc_t:s0", "no file");
    assert_eq!(label(&stage, "x.shale", "proc/x"), "");
    // Every entry, as the library says.
    let kinds = [("f", "file"), ("d", "dir"), ("l", "lnk_file"), ("p", "pipe")];
    let mut compared = 0;
    for (kind, mode) in kinds {
        for path in stage.text(&["find", "x.shale", "-type", kind]).lines() {
            let path = path.trim_start_matches("./");
            let path = if path == "." { "" } else { path };
            let full = format!("/{path}");
            let words = ["-n", "-m", mode, "-f", "fc", &full];
            let Ok(theirs) = stage.other("/usr/sbin/matchpathcon", &words).output() else {
                println!("skipped: matchpathcon of selinux-utils is not there");
                return;
            };
            let theirs = String::from_utf8_lossy(&theirs.stdout).trim().replace("<<none>>", "");
            assert_eq!(label(&stage, "x.shale", &full), theirs, "{full} ({mode})");
            compared += 1;
        }
    }
    assert!(compared >= 30, "{compared}");
}

#[test]
fn labels_replace_those_of_the_source_and_wrong_lines_are_named() {
    let stage = Stage::without_image();
    let words = ["create", "source", "--no-xattrs", "--file-contexts", "fc", "-qo"];
    fs::write(stage.path("fc"), "/.* -- a:b:c:s0\n").unwrap();
    stage.run(0, &[&words[..], &["x.shale"]].concat());
    fs::write(stage.path("fc"), "/empty one:b:c:s0\n").unwrap();
    stage.run(0, &["rewrite", "x.shale", "--file-contexts", "fc", "-qo", "y.shale"]);
    assert_eq!(label(&stage, "x.shale", "empty"), "a:b:c:s0");
    assert_eq!(label(&stage, "y.shale", "empty"), "one:b:c:s0");
    for (path, expected) in [("docs/text.txt", "a:b:c:s0"), ("twin", "a:b:c:s0"), ("docs", "")] {
        assert_eq!(label(&stage, "x.shale", path), expected, "{path}");
        assert_eq!(label(&stage, "y.shale", path), "", "{path}");
    }
    fs::write(stage.path("fc"), "/none one:b:c:s0\n").unwrap();
    stage.fails(3, &[&words[..], &["z.shale"]].concat(), &["give no file a label"]);
    fs::write(stage.path("fc"), "# ok\n/[ a:b:c:s0\n").unwrap();
    stage.fails(1, &[&words[..], &["bad.shale"]].concat(), &["fc, line 2: `/[`"]);
    assert!(!stage.path("bad.shale").exists());
}
