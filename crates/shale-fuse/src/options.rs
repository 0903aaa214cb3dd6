//! Options of a mount: who may see it, what its files may do, and how the driver runs.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Receives one line, without a line end, for each failed request that is worth reporting.
pub type LineSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Receives the inode of every read of a file before the read is answered. It is called by many
/// threads at once, must not block and must not read from the mount.
pub type ReadWatch = Arc<dyn Fn(u64) + Send + Sync>;

/// Finishes, within about a second, what it writes about the reads so far.
pub type Flush = Arc<dyn Fn() + Send + Sync>;

/// Options of a mount. The default is safe for any user: no devices, no setuid programs, visible to
/// the mounting user alone. A mount is always read-only.
#[derive(Clone)]
pub struct Options {
    /// The source that `mount` and `findmnt` show: the path of the image.
    pub source_name: OsString,
    /// Other users may see the mount; the kernel checks permissions. An ordinary user needs
    /// `user_allow_other` in /etc/fuse.conf for it.
    pub allow_other: bool,
    /// The mount disappears even if the driver is killed: a small process watches the driver.
    pub auto_unmount: bool,
    /// Device nodes in the image work as devices. Root only.
    pub allow_devices: bool,
    /// Setuid and setgid programs and file capabilities in the image are honoured. Root only.
    pub allow_setuid: bool,
    /// Programs in the image cannot be run.
    pub forbid_exec: bool,
    /// Shows every inode as owned by this user.
    pub uid: Option<u32>,
    /// Shows every inode as owned by this group.
    pub gid: Option<u32>,
    /// Number of threads that answer requests and decode. 0 is the number of processors, but at
    /// least two.
    pub thread_count: usize,
    /// Caches are freed after this long without a request.
    pub idle_after: Duration,
    /// Files of at most this many bytes are put into the page cache before the kernel asks for
    /// them, if a program seems to read all files that it lists. 0, the default, disables it. Has
    /// no effect with one thread, with [`on_read`](Self::on_read), and in a kernel view.
    pub push_len_max: u64,
    /// Mounts the kernel view through a loop device, which Linux before 6.12 needs. Has no effect
    /// on a FUSE view.
    pub loop_device: bool,
    /// Receives lines about failed requests; the default writes them to standard error.
    pub log: LineSink,
    /// Called for every read of a file. Not possible in a kernel view, where reads are of a virtual
    /// image and read-ahead crosses from one file into the next.
    pub on_read: Option<ReadWatch>,
    /// Called when [`flush`](crate::query::flush) asks for it, as `shale umount` does before it
    /// unmounts.
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
            push_len_max: 0,
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
            .field("push_len_max", &self.push_len_max)
            .field("loop_device", &self.loop_device)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Returns the number of threads that [`thread_count`](Self::thread_count) asks for.
    pub(crate) fn threads(&self) -> usize {
        /// More threads than this only contend for the request queue.
        const THREAD_COUNT_MAX: usize = 256;
        let wanted = match self.thread_count {
            0 => std::thread::available_parallelism().map_or(2, |n| n.get()).max(2),
            n => n,
        };
        wanted.min(THREAD_COUNT_MAX)
    }
}
