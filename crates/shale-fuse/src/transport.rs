//! Carries requests between kernel and driver. The only carrier reads requests from `/dev/fuse`
//! through the crate `fuser`; nothing outside [`dev_fuse`] and [`convert`] knows that crate.

/// Opens `/dev/fuse`.
pub(crate) mod device;
/// What kernel and driver agreed on.
mod negotiated;
/// Converts the driver's types to those of `fuser`.
mod convert;
/// Requests over `/dev/fuse`.
mod threads;
pub(crate) mod dev_fuse;

pub use negotiated::Negotiated;
