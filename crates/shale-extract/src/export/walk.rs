//! Walks the tree depth first, sends selected entries to the writer, and requests their data ahead.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};
use std::sync::mpsc::SyncSender;

use shale_foreign::archive::Keeps;
use shale_model::InodeKind;
use shale_model::pattern::Position;
use shale_read::{Attributes, PieceKind, ReadError, Tree};

use super::decode_ahead::Asker;
use super::options::ExportOptions;
use super::step::{Entry, Step};
use crate::error::Error;

/// An inode with names still to come.
pub(super) struct FirstName {
    path: Vec<u8>,
    names_left: u64,
}

/// Walks the tree and requests frames.
pub(super) struct Walk<'a> {
    pub(super) tree: &'a Tree,
    pub(super) options: &'a ExportOptions,
    pub(super) keeps: Keeps,
    pub(super) first_names: HashMap<u64, FirstName>,
    /// Contents sent so far, if the format shares contents.
    pub(super) given: HashSet<u64>,
    /// For inodes with several names, how many are selected; `None` if all are.
    pub(super) name_counts: Option<HashMap<u64, u64>>,
}

/// The writer takes no more steps.
struct Gone;

impl Walk<'_> {
    pub(super) fn run(mut self, mut asker: Asker, to_writer: &SyncSender<Step>) {
        if let Err(error) = self.walk(&mut asker, to_writer) {
            // If the error cannot be sent, the writer failed by itself.
            let _ = to_writer.send(Step::Failed(error));
        }
    }

    fn walk(&mut self, asker: &mut Asker, to_writer: &SyncSender<Step>) -> Result<(), Error> {
        let (tree, options) = (self.tree, self.options);
        let patterns = &options.patterns;
        if !patterns.is_empty() || options.paths.is_some() {
            self.name_counts = Some(self.count_names()?);
        }
        let mut walk = tree.walk(tree.root_inode())?;
        // The position of each directory on the way down, and the directories that are written once
        // an entry in them is selected.
        let mut positions: Vec<Position> = Vec::new();
        let mut waiting: Vec<(usize, Vec<u8>, Attributes)> = Vec::new();
        while let Some(visit) = walk.advance()? {
            let depth = visit.depth;
            positions.truncate(depth);
            // They are on the way to each other, so the deepest is the last.
            while waiting.last().is_some_and(|(at, ..)| *at >= depth) {
                waiting.pop();
            }
            let position = match positions.last() {
                None => patterns.start(),
                Some(above) => patterns.step(above, visit.name()),
            };
            let (path, attributes) = (visit.path.to_vec(), visit.attributes);
            let is_directory = attributes.kind == InodeKind::Directory;
            let is_selected = position.is_selected() && self.is_listed(&path);
            if is_directory {
                if !position.may_match_below() {
                    walk.skip_directory();
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
                if self.give(path, attributes, asker, to_writer)?.is_break() {
                    return Ok(());
                }
            }
            if self.give(path, attributes, asker, to_writer)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns whether a path is among those of the options, if they name any.
    fn is_listed(&self, path: &[u8]) -> bool {
        self.options.paths.as_ref().is_none_or(|paths| paths.contains(path))
    }

    /// Counts the selected names of inodes with several names.
    fn count_names(&self) -> Result<HashMap<u64, u64>, Error> {
        let patterns = &self.options.patterns;
        let mut counts = HashMap::new();
        let mut positions: Vec<Position> = Vec::new();
        let mut walk = self.tree.walk(self.tree.root_inode())?;
        while let Some(visit) = walk.advance()? {
            positions.truncate(visit.depth);
            let position = match positions.last() {
                None => patterns.start(),
                Some(above) => patterns.step(above, visit.name()),
            };
            let attributes = visit.attributes;
            let is_directory = attributes.kind == InodeKind::Directory;
            let is_selected = position.is_selected() && self.is_listed(visit.path);
            if is_directory && !position.may_match_below() {
                walk.skip_directory();
            }
            if !is_directory && attributes.link_count > 1 && is_selected {
                *counts.entry(attributes.inode).or_default() += 1;
            }
            positions.push(position);
        }
        Ok(counts)
    }

    /// Sends one entry with its data.
    fn give(
        &mut self,
        path: Vec<u8>,
        attributes: Attributes,
        asker: &mut Asker,
        to_writer: &SyncSender<Step>,
    ) -> Result<ControlFlow<Gone>, Error> {
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
        let metadata = attributes.metadata();
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
            return Ok(ControlFlow::Break(Gone));
        }
        if let Some(content) = pieces {
            let image = tree.image();
            for piece in image.pieces(content, 0..u64::MAX).map_err(|e| e.at(&place))? {
                let piece = piece.map_err(|error| error.at(&place))?;
                let step = match piece.kind {
                    PieceKind::Hole if self.keeps.holes => continue,
                    PieceKind::Hole | PieceKind::Zero => Step::Zeroes(piece.len),
                    PieceKind::Frame { .. } | PieceKind::Rebuilt { .. } => {
                        let Some((unit, offset)) = piece.kind.unit() else { continue };
                        let Some(ticket) = asker.ask(unit) else {
                            return Ok(ControlFlow::Break(Gone));
                        };
                        let start = usize::try_from(offset).unwrap_or(usize::MAX);
                        let len = usize::try_from(piece.len).unwrap_or(usize::MAX);
                        Step::Frame(ticket, start..start.saturating_add(len), piece.offset)
                    }
                };
                if to_writer.send(step).is_err() {
                    return Ok(ControlFlow::Break(Gone));
                }
            }
        }
        Ok(match to_writer.send(Step::End) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(Gone),
        })
    }

    /// Returns the path of the first name of an inode that was sent before.
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

    /// Returns the ranges of a content that hold data.
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
