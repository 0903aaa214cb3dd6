//! What is packed: directory trees, archives of other formats and images; which of their entries,
//! below which prefix, with which metadata.

mod described; // what the caller names
mod adjust; // other metadata
mod chmod; // changes of permissions
mod pseudo; // entries and changes of a pseudo file
mod caches; // what lies in directories of caches
mod git; // what `.gitignore` files leave out
mod join; // several sources as one
pub(crate) mod choose; // which entries are taken
mod follow; // links as what they lead to
mod pipe; // what comes through a pipe
mod image; // an image of ShaleFS as a source
mod copied; // a tree whose contents are copied as they are stored
mod single; // a file that is no archive
pub(crate) mod open; // all of it as one source

pub use adjust::{Adjust, IdRange};
pub use chmod::Chmod;
pub use choose::{Choose, Decision, Listed};
pub use described::{Input, InputKind};
pub use pseudo::Pseudo;

pub(crate) use copied::{added, copied};
pub(crate) use image::held;
pub(crate) use join::{Claims, Joined, Part, join};
pub(crate) use open::without_empty;
