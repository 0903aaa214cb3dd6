//! Tests of the crate through its public interface, in one program.

mod common; // a tree in memory, and mounts that never outlive their test
mod semantics; // what the kernel asks and gets
mod requests; // what costs a request
mod push; // files that the kernel gets before it asks
mod life; // from mount to unmount, whatever ends it
mod union; // several trees as one
