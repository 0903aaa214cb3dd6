//! Longer read-ahead. The kernel caps a driver's wish at its own default of 128 KiB; only writing
//! to sysfs, as root, raises it, and with it the longest read that sequential readers cause.

use std::path::PathBuf;

/// Read-ahead wanted, in KiB: the longest read the kernel grants.
const WANTED_KIB: u64 = 1024;

/// Raises the read-ahead of the mounted file system `device`; returns what is in force, in bytes,
/// or `None` where that cannot be told. Does nothing, quietly, for who may not.
pub(super) fn raise(device: (u32, u32)) -> Option<u64> {
    let path = PathBuf::from(format!("/sys/class/bdi/{}:{}/read_ahead_kb", device.0, device.1));
    let _ = std::fs::write(&path, WANTED_KIB.to_string());
    let kib: u64 = std::fs::read_to_string(&path).ok()?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
