//! `shale browse` in a real terminal: tmux, its keys and its screen.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::stage::{Stage, noise, text, wait_until};

/// A terminal of 80 by 24 with a shell in the folder of a stage.
struct Screen<'a> {
    stage: &'a Stage,
    socket: String,
    /// Words that were written to mark an end.
    marks: Cell<u32>,
}

impl<'a> Screen<'a> {
    /// `None` if tmux is not installed.
    fn new(stage: &'a Stage) -> Option<Self> {
        let socket = stage.path("tmux").to_str().unwrap().to_owned();
        let screen = Self { stage, socket, marks: Cell::new(0) };
        let words = ["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh"];
        let started = screen.tmux_command(&words).output();
        let is_started = started.as_ref().is_ok_and(|output| output.status.success());
        if !is_started {
            println!("skipped: tmux is not there: {started:?}");
            return None;
        }
        screen.becomes("a prompt", |picture| picture.contains(['#', '$']));
        Some(screen)
    }

    fn tmux_command(&self, words: &[&str]) -> Command {
        let mut command = self.stage.other("tmux", &[&["-S", &self.socket], words].concat());
        command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color").env_remove("TMUX");
        command
    }

    #[track_caller]
    fn tmux(&self, words: &[&str]) -> Output {
        let output = self.tmux_command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        output
    }

    fn picture(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    fn shows(&self, wanted: &str) {
        self.becomes(wanted, |picture| picture.contains(wanted));
    }

    /// Waits until the picture is as wanted. Each look starts a program, which takes milliseconds.
    #[track_caller]
    fn becomes(&self, wanted: &str, mut is_so: impl FnMut(&str) -> bool) {
        const LOOKS_MAX: usize = 5_000;
        let last = (0..LOOKS_MAX).find(|_| is_so(&self.picture()));
        assert!(last.is_some(), "{wanted:?} is not on the screen:\n{}", self.picture());
    }

    /// Types keys by their names in tmux.
    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types text.
    fn text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Starts the browser.
    #[track_caller]
    fn browse(&self, words: &str) {
        let shale = env!("CARGO_BIN_EXE_shale");
        self.text(&format!("stty -a >before; {shale} browse {words}; echo \"exit $?\""));
        self.keys(&["Enter"]);
        self.shows("q end");
    }

    /// Checks that the terminal is as it was, after the browser ended with an exit code.
    #[track_caller]
    fn is_as_before(&self, code: u8) {
        self.shows(&format!("exit {code}"));
        // A word that was not on the screen before.
        let mark = self.marks.get() + 1;
        self.marks.set(mark);
        self.text(&format!("stty -a >after; echo mark {mark}"));
        self.keys(&["Enter"]);
        self.shows(&format!("\nmark {mark}"));
        let read = |name| fs::read_to_string(self.stage.path(name)).unwrap();
        assert_eq!(read("before"), read("after"));
        let flags = self.tmux(&["display", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}"]);
        assert_eq!(String::from_utf8_lossy(&flags.stdout).trim(), "0 1 1");
        self.keys(&["C-l"]);
        self.text("clear");
        self.keys(&["Enter"]);
    }

    /// The process ID of the browser.
    fn pid(&self) -> String {
        let shell = self.tmux(&["display", "-p", "#{pane_pid}"]).stdout;
        let shell = String::from_utf8(shell).unwrap().trim().to_owned();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        children.split_whitespace().next().unwrap().to_owned()
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        let _ = self.tmux_command(&["kill-server"]).output();
    }
}

/// An image with text, bytes, an odd name and two snapshots.
fn stage() -> Stage {
    let stage = Stage::without_image();
    let tree = stage.path("tree");
    fs::create_dir_all(tree.join("dir/deep")).unwrap();
    fs::write(tree.join("dir/deep/needle.txt"), text()).unwrap();
    fs::write(tree.join("dir/bytes"), [&[0, 1, 0x41][..], &noise(4000)].concat()).unwrap();
    fs::write(tree.join("odd\x1b[31m\tname"), "odd").unwrap();
    stage.run(0, &["create", "tree", "--snapshot", "first", "-qo", "image.shale"]);
    fs::write(tree.join("later"), "later").unwrap();
    stage.run(0, &["append", "image.shale", "tree", "--snapshot", "second", "-q"]);
    stage
}

#[test]
fn a_user_walks_searches_looks_and_extracts() {
    let stage = stage();
    let Some(screen) = Screen::new(&stage) else { return };
    screen.browse("image.shale");
    screen.shows("later");
    screen.shows("odd\\x1b[31m\\tname");
    screen.keys(&["Enter"]);
    screen.shows("/dir");
    screen.text("/byt");
    screen.keys(&["Enter", "Enter"]);
    screen.shows("00000000  00 01 41");
    screen.keys(&["h", "h"]);
    screen.shows("later");
    // In all directories, then to the file, its text, and its bytes.
    screen.text("fneedle");
    screen.keys(&["Enter"]);
    screen.shows("1 found");
    screen.keys(&["Enter"]);
    screen.shows("/dir/deep");
    screen.keys(&["Enter"]);
    screen.shows("line 0 of some text");
    screen.text("/line 19990 ");
    screen.keys(&["Enter"]);
    screen.shows("line 19999 of some text");
    screen.keys(&["x"]);
    screen.shows("|");
    screen.keys(&["x"]);
    // Another size keeps the frame.
    screen.tmux(&["resize-window", "-x", "40", "-y", "10"]);
    screen.becomes("seven lines", |picture| {
        let count = picture.lines().filter(|line| line.ends_with("of some text")).count();
        (1..=7).contains(&count) && picture.contains("search  n next")
    });
    screen.tmux(&["resize-window", "-x", "3", "-y", "2"]);
    screen.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    screen.shows("line 19998 of some text");
    // Out of the image, once.
    screen.keys(&["h", "e"]);
    screen.shows("extract into directory: .");
    screen.keys(&["C-u"]);
    screen.text("out");
    fs::create_dir(stage.path("out")).unwrap();
    screen.keys(&["Enter"]);
    screen.shows("extracted out/needle.txt");
    assert_eq!(fs::read(stage.path("out/needle.txt")).unwrap(), text());
    screen.keys(&["e", "C-u"]);
    screen.text("out");
    screen.keys(&["Enter"]);
    screen.shows("nothing extracted");
    // The earlier snapshot has the same directory, and one file less.
    screen.keys(&["s"]);
    screen.shows("second");
    screen.keys(&["Home", "Enter"]);
    screen.shows("#0 first");
    screen.shows("needle.txt");
    screen.keys(&["h", "h"]);
    screen
        .becomes("no later file", |picture| picture.contains("odd") && !picture.contains("later"));
    screen.keys(&["?"]);
    screen.shows("PageUp");
    screen.keys(&["q"]);
    screen.is_as_before(0);
}

#[test]
fn the_terminal_is_as_before_however_the_browser_ends() {
    let stage = stage();
    let Some(screen) = Screen::new(&stage) else { return };
    screen.browse("image.shale");
    screen.keys(&["C-c"]);
    screen.is_as_before(0);
    for signal in ["TERM", "HUP", "INT"] {
        screen.browse("image.shale");
        let kill = stage.other("kill", &["-s", signal, &screen.pid()]).status().unwrap();
        assert!(kill.success());
        screen.is_as_before(130);
    }
    // A stop of the shell, and on.
    screen.browse("image.shale");
    let pid = screen.pid();
    assert!(stage.other("kill", &["-s", "TSTP", &pid]).status().unwrap().success());
    screen.shows("exit");
    screen.text("fg");
    screen.keys(&["Enter"]);
    screen.shows("q end");
    screen.keys(&["q"]);
    wait_until("the browser ends", || !Path::new(&format!("/proc/{pid}")).exists());
    // Without a terminal there is nothing to see.
    stage.fails(2, &["browse", "image.shale"], &["needs a terminal"]);
}

#[test]
fn a_directory_of_100_000_entries_is_walked_quickly() {
    let stage = Stage::without_image();
    let manifest: String = (0..100_000).map(|n| format!("f 644 0 0 0 0 file-{n:06}\n")).collect();
    fs::write(stage.path("manifest"), manifest).unwrap();
    stage.run(0, &["create", "--manifest", "manifest", "-0", "-qo", "image.shale"]);
    let Some(screen) = Screen::new(&stage) else { return };
    screen.browse("image.shale");
    screen.shows("1/100000");
    screen.keys(&["End"]);
    screen.shows("file-099999");
    screen.text("/file-05");
    screen.keys(&["Enter"]);
    screen.shows("50001/100000");
    screen.keys(&["q"]);
    screen.is_as_before(0);
}
