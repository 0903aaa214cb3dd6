//! What requests do to an object, as far as who asks must be allowed to.

/// What requests do to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}
