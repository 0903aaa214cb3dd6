//! One file that runs: a runtime, a header and an image.
//!
//! The runtime is the program of `crates/shale-runtime`, given as bytes; it is checked for its mark
//! before it is used. The image is copied as it is, with its parity and signatures.

use std::fs::{File, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use shale_codec::xxh3_64;
use shale_format::Bundle;
use shale_format::bundle::{EXECUTABLE_HEAD_LEN, bundle_offset, executable_len};
use shale_host::{Cancel, Existing, OutputFile, Phase, Progress, existing};
use shale_read::{PieceKind, ReadError, Tree};

use crate::error::Error;

/// The mark in every runtime, its bits inverted; its number changes when bundles do. A program that
/// held the mark itself, as this one would, could be taken for a runtime.
const INVERTED_MARK: [u8; 24] = inverted(*b"ShaleFS bundle runtime 1");
/// Longest runtime: one with all its line tables is below.
const RUNTIME_LEN_MAX: u64 = 256 << 20;
/// Bytes copied between two looks at whether the work was cancelled.
const COPY_LEN: u64 = 64 << 20;
/// Program header type of the name of a dynamic loader.
const PT_INTERP: u32 = 3;

/// A runtime that bundles can begin with.
#[derive(Debug)]
pub struct Runtime {
    bytes: Vec<u8>,
    /// It needs the C library of the machine that it runs on.
    pub is_dynamic: bool,
}

impl Runtime {
    /// Reads the runtime at `path`.
    ///
    /// # Errors
    /// It cannot be read, or is no runtime of this version.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(RUNTIME_LEN_MAX).read_to_end(&mut bytes))
            .map_err(Error::io("read the runtime", path))?;
        let refuse = |what: &str| Error::Runtime { path: path.to_owned(), what: what.to_owned() };
        let head = bytes.first_chunk::<EXECUTABLE_HEAD_LEN>();
        let end = head.and_then(executable_len).ok_or_else(|| refuse("it is not an ELF file"))?;
        let is_mark = |window: &[u8]| window.iter().map(|byte| !byte).eq(INVERTED_MARK);
        if !bytes.windows(INVERTED_MARK.len()).any(is_mark) {
            return Err(refuse("it does not have the mark of this version"));
        }
        if end < bytes.len() as u64 {
            return Err(refuse("bytes follow its end: it is a bundle already"));
        }
        if end > bytes.len() as u64 {
            return Err(refuse("it is truncated"));
        }
        let is_dynamic = has_loader(&bytes);
        Ok(Self { bytes, is_dynamic })
    }

    /// Bytes of the runtime.
    pub fn byte_count(&self) -> u64 {
        self.bytes.len() as u64
    }
}

const fn inverted<const LEN: usize>(mut bytes: [u8; LEN]) -> [u8; LEN] {
    let mut at = 0;
    while at < LEN {
        bytes[at] = !bytes[at];
        at += 1;
    }
    bytes
}

/// Checks whether a 64-bit ELF file names a dynamic loader.
fn has_loader(bytes: &[u8]) -> bool {
    let number = |at: usize, len: usize| {
        let bytes = bytes.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte)))
    };
    let table = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    let (Some(offset), Some(entry_len), Some(entry_count)) = table else { return false };
    (0..entry_count).any(|entry| {
        let at = offset.checked_add(entry * entry_len).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| number(at, 4)) == Some(u64::from(PT_INTERP))
    })
}

/// How a bundle is made.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BundleOptions {
    /// Path of the program in the image.
    pub run: Vec<u8>,
    /// Bytes at the start of the image that a start reads; see [`warm_len`].
    pub warm_len: u64,
    /// Replaces an existing file.
    pub overwrite: bool,
    /// Cancels the work.
    pub cancel: Cancel,
}

impl BundleOptions {
    shale_host::setters! {
        run: Vec<u8>,
        warm_len: u64,
        overwrite: bool,
        cancel: Cancel,
    }
}

/// Writes `runtime`, a header and the image in `image` from `image_offset` on to the executable
/// file `output`. Returns its length.
///
/// # Errors
/// The path of the program is not valid, the image cannot be read, or the output cannot be written;
/// it is then as it was before.
pub fn bundle(
    runtime: &Runtime,
    mut image: &File,
    image_offset: u64,
    output: &Path,
    options: &BundleOptions,
    progress: &dyn Progress,
) -> Result<u64, Error> {
    let header = Bundle { run: options.run.clone(), warm_len: options.warm_len };
    let header = header.encode(xxh3_64).map_err(ReadError::from)?;
    match existing(output)? {
        Existing::File if !options.overwrite => {
            return Err(shale_host::Error::Exists { path: output.to_owned() }.into());
        }
        Existing::Stream => return Err(Error::NotFile { path: output.to_owned() }),
        Existing::File | Existing::Nothing => {}
    }
    let image_len = image.seek(SeekFrom::End(0)).map_err(Error::io("read", "the image"))?;
    image.seek(SeekFrom::Start(image_offset)).map_err(Error::io("read", "the image"))?;
    let out = OutputFile::create(output)?;
    let fail = || Error::io("write", output);
    let mut file = out.file();
    let offset = bundle_offset(runtime.byte_count()).unwrap_or(u64::MAX);
    file.write_all(&runtime.bytes).map_err(fail())?;
    file.set_len(offset).map_err(fail())?;
    file.seek(SeekFrom::Start(offset)).map_err(fail())?;
    file.write_all(&header).map_err(fail())?;
    let mut rest = image_len.saturating_sub(image_offset);
    progress.phase(Phase::Sections);
    progress.found(0, rest);
    while rest > 0 {
        options.cancel.check()?;
        let mut part = image.take(rest.min(COPY_LEN));
        let len = std::io::copy(&mut part, &mut file).map_err(fail())?;
        if len == 0 {
            return Err(fail()(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)));
        }
        progress.done(0, len);
        rest -= len;
    }
    let len = file.stream_position().map_err(fail())?;
    out.sync()?;
    options.cancel.check()?;
    let handle = file.try_clone().map_err(fail())?;
    out.commit(options.overwrite)?;
    // Whoever may read it may run it.
    let mode = handle.metadata().map_err(fail())?.permissions().mode();
    let executable = Permissions::from_mode(mode | (mode & 0o444) >> 2);
    handle.set_permissions(executable).map_err(fail())?;
    Ok(len)
}

/// Returns how many bytes at the start of the image hold the contents of `paths`, if that is less
/// than half of it: the contents that were stored first. Paths that are not files do not count.
///
/// # Errors
/// The image is damaged.
pub fn warm_len(tree: &Tree, paths: &[Vec<u8>]) -> Result<u64, Error> {
    let mut end = 0;
    for path in paths {
        let Some(inode) = tree.lookup_path(path)? else { continue };
        if tree.attributes(inode)?.content().is_none() {
            continue;
        }
        for piece in tree.pieces(inode, 0..u64::MAX)? {
            if let PieceKind::Frame { frame, .. } = piece?.kind {
                let record = tree.image().frame_record(frame)?;
                end = end.max(record.stored_offset.saturating_add(record.stored_len));
            }
        }
    }
    Ok(if end < tree.image().len() / 2 { end } else { 0 })
}
