//! `shale snapshots`.

use std::fmt::Write;

use serde_json::{Map, Value};
use shale::read::{Options, SnapshotChoice};

use crate::args::ImageArgs;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, size, text};

/// Lists the snapshots of an image, oldest first, and what each added.
///
/// # Errors
/// The image cannot be read.
pub fn run(args: &ImageArgs, say: &Say) -> anyhow::Result<Exit> {
    let options = Options::default().offset(open::offset(args.offset)).expect(args.expect);
    let image = open::image(&args.image, options, say)?;
    let mut lines = String::from("  #     entries        size       added  name\n");
    let mut objects = Vec::new();
    let facts = shale::snapshot_facts(&image);
    for ((number, snapshot), facts) in image.snapshots().iter().enumerate().zip(facts) {
        let tree = image.tree(&SnapshotChoice::Index(number))?;
        if say.json {
            let mut object = Map::new();
            object.insert("number".to_owned(), number.into());
            text::put_name(&mut object, "name", &snapshot.name);
            object.insert("entries".to_owned(), tree.entry_count().into());
            object.insert("inodes".to_owned(), tree.inode_count().into());
            object.insert("file_bytes".to_owned(), tree.file_bytes().into());
            let time = facts.time.map(|sec| format!("{sec}.000000000"));
            object.insert("time".to_owned(), time.into());
            object.insert("added_bytes".to_owned(), facts.added_bytes.into());
            objects.push(Value::Object(object));
        } else {
            let name = text::escape(&snapshot.name);
            let size = size::show(tree.file_bytes());
            let added = facts.added_bytes.map_or_else(|| "-".to_owned(), size::show);
            let entries = tree.entry_count();
            writeln!(lines, "{number:>3} {entries:>11} {size:>11} {added:>11}  {name}")?;
        }
    }
    match say.json {
        true => say.value(&objects)?,
        false => say.raw(lines.as_bytes())?,
    }
    Ok(Exit::Done)
}
