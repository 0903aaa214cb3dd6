//! RPM packages: their files are a compressed cpio archive after two headers, of which only the
//! lengths are read. Owners are names in a header, so the numbers are those of the cpio archive.

use std::path::Path;
use std::sync::Arc;

use shale_model::{Select, SourceError};

use crate::compression::Compression;
use crate::cpio::{CpioSource, is_cpio};
use crate::error::ForeignError;
use crate::stream::Input;
use crate::tree::{FileRange, ImageFile};

const FORMAT: &str = "RPM package";
/// First bytes of a package.
pub(crate) const MAGIC: &[u8] = b"\xed\xab\xee\xdb";
const LEAD_LEN: u64 = 96;
const HEADER_MAGIC: &[u8] = b"\x8e\xad\xe8";
/// Bytes of a header's beginning, and of an entry of its index.
const HEADER_LEN: u64 = 16;
const INDEX_LEN: u64 = 16;
/// Magic of the entries of packages with files from 4 GiB on, which have no metadata there.
const STRIPPED_MAGIC: &[u8] = b"07070X";

/// Opens a package. `seed` are bytes that stand for the file.
///
/// # Errors
/// The package is corrupt, or its payload is not a cpio archive.
pub(crate) fn open(
    name: &Path,
    file: ImageFile,
    seed: &[u8],
    select: Option<Arc<dyn Select>>,
) -> Result<CpioSource, SourceError> {
    use std::os::unix::ffi::OsStrExt;
    let path = name.as_os_str().as_bytes();
    let fault = |what: String| ForeignError::new(FORMAT, what).into_source(path);
    // The signature is padded to a multiple of 8.
    let signature_end = header_end(&file, LEAD_LEN).map_err(fault)?.next_multiple_of(8);
    let start = header_end(&file, signature_end).map_err(fault)?;
    let head = file.read(start, file.len().saturating_sub(start).min(16)).map_err(fault)?;
    let compression = Compression::detect(&head);
    let file = Arc::new(file);
    let range = FileRange::new(&file, start..file.len());
    let input = Input::open(name, Box::new(range), compression)?;
    if input.head.starts_with(STRIPPED_MAGIC) {
        let what = "packages with files of 4 GiB or more are not supported; unpack it with \
                    `rpm2archive` and pack the tar archive";
        return Err(fault(what.to_owned()));
    }
    if !is_cpio(&input.head) {
        return Err(fault("corrupt: its files are not a cpio archive".to_owned()));
    }
    Ok(CpioSource::new(input, seed, select))
}

/// Where the header at `start` ends.
fn header_end(file: &ImageFile, start: u64) -> Result<u64, String> {
    let head = file.read(start, HEADER_LEN)?;
    if &head[..3] != HEADER_MAGIC {
        return Err(format!("corrupt: at byte {start} should be a header"));
    }
    let number = |at: usize| {
        u64::from(u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]))
    };
    Ok(start + HEADER_LEN + number(8) * INDEX_LEN + number(12))
}
