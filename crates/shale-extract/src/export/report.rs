//! What came of an export.

/// What an export did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ExportReport {
    /// Entries written, including hard links.
    pub entries: u64,
    /// Bytes of contents, holes included.
    pub file_bytes: u64,
    /// Entries, or parts of their metadata, that the format cannot hold: path and what is lost. At
    /// most a thousand.
    pub left_out: Vec<(Vec<u8>, String)>,
    /// The number of all of these.
    pub left_out_count: u64,
    /// Entries whose modification time lost a fraction of a second, because the format cannot store
    /// it. They do not count as left out.
    pub rounded_count: u64,
}
