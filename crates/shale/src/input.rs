//! What is packed: directory trees, and archives of other formats told by their first bytes; which
//! parts of them, below which prefix, with which metadata.

pub mod rules; // filter rules as rsync has them
mod choose; // what is taken
mod adjust; // other metadata
mod chmod; // changes of permissions
mod join; // several sources as one
mod image; // an image of ShaleFS as a source

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shale_foreign::detect::DETECT_LEN;
use shale_foreign::{
    DwarfsSource, Format, ImageFile, SquashfsSource, TarOptions, TarSource, ZipSource, detect,
};
use shale_write::source::LinkId;
use shale_write::{DirectorySource, ManifestSource, ScanOptions, Select, Source};

use crate::create::CreateOptions;
use crate::error::Error;
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
        let select = options.choose.select(&prefix);
        let (mut source, is_tree) = open_one(input, &excluded, select, options, progress)?;
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
            let stdin = Box::new(io::stdin());
            return Ok((archive(input.name(), stdin, Vec::new(), select)?, false));
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
        return Ok((Box::new(DirectorySource::open(path, &scan, progress)?), true));
    }
    let file = File::open(path).map_err(Error::io("open", path))?;
    if found.is_file()
        && let Some(source) = foreign_image(path, &file, select.clone())?
    {
        return Ok((source, false));
    }
    let seed = match found.is_file() {
        true => samples(&file, found.len()).map_err(Error::io("read", path))?,
        false => Vec::new(),
    };
    Ok((archive(path, Box::new(file), seed, select)?, false))
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

/// An archive that is read at offsets; `None` if it is none of those.
fn foreign_image(
    path: &Path,
    file: &File,
    select: Option<Arc<dyn Select>>,
) -> Result<Option<Box<dyn Source>>, Error> {
    let mut head = vec![0; DETECT_LEN];
    let len = file.read_at(&mut head, 0).map_err(Error::io("read", path))?;
    head.truncate(len);
    let format = detect(&head);
    if is_shale(&head) {
        let file = file.try_clone().map_err(Error::io("open", path))?;
        return Ok(Some(Box::new(image::ImageSource::open(file, path, select)?)));
    }
    // Only a DwarFS image is looked for behind something that is of no known format.
    let start = match format {
        Some(Format::Squashfs | Format::Zip | Format::Dwarfs) => 0,
        Some(_) => return Ok(None),
        None => match behind_header(file).map_err(Error::io("read", path))? {
            Some(start) => start,
            None => return Ok(None),
        },
    };
    let file = file.try_clone().map_err(Error::io("open", path))?;
    let len = file.metadata().map_err(Error::io("look at", path))?.len();
    let seed = samples(&file, len).map_err(Error::io("read", path))?;
    let file = ImageFile::new(file, start).map_err(Error::io("look at", path))?;
    Ok(match format {
        Some(Format::Squashfs) => Some(Box::new(SquashfsSource::new(path, file, &seed, select)?)),
        Some(Format::Zip) => Some(Box::new(ZipSource::new(path, file, &seed, select)?)),
        _ => Some(Box::new(DwarfsSource::new(path, file, &seed, select.as_deref())?)),
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

/// An archive that is read from front to back.
fn archive(
    name: &Path,
    mut stream: Box<dyn Read + Send>,
    seed: Vec<u8>,
    select: Option<Arc<dyn Select>>,
) -> Result<Box<dyn Source>, Error> {
    let mut head = Vec::new();
    let read = stream.by_ref().take(DETECT_LEN as u64).read_to_end(&mut head);
    read.map_err(Error::io("read", name))?;
    let format = detect(&head);
    let stream = Box::new(io::Cursor::new(head).chain(stream));
    let compression = match format {
        Some(Format::Tar) => None,
        Some(Format::Compressed(format)) => Some(format),
        Some(_) => return Err(Error::NotStream { path: name.to_owned() }),
        None => return Err(Error::NotInput { path: name.to_owned() }),
    };
    let options = TarOptions { seed, select, ..TarOptions::default() };
    Ok(Box::new(TarSource::new(name, stream, compression, options)?))
}

/// Bytes all over a file, so that two archives that begin alike are not taken for one: its length
/// and [`SAMPLE_COUNT`] pieces. Costs as many reads.
fn samples(file: &File, len: u64) -> io::Result<Vec<u8>> {
    const SAMPLE_COUNT: u64 = 256;
    const SAMPLE_LEN: usize = 4096;
    let mut out = len.to_le_bytes().to_vec();
    let mut buffer = [0; SAMPLE_LEN];
    let last = len.saturating_sub(SAMPLE_LEN as u64);
    for index in 0..SAMPLE_COUNT {
        let at = u128::from(last) * u128::from(index) / u128::from(SAMPLE_COUNT - 1);
        let read = file.read_at(&mut buffer, at as u64)?;
        out.extend_from_slice(&buffer[..read]);
    }
    Ok(out)
}
