//! Memory given back while nobody asks.
//!
//! A mount may stay for months and be used for minutes. One thread looks now and then whether any
//! request has come; after a while without one the view is told to rest, once until the next.

use super::Life;
use crate::driver::Driver;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Watches over a mount until it ends.
pub(super) fn watch(life: &Arc<Life>, driver: &Arc<Driver>, after: Duration) -> io::Result<()> {
    let (life, driver) = (Arc::clone(life), Arc::clone(driver));
    let watch = move || {
        // What the mount itself has caused is nothing that has to be given back.
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
