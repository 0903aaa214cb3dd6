//! ISO 9660 images, in: Rock Ridge, Joliet, or neither; and out: both.

mod date; // dates of directory records and of Rock Ridge
mod record; // one directory record
mod rock_ridge; // what Rock Ridge adds to a record
mod volume; // the descriptors at the beginning
mod source; // an image as a source
mod encode; // structures of an image that is written
mod write; // a tree as an image

pub(crate) use source::IsoSource;
pub use write::IsoWriter;
