//! `shale cat`.

use std::io::Write;

use anyhow::bail;
use shale::listing::resolve;
use shale::read::{InodeKind, Options};

use super::select;
use crate::args::Paths;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, text};

/// Bytes of one read.
const BLOCK_LEN: usize = 1 << 20;

/// Writes files to standard output. Follows symbolic links, as cat(1) does.
///
/// # Errors
/// A path is not a regular file, or the image cannot be read.
pub fn run(args: &Paths, say: &Say) -> anyhow::Result<Exit> {
    let tree = open::tree(&args.image, Options::default(), say)?;
    let mut out = std::io::stdout().lock();
    let mut block = vec![0; BLOCK_LEN];
    for path in &select::expand(&tree, &args.paths)? {
        let found = resolve(&tree, path, true)?;
        if found.kind != InodeKind::File {
            bail!("{} is not a regular file", text::escape(path));
        }
        let mut offset = 0;
        while offset < found.size {
            let len = tree.read(found.inode, offset, &mut block)?;
            if len == 0 {
                bail!("{} ends unexpectedly at offset {offset}", text::escape(path));
            }
            out.write_all(&block[..len])?;
            offset += len as u64;
        }
    }
    out.flush()?;
    Ok(Exit::Done)
}
