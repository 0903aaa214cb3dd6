//! ISO 9660 images, in: Rock Ridge, Joliet, or neither.

mod date; // dates of directory records and of Rock Ridge
mod record; // one directory record
mod rock_ridge; // what Rock Ridge adds to a record
mod volume; // the descriptors at the beginning
mod source; // an image as a source

pub(crate) use source::IsoSource;
