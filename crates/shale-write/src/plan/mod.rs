//! What the caller decides and is told, and what follows from it for the whole build.

pub(crate) mod order; // the orders in which contents can be stored
pub mod level; // the compression levels
pub(crate) mod options; // what the caller decides
pub(crate) mod error; // errors that end a build
pub mod digest; // digests of contents and of the tree, as a reader can compute them
pub(crate) mod report; // counters, problems and digests of a finished build
pub mod rules; // what files at some paths get instead
pub(crate) mod codecs; // which codec a category of frames gets
pub(crate) mod classes; // frames of the level, and those that rules ask for
pub(crate) mod budget; // memory and threads, decided once
