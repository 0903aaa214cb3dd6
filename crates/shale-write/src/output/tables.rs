//! Writes the metadata tables.
//!
//! Inodes, directories, entries and link targets are written side by side while the tree is read
//! once, so that pages for one part of the tree lie near each other. The other tables follow. One
//! page of each table and the pages in flight are in memory.

use shale_format::{
    ChunkRecord, FrameRecord, InodeKind, InodeRecord, ReadBounds, Root, Snapshot, schema,
};
use shale_table::{TableRoot, Value};

use crate::content::dedupe::Contents;
use crate::exec::build::Build;
use crate::output::follow::is_mark;
use crate::output::frame_table::FrameTable;
use crate::output::pages::{Pages, TableId};
use crate::plan::digest::{PathDigest, TreeDigest};
use crate::plan::error::WriteError;
use crate::plan::report::Report;
use crate::tree::batch::{Parents, add_entry, inode_record};
use crate::tree::breadth_first::{Entry, Replaced, Survivor, Visit, count_links, walk};
use crate::tree::queue::Queue;
use crate::tree::record::Record;
use crate::tree::seal::SealedTree;
use crate::tree::store::Store;

/// The data of the tables.
pub(crate) struct Tables<'a, 'env> {
    pub(crate) build: Build<'env>,
    pub(crate) contents: &'a Contents,
    pub(crate) frames: &'a FrameTable,
}

impl<'env> Tables<'_, 'env> {
    /// Writes all tables, and fills in what the report says about the tree. The caller fills in the
    /// snapshot's name and times.
    pub(crate) fn write(
        &self,
        sealed: &mut SealedTree,
        pages: &mut Pages<'_, 'env>,
        report: &mut Report,
    ) -> Result<Root, WriteError> {
        let mut root = self.before();
        let snapshot = self.snapshot(sealed, pages, &root, report)?;
        root.snapshots.push(snapshot);
        self.shared(pages, &mut root, report)?;
        Ok(root)
    }

    /// Writes the tables of one tree, which may resemble the last one of `root`.
    pub(crate) fn snapshot(
        &self,
        sealed: &mut SealedTree,
        pages: &mut Pages<'_, 'env>,
        root: &Root,
        report: &mut Report,
    ) -> Result<Snapshot, WriteError> {
        let last = root.snapshots.last().cloned().unwrap_or_default();
        let mut snapshot = Snapshot::default();
        self.tree(sealed, pages, &last, &mut snapshot, report)?;
        let sets = &mut sealed.xattr_sets;
        let id = pages.begin_like(&schema::xattr_sets::SCHEMA, last.xattr_sets)?;
        snapshot.xattr_sets = table(pages, report, id, |pages, id| {
            let mut first = 0;
            for index in 0..sets.numbered() {
                let count = sets.at(index)?.len() as u64;
                pages.u64s(id, [first, count])?;
                first += count;
            }
            Ok(())
        })?;
        let id = pages.begin_like(&schema::xattr_items::SCHEMA, last.xattr_items)?;
        snapshot.xattr_items = table(pages, report, id, |pages, id| {
            for index in 0..sets.numbered() {
                for xattr in sets.at(index)?.iter() {
                    pages.row(id, &[Value::Bytes(&xattr.name), Value::Bytes(&xattr.value)])?;
                }
            }
            Ok(())
        })?;
        snapshot.file_bytes = report.file_bytes;
        Ok(snapshot)
    }

    /// The root of the image that is continued; an empty one if there is none.
    fn before(&self) -> Root {
        self.build.base().map_or_else(Root::default, |base| base.state().root.clone())
    }

    /// Writes the tables that all snapshots share. They grow at their ends; those that do not grow
    /// stay where they are.
    pub(crate) fn shared(
        &self,
        pages: &mut Pages<'_, 'env>,
        root: &mut Root,
        report: &mut Report,
    ) -> Result<(), WriteError> {
        root.bounds = widest(root.bounds, report.bounds);
        let is_first = self.build.base().is_none();
        let extents = &self.contents.extents;
        // The last row is a sentinel and makes room for new ones.
        if is_first || self.contents.count() > 0 {
            let rows = root.contents.row_count.saturating_sub(1);
            let id = pages.resume(&schema::contents::SCHEMA, root.contents, rows)?;
            root.contents = table(pages, report, id, |pages, id| {
                for &base in self.contents.bases() {
                    pages.u64s(id, [base])?;
                }
                pages.sentinel(id, &[Value::U64(extents.end())])
            })?;
            let rows = root.extents.row_count.saturating_sub(1);
            let id = pages.resume(&schema::extents::SCHEMA, root.extents, rows)?;
            root.extents = table(pages, report, id, |pages, id| {
                for (base, stream) in extents.rows() {
                    pages.u64s(id, [base, stream])?;
                }
                pages.sentinel(id, &[extents.end(), 0].map(Value::U64))
            })?;
        }
        let chunks = &self.contents.chunks;
        if !chunks.records().is_empty() {
            let rows = root.chunks.row_count.saturating_sub(1);
            let id = pages.resume(&schema::chunks::SCHEMA, root.chunks, rows)?;
            root.chunks = table(pages, report, id, |pages, id| {
                for record in chunks.records() {
                    let content = self.contents.position_of(record.content);
                    pages.u64s(id, ChunkRecord { content, ..*record }.columns())?;
                }
                let last = ChunkRecord { base: chunks.end(), ..Default::default() };
                pages.sentinel(id, &last.columns().map(Value::U64))
            })?;
        }
        if is_first || !self.frames.records.is_empty() {
            let rows = root.frames.row_count.saturating_sub(1);
            let id = pages.resume(&schema::frames::SCHEMA, root.frames, rows)?;
            root.frames = table(pages, report, id, |pages, id| {
                for record in &self.frames.records {
                    pages.row(id, &record.row())?;
                }
                let plain_start = self.frames.stream_end();
                pages.sentinel(id, &FrameRecord { plain_start, ..FrameRecord::default() }.row())
            })?;
        }
        if is_first || !self.frames.references.is_empty() {
            let rows = root.references.row_count;
            let id = pages.resume(&schema::references::SCHEMA, root.references, rows)?;
            root.references = table(pages, report, id, |pages, id| {
                self.frames.references.iter().try_for_each(|&frame| pages.u64s(id, [frame]))
            })?;
        }
        Ok(())
    }

    /// Writes the tables of names and inodes. Sets of attributes are numbered in the order in which
    /// inodes name them.
    fn tree(
        &self,
        sealed: &mut SealedTree,
        pages: &mut Pages<'_, 'env>,
        last: &Snapshot,
        snapshot: &mut Snapshot,
        report: &mut Report,
    ) -> Result<(), WriteError> {
        self.build.progress().found(sealed.digest.entry_count, 0);
        let links_counted = count_links(sealed, self.contents)?;
        let root = sealed.root;
        let mut rows = Rows {
            build: self.build.clone(),
            contents: self.contents,
            inodes: pages.begin_like(&schema::inodes::SCHEMA, last.inodes)?,
            directories: pages.begin_like(&schema::directories::SCHEMA, last.directories)?,
            entries: pages.begin_like(&schema::entries::SCHEMA, last.entries)?,
            symlinks: pages.begin_like(&schema::symlinks::SCHEMA, last.symlinks)?,
            pages,
            report,
            waiting: Queue::default(),
            directory_count: 1,
            directory_index: 0,
            entry_count: 0,
            symlink_count: 0,
            replaced: Replaced {
                contents: self.contents,
                xattr_sets: &mut sealed.xattr_sets,
                links: &mut sealed.links,
                digest: &mut sealed.digest,
                repeats: &mut sealed.repeats,
                collisions: &mut sealed.collisions,
                parents: Parents::default(),
            },
            links_counted,
            told: 0,
        };
        rows.report.entries = Default::default();
        rows.inode(&root, root.payload + 2, 0)?;
        rows.waiting.push([1, 0], &mut sealed.store)?;
        rows.report.entries.directories = 1;
        walk(&sealed.depths, &mut sealed.store, &mut rows)?;
        rows.pages.u64s(rows.directories, [rows.entry_count, 0, 0])?;
        let ids = [rows.inodes, rows.directories, rows.entries, rows.symlinks];
        let (told, entry_count) = (rows.told, rows.entry_count);
        drop(rows);
        self.build.progress().done(entry_count - told, 0);
        let roots = [
            &mut snapshot.inodes,
            &mut snapshot.directories,
            &mut snapshot.entries,
            &mut snapshot.symlinks,
        ];
        for (id, root) in ids.into_iter().zip(roots) {
            let counts;
            (*root, counts) = pages.end(id)?;
            report.tables.push(counts);
        }
        let counts = &mut report.entries;
        counts.total = entry_count;
        // Every entry and the root has an inode; the rest are further names.
        counts.hard_links = counts.total + 1 - counts.inodes;
        report.tree_digest = self.digest(sealed, &root)?;
        report.temporary_file_bytes = report.temporary_file_bytes.max(sealed.file_len());
        Ok(())
    }

    /// Returns the digest of the whole tree.
    fn digest(&self, sealed: &mut SealedTree, root: &Record) -> Result<TreeDigest, WriteError> {
        let mut digest = sealed.digest;
        let xattrs = sealed.xattr_sets.get(root.attributes.xattrs)?;
        let none = self.contents.digest(0);
        add_entry(&mut digest, &PathDigest::ROOT, b"", root, &[], &none, &xattrs);
        sealed.links.add_to(&mut digest)?;
        Ok(digest)
    }
}

/// Writes rows while the tree is walked.
struct Rows<'r, 'p, 'env> {
    build: Build<'env>,
    contents: &'r Contents,
    pages: &'r mut Pages<'p, 'env>,
    report: &'r mut Report,
    inodes: TableId,
    directories: TableId,
    entries: TableId,
    symlinks: TableId,
    /// Inode and parent of the directories whose entries were not visited yet.
    waiting: Queue,
    directory_count: u64,
    /// Index of the next directory.
    directory_index: u64,
    entry_count: u64,
    symlink_count: u64,
    replaced: Replaced<'r>,
    links_counted: bool,
    /// Entries that were reported as progress.
    told: u64,
}

/// Entries between two reports of progress and checks for cancellation.
const STEP: u64 = 16_384;

impl Rows<'_, '_, '_> {
    /// Adds an inode and returns its number.
    fn inode(&mut self, record: &Record, links: u64, payload: u64) -> Result<u64, WriteError> {
        let xattr_set = self.replaced.xattr_sets.number(record.attributes.xattrs)?;
        let row = InodeRecord { link_count: links, xattr_set, payload, ..inode_record(record) };
        self.pages.row(self.inodes, &row.row())?;
        self.report.entries.inodes += 1;
        Ok(self.report.entries.inodes)
    }

    /// Returns the inode of an entry that is no directory.
    fn leaf(&mut self, entry: &Entry<'_>) -> Result<u64, WriteError> {
        let record = entry.record;
        let (link_count, number) = self.replaced.links.names_and_number(record.link)?;
        if number > 0 {
            return Ok(number);
        }
        let payload = match record.kind() {
            InodeKind::Symlink => {
                self.pages.row(self.symlinks, &[Value::Bytes(entry.target)])?;
                self.symlink_count += 1;
                self.symlink_count - 1
            }
            InodeKind::File => {
                self.report.file_bytes += self.contents.content_len(record.payload)?;
                self.contents.position_of(record.payload)
            }
            _ => record.payload,
        };
        let number = self.inode(record, link_count, payload)?;
        self.replaced.links.set_number(record.link, number)?;
        Ok(number)
    }
}

impl Visit for Rows<'_, '_, '_> {
    fn directory(&mut self, store: &mut Store) -> Result<(), WriteError> {
        let Some([inode, parent]) = self.waiting.pop(store)? else {
            return Err(WriteError::TemporaryFileDamaged);
        };
        self.directory_index += 1;
        self.pages.u64s(self.directories, [self.entry_count, inode, parent])
    }

    fn entry(&mut self, entry: &Entry<'_>, store: &mut Store) -> Result<(), WriteError> {
        if is_mark(entry.key) {
            for table in [self.inodes, self.directories, self.entries] {
                self.pages.mark(table)?;
            }
        }
        let counts = &mut self.report.entries;
        let kind = entry.record.kind();
        match kind {
            InodeKind::File => counts.files += 1,
            InodeKind::Directory => counts.directories += 1,
            InodeKind::Symlink => counts.symlinks += 1,
            InodeKind::BlockDevice | InodeKind::CharDevice => counts.devices += 1,
            InodeKind::Fifo | InodeKind::Socket => counts.specials += 1,
        }
        let number = if kind == InodeKind::Directory {
            let index = self.directory_count;
            self.directory_count += 1;
            let number = self.inode(entry.record, entry.record.payload + 2, index)?;
            self.waiting.push([number, self.directory_index - 1], store)?;
            number
        } else {
            self.leaf(entry)?
        };
        self.entry_count += 1;
        if self.entry_count.is_multiple_of(STEP) {
            self.build.check_cancel()?;
            self.build.progress().done(STEP, 0);
            self.told = self.entry_count;
        }
        self.pages.row(self.entries, &[Value::U64(number), Value::Bytes(entry.name())])
    }

    fn replaced(&mut self, entry: &Entry<'_>, by: Survivor) -> Result<(), WriteError> {
        if self.links_counted {
            return Ok(());
        }
        self.replaced.take_back(entry, by)
    }
}

/// The bounds that hold for both.
fn widest(a: ReadBounds, b: ReadBounds) -> ReadBounds {
    ReadBounds {
        reference_count_max: a.reference_count_max.max(b.reference_count_max),
        depth_max: a.depth_max.max(b.depth_max),
        frame_plain_len_max: a.frame_plain_len_max.max(b.frame_plain_len_max),
        read_bytes_max: a.read_bytes_max.max(b.read_bytes_max),
    }
}

fn table<'p, 'env>(
    pages: &mut Pages<'p, 'env>,
    report: &mut Report,
    id: TableId,
    fill: impl FnOnce(&mut Pages<'p, 'env>, TableId) -> Result<(), WriteError>,
) -> Result<TableRoot, WriteError> {
    fill(pages, id)?;
    let (root, counts) = pages.end(id)?;
    report.tables.push(counts);
    Ok(root)
}
