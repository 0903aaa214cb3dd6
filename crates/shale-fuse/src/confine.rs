//! Drops the privileges that a driver does not need, before it reads the first byte of an image.
//!
//! An image may be hostile, and a driver may run as root for weeks. It needs root to mount, to
//! unmount, and to read files whatever their owner. Every other capability is dropped for good, and
//! no program that the driver starts can gain one. A privilege that cannot be dropped is reported
//! and is not an error.
//!
//! Landlock would restrict file access as well, but a process under Landlock cannot unmount, which
//! a driver has to do; so it is not used.

use rustix::thread::{CapabilitySet, CapabilitySets};

/// The capabilities for mounting, unmounting and reading files of other users.
const NEEDED: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH);

/// Drops what a driver does not need, for this thread and all threads that it starts later; call it
/// before there are other threads. Returns one line for each thing that was dropped or kept.
pub fn confine() -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return vec![
            "privileges: those of the user; started programs may gain more, as fusermount3 has to \
             for unmounting"
                .to_owned(),
        ];
    }
    let mut lines = Vec::new();
    lines.push(match rustix::thread::set_no_new_privs(true) {
        Ok(()) => "privileges: started programs cannot gain any".to_owned(),
        Err(error) => format!("privileges: started programs may gain more: {error}"),
    });
    lines.push(match drop_capabilities() {
        Ok(kept) => format!("capabilities: {}", names(kept)),
        Err(error) => format!("capabilities: all, as none could be dropped: {error}"),
    });
    lines
}

fn drop_capabilities() -> rustix::io::Result<CapabilitySet> {
    let now = rustix::thread::capabilities(None)?;
    // The bounding set limits what programs that root executes can get. It is reduced first, since
    // reducing it needs a capability. A kernel may not know every capability that has a name here.
    for (_, capability) in CapabilitySet::all().difference(NEEDED).iter_names() {
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let kept = now.permitted.intersection(NEEDED);
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(kept)
}

fn names(set: CapabilitySet) -> String {
    let names: Vec<String> =
        set.iter_names().map(|(name, _)| format!("CAP_{name}").to_lowercase()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
