//! Mounts the kernel's EROFS over a file of a FUSE mount that no other process sees.
//!
//! The inner mount (FUSE) and the outer mount (EROFS) live and end together: when one of them is
//! unmounted or the driver ends, both go. The inner one stays in the tree of mounts, below
//! `/run/shale`, because statistics are read there.

use super::probe;
use super::run_dir::RunDir;
use super::virtual_image::VirtualImage;
use crate::error::MountError;
use crate::mount::{
    Duty, Life, Mounted, Watchdog, Way, check_mount_point, mount, raise_read_ahead,
};
use crate::mount_table::KERNEL_VIEW_FILE;
use crate::options::Options;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long to wait for a change of the list of mounts before checking whether the driver has
/// ended.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Mounts `image` over FUSE in a directory of its own, and the EROFS in it at `mount_point`.
///
/// # Errors
/// [`MountError::KernelView`] if the kernel refuses the EROFS; those of [`mount`](mount()).
pub(super) fn mount_image(
    image: VirtualImage,
    mount_point: &Path,
    options: &Options,
) -> Result<Mounted, MountError> {
    let mount_point = check_mount_point(mount_point)?;
    let run_dir = RunDir::new()?;
    let mut summary = image.summary();
    // The owners were applied when the image was laid out; here they would lock root out of its own
    // file.
    let inner =
        Options { uid: None, gid: None, allow_other: false, push_len_max: 0, ..options.clone() };
    let mut mounted = mount(Arc::new(image), run_dir.path(), &inner)?;
    match attach(&run_dir.path().join(KERNEL_VIEW_FILE), &mount_point, options)? {
        Through::File => {}
        Through::Loop => summary.push_str(", through a loop device"),
    }
    let outer = Arc::new(Life::begin(mount_point, Way::Direct));
    if let Some(id) = outer.id() {
        raise_read_ahead(id.device());
    }
    mounted.add_outer(Arc::clone(&outer), summary);
    // From here on, dropping `mounted` unmounts both.
    let connection = mounted.life().id().map_or(0, |id| id.device().1);
    let watch = || Watchdog::start(outer.mount_point(), connection, Way::Direct, Duty::Unmount);
    let watchdog = options.auto_unmount.then(watch).transpose()?.flatten();
    let table = File::open("/proc/self/mountinfo")
        .map_err(|error| MountError::system("open the list of mounts", error))?;
    let inner = Arc::clone(mounted.life());
    let follow = move || {
        while !outer.is_gone() && !inner.has_ended() {
            let mut changed = [PollFd::new(&table, PollFlags::PRI)];
            let _ = poll(&mut changed, Some(&PATIENCE));
        }
        // One of the two is gone, so the other has to go. Open files keep both alive until then.
        let _ = outer.unmount(true);
        let _ = inner.unmount(true);
        outer.end(Ok(()));
        if let Some(watchdog) = watchdog {
            watchdog.release();
        }
        while !inner.wait_for_end(Duration::from_secs(3600)) {}
        drop(run_dir);
    };
    let follower = std::thread::Builder::new()
        .name("shale-follow".into())
        .spawn(follow)
        .map_err(|error| MountError::system("start a thread", error))?;
    mounted.add_follower(follower);
    Ok(mounted)
}

/// What EROFS reads from.
enum Through {
    File,
    Loop,
}

/// Mounts the EROFS image `file`, by the system call: mount(8) would use a loop device.
fn attach(file: &Path, mount_point: &Path, options: &Options) -> Result<Through, MountError> {
    if options.loop_device || !reports_errors()? {
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
        // Linux before 6.12 has no file-backed mounts; a loop device costs a little more.
        Err(Errno::NOTBLK) => attach_loop(file, mount_point, options).map(|()| Through::Loop),
        Err(errno) => refused(format!("the kernel's erofs refuses the image: {errno}")),
    }
}

/// Returns whether the kernel's EROFS over a file reports what it cannot read as an error, and does
/// not show zeroes instead. Probes once for each process, which takes some milliseconds.
///
/// # Errors
/// The probe failed, for example for lack of file handles. Then nothing may be mounted: a wrong
/// guess would show zeroes for data.
fn reports_errors() -> Result<bool, MountError> {
    static REPORTS: OnceLock<bool> = OnceLock::new();
    match REPORTS.get() {
        Some(reports) => Ok(*reports),
        None => run_probe().map(|reports| *REPORTS.get_or_init(|| reports)),
    }
}

fn run_probe() -> Result<bool, MountError> {
    let (above, below) = (RunDir::new()?, RunDir::new()?);
    let options = Options { thread_count: 1, ..Options::default() };
    let image = probe::image().map_err(MountError::KernelView)?;
    let _mounted = mount(Arc::new(image), below.path(), &options)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let file = below.path().join(KERNEL_VIEW_FILE);
    if rustix::mount::mount(file, above.path(), "erofs", flags, None).is_err() {
        // The image itself will not mount either, and that error tells why.
        return Ok(true);
    }
    let reports = probe::reports_error(above.path());
    let _ = rustix::mount::unmount(above.path(), UnmountFlags::NOFOLLOW | UnmountFlags::DETACH);
    reports.map_err(|error| MountError::system("read the probe image of the kernel view", error))
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
            Err(MountError::KernelView(format!("mount(8) failed: {}", said.trim())))
        }
        Err(error) => Err(MountError::KernelView(format!("cannot run mount(8): {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::device;
    use crate::view::View;
    use std::os::unix::fs::FileExt;

    /// The kernels that [`probe`] looks for fill a read with zeroes if its beginning succeeds.
    #[test]
    fn a_read_of_the_probe_image_is_cut_short() {
        if !rustix::process::geteuid().is_root() || device::open().is_err() {
            println!("SKIPPED: needs root and /dev/fuse");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let options = Options { thread_count: 1, ..Options::default() };
        let image = probe::image().unwrap();
        let (start, len) = (image.totals().len - probe::LEN, probe::LEN as usize);
        let mounted = mount(Arc::new(image), place.path(), &options).unwrap();
        let file = File::open(place.path().join(KERNEL_VIEW_FILE)).unwrap();
        // As EROFS reads it: through the page cache, all at once.
        let read = file.read_at(&mut vec![0; len], start).unwrap();
        assert!(0 < read && read < len, "{read}");
        assert!(file.read_at(&mut vec![0; len], start + read as u64).is_err());
        drop(file);
        // Another test may have started a program: it holds a copy of the file until its exec.
        crate::umount(place.path(), false).unwrap();
        drop(mounted);
    }
}
