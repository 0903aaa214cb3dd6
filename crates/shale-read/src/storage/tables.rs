//! The tables of an image as such, page by page: for check, dump and info.
//!
//! Data pages are read past the page cache, so a pass over a whole table does not evict pages
//! that readers use.

use std::sync::Arc;

use shale_format::Root;
use shale_format::schema::{
    chunks, contents, directories, entries, extents, frames, inodes, references, symlinks,
    xattr_items, xattr_sets,
};
use shale_table::{Page, PageVisit, Schema, Table, TableRoot};

use crate::error::ReadError;
use crate::storage::pages::TablePages;

/// A table of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableId {
    /// Number of the snapshot that the table belongs to; `None` for tables that all snapshots
    /// share.
    pub snapshot: Option<usize>,
    /// Root of the table.
    pub root: TableRoot,
    /// Schema of the table, which holds its name.
    pub schema: &'static Schema,
}

/// One page of a table, read from the source and verified.
#[derive(Debug)]
#[non_exhaustive]
pub struct PageCheck {
    /// Where the page is in the table and in the image.
    pub visit: PageVisit,
    /// The page, or why it cannot be read.
    pub page: Result<Arc<Page>, ReadError>,
}

/// Every table that `root` names: the shared ones, then each snapshot's.
pub(crate) fn tables_of(root: &Root) -> Vec<TableId> {
    let mut tables: Vec<TableId> = [
        (root.contents, &contents::SCHEMA),
        (root.extents, &extents::SCHEMA),
        (root.frames, &frames::SCHEMA),
        (root.references, &references::SCHEMA),
    ]
    .map(|(root, schema)| TableId { snapshot: None, root, schema })
    .to_vec();
    if root.has_chunks() {
        tables.push(TableId { snapshot: None, root: root.chunks, schema: &chunks::SCHEMA });
    }
    for (index, snapshot) in root.snapshots.iter().enumerate() {
        let of_snapshot = [
            (snapshot.inodes, &inodes::SCHEMA),
            (snapshot.directories, &directories::SCHEMA),
            (snapshot.entries, &entries::SCHEMA),
            (snapshot.symlinks, &symlinks::SCHEMA),
            (snapshot.xattr_sets, &xattr_sets::SCHEMA),
            (snapshot.xattr_items, &xattr_items::SCHEMA),
        ];
        tables.extend(of_snapshot.map(|(root, schema)| TableId {
            snapshot: Some(index),
            root,
            schema,
        }));
    }
    tables
}

/// Reads and verifies every page of a table; see [`crate::Image::check_table`].
pub(crate) fn check_table(
    pages: &TablePages,
    table: &TableId,
    mut visit: impl FnMut(PageCheck) -> bool,
) -> Result<(), ReadError> {
    let mut check = || {
        Table::new(table.root, table.schema, pages)?.visit_pages(|found| {
            let schema = if found.level == 0 { table.schema } else { &shale_table::INDEX_SCHEMA };
            let page = pages.read_page(&found.page, schema);
            Ok(visit(PageCheck { visit: found, page }))
        })
    };
    check().map_err(|error: ReadError| error.at(format!("table {}", table.schema.name)))
}
