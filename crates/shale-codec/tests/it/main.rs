//! Tests of the crate through its public interface, in one program.

mod hostile; // stored bytes that are damaged, cut or invented
mod partial; // frames decoded up to some place, and further later
mod round_trip; // what goes in comes out
