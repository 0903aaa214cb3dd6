//! Continues an image by one more snapshot.
//!
//! New sections follow the last trailer, and a new trailer follows them: no byte that a reader may
//! use is changed. The new part is written and synced, read back together with the trailer, which
//! is still in memory, and compared with the sources. Then the trailer is written: it makes the
//! snapshot visible. Any earlier error, and a kill at any time, leaves the image as it was.

pub(crate) mod base; // the image, as the writer asks for it
pub(crate) mod tail; // what follows the image in its file
pub(crate) mod below; // an image that is elsewhere
mod unchanged; // files that need not be read

use std::io;
use std::path::Path;
use std::sync::Arc;

use shale_check::{ParityOptions, ParityReport, add_to_file, parity_facts, signatures};
use shale_format::limits::{SNAPSHOT_COUNT_MAX, SNAPSHOT_NAME_LEN_MAX};
use shale_format::section::SECTION_MAGIC;
use shale_host::{Cancel, GrowingFile, Phase, Progress};
use shale_model::EntrySource;
use shale_model::pattern::Rules;
use shale_read::files::{FilePlace, Gathered, gather};
use shale_read::{ByteSource, FileSource, Image, OffsetChoice, Options, SnapshotChoice};
use shale_write::{Report, WriteError};

use crate::error::Error;
use crate::options::CreateOptions;
use crate::verify::{VerifyReport, verify};
use base::ImageBase;
pub use below::Below;
use below::Continued;
use shale_source::{Choose, Input, Joined, Part, file_identity, held, parts, without_empty};
use tail::Tail;
use unchanged::Unchanged;

/// Options of an append.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AppendOptions {
    /// The way the sources are read and packed. Parity, padding and overwriting do not count.
    pub create: CreateOptions,
    /// Keep the newest tree and add the sources to it, in place of what has the same path.
    /// Otherwise the sources are the whole new tree.
    pub adds: bool,
    /// What is removed from the newest tree before sources are added; rules as for what is left out
    /// of sources. Needs `adds`.
    pub removes: Arc<Rules>,
    /// Read all files, and not only those whose length or times changed.
    pub reads_all: bool,
    /// Text for the history of the image.
    pub message: String,
    /// Where the image begins in its file.
    pub offset: OffsetChoice,
    /// Wait while another process writes to the image.
    pub waits: bool,
    /// Do not give the new part of an image with parity the same share of parity.
    pub drops_parity: bool,
    /// The image is not in the file of its name: what is added goes to another file, which begins
    /// with a hole of the length of the image.
    pub below: Option<Below>,
}

impl AppendOptions {
    shale_host::setters! {
        create: CreateOptions,
        adds: bool,
        removes: Arc<Rules>,
        reads_all: bool,
        message: String,
        offset: OffsetChoice,
        waits: bool,
        drops_parity: bool,
        below: Option<Below>,
    }
}

/// What an append did.
#[derive(Debug)]
#[non_exhaustive]
pub struct AppendReport {
    /// Report of the build. Entries that were left out are its `problems`.
    pub build: Report,
    /// Number of the new snapshot.
    pub number: usize,
    /// Bytes that were added to the image, without parity.
    pub added_bytes: u64,
    /// Bytes that were read of the image to make the new part; neither to verify it nor for parity.
    pub read_bytes: u64,
    /// What was read back and compared; `None` if verification was off.
    pub verified: Option<VerifyReport>,
    /// Report of the parity, if the image had some.
    pub parity: Option<ParityReport>,
    /// The image had parity, and the new part has none.
    pub is_unprotected: bool,
    /// The image holds signatures; they are of earlier states.
    pub is_signed: bool,
    /// Bytes that an interrupted append had left and that were cut off.
    pub cut_bytes: u64,
}

/// Appends a snapshot of `sources` to the image in the file at `path`.
///
/// # Errors
/// On any error the image is as it was before. If only the parity of the new part could not be
/// made, the snapshot is there, and the error says so.
pub fn append(
    path: &Path,
    sources: &[Input],
    options: &AppendOptions,
    progress: &dyn Progress,
) -> Result<AppendReport, Error> {
    let create = &options.create;
    check_options(options)?;
    let mut file = match &options.below {
        None => GrowingFile::open(path, options.waits, &create.cancel)?,
        Some(below) => {
            let file = below.file.try_clone().map_err(Error::io("open", path))?;
            GrowingFile::adopt(file, path)
        }
    };
    let (image, files, cut_bytes) = open_image(&file, path, options)?;
    if image.snapshots().len() as u64 >= u64::from(SNAPSHOT_COUNT_MAX) {
        return Err(refused(path, "it has as many snapshots as an image can have".to_owned()));
    }
    let facts = parity_facts(&image)?;
    if options.below.is_some() && facts.is_some() && !options.drops_parity {
        return Err(Error::ParityNeedsAll { path: path.to_owned() });
    }
    let is_signed = !signatures(&image)?.is_empty();
    let start = image.offset();
    let number = image.snapshots().len();
    let excluded = file_identity(file.file()).map_err(Error::io("look at", path))?;

    let mut tree = tree(&image, sources, &[excluded], options, progress)?;
    let base = Arc::new(ImageBase::new(Arc::clone(&image))?);
    // The file of a thin image lacks the base and begins with a head.
    let (head_len, base_len) = files.base.map_or((0, 0), |base| (base.head_len, base.base_len));
    file.begin(start + image.len() - base_len + head_len, &SECTION_MAGIC)?;
    let build = shale_write::Options { cancel: Some(create.cancel.flag()), ..create.build.clone() };
    let appended =
        shale_write::append(&mut *tree, base, &mut file, &build, &options.message, progress)?;
    let (build, trailer) = (appended.report, appended.trailer);
    create.cancel.check()?;
    let verified = match create.verify {
        false => None,
        true => {
            progress.phase(Phase::Verify);
            let with_trailer = WithTrailer {
                written: files_of(&file, path, options)?.source,
                start,
                len: build.image_bytes,
                trailer: trailer.clone(),
            };
            let source = Arc::new(with_trailer);
            Some(verify(source, &build, &create.build, &create.cancel, progress)?)
        }
    };
    create.cancel.check()?;
    progress.phase(Phase::Sync);
    file.finish(&trailer)?;
    let parity = match facts {
        // Parity of a thin image would be as large as that of the whole.
        Some(facts) if !options.drops_parity && base_len == 0 => {
            let how = ParityOptions::default()
                .parts_per_million(facts.parts_per_million)
                .offset(OffsetChoice::At(start))
                .extends(true)
                .threads(create.build.threads)
                .cancel(Cancel::new());
            Some(add_to_file(file.file(), path, &how, progress)?)
        }
        _ => None,
    };
    Ok(AppendReport {
        added_bytes: build.image_bytes - image.len(),
        read_bytes: image.counters().snapshot().source_bytes,
        number,
        verified,
        is_unprotected: facts.is_some() && parity.is_none(),
        parity,
        is_signed,
        cut_bytes,
        build,
    })
}

/// Checks options before anything is read.
///
/// # Errors
/// An option of the build is out of its range, or the name of the snapshot is too long.
pub(crate) fn check_options(options: &AppendOptions) -> Result<(), Error> {
    let build = &options.create.build;
    shale_write::check(build)?;
    let name_len = build.snapshot_name.len();
    if name_len > SNAPSHOT_NAME_LEN_MAX {
        let allowed = format!("at most {SNAPSHOT_NAME_LEN_MAX} bytes");
        let found = format!("{name_len} bytes long");
        return Err(WriteError::Option { option: "the snapshot's name", found, allowed }.into());
    }
    Ok(())
}

/// Finds all files of the image, as they are now.
fn files_of(file: &GrowingFile, path: &Path, options: &AppendOptions) -> Result<Gathered, Error> {
    let first: Arc<dyn ByteSource> = match &options.below {
        None => {
            let again = file.file().try_clone().map_err(Error::io("open", path))?;
            Arc::new(FileSource::new(again).map_err(Error::io("open", path))?)
        }
        Some(below) => {
            Arc::new(Continued::new(below, file.begun()).map_err(Error::io("open", path))?)
        }
    };
    Ok(gather(first, &FilePlace::new(path), &options.create.source.bases)?)
}

/// Opens the image in its newest state. Also returns its files, and how many bytes of an
/// interrupted append follow it.
fn open_image(
    file: &GrowingFile,
    path: &Path,
    options: &AppendOptions,
) -> Result<(Arc<Image>, Gathered, u64), Error> {
    let files = files_of(file, path, options)?;
    if files.parts > 1 {
        let what = "it is split into parts; join them with cat(1) first".to_owned();
        return Err(refused(path, what));
    }
    let source = Arc::clone(&files.source);
    // What is damaged must be noticed, not repaired: the repaired bytes would not be in the file.
    let read = Options::default().offset(options.offset).repair(false);
    let image = Image::open(Arc::clone(&source), read)?;
    let tail = tail::look(&image, &*source).map_err(Error::io("read", path))?;
    if let Tail::Other(len) = tail {
        let what = format!(
            "{len} bytes that are not part of it follow it in its file; copy it out of there first"
        );
        return Err(refused(path, what));
    }
    if let (Some(recovery), Tail::Nothing) = (image.recovered(), tail) {
        return Err(refused(path, format!("{}; repair it first", recovery.reason)));
    }
    Ok((image, files, if let Tail::Torn(len) = tail { len } else { 0 }))
}

pub(crate) fn refused(path: &Path, what: String) -> Error {
    Error::NotAppendable { path: path.to_owned(), what }
}

/// Opens the sources as one tree: as the whole of it, or added to the newest one of the image.
///
/// # Errors
/// A source or the image cannot be read.
pub(crate) fn tree(
    image: &Arc<Image>,
    sources: &[Input],
    excluded: &[shale_model::LinkId],
    options: &AppendOptions,
    progress: &dyn Progress,
) -> Result<Box<dyn EntrySource>, Error> {
    let given = options.create.to_source();
    let newest = image.tree(&SnapshotChoice::Newest)?;
    let mut trees = Vec::new();
    if options.adds {
        let removes = Choose { rules: Arc::clone(&options.removes), ..Choose::default() };
        let source = held(newest.clone(), &removes, 0)?;
        trees.push(Part { source, prefix: Vec::new(), is_tree: false });
    }
    // Times that are not those of the files tell nothing.
    let adjust = &given.adjust;
    let looks = !options.reads_all && adjust.mtime.is_none() && adjust.time_max.is_none();
    for mut part in parts(sources, excluded, &given, progress)? {
        if part.is_tree && looks {
            let prefix = part.prefix.clone();
            part.source = Box::new(Unchanged::new(part.source, newest.clone(), prefix));
        }
        trees.push(part);
    }
    let replaces = given.replace || options.adds;
    Ok(without_empty(Joined::new(trees, replaces), &given))
}

/// An image whose last bytes are not written yet.
struct WithTrailer {
    /// What is written.
    written: Arc<dyn ByteSource>,
    /// Where the image begins in it.
    start: u64,
    /// Bytes of the image with its trailer.
    len: u64,
    trailer: Vec<u8>,
}

impl ByteSource for WithTrailer {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let written_len = self.len - self.trailer.len() as u64;
        let of_file = written_len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (of_file, rest) = buf.split_at_mut(of_file);
        if !of_file.is_empty() {
            self.written.read_at(self.start + offset, of_file)?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let from = (offset + of_file.len() as u64 - written_len) as usize;
        let found = self.trailer.get(from..from + rest.len());
        rest.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn base_len(&self) -> u64 {
        self.written.base_len().saturating_sub(self.start)
    }
}
