//! Packs a directory tree into an image and reads it back: names, sizes and the first bytes of each
//! file.
//!
//! `cargo run -p shale --example pack_tree -- DIRECTORY IMAGE`

use std::path::PathBuf;

use shale::listing::each_entry;
use shale::read::{FileSource, Image, InodeKind, Options, SnapshotChoice, Tree};
use shale::{CreateOptions, Error, Input, NoProgress, Output};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args_os().skip(1);
    let (Some(directory), Some(image)) = (words.next(), words.next()) else {
        return Err("usage: pack_tree DIRECTORY IMAGE".into());
    };
    let image = PathBuf::from(image);

    // The image gets its name only after it was read back and compared with the source.
    let options = CreateOptions::default().overwrite(true);
    let source = [Input::new(directory)];
    let report = shale::create(&source, Output::Path(image.clone()), &options, &NoProgress)?;
    println!("{} bytes became {}", report.build.file_bytes, report.build.image_bytes);

    let image = Image::open(std::sync::Arc::new(FileSource::open(&image)?), Options::default())?;
    let tree = image.tree(&SnapshotChoice::Newest)?;
    show(&tree, tree.root_inode(), 0)?;
    Ok(())
}

/// Shows a directory and everything below it.
fn show(tree: &Tree, directory: u64, depth: usize) -> Result<(), Error> {
    let mut directories = Vec::new();
    each_entry::<Error>(tree, directory, |entry| {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let inode = entry.attributes.inode;
        match entry.attributes.kind {
            InodeKind::Directory => directories.push((name, inode)),
            InodeKind::File => {
                let mut start = [0; 8];
                let len = tree.read(inode, 0, &mut start)?;
                let (size, start) = (entry.attributes.size, start[..len].escape_ascii());
                println!("{:depth$}{name}: {size} bytes, \"{start}\"", "");
            }
            kind => println!("{:depth$}{name}: {kind:?}", ""),
        }
        Ok(())
    })?;
    for (name, inode) in directories {
        println!("{:depth$}{name}/", "");
        show(tree, inode, depth + 2)?;
    }
    Ok(())
}
