//! An image in parts of a given length, for media and file systems with a limit.
//!
//! The parts are cuts of the file, without heads: joined by `cat` they are the file again. Their
//! names say which part each is and how many there are. All parts get their names once all of them
//! are on the disk.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shale_format::merkle::LEAF_LEN;
use shale_host::{Cancel, OutputFile, Phase, Progress};
use shale_read::files::{PART_LEN_MIN, PARTS_COUNT_MAX, PartName};
use shale_read::{ByteSource, Image, Options};

use crate::error::Error;

/// Bytes that are copied at a time.
const STEP_LEN: u64 = 1 << 20;

/// What [`split`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SplitReport {
    /// The parts, in order.
    pub parts: Vec<PathBuf>,
    /// Bytes of each part but the last.
    pub part_bytes: u64,
    /// Bytes of all parts.
    pub file_bytes: u64,
}

/// Cuts the file `file`, which holds the image that `image` reads, into parts of at most `part_len`
/// bytes. Their names are `prefix` and a number.
///
/// # Errors
/// The length is too small or makes too many parts, the file fits into one part, the image is not
/// complete, or a part exists and `overwrite` is false. No part has a name then, unless naming them
/// failed half-way.
pub fn split(
    file: &dyn ByteSource,
    image: Arc<dyn ByteSource>,
    part_len: u64,
    prefix: &Path,
    overwrite: bool,
    cancel: &Cancel,
    progress: &dyn Progress,
) -> Result<SplitReport, Error> {
    // Whole leaves, so that parts can be told apart by the hashes of their leaves.
    let part_len = part_len / LEAF_LEN * LEAF_LEN;
    let refuse = |what: String| Err(Error::Split { what });
    if part_len < PART_LEN_MIN {
        return refuse(format!("parts have at least {PART_LEN_MIN} bytes"));
    }
    let count = file.len().div_ceil(part_len);
    if count < 2 {
        return refuse(format!("its {} bytes fit into one part", file.len()));
    }
    if count > u64::from(PARTS_COUNT_MAX) {
        let least = file.len().div_ceil(u64::from(PARTS_COUNT_MAX)).next_multiple_of(LEAF_LEN);
        return refuse(format!(
            "it would have {count} parts, more than {PARTS_COUNT_MAX}; use parts of {least} bytes \
             or more"
        ));
    }
    if let Some(recovery) = Image::open(image, Options::default().repair(false))?.recovered() {
        return refuse(format!("its end is damaged ({}); repair it first", recovery.reason));
    }
    let stem = prefix.file_name().unwrap_or_default().as_bytes().to_vec();
    let paths: Vec<PathBuf> = (1..=count as u32)
        .map(|number| PartName { stem: stem.clone(), number, count: count as u32 })
        .map(|name| prefix.with_file_name(OsStr::from_bytes(&name.to_bytes())))
        .collect();
    if !overwrite && let Some(path) = paths.iter().find(|path| path.exists()) {
        return Err(shale_host::Error::Exists { path: path.clone() }.into());
    }
    progress.phase(Phase::Sections);
    progress.found(0, file.len());
    let (mut at, mut bytes) = (0, Vec::new());
    let mut written = Vec::with_capacity(paths.len());
    for path in &paths {
        let output = OutputFile::create(path)?;
        let mut out: &File = output.file();
        let end = (at + part_len).min(file.len());
        while at < end {
            cancel.check()?;
            bytes.resize((end - at).min(STEP_LEN) as usize, 0);
            file.read_at(at, &mut bytes).map_err(Error::io("read", "the image"))?;
            out.write_all(&bytes).map_err(Error::io("write", path))?;
            at += bytes.len() as u64;
            progress.done(0, bytes.len() as u64);
        }
        output.sync()?;
        written.push(output);
    }
    cancel.check()?;
    // The first part comes last: without it nothing looks like a split image.
    for output in written.into_iter().rev() {
        output.commit(overwrite)?;
    }
    Ok(SplitReport { parts: paths, part_bytes: part_len, file_bytes: file.len() })
}
