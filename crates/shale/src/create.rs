//! Creates a verified image under its final name.
//!
//! The image is built into a file without a name, synced, read back through the reader and compared
//! with the digests of what was read from the source. Only then it gets its name. Any earlier error
//! leaves no trace.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use shale_format::trailer::PADDED_TO;
use shale_host::threads::process_cpu_time;
use shale_host::{Existing, Output, OutputFile, PatientOutput, Phase, Progress, existing};
use shale_model::LinkId;
use shale_read::{ByteSource, FileSource, OffsetChoice, SliceSource};
use shale_source::file_identity;
use shale_write::Report;

use crate::envelope::Enclosing;
use crate::error::Error;
use crate::options::CreateOptions;
use crate::verify::{VerifyReport, verify};
use shale_check::{ParityOptions, ParityReport, add_to_file};
use shale_source::{Input, open};

/// What a build did.
#[derive(Debug)]
#[non_exhaustive]
pub struct CreateReport {
    /// Report of the build. Entries that were left out are its `problems`.
    pub build: Report,
    /// What was read back and compared; `None` if verification was off.
    pub verified: Option<VerifyReport>,
    /// Report of the parity, if some was requested.
    pub parity: Option<ParityReport>,
    /// Processor time of listing the sources, before the build.
    pub scan_time: Duration,
    /// Processor time of reading the image back, after the build.
    pub verify_time: Duration,
}

impl CreateReport {
    /// The report of an image that was not read back.
    fn unverified(built: Built, parity: Option<ParityReport>) -> Self {
        let Built { build, scan_time } = built;
        Self { build, verified: None, parity, scan_time, verify_time: Duration::ZERO }
    }
}

/// A build and what came before it.
pub(crate) struct Built {
    pub(crate) build: Report,
    /// See [`CreateReport::scan_time`].
    pub(crate) scan_time: Duration,
}

/// Packs `sources` into an image.
///
/// # Errors
/// On any error nothing is left under the output's name or beside it. A stream may hold the
/// beginning of an image without its end, which no reader accepts.
pub fn create(
    sources: &[Input],
    output: Output<'_>,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<CreateReport, Error> {
    // Wrong options fail here, not after a large tree was listed.
    shale_write::check(&options.build)?;
    match output {
        Output::Stream(stream) if options.parity_ppm > 0 => {
            to_stream_by_file(sources, stream, options, progress)
        }
        Output::Stream(stream) => {
            let built = build(sources, stream, Vec::new(), options, progress)?;
            pad_stream(stream, built.build.image_bytes, options)
                .map_err(Error::io("pad", "the output"))?;
            Ok(CreateReport::unverified(built, None))
        }
        Output::Path(path) if options.delivery.is_some() => {
            to_file(sources, &path, options, progress)
        }
        Output::Path(path) => match existing(&path)? {
            Existing::Stream if options.envelope.is_some() => Err(Error::NotFile { path }),
            Existing::Stream => to_special(sources, &path, options, progress),
            Existing::File if !options.overwrite => Err(shale_host::Error::Exists { path }.into()),
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
    // If the output lies inside the source, neither it nor the file it replaces is packed.
    let mut excluded = vec![file_identity(output.file()).map_err(Error::io("look at", path))?];
    if let Ok(old) = File::open(path) {
        excluded.push(file_identity(&old).map_err(Error::io("look at", path))?);
    }
    let mut out = Out::new(&output, path, options)?;
    let built = build(sources, &mut out, excluded, options, progress)?;
    let compare =
        |again, build: &Report| verify(again, build, &options.build, &options.cancel, progress);
    finish((output, out), path, built, compare, options, progress)
}

/// The bytes of an output file: as they are written, or in the form that the options ask for.
pub(crate) enum Out {
    Plain(File),
    Enclosed(Box<dyn Enclosing>),
}

impl Out {
    /// Begins to write to `output`.
    ///
    /// # Errors
    /// The file cannot be written, or options do not go together.
    pub(crate) fn new(
        output: &OutputFile,
        path: &Path,
        options: &CreateOptions,
    ) -> Result<Self, Error> {
        let fail = Error::io("write to", path);
        let file = output.file().try_clone();
        match (&options.envelope, file) {
            (_, Err(error)) => Err(fail(error)),
            (None, Ok(file)) => Ok(Self::Plain(file)),
            // Both work on the bytes of the file.
            (Some(_), _) if options.parity_ppm > 0 || options.pad => {
                let what = "parity and padding go with a plain image only";
                Err(fail(io::Error::new(io::ErrorKind::InvalidInput, what)))
            }
            (Some(envelope), Ok(file)) => Ok(Self::Enclosed(envelope.begin(file).map_err(fail)?)),
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Enclosed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Enclosed(out) => out.flush(),
        }
    }
}

/// Gives an image that was written its parity and padding, syncs it, reads it back with `compare`,
/// and gives it its name, or delivers it.
pub(crate) fn finish(
    (output, out): (OutputFile, Out),
    path: &Path,
    built: Built,
    compare: impl FnOnce(Arc<dyn ByteSource>, &Report) -> Result<VerifyReport, Error>,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<CreateReport, Error> {
    let Built { mut build, scan_time } = built;
    let parity = with_parity(output.file(), path, &mut build, options, progress)?;
    if options.pad {
        let padded_len = build.image_bytes.next_multiple_of(PADDED_TO);
        output.file().set_len(padded_len).map_err(Error::io("pad", path))?;
    }
    let again: Arc<dyn ByteSource> = match out {
        Out::Enclosed(out) => out.finish().map_err(Error::io("read back", path))?,
        Out::Plain(file) => {
            let again = FileSource::new(file).map_err(Error::io("read back", path))?;
            // Without the padding.
            Arc::new(SliceSource::new(again, 0, build.image_bytes))
        }
    };
    progress.phase(Phase::Sync);
    output.sync()?;
    options.cancel.check()?;
    let before = process_cpu_time();
    let verified = match options.verify {
        false => None,
        true => {
            progress.phase(Phase::Verify);
            Some(compare(again, &build)?)
        }
    };
    let verify_time = process_cpu_time().saturating_sub(before);
    options.cancel.check()?;
    match &options.delivery {
        Some(delivery) => delivery.deliver(output.file(), progress)?,
        None => output.commit(options.overwrite)?,
    }
    Ok(CreateReport { build, verified, parity, scan_time, verify_time })
}

/// Adds parity to a finished image, if requested.
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
    let how = ParityOptions::default()
        .parts_per_million(options.parity_ppm)
        .offset(OffsetChoice::At(0))
        .threads(options.build.threads)
        .cancel(options.cancel.clone());
    let report = add_to_file(file, path, &how, progress)?;
    build.image_bytes = report.image_bytes;
    Ok(Some(report))
}

/// Parity covers the whole image, so a stream is written through a temporary file.
fn to_stream_by_file(
    sources: &[Input],
    stream: &mut (dyn Write + Send),
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<CreateReport, Error> {
    let directory = options.build.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
    // Never committed: it is removed when this function returns.
    let output = OutputFile::create(&directory.join("image.shale"))?;
    let excluded = file_identity(output.file()).map_err(Error::io("look at", &directory))?;
    let mut file = output.file();
    let mut built = build(sources, &mut file, vec![excluded], options, progress)?;
    let parity = with_parity(file, &directory, &mut built.build, options, progress)?;
    let read = Error::io("read back the image in", &directory);
    let mut whole = file;
    let copied = whole
        .rewind()
        .and_then(|()| std::io::copy(&mut whole, &mut &mut *stream))
        .and_then(|_| pad_stream(stream, built.build.image_bytes, options))
        .and_then(|()| stream.flush());
    copied.map_err(read)?;
    Ok(CreateReport::unverified(built, parity))
}

/// Writes to a device or fifo in the output's place, which is never replaced.
fn to_special(
    sources: &[Input],
    path: &Path,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<CreateReport, Error> {
    use std::os::unix::fs::FileTypeExt;
    let found = std::fs::metadata(path).map_err(Error::io("look at", path))?;
    if found.file_type().is_fifo() {
        // Nobody may read it yet, and a signal must be able to end the wait.
        let owned = path.to_owned();
        let open = move || File::options().write(true).open(owned);
        let mut pipe =
            PatientOutput::new(open, &options.cancel).map_err(Error::io("write to", path))?;
        let report = create(sources, Output::Stream(&mut pipe), options, progress);
        // What failed after a cancel failed because of it.
        options.cancel.check()?;
        let report = report?;
        let flushed = pipe.flush();
        options.cancel.check()?;
        flushed.map_err(Error::io("write to", path))?;
        return Ok(report);
    }
    let mut file = File::options().write(true).open(path).map_err(Error::io("write to", path))?;
    let found = file.metadata().map_err(Error::io("look at", path))?;
    if found.file_type().is_block_device() && !options.overwrite {
        return Err(shale_host::Error::Exists { path: path.to_owned() }.into());
    }
    let report = match options.parity_ppm {
        0 => {
            let built = build(sources, &mut file, Vec::new(), options, progress)?;
            let image_len = built.build.image_bytes;
            pad_stream(&mut file, image_len, options).map_err(Error::io("pad", path))?;
            CreateReport::unverified(built, None)
        }
        _ => to_stream_by_file(sources, &mut file, options, progress)?,
    };
    if found.file_type().is_block_device() {
        clear_after(&mut file).map_err(Error::io("clear the end of", path))?;
    }
    progress.phase(Phase::Sync);
    // Pipes and terminals cannot be synced and need not be.
    let _ = file.sync_all();
    Ok(report)
}

/// Writes the padding of an image to a stream.
fn pad_stream(
    stream: &mut (dyn Write + Send),
    image_len: u64,
    options: &CreateOptions,
) -> io::Result<()> {
    let padded_len = if options.pad { image_len.next_multiple_of(PADDED_TO) } else { image_len };
    // Less than a block. A stream may hold back what was not flushed.
    stream.write_all(&vec![0; (padded_len - image_len) as usize])?;
    stream.flush()
}

/// Overwrites the data that follow an image on a block device, as far as readers look, so that they
/// do not take the rest of an older file system for damage.
fn clear_after(device: &mut File) -> io::Result<()> {
    const LEN_MAX: u64 = 64 << 10;
    let at = device.stream_position()?;
    let end = device.seek(io::SeekFrom::End(0))?;
    device.seek(io::SeekFrom::Start(at))?;
    device.write_all(&vec![0; end.saturating_sub(at).min(LEN_MAX) as usize])
}

fn build(
    sources: &[Input],
    out: &mut (dyn Write + Send),
    excluded: Vec<LinkId>,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<Built, Error> {
    let build =
        shale_write::Options { cancel: Some(options.cancel.flag()), ..options.build.clone() };
    let before = process_cpu_time();
    let mut tree = open(sources, excluded, &options.to_source(), progress)?;
    let scan_time = process_cpu_time().saturating_sub(before);
    Ok(Built { build: shale_write::create(&mut *tree, out, &build, progress)?, scan_time })
}
