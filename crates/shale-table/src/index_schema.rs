//! The two forms of index pages. How they are used is told in `index`.

use crate::{ColumnSpec, Schema};

/// The schema of index pages, of every table.
pub static INDEX_SCHEMA: Schema = Schema {
    name: "index",
    columns: &[
        // First row below.
        ColumnSpec::u64("first_row"),
        // How many data pages of the table come before.
        ColumnSpec::u64("first_page"),
        // Column 0 of the first row below if it is an integer, else 0.
        ColumnSpec::u64("first_key"),
        // The reference, field by field.
        ColumnSpec::u64("offset"),
        ColumnSpec::u64("checksum"),
        ColumnSpec::u64("stored_len"),
        ColumnSpec::u64("plain_len"),
        ColumnSpec::u64("codec"),
    ],
    shifts: &[],
};

/// The schema of index pages that refer to pages with bases.
pub static SHIFTED_INDEX_SCHEMA: Schema = Schema {
    name: "shifted_index",
    columns: &[
        // As in the other form.
        ColumnSpec::u64("first_row"),
        ColumnSpec::u64("first_page"),
        ColumnSpec::u64("first_key"),
        ColumnSpec::u64("offset"),
        ColumnSpec::u64("checksum"),
        ColumnSpec::u64("stored_len"),
        ColumnSpec::u64("plain_len"),
        ColumnSpec::u64("codec"),
        // The bases, in the order of the schema's shifts.
        ColumnSpec::u64("base_0"),
        ColumnSpec::u64("base_1"),
        ColumnSpec::u64("base_2"),
    ],
    shifts: &[],
};
