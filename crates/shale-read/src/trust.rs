//! Trust beyond checksums: the identity of an image, and parity that repairs it.

pub(crate) mod merkle; // the Merkle tree, and a source verified against it
pub mod parity; // finding parity, and restoring lost leaves from it
pub mod salvage; // what is left of an image without superblock, trailer or root
pub(crate) mod heal; // a source that repairs damage while it is read
