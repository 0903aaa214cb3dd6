//! Opens images and snapshots, near or elsewhere, as the options of a command select them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow};
use shale::read::files::{Bases, FilePlace, Gathered, Place, gather};
use shale::read::{
    ByteSource, Fault, FileSource, Image, Log, OffsetChoice, Options, ReadError, SnapshotChoice,
    Tree,
};
use shale::{CheckError, OtherImages};

use crate::args::{ImageArgs, Offset};
use crate::exit::Misuse;
use crate::report::{Say, to_stderr};
use crate::sealed::SealedPlace;
use crate::{elsewhere, foreign, sealed, text};

/// The bases of thin images that the command line names.
static BASES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Adds files, directories and URLs where bases of thin images are looked for.
///
/// # Errors
/// The current directory is not known.
pub fn set_bases(paths: &[PathBuf]) -> anyhow::Result<()> {
    for path in paths {
        // A mount leaves the current directory.
        let path = match elsewhere::is_url(path) {
            true => path.clone(),
            false => std::path::absolute(path)?,
        };
        BASES.lock().unwrap_or_else(PoisonError::into_inner).push(path);
    }
    Ok(())
}

/// The bases that the command line names, as words for another process.
pub fn base_words() -> Vec<OsString> {
    let bases = BASES.lock().unwrap_or_else(PoisonError::into_inner);
    bases.iter().flat_map(|path| ["--base".into(), path.clone().into()]).collect()
}

/// Where bases of thin images are looked for, besides the directories of these.
pub fn bases(say: &Say) -> Bases {
    let bases = BASES.lock().unwrap_or_else(PoisonError::into_inner);
    Bases(bases.iter().map(|path| place(path, say)).collect())
}

/// The place of a path or URL.
fn place(path: &Path, say: &Say) -> Arc<dyn Place> {
    let place: Arc<dyn Place> = match elsewhere::is_url(path) {
        true => Arc::new(elsewhere::UrlPlace::new(path, *say)),
        false => Arc::new(FilePlace::new(path)),
    };
    Arc::new(SealedPlace::new(place))
}

/// Finds the inputs of a build that are encrypted images, or elsewhere.
pub fn other_images(say: &Say) -> OtherImages {
    let say = *say;
    OtherImages::new(move |path| {
        let is_one = elsewhere::is_url(path)
            || sealed::is_image(path).map_err(|error| io::Error::other(format!("{error:#}")))?;
        Ok(is_one.then(|| place(path, &say)))
    })
}

/// The name of the file at a path or URL, without directories.
pub fn file_name(path: &Path, say: &Say) -> Vec<u8> {
    place(path, say).name()
}

/// Finds all files of an image: other parts beside the first one, and the base of a thin image.
///
/// # Errors
/// A file is missing, is another than it should be, or cannot be opened.
pub fn gathered(path: &Path, say: &Say) -> anyhow::Result<Gathered> {
    let first = file(path, say)?;
    gather(first, &*place(path, say), &bases(say)).map_err(|error| named(path, error.into()))
}

/// Opens an image in whatever files it has.
///
/// # Errors
/// As [`gathered`].
pub fn source(path: &Path, say: &Say) -> anyhow::Result<Arc<dyn ByteSource>> {
    Ok(gathered(path, say)?.source)
}

/// Refuses an image that is not in one file, for a command that changes its file.
///
/// # Errors
/// The image is thin or split.
pub fn only_whole(path: &Path, command: &str) -> anyhow::Result<()> {
    only_file(path, command)?;
    // What cannot be opened is reported by the command.
    let Ok(found) = shale::read::files::open_file(path) else { return Ok(()) };
    let what = match found {
        Gathered { base: Some(_), .. } => "is thin; make it whole with `shale merge --thick`",
        Gathered { parts: 2.., .. } => "is split into parts; join them with cat(1)",
        _ => return Ok(()),
    };
    anyhow::bail!(
        "{}: `{command}` needs an image in one file, and this one {what}",
        text::path(path)
    )
}

/// Opens the file at a path, or the object that a URL names.
///
/// # Errors
/// It cannot be opened, or is a directory.
pub fn file(path: &Path, say: &Say) -> anyhow::Result<Arc<dyn ByteSource>> {
    if elsewhere::is_url(path) {
        return sealed::opened(elsewhere::open(path, say)?)
            .with_context(|| text::path(Path::new(&elsewhere::shown(path))).to_string());
    }
    let open = || -> std::io::Result<FileSource> {
        if std::fs::metadata(path)?.is_dir() {
            return Err(std::io::Error::other("it is a directory, not an image"));
        }
        FileSource::open(path)
    };
    let file = open().with_context(|| format!("cannot open {}", text::path(path)))?;
    sealed::opened(Arc::new(file)).with_context(|| text::path(path).to_string())
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

/// Refuses a URL and an encrypted image, for a command that changes the file of an image or writes
/// beside it.
///
/// # Errors
/// `path` is a URL, or its file is encrypted.
pub fn only_file(path: &Path, command: &str) -> anyhow::Result<()> {
    match elsewhere::is_url(path) {
        true => Err(Misuse(format!(
            "{}: `{command}` needs a file of this machine; download the image first",
            text::path(path)
        ))
        .into()),
        false => sealed::only_plain(path, command),
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
