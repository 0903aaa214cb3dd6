//! How to mount: who may see it, what it may do, and how the driver runs.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Receives one line for each failed request worth telling, without a line end.
pub type LineSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Is told the inode of every read of a file before the read is answered, by many threads at once;
/// it must not block and must not read from the mount.
pub type ReadWatch = Arc<dyn Fn(u64) + Send + Sync>;

/// Is asked to finish what was begun about reads so far, within a second or so.
pub type Flush = Arc<dyn Fn() + Send + Sync>;

/// Options of a mount. The default is what is safe for any user: read-only, no devices, no
/// setuid programs, visible to the mounting user alone.
#[derive(Clone)]
pub struct Options {
    /// What `mount` and `findmnt` show as the source: the image's path.
    pub source_name: OsString,
    /// Other users may see the mount; permissions are checked by the kernel. An ordinary user
    /// needs `user_allow_other` in /etc/fuse.conf for it.
    pub allow_other: bool,
    /// The mount disappears even when the driver is killed: a small process watches over it.
    pub auto_unmount: bool,
    /// Device nodes in the image are devices. Root only.
    pub allow_devices: bool,
    /// Setuid and setgid programs and file capabilities in the image are honoured. Root only.
    pub allow_setuid: bool,
    /// Programs in the image may not be run.
    pub forbid_exec: bool,
    /// Show every inode as owned by this user.
    pub uid: Option<u32>,
    /// Show every inode as owned by this group.
    pub gid: Option<u32>,
    /// Threads that answer requests, which are also the threads that decode; 0: as many as there
    /// are processors, at least two.
    pub thread_count: usize,
    /// Memory is given back after this long without a request, and again after each such time.
    pub idle_after: Duration,
    /// The kernel view goes through a loop device, as it has to before Linux 6.12. Nothing else
    /// does.
    pub loop_device: bool,
    /// Where lines about failed requests go; standard error by default.
    pub log: LineSink,
    /// Who wants to know what is read. Not in the kernel view, where reads are of a virtual image
    /// and go ahead from one file into the next.
    pub on_read: Option<ReadWatch>,
    /// Called when [`flush`](crate::flush()) asks, as `shale umount` does before the mount goes.
    pub on_flush: Option<Flush>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            source_name: OsString::from("shale"),
            allow_other: false,
            auto_unmount: false,
            allow_devices: false,
            allow_setuid: false,
            forbid_exec: false,
            uid: None,
            gid: None,
            thread_count: 0,
            idle_after: Duration::from_secs(30),
            loop_device: false,
            log: Arc::new(|line| eprintln!("{line}")),
            on_read: None,
            on_flush: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("source_name", &self.source_name)
            .field("allow_other", &self.allow_other)
            .field("auto_unmount", &self.auto_unmount)
            .field("allow_devices", &self.allow_devices)
            .field("allow_setuid", &self.allow_setuid)
            .field("forbid_exec", &self.forbid_exec)
            .field("uid", &self.uid)
            .field("gid", &self.gid)
            .field("thread_count", &self.thread_count)
            .field("idle_after", &self.idle_after)
            .field("loop_device", &self.loop_device)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// The number of threads that [`thread_count`](Self::thread_count) asks for.
    pub(crate) fn threads(&self) -> usize {
        /// More threads than this only fight over the request queue.
        const THREAD_COUNT_MAX: usize = 256;
        let wanted = match self.thread_count {
            0 => std::thread::available_parallelism().map_or(2, |n| n.get()).max(2),
            n => n,
        };
        wanted.min(THREAD_COUNT_MAX)
    }
}
