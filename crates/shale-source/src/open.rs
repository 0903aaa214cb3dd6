//! Opens inputs as one source: directory trees, manifests, and archives recognized by their first
//! bytes.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directory::directory_source::DirectorySource;
use crate::directory::options::ScanOptions;
use crate::manifest::manifest_source::ManifestSource;
use crate::mtree::{self, MtreeSource};
use shale_codec::Hasher;
use shale_foreign::OpenOptions;
use shale_foreign::detect::{Format, detect};
use shale_foreign::lrzip::Spool;
use shale_foreign::oci::{self, OciOptions};
use shale_format::InodeKind;
use shale_host::NoProgress;
use shale_model::{Amend, EntrySource, LinkId, Select};
use shale_read::SnapshotChoice;

use crate::adjust;
use crate::caches::Caches;
use crate::choose::{ByMetadata, Choose};
use crate::copied::added;
use crate::described::{Input, InputKind};
use crate::error::Error;
use crate::follow::Followed;
use crate::git::GitRules;
use crate::image;
use crate::join::{Joined, Part, WithoutEmpty};
use crate::labels::Labelled;
use crate::options::{Container, Password, SourceOptions};
use crate::pipe;
use crate::pseudo::Changed;
use crate::single::{is_single, only};
use crate::whole::read_whole;

/// Bytes of a file that tell whether it is an image, or a tar archive.
const HEAD_LEN: usize = 1024;

/// Opens inputs as one source. Files with the identities `excluded` are left out without a report.
///
/// # Errors
/// An input does not exist, cannot be read or is of no known format; a listed path is in none.
pub fn open(
    inputs: &[Input],
    excluded: Vec<LinkId>,
    options: &SourceOptions,
    progress: &dyn shale_host::Progress,
) -> Result<Box<dyn EntrySource>, Error> {
    let count = inputs.len() + usize::from(options.pseudo.is_some());
    let is_listed = options.replace && count > 1 && inputs.iter().all(can_be_read_twice);
    let claims = match is_listed {
        true => {
            let joined = joined(inputs, &excluded, options, &NoProgress)?;
            Some(joined.list(|| Ok::<_, Error>(options.cancel.check()?))?)
        }
        false => None,
    };
    let mut joined = joined(inputs, &excluded, options, progress)?;
    if let Some(claims) = claims {
        joined = joined.without_replaced(claims);
    }
    Ok(without_empty(joined, options))
}

/// Changes what pseudo files and file contexts say, and leaves out empty directories, if the
/// options say so.
pub fn without_empty(source: Joined, options: &SourceOptions) -> Box<dyn EntrySource> {
    let mut source: Box<dyn EntrySource> = Box::new(source);
    if let Some(pseudo) = options.pseudo.clone() {
        source = Box::new(Changed { source, pseudo });
    }
    if let Some(contexts) = options.file_contexts.clone() {
        source = Box::new(Labelled { source, contexts });
    }
    match options.choose.no_empty_directories {
        true => Box::new(WithoutEmpty::new(source)),
        false => source,
    }
}

/// Returns whether an input is the same when it is read again: no pipe.
fn can_be_read_twice(input: &Input) -> bool {
    match &input.kind {
        InputKind::Stdin => false,
        InputKind::Manifest(path) => path.is_file(),
        InputKind::Path(path) => path.is_file() || path.is_dir(),
    }
}

/// Opens inputs, each below its prefix.
fn joined(
    inputs: &[Input],
    excluded: &[LinkId],
    options: &SourceOptions,
    progress: &dyn shale_host::Progress,
) -> Result<Joined, Error> {
    Ok(Joined::new(parts(inputs, excluded, options, progress)?, options.replace))
}

/// Opens each input.
///
/// # Errors
/// As for [`open`].
pub fn parts(
    inputs: &[Input],
    excluded: &[LinkId],
    options: &SourceOptions,
    progress: &dyn shale_host::Progress,
) -> Result<Vec<Part>, Error> {
    let mut parts = Vec::with_capacity(inputs.len());
    for input in inputs {
        let prefix = input.prefix.clone().unwrap_or_default();
        // The root of an input that has nothing in the share would add directories to it.
        if let Some(share) = &options.choose.share
            && !share.takes(&prefix, InodeKind::Directory)
        {
            continue;
        }
        let git = match &input.kind {
            InputKind::Path(path) if options.choose.git_ignore && path.is_dir() => {
                Some(Arc::new(GitRules::new(path)))
            }
            _ => None,
        };
        let caches = match &input.kind {
            InputKind::Path(path) if options.choose.no_caches && path.is_dir() => {
                Some(Caches::new(path))
            }
            _ => None,
        };
        let select = options.choose.select(&prefix, git.clone(), caches);
        let (mut source, is_tree) = open_one(input, excluded, select.clone(), options, progress)?;
        if let Some((path, error)) = git.and_then(|git| git.take_unread()) {
            return Err(Error::io("read", path)(error));
        }
        if let Some(select) = select.filter(|_| !is_tree && options.choose.is_by_metadata()) {
            let Choose { len_max, newer, .. } = &options.choose;
            let seed = format!("max-size {len_max:?} newer {newer:?}").into_bytes();
            source = Box::new(ByMetadata { source, select, seed });
        }
        if !is_tree && !options.adjust.is_nothing() {
            let adjust = Arc::new(options.adjust.clone());
            source = Box::new(adjust::Adjusted { source, adjust });
        }
        parts.push(Part { source, prefix, is_tree });
    }
    parts.extend(added(options)?);
    if let Some((count, first)) = options.choose.missing() {
        return Err(Error::NotListed { count, first });
    }
    Ok(parts)
}

/// Opens one input; the second value is true for a directory tree.
fn open_one(
    input: &Input,
    excluded: &[LinkId],
    select: Option<Arc<dyn Select>>,
    options: &SourceOptions,
    progress: &dyn shale_host::Progress,
) -> Result<(Box<dyn EntrySource>, bool), Error> {
    let path = match &input.kind {
        InputKind::Stdin => {
            let name = input.name();
            let file = pipe::stdin(name, options)?;
            return Ok((archive(name, file, None, options, select)?, false));
        }
        InputKind::Manifest(path) => return Ok((Box::new(manifest(path)?), false)),
        InputKind::Path(path) => path,
    };
    if options.archive_offset == 0
        && let Some(place) = options.images.find(path).map_err(Error::io("open", path))?
    {
        let first = place.open().map_err(Error::io("open", path))?;
        let snapshot = input.snapshot.as_ref();
        let bases = &options.bases;
        let source = image::ImageSource::at(first, &*place, path, snapshot, select, bases)?;
        return Ok((Box::new(source), false));
    }
    let found = std::fs::metadata(path).map_err(Error::io("look at", path))?;
    let is_single = found.is_file() && options.archive_offset == 0 && is_single(path)?;
    if (found.is_dir() || is_single) && input.snapshot.is_some() {
        return Err(Error::NoSnapshots { path: path.to_owned() });
    }
    if found.is_dir()
        && oci::is_layout(path)
        && let Some(container) = container(options, select.clone())
    {
        return Ok((oci::open_layout(path, &container)?, false));
    }
    if found.is_dir() || is_single {
        let scan = ScanOptions {
            threads: options.threads,
            excluded: excluded.to_vec(),
            one_file_system: options.one_file_system,
            times_kept: options.times_kept,
            no_nodump: options.choose.no_nodump,
            cancel: Some(options.cancel.flag()),
            select,
            amend: (!options.adjust.is_nothing())
                .then(|| Arc::new(options.adjust.clone()) as Arc<dyn Amend>),
        };
        if is_single {
            let (directory, select) = only(path, scan.select.clone())?;
            let scan = ScanOptions { select: Some(select), ..scan };
            return Ok((Box::new(DirectorySource::open(&directory, &scan, progress)?), true));
        }
        if options.dereference {
            let place = input.prefix.as_deref().unwrap_or_default();
            let followed = Followed::open(path, &scan, &options.choose, place, progress)?;
            return Ok((Box::new(followed), true));
        }
        return Ok((Box::new(DirectorySource::open(path, &scan, progress)?), true));
    }
    let file = match found.is_file() {
        true => File::open(path).map_err(Error::io("open", path))?,
        false => pipe::named(path, options)?,
    };
    let snapshot = input.snapshot.as_ref();
    Ok((archive(path, file, snapshot, options, select)?, false))
}

/// Opens a manifest; paths in it are relative to its directory.
fn manifest(path: &Path) -> Result<ManifestSource, Error> {
    if path == Path::new("-") {
        let input = Box::new(io::stdin());
        return Ok(ManifestSource::open(input, b"standard input", PathBuf::new())?);
    }
    let file = File::open(path).map_err(Error::io("open", path))?;
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    Ok(ManifestSource::open(Box::new(file), path.as_os_str().as_bytes(), base)?)
}

/// Opens an archive or image of any format, in a file that is read from its beginning.
fn archive(
    path: &Path,
    file: File,
    snapshot: Option<&SnapshotChoice>,
    options: &SourceOptions,
    select: Option<Arc<dyn Select>>,
) -> Result<Box<dyn EntrySource>, Error> {
    let offset = options.archive_offset;
    let mut head = vec![0; HEAD_LEN];
    let len = file.read_at(&mut head, 0).map_err(Error::io("read", path))?;
    head.truncate(len);
    if offset == 0 && is_shale(&head) {
        return Ok(Box::new(image::ImageSource::open(
            file,
            path,
            snapshot,
            select,
            &options.bases,
        )?));
    }
    if snapshot.is_some() {
        return Err(Error::NoSnapshots { path: path.to_owned() });
    }
    if offset == 0 && mtree::is_list(&head) {
        let seed = digest(&file).map_err(Error::io("read", path))?;
        let base = path.parent().unwrap_or(Path::new("")).to_owned();
        let name = path.as_os_str().as_bytes();
        return Ok(Box::new(MtreeSource::new(file, name, base, seed, select)));
    }
    if offset == 0
        && detect(&head) == Some(Format::Tar)
        && let Some(container) = container(options, select.clone())
        && let Some(source) = oci::open_archive(path, &file, &container)?
    {
        return Ok(source);
    }
    let seed = digest(&file).map_err(Error::io("read", path))?.to_vec();
    let password = options.password.as_ref().map(Password::bytes);
    let directory = pipe::temp_dir(options);
    let spool: Spool = Arc::new(move || pipe::unnamed(&directory));
    let options = OpenOptions {
        offset,
        seed,
        select,
        password,
        spool: Some(spool),
        decoder_memory_len_max: options.decoder_memory_len_max,
    };
    let source = shale_foreign::open(path, file, options)?;
    source.ok_or_else(|| Error::NotInput { path: path.to_owned() })
}

/// How images of containers are opened; `None` if they are packed as files.
fn container(options: &SourceOptions, select: Option<Arc<dyn Select>>) -> Option<OciOptions> {
    match &options.container {
        Container::Files => None,
        Container::Tree { tag, platform } => {
            Some(OciOptions { tag: tag.clone(), platform: platform.clone(), select })
        }
    }
}

/// True if a file begins like a ShaleFS image.
fn is_shale(head: &[u8]) -> bool {
    head.starts_with(&shale_format::superblock::SUPERBLOCK_MAGIC)
}

/// Hashes all bytes of a file, so that archives that differ anywhere give different images. Costs
/// one pass over the file, a small part of the cost of packing it.
fn digest(file: &File) -> io::Result<[u8; 32]> {
    let mut hasher = Hasher::new();
    read_whole(file, |bytes| {
        hasher.update(bytes);
    })?;
    Ok(*hasher.finalize().as_bytes())
}
