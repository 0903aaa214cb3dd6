//! Objects that are elsewhere: on web servers and in object stores, read at any offset.
//!
//! An [`Object`] is bytes with a length, read in ranges over HTTP. It asks for ranges together
//! where it can, tries again where that helps, gives up where it does not, and never returns bytes
//! of another state of the object than the one that was opened. What arrived can be kept on disk.
//! A [`Destination`] is an object that is written: complete, or not at all.
//!
//! This crate knows nothing of images. It is the only one that speaks to a network.

mod error; // what went wrong elsewhere, and what to do
mod location; // URLs: which object where
mod options; // time limits, retries, credentials, the cache
mod counters; // requests, round trips, bytes
mod text; // percent-encoding, dates and hexadecimal digits
mod http; // one request and its answer
mod credentials; // who asks: requests signed for each kind of store
mod fetch; // a range, with retries, resumed where it broke off
mod held; // bytes that arrived or are on their way
mod neighbourhood; // short reads near each other
mod cache; // blocks on disk, shared by processes
mod object; // an open object
mod upload; // an object as a whole, written

pub use cache::{Cache, CacheEntry};
pub use counters::CounterSnapshot;
pub use error::{Error, Reason};
pub use location::{Location, ObjectUrl, Scheme};
pub use object::Object;
pub use options::{CacheOptions, Options};
pub use upload::{Contents, Destination, Replace, State, Watch};
