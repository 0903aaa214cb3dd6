//! Begin and end of mounts: errors at the start, all ways to unmount, death of the driver.

use crate::common::memory::{Fault, MemoryTree};
use crate::common::{
    Place, Served, chmod, is_mounted, is_root, skip, skip_unless_root, skip_without,
    wait_until_unmounted,
};
use shale_fuse::view::{MODE_FILE, ROOT};
use shale_fuse::{MountError, Options, mount, umount};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const LEN: u64 = 32 << 20;

fn tree() -> MemoryTree {
    let mut tree = MemoryTree::new();
    tree.patterned(ROOT, "file", LEN);
    for name in ["hanging1", "hanging2"] {
        let hanging = tree.patterned(ROOT, name, LEN);
        tree.node(hanging).fault = Fault::Hang;
    }
    tree
}

fn cleanly(result: Result<(), MountError>) {
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn unmounting_ends_the_driver_and_leaves_an_empty_directory() {
    if skip() {
        return;
    }
    let mut served = Served::new(tree());
    assert!(is_mounted(&served.path()));
    assert!(served.join("file").exists());
    let unmounter = served.mounted.unmounter();
    assert!(!unmounter.has_ended());
    cleanly(served.mounted.unmount(false));
    assert!(unmounter.has_ended());
    assert!(!is_mounted(&served.path()));
    assert_eq!(std::fs::read_dir(served.path()).unwrap().count(), 0);
    // Unmounting again is no error and changes nothing.
    cleanly(unmounter.unmount(false));
    // The directory can be used again.
    let again = mount(Arc::new(tree()), &served.path(), &Options::default()).unwrap();
    assert!(served.join("file").exists());
    drop(again);
    assert!(!is_mounted(&served.path()));
}

#[test]
fn the_mount_shows_its_image_and_its_type() {
    if skip() {
        return;
    }
    let options = Options { source_name: "/images/a, b\\c.shale".into(), ..Options::default() };
    let served = Served::with(tree(), options);
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().find(|l| l.contains(served.path().to_str().unwrap())).unwrap();
    assert!(line.contains(" - fuse.shale /images/a,\\040b\\134c.shale ro,"), "{line}");
    for option in ["nosuid", "nodev", "noatime"] {
        assert!(line.contains(option), "{line}");
    }
    assert!(!line.contains("allow_other"), "{line}");
}

#[test]
fn a_busy_mount_is_refused_or_detached() {
    if skip() {
        return;
    }
    let mut served = Served::new(tree());
    let mut file = File::open(served.join("file")).unwrap();
    let error = served.mounted.unmount(false).unwrap_err();
    assert!(matches!(error, MountError::Busy(_)), "{error}");
    assert!(matches!(umount(&served.path(), false), Err(MountError::Busy(_))));
    assert!(served.join("file").exists());
    let unmounter = served.mounted.unmounter();
    cleanly(unmounter.unmount(true));
    assert!(!is_mounted(&served.path()));
    // Open files can be read until the last one is closed.
    let mut bytes = vec![0; 8 << 20];
    file.read_exact(&mut bytes).unwrap();
    assert!(!unmounter.has_ended());
    drop(file);
    cleanly(served.mounted.unmount(false));
    assert!(unmounter.has_ended());
}

#[test]
fn an_unmount_by_another_process_ends_only_that_mount() {
    if skip() {
        return;
    }
    for lazy in [false, true] {
        let place = Place::new();
        let first = mount(Arc::new(tree()), &place.path(), &Options::default()).unwrap();
        let unmounter = first.unmounter();
        cleanly(umount(&place.path(), lazy));
        // Another mount at the same path, at once: it is likely to get the same device number.
        let second = mount(Arc::new(tree()), &place.path(), &Options::default()).unwrap();
        cleanly(first.wait());
        assert!(unmounter.has_ended());
        cleanly(unmounter.unmount(true));
        assert!(is_mounted(&place.path()), "the second mount is gone");
        assert!(place.path().join("file").exists());
        drop(second);
        assert!(!is_mounted(&place.path()));
    }
}

#[test]
fn a_mount_on_top_of_ours_is_not_unmounted() {
    if skip_unless_root() {
        return;
    }
    let mut served = Served::new(tree());
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", served.path(), "tmpfs", flags, None).unwrap();
    let error = served.mounted.unmount(true).unwrap_err();
    assert!(matches!(error, MountError::Covered(_)), "{error}");
    let error = umount(&served.path(), true).unwrap_err();
    assert!(matches!(error, MountError::NotShale { .. }), "{error}");
    rustix::mount::unmount(served.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    cleanly(served.mounted.unmount(false));
    assert!(!is_mounted(&served.path()));
}

#[test]
fn unmounting_under_load_ends_all_readers() {
    if skip() {
        return;
    }
    for _ in 0..5 {
        let mut served = Served::new(tree());
        let path = served.path();
        let (has_read, have_read) = channel();
        std::thread::scope(|scope| {
            for n in 0..6 {
                let (path, has_read) = (path.clone(), has_read.clone());
                scope.spawn(move || {
                    // Until the mount is gone, and the names with it.
                    while let Ok(mut file) = File::open(path.join("file")) {
                        let mut bytes = vec![0; 1 << 20];
                        while file.read(&mut bytes).is_ok_and(|len| len > 0) {
                            let _ = has_read.send(n);
                            if n % 2 == 0 {
                                let _ = std::fs::read_dir(&path).map(Iterator::count);
                            }
                        }
                    }
                });
            }
            // Until each thread is at work.
            let mut waiting: HashSet<_> = (0..6).collect();
            while !waiting.is_empty() {
                waiting.remove(&have_read.recv().unwrap());
            }
            cleanly(served.mounted.unmounter().unmount(true));
        });
        cleanly(served.mounted.unmount(false));
    }
}

#[test]
fn dropping_the_handle_unmounts_even_in_a_panic() {
    if skip() {
        return;
    }
    let place = Place::new();
    let path = place.path();
    let panicked = std::thread::spawn(move || {
        let _mounted = mount(Arc::new(tree()), &path, &Options::default()).unwrap();
        panic!("a panic of the test");
    });
    assert!(panicked.join().is_err());
    assert!(!is_mounted(&place.path()));
}

fn error_of(path: &Path, options: &Options) -> MountError {
    match mount(Arc::new(tree()), path, options) {
        Ok(_) => panic!("mounted at {}", path.display()),
        Err(error) => error,
    }
}

#[test]
fn an_unusable_mount_point_is_named_in_the_error() {
    if skip() {
        return;
    }
    let options = Options::default();
    let place = Place::new();
    let missing = error_of(&place.beside("missing"), &options);
    assert!(matches!(missing, MountError::MountPointMissing(_)), "{missing}");
    let file = place.beside("file");
    std::fs::write(&file, b"").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = error_of(&path, &options);
        assert!(matches!(error, MountError::MountPointNotDirectory(_)), "{error}");
    }
    let mut served =
        Served::with(tree(), Options { source_name: "first".into(), ..Options::default() });
    let error = error_of(&served.path(), &options);
    assert!(
        matches!(&error, MountError::AlreadyMounted { mounted, .. } if mounted == "first"),
        "{error}"
    );
    cleanly(served.mounted.unmount(false));

    assert!(matches!(umount(&place.path(), false), Err(MountError::NotMounted(_))));
    assert!(matches!(umount(&place.beside("missing"), false), Err(MountError::NotMounted(_))));
    assert!(matches!(umount(Path::new("/proc"), false), Err(MountError::NotShale { .. })));
    assert!(is_mounted(Path::new("/proc")));

    let mut rootless = MemoryTree::new();
    rootless.node(ROOT).attributes.mode = MODE_FILE | 0o644;
    let error = mount(Arc::new(rootless), &place.path(), &options).err().unwrap();
    assert!(matches!(error, MountError::Root(_)), "{error}");
    assert!(!is_mounted(&place.path()));
}

#[test]
fn an_idle_mount_is_asked_to_free_its_caches() {
    if skip() {
        return;
    }
    let (rested, rests) = sync_channel(8);
    let mut tree = tree();
    tree.rested = Some(rested);
    let options = Options { idle_after: Duration::from_millis(20), ..Options::default() };
    let mut served = Served::with(tree, options);
    for _ in 0..2 {
        // A request that always reaches the driver.
        rustix::fs::statfs(served.path()).unwrap();
        rests.recv().unwrap();
    }
    cleanly(served.mounted.unmount(false));
    // At most one for each of the two requests and for those of the mounting.
    assert!(rests.try_iter().count() <= 1);
}

/// A driver in a process of its own, which is this test program with other arguments.
struct Driver {
    child: Child,
    lines: BufReader<ChildStdout>,
    first_line: String,
}

const DRIVER_PLACE: &str = "SHALE_FUSE_TEST_PLACE";
const DRIVER_AUTO_UNMOUNT: &str = "SHALE_FUSE_TEST_AUTO_UNMOUNT";

/// Not a test: the body of the process of a [`Driver`].
#[test]
fn driver_process() {
    let Some(place) = std::env::var_os(DRIVER_PLACE) else {
        return;
    };
    let auto_unmount = std::env::var_os(DRIVER_AUTO_UNMOUNT).is_some();
    let options = Options { auto_unmount, ..Options::default() };
    match mount(Arc::new(tree()), &PathBuf::from(place), &options) {
        Ok(mounted) => {
            println!("\nready");
            println!("ended: {:?}", mounted.wait().map_err(|error| error.to_string()));
        }
        Err(error) => println!("\nerror {error:?}: {error}"),
    }
}

impl Driver {
    fn start(place: &Path, auto_unmount: bool, shape: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["life::driver_process", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(DRIVER_PLACE, place).stdout(Stdio::piped()).stdin(Stdio::null());
        if auto_unmount {
            command.env(DRIVER_AUTO_UNMOUNT, "1");
        }
        shape(&mut command);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let is_first = |line: &String| line == "ready" || line.starts_with("error ");
        let first_line =
            lines.by_ref().lines().map(Result::unwrap).find(is_first).unwrap_or_default();
        Self { child, lines, first_line }
    }

    /// Waits until the driver prints all of these lines, in any order.
    fn wait_for_lines(&mut self, expected: &[&str]) {
        let mut missing: HashSet<String> = expected.iter().map(ToString::to_string).collect();
        let mut lines = self.lines.by_ref().lines().map(Result::unwrap);
        while !missing.is_empty() {
            missing.remove(&lines.next().unwrap());
        }
    }

    /// Signal 9.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn killing_the_driver_ends_all_reads_and_its_mount_can_be_unmounted() {
    if skip_unless_root() {
        return;
    }
    let place = Place::new();
    let path = place.path();
    let mut driver = Driver::start(&path, false, |_| {});
    assert_eq!(driver.first_line, "ready");
    std::thread::scope(|scope| {
        let readers: Vec<_> = ["hanging1", "hanging2"]
            .map(|name| {
                let path = path.join(name);
                scope.spawn(move || File::open(path).unwrap().read_to_end(&mut Vec::new()))
            })
            .into();
        // Both reads have reached the driver, which never answers them.
        driver.wait_for_lines(&["reading 3", "reading 4"]);
        driver.kill();
        for reader in readers {
            assert!(reader.join().unwrap().is_err());
        }
    });
    // The dead mount is recognised, and can be unmounted.
    assert!(is_mounted(&path));
    let error = error_of(&path, &Options::default());
    assert!(matches!(error, MountError::MountPointStale(_)), "{error}");
    cleanly(umount(&path, false));
    assert!(!is_mounted(&path));
}

#[test]
fn a_killed_driver_that_unmounts_automatically_leaves_no_mount() {
    if skip_unless_root() || skip_without(&["fusermount3"]) {
        return;
    }
    let place = Place::new();
    let path = place.path();
    let mut driver = Driver::start(&path, true, |_| {});
    assert_eq!(driver.first_line, "ready");
    assert!(path.join("file").exists());
    driver.kill();
    wait_until_unmounted(&path);

    // An orderly end works as well, and ends the helper.
    let options = Options { auto_unmount: true, ..Options::default() };
    let mut served = Served::with(tree(), options);
    assert!(served.join("file").exists());
    cleanly(served.mounted.unmount(false));
    assert!(!is_mounted(&served.path()));
}

#[test]
fn an_aborted_connection_is_unmounted() {
    if skip_unless_root() {
        return;
    }
    let served = Served::new(tree());
    let device = served.path().metadata().unwrap().dev();
    let connections = Place::new();
    let flags = rustix::mount::MountFlags::empty();
    if rustix::mount::mount("fusectl", connections.path(), "fusectl", flags, None).is_err() {
        println!("SKIPPED: no fusectl file system here");
        return;
    }
    let abort = connections.path().join(rustix::fs::minor(device).to_string()).join("abort");
    let written = std::fs::write(abort, "1");
    rustix::mount::unmount(connections.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    written.unwrap();
    // The result depends on which thread notices first.
    let _ = served.mounted.wait();
    assert!(!is_mounted(&served.place.path()));
}

/// Lets every user open the FUSE device during a test of an ordinary user.
struct OpenDevice {
    mode: u32,
    _alone: MutexGuard<'static, ()>,
}

impl OpenDevice {
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mode = std::fs::metadata("/dev/fuse").unwrap().permissions().mode() & 0o7777;
        chmod(Path::new("/dev/fuse"), 0o666);
        Self { mode, _alone: alone }
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        chmod(Path::new("/dev/fuse"), self.mode);
    }
}

/// A mount point that belongs to the user nobody, and this program where nobody can run it.
fn for_nobody() -> (Place, PathBuf) {
    const NOBODY: u32 = 65534;
    let place = Place::new();
    std::os::unix::fs::chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let program = place.beside("driver");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    chmod(&program, 0o755);
    (place, program)
}

fn start_as_nobody(
    place: &Place,
    program: &Path,
    auto_unmount: bool,
    shape: impl FnOnce(&mut Command),
) -> Driver {
    Driver::start(&place.path(), auto_unmount, |command| {
        let mut as_nobody = Command::new(program);
        as_nobody.args(command.get_args());
        for (name, value) in command.get_envs() {
            as_nobody.env(name, value.unwrap());
        }
        as_nobody.stdout(Stdio::piped()).stdin(Stdio::null()).current_dir("/");
        as_nobody.uid(65534).gid(65534);
        shape(&mut as_nobody);
        *command = as_nobody;
    })
}

#[test]
fn an_ordinary_user_mounts_and_unmounts_through_the_helper() {
    if skip_unless_root() || skip_without(&["fusermount3", "setpriv"]) {
        return;
    }
    let _open = OpenDevice::new();
    let (place, program) = for_nobody();
    let mut driver = start_as_nobody(&place, &program, false, |_| {});
    assert_eq!(driver.first_line, "ready");
    assert!(is_mounted(&place.path()));
    let as_nobody = |program: &str, argument: &Path| {
        let mut command = Command::new(program);
        command.arg(argument).uid(65534).gid(65534).output().unwrap().status.success()
    };
    assert!(as_nobody("cat", &place.path().join("file")));
    // Without `allow_other`, root gets no access either.
    assert!(File::open(place.path().join("file")).is_err());
    let mut unmount = Command::new("fusermount3");
    unmount.arg("-u").arg(place.path()).uid(65534).gid(65534);
    assert!(unmount.status().unwrap().success());
    assert!(driver.child.wait().unwrap().success());
    let mut rest = String::new();
    driver.lines.read_to_string(&mut rest).unwrap();
    assert!(!is_mounted(&place.path()));
}

#[test]
fn an_ordinary_user_is_told_what_is_missing() {
    if skip_unless_root() || skip_without(&["fusermount3"]) {
        return;
    }
    let (place, program) = for_nobody();
    let open = OpenDevice::new();
    let driver = start_as_nobody(&place, &program, false, |command| {
        command.env("PATH", "/nowhere");
    });
    assert!(driver.first_line.starts_with("error HelperMissing"), "{}", driver.first_line);
    assert!(driver.first_line.contains("apt-get install fuse3"));

    std::os::unix::fs::chown(place.path(), Some(0), Some(0)).unwrap();
    let driver = start_as_nobody(&place, &program, false, |_| {});
    assert!(driver.first_line.starts_with("error HelperFailed"), "{}", driver.first_line);

    chmod(Path::new("/dev/fuse"), 0o600);
    let driver = start_as_nobody(&place, &program, false, |_| {});
    drop(open);
    assert!(driver.first_line.starts_with("error DeviceDenied"), "{}", driver.first_line);
    assert!(!is_mounted(&place.path()));
}

#[test]
fn an_ordinary_users_killed_driver_leaves_no_mount_when_asked() {
    if skip_unless_root() || skip_without(&["fusermount3"]) {
        return;
    }
    let _open = OpenDevice::new();
    let (place, program) = for_nobody();
    let mut driver = start_as_nobody(&place, &program, true, |_| {});
    assert_eq!(driver.first_line, "ready");
    assert!(is_mounted(&place.path()));
    driver.kill();
    wait_until_unmounted(&place.path());
}

#[test]
fn options_for_root_are_refused_for_other_users() {
    if is_root() {
        // The same test, as an ordinary user.
        let (_place, program) = for_nobody();
        let mut again = Command::new(program);
        again.args(["--exact", "life::options_for_root_are_refused_for_other_users"]);
        let output = again.uid(65534).gid(65534).current_dir("/").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let place = Place::new();
    let error = error_of(&place.path(), &Options { allow_devices: true, ..Options::default() });
    assert!(matches!(error, MountError::Option { option: "dev", .. }), "{error}");
}
