//! What a build finds there already: the image that it continues, or what it takes over from
//! others.

pub(crate) mod image; // the image, as the writer sees it
pub(crate) mod frames; // its frames: lengths, depths and references
pub(crate) mod index; // which of them new contents resemble
pub(crate) mod learn; // what its frames share with new contents
pub(crate) mod generation; // which of those before it a new page or root builds on
pub(crate) mod pages; // its table pages
pub(crate) mod copies; // frames, contents and trees of other images
