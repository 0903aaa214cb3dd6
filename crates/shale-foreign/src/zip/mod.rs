//! zip, in and out.

mod records; // signatures and kinds of extra fields
mod time; // times of MS-DOS and Windows
mod name; // names in their encodings
mod extra; // extra fields
mod directory; // the directory at the end of an archive
mod method; // compression methods
mod crypt; // encrypted entries
mod local; // the header in front of an entry's data
mod source; // an archive as a source
mod write; // an archive as an output

pub(crate) use directory::ends_like_one;
pub(crate) use name::from_code_page_437;
pub(crate) use records::MAGICS;
pub use source::ZipSource;
pub(crate) use time::{from_dos, from_windows, to_windows};
pub use write::ZipWriter;
