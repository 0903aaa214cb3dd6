//! Opens an archive of any format: recognises it, also after a program that unpacks or mounts it,
//! and makes a source of it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use shale_model::{EntrySource, Select, SourceError};

use crate::compression::Compression;
use crate::cpio::{CpioSource, is_cpio};
use crate::decompress::{Decoding, Decompress};
use crate::detect::{DETECT_LEN, Format, detect};
use crate::dwarfs::{self, DwarfsSource};
use crate::erofs::ErofsSource;
use crate::error::ForeignError;
use crate::iso::IsoSource;
use crate::lrzip::{Lrzip, Spool};
use crate::squashfs::{self, SquashfsSource};
use crate::stream::Input;
use crate::tar::{TarOptions, TarSource, begins_with_header};
use crate::tree::ImageFile;
use crate::zip::{self, ZipSource};
use crate::{ar, cab, rpm, sevenz, xar};

/// Bytes in front of an image that are searched for its beginning. Programs that mount an image
/// have less.
const PREFIX_LEN_MAX: u64 = 64 << 20;

/// How an archive is opened.
#[derive(Clone, Default)]
pub struct OpenOptions {
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes that stand for the file in the identity of an image, such as a digest of it.
    pub seed: Vec<u8>,
    /// What is taken of it; everything if none is given.
    pub select: Option<Arc<dyn Select>>,
    /// The password of encrypted entries.
    pub password: Option<Arc<[u8]>>,
    /// Makes temporary files, for what does not fit into memory.
    pub spool: Option<Spool>,
    /// The most bytes of memory that an archive may name for its decompressor; at most 2 GiB, which
    /// is also what `None` means. 7z, RAR and zip with PPMd keep to it; other decompressors have
    /// smaller limits of their own.
    pub decoder_memory_len_max: Option<u64>,
}

/// Opens the archive in `file`, called `name` in errors. Returns `None` if its format is not known.
///
/// # Errors
/// The file cannot be read, or the archive is corrupt or of a format that is not supported.
pub fn open(
    name: &Path,
    file: File,
    options: OpenOptions,
) -> Result<Option<Box<dyn EntrySource>>, SourceError> {
    use std::os::unix::ffi::OsStrExt;
    let failed =
        |error| SourceError::Unreadable { path: name.as_os_str().as_bytes().to_vec(), error };
    let OpenOptions { mut offset, seed, select, password, spool, decoder_memory_len_max } = options;
    let decoding = Decoding::new(password, decoder_memory_len_max);
    let mut head = vec![0; DETECT_LEN];
    let len = read_up_to(&file, offset, &mut head).map_err(failed)?;
    head.truncate(len);
    let format = match detect(&head) {
        Some(format) => Some(format),
        None => match find_behind_prefix(&file, offset).map_err(failed)? {
            Some((format, at)) => {
                offset = at;
                Some(format)
            }
            None if is_brotli(&head) => Some(Format::Compressed(Compression::Brotli)),
            None => None,
        },
    };
    let Some(format) = format else { return Ok(None) };
    let compression = match format {
        Format::Compressed(compression) => Some(compression),
        Format::Tar | Format::Cpio => None,
        Format::Unsupported(format, reader) => {
            let mut what = format!(
                "this format is not supported; unpack or mount it with {reader}, and pack the files"
            );
            if reader.contains("bsdtar") {
                what.push_str(", or convert it: `bsdtar -cf - @FILE | shale create - -o IMAGE`");
            }
            return Err(ForeignError::new(format, what).into_source(name.as_os_str().as_bytes()));
        }
        Format::Squashfs
        | Format::Zip
        | Format::Dwarfs
        | Format::Ar
        | Format::Rpm
        | Format::Sevenz
        | Format::Iso
        | Format::Erofs
        | Format::Xar
        | Format::Cab
        | Format::Rar => {
            let file = ImageFile::new(file, offset).map_err(failed)?;
            return open_image(name, file, format, &seed, select, decoding).map(Some);
        }
    };
    let input = if compression == Some(Compression::Lrzip) {
        let plain = Lrzip::new(ImageFile::new(file, offset).map_err(failed)?, spool);
        Input::of_plain(name, Box::new(Decompress::new(Box::new(plain), "lrzip")), true)?
    } else {
        (&file).seek(SeekFrom::Start(offset)).map_err(failed)?;
        Input::open(name, Box::new(file), compression)?
    };
    let inner = detect(&input.head);
    if inner == Some(Format::Cpio) {
        return Ok(Some(Box::new(CpioSource::new(input, &seed, select))));
    }
    if let Some(compression) = compression
        && inner != Some(Format::Tar)
    {
        let inner = match inner {
            Some(format) => format.name(),
            None => "file of an unknown format",
        };
        let what = format!(
            "it is {} data, but what comes out is no tar or cpio archive: {inner}. Decompress it \
             and pack the file or what is in it",
            compression.name()
        );
        return Err(ForeignError::new("compressed file", what).into_source(&input.name));
    }
    Ok(Some(Box::new(TarSource::read(input, TarOptions { seed, select })?)))
}

/// Opens an archive that is read at offsets.
fn open_image(
    name: &Path,
    file: ImageFile,
    format: Format,
    seed: &[u8],
    select: Option<Arc<dyn Select>>,
    decoding: Decoding,
) -> Result<Box<dyn EntrySource>, SourceError> {
    Ok(match format {
        Format::Squashfs => Box::new(SquashfsSource::new(name, file, seed, select)?),
        Format::Zip => Box::new(ZipSource::new(name, file, seed, select)?.decoding(decoding)),
        Format::Sevenz => Box::new(sevenz::open(name, file, seed, select, &decoding)?),
        Format::Iso => Box::new(IsoSource::new(name, file, seed, select)?),
        Format::Erofs => Box::new(ErofsSource::new(name, file, seed, select)?),
        Format::Xar => Box::new(xar::open(name, file, seed, select)?),
        Format::Cab => Box::new(cab::open(name, file, seed, select)?),
        #[cfg(feature = "rar")]
        Format::Rar => Box::new(crate::rar::open(name, file, seed, select, decoding)?),
        Format::Ar => ar::open(name, file, seed, select)?,
        Format::Rpm => Box::new(rpm::open(name, file, seed, select)?),
        _ => Box::new(DwarfsSource::new(name, file, seed, select.as_deref())?),
    })
}

/// The format and the beginning of an archive that follows something else: a zip archive by its
/// end, the others by their first bytes.
fn find_behind_prefix(file: &File, offset: u64) -> io::Result<Option<(Format, u64)>> {
    // Offsets in a zip archive count from its own beginning or from that of the file; the source
    // finds out.
    if zip::ends_like_one(&ImageFile::new(file.try_clone()?, offset)?) {
        return Ok(Some((Format::Zip, offset)));
    }
    const STEP: u64 = 1 << 20;
    // What begins within a step may end in the next.
    const OVERLAP: usize = 96;
    let mut buffer = vec![0; STEP as usize + OVERLAP];
    let file_len = file.metadata()?.len();
    for step in 0..PREFIX_LEN_MAX / STEP {
        let at = offset.saturating_add(step * STEP);
        let len = read_up_to(file, at, &mut buffer)?;
        let bytes = &buffer[..len];
        let dwarfs = dwarfs::find(bytes).map(|found| (found, Format::Dwarfs));
        let left = file_len.saturating_sub(at);
        let squashfs = squashfs::find(bytes, left).map(|found| (found, Format::Squashfs));
        #[cfg(feature = "rar")]
        let rar = crate::rar::find(bytes).map(|found| (found, Format::Rar));
        #[cfg(not(feature = "rar"))]
        let rar = None;
        let first = [dwarfs, squashfs, rar].into_iter().flatten().min_by_key(|(found, _)| *found);
        if let Some((found, format)) = first {
            return Ok(Some((format, at + found)));
        }
        if len < buffer.len() {
            break;
        }
    }
    Ok(None)
}

/// Returns true if these bytes are a compressed tar or cpio archive. brotli has no magic, so what
/// it decompresses to has to tell.
fn is_brotli(head: &[u8]) -> bool {
    let plain = Compression::Brotli.decoder(Box::new(io::Cursor::new(head.to_vec())));
    let mut start = Vec::new();
    let read = plain.and_then(|plain| plain.take(1024).read_to_end(&mut start));
    // The head is not all of it, so an error after some bytes is no wonder.
    let _ = read;
    begins_with_header(&start) || is_cpio(&start)
}

fn read_up_to(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < out.len() {
        match file.read_at(&mut out[len..], offset.saturating_add(len as u64)) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}
