//! The compiled module of the Python package `shalefs`: reads images at the speed of the `shale`
//! command, and creates, extends, merges, checks and extracts them.
//!
//! It is `shalefs._native`, which only that package imports. The package has a reader in Python
//! for machines without this module; [`tree::Tree`] has the methods of that reader's trees, so
//! everything above them is the same code. The interpreter's lock is released while frames are
//! decoded and while images are built. No panic crosses into Python: pyo3 makes it an exception.
//!
//! This crate knows neither the bytes of an image nor the terminal.

mod failure; // errors as exceptions of Python
mod source; // where the bytes of an image come from
mod bytes; // bytes objects that are filled after they were made
mod bulk; // many files at once
mod tree; // an open image and its trees
mod work; // long work: progress, and the interrupt key
mod build; // create, append, cut, merge, check, extract

use pyo3::prelude::*;

/// The module.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::build::{append, check, create, cut, extract, merge};
    #[pymodule_export]
    use crate::bulk::Bulk;
    #[pymodule_export]
    use crate::source::Decrypted;
    #[pymodule_export]
    use crate::tree::{Image, Steps, Tree};
}
