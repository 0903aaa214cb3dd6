//! Frees memory while a mount is idle.
//!
//! A mount may last for months and be used for minutes. A thread checks at intervals whether a
//! request has come. After an interval without one it tells the view to free its caches, once until
//! the next request.

use super::life::Life;
use crate::driver::Driver;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Starts the thread for a mount; it ends with the mount.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn watch(life: &Arc<Life>, driver: &Arc<Driver>, after: Duration) -> io::Result<()> {
    let (life, driver) = (Arc::clone(life), Arc::clone(driver));
    let watch = move || {
        // `seen` starts with a value that no count has.
        let (mut seen, mut rested) = (u64::MAX, 0);
        while !life.wait_for_end(after) {
            let now = driver.statistics.request_count();
            if now == seen && now != rested {
                driver.rest();
                rested = now;
            }
            seen = now;
        }
    };
    std::thread::Builder::new().name("shale-idle".into()).spawn(watch)?;
    Ok(())
}
