//! A temporary directory with a tree and its image, in which tests run the command.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A temporary directory, removed when it is dropped.
pub struct Stage {
    folder: TempDir,
}

/// A name that is not UTF-8 and would clear a terminal.
pub const ODD_NAME: &[u8] = b"odd\x1b[2J\xff\nname";

impl Stage {
    /// Contains `source`, a tree with each kind of file that an ordinary user can create.
    pub fn without_image() -> Self {
        let stage = Self { folder: TempDir::new().unwrap() };
        let source = stage.path("source");
        std::fs::create_dir_all(source.join("docs/deep")).unwrap();
        std::fs::write(source.join("docs/text.txt"), text()).unwrap();
        std::fs::write(source.join("docs/deep/noise.bin"), noise(700_000)).unwrap();
        std::fs::write(source.join("docs/deep/text.md"), "# deep\n").unwrap();
        std::fs::write(source.join("empty"), "").unwrap();
        std::fs::write(source.join(".hidden"), "h").unwrap();
        std::fs::write(source.join(OsStr::from_bytes(ODD_NAME)), "odd").unwrap();
        std::fs::hard_link(source.join("docs/text.txt"), source.join("twin")).unwrap();
        symlink("docs/text.txt", source.join("link")).unwrap();
        symlink("/docs/../docs/deep", source.join("absolute")).unwrap();
        symlink("loop-b", source.join("loop-a")).unwrap();
        symlink("loop-a", source.join("loop-b")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o640);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, source.join("fifo"), fifo, mode, 0).unwrap();
        stage
    }

    /// Contains `source` and its image `image.shale`.
    pub fn new() -> Self {
        let stage = Self::without_image();
        stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
        stage
    }

    /// A path in the directory.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command with `words`, in the directory.
    pub fn command<W: AsRef<OsStr>>(&self, words: &[W]) -> Command {
        self.other(env!("CARGO_BIN_EXE_shale"), words)
    }

    /// The command with default signal handling. If the tests run in the background, SIGINT can be
    /// ignored, and the command would ignore it, too.
    pub fn heeding(&self, words: &[&str]) -> Command {
        let env = ["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_shale")];
        self.other("env", &[&env, words].concat())
    }

    /// Another program, in the directory.
    pub fn other<W: AsRef<OsStr>>(&self, program: impl AsRef<OsStr>, words: &[W]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs the command and expects its exit code.
    #[track_caller]
    pub fn run<W: AsRef<OsStr>>(&self, code: i32, words: &[W]) -> Output {
        expect(code, self.command(words))
    }

    /// Runs the command and returns whether it succeeds.
    pub fn succeeds(&self, words: &[&str]) -> bool {
        self.command(words).output().unwrap().status.success()
    }

    /// Runs the command, expects exit code 0, and returns its output.
    #[track_caller]
    pub fn text(&self, words: &[&str]) -> String {
        String::from_utf8(self.run(0, words).stdout).unwrap()
    }

    /// Runs the command, expects its exit code, and parses its output as JSON.
    #[track_caller]
    pub fn json(&self, code: i32, words: &[&str]) -> Value {
        let output = self.run(code, words);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{words:?}: {error}\n{}", String::from_utf8_lossy(&output.stdout))
        })
    }

    /// Runs the command and expects its exit code and each of `parts` on standard error.
    #[track_caller]
    pub fn fails(&self, code: i32, words: &[&str], parts: &[&str]) {
        let complaint = String::from_utf8(self.run(code, words).stderr).unwrap();
        for part in parts {
            assert!(complaint.contains(part), "{words:?} does not say `{part}`:\n{complaint}");
        }
    }

    /// The names in the directory, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Changes one byte of a frame of the image.
    pub fn damage_frame(&self) {
        let mut bytes = std::fs::read(self.path("image.shale")).unwrap();
        let noise = noise(700_000);
        let at = bytes.windows(64).position(|window| window == &noise[5000..5064]);
        // Noise does not compress, so the image contains it unchanged.
        bytes[at.expect("noise is stored unchanged")] ^= 1;
        std::fs::write(self.path("image.shale"), bytes).unwrap();
    }
}

/// Runs `command` and expects its exit code.
#[track_caller]
pub fn expect(code: i32, mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(code),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Compressible text.
pub fn text() -> Vec<u8> {
    (0..20_000).flat_map(|n| format!("line {n} of some text\n").into_bytes()).collect()
}

/// Incompressible bytes.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Checks a condition again and again until it holds, a bounded number of times; `otherwise` is the
/// message of the failure. For conditions that no event announces; see [`crate::events`].
#[track_caller]
pub fn wait_until(otherwise: &str, mut is_so: impl FnMut() -> bool) {
    const CHECK_COUNT_MAX: usize = 1_000_000;
    let mut holds = || {
        std::thread::yield_now();
        is_so()
    };
    assert!((0..CHECK_COUNT_MAX).any(|_| holds()), "{otherwise}");
}

/// Checks that the test runs as root.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: it needs root");
    }
    is_root
}
