//! `shale bundle`, and the files that it makes, run as users run them.
//!
//! Every test has a directory of its own for mounts and copies, so what a bundle leaves there is
//! what it leaves.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process};

use crate::events::{wait_for_end, wait_for_files, wait_for_mounts};
use crate::stage::{Stage, expect, is_root, noise};

/// The runtime that belongs to this build: from `SHALE_RUNTIME`, or built now.
pub fn runtime() -> &'static Path {
    static RUNTIME: OnceLock<PathBuf> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        if let Some(path) = std::env::var_os("SHALE_RUNTIME") {
            return path.into();
        }
        let beside = Path::new(env!("CARGO_BIN_EXE_shale")).with_file_name("shale-runtime");
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        // With the features of the whole workspace, as the command was built.
        build.args(["build", "--quiet", "--workspace", "--bin", "shale-runtime"]);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "the runtime does not build");
        beside
    })
}

/// What the program in the bundle does, by its first argument.
const PROGRAM: &str = r#"#!/bin/sh
case $1 in
  env) printf '%s\n' "$APPDIR" "$APPIMAGE" "$ARGV0" "$OWD" "$PWD" ;;
  words) shift; for word; do printf '[%s]\n' "$word"; done ;;
  code) exit "$2" ;;
  pid) echo $$ ;;
  wait) echo "$APPDIR"; read -r line; cat "$APPDIR/data/text"; exit 0 ;;
  leave) mkfifo "$STARTED"; "$APPDIR/bin/rest" "$APPDIR" > "$2" 2>&1 &
    read -r line < "$STARTED"; exit 0 ;;
  cat) cat "$APPDIR/$2" ;;
  trap) trap 'kill $!; echo caught; exit 9' TERM
    tail --pid=$$ -f /dev/null > /dev/null & echo ready; wait ;;
  space) readlink /proc/self/ns/mnt ;;
  id) id -u; grep -c . "$APPDIR/data/text" ;;
esac
"#;

/// A child of the program, which it leaves behind. It waits until somebody writes to a pipe, then
/// reads a file.
const REST: &str = r#"#!/bin/sh
echo here
echo > "$STARTED"
read -r line < "$RELEASE"
cat "$1/data/text"
"#;

struct Bundle {
    stage: Stage,
}

impl Bundle {
    /// Makes a tree, and the bundle `app` of it.
    fn new(more: &[&str]) -> Self {
        let bundle = Self::tree();
        bundle.make(more);
        bundle
    }

    fn tree() -> Self {
        let stage = Stage::without_image();
        let tree = stage.path("app dir");
        fs::create_dir_all(tree.join("bin")).unwrap();
        fs::create_dir_all(tree.join("data/deep")).unwrap();
        for (name, text) in [("bin/app", PROGRAM), ("bin/rest", REST)] {
            fs::write(tree.join(name), text).unwrap();
            fs::set_permissions(tree.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(tree.join("data/text"), "one line\n").unwrap();
        fs::write(tree.join("data/noise"), noise(3_000_000)).unwrap();
        fs::write(tree.join("data/holes"), [vec![0; 3 << 20], b"end".to_vec()].concat()).unwrap();
        fs::write(tree.join("data/deep/x.txt"), "x\n").unwrap();
        fs::hard_link(tree.join("data/text"), tree.join("data/twin")).unwrap();
        symlink("text", tree.join("data/link")).unwrap();
        symlink("bin/app", tree.join("AppRun")).unwrap();
        let run = stage.path("run");
        fs::create_dir(&run).unwrap();
        fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
        Self { stage }
    }

    fn make(&self, more: &[&str]) -> Output {
        let runtime = runtime().to_str().unwrap();
        let words = ["bundle", "app dir", "-o", "app", "--run", "bin/app", "--runtime", runtime];
        self.stage.run(0, &[&words, more].concat())
    }

    /// The directory where bundles of this test are mounted.
    fn mounts(&self) -> PathBuf {
        self.stage.path("run/shale-bundles")
    }

    /// A start of the bundle. Copies go below the directory of the test.
    fn start(&self, words: &[&str]) -> Command {
        self.start_as(self.stage.path("app"), words)
    }

    fn start_as(&self, path: impl AsRef<Path>, words: &[&str]) -> Command {
        let mut command = self.stage.other(path.as_ref(), words);
        self.with_places(&mut command);
        command
    }

    fn with_places(&self, command: &mut Command) {
        command.env("XDG_RUNTIME_DIR", self.stage.path("run"));
        command.env("XDG_CACHE_HOME", self.stage.path("cache"));
        for name in ["SHALE_MOUNT", "SHALE_VERIFY", "SHALE_LOG", "APPIMAGE_EXTRACT_AND_RUN"] {
            command.env_remove(name);
        }
        // Most tests are about what the last program leaves.
        command.env("SHALE_LINGER", "0");
    }

    /// What a start prints; its exit code is 0.
    fn text(&self, words: &[&str]) -> String {
        String::from_utf8(expect(0, self.start(words)).stdout).unwrap()
    }

    /// The number of mounts in the directory of this test.
    fn mount_count(&self) -> usize {
        let place = self.mounts();
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.lines().filter(|line| line.contains(place.to_str().unwrap())).count()
    }

    /// Waits until no mount, lock, socket or mount point is left.
    #[track_caller]
    fn is_clean(&self) {
        wait_for_mounts("a mount stays", || self.mount_count() == 0);
        if !self.mounts().exists() {
            return;
        }
        let left = || fs::read_dir(self.mounts()).map_or(0, |names| names.count());
        wait_for_files("files stay beside the mounts", &self.mounts(), || left() == 0);
    }
}

/// Puts a program with these bytes in the place of the bundle.
///
/// Another process writes it: other tests start processes meanwhile, and each of them has a copy of
/// every handle of this process until it executes its program. The kernel executes no file that
/// somebody may still write to.
fn replace_app(stage: &Stage, bytes: &[u8]) {
    fs::write(stage.path("app bytes"), bytes).unwrap();
    fs::remove_file(stage.path("app")).unwrap();
    expect(0, stage.other("install", &["-m", "755", "app bytes", "app"]));
}

/// A program that waits for a line of its input, and what it printed first.
struct Waiting {
    child: Child,
    first: String,
}

impl Waiting {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut first = String::new();
        let out = child.stdout.take().unwrap();
        let mut out = BufReader::new(out);
        out.read_line(&mut first).unwrap();
        child.stdout = Some(out.into_inner());
        Self { child, first: first.trim_end().to_owned() }
    }

    fn finish(mut self) -> String {
        self.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut rest = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

#[test]
fn arguments_environment_and_exit_codes_are_those_of_the_program() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let words = ["words", "", "two words", "--appimage-help", "*", "\u{e4}\n"];
    assert_eq!(bundle.text(&words), "[]\n[two words]\n[--appimage-help]\n[*]\n[\u{e4}\n]\n");
    expect(37, bundle.start(&["code", "37"]));
    expect(0, bundle.start(&["code", "0"]));
    // By a link with another name, from a directory that cannot be written to.
    let here = bundle.stage.path("read only");
    fs::create_dir(&here).unwrap();
    symlink("../app", here.join("my tool")).unwrap();
    fs::set_permissions(&here, fs::Permissions::from_mode(0o555)).unwrap();
    let mut start = bundle.start_as("./my tool", &["env"]);
    let output = expect(0, {
        start.current_dir(&here);
        start
    });
    let output = String::from_utf8(output.stdout).unwrap();
    let found: Vec<&str> = output.lines().collect();
    let shown = |path: PathBuf| path.canonicalize().unwrap().to_str().unwrap().to_owned();
    let (app, here) = (shown(bundle.stage.path("app")), shown(here));
    assert!(found[0].starts_with(bundle.mounts().to_str().unwrap()), "{found:?}");
    assert_eq!(found[1..], [app.as_str(), "./my tool", &here, &here]);
    bundle.is_clean();
}

#[test]
fn a_signal_to_the_bundle_is_a_signal_to_the_program() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let mut waiting = Waiting::start(bundle.start(&["pid"]));
    assert_eq!(waiting.first, waiting.child.id().to_string(), "the same process");
    waiting.child.wait().unwrap();
    let mut waiting = Waiting::start(bundle.start(&["trap"]));
    assert_eq!(waiting.first, "ready");
    kill_process(Pid::from_child(&waiting.child), Signal::TERM).unwrap();
    let mut rest = String::new();
    waiting.child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!((waiting.child.wait().unwrap().code(), rest.as_str()), (Some(9), "caught\n"));
    bundle.is_clean();
}

#[test]
fn a_killed_program_leaves_no_mount() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let mut waiting = Waiting::start(bundle.start(&["wait"]));
    assert_eq!(bundle.mount_count(), 1);
    waiting.child.kill().unwrap();
    assert_eq!(waiting.child.wait().unwrap().signal(), Some(9));
    bundle.is_clean();
}

/// The process that serves the only mount in the directory of this test.
fn driver(bundle: &Bundle) -> Pid {
    let place = bundle.mounts();
    let words = |pid: &str| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_driver = |pid: &String| {
        let words = words(pid);
        let mut words = words.split(|&byte| byte == 0);
        words.next() == Some(b"shale-runtime: driver")
            && words.next() == Some(place.as_os_str().as_encoded_bytes())
    };
    let names =
        fs::read_dir("/proc").unwrap().filter_map(|it| it.unwrap().file_name().into_string().ok());
    let found: Vec<String> = names.filter(is_driver).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    Pid::from_raw(found[0].parse().unwrap()).unwrap()
}

#[test]
fn a_killed_driver_leaves_no_mount_and_the_next_start_works() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let mut waiting = Waiting::start(bundle.start(&["wait"]));
    kill_process(driver(&bundle), Signal::KILL).unwrap();
    wait_for_mounts("the mount stays", || bundle.mount_count() == 0);
    waiting.child.kill().unwrap();
    waiting.child.wait().unwrap();
    assert_eq!(bundle.text(&["cat", "data/text"]), "one line\n");
    bundle.is_clean();
}

#[test]
fn two_starts_share_a_mount_that_the_last_one_ends() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let first = Waiting::start(bundle.start(&["wait"]));
    let second = Waiting::start(bundle.start(&["wait"]));
    assert_eq!(first.first, second.first);
    assert_eq!(bundle.mount_count(), 1);
    driver(&bundle);
    assert_eq!(first.finish(), "one line\n");
    // The mount works for the other one.
    assert_eq!(bundle.mount_count(), 1);
    assert_eq!(second.finish(), "one line\n");
    bundle.is_clean();
}

#[test]
fn a_mount_waits_for_the_next_start_as_long_as_it_is_told() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let run = |code, seconds: &str| {
        let mut start = bundle.start(&["cat", "data/text"]);
        start.env("SHALE_LINGER", seconds);
        expect(code, start)
    };
    run(0, "86400");
    assert_eq!(bundle.mount_count(), 1, "it waits");
    let before = driver(&bundle);
    // The first start decides.
    run(0, "0");
    assert_eq!((bundle.mount_count(), driver(&bundle)), (1, before));
    // It can be unmounted at any time, and then nothing stays.
    let mounts = fs::read_dir(bundle.mounts()).unwrap().map(|it| it.unwrap().path());
    let mount = mounts.into_iter().find(|path| path.is_dir()).unwrap();
    expect(0, bundle.stage.other("umount", &[mount.to_str().unwrap()]));
    bundle.is_clean();
    // It does not wait for ever.
    run(0, "1");
    bundle.is_clean();
    for wrong in ["-1", "86401", "soon", "1.5"] {
        let errors = String::from_utf8(run(2, wrong).stderr).unwrap();
        assert!(errors.contains("SHALE_LINGER is") && errors.contains(wrong), "{errors}");
    }
    assert_eq!(bundle.mount_count(), 0);
}

#[test]
fn many_starts_at_once_all_work() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    for _ in 0..3 {
        let starts: Vec<Child> = (0..12)
            .map(|_| {
                let mut start = bundle.start(&["cat", "data/text"]);
                start.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for start in starts {
            let output = start.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.stdout.as_slice(), errors.as_ref()), (&b"one line\n"[..], ""));
        }
    }
    bundle.is_clean();
}

#[test]
fn a_mount_stays_for_what_the_program_left_behind() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let (out, release) = (bundle.stage.path("out"), bundle.stage.path("release"));
    let mut start = bundle.start(&["leave", out.to_str().unwrap()]);
    start.env("STARTED", bundle.stage.path("started")).env("RELEASE", &release);
    expect(0, bundle.stage.other("mkfifo", &["release"]));
    expect(0, start);
    // The driver looks again and again and finds the mount in use.
    assert_eq!(bundle.mount_count(), 1);
    fs::write(&release, "go\n").unwrap();
    bundle.is_clean();
    assert_eq!(fs::read(&out).unwrap(), b"here\none line\n");
}

/// Runs `script` as an ordinary user who may open `/dev/fuse`, in a mount namespace; `{}` in it is
/// the directory of the test.
fn as_user(bundle: &Bundle, script: &str) -> Output {
    let folder = bundle.stage.path("");
    let folder = folder.to_str().unwrap();
    for path in ["", "app"].map(|name| bundle.stage.path(name)) {
        // A change of the mode makes it another bundle for those who look for its mount.
        if fs::metadata(&path).unwrap().permissions().mode() & 0o777 != 0o755 {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    for name in ["run", "cache", "home"] {
        let _ = fs::create_dir(bundle.stage.path(name));
        std::os::unix::fs::chown(bundle.stage.path(name), Some(65534), Some(65534)).unwrap();
    }
    let outer = format!(
        "set -e; mount --make-rprivate /; rm -f fuse; mknod -m 666 fuse c 10 229; \
         mount --bind fuse /dev/fuse; \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c '{}'",
        script.replace("{}", folder.trim_end_matches('/'))
    );
    let mut command = bundle.stage.other("unshare", &["-m", "sh", "-c", &outer]);
    bundle.with_places(&mut command);
    command.env("HOME", bundle.stage.path("home"));
    command.output().unwrap()
}

#[test]
fn users_mount_with_the_helper_or_without_any_right() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let said = |script: &str| {
        let output = as_user(&bundle, script);
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), errors)
    };
    let good = (Some(0), "65534\n1\n".to_owned(), String::new());
    // With the helper.
    assert_eq!(said("SHALE_MOUNT=fuse {}/app id; :"), good);
    // Without it: mounted in namespaces, and nothing of that is seen outside.
    let hidden = "mkdir {}/home/bin; \
                  for p in sh id grep cat; do ln -s /usr/bin/$p {}/home/bin; done; \
                  PATH={}/home/bin; ";
    let script =
        format!("{hidden} {{}}/app id; grep fuse.shale /proc/self/mountinfo | grep -F {{}}");
    assert_eq!(said(&script), (Some(1), good.1.clone(), String::new()));
    // The program waits until its directory was listed.
    let script = "mkfifo {}/home/go; SHALE_MOUNT=namespace {}/app wait < {}/home/go | \
                  { exec 3> {}/home/go; read -r dir; ls -A \"$dir\" || exit; \
                    exec 3>&-; cat > {}/home/rest; }";
    assert_eq!(said(script), (Some(0), String::new(), String::new()));
    // Two programs in one namespace.
    let script = "export SHALE_MOUNT=namespace; mkfifo {}/home/f; \
                  {}/app wait < {}/home/f > {}/home/one & \
                  exec 3> {}/home/f; while [ ! -s {}/home/one ]; do :; done; \
                  {}/app env | head -n 1; cat {}/home/one; \
                  ls {}/run/shale-bundles | grep -c socket; \
                  echo >&3; exec 3>&-; wait";
    let (code, out, errors) = said(script);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, errors.as_str(), lines.len()), (Some(0), "", 3), "{out}");
    assert_eq!(lines[0], lines[1], "they share a mount");
    assert_eq!(lines[2], "1");
    bundle.is_clean();
    // The namespaces wait for the next program.
    let script = "export SHALE_MOUNT=namespace SHALE_LINGER=86400; {}/app space; {}/app space";
    let (code, out, errors) = said(script);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, errors.as_str(), lines.len()), (Some(0), "", 2), "{out}");
    assert_eq!(lines[0], lines[1]);
    // A killed driver leaves a socket, which the next start removes.
    let driver = driver(&bundle);
    kill_process(driver, Signal::KILL).unwrap();
    wait_for_end(driver);
    assert_eq!(said("SHALE_MOUNT=namespace {}/app id"), good);
    bundle.is_clean();
}

#[test]
fn without_mounts_a_copy_is_made_once() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let output = as_user(&bundle, "umount() { :; }; SHALE_MOUNT=extract {}/app env");
    let first = String::from_utf8(output.stdout).unwrap();
    let dir = PathBuf::from(first.lines().next().unwrap());
    assert!(dir.starts_with(bundle.stage.path("cache/shale-bundles")), "{first}");
    // The second start uses what is there.
    fs::write(dir.join("data/text"), "changed\n").unwrap();
    let mut start = bundle.start(&["cat", "data/text"]);
    start.env("APPIMAGE_EXTRACT_AND_RUN", "1");
    assert_eq!(expect(0, start).stdout, b"changed\n");
    let names = fs::read_dir(bundle.stage.path("cache/shale-bundles")).unwrap().count();
    assert_eq!(names, 1, "no lock and no partial copy is left");
    assert!(!bundle.mounts().exists(), "nothing was mounted");
    // A copy that was interrupted is made again.
    fs::rename(&dir, dir.with_extension("part")).unwrap();
    let mut start = bundle.start(&["cat", "data/text"]);
    start.env("SHALE_MOUNT", "extract");
    assert_eq!(expect(0, start).stdout, b"one line\n");
    let mut start = bundle.start(&[]);
    start.env("SHALE_MOUNT", "magic");
    let errors = String::from_utf8(expect(2, start).stderr).unwrap();
    assert!(errors.contains("fuse, namespace or extract"), "{errors}");
}

#[test]
fn a_machine_without_fuse_uses_a_copy() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let script = "umount /dev/fuse 2> /dev/null; {}/app id";
    // Whether or not the user may unmount: the device is not for users below.
    let outer = format!(
        "chmod 600 fuse 2> /dev/null; \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \
         '{}'",
        script.replace("{}", bundle.stage.path("").to_str().unwrap().trim_end_matches('/'))
    );
    as_user(&bundle, "true");
    let script = "set -e; mount --make-rprivate /; mknod -m 600 no-fuse c 10 229; \
                  mount --bind no-fuse /dev/fuse; ";
    let mut command =
        bundle.stage.other("unshare", &["-m", "sh", "-c", &[script, &outer].concat()]);
    bundle.with_places(&mut command);
    command.env_remove("XDG_CACHE_HOME").env("HOME", bundle.stage.path("home"));
    assert_eq!(expect(0, command).stdout, b"65534\n1\n");
    assert!(bundle.stage.path("home/.cache/shale-bundles").is_dir());
    bundle.is_clean();
}

#[test]
fn files_are_extracted_with_their_attributes() {
    let bundle = Bundle::new(&["--mtime", "2024-02-03T04:05:06Z"]);
    let listed = bundle.text(&["--appimage-extract"]);
    assert!(listed.lines().any(|line| line == "squashfs-root/data/deep/x.txt"), "{listed}");
    let copy = bundle.stage.path("squashfs-root");
    for name in ["bin/app", "data/text", "data/noise", "data/holes", "data/deep/x.txt"] {
        let both = [copy.join(name), bundle.stage.path("app dir").join(name)];
        let [ours, theirs] = both.each_ref().map(|path| fs::read(path).unwrap());
        assert!(ours == theirs, "{name}");
        let [ours, theirs] = both.map(|path| fs::metadata(path).unwrap().permissions().mode());
        assert_eq!(ours, theirs, "{name}");
    }
    use std::os::unix::fs::MetadataExt;
    let found = |name: &str| fs::symlink_metadata(copy.join(name)).unwrap();
    assert_eq!(found("data/text").ino(), found("data/twin").ino());
    assert_eq!(found("data/text").mtime(), 1_706_933_106);
    assert_eq!(found("data").mtime(), 1_706_933_106);
    assert!(found("data/holes").blocks() < 64, "the hole is a hole");
    assert_eq!(fs::read_link(copy.join("data/link")).unwrap(), Path::new("text"));
    // Nothing is overwritten.
    let errors = String::from_utf8(expect(125, bundle.start(&["--appimage-extract"])).stderr);
    assert!(errors.unwrap().contains("squashfs-root"));
    fs::remove_dir_all(&copy).unwrap();
    assert_eq!(
        bundle.text(&["--appimage-extract", "data/*/*.txt"]),
        "squashfs-root/data/deep/x.txt\n"
    );
    assert!(copy.join("data/deep/x.txt").exists() && !copy.join("data/text").exists());
    fs::remove_dir_all(&copy).unwrap();
    expect(2, bundle.start(&["--appimage-extract", "*.nothing"]));
    assert!(!copy.exists());
}

#[test]
fn the_options_of_appimages_work() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let offset = bundle.text(&["--appimage-offset"]);
    let offset = offset.trim_end();
    assert!(offset.parse::<u64>().unwrap() % 4096 == 0);
    bundle.stage.run(0, &["check", "--offset", offset, "app", "-q"]);
    assert!(bundle.stage.text(&["ls", "app"]).contains("AppRun"));
    assert!(bundle.text(&["--appimage-help"]).contains("--appimage-extract"));
    assert!(bundle.text(&["--appimage-version"]).starts_with("shale-runtime "));
    expect(2, bundle.start(&["--appimage-portable-home"]));
    // Mounts until it is interrupted.
    let mut command = bundle.stage.other(
        "env",
        &["--default-signal=INT", bundle.stage.path("app").to_str().unwrap(), "--appimage-mount"],
    );
    bundle.with_places(&mut command);
    // Whoever interrupts it does not wait.
    command.env("SHALE_LINGER", "86400");
    let mut waiting = Waiting::start(command);
    let text = Path::new(&waiting.first).join("data/text");
    assert_eq!(fs::read(text).unwrap(), b"one line\n");
    kill_process(Pid::from_child(&waiting.child), Signal::INT).unwrap();
    waiting.child.wait().unwrap();
    bundle.is_clean();
    let mut start = bundle.start(&["--appimage-mount"]);
    start.env("SHALE_MOUNT", "namespace");
    expect(125, start);
}

#[test]
fn a_damaged_bundle_says_so() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::new(&[]);
    let whole = fs::read(bundle.stage.path("app")).unwrap();
    let offset: usize = bundle.text(&["--appimage-offset"]).trim_end().parse().unwrap();
    let with = |bytes: &[u8]| replace_app(&bundle.stage, bytes);
    let refused = |words: &[&str], part: &str| {
        let errors = String::from_utf8(expect(125, bundle.start(words)).stderr).unwrap();
        assert!(errors.starts_with("app: ") && errors.contains(part), "{errors}");
    };
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    with(&flipped(offset - 4000));
    refused(&["id"], "bundle header is damaged");
    with(&whole[..offset - 4096]);
    refused(&["id"], "bare runtime");
    with(&whole[..offset - 100]);
    refused(&["id"], "bundle header needs 4096 bytes");
    with(&whole[..whole.len() - 5000]);
    refused(&["id"], "the image in the bundle");
    with(&flipped(offset + 3));
    refused(&["id"], "the image in the bundle");
    bundle.is_clean();
    // Damage in a file: the program sees an error where it reads it, and works elsewhere.
    let data = noise(3_000_000);
    let part = &data[1_500_000..1_500_064];
    let at = whole.windows(64).position(|window| window == part).unwrap();
    with(&flipped(at));
    assert_eq!(bundle.text(&["cat", "data/text"]), "one line\n");
    // The driver of this start has the log, not one that is about to end.
    bundle.is_clean();
    let log = bundle.stage.path("log");
    let mut start = bundle.start(&["cat", "data/noise"]);
    start.env("SHALE_LOG", &log);
    expect(1, start);
    let lines = fs::read_to_string(log).unwrap();
    assert!(lines.contains("data/noise"), "{lines}");
    bundle.is_clean();
    let mut start = bundle.start(&["cat", "data/text"]);
    start.env("SHALE_MOUNT", "extract");
    expect(125, start);
    assert!(!bundle.stage.path("squashfs-root").exists());
    with(&whole);
    assert_eq!(bundle.text(&["cat", "data/text"]), "one line\n");
    bundle.is_clean();
}

#[test]
fn signatures_are_checked_where_that_is_asked_for() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::tree();
    let stage = &bundle.stage;
    stage.run(0, &["create", "app dir", "-o", "app.shale", "-q"]);
    for key in ["key", "other"] {
        stage.run(0, &["keygen", key, "-q"]);
    }
    let make = |source: &str| {
        let words = ["bundle", source, "-o", "app", "--run", "bin/app", "-f", "-q", "--runtime"];
        stage.run(0, &[&words[..], &[runtime().to_str().unwrap()]].concat());
    };
    let verified = |code: i32, key: &str| {
        let mut start = bundle.start(&["cat", "data/text"]);
        start.env("SHALE_VERIFY", key);
        let output = expect(code, start);
        bundle.is_clean();
        (output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    make("app.shale");
    assert!(verified(125, "key.pub").1.contains("not signed"));
    expect(1, bundle.start(&["--appimage-signature"]));
    stage.run(0, &["sign", "app.shale", "-k", "key", "--embed", "-q"]);
    make("app.shale");
    assert_eq!(verified(0, "key.pub").0, b"one line\n");
    assert!(verified(125, "other.pub").1.contains("trusted"));
    assert!(verified(125, "missing.pub").1.contains("missing.pub"));
    let public = fs::read_to_string(stage.path("key.pub")).unwrap();
    let digits = public.split(' ').nth(2).unwrap();
    assert_eq!(verified(0, digits).0, b"one line\n");
    assert!(bundle.text(&["--appimage-signature"]).contains(digits));
    assert!(bundle.text(&["--appimage-signature", "key.pub"]).starts_with("verified"));
    expect(1, bundle.start(&["--appimage-signature", "other.pub"]));
    stage.run(0, &["verify", "app", "-k", "key.pub", "-q"]);
    // Another image with the signature of this one: bytes that were not signed are refused. Noise
    // is stored as it is, and a changed frame has a changed sum, so both are changed.
    let mut bytes = fs::read(stage.path("app")).unwrap();
    let data = noise(300_000);
    let at = bytes.windows(64).position(|window| window == &data[5000..5064]).unwrap();
    bytes[at] ^= 1;
    replace_app(stage, &bytes);
    expect(1, bundle.start(&["--appimage-signature", "key.pub"]));
}

#[test]
fn training_stores_what_the_program_reads_first() {
    if !is_root() {
        return;
    }
    let bundle = Bundle::tree();
    let output = bundle.make(&["--train", "--json", "--", "cat", "data/deep/x.txt"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["trained_files"], 2, "{told}");
    assert!(told["warm_bytes"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(bundle.text(&["cat", "data/deep/x.txt"]), "x\n");
    let extents = bundle.stage.text(&["dump", "app", "contents"]);
    assert!(!extents.is_empty());
    // Beside the output nothing is left, and nothing is mounted.
    let names = bundle.stage.names();
    assert!(
        !names.iter().any(|name| name.contains("bundle") && name.starts_with('.')),
        "{names:?}"
    );
    // A program that does not end.
    let output = bundle.make(&["-f", "--train", "--train-for", "0", "--json", "--", "trap"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["trained_files"].as_u64().unwrap() >= 1, "{told}");
    bundle.is_clean();
}

#[test]
fn what_cannot_run_is_not_bundled() {
    let bundle = Bundle::tree();
    let stage = &bundle.stage;
    let runtime = runtime().to_str().unwrap();
    let fails = |words: &[&str], part: &str, code: i32| {
        let all = [&["bundle", "-o", "app", "--runtime", runtime], words].concat();
        stage.fails(code, &all, &[part]);
        assert!(!stage.path("app").exists());
        assert!(!stage.names().iter().any(|name| name.starts_with(".app")));
    };
    fails(&["app dir", "--run", "bin/none"], "bin/none", 1);
    fails(&["app dir", "--run", "data/text"], "not executable", 1);
    fails(&["app dir", "--run", "data"], "not a program", 1);
    fails(&["app dir", "--run", "/"], "names no program", 2);
    fails(&["app dir", "--run", "bin/app", "--", "x"], "--train", 2);
    fails(&["missing", "--run", "bin/app"], "missing", 1);
    let own = env!("CARGO_BIN_EXE_shale");
    let words = ["bundle", "app dir", "-o", "app", "--run", "bin/app", "--runtime"];
    for (file, part) in [(own, "mark"), ("app dir/bin/app", "ELF"), ("none", "none")] {
        stage.fails(1, &[&words[..], &[file]].concat(), &[part]);
    }
    bundle.make(&["-q"]);
    stage.fails(1, &[&words[..], &[runtime]].concat(), &["--force"]);
    stage.fails(1, &[&words[..], &["app", "-f"]].concat(), &["bundle already"]);
    // A bundle is an image, so it can be bundled again; the program may be another one.
    let again = ["bundle", "app", "-o", "again", "--run", "AppRun", "--runtime", runtime];
    stage.run(0, &again);
    assert_eq!(
        fs::read(stage.path("again")).unwrap().len(),
        fs::read(stage.path("app")).unwrap().len()
    );
}

#[test]
fn what_a_bundle_does_not_take_over_from_an_image_is_said() {
    let bundle = Bundle::tree();
    let stage = &bundle.stage;
    let runtime = runtime().to_str().unwrap();
    stage.run(0, &["create", "app dir", "-o", "app.shale", "--parity", "5%", "-q"]);
    stage.run(0, &["keygen", "key", "-q"]);
    stage.run(0, &["sign", "app.shale", "-k", "key", "-q"]);
    let made = |more: &[&str]| {
        let words = ["bundle", "-o", "app", "-f", "--runtime", runtime];
        String::from_utf8(stage.run(0, &[&words, more].concat()).stderr).unwrap()
    };
    // Taken as it is.
    let said = made(&["app.shale", "--run", "bin/app", "-v"]);
    assert!(!said.contains("packed again"), "{said}");
    stage.run(0, &["append", "app.shale", "app dir", "-q", "--drop-parity"]);
    if is_root() {
        let said = made(&["app.shale", "--run", "bin/app", "--train", "--", "cat", "data/text"]);
        for part in ["packed again for --train", "signature", "newest snapshot", "--parity"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/images/0.3-brotli.shale");
    let words = ["bundle", golden, "-o", "app", "-f", "-v", "-1", "--runtime", runtime];
    let parts = ["packed again since the runtime does not read the codec brotli", "not executable"];
    stage.fails(1, &[&words[..], &["--run", "text-0"]].concat(), &parts);
}
