//! Handles of a mount that is being served.

use super::life::Life;
use crate::driver::Driver;
use crate::error::MountError;
use crate::statistics::Snapshot;
use crate::transport::Negotiated;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long dropping a [`Mounted`] waits for the serving threads.
const DROP_PATIENCE: Duration = Duration::from_secs(2);

/// A mount that is being served. Dropping it unmounts, lazily if it is in use.
pub struct Mounted {
    life: Arc<Life>,
    /// The kernel view, which is mounted over a file of this mount and is what users see.
    outer: Option<Arc<Life>>,
    driver: Arc<Driver>,
    negotiated: Negotiated,
    server: Option<JoinHandle<()>>,
    /// Unmounts the other of two mounts when one of them is gone.
    follower: Option<JoinHandle<()>>,
}

impl Mounted {
    pub(super) fn new(
        life: Arc<Life>,
        driver: Arc<Driver>,
        negotiated: Negotiated,
        server: JoinHandle<()>,
    ) -> Self {
        Self { life, outer: None, driver, negotiated, server: Some(server), follower: None }
    }

    /// Adds the kernel view that was mounted over a file of this mount; `summary` describes it.
    pub(crate) fn add_outer(&mut self, outer: Arc<Life>, summary: String) {
        self.negotiated.kernel_view = Some(summary);
        self.outer = Some(outer);
    }

    /// Adds the thread that waits for the end of either mount.
    pub(crate) fn add_follower(&mut self, follower: JoinHandle<()>) {
        self.follower = Some(follower);
    }

    /// The life of the FUSE mount.
    pub(crate) fn life(&self) -> &Arc<Life> {
        &self.life
    }

    /// Returns the mount point, absolute and without symlinks.
    pub fn mount_point(&self) -> &Path {
        self.outer.as_ref().unwrap_or(&self.life).mount_point()
    }

    /// Returns what kernel and driver agreed on; its `Display` is for `shale mount -v`.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Returns the present values of the counters.
    pub fn statistics(&self) -> Snapshot {
        self.driver.statistics.snapshot(self.driver.counters())
    }

    /// Returns a handle that reads the counters at any time, also after the end of the mount.
    pub fn statistics_source(&self) -> StatisticsSource {
        StatisticsSource {
            driver: Arc::clone(&self.driver),
            mount_point: self.mount_point().into(),
        }
    }

    /// Returns a handle for another thread, such as one that waits for signals.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter { life: Arc::clone(&self.life), outer: self.outer.clone() }
    }

    /// Waits until the mount is gone, whoever unmounts it.
    ///
    /// # Errors
    /// The connection to the kernel broke.
    pub fn wait(mut self) -> Result<(), MountError> {
        self.join()
    }

    /// Unmounts and waits for the end. See [`Unmounter::unmount`].
    ///
    /// # Errors
    /// Those of [`Unmounter::unmount`]; the mount then remains, and dropping `self` detaches it.
    pub fn unmount(&mut self, lazy: bool) -> Result<(), MountError> {
        self.unmounter().unmount(lazy)?;
        self.join()
    }

    pub(super) fn join(&mut self) -> Result<(), MountError> {
        if let Some(server) = self.server.take()
            && server.join().is_err()
        {
            let broken = io::Error::other("a serving thread failed (a bug)");
            self.life.end(Err(broken));
        }
        self.join_follower();
        self.life.take_result().map_err(MountError::Session)
    }

    /// Waits until the follower has removed the directory of the FUSE mount, which must have ended:
    /// a process that ends earlier leaves the directory behind.
    fn join_follower(&mut self) {
        if let Some(follower) = self.follower.take() {
            // If it panicked, the next kernel view removes the directory.
            let _ = follower.join();
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.server.is_some() {
            let _ = self.unmounter().unmount(true);
            // Files that other processes have open keep the threads busy; do not wait for those.
            if self.life.wait_for_end(DROP_PATIENCE) {
                self.join_follower();
            }
        }
    }
}

/// Reads the counters of one mount.
#[derive(Clone)]
pub struct StatisticsSource {
    driver: Arc<Driver>,
    mount_point: PathBuf,
}

impl StatisticsSource {
    /// Returns the present values of the counters.
    pub fn snapshot(&self) -> Snapshot {
        self.driver.statistics.snapshot(self.driver.counters())
    }

    /// Returns the mount point.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }
}

/// Unmounts a mount from another thread.
#[derive(Clone)]
pub struct Unmounter {
    life: Arc<Life>,
    outer: Option<Arc<Life>>,
}

impl Unmounter {
    /// Unmounts. Does nothing if the mount is gone already.
    ///
    /// With `lazy` the mount disappears from the tree at once and stays available to processes that
    /// have files open in it; [`Mounted::wait`] returns when the last file is closed.
    ///
    /// # Errors
    /// [`MountError::Busy`] if the mount is in use and `lazy` is false; [`MountError::Covered`] if
    /// another file system is mounted over it.
    pub fn unmount(&self, lazy: bool) -> Result<(), MountError> {
        let Some(outer) = &self.outer else {
            return self.life.unmount(lazy);
        };
        outer.unmount(lazy)?;
        // No user sees the inner mount; it goes as soon as nothing of it is open.
        self.life.unmount(true)
    }

    /// Returns whether the mount has ended.
    pub fn has_ended(&self) -> bool {
        self.life.has_ended()
    }

    /// Waits until the mount has ended, at most for `patience`; returns whether it has.
    pub fn wait_for_end(&self, patience: Duration) -> bool {
        self.life.wait_for_end(patience)
    }
}
