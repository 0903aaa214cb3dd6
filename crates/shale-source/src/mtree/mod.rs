//! An mtree list as a source.

mod keywords; // what the words of a line say
mod mtree_source; // the list as a source

pub(crate) use mtree_source::{MtreeSource, is_list};
