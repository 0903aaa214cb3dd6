//! Runs the real binary and checks what it prints, as text and as JSON, which files it leaves, and
//! its exit code.
//!
//! The tests of the workspace check that contents and attributes survive a round trip.

mod bad; // invalid images, outputs and arguments
mod live; // trees that change while they are packed
mod choose; // what is packed by metadata, marks and caches
mod rules; // files that are packed in another way
mod labels; // SELinux labels
mod sources; // several sources that claim one path
mod mtree; // mtree lists as sources
mod extract; // policies, patterns, damage, existing files and links
mod listing; // ls, tree, stat, cat, info, dump, check
mod browse; // the browser, in a terminal
mod report_page; // the page of `shale report`
mod query; // find, diff, grep and snapshots
mod thin; // thin images, deltas and patches
mod split; // images in parts
mod protect; // parity, signatures, comparisons and checksums
mod order; // order of contents in the image
mod hot_log; // the list of first reads that a mount writes
mod mount; // background, foreground, other program names
mod mounts; // lists of mounts, several at once, made mount points, logs
mod block_device; // padding, loop devices, types of mount(8)
mod signal; // ignored signals stay ignored
mod threads; // limits on threads
mod serve; // images over HTTP and WebDAV
mod encrypt; // encrypted images
mod remote; // images that are elsewhere
mod install; // files of `make install`
mod bundle; // files that run, and what they leave
mod events; // waiting for mounts, files and processes
mod web; // web servers, good ones and others
mod stage; // a temporary directory with a tree and its image
