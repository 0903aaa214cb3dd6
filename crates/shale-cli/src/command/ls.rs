//! `shale ls`.

use std::io::{BufWriter, Write};

use serde_json::Value;
use shale::listing::{Entry, each_entry, resolve};
use shale::read::{InodeKind, Options, Tree};

use super::attributes::{as_json, long, with_target};
use crate::args::Ls;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, text};

/// Lists a directory, or all below it.
pub fn run(args: &Ls, say: &Say) -> anyhow::Result<Exit> {
    let tree = open::tree(&args.image, Options::default(), say)?;
    let path = args.path.as_deref().map_or(&b"/"[..], text::bytes);
    let found = resolve(&tree, path, true)?;
    let mut lister = Lister {
        tree: &tree,
        args,
        json: say.json,
        raw: args.zero || !say.escapes_names(),
        out: BufWriter::new(std::io::stdout().lock()),
        first: true,
    };
    if say.json {
        lister.out.write_all(b"[")?;
    }
    if found.kind == InodeKind::Directory {
        // Directories still to list, each with its path, the next one last.
        let mut ahead = vec![(found.inode, Vec::new())];
        while let Some((inode, prefix)) = ahead.pop() {
            let mut below = Vec::new();
            each_entry(&tree, inode, |entry| {
                let mut name = prefix.clone();
                name.extend_from_slice(&entry.name);
                if args.recursive && entry.attributes.kind == InodeKind::Directory {
                    let mut prefix = name.clone();
                    prefix.push(b'/');
                    below.push((entry.attributes.inode, prefix));
                }
                lister.show(&name, &entry)
            })?;
            ahead.extend(below.into_iter().rev());
        }
    } else {
        let name = path.to_vec();
        lister.show(&name, &Entry { name: name.clone(), attributes: found })?;
    }
    if say.json {
        lister.out.write_all(b"\n]\n")?;
    }
    lister.out.flush()?;
    Ok(Exit::Done)
}

struct Lister<'a> {
    tree: &'a Tree,
    args: &'a Ls,
    json: bool,
    raw: bool,
    out: BufWriter<std::io::StdoutLock<'static>>,
    first: bool,
}

impl Lister<'_> {
    fn show(&mut self, name: &[u8], entry: &Entry) -> anyhow::Result<()> {
        let target = match entry.attributes.kind {
            InodeKind::Symlink if self.json || self.args.long => {
                Some(self.tree.link_target(entry.attributes.inode)?)
            }
            _ => None,
        };
        if self.json {
            let mut object = as_json(&entry.attributes);
            text::put_name(&mut object, "name", name);
            if let Some(target) = target {
                text::put_name(&mut object, "target", &target);
            }
            self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
            self.first = false;
            serde_json::to_writer(&mut self.out, &Value::Object(object))?;
            return Ok(());
        }
        if self.args.long {
            write!(self.out, "{} ", long(&entry.attributes))?;
        }
        self.out.write_all(&with_target(name, target.as_deref(), self.raw))?;
        self.out.write_all(if self.args.zero { b"\0" } else { b"\n" })?;
        Ok(())
    }
}
