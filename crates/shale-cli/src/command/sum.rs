//! `shale sum`.

use std::io::{BufWriter, Write};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256, Sha512};
use shale::Patterns;
use shale::read::{InodeKind, Options, Tree};

use super::select;
use crate::args::{Sum, SumAlgorithm};
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{open, text};

/// Bytes of one read.
const BLOCK_LEN: usize = 1 << 20;

/// Writes the checksums of the selected files, as sha256sum(1) does.
///
/// # Errors
/// A pattern is not valid or matches nothing, or the image cannot be read.
pub fn run(args: &Sum, say: &Say) -> anyhow::Result<Exit> {
    let tree = open::tree(&args.image, Options::default(), say)?;
    let patterns: Vec<&[u8]> = args.patterns.iter().map(|p| text::bytes(p)).collect();
    let mut patterns = shale::patterns_in_tree(&patterns, &tree).map_err(Misuse::of)?;
    let excluded: Vec<&[u8]> = args.exclude.iter().map(|p| text::bytes(p)).collect();
    patterns.exclude(&excluded).map_err(Misuse::of)?;
    let unmatched = write(&tree, &patterns, args, say)?;
    for pattern in &unmatched {
        say.warn(format!("{}: nothing in the image matches", text::escape(pattern)));
    }
    for pattern in patterns.unmatched_exclusions() {
        say.warn(format!("--exclude {} matched nothing", text::escape(pattern)));
    }
    Ok(if unmatched.is_empty() { Exit::Done } else { Exit::Partial })
}

/// Writes the list, and returns the patterns that match nothing.
fn write(tree: &Tree, patterns: &Patterns, args: &Sum, say: &Say) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut block = vec![0; BLOCK_LEN];
    let mut all = Vec::new();
    let mut count = 0;
    select::each_selected(tree, patterns, |path, attributes, _| {
        count += 1;
        if attributes.kind != InodeKind::File {
            return Ok(());
        }
        let sum = match args.algorithm {
            SumAlgorithm::Sha256 => sum::<Sha256>(tree, attributes.inode, &mut block)?,
            SumAlgorithm::Sha512 => sum::<Sha512>(tree, attributes.inode, &mut block)?,
        };
        if say.json {
            let mut object = Map::new();
            text::put_name(&mut object, "path", path);
            object.insert(args.algorithm.name().to_owned(), sum.into());
            all.push(Value::Object(object));
            return Ok(());
        }
        // A leading backslash says that the name is escaped.
        let is_escaped = path.iter().any(|byte| b"\\\n\r".contains(byte)) && !args.zero;
        write!(out, "{}{sum}  ", if is_escaped { "\\" } else { "" })?;
        for &byte in path {
            match byte {
                b'\\' if is_escaped => out.write_all(b"\\\\")?,
                b'\n' if is_escaped => out.write_all(b"\\n")?,
                b'\r' if is_escaped => out.write_all(b"\\r")?,
                byte => out.write_all(&[byte])?,
            }
        }
        out.write_all(if args.zero { b"\0" } else { b"\n" })?;
        Ok(())
    })?;
    out.flush()?;
    drop(out);
    let unmatched = select::unmatched(patterns, count)?;
    if say.json {
        say.value(&all)?;
    }
    Ok(unmatched)
}

/// The checksum of a file in hexadecimal.
fn sum<D: Digest>(tree: &Tree, inode: u64, block: &mut [u8]) -> anyhow::Result<String> {
    let mut hasher = D::new();
    let mut offset = 0;
    loop {
        let len = tree.read(inode, offset, block)?;
        if len == 0 {
            return Ok(shale::hex::encode(&hasher.finalize()));
        }
        hasher.update(&block[..len]);
        offset += len as u64;
    }
}
