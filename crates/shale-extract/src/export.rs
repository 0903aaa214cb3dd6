//! Exports an image to an archive of another format, as a stream.
//!
//! The tree is walked depth first, parents before their entries. Several threads decode frames
//! ahead, in the order in which their bytes are written, so each is decoded about once. Memory: the
//! frames in flight, the frame cache, and one path for each inode with names still to come. The
//! bytes of the archive depend only on the tree.
//!
//! What a format cannot hold is reported by name. Damage ends the export, because an archive cannot
//! say that a range is missing.

mod options; // what the caller decides, and which formats there are
mod report; // what came of it
mod decode_ahead; // frames decoded ahead
mod step; // what the walk hands to the writer
mod walk; // the tree, depth first
mod archive; // the walk into an archive
mod output; // where it goes

pub use archive::export_to_archive;
pub use options::{ExportFormat, ExportOptions};
pub use output::export;
pub use report::ExportReport;
