//! Limits on threads: commands work with fewer threads, or fail with a clear message.

use std::fs;
use std::process::Output;

use crate::stage::{Stage, is_root};

/// Runs the command as a user with a limit of `processes` threads, if setpriv is installed.
fn limited(stage: &Stage, processes: u32, words: &[&str]) -> Option<Output> {
    // An unused user id, so that no other process counts.
    let user = 1_700_000_000 + std::process::id();
    let (user, limit) = (format!("--reuid={user}"), format!("--nproc={processes}"));
    let before = [&user, "--regid=65534", "--clear-groups", "prlimit", &limit, "./shale"];
    stage.other("setpriv", &[&before, words].concat()).output().ok()
}

#[test]
fn commands_work_with_few_threads() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    fs::copy(env!("CARGO_BIN_EXE_shale"), stage.path("shale")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    fs::set_permissions(stage.path(""), mode(0o777)).unwrap();
    for path in ["docs/deep/noise.bin", "fifo"] {
        fs::set_permissions(stage.path("source").join(path), mode(0o644)).unwrap();
    }
    // Large enough for verification to decode it in several threads.
    fs::write(stage.path("source/long"), crate::stage::text().repeat(80)).unwrap();
    assert!(fs::metadata(stage.path("source/long")).unwrap().len() > 32 << 20);
    for processes in [1, 2, 3] {
        let out = format!("out{processes}");
        let all: [&[&str]; 5] = [
            &["create", "source", "-o", "new.shale", "-f", "-q", "-1", "--parity", "5%"],
            &["create", "-", "-o", "-", "-q", "-1"],
            &["check", "new.shale", "-q"],
            &["repair", "new.shale", "-o", "again.shale", "-f", "-q"],
            &["extract", "new.shale", "-C", &out, "-q"],
        ];
        for words in all {
            let words = [words, &["--threads", "8"]].concat();
            let Some(output) = limited(&stage, processes, &words) else {
                println!("skipped: it needs setpriv");
                return;
            };
            let said = String::from_utf8_lossy(&output.stderr);
            // Standard input is empty, so it is not an archive.
            let code = if words[1] == "-" { 1 } else { 0 };
            assert_eq!(output.status.code(), Some(code), "{processes}: {words:?}\n{said}");
            assert!(!said.contains("panic"), "{words:?}\n{said}");
        }
        let long = fs::read(stage.path(out).join("long")).unwrap();
        assert!(long == fs::read(stage.path("source/long")).unwrap());
        for name in ["x.tar", "x.zip", "x.squashfs", "x.tar.xz", "x.tar.zst"] {
            let words = ["export", "new.shale", "-o", name, "-f", "-q", "--threads", "8"];
            let output = limited(&stage, processes, &words).unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            // An export needs three threads: to walk, to decode and to write.
            match output.status.code() {
                Some(0 | 3) => assert!(processes > 2, "{name} at {processes}"),
                Some(1) => assert!(said.contains("thread") || processes > 2, "{said}"),
                code => panic!("{name} at {processes}: {code:?}\n{said}"),
            }
            assert!(!said.contains("panic"), "{name}\n{said}");
        }
    }
}
