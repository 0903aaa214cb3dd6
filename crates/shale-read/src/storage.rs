//! The lowest layer: where the bytes of an image come from, and its fixed structures.
//!
//! It knows sources, sections and table pages, but not what tables mean.

pub(crate) mod source; // positioned, thread-safe reads of anything with a length
pub(crate) mod joined; // pieces of several sources as one
pub(crate) mod faulty; // a source that fails or lies, for tests of any crate
pub(crate) mod stored; // the bytes of one image: bounded and counted
pub(crate) mod decoders; // decoder contexts, kept for the next decode
pub(crate) mod sections; // section headers, trailer and root: read and verified
pub(crate) mod open; // where in a source an image begins, and its newest trailer
pub(crate) mod plan; // reads of a source that is far away, said beforehand
pub(crate) mod pages; // table pages: fetched, verified, cached
pub(crate) mod tables; // tables as such, page by page: for check and dump
