//! What a driver gives up before it reads the first byte of an image.
//!
//! An image may be made to harm, and a driver may run as root for weeks. What it needs of root is
//! to mount, to unmount, and to reach files whoever owns them; every other capability is dropped
//! for good, and nothing that it starts can gain any. What cannot be given up is said, never fatal.
//!
//! Landlock would take away files as well, but forbids whoever is under it to unmount, which a
//! driver owes; so it is not used.

use rustix::thread::{CapabilitySet, CapabilitySets};

/// What mounting, unmounting, and files of others need.
const NEEDED: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH);

/// Gives up what a driver does not need, for this thread and all that are made by it later: called
/// before there are any others. Says what was done and what not, one line each.
pub fn confine() -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return vec![
            "privileges: those of the user; programs it starts may gain more, as fusermount3 must \
             to unmount"
                .to_owned(),
        ];
    }
    let mut lines = Vec::new();
    lines.push(match rustix::thread::set_no_new_privs(true) {
        Ok(()) => "privileges: nothing it starts can gain any".to_owned(),
        Err(error) => format!("privileges: programs it starts may gain more: {error}"),
    });
    lines.push(match drop_capabilities() {
        Ok(kept) => format!("capabilities: {}", names(kept)),
        Err(error) => format!("capabilities: all, as none could be dropped: {error}"),
    });
    lines
}

fn drop_capabilities() -> rustix::io::Result<CapabilitySet> {
    let now = rustix::thread::capabilities(None)?;
    // The bounding set is what an executed program of root gets; it goes first, as that needs a
    // capability. A kernel does not know all that have a name here.
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
