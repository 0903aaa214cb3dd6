//! Longer read-ahead. The kernel limits the read-ahead of a driver to 128 KiB by default. Only root
//! can raise it, through sysfs; the reads that sequential readers cause grow with it.

use std::path::PathBuf;

/// Read-ahead to ask for, in KiB: the longest read that the kernel grants.
const WANTED_KIB: u64 = 1024;

/// Raises the read-ahead of the mounted file system `device`, if this process may. Returns the
/// read-ahead in force in bytes, or `None` if sysfs does not show it.
pub(crate) fn raise(device: (u32, u32)) -> Option<u64> {
    let path = PathBuf::from(format!("/sys/class/bdi/{}:{}/read_ahead_kb", device.0, device.1));
    let _ = std::fs::write(&path, WANTED_KIB.to_string());
    let kib: u64 = std::fs::read_to_string(&path).ok()?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
