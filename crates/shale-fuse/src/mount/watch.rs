//! A process that takes the mount away should the driver be killed.
//!
//! It is a shell that waits for its standard input to end. The driver holds the other end of that
//! pipe, so the end comes with the driver's death, whatever kills it; an orderly end is announced
//! by a line before it. `fusermount3` can do this too, but not where the mount is hidden from
//! root, which is how an ordinary user's mount is by default.

use super::Way;
use crate::error::MountError;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The watching process.
pub(super) struct Watch {
    line: ChildStdin,
    child: Child,
}

impl Watch {
    /// Watches over what is mounted at `mount_point`, an absolute path.
    pub(super) fn start(mount_point: &Path, way: Way) -> Result<Self, MountError> {
        let script = match way {
            Way::Direct => "trap '' HUP INT TERM; read -r word || exec umount -l -- \"$0\"",
            Way::Helper => "trap '' HUP INT TERM; read -r word || exec fusermount3 -u -z -- \"$0\"",
        };
        let failed =
            |error| MountError::system("start a process that unmounts automatically", error);
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(mount_point)
            .current_dir("/")
            // What the terminal sends to the driver's group is not for this one.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        match child.stdin.take() {
            Some(line) => Ok(Self { line, child }),
            None => Err(failed(std::io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Calls the watch off and waits for its end.
    pub(super) fn release(self) {
        let Self { mut line, mut child } = self;
        let _ = line.write_all(b"done\n");
        drop(line);
        let _ = child.wait();
    }
}
