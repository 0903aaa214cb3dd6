//! Mounting, and the life of a mount.
//!
//! A mount ends in one of three ways: it is unmounted through [`Mounted`] or an [`Unmounter`],
//! someone else unmounts it, or the conversation with the kernel breaks down. All of them end the
//! serving threads, and none unmounts a file system that is not ours: before every attempt the
//! kernel is asked whether our mount is still what one meets at our path.

/// Opening the FUSE device.
pub(crate) mod device;
/// Mounting by the system call.
mod direct;
/// Mounting through the setuid helper.
mod helper;
/// A process that unmounts if the driver is killed.
mod watch;
/// The kernel's list of mounts.
pub(crate) mod table;
/// Longer read-ahead.
mod read_ahead;
/// Memory given back while nobody asks.
mod idle;
/// Mounting the kernel's EROFS over a file of a mount.
pub(crate) mod over;

use crate::driver::Driver;
use crate::error::MountError;
use crate::options::Options;
use crate::statistics::Snapshot;
use crate::transport::Negotiated;
use crate::transport::dev_fuse::Session;
use crate::view::{MODE_DIRECTORY, MODE_TYPE_MASK, ROOT, View, ViewError};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use watch::Watch;

/// How long dropping a [`Mounted`] waits for the serving threads.
const DROP_PATIENCE: Duration = Duration::from_secs(2);

/// Mounts `view` at the directory `mount_point` and serves it from threads of its own.
///
/// Returns once the kernel has accepted the driver, so success means that the mount works; a
/// process that wants to go to the background forks before this call and reports to its parent
/// after it. Root mounts by itself; others go through `fusermount3`.
///
/// Costs one question to the view, for the root; nothing in the image is read beyond that.
pub fn mount(
    view: Arc<dyn View>,
    mount_point: &Path,
    options: &Options,
) -> Result<Mounted, MountError> {
    check_options(options)?;
    let root = view.attributes(ROOT).map_err(MountError::Root)?;
    if root.mode & MODE_TYPE_MASK != MODE_DIRECTORY {
        return Err(MountError::Root(ViewError::NotDirectory));
    }
    let mount_point = check_mount_point(mount_point)?;
    let driver = Arc::new(Driver::new(view, options));
    let (device, way) = attach(&mount_point, options)?;
    // From here on there is a mount to take down again.
    let begin = || {
        let session = Session::begin(Arc::clone(&driver), device, options.threads())
            .map_err(MountError::Session)?;
        let watch = options.auto_unmount.then(|| Watch::start(&mount_point, way)).transpose()?;
        Ok((session, watch))
    };
    let (session, watch) = begin().inspect_err(|_| {
        let _ = way.unmount(&mount_point, true);
    })?;
    let mut negotiated = session.negotiated().clone();
    let identity = table::Identity::of(&mount_point).ok();
    if let Some(len) = identity.and_then(|mounted| read_ahead::raise(mounted.device())) {
        negotiated.read_ahead_len = len;
    }
    let life = Arc::new(Life {
        mount_point,
        identity,
        way,
        ended: Mutex::new(None),
        ended_signal: Condvar::new(),
    });
    let server = {
        let life = Arc::clone(&life);
        std::thread::Builder::new().name("shale-fuse".into()).spawn(move || {
            let result = session.run();
            // Broken down rather than unmounted: whoever comes here next must not find a corpse.
            let _ = life.unmount(true);
            if let Some(watch) = watch {
                watch.release();
            }
            life.end(result);
        })
    };
    let watched = |server| idle::watch(&life, &driver, options.idle_after).map(|()| server);
    let server = server.and_then(watched).map_err(|error| {
        let _ = life.unmount(true);
        MountError::system("start a thread", error)
    })?;
    let server = Some(server);
    let mut mounted = Mounted { life, outer: None, driver, negotiated, server, follower: None };
    // The first answer comes when every thread has its handle of the device: not before then may
    // the caller take handles, and be told that the mount works. None comes where it broke down.
    if rustix::fs::statfs(mounted.mount_point()).is_err() {
        mounted.join()?;
    }
    Ok(mounted)
}

/// A mount being served. Dropping it unmounts, lazily if need be.
pub struct Mounted {
    life: Arc<Life>,
    /// What is mounted over a file of this mount, and is what people see.
    outer: Option<Arc<Life>>,
    driver: Arc<Driver>,
    negotiated: Negotiated,
    server: Option<JoinHandle<()>>,
    /// Takes away what is left of two mounts when one of them is gone.
    follower: Option<JoinHandle<()>>,
}

impl Mounted {
    /// Where it is mounted, absolute and without symlinks.
    pub fn mount_point(&self) -> &Path {
        &self.outer.as_ref().unwrap_or(&self.life).mount_point
    }

    /// What kernel and driver agreed on; its `Display` is for `shale mount -v`.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// The counters as they stand.
    pub fn statistics(&self) -> Snapshot {
        self.driver.statistics.snapshot(self.driver.counters())
    }

    /// The counters as they will stand whenever it is asked, also after the end.
    pub fn statistics_source(&self) -> StatisticsSource {
        StatisticsSource {
            driver: Arc::clone(&self.driver),
            mount_point: self.mount_point().into(),
        }
    }

    /// A handle for another thread, such as one that waits for signals.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter { life: Arc::clone(&self.life), outer: self.outer.clone() }
    }

    /// Waits until the mount is gone, whoever unmounts it.
    ///
    /// Errors: the conversation with the kernel broke down.
    pub fn wait(mut self) -> Result<(), MountError> {
        self.join()
    }

    /// Unmounts and waits for the end. See [`Unmounter::unmount`].
    ///
    /// Where this fails the mount stays and `self` can be dropped (which detaches it) or not.
    pub fn unmount(&mut self, lazy: bool) -> Result<(), MountError> {
        self.unmounter().unmount(lazy)?;
        self.join()
    }

    fn join(&mut self) -> Result<(), MountError> {
        if let Some(server) = self.server.take()
            && server.join().is_err()
        {
            let broken = io::Error::other("a serving thread failed (a bug)");
            self.life.end(Err(broken));
        }
        self.join_follower();
        match self.life.ended().as_mut() {
            Some(result) => std::mem::replace(result, Ok(())).map_err(MountError::Session),
            None => Ok(()),
        }
    }

    /// Waits until nothing is left of the inner mount, which has to have ended: a process that
    /// ends before leaves its place behind.
    fn join_follower(&mut self) {
        if let Some(follower) = self.follower.take() {
            // If it failed, the next mount sweeps the place away.
            let _ = follower.join();
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.server.is_some() {
            let _ = self.unmounter().unmount(true);
            // Files still open elsewhere keep the threads busy; they must not hold up this one.
            if self.life.wait_for_end(DROP_PATIENCE) {
                self.join_follower();
            }
        }
    }
}

/// Where the counters of one mount can be read.
#[derive(Clone)]
pub struct StatisticsSource {
    driver: Arc<Driver>,
    mount_point: PathBuf,
}

impl StatisticsSource {
    /// The counters as they stand.
    pub fn snapshot(&self) -> Snapshot {
        self.driver.statistics.snapshot(self.driver.counters())
    }

    /// Where it is mounted.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }
}

/// Unmounts from another thread.
#[derive(Clone)]
pub struct Unmounter {
    life: Arc<Life>,
    outer: Option<Arc<Life>>,
}

impl Unmounter {
    /// Takes the mount away. Does nothing where it is gone already.
    ///
    /// With `lazy` it disappears from the tree at once and is served to those who still have files
    /// open in it; [`Mounted::wait`] returns when the last has closed them.
    ///
    /// Errors: [`MountError::Busy`] where it is in use and `lazy` is false.
    pub fn unmount(&self, lazy: bool) -> Result<(), MountError> {
        let Some(outer) = &self.outer else {
            return self.life.unmount(lazy);
        };
        outer.unmount(lazy)?;
        // Nobody sees it; it goes when nothing of it is open any more.
        self.life.unmount(true)
    }

    /// Whether the mount has ended.
    pub fn has_ended(&self) -> bool {
        self.life.ended().is_some()
    }

    /// Waits until the mount has ended, at most for `patience`; returns whether it has.
    pub fn wait_for_end(&self, patience: Duration) -> bool {
        self.life.wait_for_end(patience)
    }
}

/// How it was mounted, and so how to unmount it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Direct,
    Helper,
}

impl Way {
    /// The way open to this process.
    pub(crate) fn of_this_process() -> Self {
        if rustix::process::geteuid().is_root() { Self::Direct } else { Self::Helper }
    }

    /// Unmounts whatever is at `mount_point`.
    pub(crate) fn unmount(self, mount_point: &Path, lazy: bool) -> Result<(), MountError> {
        if self == Self::Helper {
            return helper::unmount(mount_point, lazy);
        }
        let mut flags = UnmountFlags::NOFOLLOW;
        if lazy {
            flags |= UnmountFlags::DETACH;
        }
        match rustix::mount::unmount(mount_point, flags) {
            Ok(()) => Ok(()),
            Err(Errno::BUSY) => Err(MountError::Busy(mount_point.to_owned())),
            Err(Errno::INVAL) => Err(MountError::NotMounted(mount_point.to_owned())),
            Err(Errno::PERM) => helper::unmount(mount_point, lazy),
            Err(other) => {
                Err(MountError::system(format!("unmount {}", mount_point.display()), other))
            }
        }
    }
}

/// What the serving thread, the owner and the unmounters share.
pub(crate) struct Life {
    mount_point: PathBuf,
    /// Tells our mount from another at the same path; `None` where the kernel could not say.
    identity: Option<table::Identity>,
    way: Way,
    ended: Mutex<Option<io::Result<()>>>,
    ended_signal: Condvar,
}

impl Life {
    fn ended(&self) -> MutexGuard<'_, Option<io::Result<()>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, result: io::Result<()>) {
        *self.ended() = Some(result);
        self.ended_signal.notify_all();
    }

    fn wait_for_end(&self, patience: Duration) -> bool {
        let guard = self.ended();
        let waited = self.ended_signal.wait_timeout_while(guard, patience, |ended| ended.is_none());
        let (guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        guard.is_some()
    }

    fn unmount(&self, lazy: bool) -> Result<(), MountError> {
        if self.ended().is_some() {
            return Ok(());
        }
        match self.position() {
            Position::Gone => Ok(()),
            Position::Covered => Err(MountError::Covered(self.mount_point.clone())),
            Position::Top => match self.way.unmount(&self.mount_point, lazy) {
                // Someone else was faster.
                Err(_) if self.position() == Position::Gone => Ok(()),
                other => other,
            },
        }
    }

    /// Whether it is neither what one meets at its place nor below that.
    fn is_gone(&self) -> bool {
        self.position() == Position::Gone
    }

    fn position(&self) -> Position {
        let Some(ours) = self.identity else {
            return Position::Top;
        };
        let top = table::Identity::of(&self.mount_point).ok();
        if top == Some(ours) {
            return Position::Top;
        }
        // Our device below another one. Under a new mount with the same, reused number we are not.
        let device = ours.device();
        let below = table::all(&self.mount_point).is_ok_and(|stack| {
            stack.iter().any(|entry| entry.is_shale() && entry.device == device)
        });
        match top {
            Some(top) if below && top.device() != device => Position::Covered,
            _ => Position::Gone,
        }
    }
}

/// Where our mount is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// What one meets at the mount point.
    Top,
    /// Beneath another mount at the same place.
    Covered,
    /// Not there any more.
    Gone,
}

fn check_options(options: &Options) -> Result<(), MountError> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    for (wanted, option) in [(options.allow_devices, "dev"), (options.allow_setuid, "suid")] {
        if wanted {
            return Err(MountError::Option { option, reason: "only root may ask for it".into() });
        }
    }
    Ok(())
}

/// The mount point, absolute and without symlinks, if an image can be mounted there.
fn check_mount_point(mount_point: &Path) -> Result<PathBuf, MountError> {
    let resolved = mount_point.canonicalize().and_then(|path| Ok((path.metadata()?, path)));
    let (metadata, path) = resolved.map_err(|error| {
        let path = mount_point.to_owned();
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => MountError::MountPointMissing(path),
            Some(Errno::NOTDIR) => MountError::MountPointNotDirectory(path),
            Some(Errno::NOTCONN) => MountError::MountPointStale(path),
            Some(Errno::ACCESS) => MountError::NotPermitted {
                what: format!("reach mount point {}", path.display()),
                hint: "choose a directory of your own",
            },
            _ => MountError::system(format!("look at mount point {}", path.display()), error),
        }
    })?;
    if !metadata.is_dir() {
        return Err(MountError::MountPointNotDirectory(path));
    }
    match table::find(&path) {
        Ok(Some(entry)) if entry.is_shale() => {
            // What the kernel remembers of a mount is there even if its driver is not; the totals
            // are always asked for.
            match rustix::fs::statfs(&path) {
                Err(Errno::NOTCONN) => Err(MountError::MountPointStale(path)),
                _ => Err(MountError::AlreadyMounted { path, mounted: table::shown(&entry.source) }),
            }
        }
        // Other file systems may be covered, as mount(8) allows it too.
        _ => Ok(path),
    }
}

/// Mounts in the way open to this process, and says which that was.
fn attach(mount_point: &Path, options: &Options) -> Result<(OwnedFd, Way), MountError> {
    if Way::of_this_process() == Way::Direct {
        match direct::mount(mount_point, options) {
            Ok(device) => return Ok((device, Way::Direct)),
            // Root without the right to mount, as in many containers: the helper knows no better
            // way, unless it is one that has been given the right.
            Err(error @ MountError::NotPermitted { .. }) => {
                return match helper::mount(mount_point, options) {
                    Ok(device) => Ok((device, Way::Helper)),
                    Err(_) => Err(error),
                };
            }
            Err(error) => return Err(error),
        }
    }
    // The helper's own messages about the device are poor.
    device::open()?;
    Ok((helper::mount(mount_point, options)?, Way::Helper))
}
