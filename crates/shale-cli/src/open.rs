//! An image from its path, as the options of a command say.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use shale::read::{FileSource, Image, Log, OffsetChoice, Options, SnapshotChoice, Source, Tree};

use crate::args::{ImageArgs, Offset};
use crate::report::{Say, to_stderr};
use crate::text;

/// The file as a source of bytes.
pub fn source(path: &Path) -> anyhow::Result<Arc<dyn Source>> {
    let open = || -> std::io::Result<FileSource> {
        if std::fs::metadata(path)?.is_dir() {
            return Err(std::io::Error::other("it is a directory, not an image"));
        }
        FileSource::open(path)
    };
    Ok(Arc::new(open().with_context(|| format!("cannot open {}", text::path(path)))?))
}

/// Where the image begins.
pub fn offset(offset: Offset) -> OffsetChoice {
    match offset {
        Offset::Auto => OffsetChoice::Auto,
        Offset::At(offset) => OffsetChoice::At(offset),
    }
}

/// A snapshot by what the user wrote: a name, or `#` and a number.
pub fn snapshot(wanted: Option<&OsStr>) -> SnapshotChoice {
    let Some(wanted) = wanted else { return SnapshotChoice::Newest };
    let number = wanted.to_str().and_then(|text| text.strip_prefix('#')?.parse().ok());
    match number {
        Some(number) => SnapshotChoice::Index(number),
        None => SnapshotChoice::Name(text::bytes(wanted).to_vec()),
    }
}

/// Opens an image. Says so if it is not the state its end should have.
pub fn image(path: &Path, options: Options, say: &Say) -> anyhow::Result<Arc<Image>> {
    let name = text::path(path);
    let log = Log(Arc::new(move |line: &str| to_stderr(&format!("shale: {name}: {line}"))));
    let options = Options { log: options.log.or(Some(log)), ..options };
    let image = Image::open(source(path)?, options).with_context(|| text::path(path))?;
    if let Some(recovery) = image.recovered() {
        say.warn(format!(
            "{}: the image is not whole ({}); showing the last whole state of {} bytes. \
             `shale check` tells more",
            text::path(path),
            recovery.reason,
            recovery.image_len
        ));
    }
    Ok(image)
}

/// Opens an image and the snapshot asked for.
pub fn tree(args: &ImageArgs, options: Options, say: &Say) -> anyhow::Result<Tree> {
    let options = Options { offset: offset(args.offset), expect: args.expect, ..options };
    let image = image(&args.image, options, say)?;
    let choice = snapshot(args.snapshot.as_deref());
    image.tree(&choice).with_context(|| text::path(&args.image))
}
