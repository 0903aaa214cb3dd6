//! Mounting over FUSE, and the life of a mount.
//!
//! A mount ends in one of three ways: it is unmounted through [`Mounted`] or an [`Unmounter`],
//! another process unmounts it, or the connection to the kernel breaks. Each of them ends the
//! serving threads.

/// Mounting by the system call.
mod direct;
/// Mounting through the setuid helper.
mod helper;
/// Which of the two ways a process uses.
mod way;
/// A mount that nobody serves yet.
mod attached;
/// Checks of a mount point.
mod mount_point;
/// What is known of one mount until its end.
mod life;
/// A thread with a table of open files of its own.
mod own_files;
/// A process that acts if the driver is killed.
mod watchdog;
/// Longer read-ahead.
mod read_ahead;
/// Frees memory while a mount is idle.
mod idle;
/// Handles of a mount that is being served.
mod mounted;

pub use attached::Attached;
pub(crate) use life::Life;
pub(crate) use mount_point::check as check_mount_point;
pub use mounted::{Mounted, StatisticsSource, Unmounter};
pub(crate) use read_ahead::raise as raise_read_ahead;
pub(crate) use watchdog::{Duty, Watchdog};
pub use way::Way;

use crate::driver::Driver;
use crate::error::MountError;
use crate::options::Options;
use crate::transport::dev_fuse::Session;
use crate::view::{MODE_DIRECTORY, MODE_TYPE_MASK, ROOT, View, ViewError};
use std::path::Path;
use std::sync::Arc;

/// Mounts `view` at the directory `mount_point` and serves it from threads of its own.
///
/// Returns once the kernel has accepted the driver, so success means that the mount works. Root
/// mounts by itself; other users mount through `fusermount3`. Asks the view one question, for the
/// attributes of the root.
///
/// # Errors
/// The mount point cannot be used, the root of the view cannot be read, this user may not mount or
/// may not use one of the options, or a system call failed. Nothing is mounted then.
pub fn mount(
    view: Arc<dyn View>,
    mount_point: &Path,
    options: &Options,
) -> Result<Mounted, MountError> {
    check_options(options)?;
    check_root(&*view)?;
    let mount_point = check_mount_point(mount_point)?;
    let driver = Arc::new(Driver::new(view, options));
    let (device, way) = way::attach(&mount_point, options)?;
    serve_attached(driver, Attached { device, way, mount_point }, options)
}

/// Mounts at the directory `mount_point` without a driver yet: [`serve`] is called next, in this
/// process or in one that got the parts of the result. Until then every access to the mount waits.
///
/// `way` is one of [`Way::Direct`], for root and for root of a user namespace, and [`Way::Helper`].
///
/// # Errors
/// The mount point cannot be used, this user may not mount that way, or a system call failed.
pub fn attach(mount_point: &Path, way: Way, options: &Options) -> Result<Attached, MountError> {
    let mount_point = check_mount_point(mount_point)?;
    let device = way::attach_by(way, &mount_point, options)?;
    Ok(Attached { device, way, mount_point })
}

/// Serves `view` at a mount that [`attach`] made, from threads of its own.
///
/// Returns once the kernel has accepted the driver. Asks the view one question, for the attributes
/// of the root.
///
/// # Errors
/// The root of the view cannot be read, or a system call failed. The mount is gone then, except for
/// [`Way::Elsewhere`], where nobody can use it.
pub fn serve(
    view: Arc<dyn View>,
    attached: Attached,
    options: &Options,
) -> Result<Mounted, MountError> {
    check_root(&*view).inspect_err(|_| {
        let _ = attached.way.unmount(&attached.mount_point, true);
    })?;
    serve_attached(Arc::new(Driver::new(view, options)), attached, options)
}

fn serve_attached(
    driver: Arc<Driver>,
    attached: Attached,
    options: &Options,
) -> Result<Mounted, MountError> {
    let Attached { device, way, mount_point } = attached;
    // From here on an error has to unmount.
    let begin = || {
        let can_clone = way != Way::Elsewhere;
        let mut session = Session::begin(Arc::clone(&driver), device, can_clone, options.threads())
            .map_err(MountError::Session)?;
        let life = Arc::new(Life::begin(mount_point.clone(), way));
        let watchdog = watch(&life, way, options, &mut session)?;
        Ok((session, life, watchdog))
    };
    let (session, life, watchdog) = begin().inspect_err(|_| {
        let _ = way.unmount(&mount_point, true);
    })?;
    let mut negotiated = session.negotiated().clone();
    if let Some(len) = life.id().and_then(|mounted| raise_read_ahead(mounted.device())) {
        negotiated.read_ahead_len = len;
    }
    let server = {
        let life = Arc::clone(&life);
        std::thread::Builder::new().name("shale-fuse".into()).spawn(move || {
            let result = session.run();
            // If the connection broke, the dead mount must not stay in the tree.
            let _ = life.unmount(true);
            if let Some(watchdog) = watchdog {
                watchdog.release();
            }
            life.end(result);
        })
    };
    let watched = |server| idle::watch(&life, &driver, options.idle_after).map(|()| server);
    let server = server.and_then(watched).map_err(|error| {
        let _ = life.unmount(true);
        MountError::system("start a thread", error)
    })?;
    let mut mounted = Mounted::new(life, driver, negotiated, server);
    // The first answer comes when every thread has its device handle. Only then may the caller use
    // file handles of the process and report that the mount works. If the connection broke, no
    // answer comes.
    if way != Way::Elsewhere && rustix::fs::statfs(mounted.mount_point()).is_err() {
        mounted.join()?;
    }
    Ok(mounted)
}

/// Starts the process that watches over the driver, if the options ask for it or if files are to be
/// pushed. Pushes none if no process would end the reads when the driver is killed while it pushes.
fn watch(
    life: &Life,
    way: Way,
    options: &Options,
    session: &mut Session,
) -> Result<Option<Watchdog>, MountError> {
    let is_pushing = session.negotiated().push_len_max > 0;
    let Some(connection) = life.id().map(|id| id.device().1) else {
        session.push_nothing();
        return match options.auto_unmount {
            true => Watchdog::start(life.mount_point(), 0, way, Duty::Unmount),
            false => Ok(None),
        };
    };
    let start = |duty| Watchdog::start(life.mount_point(), connection, way, duty);
    let watchdog = match options.auto_unmount {
        true => start(Duty::Unmount)?,
        false if is_pushing => start(Duty::Abort).unwrap_or_default(),
        false => None,
    };
    if !watchdog.as_ref().is_some_and(Watchdog::is_sure) {
        session.push_nothing();
    }
    Ok(watchdog)
}

fn check_root(view: &dyn View) -> Result<(), MountError> {
    let root = view.attributes(ROOT).map_err(MountError::Root)?;
    match root.mode & MODE_TYPE_MASK == MODE_DIRECTORY {
        true => Ok(()),
        false => Err(MountError::Root(ViewError::NotDirectory)),
    }
}

fn check_options(options: &Options) -> Result<(), MountError> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    for (wanted, option) in [(options.allow_devices, "dev"), (options.allow_setuid, "suid")] {
        if wanted {
            return Err(MountError::Option { option, reason: "only root may use it".into() });
        }
    }
    Ok(())
}
