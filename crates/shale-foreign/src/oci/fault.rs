//! Errors of this format.

use crate::error::ForeignError;

/// What errors call these images.
const FORMAT: &str = "container image";

/// An error of this format.
pub(super) fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}
