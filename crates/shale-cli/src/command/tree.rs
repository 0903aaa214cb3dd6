//! `shale tree`.

use std::io::{BufWriter, Write};

use anyhow::bail;
use shale::listing::{Entry, each_entry, resolve};
use shale::read::{InodeKind, Options};

use super::attributes::with_target;
use super::ls;
use crate::args::{Ls, TreeArgs};
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{open, text};

/// One directory being shown: entries still to come, next one last.
struct Level {
    ahead: Vec<Entry>,
    prefix: String,
}

/// Draws a tree. Memory grows with the entries of the directories that are open at a time.
/// For machines the same as a list of all below, as a drawing is of no use to them.
pub fn run(args: &TreeArgs, say: &Say) -> anyhow::Result<Exit> {
    if say.json {
        if args.depth.is_some() {
            bail!(Misuse("--depth is for the drawing; --json lists all below".to_owned()));
        }
        let (image, path) = (args.image.clone(), args.path.clone());
        return ls::run(
            &Ls { image, path, long: false, recursive: true, all: true, zero: false },
            say,
        );
    }
    let tree = open::tree(&args.image, Options::default(), say)?;
    let raw = !say.escapes_names();
    let path = args.path.as_deref().map_or(&b"/"[..], text::bytes);
    let top = resolve(&tree, path, true)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    out.write_all(&text::shown(path, raw))?;
    out.write_all(b"\n")?;
    let (mut directories, mut others) = (0u64, 0u64);
    let entries = |inode| -> anyhow::Result<Vec<Entry>> {
        let mut all = Vec::new();
        each_entry(&tree, inode, |entry| -> anyhow::Result<()> {
            all.push(entry);
            Ok(())
        })?;
        all.reverse();
        Ok(all)
    };
    let mut levels = Vec::new();
    if top.kind == InodeKind::Directory && args.depth != Some(0) {
        levels.push(Level { ahead: entries(top.inode)?, prefix: String::new() });
    }
    while let Some(level) = levels.last_mut() {
        let Some(entry) = level.ahead.pop() else {
            levels.pop();
            continue;
        };
        let last = level.ahead.is_empty();
        out.write_all(level.prefix.as_bytes())?;
        out.write_all(if last { "└── " } else { "├── " }.as_bytes())?;
        let target = match entry.attributes.kind {
            InodeKind::Symlink => Some(tree.link_target(entry.attributes.inode)?),
            _ => None,
        };
        out.write_all(&with_target(&entry.name, target.as_deref(), raw))?;
        out.write_all(b"\n")?;
        if entry.attributes.kind == InodeKind::Directory {
            directories += 1;
            let prefix = format!("{}{}", level.prefix, if last { "    " } else { "│   " });
            if args.depth.is_none_or(|depth| levels.len() < depth) {
                let ahead = entries(entry.attributes.inode)?;
                levels.push(Level { ahead, prefix });
            }
        } else {
            others += 1;
        }
    }
    writeln!(out, "\n{directories} directories, {others} files")?;
    out.flush()?;
    Ok(Exit::Done)
}
