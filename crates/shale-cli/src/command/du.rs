//! `shale du`.

use std::collections::HashSet;
use std::io::{BufWriter, Write};

use serde_json::{Map, Value};
use shale::listing::resolve;
use shale::read::{InodeKind, Options, Tree};

use super::select;
use crate::args::Du;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, size, text};

/// Shows how many bytes the files below each directory have before compression.
///
/// # Errors
/// A path does not exist, or the image cannot be read.
pub fn run(args: &Du, say: &Say) -> anyhow::Result<Exit> {
    let tree = open::tree(&args.image, Options::default(), say)?;
    let paths = select::expand(&tree, &args.paths)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let raw = !say.escapes_names();
    let mut all = Vec::new();
    let mut counted = HashSet::new();
    let mut total = Usage::default();
    let mut show = |path: &[u8], usage: Usage| -> anyhow::Result<()> {
        if say.json {
            let mut object = Map::new();
            text::put_name(&mut object, "path", path);
            object.insert("bytes".to_owned(), usage.bytes.into());
            object.insert("files".to_owned(), usage.files.into());
            all.push(Value::Object(object));
            return Ok(());
        }
        let bytes = match args.human_readable {
            true => size::brief(usage.bytes),
            false => usage.bytes.to_string(),
        };
        write!(out, "{bytes}\t")?;
        out.write_all(&text::shown(path, raw))?;
        out.write_all(b"\n")?;
        Ok(())
    };
    for path in &paths {
        let usage = each_usage(&tree, path, &mut counted, |path, depth, usage, is_directory| {
            let is_shown = match args.summarize {
                true => depth == 0,
                false => {
                    (is_directory || args.all || depth == 0)
                        && args.max_depth.is_none_or(|max| depth <= max)
                }
            };
            if is_shown { show(path, usage) } else { Ok(()) }
        })?;
        total.add(usage);
    }
    if args.total {
        show(b"total", total)?;
    }
    out.flush()?;
    drop(out);
    if say.json {
        say.value(&all)?;
    }
    Ok(Exit::Done)
}

/// Bytes and number of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes before compression.
    pub bytes: u64,
    /// Regular files, by inode.
    pub files: u64,
}

impl Usage {
    fn add(&mut self, other: Usage) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.files += other.files;
    }
}

/// Calls `visit` with the path, depth and usage of everything below `path`, directories after their
/// entries, and returns the usage of `path`. Inodes in `counted` do not count again. Memory grows
/// with the depth, and with the files that have several names.
///
/// # Errors
/// The path does not exist, the image cannot be read, or `visit` fails.
pub fn each_usage(
    tree: &Tree,
    path: &[u8],
    counted: &mut HashSet<u64>,
    mut visit: impl FnMut(&[u8], usize, Usage, bool) -> anyhow::Result<()>,
) -> anyhow::Result<Usage> {
    let start = resolve(tree, path, false)?;
    let full = |below: &[u8]| match below.is_empty() {
        true => path.to_vec(),
        false => [path.strip_suffix(b"/").unwrap_or(path), b"/", below].concat(),
    };
    // Directories on the way down, with the length of their path.
    let mut open: Vec<(usize, Usage)> = Vec::new();
    let mut last_path = Vec::new();
    let mut walk = tree.walk(start.inode)?;
    while let Some(step) = walk.advance()? {
        while open.len() > step.depth {
            close(&mut open, &last_path, full, &mut visit)?;
        }
        let attributes = step.attributes;
        if attributes.kind == InodeKind::Directory {
            open.push((step.path.len(), Usage::default()));
            last_path = step.path.to_vec();
            continue;
        }
        let mut usage = Usage::default();
        let is_new = attributes.link_count < 2 || counted.insert(attributes.inode);
        if attributes.kind == InodeKind::File && is_new {
            usage = Usage { bytes: attributes.size, files: 1 };
        }
        visit(&full(step.path), step.depth, usage, false)?;
        match open.last_mut() {
            Some((_, directory)) => directory.add(usage),
            None => return Ok(usage),
        }
    }
    let mut usage = Usage::default();
    while !open.is_empty() {
        usage = close(&mut open, &last_path, full, &mut visit)?;
    }
    Ok(usage)
}

/// Visits the innermost open directory and adds it to its parent.
fn close(
    open: &mut Vec<(usize, Usage)>,
    last_path: &[u8],
    full: impl Fn(&[u8]) -> Vec<u8>,
    visit: &mut impl FnMut(&[u8], usize, Usage, bool) -> anyhow::Result<()>,
) -> anyhow::Result<Usage> {
    let Some((path_len, usage)) = open.pop() else { return Ok(Usage::default()) };
    visit(&full(&last_path[..path_len]), open.len(), usage, true)?;
    if let Some((_, parent)) = open.last_mut() {
        parent.add(usage);
    }
    Ok(usage)
}
