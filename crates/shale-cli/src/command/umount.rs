//! `shale umount`.
//!
//! Before it unmounts, it asks the driver to write what is not written yet, such as the end of a
//! list of first reads. The driver may hang, and a process that waits for it keeps the mount in
//! use. So a child process asks, and is killed if it takes too long.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::args::Umount;
use crate::exit::Exit;
use crate::report::Say;

/// How long a driver may take to write.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a killed process may take to end.
const PATIENCE_KILLED: Duration = Duration::from_millis(500);
/// The pause between two checks whether the child has ended, which usually takes a millisecond.
const PAUSE: Duration = Duration::from_millis(2);

/// Unmounts the images at some mount points, or all images.
///
/// # Errors
/// A mount point cannot be unmounted. With several, each error is printed and the others are
/// unmounted nevertheless.
pub fn run(args: &Umount, say: &Say) -> anyhow::Result<Exit> {
    if args.flush {
        args.dirs.iter().for_each(|dir| shale_fuse::flush(dir));
        return Ok(Exit::Done);
    }
    let dirs = match args.all {
        true => mount_points()?,
        false => args.dirs.clone(),
    };
    if let [dir] = &dirs[..] {
        unmount(dir, args.lazy)?;
        return Ok(Exit::Done);
    }
    let mut exit = Exit::Done;
    for dir in &dirs {
        if let Err(error) = unmount(dir, args.lazy) {
            exit = say.failure(&error);
        }
    }
    Ok(exit)
}

/// Returns where images are mounted, the last mounted first, as it may lie in another.
fn mount_points() -> anyhow::Result<Vec<PathBuf>> {
    let mounts = shale_fuse::mounts().context("cannot read the list of mounts")?;
    Ok(mounts.into_iter().rev().map(|mount| mount.mount_point).collect())
}

fn unmount(dir: &Path, lazy: bool) -> anyhow::Result<()> {
    // A child that waits for a driver which took its request and does not answer cannot be killed,
    // and keeps the mount in use. Then the mount is detached; it is gone when the driver goes on or
    // ends.
    let lazy = lazy || !flush(dir);
    Ok(shale_fuse::umount(dir, lazy)?)
}

/// Asks the driver, through a child process, to write what it has to; an error of the child is
/// ignored. Returns false if the child cannot be ended.
fn flush(dir: &Path) -> bool {
    let mut command = Command::new("/proc/self/exe");
    command.args(["umount", "--flush", "--"]).arg(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return true };
    if ends(&mut child, PATIENCE) {
        return true;
    }
    let _ = child.kill();
    ends(&mut child, PATIENCE_KILLED)
}

/// Waits for a process to end; returns whether it ended in time.
fn ends(child: &mut Child, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < end => std::thread::sleep(PAUSE),
            Ok(None) => return false,
            _ => return true,
        }
    }
}
