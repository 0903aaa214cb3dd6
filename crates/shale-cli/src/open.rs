//! Opens images and snapshots, near or elsewhere, as the options of a command select them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use shale::CheckError;
use shale::read::{
    ByteSource, Fault, FileSource, Image, Log, OffsetChoice, Options, ReadError, SnapshotChoice,
    Tree,
};

use crate::args::{ImageArgs, Offset};
use crate::exit::Misuse;
use crate::report::{Say, to_stderr};
use crate::{elsewhere, foreign, text};

/// Opens the file of an image, or the object that a URL names.
///
/// # Errors
/// It cannot be opened, or is a directory.
pub fn source(path: &Path, say: &Say) -> anyhow::Result<Arc<dyn ByteSource>> {
    if elsewhere::is_url(path) {
        return elsewhere::open(path, say);
    }
    let open = || -> std::io::Result<FileSource> {
        if std::fs::metadata(path)?.is_dir() {
            return Err(std::io::Error::other("it is a directory, not an image"));
        }
        FileSource::open(path)
    };
    Ok(Arc::new(open().with_context(|| format!("cannot open {}", text::path(path)))?))
}

/// Adds the path to an error. If there is no image because the file has another format, the error
/// names that format instead.
pub fn named(path: &Path, error: anyhow::Error) -> anyhow::Error {
    let is_missing = error.chain().any(|cause| {
        let read = match (cause.downcast_ref(), cause.downcast_ref()) {
            (Some(CheckError::NotImage), _) => return true,
            (Some(CheckError::Read(error)), _) | (_, Some(shale::Error::Read(error))) => {
                Some(error)
            }
            _ => cause.downcast_ref::<ReadError>(),
        };
        read.is_some_and(|error| matches!(error.fault(), Fault::NotImage { .. }))
    });
    match foreign::describe(path).filter(|_| is_missing) {
        Some(what) => anyhow!("{}: not a ShaleFS image: {what}", text::path(path)),
        None => error.context(text::path(path)),
    }
}

/// Refuses a URL, for a command that changes the file of an image or writes beside it.
///
/// # Errors
/// `path` is a URL.
pub fn only_file(path: &Path, command: &str) -> anyhow::Result<()> {
    match elsewhere::is_url(path) {
        true => Err(Misuse(format!(
            "{}: `{command}` needs a file of this machine; download the image first",
            text::path(path)
        ))
        .into()),
        false => Ok(()),
    }
}

/// Translates `--offset`.
pub fn offset(offset: Offset) -> OffsetChoice {
    match offset {
        Offset::Auto => OffsetChoice::Auto,
        Offset::At(offset) => OffsetChoice::At(offset),
    }
}

/// Translates `--snapshot`: `latest`, `#NUMBER`, a name or a time.
pub fn snapshot(wanted: Option<&OsStr>) -> SnapshotChoice {
    wanted
        .map_or(SnapshotChoice::Newest, |wanted| SnapshotChoice::Word(text::bytes(wanted).to_vec()))
}

/// Splits `IMAGE@SNAPSHOT`. A path that exists is that path, whatever it contains; otherwise the
/// text after the last `@` is the snapshot.
pub fn split_snapshot(word: &OsStr) -> (PathBuf, Option<OsString>) {
    let path = PathBuf::from(word);
    let bytes = text::bytes(word);
    // In the first part of a URL it follows a user.
    let in_path = |at: usize| bytes[..at].iter().filter(|&&byte| byte == b'/').count() > 2;
    let is_one = |at: usize| at > 0 && (!elsewhere::is_url(&path) || in_path(at));
    match bytes.iter().rposition(|&byte| byte == b'@') {
        Some(at) if is_one(at) && !path.exists() => {
            let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            (part(&bytes[..at]).into(), Some(part(&bytes[at + 1..])))
        }
        _ => (path, None),
    }
}

/// Opens an image. Prints a warning if its end is damaged and an earlier state was opened. While a
/// process appends to it, that is its newest state.
///
/// # Errors
/// There is no image, or it cannot be read.
pub fn image(path: &Path, mut options: Options, say: &Say) -> anyhow::Result<Arc<Image>> {
    let name = text::path(path);
    let log = Log(Arc::new(move |line: &str| to_stderr(&format!("shale: {name}: {line}"))));
    options.log.get_or_insert(log);
    let open = |options| {
        Image::open(source(path, say)?, options).map_err(|error| named(path, error.into()))
    };
    let mut image = open(options.clone())?;
    if image.recovered().is_some() && !elsewhere::is_url(path) {
        if let Some(process) = shale::grower(path) {
            let name = text::path(path);
            say.detail(format!("{name}: {process} appends to it; using the state before"));
            return Ok(image);
        }
        // The append may have ended since.
        image = open(options)?;
    }
    if let Some(recovery) = image.recovered() {
        say.warn(format!(
            "{}: the end of the image is damaged ({}); using its last complete state of {} bytes. \
             Run `shale check` for details",
            text::path(path),
            recovery.reason,
            recovery.image_len
        ));
    }
    Ok(image)
}

/// Opens the selected snapshot of an image.
///
/// # Errors
/// There is no image or snapshot, or it cannot be read.
pub fn tree(args: &ImageArgs, options: Options, say: &Say) -> anyhow::Result<Tree> {
    let options = options.offset(offset(args.offset)).expect(args.expect);
    let image = image(&args.image, options, say)?;
    let choice = snapshot(args.snapshot.as_deref());
    image.tree(&choice).with_context(|| text::path(&args.image))
}
