//! `shale diff`.

use std::ffi::{OsStr, OsString};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value};
use shale::query::{Aspect, Change, ChangeKind, DiffOptions, DiffReport, Side, diff};
use shale::read::{InodeKind, Options};

use crate::args::Diff;
use crate::attributes::kind_name;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, size, text};

/// Compares two trees and prints what differs.
///
/// # Errors
/// A tree does not exist or cannot be read.
pub fn run(args: &Diff, say: &Say) -> anyhow::Result<Exit> {
    let (old, new) = sides(&args.old, &args.new, say)?;
    let mut options = DiffOptions::default();
    options.times = !args.no_times;
    options.owners = !args.no_owners;
    options.xattrs = !args.no_xattrs;
    options.content = !args.no_content;
    options.moves = !args.no_moves;
    let (changes, report) = diff(&old, &new, &options)?;
    if say.json {
        let changes = if args.stat { Vec::new() } else { changes.iter().map(object).collect() };
        say.value(&totals(&report, changes))?;
    } else {
        let mut out = BufWriter::new(std::io::stdout().lock());
        if !args.stat {
            for change in &changes {
                out.write_all(&line(change, !say.escapes_names()))?;
            }
        }
        if args.stat {
            writeln!(
                out,
                "{} added, {} removed, {} changed, {} moved; {} of new content",
                report.added,
                report.removed,
                report.changed,
                report.moved,
                size::show(report.bytes_new)
            )?;
        }
        out.flush()?;
    }
    Ok(if report.differs() { Exit::Negative } else { Exit::Done })
}

/// Opens both sides. Two snapshots of one file share one open image, so that their contents are
/// compared by number.
fn sides(old: &OsStr, new: &OsStr, say: &Say) -> anyhow::Result<(Side, Side)> {
    let (old, new) = (Named::parse(old), Named::parse(new));
    let old_side = old.open(say)?;
    if let (Named::Image { path, .. }, Named::Image { path: other, snapshot }) = (&old, &new)
        && path == other
        && let Side::Snapshot(tree) = &old_side
    {
        let choice = open::snapshot(snapshot.as_deref());
        let tree = tree.image().tree(&choice).with_context(|| text::path(Path::new(path)))?;
        return Ok((old_side, Side::Snapshot(tree)));
    }
    Ok((old_side, new.open(say)?))
}

enum Named {
    Directory(OsString),
    Image { path: OsString, snapshot: Option<OsString> },
}

impl Named {
    fn parse(word: &OsStr) -> Self {
        if Path::new(word).is_dir() {
            return Self::Directory(word.to_owned());
        }
        let (path, snapshot) = open::split_snapshot(word);
        Self::Image { path: path.into_os_string(), snapshot }
    }

    fn open(&self, say: &Say) -> anyhow::Result<Side> {
        match self {
            Self::Directory(path) => Ok(Side::Directory(path.into())),
            Self::Image { path, snapshot } => {
                let image = open::image(Path::new(path), Options::default(), say)?;
                let tree = image.tree(&open::snapshot(snapshot.as_deref()));
                Ok(Side::Snapshot(tree.with_context(|| text::path(Path::new(path)))?))
            }
        }
    }
}

fn line(change: &Change, raw: bool) -> Vec<u8> {
    let slash = if change.inode_kind == InodeKind::Directory { &b"/"[..] } else { b"" };
    let (mark, aspects, from) = match &change.kind {
        ChangeKind::Added => ('+', String::new(), None),
        ChangeKind::Removed => ('-', String::new(), None),
        ChangeKind::Moved(from) => ('>', String::new(), Some(from)),
        ChangeKind::Changed(aspects) => ('M', aspects.iter().map(|a| letter(*a)).collect(), None),
        _ => ('?', String::new(), None),
    };
    let mut out = format!("{mark} {aspects:<9} ").into_bytes();
    if let Some(from) = from {
        out.extend_from_slice(&text::shown(from, raw));
        out.extend_from_slice(b" -> ");
    }
    out.extend_from_slice(&text::shown(&change.path, raw));
    out.extend_from_slice(slash);
    out.push(b'\n');
    out
}

fn letter(aspect: Aspect) -> char {
    match aspect {
        Aspect::Type => 't',
        Aspect::Content => 'c',
        Aspect::Target => 'l',
        Aspect::Device => 'd',
        Aspect::Mode => 'p',
        Aspect::Owner => 'o',
        Aspect::Group => 'g',
        Aspect::Mtime => 'm',
        Aspect::Xattrs => 'x',
        _ => '?',
    }
}

fn word(aspect: &Aspect) -> Value {
    let word = match aspect {
        Aspect::Type => "type",
        Aspect::Content => "content",
        Aspect::Target => "target",
        Aspect::Device => "device",
        Aspect::Mode => "mode",
        Aspect::Owner => "owner",
        Aspect::Group => "group",
        Aspect::Mtime => "mtime",
        Aspect::Xattrs => "xattrs",
        _ => "other",
    };
    word.into()
}

fn object(change: &Change) -> Value {
    let mut object = Map::new();
    text::put_name(&mut object, "path", &change.path);
    object.insert("kind".to_owned(), kind_name(change.inode_kind).into());
    let (what, details) = match &change.kind {
        ChangeKind::Added => ("added", None),
        ChangeKind::Removed => ("removed", None),
        ChangeKind::Moved(from) => {
            text::put_name(&mut object, "from", from);
            ("moved", None)
        }
        ChangeKind::Changed(aspects) => {
            ("changed", Some(aspects.iter().map(word).collect::<Vec<_>>()))
        }
        _ => ("other", None),
    };
    object.insert("change".to_owned(), what.into());
    if let Some(details) = details {
        object.insert("aspects".to_owned(), details.into());
    }
    object.insert("old_size".to_owned(), change.lens.0.into());
    object.insert("new_size".to_owned(), change.lens.1.into());
    Value::Object(object)
}

fn totals(report: &DiffReport, changes: Vec<Value>) -> Value {
    serde_json::json!({
        "old_entries": report.old_entries,
        "new_entries": report.new_entries,
        "added": report.added,
        "removed": report.removed,
        "changed": report.changed,
        "moved": report.moved,
        "bytes_new": report.bytes_new,
        "bytes_compared": report.bytes_compared,
        "changes": changes,
    })
}
