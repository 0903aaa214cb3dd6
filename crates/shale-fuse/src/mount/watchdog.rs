//! A process that unmounts if the driver is killed.
//!
//! It is a shell that waits for its standard input to end. The driver holds the other end of that
//! pipe, so the input ends when the driver dies, whatever the cause. A driver that ends in order
//! writes a line first, and the shell then unmounts nothing. `fusermount3` offers this as well, but
//! it fails if the mount is hidden from root, which is the default for an ordinary user's mount.

use super::way::Way;
use crate::error::MountError;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The process that watches the driver.
pub(crate) struct Watchdog {
    line: ChildStdin,
    child: Child,
}

impl Watchdog {
    /// Starts a process that watches over the mount at `mount_point`, an absolute path. Returns
    /// none for a mount that the kernel unmounts by itself.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn start(mount_point: &Path, way: Way) -> Result<Option<Self>, MountError> {
        let script = match way {
            Way::Elsewhere => return Ok(None),
            Way::Direct => "trap '' HUP INT TERM; read -r word || exec umount -l -- \"$0\"",
            Way::Helper => "trap '' HUP INT TERM; read -r word || exec fusermount3 -u -z -- \"$0\"",
        };
        let failed =
            |error| MountError::system("start a process that unmounts automatically", error);
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(mount_point)
            .current_dir("/")
            // The terminal's signals to the driver's group must not reach this process.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        match child.stdin.take() {
            Some(line) => Ok(Some(Self { line, child })),
            None => Err(failed(std::io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Ends the process, so that it unmounts nothing, and waits for it.
    pub(crate) fn release(self) {
        let Self { mut line, mut child } = self;
        let _ = line.write_all(b"done\n");
        drop(line);
        let _ = child.wait();
    }
}
