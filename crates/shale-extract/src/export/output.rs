//! The output of an export and its format: a file that is complete or absent, or a stream.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

use shale_codec::stream::Finish;
use shale_foreign::archive::{Archive, ArchiveEntry, Keeps, Taken};
use shale_foreign::tar::Times;
use shale_foreign::{
    CpioWriter, ErofsWriter, IsoWriter, MtreeWriter, SevenzWriter, SquashfsOptions, SquashfsWriter,
    TarWriter, ZipWriter,
};
use shale_format::InodeKind;
use shale_host::{
    Existing, Output, OutputFile, PatientOutput, Phase, Progress, existing, thread_count,
};
use shale_read::{TIME_ATIME, TIME_BTIME, TIME_CTIME, Tree};

use super::archive::{cannot_write, export_to_archive};
use super::options::{ExportFormat, ExportOptions};
use super::report::ExportReport;
use crate::error::Error;

/// Default deflate level of a zip archive.
const ZIP_LEVEL: u32 = 6;
/// Default LZMA2 level of a 7z archive.
const LZMA_LEVEL: u32 = 6;

/// Writes the selected entries of `tree` to `output`.
///
/// # Errors
/// An existing file is then unchanged; a stream holds the beginning of an archive without its end.
pub fn export(
    tree: &Tree,
    output: Output<'_>,
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<ExportReport, Error> {
    options.format.check(options)?;
    match output {
        Output::Stream(stream) => to_stream(tree, stream, options, progress),
        Output::Path(path) => match existing(&path)? {
            Existing::Stream => {
                // Nobody may read a pipe yet, and a signal must be able to end the wait.
                let owned = path.clone();
                let open = move || File::options().write(true).open(owned);
                let output = PatientOutput::new(open, &options.cancel);
                let mut output = output.map_err(Error::io("write to", &path))?;
                let report = to_stream(tree, &mut output, options, progress);
                options.cancel.check()?;
                report
            }
            Existing::File if !options.overwrite => Err(shale_host::Error::Exists { path }.into()),
            Existing::File | Existing::Nothing => to_file(tree, &path, options, progress),
        },
    }
}

fn to_file(
    tree: &Tree,
    path: &Path,
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<ExportReport, Error> {
    let output = OutputFile::create(path)?;
    let mut file = output.file();
    let report = match options.format.is_written_back() {
        true => written_back(tree, file, options, progress)?,
        false => to_stream(tree, &mut file, options, progress)?,
    };
    progress.phase(Phase::Sync);
    output.sync()?;
    options.cancel.check()?;
    output.commit(options.overwrite)?;
    Ok(report)
}

fn to_stream(
    tree: &Tree,
    stream: &mut (dyn Write + Send),
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<ExportReport, Error> {
    if options.format.is_written_back() {
        return written_back_to_stream(tree, stream, options, progress);
    }
    let mut out = BufWriter::with_capacity(1 << 20, stream);
    let compression = options.compression.filter(|_| options.format.is_compressed_whole());
    let report = match compression {
        None => {
            let archive = archive(&mut out, tree, options)?;
            export_to_archive(tree, archive, options, progress)?
        }
        Some(format) => {
            let threads = thread_count(options.threads) as u32;
            let encoder = format.encoder(&mut out, options.compression_level, threads);
            let mut encoder = Encoder(encoder.map_err(cannot_write)?);
            let archive = archive(&mut encoder, tree, options)?;
            let report = export_to_archive(tree, archive, options, progress)?;
            encoder.0.finish().map_err(cannot_write)?;
            report
        }
    };
    out.flush().map_err(cannot_write)?;
    Ok(report)
}

/// An archive whose beginning is known last is written to a temporary file before a stream.
fn written_back_to_stream(
    tree: &Tree,
    stream: &mut (dyn Write + Send),
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<ExportReport, Error> {
    let directory = std::env::temp_dir();
    // Never committed: it is removed when this function returns.
    let output = OutputFile::create(&directory.join("shale-export"))?;
    let written = written_back(tree, output.file(), options, progress);
    let report = written.map_err(|error| match error {
        Error::Host(shale_host::Error::Io { action: "write", error, .. }) => {
            Error::io("write a temporary file in", &directory)(error)
        }
        error => error,
    })?;
    let mut whole = output.file();
    let copied = whole
        .rewind()
        .and_then(|()| io::copy(&mut whole, &mut &mut *stream))
        .and_then(|_| stream.flush());
    copied.map_err(cannot_write)?;
    Ok(report)
}

/// Writes an archive whose beginning is known last.
fn written_back(
    tree: &Tree,
    file: &File,
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<ExportReport, Error> {
    let out = || BufWriter::with_capacity(1 << 20, file);
    let archive: Box<dyn Archive + '_> = match options.format {
        ExportFormat::Erofs => Box::new(ErofsWriter::new(file)),
        ExportFormat::Iso => Box::new(IsoWriter::new(out()).map_err(cannot_write)?),
        ExportFormat::Sevenz => {
            let level =
                options.compression.map(|_| options.compression_level.unwrap_or(LZMA_LEVEL));
            let threads = thread_count(options.threads);
            Box::new(SevenzWriter::new(out(), level, threads).map_err(cannot_write)?)
        }
        _ => return squashfs(tree, file, options, progress),
    };
    export_to_archive(tree, archive, options, progress)
}

fn squashfs(
    tree: &Tree,
    file: &File,
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<ExportReport, Error> {
    let squashfs = SquashfsOptions {
        block_len: options.block_len.unwrap_or(SquashfsOptions::USUAL_BLOCK_LEN),
        compression: options.compression,
        level: options.compression_level,
        threads: thread_count(options.threads),
    };
    let out = BufWriter::with_capacity(1 << 20, file);
    let archive = SquashfsWriter::new(out, &squashfs).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Error::NotExportable { what: error.to_string() },
        _ => cannot_write(error),
    })?;
    export_to_archive(tree, Box::new(archive), options, progress)
}

/// Creates an archive that is written front to back.
fn archive<'w, W: Write + 'w>(
    out: W,
    tree: &Tree,
    options: &ExportOptions,
) -> Result<Box<dyn Archive + 'w>, Error> {
    let kept = tree.snapshot().times_kept;
    Ok(match options.format {
        ExportFormat::Cpio => Box::new(CpioWriter::new(out)),
        ExportFormat::Mtree => Box::new(MtreeWriter::new(out).map_err(cannot_write)?),
        ExportFormat::Contents => Box::new(Contents(out)),
        ExportFormat::Zip => {
            let usual = if options.compression.is_some() { ZIP_LEVEL } else { 0 };
            let level = options.compression_level.unwrap_or(usual);
            Box::new(ZipWriter::new(out, level, thread_count(options.threads)))
        }
        // What is not written front to back is handled before.
        ExportFormat::Tar
        | ExportFormat::Squashfs
        | ExportFormat::Erofs
        | ExportFormat::Iso
        | ExportFormat::Sevenz => {
            let times = Times {
                access: kept & TIME_ATIME != 0,
                change: kept & TIME_CTIME != 0,
                birth: kept & TIME_BTIME != 0,
            };
            Box::new(TarWriter::new(out, times))
        }
    })
}

/// The contents of regular files and nothing else.
struct Contents<W>(W);

impl<W: Write> Archive for Contents<W> {
    fn keeps(&self) -> Keeps {
        Keeps { holes: false, hard_links: false, shared_contents: false }
    }

    fn entry(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<Taken> {
        let is_in = entry.metadata.kind == InodeKind::File;
        Ok(Taken { is_in, lost: Vec::new(), is_rounded: false })
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn end_entry(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.0.flush()
    }
}

struct Encoder<'w>(Box<dyn Finish + 'w>);

impl Write for Encoder<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Buffered bytes are written at the end; flushing now would only make the stream longer.
        Ok(())
    }
}
