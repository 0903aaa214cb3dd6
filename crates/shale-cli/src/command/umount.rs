//! `shale umount`.
//!
//! Before the mount goes its driver is asked to write what it has not written yet, such as the end
//! of a list of first reads. A driver may be stuck, and who waits for it holds the mount; so
//! another process asks, which is killed if it takes long.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::args::Umount;
use crate::exit::Exit;

/// How long a driver may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks whether it has answered, which takes it a millisecond mostly.
const PAUSE: Duration = Duration::from_millis(2);

/// Unmounts.
pub fn run(args: &Umount) -> anyhow::Result<Exit> {
    if args.flush {
        shale_fuse::flush(&args.dir);
        return Ok(Exit::Done);
    }
    flush(&args.dir);
    shale_fuse::umount(&args.dir, args.lazy)?;
    Ok(Exit::Done)
}

/// Has the driver write what it has to. Where that fails, unmounting goes on without it.
fn flush(dir: &Path) {
    let mut command = Command::new("/proc/self/exe");
    command.args(["umount", "--flush", "--"]).arg(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return };
    let end = Instant::now() + PATIENCE;
    while let Ok(None) = child.try_wait() {
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(PAUSE);
    }
}
