//! From an image to an archive of another format, as a stream.
//!
//! The tree is walked depth first, parents before what is in them; frames are decoded ahead by
//! several threads, in the order in which their bytes are written, so each is decoded about once.
//! Memory is the frames on their way, the frame cache, and one path for each inode that has names
//! still to come. The archive's bytes depend on the tree alone.
//!
//! What a format cannot hold is reported by name. Damage ends the export: an archive has no way to
//! say that a range is missing.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use shale_codec::stream::StreamFormat;
use shale_foreign::archive::{Archive, ArchiveEntry, Keeps, Taken};
use shale_format::InodeKind;
use shale_read::{Attributes, PieceKind, ReadError, Tree};
use shale_write::source::{Metadata, Xattr};

use crate::error::Error;
use crate::pattern::{Patterns, Position};
use crate::progress::{Cancel, Phase, Progress};
use crate::threads::{self, thread_count};

mod output; // where it goes, and in which format
mod flow; // frames decoded ahead

use flow::{Asker, Ticket};
pub use output::{ExportFormat, export};

/// Frames decoded and not yet written, for each thread.
const FRAMES_AHEAD: usize = 16;
/// Steps of the walk ahead of the writer.
const STEPS_AHEAD: usize = 1024;
/// Left-out entries kept in a report; further ones are counted.
const LEFT_OUT_MAX: usize = 1_000;

/// How to export.
#[derive(Debug)]
pub struct ExportOptions {
    /// The format.
    pub format: ExportFormat,
    /// How the archive as a whole is compressed.
    pub compression: Option<StreamFormat>,
    /// The level of that; its usual one without.
    pub compression_level: Option<u32>,
    /// Plain bytes of a block of SquashFS; its usual ones without.
    pub block_len: Option<u32>,
    /// Replace an existing output.
    pub overwrite: bool,
    /// What is wanted; an empty set means everything.
    pub patterns: Patterns,
    /// Threads that decode; 0: as many as the machine offers.
    pub threads: usize,
    /// Ends the run with [`Error::Cancelled`].
    pub cancel: Cancel,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            format: ExportFormat::Tar,
            compression: None,
            compression_level: None,
            block_len: None,
            overwrite: false,
            patterns: Patterns::default(),
            threads: 0,
            cancel: Cancel::new(),
        }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct ExportReport {
    /// Entries written, further names counted.
    pub entries: u64,
    /// Bytes of contents, holes included.
    pub file_bytes: u64,
    /// Entries, or parts of their metadata, that the format cannot hold: path and what is lost. At
    /// most a thousand.
    pub left_out: Vec<(Vec<u8>, String)>,
    /// All of those.
    pub left_out_count: u64,
    /// Entries whose modification time lost a fraction of a second that the format has no place
    /// for. They do not count as left out.
    pub rounded_count: u64,
}

/// What the walk hands over.
enum Step {
    Entry(Box<Entry>),
    /// Bytes of the entry before: of a frame, or zeroes.
    Frame(Ticket, Range<usize>, u64),
    Zeroes(u64),
    End,
    Failed(Error),
}

struct Entry {
    path: Vec<u8>,
    attributes: Attributes,
    metadata: Metadata,
    xattrs: Vec<Xattr>,
    target: Vec<u8>,
    hard_link: Option<Vec<u8>>,
    link_count: u64,
    data: Vec<Range<u64>>,
    content: u64,
    is_repeat: bool,
}

/// Writes what is selected of `tree` to `archive`.
///
/// # Errors
/// What was written so far is then not a whole archive; the caller removes it.
pub fn export_to_archive(
    tree: &Tree,
    mut archive: Box<dyn Archive + '_>,
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<ExportReport, Error> {
    let threads = thread_count(options.threads);
    progress.phase(Phase::Files);
    progress.found(tree.entry_count(), tree.file_bytes());
    let (asker, tickets) = flow::new(FRAMES_AHEAD * threads);
    let (to_writer, steps) = sync_channel(STEPS_AHEAD);
    let mut report = ExportReport::default();
    std::thread::scope(|scope| {
        let workers = threads::start(scope, threads, || {
            let (image, tickets) = (tree.image(), Arc::clone(&tickets));
            move || flow::work(image, &tickets)
        });
        let no_thread = Error::io::<io::Error>("start", "a thread");
        if workers.is_empty() {
            return Err(no_thread(io::ErrorKind::WouldBlock.into()));
        }
        // The workers have the last ones: when all are gone, nobody waits for them in vain.
        drop(tickets);
        let keeps = archive.keeps();
        let walk = move || {
            let walk = Walk {
                tree,
                options,
                keeps,
                first_names: HashMap::new(),
                given: HashSet::new(),
                name_counts: None,
            };
            walk.run(asker, &to_writer);
        };
        threads::start_one(scope, walk).map_err(no_thread)?;
        let result = write(&mut *archive, &steps, options, progress, &mut report);
        // The walk ends when nobody takes its steps.
        drop(steps);
        result
    })?;
    archive.finish().map_err(cannot_write)?;
    if options.patterns.unmatched().next().is_some() {
        let patterns: Vec<String> =
            options.patterns.unmatched().map(|p| format!("`{}`", p.escape_ascii())).collect();
        return Err(Error::NoMatch { patterns: patterns.join(", ") });
    }
    Ok(report)
}

fn cannot_write(error: io::Error) -> Error {
    Error::Io { action: "write", path: "the output".into(), error }
}

fn write(
    archive: &mut dyn Archive,
    steps: &Receiver<Step>,
    options: &ExportOptions,
    progress: &dyn Progress,
    report: &mut ExportReport,
) -> Result<(), Error> {
    let zeroes = vec![0; 256 << 10];
    let mut is_taken = true;
    let mut current = Vec::new();
    let keeps_links = archive.keeps().hard_links;
    // Why inodes with several names are left out, by number.
    let mut inodes_left_out: HashMap<u64, Vec<String>> = HashMap::new();
    while let Ok(step) = steps.recv() {
        options.cancel.check()?;
        match step {
            Step::Failed(error) => return Err(error),
            Step::Entry(entry) => {
                let inode = entry.attributes.inode;
                let is_link = keeps_links && entry.hard_link.is_some();
                let taken = match inodes_left_out.get(&inode).filter(|_| is_link) {
                    // A further name of what is not there would lead nowhere.
                    Some(lost) => Taken { is_in: false, lost: lost.clone(), is_rounded: false },
                    None => archive.entry(&entry.for_archive()).map_err(cannot_write)?,
                };
                if !taken.is_in && entry.link_count > 1 && entry.hard_link.is_none() {
                    inodes_left_out.insert(inode, taken.lost.clone());
                }
                current.clone_from(&entry.path);
                is_taken = taken.is_in;
                report.entries += u64::from(is_taken);
                if is_taken && entry.hard_link.is_none() {
                    report.file_bytes += entry.metadata.len;
                }
                report.rounded_count += u64::from(is_taken && taken.is_rounded);
                if !taken.lost.is_empty() {
                    report.left_out_count += 1;
                    if report.left_out.len() < LEFT_OUT_MAX {
                        report.left_out.push((entry.path, taken.lost.join("; ")));
                    }
                }
            }
            Step::Frame(ticket, range, offset) if is_taken => {
                let bytes = ticket.wait().map_err(|error| {
                    let path = current.escape_ascii();
                    Error::Read(error.at(format!("{path}, at its offset {offset}")))
                })?;
                let bytes = bytes.get(range).unwrap_or_default();
                archive.data(bytes).map_err(cannot_write)?;
                progress.done(0, bytes.len() as u64);
            }
            Step::Zeroes(len) if is_taken => {
                let mut left = len;
                while left > 0 {
                    options.cancel.check()?;
                    let len = left.min(zeroes.len() as u64);
                    archive.data(&zeroes[..len as usize]).map_err(cannot_write)?;
                    left -= len;
                }
                progress.done(0, len);
            }
            Step::End if is_taken => {
                archive.end_entry().map_err(cannot_write)?;
                progress.done(1, 0);
            }
            Step::Frame(..) | Step::Zeroes(_) | Step::End => {}
        }
    }
    Ok(())
}

impl Entry {
    fn for_archive(&self) -> ArchiveEntry<'_> {
        ArchiveEntry {
            path: &self.path,
            metadata: &self.metadata,
            link_count: self.link_count,
            inode: self.attributes.inode,
            xattrs: &self.xattrs,
            target: &self.target,
            hard_link: self.hard_link.as_deref(),
            data: &self.data,
            content: self.content,
            is_repeat: self.is_repeat,
        }
    }
}

/// An inode that has names still to come.
struct FirstName {
    path: Vec<u8>,
    names_left: u64,
}

/// Goes through the tree and asks for frames.
struct Walk<'a> {
    tree: &'a Tree,
    options: &'a ExportOptions,
    keeps: Keeps,
    first_names: HashMap<u64, FirstName>,
    /// Contents given so far, where the format shares them.
    given: HashSet<u64>,
    /// Of inodes with several names, those that are selected, unless all are.
    name_counts: Option<HashMap<u64, u64>>,
}

/// Nobody takes steps any more.
struct Gone;

impl Walk<'_> {
    fn run(mut self, mut asker: Asker, to_writer: &SyncSender<Step>) {
        if let Err(error) = self.walk(&mut asker, to_writer) {
            // Where it cannot be said, the writer has failed by itself.
            let _ = to_writer.send(Step::Failed(error));
        }
    }

    fn walk(&mut self, asker: &mut Asker, to_writer: &SyncSender<Step>) -> Result<(), Error> {
        let (tree, options) = (self.tree, self.options);
        let patterns = &options.patterns;
        if !patterns.is_empty() {
            self.name_counts = Some(self.count_names()?);
        }
        let mut descend = tree.descend(tree.root_inode())?;
        // The position of each directory on the way down, and those that wait for something in
        // them to be selected.
        let mut positions: Vec<Position> = Vec::new();
        let mut waiting: Vec<(usize, Vec<u8>, Attributes)> = Vec::new();
        while let Some(visit) = descend.next()? {
            let depth = visit.depth;
            positions.truncate(depth);
            waiting.retain(|(at, ..)| *at < depth);
            let position = match positions.last() {
                None => patterns.start(),
                Some(above) => patterns.step(above, visit.name()),
            };
            let (path, attributes) = (visit.path.to_vec(), visit.attributes);
            let is_directory = attributes.kind == InodeKind::Directory;
            let is_selected = position.is_selected();
            if is_directory {
                if !position.may_match_below() {
                    descend.skip();
                }
                if !is_selected {
                    waiting.push((depth, path.clone(), attributes));
                }
            }
            positions.push(position);
            if !is_selected {
                continue;
            }
            for (_, path, attributes) in std::mem::take(&mut waiting) {
                if self.give(path, attributes, asker, to_writer)?.is_err() {
                    return Ok(());
                }
            }
            if self.give(path, attributes, asker, to_writer)?.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Counts the selected names of inodes that have several.
    fn count_names(&self) -> Result<HashMap<u64, u64>, Error> {
        let patterns = &self.options.patterns;
        let mut counts = HashMap::new();
        let mut positions: Vec<Position> = Vec::new();
        let mut descend = self.tree.descend(self.tree.root_inode())?;
        while let Some(visit) = descend.next()? {
            positions.truncate(visit.depth);
            let position = match positions.last() {
                None => patterns.start(),
                Some(above) => patterns.step(above, visit.name()),
            };
            let attributes = visit.attributes;
            let is_directory = attributes.kind == InodeKind::Directory;
            if is_directory && !position.may_match_below() {
                descend.skip();
            }
            if !is_directory && attributes.link_count > 1 && position.is_selected() {
                *counts.entry(attributes.inode).or_default() += 1;
            }
            positions.push(position);
        }
        Ok(counts)
    }

    /// Hands over one entry with its data.
    fn give(
        &mut self,
        path: Vec<u8>,
        attributes: Attributes,
        asker: &mut Asker,
        to_writer: &SyncSender<Step>,
    ) -> Result<Result<(), Gone>, Error> {
        let at = || path.escape_ascii().to_string();
        let tree = self.tree;
        let counted = self.name_counts.as_ref();
        let link_count = match attributes.kind {
            InodeKind::Directory => attributes.link_count,
            _ => counted
                .and_then(|counts| counts.get(&attributes.inode).copied())
                .unwrap_or(attributes.link_count),
        };
        let hard_link = self.hard_link(&path, &attributes, link_count);
        let target = match attributes.kind {
            InodeKind::Symlink => tree.link_target(attributes.inode).map_err(|e| e.at(at()))?,
            _ => Vec::new(),
        };
        let xattrs = match attributes.xattr_set {
            0 => Vec::new(),
            _ => tree.xattrs(attributes.inode).map_err(|e| e.at(at()))?,
        };
        let xattrs = xattrs.into_iter().map(|x| Xattr { name: x.name, value: x.value }).collect();
        let pieces = match attributes.content() {
            Some(content)
                if attributes.size > 0 && (hard_link.is_none() || !self.keeps.hard_links) =>
            {
                Some(content)
            }
            _ => None,
        };
        let content = pieces.map_or(0, |content| content.saturating_add(1));
        let is_repeat = content != 0 && self.keeps.shared_contents && !self.given.insert(content);
        let pieces = pieces.filter(|_| !is_repeat);
        let data = match pieces {
            Some(content) => self.data(content, attributes.size).map_err(|e| e.at(at()))?,
            None => Vec::new(),
        };
        let metadata = metadata(&attributes);
        let entry = Entry {
            path,
            attributes,
            metadata,
            xattrs,
            target,
            hard_link,
            link_count,
            data,
            content,
            is_repeat,
        };
        let place = entry.path.escape_ascii().to_string();
        if to_writer.send(Step::Entry(Box::new(entry))).is_err() {
            return Ok(Err(Gone));
        }
        if let Some(content) = pieces {
            let image = tree.image();
            for piece in image.pieces(content, 0..u64::MAX).map_err(|e| e.at(&place))? {
                let piece = piece.map_err(|error| error.at(&place))?;
                let step = match piece.kind {
                    PieceKind::Hole if self.keeps.holes => continue,
                    PieceKind::Hole | PieceKind::Zero => Step::Zeroes(piece.len),
                    PieceKind::Frame { frame, frame_offset } => {
                        let Some(ticket) = asker.ask(frame) else { return Ok(Err(Gone)) };
                        let start = usize::try_from(frame_offset).unwrap_or(usize::MAX);
                        let len = usize::try_from(piece.len).unwrap_or(usize::MAX);
                        Step::Frame(ticket, start..start.saturating_add(len), piece.offset)
                    }
                };
                if to_writer.send(step).is_err() {
                    return Ok(Err(Gone));
                }
            }
        }
        Ok(to_writer.send(Step::End).map_err(|_| Gone))
    }

    /// The first name of an inode that had one already.
    fn hard_link(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
        link_count: u64,
    ) -> Option<Vec<u8>> {
        if attributes.kind == InodeKind::Directory || link_count < 2 {
            return None;
        }
        if let Some(first) = self.first_names.get_mut(&attributes.inode) {
            let first_path = first.path.clone();
            first.names_left = first.names_left.saturating_sub(1);
            if first.names_left == 0 {
                self.first_names.remove(&attributes.inode);
            }
            return Some(first_path);
        }
        let first = FirstName { path: path.to_vec(), names_left: link_count - 1 };
        self.first_names.insert(attributes.inode, first);
        None
    }

    /// Where a content has data.
    fn data(&self, content: u64, len: u64) -> Result<Vec<Range<u64>>, ReadError> {
        let mut data: Vec<Range<u64>> = Vec::new();
        for piece in self.tree.image().pieces(content, 0..len)? {
            let piece = piece?;
            if piece.kind == PieceKind::Hole {
                continue;
            }
            let range = piece.offset..piece.offset.saturating_add(piece.len);
            match data.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => data.push(range),
            }
        }
        Ok(data)
    }
}

/// An inode as the writer has it.
pub(crate) fn metadata(attributes: &Attributes) -> Metadata {
    let is_device = matches!(attributes.kind, InodeKind::BlockDevice | InodeKind::CharDevice);
    Metadata {
        kind: attributes.kind,
        permissions: attributes.permissions,
        uid: attributes.uid,
        gid: attributes.gid,
        mtime: attributes.mtime,
        atime: attributes.atime,
        ctime: attributes.ctime,
        btime: attributes.btime,
        len: if attributes.kind == InodeKind::File { attributes.size } else { 0 },
        device: if is_device { attributes.payload } else { 0 },
    }
}
