//! The `shale` command, its mounts, and other programs.
//!
//! `SHALE` names the command to test; without it, the one of this build is made first. A mount is
//! ended when its guard is dropped, whatever the test did.

use crate::wait;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The path of the `shale` command.
pub fn shale_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os("SHALE") {
            let path = PathBuf::from(path);
            assert!(path.is_file(), "SHALE names {}, which is not there", path.display());
            return path;
        }
        // This test lies in target/PROFILE/deps, the command beside that folder.
        let test = std::env::current_exe().expect("a test knows its own path");
        let profile = test.ancestors().nth(2).expect("tests lie in target/PROFILE/deps");
        let release = profile.file_name() == Some(OsStr::new("release"));
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "-p", "shale-cli"]);
        cargo.args(release.then_some("--release"));
        cargo.arg("--target-dir").arg(profile.parent().expect("a profile lies in target"));
        let status = cargo.status().expect("cargo runs");
        assert!(status.success(), "cargo build -p shale-cli failed");
        profile.join("shale")
    })
}

/// A `shale` command that reads no input.
pub fn shale<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(shale_path());
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The command as a user without rights, from a place that such a user can reach; none, and said
/// so, where this is not root.
pub fn as_nobody(folder: &Path, command: &Command) -> Option<Command> {
    if !is_root() || !has_program("setpriv") {
        println!("skipped: acting as an ordinary user needs root and setpriv");
        return None;
    }
    let copy = folder.join("shale-for-all");
    if !copy.exists() {
        // Not by this process: what another thread starts meanwhile could have the file open for
        // writing, and then it cannot be executed.
        let mut install = Command::new("install");
        install.args(["-m", "755"]).arg(shale_path()).arg(&copy);
        assert!(install.status().expect("coreutils are there").success(), "root may do that");
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777))
            .expect("root may do that");
    }
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
    nobody.args(command.get_args()).stdin(Stdio::null()).env("HOME", "/");
    Some(nobody)
}

/// Runs `command` and gives what it printed; panics with that if its exit code is another.
#[track_caller]
pub fn expect_code(command: &mut Command, code: i32) -> Output {
    let output = command.output().expect("the program starts");
    assert_eq!(
        output.status.code(),
        Some(code),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs `shale` with these arguments and expects success.
#[track_caller]
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    expect_code(&mut shale(arguments), 0)
}

/// Packs `tree` into `image`, with more arguments.
#[track_caller]
pub fn create(tree: &Path, image: &Path, more: &[&str]) {
    let mut command = shale([OsStr::new("create"), tree.as_os_str()]);
    command.arg("-o").arg(image).args(more);
    expect_code(&mut command, 0);
}

/// Writes `image` as the archive `archive`, with more arguments, and expects this exit code.
#[track_caller]
pub fn export(image: &Path, archive: &Path, more: &[&str], code: i32) -> Output {
    let mut command = shale([OsStr::new("export"), image.as_os_str()]);
    expect_code(command.arg("-o").arg(archive).args(more), code)
}

/// Unpacks `image` into the new folder `folder`.
#[track_caller]
pub fn extract(image: &Path, folder: &Path) {
    std::fs::create_dir_all(folder).expect("the target can be made");
    run([OsStr::new("extract"), image.as_os_str(), OsStr::new("-C"), folder.as_os_str()]);
}

/// What a program wrote to its standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether root runs the tests.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A file system in a file, mounted by the kernel. It is unmounted when this is dropped.
#[derive(Debug)]
pub struct LoopMount(PathBuf);

impl LoopMount {
    /// Mounts `image`, a file system of this kind, in the folder `point`, which is made. `None` if
    /// this machine cannot, and says so.
    ///
    /// # Errors
    /// The kernel's words, where it refuses the image or lacks the kind.
    pub fn new(kind: &str, image: &Path, point: &Path) -> Result<Option<Self>, String> {
        if !is_root() || !Path::new("/dev/loop-control").exists() {
            println!("skipped: root and loop devices are needed to mount");
            return Ok(None);
        }
        std::fs::create_dir_all(point).map_err(|error| error.to_string())?;
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o", "loop,ro"]).arg(image).arg(point);
        let output = mount.output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(Some(Self(point.to_owned()))),
            false => Err(errors(&output)),
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.0).status();
        assert!(std::thread::panicking() || status.is_ok_and(|status| status.success()));
    }
}

/// Whether this machine can mount with FUSE; says loudly why not.
pub fn can_mount() -> bool {
    let device = Path::new("/dev/fuse").exists();
    let helper = has_program("fusermount3");
    if !device || !helper {
        println!("skipped: mounting needs /dev/fuse ({device}) and fusermount3 ({helper})");
    }
    device && helper
}

/// Whether `name` is in the PATH.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// A mounted image; dropping it unmounts.
#[derive(Debug)]
pub struct Mount {
    folder: PathBuf,
}

impl Mount {
    /// Mounts `image` on the new folder `folder`.
    #[track_caller]
    pub fn new(image: &Path, folder: &Path, more: &[&str]) -> Self {
        std::fs::create_dir_all(folder).expect("the mount point can be made");
        let mount = Self { folder: folder.to_path_buf() };
        let mut command = shale([OsStr::new("mount"), image.as_os_str(), folder.as_os_str()]);
        // The driver goes on in the background: pipes that it inherited would never end.
        command.args(more).stdout(Stdio::null()).stderr(Stdio::inherit());
        let status = command.status().expect("the program starts");
        assert!(status.success(), "{command:?}: {status}");
        assert!(is_mount(folder), "nothing is mounted when `shale mount` returns");
        mount
    }

    /// Takes care of what is mounted on `folder` already.
    pub fn adopt(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Unmounts and checks that nothing stays mounted.
    #[track_caller]
    pub fn end(self) {
        run([OsStr::new("umount"), self.folder.as_os_str()]);
        wait::for_mounts("still mounted after `shale umount`", || !is_mount(&self.folder));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if is_mount(&self.folder) {
            let lazy = shale(["umount", "--lazy"]).arg(&self.folder).status();
            println!("unmounted what a test left: {} ({lazy:?})", self.folder.display());
        }
    }
}

/// Whether a file system is mounted on `folder`.
pub fn is_mount(folder: &Path) -> bool {
    let Ok(table) = std::fs::read_to_string("/proc/self/mounts") else { return false };
    let Ok(folder) = folder.canonicalize() else {
        // A mount whose driver is gone cannot be looked up, but it is one.
        return table.lines().any(|l| l.split(' ').nth(1) == folder.to_str());
    };
    table.lines().any(|line| line.split(' ').nth(1) == folder.to_str())
}
