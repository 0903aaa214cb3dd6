//! The life of one mount, shared by the serving thread, the owner and those who unmount.
//!
//! Before every attempt to unmount, the kernel is asked whether our mount is still the topmost one
//! at our path, so that no file system of somebody else is unmounted.

use super::way::Way;
use crate::error::MountError;
use crate::mount_table::{self, MountId};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One mount, from the moment the kernel has it until its end.
pub(crate) struct Life {
    mount_point: PathBuf,
    /// Distinguishes our mount from another at the same path; `None` if the kernel could not tell,
    /// and for a mount in another namespace.
    id: Option<MountId>,
    way: Way,
    ended: Mutex<Option<io::Result<()>>>,
    ended_signal: Condvar,
}

impl Life {
    /// Begins the life of the mount that was just mounted at `mount_point`.
    pub(crate) fn begin(mount_point: PathBuf, way: Way) -> Self {
        Self {
            id: (way != Way::Elsewhere).then(|| MountId::of(&mount_point).ok()).flatten(),
            mount_point,
            way,
            ended: Mutex::new(None),
            ended_signal: Condvar::new(),
        }
    }

    pub(crate) fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    pub(crate) fn id(&self) -> Option<MountId> {
        self.id
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended().is_some()
    }

    /// Records the end and wakes all who wait for it.
    pub(crate) fn end(&self, result: io::Result<()>) {
        *self.ended() = Some(result);
        self.ended_signal.notify_all();
    }

    /// Takes the result of a mount that has ended; later calls return `Ok`.
    ///
    /// # Errors
    /// The connection to the kernel broke.
    pub(super) fn take_result(&self) -> io::Result<()> {
        self.ended().as_mut().map_or(Ok(()), |result| std::mem::replace(result, Ok(())))
    }

    /// Waits for the end, at most for `patience`; returns whether the mount has ended.
    pub(crate) fn wait_for_end(&self, patience: Duration) -> bool {
        let guard = self.ended();
        let waited = self.ended_signal.wait_timeout_while(guard, patience, |ended| ended.is_none());
        let (guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        guard.is_some()
    }

    /// Unmounts. Does nothing if the mount is gone already.
    ///
    /// # Errors
    /// [`MountError::Covered`] if another file system is mounted over it; those of
    /// [`Way::unmount`].
    pub(crate) fn unmount(&self, lazy: bool) -> Result<(), MountError> {
        if self.has_ended() {
            return Ok(());
        }
        match self.position() {
            Position::Gone => Ok(()),
            Position::Covered => Err(MountError::Covered(self.mount_point.clone())),
            Position::Top => match self.way.unmount(&self.mount_point, lazy) {
                // Another process was faster.
                Err(_) if self.position() == Position::Gone => Ok(()),
                other => other,
            },
        }
    }

    /// Returns whether the mount is no longer in the tree of mounts.
    pub(crate) fn is_gone(&self) -> bool {
        self.position() == Position::Gone
    }

    fn ended(&self) -> MutexGuard<'_, Option<io::Result<()>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn position(&self) -> Position {
        let Some(ours) = self.id else {
            return Position::Top;
        };
        let top = MountId::of(&self.mount_point).ok();
        if top == Some(ours) {
            return Position::Top;
        }
        // Covered if our device is mounted below another one. If the topmost mount has our device
        // number but another id, the kernel has reused the number and our mount is gone.
        let device = ours.device();
        let below = mount_table::all(&self.mount_point).is_ok_and(|stack| {
            stack.iter().any(|entry| entry.is_shale() && entry.device == device)
        });
        match top {
            Some(top) if below && top.device() != device => Position::Covered,
            _ => Position::Gone,
        }
    }
}

/// Where a mount is in the tree of mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// The topmost mount at its mount point.
    Top,
    /// Below another mount at the same mount point.
    Covered,
    /// Not there any more.
    Gone,
}
