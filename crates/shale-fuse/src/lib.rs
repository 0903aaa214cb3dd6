//! The kernel's view of a ShaleFS image: the FUSE driver, mounting and unmounting.
//!
//! [`mount`] serves one [`View`] (a snapshot of an image, or any other read-only tree) at a
//! directory and returns once the kernel has accepted the driver; [`Mounted`] then waits for the
//! end or brings it about. The number of requests is the cost of a FUSE file system, so everything
//! here is arranged to be asked once: entries, attributes, listings, links and pages stay with the
//! kernel for ever, and files and directories are opened without a request.
//!
//! This crate never sees image bytes and installs no signal handler; it does not fork and does
//! not print: errors of single requests go to the line sink in [`Options`].

/// What the driver serves: a read-only tree.
pub mod view;
/// A snapshot of an image as a view.
mod tree;
/// A directory of a view as the root of another.
mod subtree;
/// Why mounting, serving or unmounting failed, and what to do about it.
pub mod error;
/// What a driver gives up before it reads an image.
mod confine;
/// How to mount.
pub mod options;
/// Rate-limited lines about failed requests.
mod log;
/// Counts and latencies per operation.
pub mod statistics;
/// The counters as monitoring programs read them.
mod prometheus;
/// Requests answered from a view, whatever carries them.
mod driver;
/// Carriers of requests between kernel and driver.
mod transport;
/// Mounting, and the life of a mount.
mod mount;
/// The kernel's EROFS over a virtual image.
mod kernel_view;
/// Unmounting by path.
mod unmount;

pub use confine::confine;
pub use error::MountError;
pub use kernel_view::{KernelView, suits_kernel_view};
pub use mount::{Mounted, StatisticsSource, Unmounter, mount};
pub use options::{Flush, LineSink, Options, ReadWatch};
pub use prometheus::prometheus;
pub use statistics::{Snapshot as StatisticsSnapshot, read_statistics};
pub use subtree::Subtree;
pub use transport::Negotiated;
pub use unmount::{flush, umount};
pub use view::{View, ViewError};
