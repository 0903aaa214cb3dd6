//! A whole tree, depth first in name order, without recursion and safe from loops.
//!
//! Each step costs a name, an inode and its attributes, less than a microsecond with warm pages.
//! Memory is a path and, for each level, a record and up to 256 names. Every directory is entered
//! once, as `directory.rs` explains, so a descent ends whatever the image says.

use crate::directory::{Directory, PATH_LEN_MAX};
use crate::error::{Expected, Place, ReadError, value};
use crate::order::EntryOrder;
use crate::tree::{Attributes, Tree};
use crate::window::{EntryWindow, InodeWindow};
use shale_format::InodeKind;

/// One step of a descent; valid until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit<'a> {
    /// Names from the start of the descent on, joined by `/`; empty for the start itself.
    pub path: &'a [u8],
    /// Names in `path`.
    pub depth: usize,
    /// What was met.
    pub attributes: Attributes,
}

impl<'a> Visit<'a> {
    /// The last name of the path; empty for the start itself.
    pub fn name(&self) -> &'a [u8] {
        self.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }
}

/// A descent under way: see [`Tree::descend`].
#[derive(Debug)]
pub struct Descend {
    tree: Tree,
    path: Vec<u8>,
    levels: Vec<Level>,
    /// The start, until it was given.
    start: Option<Attributes>,
    /// The directory given last, to be entered by the next step.
    entering: Option<Directory>,
    inodes: InodeWindow,
}

#[derive(Debug)]
struct Level {
    directory: Directory,
    row: u64,
    order: EntryOrder,
    entries: EntryWindow,
    /// Length of this directory's path.
    path_len: usize,
}

impl Tree {
    /// Walks over everything under `inode`, which may be of any kind and comes first itself. A
    /// directory comes before what it holds.
    pub fn descend(&self, inode: u64) -> Result<Descend, ReadError> {
        Ok(Descend {
            tree: self.clone(),
            path: Vec::new(),
            levels: Vec::new(),
            start: Some(self.attributes(inode)?),
            entering: None,
            inodes: InodeWindow::default(),
        })
    }
}

impl Descend {
    /// The next step, or nothing at the end. After an error the descent can go on behind the entry
    /// that was bad.
    // Not an iterator: a step lends the path.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Visit<'_>>, ReadError> {
        if let Some(attributes) = self.start.take() {
            self.arrive(&attributes)?;
            return Ok(Some(Visit { path: &self.path, depth: 0, attributes }));
        }
        if let Some(directory) = self.entering.take() {
            self.levels.push(Level {
                directory,
                row: directory.entry_first,
                order: EntryOrder::new(&directory, directory.entry_first),
                entries: EntryWindow::default(),
                path_len: self.path.len(),
            });
        }
        while let Some(level) = self.levels.last_mut() {
            self.path.truncate(level.path_len);
            if level.row >= level.directory.entry_end {
                self.levels.pop();
                continue;
            }
            let row = level.row;
            level.row += 1;
            let inode = level.directory.inode;
            let attributes = step(&self.tree, level, row, &mut self.path, &mut self.inodes)
                .at(|| format!("entries row {row}"))
                .at(|| format!("directory inode {inode}"))?;
            self.arrive(&attributes)?;
            let depth = self.levels.len();
            return Ok(Some(Visit { path: &self.path, depth, attributes }));
        }
        Ok(None)
    }

    /// Does not enter the directory that was given last; no effect on anything else.
    pub fn skip(&mut self) {
        self.entering = None;
    }

    fn arrive(&mut self, attributes: &Attributes) -> Result<(), ReadError> {
        if attributes.kind == InodeKind::Directory {
            let directory = self.tree.directory_at(attributes.payload, attributes.inode)?;
            self.entering = Some(directory);
        }
        Ok(())
    }
}

/// Reads one entry of a level; puts its name behind the path.
fn step(
    tree: &Tree,
    level: &mut Level,
    row: u64,
    path: &mut Vec<u8>,
    inodes: &mut InodeWindow,
) -> Result<Attributes, ReadError> {
    let (inode, name) = level.entries.entry(tree, row, level.directory.entry_end)?;
    level.order.check(tree, &level.directory, row, name, inode)?;
    let path_len = path.len() + 1 + name.len();
    if path_len > PATH_LEN_MAX {
        let expected = Expected::AtMost(PATH_LEN_MAX as u64);
        return Err(value("length of the path", path_len as u64, expected));
    }
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    inodes.attributes(tree, inode, Some(level.directory.index))
}
