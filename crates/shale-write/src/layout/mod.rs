//! The order in which contents go into the stream.

pub(crate) mod similarity; // which contents are near-copies of others
pub(crate) mod order; // the order that a level or the caller asks for
pub(crate) mod buffered; // bytes in memory and in a temporary file
pub(crate) mod reorder_buffer; // contents that wait until the order is known
