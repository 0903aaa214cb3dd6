//! Writes the metadata tables and the root that names them.
//!
//! Tables follow one another, each with its pages together; a table is streamed, so only one page
//! a level of it is in memory.

use shale_format::inode::InodeKind;
use shale_format::schema;
use shale_format::{FrameRecord, InodeRecord, Root, Snapshot};
use shale_table::{Schema, TableBuilder, TableRoot, Value};

use crate::WriteError;
use crate::dedupe::Contents;
use crate::emit::Pages;
use crate::number::Numbering;
use crate::report::{Report, TableCounts};
use crate::tree::Tree;

/// Everything the tables say.
pub(crate) struct Tables<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) numbering: &'a Numbering,
    pub(crate) contents: &'a Contents,
    pub(crate) frames: &'a [FrameRecord],
    pub(crate) references: &'a [u64],
}

/// A table being written, and its rows' way into pages.
struct Writer<'w, 'e, 'o> {
    builder: TableBuilder,
    pages: &'w mut Pages<'e, 'o>,
}

impl Writer<'_, '_, '_> {
    fn row(&mut self, row: &[Value<'_>]) -> Result<(), WriteError> {
        self.builder.push(row, self.pages).map(|_| ())
    }

    fn u64s<const N: usize>(&mut self, row: [u64; N]) -> Result<(), WriteError> {
        self.row(&row.map(Value::U64))
    }
}

impl Tables<'_> {
    /// Writes all tables. Fills the snapshot's name, times and the root's bounds not in.
    pub(crate) fn write(
        &self,
        pages: &mut Pages<'_, '_>,
        report: &mut Report,
    ) -> Result<Root, WriteError> {
        let (xattr_order, xattr_numbers) = self.order_xattrs();
        let mut snapshot = Snapshot::default();
        let counts = &mut report.tables;
        snapshot.inodes = table(pages, counts, &schema::inodes::SCHEMA, |writer| {
            self.inodes(writer, &xattr_numbers)
        })?;
        snapshot.directories =
            table(pages, counts, &schema::directories::SCHEMA, |w| self.directories(w))?;
        snapshot.entries = table(pages, counts, &schema::entries::SCHEMA, |w| self.entries(w))?;
        snapshot.symlinks = table(pages, counts, &schema::symlinks::SCHEMA, |w| self.symlinks(w))?;
        snapshot.xattr_sets = table(pages, counts, &schema::xattr_sets::SCHEMA, |writer| {
            let mut first = 0;
            for &set in &xattr_order {
                let count = self.tree.xattrs(set).len() as u64;
                writer.u64s([first, count])?;
                first += count;
            }
            Ok(())
        })?;
        snapshot.xattr_items = table(pages, counts, &schema::xattr_items::SCHEMA, |writer| {
            for xattr in xattr_order.iter().flat_map(|&set| self.tree.xattrs(set)) {
                writer.row(&[Value::Bytes(&xattr.name), Value::Bytes(&xattr.value)])?;
            }
            Ok(())
        })?;
        snapshot.file_bytes = report.file_bytes;

        let mut root = Root { snapshots: vec![snapshot], ..Root::default() };
        root.contents = table(pages, counts, &schema::contents::SCHEMA, |writer| {
            for &base in self.contents.bases() {
                writer.u64s([base])?;
            }
            writer.u64s([self.contents.extents.end()])
        })?;
        root.extents = table(pages, counts, &schema::extents::SCHEMA, |writer| {
            for (base, stream) in self.contents.extents.rows() {
                writer.u64s([base, stream])?;
            }
            writer.u64s([self.contents.extents.end(), 0])
        })?;
        root.frames = table(pages, counts, &schema::frames::SCHEMA, |w| self.frames(w))?;
        root.references = table(pages, counts, &schema::references::SCHEMA, |writer| {
            self.references.iter().try_for_each(|&frame| writer.u64s([frame]))
        })?;
        Ok(root)
    }

    /// Sets of attributes in the order in which inodes name them, and their numbers from 1.
    fn order_xattrs(&self) -> (Vec<u32>, Vec<u64>) {
        let mut order = Vec::new();
        let mut numbers = vec![0; self.tree.xattr_set_count()];
        for &inode in &self.numbering.inodes {
            if let Some(set) = self.tree.xattr_set(inode)
                && numbers[set as usize] == 0
            {
                order.push(set);
                numbers[set as usize] = order.len() as u64;
            }
        }
        (order, numbers)
    }

    fn inodes(&self, writer: &mut Writer, xattr_numbers: &[u64]) -> Result<(), WriteError> {
        let (tree, numbering) = (self.tree, self.numbering);
        let mut symlink_count = 0;
        for &inode in &numbering.inodes {
            let record = tree.record(inode);
            let payload = match record.kind {
                InodeKind::File | InodeKind::BlockDevice | InodeKind::CharDevice => {
                    tree.payload(inode)
                }
                InodeKind::Directory => numbering.directory_index(tree.payload(inode) as u32),
                InodeKind::Symlink => {
                    symlink_count += 1;
                    symlink_count - 1
                }
                InodeKind::Fifo | InodeKind::Socket => 0,
            };
            let record = InodeRecord {
                link_count: numbering.link_count(tree, inode),
                xattr_set: tree.xattr_set(inode).map_or(0, |set| xattr_numbers[set as usize]),
                payload,
                ..record
            };
            writer.row(&record.row())?;
        }
        Ok(())
    }

    fn directories(&self, writer: &mut Writer) -> Result<(), WriteError> {
        let (tree, numbering) = (self.tree, self.numbering);
        let mut entry_first = 0;
        for &slot in &numbering.directories {
            let directory = &tree.directories[slot as usize];
            let parent = numbering.directory_index(directory.parent);
            writer.u64s([entry_first, numbering.number(directory.inode), parent])?;
            entry_first += numbering.entries(slot).len() as u64;
        }
        writer.u64s([entry_first, 0, 0])
    }

    fn entries(&self, writer: &mut Writer) -> Result<(), WriteError> {
        let (tree, numbering) = (self.tree, self.numbering);
        for &slot in &numbering.directories {
            for &index in numbering.entries(slot) {
                let entry = &tree.entries[index as usize];
                let number = numbering.number(entry.inode);
                writer.row(&[Value::U64(number), Value::Bytes(tree.name(entry))])?;
            }
        }
        Ok(())
    }

    fn symlinks(&self, writer: &mut Writer) -> Result<(), WriteError> {
        for &inode in &self.numbering.inodes {
            if self.tree.kind(inode) == InodeKind::Symlink {
                writer.row(&[Value::Bytes(self.tree.target(inode))])?;
            }
        }
        Ok(())
    }

    fn frames(&self, writer: &mut Writer) -> Result<(), WriteError> {
        for record in self.frames {
            writer.row(&record.row())?;
        }
        let plain_start = self.frames.last().map_or(0, |last| last.plain_start + last.plain_len);
        writer.row(&FrameRecord { plain_start, ..FrameRecord::default() }.row())
    }
}

fn table(
    pages: &mut Pages<'_, '_>,
    counts: &mut Vec<TableCounts>,
    schema: &'static Schema,
    fill: impl FnOnce(&mut Writer<'_, '_, '_>) -> Result<(), WriteError>,
) -> Result<TableRoot, WriteError> {
    let mut writer = Writer { builder: TableBuilder::new(schema), pages };
    fill(&mut writer)?;
    let Writer { builder, pages } = writer;
    let mut root = builder.finish(pages)?;
    root.dictionary = pages.take_dictionary().unwrap_or_default();
    counts.push(pages.take_counts(schema.name, root.row_count));
    Ok(root)
}
