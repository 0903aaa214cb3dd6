//! `shale umount`.
//!
//! Before the mount goes its driver is asked to write what it has not written yet, such as the end
//! of a list of first reads. A driver may be stuck, and who waits for it holds the mount; so
//! another process asks, which is killed if it takes long.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::args::Umount;
use crate::exit::Exit;

/// How long a driver may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a process may take to end once it is killed.
const PATIENCE_KILLED: Duration = Duration::from_millis(500);
/// Between two looks whether it has answered, which takes it a millisecond mostly.
const PAUSE: Duration = Duration::from_millis(2);

/// Unmounts.
pub fn run(args: &Umount) -> anyhow::Result<Exit> {
    if args.flush {
        shale_fuse::flush(&args.dir);
        return Ok(Exit::Done);
    }
    // Whoever asks a driver that took the question and does not answer holds the mount, killed or
    // not. So the mount is only detached, and gone when the driver goes on or ends.
    let lazy = args.lazy || !flush(&args.dir);
    shale_fuse::umount(&args.dir, lazy)?;
    Ok(Exit::Done)
}

/// Has the driver write what it has to. Where that fails, unmounting goes on without it; false if
/// the process that asks cannot be ended.
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

/// Whether a process ends in time.
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
