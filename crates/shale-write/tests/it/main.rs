//! Tests of the crate through its public interface, in one program.

mod common; // trees that are hard to keep, builds, and comparison with the real tree
mod changing; // files that change while they are read, and bytes that nothing points to
mod determinism; // same input, same bytes
mod manifest; // trees from manifests
mod round_trip; // trees packed and read back
mod trouble; // sources and outputs that misbehave
