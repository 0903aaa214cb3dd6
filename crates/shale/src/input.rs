//! What is packed: directory trees, and archives of other formats told by their first bytes; which
//! parts of them, below which prefix, with which metadata.

pub mod rules; // filter rules as rsync has them
mod choose; // what is taken
mod adjust; // other metadata
mod chmod; // changes of permissions
mod wild; // patterns as rsync and git read them
mod git; // what `.gitignore` files leave out
mod join; // several sources as one
mod follow; // links as what they lead to
mod pipe; // what comes through a pipe
mod image; // an image of ShaleFS as a source

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shale_codec::Hasher;
use shale_foreign::detect::DETECT_LEN;
use shale_foreign::{
    DwarfsSource, Format, ImageFile, SquashfsSource, TarOptions, TarSource, ZipSource, detect,
};
use shale_write::source::LinkId;
use shale_write::{DirectorySource, ManifestSource, ScanOptions, Select, Source};

use crate::create::CreateOptions;
use crate::error::Error;
use follow::Followed;
use git::GitRules;
use join::{Joined, Part, WithoutEmpty};

pub use adjust::{Adjust, IdRange};
pub use chmod::Chmod;
pub use choose::{Choose, Decision, survey};
pub use rules::{NamePattern, RuleError, Rules};

/// Something to be packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Where it is.
    pub kind: InputKind,
    /// Path in the image below which it comes; its root without.
    pub prefix: Option<Vec<u8>>,
}

/// Where an input is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputKind {
    /// A directory, an archive, or a pipe with an archive.
    Path(PathBuf),
    /// An archive that comes through standard input.
    Stdin,
    /// A file that describes a tree (`docs/manifest.md`); `-` is standard input.
    Manifest(PathBuf),
}

impl Input {
    /// Standard input for `-`, else what is at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let kind = match path.as_os_str() == "-" {
            true => InputKind::Stdin,
            false => InputKind::Path(path),
        };
        Self { kind, prefix: None }
    }

    /// A name for people.
    pub fn name(&self) -> &Path {
        match &self.kind {
            InputKind::Path(path) | InputKind::Manifest(path) => path,
            InputKind::Stdin => Path::new("standard input"),
        }
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Input {
    fn from(path: &P) -> Self {
        Self { kind: InputKind::Path(path.as_ref().to_owned()), prefix: None }
    }
}

/// Opens inputs as one source.
pub(crate) fn open(
    inputs: &[Input],
    excluded: Vec<LinkId>,
    options: &CreateOptions,
    progress: &dyn shale_write::Progress,
) -> Result<Box<dyn Source>, Error> {
    let mut parts = Vec::with_capacity(inputs.len());
    for input in inputs {
        let prefix = input.prefix.clone().unwrap_or_default();
        let git = match &input.kind {
            InputKind::Path(path) if options.choose.git_ignore && path.is_dir() => {
                Some(Arc::new(GitRules::new(path)))
            }
            _ => None,
        };
        let select = options.choose.select(&prefix, git.clone());
        let (mut source, is_tree) = open_one(input, &excluded, select, options, progress)?;
        if let Some((path, error)) = git.and_then(|git| git.take_unread()) {
            return Err(Error::io("read", path)(error));
        }
        if !is_tree && !options.adjust.is_nothing() {
            let adjust = Arc::new(options.adjust.clone());
            source = Box::new(adjust::Adjusted { source, adjust });
        }
        parts.push(Part { source, prefix, is_tree });
    }
    if let Some((count, first)) = options.choose.missing() {
        return Err(Error::NotListed { count, first });
    }
    let mut source: Box<dyn Source> = Box::new(Joined::new(parts));
    if options.choose.no_empty_directories {
        source = Box::new(WithoutEmpty::new(source));
    }
    Ok(source)
}

/// Opens one input; true if it is a directory tree.
fn open_one(
    input: &Input,
    excluded: &[LinkId],
    select: Option<Arc<dyn Select>>,
    options: &CreateOptions,
    progress: &dyn shale_write::Progress,
) -> Result<(Box<dyn Source>, bool), Error> {
    let path = match &input.kind {
        InputKind::Stdin => {
            let name = input.name();
            let file = pipe::stdin(options).map_err(Error::io("read", name))??;
            return Ok((archive(name, file, select)?, false));
        }
        InputKind::Manifest(path) => return Ok((Box::new(manifest(path)?), false)),
        InputKind::Path(path) => path,
    };
    let found = std::fs::metadata(path).map_err(Error::io("look at", path))?;
    if found.is_dir() {
        let scan = ScanOptions {
            threads: options.build.threads,
            excluded: excluded.to_vec(),
            one_file_system: options.one_file_system,
            times_kept: options.build.times_kept,
            cancel: Some(options.cancel.flag()),
            select,
            amend: (!options.adjust.is_nothing())
                .then(|| Arc::new(options.adjust.clone()) as Arc<dyn shale_write::Amend>),
        };
        if options.dereference {
            let place = input.prefix.as_deref().unwrap_or_default();
            let followed = Followed::open(path, &scan, &options.choose, place, progress)?;
            return Ok((Box::new(followed), true));
        }
        return Ok((Box::new(DirectorySource::open(path, &scan, progress)?), true));
    }
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    if !found.is_file() {
        file = pipe::keep(file, options).map_err(Error::io("read", path))??;
    }
    Ok((archive(path, file, select)?, false))
}

/// Opens a manifest; files that it names are looked for beside it.
fn manifest(path: &Path) -> Result<ManifestSource, Error> {
    use std::os::unix::ffi::OsStrExt;
    if path == Path::new("-") {
        let input = Box::new(io::stdin());
        return Ok(ManifestSource::open(input, b"standard input", PathBuf::new())?);
    }
    let file = File::open(path).map_err(Error::io("open", path))?;
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    Ok(ManifestSource::open(Box::new(file), path.as_os_str().as_bytes(), base)?)
}

/// Opens an archive or an image of any format, in a file that is read from its beginning.
fn archive(
    path: &Path,
    file: File,
    select: Option<Arc<dyn Select>>,
) -> Result<Box<dyn Source>, Error> {
    let mut head = vec![0; DETECT_LEN];
    let len = file.read_at(&mut head, 0).map_err(Error::io("read", path))?;
    head.truncate(len);
    if is_shale(&head) {
        return Ok(Box::new(image::ImageSource::open(file, path, select)?));
    }
    let format = detect(&head);
    let seed = digest(&file).map_err(Error::io("read", path))?;
    let compression = match format {
        Some(Format::Tar) => None,
        Some(Format::Compressed(format)) => Some(format),
        Some(Format::Squashfs | Format::Zip | Format::Dwarfs) | None => {
            return foreign_image(path, file, format, &seed, select);
        }
    };
    let options = TarOptions { seed: seed.to_vec(), select, ..TarOptions::default() };
    Ok(Box::new(TarSource::new(path, Box::new(file), compression, options)?))
}

/// An archive that is read at offsets.
fn foreign_image(
    path: &Path,
    file: File,
    format: Option<Format>,
    seed: &[u8],
    select: Option<Arc<dyn Select>>,
) -> Result<Box<dyn Source>, Error> {
    // Only a DwarFS image is looked for behind something that is of no known format.
    let start = match format {
        Some(_) => 0,
        None => behind_header(&file)
            .map_err(Error::io("read", path))?
            .ok_or_else(|| Error::NotInput { path: path.to_owned() })?,
    };
    let file = ImageFile::new(file, start).map_err(Error::io("look at", path))?;
    Ok(match format {
        Some(Format::Squashfs) => Box::new(SquashfsSource::new(path, file, seed, select)?),
        Some(Format::Zip) => Box::new(ZipSource::new(path, file, seed, select)?),
        _ => Box::new(DwarfsSource::new(path, file, seed, select.as_deref())?),
    })
}

/// Where a DwarFS image begins behind a header, such as a program that mounts it.
fn behind_header(file: &File) -> io::Result<Option<u64>> {
    const HEADER_LEN_MAX: u64 = 64 << 20;
    const STEP: u64 = 1 << 20;
    let mut buffer = vec![0; STEP as usize + 64];
    for step in 0..HEADER_LEN_MAX / STEP {
        let mut len = 0;
        while len < buffer.len() {
            match file.read_at(&mut buffer[len..], step * STEP + len as u64)? {
                0 => break,
                read => len += read,
            }
        }
        if let Some(at) = shale_foreign::dwarfs::find(&buffer[..len]) {
            return Ok(Some(step * STEP + at));
        }
        if len < buffer.len() {
            break;
        }
    }
    Ok(None)
}

/// Whether a file begins like an image of ShaleFS.
fn is_shale(head: &[u8]) -> bool {
    head.starts_with(&shale_format::superblock::SUPERBLOCK_MAGIC)
}

/// A hash of all bytes of a file: two archives that differ anywhere are two images. Costs one pass
/// over the file, a small part of what packing it takes.
fn digest(file: &File) -> io::Result<[u8; 32]> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        match file.read_at(&mut buffer, at) {
            Ok(0) => return Ok(*hasher.finalize().as_bytes()),
            Ok(len) => {
                hasher.update(&buffer[..len]);
                at += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
