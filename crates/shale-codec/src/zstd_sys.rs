//! Zstd's contexts with a safe interface: all the `unsafe` that zstd needs.
//!
//! `zstd-safe` lacks two things. A prefix must outlive its context there, so a context could not be
//! kept from frame to frame; here the prefix is borrowed for one call, and the context forgets it
//! before the call returns. And results go straight to the end of a `Vec`, without zeroing it
//! first.
//!
//! Zstd checks the bytes.
#![allow(unsafe_code)]

use std::mem;

use zstd_safe::zstd_sys::{ZSTD_compressionParameters, ZSTD_strategy};
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, ErrorCode, ResetDirective, WriteBuf};

/// The table sizes and search efforts of one compression.
pub(crate) type Parameters = ZSTD_compressionParameters;
/// How matches are searched.
pub(crate) type Strategy = ZSTD_strategy;

/// The parameters that zstd chooses for a level and the lengths of frame and prefix.
pub(crate) fn parameters(level: i32, frame_len: usize, prefix_len: usize) -> Parameters {
    // Zero means an unknown length there.
    let frame_len = frame_len.max(1) as u64;
    // SAFETY: plain numbers in, plain numbers out.
    unsafe { zstd_safe::zstd_sys::ZSTD_getCParams(level, frame_len, prefix_len) }
}

/// What a compressing context holds with these parameters, in bytes.
pub(crate) fn context_len(parameters: Parameters) -> usize {
    // SAFETY: plain numbers in, a plain number out.
    unsafe { zstd_safe::zstd_sys::ZSTD_estimateCCtxSize_usingCParams(parameters) }
}

/// A long-lived compressing context.
pub(crate) struct Compressor(CCtx<'static>);

impl Compressor {
    /// Returns `None` if there is no memory.
    pub(crate) fn new() -> Option<Compressor> {
        CCtx::try_create().map(Compressor)
    }

    /// Appends one frame to `out`, into at most `room` bytes of already reserved capacity.
    pub(crate) fn compress(
        &mut self,
        parameters: &[CParameter],
        prefix: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<usize, ErrorCode> {
        self.0.reset(ResetDirective::SessionAndParameters)?;
        for parameter in parameters {
            self.0.set_parameter(*parameter)?;
        }
        // SAFETY: only the lifetime changes. It keeps a context from holding a prefix that is
        // gone; the reset below makes the context forget the prefix while it is still borrowed.
        // Should a panic skip that, the pointer stays in the context but is not followed: the
        // next call starts with a reset, and dropping a context does not look at prefixes.
        let context = unsafe { mem::transmute::<&mut CCtx<'static>, &mut CCtx<'_>>(&mut self.0) };
        let result = context
            .ref_prefix(prefix)
            .and_then(|_| context.compress2(&mut Tail::new(out, room), plain));
        self.0.reset(ResetDirective::SessionAndParameters)?;
        result
    }

    /// What the context holds now, in bytes.
    #[cfg(test)]
    pub(crate) fn memory_len(&self) -> usize {
        self.0.sizeof()
    }
}

/// A long-lived decompressing context.
pub(crate) struct Decompressor(DCtx<'static>);

impl Decompressor {
    /// Returns `None` if there is no memory.
    pub(crate) fn new() -> Option<Decompressor> {
        DCtx::try_create().map(Decompressor)
    }

    /// Appends what `stored` decodes to, into at most `room` bytes of already reserved capacity.
    /// In one pass, so the context itself allocates nothing that depends on `stored`.
    pub(crate) fn decompress(
        &mut self,
        parameters: &[DParameter],
        prefix: &[u8],
        stored: &[u8],
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<usize, ErrorCode> {
        self.0.reset(ResetDirective::SessionAndParameters)?;
        for parameter in parameters {
            self.0.set_parameter(*parameter)?;
        }
        // SAFETY: as in `Compressor::compress`.
        let context = unsafe { mem::transmute::<&mut DCtx<'static>, &mut DCtx<'_>>(&mut self.0) };
        let result = context
            .ref_prefix(prefix)
            .and_then(|_| context.decompress(&mut Tail::new(out, room), stored));
        self.0.reset(ResetDirective::SessionAndParameters)?;
        result
    }
}

#[cfg(test)]
impl Decompressor {
    /// What the context holds now, in bytes.
    pub(crate) fn memory_len(&self) -> usize {
        self.0.sizeof()
    }
}

/// The spare capacity of a vector, as something that zstd can write to.
struct Tail<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
    room: usize,
}

impl<'a> Tail<'a> {
    fn new(bytes: &'a mut Vec<u8>, room: usize) -> Tail<'a> {
        let start = bytes.len();
        let room = room.min(bytes.capacity() - start);
        Tail { bytes, start, room }
    }
}

// SAFETY: `room` bytes from `start` are within the vector's capacity (`new` sees to that, and
// nothing here reallocates), the pointer is theirs, and `as_slice` shows what was filled only.
unsafe impl WriteBuf for Tail<'_> {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn capacity(&self) -> usize {
        self.room
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.spare_capacity_mut().as_mut_ptr().cast()
    }

    unsafe fn filled_until(&mut self, len: usize) {
        // SAFETY: the caller says that these bytes are written, and they are within capacity.
        unsafe { self.bytes.set_len(self.start + len.min(self.room)) }
    }
}
