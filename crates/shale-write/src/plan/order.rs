//! The orders in which contents can be stored.

use std::fmt;

/// The order in which contents are stored, unless a list names some of them first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Near-copies next to each other; all other contents in the order of the source.
    Similarity,
    /// The order of the source: by path for a directory, that of the archive for an archive.
    Source,
    /// By the first path at which a content is found.
    Path,
    /// By that path reversed, so that files with the same name and type are neighbours.
    ReversePath,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Similarity => "similarity",
            Order::Source => "none",
            Order::Path => "path",
            Order::ReversePath => "revpath",
        })
    }
}
