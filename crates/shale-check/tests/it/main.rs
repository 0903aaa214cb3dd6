//! Tests of the crate through its public interface, in one program.

#[path = "../../../shale-read/tests/it/assemble/mod.rs"]
mod assemble; // images put together row by row, honest and hostile
mod check; // what is wrong, where, and what to do next
mod disagreement; // tables held against each other
mod parity; // what parity covers comes back
mod sign; // signatures and keys
