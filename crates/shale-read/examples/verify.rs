//! Reads a whole image under an expected identity: `cargo run --example verify -- IMAGE IDENTITY`.
//!
//! The identity is 64 hexadecimal digits; `shale info` prints it. It must come from a place that
//! you trust. The image may come from anywhere: every byte is verified before it is used.

use std::error::Error;
use std::sync::Arc;

use shale_read::{FileSource, Identity, Image, Options, SnapshotChoice};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(identity)) = (args.next(), args.next()) else {
        return Err("usage: verify IMAGE IDENTITY".into());
    };
    let options = Options::default().expect(identity.parse::<Identity>()?);
    let image = Image::open(Arc::new(FileSource::open(path)?), options)?;
    let (mut file_count, mut byte_count) = (0u64, 0);
    for index in 0..image.snapshots().len() {
        let tree = image.tree(&SnapshotChoice::Index(index))?;
        for entry in tree.walk(tree.root_inode())? {
            let attributes = entry?.attributes;
            if attributes.content().is_some() {
                file_count += 1;
                tree.visit_data(attributes.inode, 0..u64::MAX, |bytes| {
                    byte_count += bytes.len() as u64;
                    true
                })?;
            }
        }
    }
    println!("{file_count} files with {byte_count} bytes are those of {identity}");
    Ok(())
}
