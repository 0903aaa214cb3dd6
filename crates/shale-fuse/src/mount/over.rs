//! Mounting the kernel's EROFS over a file of a FUSE mount that nobody else sees.
//!
//! The two live and end together: whoever unmounts the outer one, the inner one follows; when the
//! driver ends, both are taken away. The inner one stays in the tree, below `/run/shale`, because
//! statistics are asked there.

use super::watch::Watch;
use super::{Life, Mounted, Way, check_mount_point, read_ahead, table};
use crate::error::MountError;
use crate::kernel_view::{FILE_NAME, VirtualImage, trial};
use crate::options::Options;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{Pid, test_kill_process};
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// Where inner mounts are.
const RUN: &str = "/run/shale";
/// How long a change of the list of mounts is waited for before the driver's own end is looked at.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Mounts `image` over FUSE at a place of its own and the EROFS in it at `mount_point`.
pub(crate) fn mount(
    image: VirtualImage,
    mount_point: &Path,
    options: &Options,
) -> Result<Mounted, MountError> {
    let mount_point = check_mount_point(mount_point)?;
    let place = Place::new()?;
    let mut summary = image.summary();
    // Owners were decided when the image was laid out; here they would lock out root's own file.
    let inner = Options { uid: None, gid: None, allow_other: false, ..options.clone() };
    let mut mounted = super::mount(Arc::new(image), &place.path, &inner)?;
    match attach(&place.path.join(FILE_NAME), &mount_point, options)? {
        Through::File => {}
        Through::Loop => summary.push_str(", through a loop device"),
    }
    let outer = Arc::new(Life {
        identity: table::Identity::of(&mount_point).ok(),
        mount_point,
        way: Way::Direct,
        ended: Mutex::new(None),
        ended_signal: Condvar::new(),
    });
    if let Some(identity) = outer.identity {
        read_ahead::raise(identity.device());
    }
    mounted.negotiated.kernel_view = Some(summary);
    mounted.outer = Some(Arc::clone(&outer));
    // From here on, dropping `mounted` takes both away.
    let watch =
        options.auto_unmount.then(|| Watch::start(&outer.mount_point, Way::Direct)).transpose()?;
    let table = File::open("/proc/self/mountinfo")
        .map_err(|error| MountError::system("open the list of mounts", error))?;
    let inner = Arc::clone(&mounted.life);
    let follow = move || {
        while !outer.is_gone() && inner.ended().is_none() {
            let mut changed = [PollFd::new(&table, PollFlags::PRI)];
            let _ = poll(&mut changed, Some(&PATIENCE));
        }
        // One of them is gone: the other has no use. What is open below keeps both alive.
        let _ = outer.unmount(true);
        let _ = inner.unmount(true);
        outer.end(Ok(()));
        if let Some(watch) = watch {
            watch.release();
        }
        while !inner.wait_for_end(std::time::Duration::from_secs(3600)) {}
        drop(place);
    };
    let follower = std::thread::Builder::new()
        .name("shale-follow".into())
        .spawn(follow)
        .map_err(|error| MountError::system("start a thread", error))?;
    mounted.follower = Some(follower);
    Ok(mounted)
}

/// What EROFS reads from.
enum Through {
    File,
    Loop,
}

/// Mounts the EROFS image `file`; by the system call, as mount(8) would put a loop device between.
fn attach(file: &Path, mount_point: &Path, options: &Options) -> Result<Through, MountError> {
    if options.loop_device || !are_errors_told()? {
        return attach_loop(file, mount_point, options).map(|()| Through::Loop);
    }
    let flag = |wanted: bool, flag| if wanted { flag } else { MountFlags::empty() };
    let flags = MountFlags::RDONLY
        | MountFlags::NOATIME
        | flag(!options.allow_setuid, MountFlags::NOSUID)
        | flag(!options.allow_devices, MountFlags::NODEV)
        | flag(options.forbid_exec, MountFlags::NOEXEC);
    let refused = |reason: String| Err(MountError::KernelView(reason));
    match rustix::mount::mount(file, mount_point, "erofs", flags, None) {
        Ok(()) => Ok(Through::File),
        Err(Errno::PERM | Errno::ACCESS) => refused("it needs the right to mount".into()),
        Err(Errno::NODEV) => refused("this kernel has no erofs".into()),
        // No file-backed mounts before Linux 6.12: through a loop device, which costs a little.
        Err(Errno::NOTBLK) => attach_loop(file, mount_point, options).map(|()| Through::Loop),
        Err(errno) => refused(format!("the kernel's erofs refuses the image: {errno}")),
    }
}

/// Whether what cannot be read is an error of the kernel's EROFS over a file, or zeroes. Tried
/// once, some milliseconds.
///
/// Errors: it could not be tried, as where there are too few file handles. Nothing is mounted on a
/// guess: a wrong one would be zeroes for data.
fn are_errors_told() -> Result<bool, MountError> {
    static TOLD: OnceLock<bool> = OnceLock::new();
    match TOLD.get() {
        Some(told) => Ok(*told),
        None => try_errors().map(|told| *TOLD.get_or_init(|| told)),
    }
}

fn try_errors() -> Result<bool, MountError> {
    let (above, below) = (Place::new()?, Place::new()?);
    let options = Options { thread_count: 1, ..Options::default() };
    let image = trial::image().map_err(MountError::KernelView)?;
    let _mounted = super::mount(Arc::new(image), &below.path, &options)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let file = below.path.join(FILE_NAME);
    if rustix::mount::mount(file, &above.path, "erofs", flags, None).is_err() {
        // Nor will the image itself be mounted, and that tells why.
        return Ok(true);
    }
    let told = trial::is_error_told(&above.path);
    let _ = rustix::mount::unmount(&above.path, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH);
    told.map_err(|error| MountError::system("read the trial image of the kernel view", error))
}

fn attach_loop(file: &Path, mount_point: &Path, options: &Options) -> Result<(), MountError> {
    let mut words = String::from("loop,ro,noatime");
    for (wanted, word) in [
        (!options.allow_setuid, ",nosuid"),
        (!options.allow_devices, ",nodev"),
        (options.forbid_exec, ",noexec"),
    ] {
        words.push_str(if wanted { word } else { "" });
    }
    let output = Command::new("mount")
        .args(["-i", "-t", "erofs", "-o", &words, "--"])
        .args([file, mount_point])
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(MountError::KernelView(format!("mount says: {}", said.trim())))
        }
        Err(error) => Err(MountError::KernelView(format!("cannot run mount(8): {error}"))),
    }
}

/// A directory for an inner mount; removed when the mount is gone.
struct Place {
    path: PathBuf,
    /// Locked until the process ends, which shows those to whom its number means nothing, as in
    /// another namespace, that the place is in use.
    _held: Option<File>,
}

impl Place {
    fn new() -> Result<Self, MountError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let failed =
            |path: &Path, error| MountError::system(format!("make {}", path.display()), error);
        let run = Path::new(RUN);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(run)
            .map_err(|error| failed(run, error))?;
        // One process at a time, so that nobody sweeps what is made but not locked.
        let turn = lock(run, FlockOperation::LockExclusive);
        if turn.is_some() {
            sweep(run);
        }
        loop {
            let number = NUMBERS.fetch_add(1, Relaxed);
            let path = run.join(format!("{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let held = lock(&path, FlockOperation::NonBlockingLockExclusive);
                    return Ok(Self { path, _held: held });
                }
                // Left by a process that had our number, and still mounted on.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path, error)),
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Busy if something is still mounted here, and then it has to stay.
        let _ = std::fs::remove_dir(&self.path);
    }
}

fn lock(directory: &Path, operation: FlockOperation) -> Option<File> {
    let file = File::open(directory).ok()?;
    flock(&file, operation).ok()?;
    Some(file)
}

/// Removes the places of processes that were killed. Nothing but empty directories can go, and
/// none that something is mounted on: a dead driver's mount is for [`umount`](crate::umount()).
fn sweep(run: &Path) {
    for place in std::fs::read_dir(run).into_iter().flatten().flatten() {
        let (name, path) = (place.file_name(), place.path());
        let owner = name.to_str().and_then(|name| name.split_once('-'));
        let owner = owner.and_then(|(owner, _)| Pid::from_raw(owner.parse().ok()?));
        let is_gone = owner.is_some_and(|owner| test_kill_process(owner) == Err(Errno::SRCH));
        // Asked first, as opening it would ask whatever is mounted there.
        if is_gone
            && matches!(table::find(&path), Ok(None))
            && lock(&path, FlockOperation::NonBlockingLockExclusive).is_some()
        {
            let _ = std::fs::remove_dir(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use std::os::unix::fs::FileExt;

    /// What the kernels that [`trial`] is for fill up with zeroes is a read that begins well.
    #[test]
    fn a_read_of_the_trial_image_is_cut_short() {
        if !rustix::process::geteuid().is_root() || super::super::device::open().is_err() {
            println!("SKIPPED: needs root and /dev/fuse");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let options = Options { thread_count: 1, ..Options::default() };
        let image = trial::image().unwrap();
        let (start, len) = (image.totals().len - trial::LEN, trial::LEN as usize);
        let mut mounted = super::super::mount(Arc::new(image), place.path(), &options).unwrap();
        let file = File::open(place.path().join(FILE_NAME)).unwrap();
        // As EROFS reads it: through the page cache, all at once.
        let read = file.read_at(&mut vec![0; len], start).unwrap();
        assert!(0 < read && read < len, "{read}");
        assert!(file.read_at(&mut vec![0; len], start + read as u64).is_err());
        drop(file);
        mounted.unmount(false).unwrap();
    }

    #[test]
    fn places_of_processes_that_are_gone_are_swept_and_no_others() {
        let run = tempfile::tempdir().unwrap();
        let place = |name: String| {
            let path = run.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let gone = child.id();
        let left = place(format!("{gone}-0"));
        let locked = place(format!("{gone}-1"));
        let full = place(format!("{gone}-2"));
        let ours = place(format!("{}-0", std::process::id()));
        let other = place("other".into());
        let held = lock(&locked, FlockOperation::NonBlockingLockExclusive);
        assert!(held.is_some());
        std::fs::write(full.join("file"), "text").unwrap();
        sweep(run.path());
        assert!(!left.exists());
        for kept in [&locked, &full, &ours, &other] {
            assert!(kept.exists(), "{} is gone", kept.display());
        }
        drop(held);
        sweep(run.path());
        assert!(!locked.exists());
    }
}
