//! `shale ls`.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::{BufWriter, Write};

use serde_json::Value;
use shale::listing::{Entry, each_entry, resolve};
use shale::read::{InodeKind, Options, Tree};

use super::select;
use crate::args::{Ls, LsFormat};
use crate::attributes::{Columns, as_json, with_target};
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, text};

/// Lists paths: the entries of directories, or everything below them.
///
/// # Errors
/// A path does not exist, or the image cannot be read.
pub fn run(args: &Ls, say: &Say) -> anyhow::Result<Exit> {
    let tree = open::tree(&args.image, Options::default(), say)?;
    let paths = select::expand(&tree, &args.paths)?;
    let format = match (&args.format, args.long) {
        (Some(format), _) => format.clone(),
        (None, true) => LsFormat::Long,
        (None, false) => LsFormat::Names,
    };
    let mut lister = Lister {
        tree: &tree,
        args,
        columns: Columns::new(args.human_readable, args.numeric),
        first_names: HashMap::new(),
        is_json: say.json,
        is_raw: args.zero || !say.escapes_names(),
        out: BufWriter::new(std::io::stdout().lock()),
        count: 0,
        format,
    };
    if args.recursive || matches!(lister.format, LsFormat::Tar) {
        tree.will_list();
    }
    if say.json {
        lister.out.write_all(b"[")?;
    }
    lister.paths(&paths)?;
    if say.json {
        lister.out.write_all(b"\n]\n")?;
    }
    lister.out.flush()?;
    Ok(Exit::Done)
}

struct Lister<'a> {
    tree: &'a Tree,
    args: &'a Ls,
    format: LsFormat,
    columns: Columns,
    /// First names of files with several names, by inode: lines like those of tar(1) show them.
    first_names: HashMap<u64, Vec<u8>>,
    is_json: bool,
    is_raw: bool,
    out: BufWriter<std::io::StdoutLock<'static>>,
    count: u64,
}

impl Lister<'_> {
    /// Lists files first, then the entries of each directory.
    fn paths(&mut self, paths: &[Vec<u8>]) -> anyhow::Result<()> {
        let is_tar = !self.is_json && matches!(self.format, LsFormat::Tar);
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        for path in paths {
            let found = resolve(self.tree, path, !self.args.directory && !self.args.long)?;
            let entry = Entry { name: path.clone(), attributes: found };
            match found.kind == InodeKind::Directory && !self.args.directory {
                true => directories.push(entry),
                false => files.push(entry),
            }
        }
        self.sort(&mut files);
        for file in &files {
            self.show(&file.name, file)?;
        }
        self.sort(&mut directories);
        let has_headers = paths.len() > 1 && !self.is_json && !is_tar && !self.args.zero;
        for directory in &directories {
            if has_headers {
                let blank = if self.count > 0 { "\n" } else { "" };
                write!(self.out, "{blank}")?;
                self.out.write_all(&text::shown(&directory.name, self.is_raw))?;
                self.out.write_all(b":\n")?;
            }
            // Without a header, the name says in which directory an entry is.
            let is_prefixed = is_tar || (paths.len() > 1 && !has_headers);
            let name = directory.name.strip_prefix(b"/").unwrap_or(&directory.name);
            let name = name.strip_suffix(b"/").unwrap_or(name);
            let mut prefix = if is_prefixed { name.to_vec() } else { Vec::new() };
            if is_tar {
                self.show(if prefix.is_empty() { b"." } else { name }, directory)?;
            }
            if !prefix.is_empty() {
                prefix.push(b'/');
            }
            self.entries(directory.attributes.inode, prefix, is_tar)?;
        }
        Ok(())
    }

    /// Lists a directory and, if requested, everything below. Holds the directories that are still
    /// to be listed, and the entries of one directory if they have to be sorted.
    fn entries(&mut self, inode: u64, prefix: Vec<u8>, is_tar: bool) -> anyhow::Result<()> {
        let is_sorted = self.args.by_time || self.args.by_size || self.args.reverse || is_tar;
        // The next directory is the last.
        let mut pending = vec![(inode, prefix)];
        while let Some((inode, prefix)) = pending.pop() {
            let mut below = Vec::new();
            let mut held = Vec::new();
            each_entry(self.tree, inode, |entry| -> anyhow::Result<()> {
                if is_sorted {
                    held.push(entry);
                    return Ok(());
                }
                self.entry(&prefix, &entry, &mut below)
            })?;
            self.sort(&mut held);
            if is_tar {
                // Everything in a directory follows it at once.
                for entry in &held {
                    let mut below = Vec::new();
                    self.entry(&prefix, entry, &mut below)?;
                    for (inode, prefix) in below {
                        self.entries(inode, prefix, is_tar)?;
                    }
                }
                continue;
            }
            for entry in &held {
                self.entry(&prefix, entry, &mut below)?;
            }
            pending.extend(below.into_iter().rev());
        }
        Ok(())
    }

    /// Shows an entry, and adds it to the directories below if they are to be listed.
    fn entry(
        &mut self,
        prefix: &[u8],
        entry: &Entry,
        below: &mut Vec<(u64, Vec<u8>)>,
    ) -> anyhow::Result<()> {
        let name = [prefix, &entry.name].concat();
        let is_deep =
            self.args.recursive || (matches!(self.format, LsFormat::Tar) && !self.is_json);
        self.show(&name, entry)?;
        if is_deep && entry.attributes.kind == InodeKind::Directory {
            below.push((entry.attributes.inode, [&name[..], b"/"].concat()));
        }
        Ok(())
    }

    fn sort(&self, entries: &mut [Entry]) {
        let compare = |a: &Entry, b: &Entry| {
            let (x, y) = (&a.attributes, &b.attributes);
            let by_key = match (self.args.by_time, self.args.by_size) {
                (true, _) => (y.mtime.sec, y.mtime.nsec).cmp(&(x.mtime.sec, x.mtime.nsec)),
                (_, true) => y.size.cmp(&x.size),
                _ => Ordering::Equal,
            };
            by_key.then_with(|| a.name.cmp(&b.name))
        };
        match (self.args.by_time || self.args.by_size, self.args.reverse) {
            (_, true) => entries.sort_by(|a, b| compare(b, a)),
            (true, false) => entries.sort_by(compare),
            // Paths keep the order of the command line, and entries are in order already.
            (false, false) => {}
        }
    }

    fn show(&mut self, name: &[u8], entry: &Entry) -> anyhow::Result<()> {
        let attributes = &entry.attributes;
        self.count += 1;
        let needs_target = self.is_json || !matches!(self.format, LsFormat::Names);
        let target = match attributes.kind {
            InodeKind::Symlink if needs_target => Some(self.tree.link_target(attributes.inode)?),
            _ => None,
        };
        if self.is_json {
            let mut object = as_json(attributes);
            text::put_name(&mut object, "name", name);
            if let Some(target) = target {
                text::put_name(&mut object, "target", &target);
            }
            self.out.write_all(if self.count == 1 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut self.out, &Value::Object(object))?;
            return Ok(());
        }
        let shown = text::shown(name, self.is_raw);
        match &self.format {
            LsFormat::Names => self.out.write_all(&shown)?,
            LsFormat::Long => {
                write!(self.out, "{} ", self.columns.long(attributes))?;
                self.out.write_all(&with_target(name, target.as_deref(), self.is_raw))?;
            }
            LsFormat::Tar => return self.show_as_tar(name, entry, target.as_deref()),
            LsFormat::Template(template) => {
                let target = target.map(|target| text::shown(&target, self.is_raw).into_owned());
                let line = template.fill(&self.columns, attributes, &shown, target.as_deref());
                self.out.write_all(&line)?;
                return Ok(());
            }
        }
        self.out.write_all(if self.args.zero { b"\0" } else { b"\n" })?;
        Ok(())
    }

    fn show_as_tar(
        &mut self,
        name: &[u8],
        entry: &Entry,
        target: Option<&[u8]>,
    ) -> anyhow::Result<()> {
        let attributes = &entry.attributes;
        let is_directory = attributes.kind == InodeKind::Directory;
        let first = match attributes.link_count > 1 && !is_directory {
            true => self.first_names.get(&attributes.inode).cloned(),
            false => None,
        };
        write!(self.out, "{} ", self.columns.tar(attributes, first.is_some()))?;
        match (&first, target) {
            (Some(first), _) => {
                self.out.write_all(&text::shown(name, self.is_raw))?;
                self.out.write_all(b" link to ")?;
                self.out.write_all(&text::shown(first, self.is_raw))?;
            }
            (None, target) => self.out.write_all(&with_target(name, target, self.is_raw))?,
        }
        if first.is_none() && attributes.link_count > 1 && !is_directory {
            self.first_names.insert(attributes.inode, name.to_vec());
        }
        self.out.write_all(match (is_directory, self.args.zero) {
            (true, true) => b"/\0",
            (true, false) => b"/\n",
            (false, true) => b"\0",
            (false, false) => b"\n",
        })?;
        Ok(())
    }
}
