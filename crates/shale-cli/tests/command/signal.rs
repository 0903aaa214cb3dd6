//! Signals that whoever started the command had ignored stay ignored, all others end it.

use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::stage::{Stage, wait_until};

/// Bits of a line of the child's status in /proc.
fn mask(child: &Child, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

/// A build that waits for its input and has its handlers.
fn waiting(stage: &Stage) -> Child {
    let shale = env!("CARGO_BIN_EXE_shale");
    let words = ["--default-signal=INT,TERM", "--ignore-signal=HUP", shale, "create", "-q", "-"];
    let words = [&words[..], &["-o", "piped.shale", "-f"]].concat();
    let child = stage.other("env", &words).stdin(Stdio::piped()).spawn().unwrap();
    wait_until("there are no handlers", || {
        mask(&child, "SigCgt") >> (Signal::TERM.as_raw() - 1) & 1 != 0
    });
    child
}

#[test]
fn a_signal_that_was_ignored_stays_ignored_as_nohup_asks() {
    let stage = Stage::new();
    let tar = stage.run(0, &["export", "image.shale", "-o", "-", "--format", "tar", "docs"]).stdout;
    let mut child = waiting(&stage);
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    child.stdin.take().unwrap().write_all(&tar).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(stage.text(&["ls", "piped.shale", "docs"]), "deep\ntext.txt\n");
    let mut child = waiting(&stage);
    // The end of the input would end it, too.
    let input = child.stdin.take();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(input);
}
