//! Streams of compressed data whose errors say what is wrong in words, not in a library's.

use std::io::{self, Read};
use std::sync::Arc;

use crate::error::ForeignError;
use crate::lacks;

/// Memory that a decompressor may take unless the caller says less: 2 GiB, more than programs ask
/// for by default.
const MEMORY_LEN_MAX: u64 = 2 << 30;

/// What the entries of an archive are decrypted with, and the memory to decompress them.
#[derive(Clone)]
pub(crate) struct Decoding {
    pub password: Option<Arc<[u8]>>,
    /// An archive names the memory of its decompressor; more than this is refused.
    pub memory_len_max: u64,
}

impl Decoding {
    pub(crate) fn new(password: Option<Arc<[u8]>>, memory_len_max: Option<u64>) -> Self {
        let memory_len_max = memory_len_max.unwrap_or(MEMORY_LEN_MAX).min(MEMORY_LEN_MAX);
        Self { password, memory_len_max }
    }
}

/// Says that a decompressor needs `needed` bytes where `allowed` bytes are allowed.
pub(crate) fn needs_memory(needed: u64, allowed: u64) -> String {
    format!(
        "{}: {} MiB, and {} MiB are allowed",
        lacks::MEMORY,
        needed.div_ceil(1 << 20),
        allowed >> 20
    )
}

/// A decompressing reader.
pub(crate) struct Decompress {
    plain: Box<dyn Read + Send>,
    /// Name of the compression, as people know it.
    name: &'static str,
}

impl Decompress {
    pub(crate) fn new(plain: Box<dyn Read + Send>, name: &'static str) -> Self {
        Self { plain, name }
    }
}

impl Read for Decompress {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.plain.read(out).map_err(|error| in_words(self.name, error))
    }
}

/// The error of a decompressor in words. An error of the system stays what it is.
pub(crate) fn in_words(name: &str, error: io::Error) -> io::Error {
    let is_ours = error.get_ref().is_some_and(|inner| inner.is::<ForeignError>());
    if error.raw_os_error().is_some() || is_ours || error.kind() == io::ErrorKind::Interrupted {
        return error;
    }
    if error.kind() == io::ErrorKind::UnexpectedEof {
        let what = format!("the {name} data end too early: they were truncated");
        return io::Error::new(io::ErrorKind::UnexpectedEof, what);
    }
    io::Error::new(io::ErrorKind::InvalidData, what_is_wrong(name, &error))
}

/// What is wrong with a block of compressed data whose end is known: no part of it is missing, so
/// data that end too early are corrupt.
pub(crate) fn what_is_wrong(name: &str, error: &io::Error) -> String {
    // Libraries say so in their own words; all of them have this one.
    match error.to_string().to_ascii_lowercase().contains("memory") {
        true => format!("the {name} data need more memory than is allowed for decompression"),
        false => format!("corrupt {name} data"),
    }
}

/// A decoder of a library that may panic on corrupt data, which is an error then.
pub(crate) struct Guarded<R>(Option<R>);

impl<R> Guarded<R> {
    pub(crate) fn new(decoder: R) -> Self {
        Self(Some(decoder))
    }
}

impl<R: Read> Read for Guarded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let corrupt = || io::Error::from(io::ErrorKind::InvalidData);
        let decoder = self.0.as_mut().ok_or_else(corrupt)?;
        let read = std::panic::AssertUnwindSafe(|| decoder.read(out));
        match std::panic::catch_unwind(read) {
            Ok(result) => result,
            Err(_) => {
                // It is in an unknown state.
                self.0 = None;
                Err(corrupt())
            }
        }
    }
}
