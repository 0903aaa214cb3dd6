//! `shale dump`.

use std::io::{BufWriter, Write};

use anyhow::bail;
use serde_json::{Map, Value as Json};
use shale::dump::{Record, TABLE_NAMES, TableName, Value, What, dump};
use shale::read::Options;

use crate::args::Dump;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{open, text};

/// Shows structures with their offsets.
///
/// # Errors
/// The structure does not exist, or the image cannot be read.
pub fn run(args: &Dump, say: &Say) -> anyhow::Result<Exit> {
    let tree = open::tree(&args.image, Options::default(), say)?;
    // The tables of the selected snapshot; of several snapshots with this name, the newest.
    let snapshots = tree.image().snapshots();
    let number = snapshots.iter().rposition(|snapshot| snapshot == tree.snapshot());
    let wanted = wanted(&args.what, number)?;
    let (first, end) = args.range.unwrap_or((0, u64::MAX));
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut broken = None;
    let mut count = 0u64;
    for what in &wanted {
        dump(tree.image(), what, first..end, &mut |record| {
            let written = if say.json {
                let comma: &[u8] = if count == 0 { b"[\n" } else { b",\n" };
                out.write_all(comma)
                    .and_then(|()| Ok(serde_json::to_writer(&mut out, &json(&record))?))
            } else {
                out.write_all(line(&record).as_bytes())
            };
            count += 1;
            broken = written.err();
            broken.is_none()
        })?;
        if let Some(error) = broken {
            return Err(error.into());
        }
    }
    if count == 0
        && let Some((first, _)) = args.range
    {
        bail!("{} has no number {first} or above", args.what.join(" "));
    }
    if say.json {
        out.write_all(if count == 0 { b"[]\n" } else { b"\n]\n" })?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn wanted(words: &[String], snapshot: Option<usize>) -> anyhow::Result<Vec<What>> {
    let name = |word| name(word, snapshot);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(match words.as_slice() {
        [] => vec![What::Superblock, What::Sections, What::Trailer, What::Root, What::Tables],
        ["superblock"] => vec![What::Superblock],
        ["sections"] => vec![What::Sections],
        ["trailer"] => vec![What::Trailer],
        ["root"] => vec![What::Root],
        ["tables"] => vec![What::Tables],
        ["pages", table] => vec![What::Pages(name(table)?)],
        [table] => vec![What::Rows(name(table)?)],
        _ => bail!(Misuse("name one structure, or `pages` and a table".to_owned())),
    })
}

fn name(word: &str, snapshot: Option<usize>) -> anyhow::Result<TableName> {
    if !TABLE_NAMES.contains(&word) {
        bail!(Misuse(format!(
            "`{word}` is not a structure; use superblock, sections, trailer, root, tables, pages \
             TABLE, or one of the tables {}",
            TABLE_NAMES.join(", ")
        )));
    }
    Ok(TableName { name: word.to_owned(), snapshot })
}

fn line(record: &Record) -> String {
    let mut out = record.structure.clone();
    if let Some(index) = record.index {
        out += &format!(" {index}");
    }
    if let (Some(offset), Some(len)) = (record.offset, record.len) {
        out += &format!(" at {offset}..{}", offset.saturating_add(len));
    }
    out.push(':');
    for (name, value) in &record.fields {
        out += &match value {
            Value::Number(number) => format!(" {name}={number}"),
            Value::Signed(number) => format!(" {name}={number}"),
            Value::Hex(number) => format!(" {name}={number:016x}"),
            Value::Text(words) => format!(" {name}={words}"),
            Value::Bytes(bytes) => format!(" {name}=\"{}\"", text::escape(bytes)),
        };
    }
    out.push('\n');
    out
}

fn json(record: &Record) -> Json {
    let mut object = Map::new();
    object.insert("structure".to_owned(), record.structure.clone().into());
    for (key, value) in [("index", record.index), ("offset", record.offset), ("len", record.len)] {
        if let Some(value) = value {
            object.insert(key.to_owned(), value.into());
        }
    }
    let mut fields = Map::new();
    for (name, value) in &record.fields {
        match value {
            Value::Number(number) => fields.insert(name.clone(), (*number).into()),
            Value::Signed(number) => fields.insert(name.clone(), (*number).into()),
            Value::Hex(number) => fields.insert(name.clone(), format!("{number:016x}").into()),
            Value::Text(words) => fields.insert(name.clone(), words.clone().into()),
            Value::Bytes(bytes) => {
                text::put_name(&mut fields, name, bytes);
                None
            }
        };
    }
    object.insert("fields".to_owned(), fields.into());
    object.into()
}
