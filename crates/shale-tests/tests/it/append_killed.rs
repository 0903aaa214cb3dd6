//! Promise: an append that is killed at any of its writes and syncs, before it or in the middle of
//! it, leaves the image before or the one after, and the next append puts the file in order.
//!
//! The real command runs with a library that counts its calls on the image, and ends it by SIGKILL
//! at one of them (`kill_at.c`). All calls get their turn: no time is involved.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shale_tests::command::{create, expect_code, shale};
use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::tiny_tree;
use shale_tests::random::Random;
use shale_tests::{image, places};
use tempfile::TempDir;

const SIGKILL: i32 = 9;

/// An image, its trees before and after an append, and the library that kills.
struct Stage {
    folder: TempDir,
    library: PathBuf,
    before: Vec<u8>,
    trees: [Manifest; 2],
    has_parity: bool,
}

impl Stage {
    /// Makes the trees and the image. Returns `None` on a machine without a C compiler.
    fn new(more: &[&str]) -> Option<Self> {
        let folder = places::quick();
        let library = compile(folder.path())?;
        let source = folder.path().join("source");
        std::fs::create_dir(&source).unwrap();
        make(&tiny_tree(2), &source, 1).unwrap();
        // Its parity protects enough not to be made again.
        std::fs::write(source.join("large"), Random::new(3).bytes(4 << 20)).unwrap();
        let path = folder.path().join("image.shale");
        create(&source, &path, &[&["-6"], more].concat());
        let before = std::fs::read(&path).unwrap();
        let first = Manifest::of(&source).unwrap();
        std::fs::write(source.join("new"), Random::new(5).bytes(100_000)).unwrap();
        let text: String = (0..4000).map(|n| format!("line {n} of what is new\n")).collect();
        std::fs::write(source.join("text"), text).unwrap();
        let trees = [first, Manifest::of(&source).unwrap()];
        Some(Self { folder, library, before, trees, has_parity: !more.is_empty() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn append(&self) -> Command {
        let mut command = shale(["append", "-q", "-6", "--snapshot", "second"]);
        command.arg(self.path("image.shale")).arg(self.path("source"));
        command
    }

    fn watched(&self) -> Command {
        let mut command = self.append();
        command.env("LD_PRELOAD", &self.library).env("KILL_FILE", self.path("image.shale"));
        command.env("KILL_COUNT", self.path("count"));
        command
    }

    fn read(&self) -> Vec<u8> {
        std::fs::read(self.path("image.shale")).unwrap()
    }

    /// Runs a whole append. Returns the number of its calls, and the file.
    fn whole(&self) -> (usize, Vec<u8>) {
        std::fs::write(self.path("image.shale"), &self.before).unwrap();
        expect_code(&mut self.watched(), 0);
        let count = std::fs::read_to_string(self.path("count")).unwrap();
        (count.trim().parse().unwrap(), self.read())
    }

    /// Kills an append at a call. Returns whether the image after is there.
    fn kill(&self, call: usize, in_the_middle: bool, after: &[u8]) -> bool {
        let what = format!("call {call}, in the middle {in_the_middle}");
        std::fs::write(self.path("image.shale"), &self.before).unwrap();
        let mut command = self.watched();
        command.env("KILL_AT", call.to_string()).stdout(Stdio::null());
        if in_the_middle {
            command.env("KILL_HALF", "1");
        }
        let status = command.status().unwrap();
        assert_eq!(status.signal(), Some(SIGKILL), "{what}: {status}");
        let found = self.read();
        assert!(found.starts_with(&self.before), "{what}: a byte of the image was changed");
        let opened = image::open(&found).unwrap();
        let is_after = match opened.snapshots().len() {
            1 => false,
            2 => {
                let len = opened.len() as usize;
                assert!(found[..len] == after[..len], "{what}: it counts, and is another");
                true
            }
            count => panic!("{what}: {count} snapshots"),
        };
        let expected = &self.trees[usize::from(is_after)];
        expected.assert_equals(&image::manifest(&found).unwrap(), &what);
        self.put_in_order(&what);
        is_after
    }

    /// Appends once more, to whatever was left.
    fn put_in_order(&self, what: &str) {
        let left = self.read();
        expect_code(&mut self.append(), 0);
        let bytes = self.read();
        assert!(bytes.starts_with(&self.before), "{what}");
        let opened = image::open(&bytes).unwrap();
        assert_eq!(opened.len(), bytes.len() as u64, "{what}: something follows the image");
        self.trees[1].assert_equals(&image::manifest(&bytes).unwrap(), what);
        expect_code(shale(["check", "-q"]).arg(self.path("image.shale")), 0);
        if !self.has_parity {
            return;
        }
        // All of it is protected: what was there, what the killed one had added, and the rest.
        let lens = [self.before.len() / 2, self.before.len() + 1000, bytes.len() / 100 * 99];
        let mut damaged = bytes.clone();
        lens.into_iter().for_each(|at| damaged[at] ^= 0x11);
        std::fs::write(self.path("damaged"), &damaged).unwrap();
        let mut repair = shale(["repair", "-q", "-f", "-o"]);
        expect_code(repair.arg(self.path("repaired")).arg(self.path("damaged")), 0);
        assert!(std::fs::read(self.path("repaired")).unwrap() == bytes, "{what}: {}", left.len());
    }
}

/// Compiles the library that kills.
fn compile(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("kill_at.c"), folder.join("kill_at.so"));
    std::fs::write(&source, include_str!("kill_at.c")).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o"]);
    compiler.arg(&library).arg(&source).arg("-ldl");
    match compiler.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            Some(library)
        }
        Err(error) => {
            println!("skipped: needs cc: {error}");
            None
        }
    }
}

/// Kills at all calls, before each of them and in the middle of it.
pub fn assert_kills_are_survived(more: &[&str], count_min: usize) {
    let Some(stage) = Stage::new(more) else { return };
    let (count, after) = stage.whole();
    let (mut kills, mut made) = (0, 0);
    for call in 0..count {
        for in_the_middle in [false, true] {
            kills += 1;
            made += usize::from(stage.kill(call, in_the_middle, &after));
        }
    }
    println!("{kills} kills at {count} calls; the image after was there {made} times");
    assert!(kills >= count_min, "{kills}");
    // The last write of the snapshot and its sync; with parity many calls follow.
    assert!((1..kills).contains(&made), "{made} of {kills}");
}
