//! Checks the names, inodes and directories of one snapshot against each other.
//!
//! Inodes and directories are numbered in the order in which a breadth-first walk meets them, so
//! one pass over the entries proves the tree: each entry leads either to the next new inode or, for
//! a hard link, to an earlier one. Only inodes with several names need memory. The order of names
//! needs no inodes, so another thread can check it.

use std::collections::HashMap;

use shale_format::schema::{directories, entries, inodes};
use shale_format::{InodeKind, Snapshot};
use shale_table::{Column, Table, TableError};

use super::context::{Context, beside};
use super::report::Checked;
use super::store::{PageFault, TablePages};
use crate::error::Error;

/// Names between two tests for cancellation.
const NAMES_PER_LOOK: u64 = 4096;

/// Runs only on tables that could be read completely.
pub(super) fn check(
    context: &Context<'_>,
    snapshot: &Snapshot,
    checked: &mut Checked,
    place: &str,
) -> Result<(), Error> {
    let told = |context: &Context<'_>, result: Result<(), Stop>| match result {
        Err(Stop::Fault(fault)) => {
            context.findings.add(place, None, fault.0);
            Ok(())
        }
        Err(Stop::Cancelled(error)) => Err(error),
        Ok(()) => Ok(()),
    };
    beside(
        context,
        checked,
        |context, _| told(context, walk(context, snapshot, place)),
        |context, _| told(context, check_order(context, snapshot, place)),
    )?;
    Ok(())
}

/// Why a check ended early.
enum Stop {
    /// A page cannot be read, which is a finding.
    Fault(PageFault),
    /// The caller gave up.
    Cancelled(Error),
}

impl From<PageFault> for Stop {
    fn from(fault: PageFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<TableError> for Stop {
    fn from(error: TableError) -> Self {
        Self::Fault(error.into())
    }
}

/// Walks breadth first and checks the order of inodes, parents and link counts.
fn walk(context: &Context<'_>, snapshot: &Snapshot, place: &str) -> Result<(), Stop> {
    let store = context.store;
    let inode_pages = TablePages::new(store, &snapshot.inodes)?;
    let directory_pages = TablePages::new(store, &snapshot.directories)?;
    let entry_pages = TablePages::new(store, &snapshot.entries)?;
    let inode_table = Table::new(snapshot.inodes, &inodes::SCHEMA, &inode_pages)?;
    let directory_table = Table::new(snapshot.directories, &directories::SCHEMA, &directory_pages)?;
    let entry_table = Table::new(snapshot.entries, &entries::SCHEMA, &entry_pages)?;
    let mut modes = inode_table.column(inodes::MODE);
    let mut link_counts = inode_table.column(inodes::LINK_COUNT);
    let mut payloads = inode_table.column(inodes::PAYLOAD);
    let mut own_link_counts = inode_table.column(inodes::LINK_COUNT);
    let mut firsts = directory_table.column(directories::ENTRY_FIRST);
    let mut own_inodes = directory_table.column(directories::INODE);
    let mut child_inodes = directory_table.column(directories::INODE);
    let mut parents = directory_table.column(directories::PARENT);
    let mut targets = entry_table.column(entries::INODE);
    // For each inode with several names, how many names are still to come.
    let mut links: HashMap<u64, u64> = HashMap::new();
    let mut next_inode = 2;
    let directory_count = snapshot.directories.row_count - 1;
    for directory in 0..directory_count {
        context.check_cancel().map_err(Stop::Cancelled)?;
        if context.findings.is_full() {
            return Ok(());
        }
        let add = |what: String| context.findings.add(place, None, what);
        let first = firsts.u64(directory)?;
        let end = firsts.u64(directory + 1)?;
        let inode = own_inodes.u64(directory)?;
        let mut subdirectories = 0;
        for row in first..end {
            let target = targets.u64(row)?;
            if target > next_inode {
                add(format!("row {row}: inode is {target}, the next new one is {next_inode}"));
                return Ok(());
            }
            let is_new = target == next_inode;
            let kind = kind_of(&mut modes, target)?;
            if is_new {
                next_inode += 1;
                let link_count = link_counts.u64(target - 1)?;
                if kind != Some(InodeKind::Directory) && link_count > 1 {
                    links.insert(target, link_count - 1);
                }
            }
            if kind == Some(InodeKind::Directory) {
                subdirectories += 1;
                let index = payloads.u64(target - 1)?;
                let parent = parents.u64(index)?;
                let back = child_inodes.u64(index)?;
                if !is_new {
                    add(format!("row {row}: directory inode {target} has more than one name"));
                } else if parent != directory || back != target {
                    add(format!(
                        "row {row}: directory {index} belongs to inode {back} in directory \
                         {parent}, but inode {target} is here in {directory}"
                    ));
                }
            } else if !is_new {
                // An inode without names left stays in the map, so that a surplus name is noticed.
                match links.get_mut(&target) {
                    Some(left) if *left > 0 => *left -= 1,
                    _ => add(format!("row {row}: inode {target} has more names than links")),
                }
            }
        }
        let link_count = own_link_counts.u64(inode - 1)?;
        if link_count != subdirectories + 2 {
            add(format!(
                "directory inode {inode}: link count is {link_count}, expected {}",
                subdirectories + 2
            ));
        }
    }
    let inode_count = snapshot.inodes.row_count;
    if next_inode != inode_count + 1 {
        let what = format!("{} inodes are reached, there are {inode_count}", next_inode - 1);
        context.findings.add(place, None, what);
    }
    let mut missing: Vec<_> = links.into_iter().filter(|(_, left)| *left > 0).collect();
    missing.sort_unstable();
    for (inode, left) in missing {
        if context.findings.is_full() {
            break;
        }
        context.findings.add(place, None, format!("inode {inode}: {left} names are missing"));
    }
    Ok(())
}

fn kind_of(
    modes: &mut Column<'_, TablePages<'_>>,
    inode: u64,
) -> Result<Option<InodeKind>, PageFault> {
    let mode = modes.u64(inode - 1)?;
    Ok(u32::try_from(mode).ok().and_then(InodeKind::from_mode))
}

/// Checks that the names of a directory ascend and do not repeat.
fn check_order(context: &Context<'_>, snapshot: &Snapshot, place: &str) -> Result<(), Stop> {
    let directory_pages = TablePages::new(context.store, &snapshot.directories)?;
    let entry_pages = TablePages::new(context.store, &snapshot.entries)?;
    let directory_table = Table::new(snapshot.directories, &directories::SCHEMA, &directory_pages)?;
    let entry_table = Table::new(snapshot.entries, &entries::SCHEMA, &entry_pages)?;
    let mut firsts = directory_table.column(directories::ENTRY_FIRST);
    let mut before = Vec::new();
    // The next directory and its first row. The last one is the end of all entries.
    let (mut next, mut next_first) = (0, 0);
    let mut result = Ok(());
    let visit = |row, name: &[u8]| {
        let begins = row == next_first;
        while row >= next_first {
            next += 1;
            next_first = match firsts.u64(next) {
                Ok(first) => first,
                Err(fault) => {
                    result = Err(fault.into());
                    return false;
                }
            };
        }
        if !begins && name <= before.as_slice() {
            let what = format!("row {row}: name `{}` is not in order", name.escape_ascii());
            context.findings.add(place, None, what);
        }
        before.clear();
        before.extend_from_slice(name);
        if row % NAMES_PER_LOOK == 0
            && let Err(cancelled) = context.check_cancel()
        {
            result = Err(Stop::Cancelled(cancelled));
        }
        !context.findings.is_full() && result.is_ok()
    };
    entry_table.scan_bytes(entries::NAME, 0..entry_table.row_count(), visit)?;
    result
}
