//! The limits of tables and pages, each with its reason.
//!
//! They hold for what the builder writes and for what a page may claim. [`crate::Page::parse`] and
//! [`crate::Table::new`] refuse anything beyond them, so no number of an image sizes an allocation
//! or a loop that these constants do not bound.

/// Longest plain page, in bytes. A page is held whole in memory, and one row may carry
/// [`ROW_BYTES_MAX`]; 4 MiB leaves room for such a row and stays far below any cache budget.
pub const PAGE_PLAIN_LEN_MAX: usize = 4 << 20;

/// Most rows in one page. Row numbers inside a page fit 16 bits plus one, which keeps every
/// per-row structure of a page narrow, and bounds what one page can make a scan do.
pub const PAGE_ROWS_MAX: usize = 65_536;

/// Most levels of a table: index levels and the data pages together. With 512 references an index
/// page and 4096 rows a page, 6 levels already hold 2^57 rows; more can only be an attack.
pub const LEVELS_MAX: u8 = 8;

/// Most columns of a schema. Bounds what parsing one page costs.
pub const COLUMNS_MAX: usize = 32;

/// Longest byte string in a column, in bytes. Linux ends names at 255, link targets at 4096 and
/// extended attribute values at 65,536; the rest is room for what other systems allow.
pub const VALUE_LEN_MAX: usize = 1 << 20;

/// Most bytes that the byte strings of one row may have together. With [`PAGE_HELD_MAX`] it makes
/// sure that a page fits [`PAGE_PLAIN_LEN_MAX`], although it ends only after it is full.
pub const ROW_BYTES_MAX: usize = 2 << 20;

/// Most bytes of byte strings that a builder can be set to collect before it ends a page.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// A page with this many bytes is ended, where its strings count with their bytes and each value
/// with eight. Room for the usual 16,384 rows of the widest table.
pub const PAGE_HELD_MAX: usize = 15 << 17;

const _: () = assert!(ROW_BYTES_MAX + PAGE_HELD_MAX < PAGE_PLAIN_LEN_MAX);
