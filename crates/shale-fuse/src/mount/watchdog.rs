//! A process that acts if the driver is killed.
//!
//! It is a shell that waits for its standard input to end. A thread of the driver holds the other
//! end of that pipe, so the input ends when the driver dies, whatever the cause. A driver that ends
//! in order writes a line first, and the shell then does nothing. `fusermount3` offers to unmount
//! as well, but it fails if the mount is hidden from root, which is the default for an ordinary
//! user's mount.
//!
//! A killed process keeps its files open as long as one of its threads waits in the kernel. A
//! thread that puts a file into the page cache may wait for a page that a reader has locked, and
//! the reader for an answer, which nobody gives any more. So the thread that holds the pipe has
//! a table of open files of its own, which goes with that thread. The shell then aborts the
//! connection, which ends all reads and with them that wait.

use super::own_files;
use super::way::Way;
use crate::error::MountError;
use crate::mount_table;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Waits for the end of the driver. `$0` is the mount point, `$1` the number of the connection.
const WAIT: &str = "trap '' HUP INT TERM; read -r word && exit; ";
/// Ends all requests. The owner of the mount may do so, if the system shows its connections.
const ABORT: &str = "echo 1 > \"/sys/fs/fuse/connections/$1/abort\"; ";
/// Ends all requests, and detaches the mount.
const UNMOUNT: &str = "exec umount -f -l -- \"$0\"";
/// Detaches the mount.
const UNMOUNT_AS_USER: &str = "exec fusermount3 -u -z -- \"$0\"";
/// Ends all requests where the system does not show its connections, if a thread of the driver `$3`
/// still waits in the kernel. Aborting takes an attempt to unmount, so it must be our mount that is
/// the topmost one. `$2` is the mount point as the list of mounts spells it.
const FORCE: &str = "\
    [ -e \"/sys/fs/fuse/connections/$1/abort\" ] && exit; sleep 1; \
    count=0; for thread in \"/proc/$3/task\"/*; do count=$((count + 1)); done; \
    [ $count -gt 1 ] || exit; \
    while read -r id parent device root point rest; do \
      if [ \"$point\" = \"$2\" ]; then top=$device; fi; \
    done < /proc/self/mountinfo; \
    [ \"$top\" = \"0:$1\" ] && exec umount -f -- \"$0\"";

/// What the process does if the driver is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Unmounts.
    Unmount,
    /// Ends the requests that nobody will answer. The mount stays, and reports that its driver is
    /// dead.
    Abort,
}

/// The process that watches the driver.
pub(crate) struct Watchdog {
    release: SyncSender<()>,
    holder: JoinHandle<()>,
    /// Whether it ends the reads of a killed driver, also if a thread of that one waits for a page.
    is_sure: bool,
}

impl Watchdog {
    /// Starts a process that watches over the mount at `mount_point`, an absolute path, with the
    /// minor device number `connection`. Returns none for a mount that the kernel unmounts by
    /// itself.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn start(
        mount_point: &Path,
        connection: u32,
        way: Way,
        duty: Duty,
    ) -> Result<Option<Self>, MountError> {
        let script = match (way, duty) {
            (Way::Elsewhere, _) => return Ok(None),
            (Way::Direct, Duty::Unmount) => [WAIT, ABORT, UNMOUNT].concat(),
            (Way::Helper, Duty::Unmount) => [WAIT, ABORT, UNMOUNT_AS_USER].concat(),
            (Way::Direct, Duty::Abort) => [WAIT, ABORT, FORCE].concat(),
            (Way::Helper, Duty::Abort) => [WAIT, ABORT].concat(),
        };
        let failed =
            |error| MountError::system("start a process that unmounts automatically", error);
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .arg(mount_point)
            .arg(connection.to_string())
            .arg(mount_table::escaped(mount_point))
            .arg(std::process::id().to_string())
            .current_dir("/")
            // The terminal's signals to the driver's group must not reach this process.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let (release, released) = sync_channel(1);
        let (tell, started) = sync_channel(1);
        let holder = std::thread::Builder::new()
            .name("shale-watch".into())
            .spawn(move || hold(command, &tell, &released))
            .map_err(failed)?;
        // A thread that panicked tells nothing.
        let is_alone = started.recv().unwrap_or(Err(io::ErrorKind::BrokenPipe.into()));
        let can_abort = way == Way::Direct
            || Path::new(&format!("/sys/fs/fuse/connections/{connection}/abort")).exists();
        Ok(Some(Self { release, holder, is_sure: is_alone.map_err(failed)? && can_abort }))
    }

    /// Returns whether the process ends all reads if the driver is killed, also if a thread of the
    /// driver waits for a page.
    pub(crate) fn is_sure(&self) -> bool {
        self.is_sure
    }

    /// Ends the process, so that it does nothing, and waits for it.
    pub(crate) fn release(self) {
        let _ = self.release.send(());
        let _ = self.holder.join();
    }
}

/// Starts the process and holds its pipe until it is released. If the [`Watchdog`] was dropped
/// instead, the process does its duty.
fn hold(mut command: Command, tell: &SyncSender<io::Result<bool>>, released: &Receiver<()>) {
    let is_alone = own_files::take().is_ok();
    let (mut child, mut line): (Child, _) = match command.spawn() {
        Ok(mut child) => match child.stdin.take() {
            Some(line) => (child, line),
            None => return,
        },
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
    let _ = tell.send(Ok(is_alone));
    if released.recv().is_ok() {
        let _ = line.write_all(b"done\n");
    }
    drop(line);
    let _ = child.wait();
}
