//! From sources to a verified image under its final name.
//!
//! The image is built into a file without a name, synced, read back through the reader and
//! compared with the digests of what was read from the source, and only then named. Whatever goes
//! wrong before leaves no trace.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shale_read::{FileSource, OffsetChoice};
use shale_write::Report;
use shale_write::scan::file_identity;
use shale_write::source::LinkId;

use crate::error::Error;
use crate::input::{self, Adjust, Choose, Input};
use crate::output::{Existing, OutputFile, existing};
use crate::parity::{ParityOptions, ParityReport, add_to_file};
use crate::progress::{BuildProgress, Cancel, Phase, Progress};
use crate::verify::{VerifyReport, verify};

/// Where the image goes.
pub enum Output<'a> {
    /// Under this name. Devices and fifos are written to as streams.
    Path(PathBuf),
    /// To a stream; the image cannot be read back and is not verified.
    Stream(&'a mut (dyn Write + Send)),
}

impl std::fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Stream(_) => f.write_str("Stream(..)"),
        }
    }
}

/// How to create an image.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// Options of the build. Its cancel flag is set from `cancel`.
    pub build: shale_write::Options,
    /// Do not descend into other file systems.
    pub one_file_system: bool,
    /// Pack what symbolic links of directory trees lead to instead of the links.
    pub dereference: bool,
    /// What is taken of the inputs.
    pub choose: Choose,
    /// What is stored instead of what the inputs say.
    pub adjust: Adjust,
    /// Read the image back and compare, before it gets its name.
    pub verify: bool,
    /// Parity for each million bytes of the image; 0 for none.
    pub parity_ppm: u32,
    /// Replace an existing output.
    pub overwrite: bool,
    /// Ends the run with an error for which [`Error::is_cancelled`] holds.
    pub cancel: Cancel,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            build: shale_write::Options::default(),
            one_file_system: false,
            dereference: false,
            choose: Choose::default(),
            adjust: Adjust::default(),
            verify: true,
            parity_ppm: 0,
            overwrite: false,
            cancel: Cancel::new(),
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct CreateReport {
    /// Of the build. Entries that were left out are its `problems`.
    pub build: Report,
    /// What was read back and compared; `None` if nothing was.
    pub verified: Option<VerifyReport>,
    /// The parity, if some was asked for.
    pub parity: Option<ParityReport>,
}

/// Packs `sources`, directories and archives, into an image.
///
/// # Errors
/// Nothing is left under the output's name or beside it on any error. A stream may have got the
/// beginning of an image without its end, which no reader takes for an image.
pub fn create(
    sources: &[Input],
    output: Output<'_>,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<CreateReport, Error> {
    // Not only after a large tree was looked through.
    shale_write::check(&options.build)?;
    match output {
        Output::Stream(stream) if options.parity_ppm > 0 => {
            to_stream_by_file(sources, stream, options, progress)
        }
        Output::Stream(stream) => {
            let build = build(sources, stream, Vec::new(), options, progress)?;
            Ok(CreateReport { build, verified: None, parity: None })
        }
        Output::Path(path) => match existing(&path)? {
            Existing::Stream => to_special(sources, &path, options, progress),
            Existing::File if !options.overwrite => Err(Error::Exists { path }),
            Existing::File | Existing::Nothing => to_file(sources, &path, options, progress),
        },
    }
}

fn to_file(
    sources: &[Input],
    path: &Path,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<CreateReport, Error> {
    let output = OutputFile::create(path)?;
    // Inside the source, neither the new image nor the one it replaces is packed.
    let mut excluded = vec![file_identity(output.file()).map_err(Error::io("look at", path))?];
    if let Ok(old) = File::open(path) {
        excluded.push(file_identity(&old).map_err(Error::io("look at", path))?);
    }
    let mut file = output.file();
    let mut build = build(sources, &mut file, excluded, options, progress)?;
    let parity = with_parity(output.file(), path, &mut build, options, progress)?;
    progress.phase(Phase::Sync);
    output.sync()?;
    options.cancel.check()?;
    let verified = match options.verify {
        false => None,
        true => {
            progress.phase(Phase::Verify);
            let again = output.file().try_clone().map_err(Error::io("read back", path))?;
            let again = FileSource::new(again).map_err(Error::io("read back", path))?;
            Some(verify(Arc::new(again), &build, options.build.threads, &options.cancel, progress)?)
        }
    };
    options.cancel.check()?;
    output.commit(options.overwrite)?;
    Ok(CreateReport { build, verified, parity })
}

/// Adds parity to a finished image if some was asked for.
fn with_parity(
    file: &File,
    path: &Path,
    build: &mut Report,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<Option<ParityReport>, Error> {
    if options.parity_ppm == 0 {
        return Ok(None);
    }
    let how = ParityOptions {
        parts_per_million: options.parity_ppm,
        offset: OffsetChoice::At(0),
        threads: options.build.threads,
        cancel: options.cancel.clone(),
        ..ParityOptions::default()
    };
    let report = add_to_file(file, path, &how, progress)?;
    build.image_bytes = report.image_bytes;
    Ok(Some(report))
}

/// Parity reaches over the whole image, so a stream has to wait for a temporary file.
fn to_stream_by_file(
    sources: &[Input],
    stream: &mut (dyn Write + Send),
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<CreateReport, Error> {
    let directory = options.build.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
    // Never committed: it goes when this function ends.
    let output = OutputFile::create(&directory.join("image.shale"))?;
    let excluded = file_identity(output.file()).map_err(Error::io("look at", &directory))?;
    let mut file = output.file();
    let mut build = build(sources, &mut file, vec![excluded], options, progress)?;
    let parity = with_parity(file, &directory, &mut build, options, progress)?;
    let read = Error::io("read back the image in", &directory);
    let mut whole = file;
    let copied = whole
        .rewind()
        .and_then(|()| std::io::copy(&mut whole, &mut &mut *stream))
        .and_then(|_| stream.flush());
    copied.map_err(read)?;
    Ok(CreateReport { build, verified: None, parity })
}

/// A device or fifo in the output's place is written to, never replaced.
fn to_special(
    sources: &[Input],
    path: &Path,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<CreateReport, Error> {
    use std::os::unix::fs::FileTypeExt;
    let mut file = File::options().write(true).open(path).map_err(Error::io("write to", path))?;
    let found = file.metadata().map_err(Error::io("look at", path))?;
    if found.file_type().is_block_device() && !options.overwrite {
        return Err(Error::Exists { path: path.to_owned() });
    }
    if options.parity_ppm > 0 {
        return to_stream_by_file(sources, &mut file, options, progress);
    }
    let build = build(sources, &mut file, Vec::new(), options, progress)?;
    progress.phase(Phase::Sync);
    // Pipes and terminals cannot be synced, and need not be.
    let _ = file.sync_all();
    Ok(CreateReport { build, verified: None, parity: None })
}

fn build(
    sources: &[Input],
    out: &mut (dyn Write + Send),
    excluded: Vec<LinkId>,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<Report, Error> {
    let progress = BuildProgress(progress);
    let build =
        shale_write::Options { cancel: Some(options.cancel.flag()), ..options.build.clone() };
    let mut tree = input::open(sources, excluded, options, &progress)?;
    Ok(shale_write::create(&mut *tree, out, &build, &progress)?)
}
