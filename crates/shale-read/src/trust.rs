//! What an image is trusted for beyond its sums: identity, and parity that repairs.

pub(crate) mod merkle; // the Merkle tree, and a source that vouches for what it gives
pub mod parity; // finding parity, and computing lost leaves again
pub mod salvage; // what is left where superblock, trailer or root is lost
pub(crate) mod heal; // a source that repairs what its reader finds damaged
