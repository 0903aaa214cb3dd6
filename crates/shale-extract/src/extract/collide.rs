//! Looks for files that exist already, before anything is extracted.
//!
//! Walks only directories that exist in the target, so the cost is that of the overlap.

use rustix::fs::AtFlags;
use rustix::io::Errno;
use shale_format::InodeKind;

use shale_host::check_name;
use shale_model::pattern::Position;

use super::context::Context;
use crate::error::Error;

/// Fails with [`Error::TargetsExist`] if any selected file exists already.
pub(super) fn refuse(context: &Context<'_>) -> Result<(), Error> {
    let tree = context.tree;
    let mut count = 0;
    let mut first: Option<Vec<u8>> = None;
    // Path in the target, inode, position, and how many components are still to be stripped.
    let start = context.options.patterns.start();
    let strip = context.options.strip_components;
    let mut ahead: Vec<(Vec<u8>, u64, Position, usize)> =
        vec![(Vec::new(), tree.root_inode(), start, strip)];
    while let Some((path, inode, position, strip)) = ahead.pop() {
        context.options.cancel.check()?;
        // A directory that does not exist or is a link holds no files that could be replaced. A
        // link in the place of a directory is refused when the directory is created.
        let Ok(directory) = context.beneath.directory(&path) else { continue };
        let mut cookie = 0;
        let mut more = true;
        while more {
            more = false;
            tree.list_attributes(inode, cookie, |entry, attributes| {
                let below = context.options.patterns.step(&position, entry.name);
                cookie = entry.cookie;
                if !below.may_match_below() || check_name(entry.name).is_err() {
                    return true;
                }
                let mut entry_path = path.clone();
                if !entry_path.is_empty() {
                    entry_path.push(b'/');
                }
                entry_path.extend_from_slice(entry.name);
                if strip > 0 {
                    if attributes.kind == InodeKind::Directory {
                        ahead.push((Vec::new(), entry.inode, below, strip - 1));
                    }
                    return true;
                }
                if attributes.kind == InodeKind::Directory {
                    ahead.push((entry_path, entry.inode, below, 0));
                } else if below.is_selected() {
                    let found =
                        rustix::fs::statat(&directory, entry.name, AtFlags::SYMLINK_NOFOLLOW);
                    if !matches!(found, Err(Errno::NOENT)) {
                        count += 1;
                        first.get_or_insert(entry_path);
                    }
                }
                // Pauses now and then to test for cancellation.
                more = entry.cookie % 4096 == 0;
                !more
            })?;
            context.options.cancel.check()?;
        }
    }
    match first {
        Some(first) => Err(Error::TargetsExist { target: context.target.to_owned(), count, first }),
        None => Ok(()),
    }
}
