//! Threads, and memory that overflows into temporary files.

pub(crate) mod spill; // a memory budget and a file for the rest
pub(crate) mod scratch; // encoders and buffers of one thread
pub(crate) mod stages; // processor time by stage
pub(crate) mod pool; // threads that take tasks from a queue
pub(crate) mod build; // what all stages share
pub(crate) mod in_order; // results of many tasks, one after the other
