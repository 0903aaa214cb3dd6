//! The kernel's view of a ShaleFS image: the FUSE driver, mounting and unmounting.
//!
//! [`mount`] serves one [`View`] (a snapshot of an image, or any other read-only tree) at a
//! directory. It returns once the kernel has accepted the driver. [`Mounted`] then waits for the
//! end of the mount or unmounts it.
//!
//! The cost of a FUSE file system is its number of requests, so the kernel is told to ask each
//! question once: it keeps entries, attributes, listings, links and pages for as long as it has
//! memory for them, and opens files and directories without a request.
//!
//! This crate never sees image bytes. It installs no signal handler, does not fork and does not
//! print: errors of single requests go to the line sink in [`Options`].

/// What the driver serves: a read-only tree.
pub mod view;
/// A snapshot of an image as a view.
mod tree;
/// A directory of a view as the root of another view.
mod subtree;
/// All snapshots of an image as one view.
mod snapshots;
/// Several views on top of each other.
mod union;
/// Errors of mounting, serving and unmounting.
mod error;
/// Options of a mount.
mod options;
/// Drops the privileges that a driver does not need.
mod confine;
/// Rate-limited lines about failed requests.
mod log;
/// Counts and latencies per operation.
pub mod statistics;
/// What the driver remembers of listings.
mod memo;
/// Gives small files to the kernel before it asks for them.
mod push;
/// Answers requests from a view, whatever carries them.
mod driver;
/// Carries requests between kernel and driver.
mod transport;
/// The kernel's list of mounts.
mod mount_table;
/// Mounting over FUSE, and the life of a mount.
mod mount;
/// The kernel's EROFS over a virtual image.
mod kernel_view;
/// Unmounting by path.
mod unmount;
/// Questions to the driver of a mount, by path.
mod query;
/// The counters as monitoring programs read them.
mod prometheus;

pub use confine::confine;
pub use error::MountError;
pub use kernel_view::{KernelView, suits_kernel_view};
pub use mount::{Attached, Mounted, StatisticsSource, Unmounter, Way, attach, mount, serve};
pub use options::{Flush, LineSink, Options, ReadWatch};
pub use prometheus::prometheus;
pub use query::{MountedImage, flush, mounts, read_statistics};
pub use snapshots::{Reopen, Snapshots};
pub use statistics::Snapshot as StatisticsSnapshot;
pub use subtree::Subtree;
pub use transport::Negotiated;
pub use union::Union;
pub use unmount::umount;
pub use view::{View, ViewError};
