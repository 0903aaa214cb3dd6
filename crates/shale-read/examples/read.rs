//! Writes a file of an image to standard output: `cargo run --example read -- IMAGE PATH`.

use std::error::Error;
use std::io::{copy, stdout};
use std::os::unix::ffi::OsStrExt;

use shale_read::{Image, SnapshotChoice};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(image), Some(path)) = (args.next(), args.next()) else {
        return Err("usage: read IMAGE PATH".into());
    };
    let tree = Image::open_path(image)?.tree(&SnapshotChoice::Newest)?;
    let inode = tree.lookup_path(path.as_bytes())?.ok_or("no such file in the image")?;
    copy(&mut tree.open_file(inode)?, &mut stdout().lock())?;
    Ok(())
}
