//! Lists every path of an image with its size: `cargo run --example list -- IMAGE`.

use std::error::Error;
use std::io::{Write, stdout};

use shale_read::{Image, SnapshotChoice};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: list IMAGE")?;
    let tree = Image::open_path(path)?.tree(&SnapshotChoice::Newest)?;
    let mut out = stdout().lock();
    for entry in tree.walk(tree.root_inode())? {
        let entry = entry?;
        let attributes = entry.attributes;
        write!(out, "{:06o} {:>12} ", attributes.mode(), attributes.size)?;
        // Names are bytes; they need not be UTF-8.
        writeln!(out, "/{}", entry.path.escape_ascii())?;
    }
    Ok(())
}
