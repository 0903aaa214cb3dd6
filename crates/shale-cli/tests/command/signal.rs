//! Signals that were ignored when the command started stay ignored; others end it.

use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::stage::{Stage, wait_until};

/// Parses a signal mask of the child's status in /proc.
fn mask(child: &Child, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

/// Starts a build that waits for input, and waits for its signal handlers.
fn waiting(stage: &Stage) -> Child {
    let shale = env!("CARGO_BIN_EXE_shale");
    let words = ["--default-signal=INT,TERM", "--ignore-signal=HUP", shale, "create", "-q", "-"];
    let words = [&words[..], &["-o", "piped.shale", "-f"]].concat();
    let child = stage.other("env", &words).stdin(Stdio::piped()).spawn().unwrap();
    wait_until("the handlers are not installed", || {
        mask(&child, "SigCgt") >> (Signal::TERM.as_raw() - 1) & 1 != 0
    });
    child
}

#[test]
fn ignored_signals_stay_ignored() {
    let stage = Stage::new();
    let tar = stage.run(0, &["export", "image.shale", "-o", "-", "--format", "tar", "docs"]).stdout;
    let mut child = waiting(&stage);
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    child.stdin.take().unwrap().write_all(&tar).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(stage.text(&["ls", "piped.shale", "docs"]), "deep\ntext.txt\n");
    let mut child = waiting(&stage);
    // Keep the input open, as its end would also end the build.
    let input = child.stdin.take();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(input);
}

#[test]
fn a_signal_ends_the_wait_for_the_reader_of_a_pipe() {
    let stage = Stage::new();
    stage.other("mkfifo", &["pipe"]).status().unwrap();
    let commands = [
        &["create", "-q", "source", "-o", "pipe"][..],
        &["export", "-q", "image.shale", "--format", "tar", "-o", "pipe"],
    ];
    for words in commands {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            let heed = "--default-signal=INT,TERM,HUP";
            let all = [&[heed, env!("CARGO_BIN_EXE_shale")], words].concat();
            let mut child = stage.other("env", &all).stdin(Stdio::null()).spawn().unwrap();
            wait_until("the handlers are not installed", || {
                mask(&child, "SigCgt") >> (Signal::TERM.as_raw() - 1) & 1 != 0
            });
            kill_process(Pid::from_child(&child), signal).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(130), "{words:?} {signal:?}");
        }
    }
    // With a reader, all of it comes.
    let words = [&[env!("CARGO_BIN_EXE_shale")], commands[1]].concat();
    let mut child = stage.other("env", &words).stdin(Stdio::null()).spawn().unwrap();
    let tar = fs::read(stage.path("pipe")).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    stage.run(0, &["export", "-q", "image.shale", "-o", "whole.tar"]);
    assert!(tar == fs::read(stage.path("whole.tar")).unwrap());
}
