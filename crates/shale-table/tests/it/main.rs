//! Tests of the crate through its public interface, in one program.

mod common; // a page store in memory, and tables to put there
mod pages; // single pages
mod shifts; // pages that tables share although their rows moved
mod tables; // tables over many pages and levels
