//! Promise: whoever is killed while he creates, copies or merges images, adds parity or repairs
//! leaves the file that was there as it was, and no half file under any name.
//!
//! Each command is killed with SIGKILL at points spread over its whole run, of which each has its
//! share of chance. `SHALE_KILLS` says how many points a command gets; `make test` has few.

use shale_tests::command::{create, expect_code, shale};
use shale_tests::model::make;
use shale_tests::nasty::{Options, tree};
use shale_tests::random::Random;
use shale_tests::{image, places, wait};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn kill_count() -> u32 {
    let wanted = std::env::var("SHALE_KILLS").ok();
    wanted.map_or(12, |count| count.parse().expect("SHALE_KILLS is a number"))
}

/// What came of the kills of one command.
#[derive(Default)]
struct Outcome {
    killed: u32,
    /// Killed, or too late for it, with the new file in its place.
    made: u32,
    /// Whole files that had not yet got their name.
    unnamed: u32,
}

struct Stage {
    folder: tempfile::TempDir,
    random: Random,
}

impl Stage {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        match fs::read(self.path(name)) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{name}: {error}");
                None
            }
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Kills `command` at many points. `prepare` sets the stage, also before the first, whole run;
    /// `judge` looks at what a kill left, and says whether it is the new file.
    fn kill(
        &mut self,
        what: &str,
        command: impl Fn(&Self) -> Command,
        prepare: impl Fn(&Self),
        judge: impl Fn(&Self) -> bool,
    ) {
        prepare(self);
        let mut work = wait::whole_work(&mut command(self)) as f64;
        assert!(judge(self), "{what}: nothing was made by a whole run");
        let names = self.names();
        let (count, mut outcome) = (kill_count(), Outcome::default());
        for point in 0..count {
            prepare(self);
            let part =
                (f64::from(point) + self.random.below(1000) as f64 / 1000.0) / f64::from(count);
            let mut child = command(self)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program starts");
            wait::for_work(&mut child, (work * part) as u64);
            let _ = child.kill();
            let status = child.wait().unwrap();
            match status.code() {
                None => outcome.killed += 1,
                // It ended between the look and the signal: the points move forward.
                Some(_) => work *= 0.9,
            }
            outcome.made += u32::from(judge(self));
            for name in self.names() {
                // Between a whole file's hidden name and its own lies one system call.
                let hidden = name.starts_with('.') && name.ends_with(".partial");
                assert!(hidden || names.contains(&name), "{what}: {name} was left");
                if hidden {
                    outcome.unnamed += 1;
                    let bytes = self.read(&name).unwrap();
                    assert!(image::open(&bytes).is_ok(), "{what}: half a file was left as {name}");
                    fs::remove_file(self.path(&name)).unwrap();
                }
            }
        }
        let Outcome { killed, made, unnamed } = outcome;
        println!(
            "{what}: {count} points in {work:.0} bytes, {killed} killed in time; {made} new \
             files, {unnamed} whole ones without their name"
        );
        assert!(killed * 2 > count, "{what}: it mostly ended before it was killed");
    }
}

fn packs(source: &Path, output: &Path) -> Command {
    let mut command = shale([OsStr::new("create"), source.as_os_str()]);
    command.args(["-q", "-f", "-1", "--parity", "5%", "-o"]).arg(output);
    command
}

#[test]
fn the_killed_leave_the_file_before_and_no_half_one() {
    let mut stage = Stage { folder: places::disk(), random: Random::new(7) };
    let source = stage.path("source");
    fs::create_dir(&source).unwrap();
    let options = Options { large_directory: 500, ..Options::for_other_programs(3) };
    make(&tree(options), &source, 1).unwrap();
    let image_path = stage.path("image");
    create(&source, &image_path, &["-1", "--parity", "5%"]);
    let whole = fs::read(&image_path).unwrap();
    let old = b"what was there before".to_vec();

    let absent = |stage: &Stage| _ = fs::remove_file(stage.path("image"));
    let is_new = |stage: &Stage| match stage.read("image") {
        None => false,
        Some(found) => {
            assert!(found == whole, "half a file has the name");
            true
        }
    };
    stage.kill("create", |stage| packs(&source, &stage.path("image")), absent, is_new);

    let there = |stage: &Stage| fs::write(stage.path("image"), &old).unwrap();
    let is_replaced = |stage: &Stage| {
        let found = stage.read("image").expect("a file that is replaced never vanishes");
        assert!(found == whole || found == old, "it is neither the old file nor the new one");
        found == whole
    };
    stage.kill("create over a file", |s| packs(&source, &s.path("image")), there, is_replaced);

    // Half as much parity as data, so that there is something to interrupt.
    create(&source, &image_path, &["-1", "-f"]);
    let plain = fs::read(&image_path).unwrap();
    let add = |path: &Path| {
        let mut command = shale(["parity", "add", "--force", "--share", "50%", "-q"]);
        command.arg(path);
        command
    };
    expect_code(&mut add(&image_path), 0);
    let with = fs::read(&image_path).unwrap();
    let reset = |stage: &Stage| fs::write(stage.path("image"), &plain).unwrap();
    let is_added = |stage: &Stage| {
        let found = stage.read("image").expect("the image is there");
        assert!(found[..plain.len()] == plain, "bytes of the image were changed");
        assert!(image::open(&found).is_ok(), "{} of {} bytes", found.len(), with.len());
        // Whoever tries again gets all of it, whatever was left.
        if found != with {
            expect_code(&mut add(&stage.path("image")), 0);
            assert!(fs::read(stage.path("image")).unwrap() == with);
        }
        found == with
    };
    stage.kill("parity add", |stage| add(&stage.path("image")), reset, is_added);

    let mut damaged = with.clone();
    damaged[..1000].fill(0);
    fs::write(stage.path("damaged"), &damaged).unwrap();
    let repairs = |stage: &Stage| {
        let mut command = shale(["repair", "-q", "-f"]);
        command.arg(stage.path("damaged")).arg("-o").arg(stage.path("image"));
        command
    };
    for (what, is_there) in [("repair", false), ("repair over a file", true)] {
        let prepare = |stage: &Stage| match is_there {
            true => fs::write(stage.path("image"), &old).unwrap(),
            false => _ = fs::remove_file(stage.path("image")),
        };
        let is_repaired = |stage: &Stage| {
            assert!(stage.read("damaged").unwrap() == damaged, "the damaged file is only read");
            match stage.read("image") {
                None => assert!(!is_there, "a file that is replaced never vanishes"),
                Some(found) if found == with => return true,
                Some(found) => assert!(is_there && found == old, "half a file has the name"),
            }
            false
        };
        stage.kill(what, repairs, prepare, is_repaired);
    }
}

/// Copies of images: none of them is there in part, and the sources are only read.
#[test]
fn a_copy_that_is_killed_leaves_nothing_and_its_sources() {
    let mut stage = Stage { folder: places::disk(), random: Random::new(11) };
    let source = stage.path("source");
    fs::create_dir(&source).unwrap();
    let options = Options { large_directory: 500, ..Options::for_other_programs(3) };
    make(&tree(options), &source, 1).unwrap();
    create(&source, &stage.path("a"), &["-1", "--snapshot", "2026-01-01"]);
    let other = stage.path("other");
    fs::create_dir(&other).unwrap();
    make(&tree(Options::for_other_programs(9)), &other, 4).unwrap();
    create(&other, &stage.path("b"), &["-1", "--parity", "5%"]);
    let mut append = shale(["append", "-q", "-1", "--snapshot", "2026-02-01"]);
    expect_code(append.arg(stage.path("a")).arg(&other), 0);
    let sources = ["a", "b"].map(|name| fs::read(stage.path(name)).unwrap());
    let old = b"what was there before".to_vec();
    let commands: [(&str, &[&str]); 5] = [
        ("compact", &["compact", "a", "-o", "image"]),
        ("forget", &["forget", "a", "--keep-last", "1", "-o", "image"]),
        ("merge", &["merge", "a=/a", "b=/b", "-o", "image"]),
        ("merge of snapshots", &["merge", "a", "b", "--snapshots", "-o", "image"]),
        ("rewrite", &["rewrite", "a", "--owner", "7", "--exclude", "d*", "-o", "image"]),
    ];
    for (at, (what, words)) in commands.into_iter().enumerate() {
        let command = |stage: &Stage| {
            let mut command = shale(words);
            command.args(["-q", "-f"]).current_dir(stage.folder.path());
            command
        };
        let _ = fs::remove_file(stage.path("image"));
        expect_code(&mut command(&stage), 0);
        let whole = fs::read(stage.path("image")).unwrap();
        let is_there = at % 2 == 1;
        let prepare = |stage: &Stage| match is_there {
            true => fs::write(stage.path("image"), &old).unwrap(),
            false => _ = fs::remove_file(stage.path("image")),
        };
        let judge = |stage: &Stage| {
            for (name, bytes) in ["a", "b"].iter().zip(&sources) {
                assert!(stage.read(name).as_ref() == Some(bytes), "{what}: {name} is only read");
            }
            match stage.read("image") {
                None => assert!(!is_there, "{what}: a file that is replaced never vanishes"),
                Some(found) if found == whole => return true,
                Some(found) => assert!(is_there && found == old, "{what}: half a file"),
            }
            false
        };
        stage.kill(what, command, prepare, judge);
    }
}
