//! `shale tree`.

use std::io::{BufWriter, Write};

use anyhow::bail;
use serde_json::Value;
use shale::listing::{Entry, each_entry, resolve};
use shale::read::{InodeKind, Options, Tree};

use crate::args::TreeArgs;
use crate::attributes::{as_json, with_target};
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{open, size, text};

/// A directory that is being shown, with its remaining entries; the next one is the last.
struct Branch {
    pending: Vec<Entry>,
    /// Bytes of the lines that are drawn in front of its entries.
    prefix_len: usize,
}

/// Draws a tree; with `--json`, lists everything below the path instead. Memory grows with the
/// entries of the directories that are open at one time.
///
/// # Errors
/// The path does not exist, or the image cannot be read.
pub fn run(args: &TreeArgs, say: &Say) -> anyhow::Result<Exit> {
    let tree = open::tree(&args.image, Options::default(), say)?;
    let path = args.path.as_deref().map_or(&b"/"[..], text::bytes);
    if say.json {
        if args.depth.is_some() {
            bail!(Misuse(
                "--depth cannot be used with --json, which lists everything below the path"
                    .to_owned()
            ));
        }
        return list_as_json(&tree, path, args.directories);
    }
    let raw = !say.escapes_names();
    let top = resolve(&tree, path, true)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    out.write_all(&text::shown(path, raw))?;
    out.write_all(b"\n")?;
    let (mut directories, mut others) = (0u64, 0u64);
    let entries = |inode| -> anyhow::Result<Vec<Entry>> {
        let mut all = Vec::new();
        each_entry(&tree, inode, |entry| -> anyhow::Result<()> {
            if !args.directories || entry.attributes.kind == InodeKind::Directory {
                all.push(entry);
            }
            Ok(())
        })?;
        all.reverse();
        Ok(all)
    };
    let mut levels = Vec::new();
    // What the levels draw is the beginning of what the deepest one draws.
    let mut prefix = String::new();
    if top.kind == InodeKind::Directory && args.depth != Some(0) {
        levels.push(Branch { pending: entries(top.inode)?, prefix_len: 0 });
    }
    while let Some(level) = levels.last_mut() {
        let Some(entry) = level.pending.pop() else {
            levels.pop();
            continue;
        };
        let last = level.pending.is_empty();
        prefix.truncate(level.prefix_len);
        out.write_all(prefix.as_bytes())?;
        out.write_all(if last { "└── " } else { "├── " }.as_bytes())?;
        if args.human_readable {
            write!(out, "[{:>5}]  ", size::brief(entry.attributes.size))?;
        }
        let target = match entry.attributes.kind {
            InodeKind::Symlink => Some(tree.link_target(entry.attributes.inode)?),
            _ => None,
        };
        out.write_all(&with_target(&entry.name, target.as_deref(), raw))?;
        out.write_all(b"\n")?;
        if entry.attributes.kind == InodeKind::Directory {
            directories += 1;
            if args.depth.is_none_or(|depth| levels.len() < depth) {
                prefix.push_str(if last { "    " } else { "│   " });
                let pending = entries(entry.attributes.inode)?;
                levels.push(Branch { pending, prefix_len: prefix.len() });
            }
        } else {
            others += 1;
        }
    }
    match args.directories {
        true => writeln!(out, "\n{directories} directories")?,
        false => writeln!(out, "\n{directories} directories, {others} files")?,
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// Lists everything below a path as JSON, each directory after the entries of its parent. Memory
/// grows with the directories that are still to be listed.
fn list_as_json(tree: &Tree, path: &[u8], is_directories_only: bool) -> anyhow::Result<Exit> {
    let top = resolve(tree, path, true)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    out.write_all(b"[")?;
    let mut separator: &[u8] = b"\n";
    // The next directory is the last.
    let mut pending = vec![(top.inode, Vec::new())];
    while let Some((inode, prefix)) = pending.pop() {
        let mut below = Vec::new();
        each_entry(tree, inode, |entry| -> anyhow::Result<()> {
            let kind = entry.attributes.kind;
            let name = [&prefix, &entry.name[..]].concat();
            if kind == InodeKind::Directory || !is_directories_only {
                let mut object = as_json(&entry.attributes);
                text::put_name(&mut object, "name", &name);
                if kind == InodeKind::Symlink {
                    let target = tree.link_target(entry.attributes.inode)?;
                    text::put_name(&mut object, "target", &target);
                }
                out.write_all(std::mem::replace(&mut separator, b",\n"))?;
                serde_json::to_writer(&mut out, &Value::Object(object))?;
            }
            if kind == InodeKind::Directory {
                below.push((entry.attributes.inode, [&name[..], b"/"].concat()));
            }
            Ok(())
        })?;
        pending.extend(below.into_iter().rev());
    }
    out.write_all(b"\n]\n")?;
    out.flush()?;
    Ok(Exit::Done)
}
