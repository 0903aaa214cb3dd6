//! Where an export goes, and in which format: a file that is there whole or not at all, or a
//! stream.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

use shale_codec::stream::{Finish, StreamFormat};
use shale_foreign::archive::{Archive, ArchiveEntry, Keeps, Taken};
use shale_foreign::tar::Times;
use shale_foreign::{CpioWriter, SquashfsOptions, SquashfsWriter, TarWriter, ZipWriter};
use shale_format::InodeKind;
use shale_read::{TIME_ATIME, TIME_BTIME, TIME_CTIME, Tree};

use super::{ExportOptions, ExportReport, export_to_archive};
use crate::create::Output;
use crate::error::Error;
use crate::output::{Existing, OutputFile, existing};
use crate::progress::{Phase, Progress};
use crate::threads::thread_count;

/// A format that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// tar: ustar, with extended headers of PAX where those are needed.
    Tar,
    /// cpio in the new ASCII format (newc).
    Cpio,
    /// zip. Its compression is deflate, or nothing.
    Zip,
    /// SquashFS 4.0. Its compression is that of its blocks.
    Squashfs,
    /// No archive: the contents of regular files, one behind the other in the order of paths.
    Contents,
}

/// Level of deflate in a zip archive.
const ZIP_LEVEL: u32 = 6;

impl ExportFormat {
    /// Format and compression by the endings of a name, such as `.tar.zst`.
    pub fn of_name(name: &[u8]) -> Option<(Self, Option<StreamFormat>)> {
        let name = name.to_ascii_lowercase();
        let compression = |suffix: &[u8]| {
            let mut all = StreamFormat::ALL.into_iter();
            all.find(|format| suffix == format.extension().as_bytes())
        };
        let (stem, last) = split(&name)?;
        let archive = |suffix: &[u8]| match suffix {
            b"tar" => Some(Self::Tar),
            b"cpio" => Some(Self::Cpio),
            b"zip" => Some(Self::Zip),
            b"squashfs" | b"sqfs" | b"sqsh" | b"sfs" => Some(Self::Squashfs),
            _ => None,
        };
        if let Some(format) = archive(last) {
            return Some((format, None));
        }
        let short = match last {
            b"tgz" => Some(StreamFormat::Gzip),
            b"txz" => Some(StreamFormat::Xz),
            b"tbz2" | b"tbz" => Some(StreamFormat::Bzip2),
            b"tzst" => Some(StreamFormat::Zstd),
            _ => None,
        };
        if short.is_some() {
            return Some((Self::Tar, short));
        }
        let compression = compression(last)?;
        let archive = archive(split(stem)?.1)?;
        archive.is_compressed_whole().then_some((archive, Some(compression)))
    }

    /// Whether compression is put around the archive, and not inside.
    pub fn is_compressed_whole(self) -> bool {
        matches!(self, Self::Tar | Self::Cpio)
    }

    /// How it is compressed where nothing is said.
    pub fn usual_compression(self) -> Option<StreamFormat> {
        match self {
            Self::Tar | Self::Cpio | Self::Contents => None,
            Self::Zip => Some(StreamFormat::Gzip),
            Self::Squashfs => Some(StreamFormat::Zstd),
        }
    }

    /// Fails with what the format does not have.
    fn check(self, options: &ExportOptions) -> Result<(), Error> {
        let refuse = |what: &str| Err(Error::NotExportable { what: what.to_owned() });
        if self != Self::Squashfs && options.block_len.is_some() {
            return refuse("only SquashFS has blocks");
        }
        match (self, options.compression) {
            (Self::Zip, Some(format)) if format != StreamFormat::Gzip => {
                refuse("zip archives are written with deflate (gzip) or without compression")
            }
            _ => Ok(()),
        }
    }
}

fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let point = name.iter().rposition(|&byte| byte == b'.')?;
    Some((&name[..point], &name[point + 1..]))
}

/// Writes what is selected of `tree` to `output`.
///
/// # Errors
/// A file of the output's name is then as it was before; a stream has got the beginning of an
/// archive without its end.
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
                let file = File::options().write(true).open(&path);
                let mut file = file.map_err(Error::io("write to", &path))?;
                to_stream(tree, &mut file, options, progress)
            }
            Existing::File if !options.overwrite => Err(Error::Exists { path }),
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
    let report = match options.format {
        ExportFormat::Squashfs => squashfs(tree, file, options, progress)?,
        _ => to_stream(tree, &mut file, options, progress)?,
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
    if options.format == ExportFormat::Squashfs {
        return squashfs_to_stream(tree, stream, options, progress);
    }
    let mut out = BufWriter::with_capacity(1 << 20, stream);
    let compression = options.compression.filter(|_| options.format.is_compressed_whole());
    let report = match compression {
        None => {
            let archive = archive(&mut out, tree, options);
            export_to_archive(tree, archive, options, progress)?
        }
        Some(format) => {
            let threads = thread_count(options.threads) as u32;
            let encoder = format.encoder(&mut out, options.compression_level, threads);
            let mut encoder = Encoder(encoder.map_err(cannot_write)?);
            let archive = archive(&mut encoder, tree, options);
            let report = export_to_archive(tree, archive, options, progress)?;
            encoder.0.finish().map_err(cannot_write)?;
            report
        }
    };
    out.flush().map_err(cannot_write)?;
    Ok(report)
}

/// SquashFS begins with what is known last, so a stream has to wait for a temporary file.
fn squashfs_to_stream(
    tree: &Tree,
    stream: &mut (dyn Write + Send),
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<ExportReport, Error> {
    let directory = std::env::temp_dir();
    // Never committed: it goes when this function ends.
    let output = OutputFile::create(&directory.join("image.squashfs"))?;
    let report = squashfs(tree, output.file(), options, progress)?;
    let mut whole = output.file();
    let copied = whole
        .rewind()
        .and_then(|()| io::copy(&mut whole, &mut &mut *stream))
        .and_then(|_| stream.flush());
    copied.map_err(cannot_write)?;
    Ok(report)
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

/// An archive that is written from front to back.
fn archive<'w, W: Write + 'w>(
    out: W,
    tree: &Tree,
    options: &ExportOptions,
) -> Box<dyn Archive + 'w> {
    let kept = tree.snapshot().times_kept;
    match options.format {
        ExportFormat::Cpio => Box::new(CpioWriter::new(out)),
        ExportFormat::Contents => Box::new(Contents(out)),
        ExportFormat::Zip => {
            let usual = if options.compression.is_some() { ZIP_LEVEL } else { 0 };
            let level = options.compression_level.unwrap_or(usual);
            Box::new(ZipWriter::new(out, level, thread_count(options.threads)))
        }
        // SquashFS is not written from front to back; whoever calls this has seen to it.
        ExportFormat::Tar | ExportFormat::Squashfs => {
            let times = Times {
                access: kept & TIME_ATIME != 0,
                change: kept & TIME_CTIME != 0,
                birth: kept & TIME_BTIME != 0,
            };
            Box::new(TarWriter::new(out, times))
        }
    }
}

/// Contents of regular files and nothing else.
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
        // What is held back goes out at the end; flushing now would only make the stream longer.
        Ok(())
    }
}

fn cannot_write(error: io::Error) -> Error {
    super::cannot_write(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_names() {
        let of = |name: &str| ExportFormat::of_name(name.as_bytes());
        assert_eq!(of("a.tar"), Some((ExportFormat::Tar, None)));
        assert_eq!(of("a.b/x.TAR.zst"), Some((ExportFormat::Tar, Some(StreamFormat::Zstd))));
        assert_eq!(of("x.tgz"), Some((ExportFormat::Tar, Some(StreamFormat::Gzip))));
        assert_eq!(of("x.cpio.gz"), Some((ExportFormat::Cpio, Some(StreamFormat::Gzip))));
        assert_eq!(of("x.zip"), Some((ExportFormat::Zip, None)));
        assert_eq!(of("x.sqfs"), Some((ExportFormat::Squashfs, None)));
        assert_eq!(of("x.squashfs.gz"), None);
        assert_eq!(of("x.gz"), None);
        assert_eq!(of("x"), None);
    }
}
