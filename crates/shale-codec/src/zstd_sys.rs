//! Zstd's contexts with a safe interface: all the `unsafe` that zstd needs.
//!
//! `zstd-safe` lacks two things. A prefix must outlive its context there, so a context could not be
//! kept from frame to frame; here the prefix is borrowed for one call, and the context forgets it
//! before the call returns. And results go straight to the end of a `Vec`, without zeroing it
//! first. A decoding that stops between blocks ([`BlockDecoder`]) has a context of its own, and
//! owns all memory that the context points to.
//!
//! Zstd checks the bytes.
#![allow(unsafe_code)]

use std::mem;
use std::ptr::NonNull;

use zstd_safe::zstd_sys as sys;
use zstd_safe::zstd_sys::{ZSTD_compressionParameters, ZSTD_strategy};
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, ErrorCode, ResetDirective, WriteBuf};

use crate::prefix::Prefix;

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

/// One decoding that goes from block to block, and may stay between two of them.
///
/// Blocks are at most 128 KiB long. The context keeps the tables of the last block, and points to
/// the prefix and to the bytes decoded so far. Both are here and never move.
pub(crate) struct BlockDecoder {
    context: NonNull<sys::ZSTD_DCtx>,
    /// Never changes, so it does not move.
    prefix: Prefix,
    /// Has its whole capacity from the start, so it does not move.
    plain: Vec<u8>,
    plain_len: usize,
    stored: Vec<u8>,
    /// Stored bytes that are decoded.
    taken_len: usize,
    /// The last block is decoded, or decoding failed.
    is_over: bool,
}

// SAFETY: the context and everything that it points to belong to this value, and zstd has no state
// that is tied to a thread.
unsafe impl Send for BlockDecoder {}

impl BlockDecoder {
    /// Prepares for decoding `stored` to `plain_len` bytes, which `plain` must have room for.
    /// Uses at most the last `prefix_len_max` bytes of the prefix. Returns `None` if there is no
    /// memory.
    pub(crate) fn new(
        prefix: Prefix,
        prefix_len_max: usize,
        stored: Vec<u8>,
        plain: Vec<u8>,
        plain_len: usize,
    ) -> Option<BlockDecoder> {
        if !plain.is_empty() || plain.capacity() < plain_len {
            return None;
        }
        // SAFETY: makes a context, or returns null.
        let context = NonNull::new(unsafe { sys::ZSTD_createDCtx() })?;
        let made = BlockDecoder {
            context,
            prefix,
            plain,
            plain_len,
            stored,
            taken_len: 0,
            is_over: false,
        };
        let bytes: &[u8] = &made.prefix;
        let useful = &bytes[bytes.len().saturating_sub(prefix_len_max)..];
        let (format, magicless) = (sys::ZSTD_dParameter::ZSTD_d_experimentalParam1, 1);
        // SAFETY: the context is live. It keeps a pointer to the prefix, which lives and stays
        // where it is as long as this value.
        let failed = unsafe {
            let codes = [
                sys::ZSTD_DCtx_setParameter(context.as_ptr(), format, magicless),
                sys::ZSTD_decompressBegin(context.as_ptr()),
            ];
            // The pointer of no bytes is not one that zstd may go on from.
            if !useful.is_empty() {
                sys::ZSTD_insertBlock(context.as_ptr(), useful.as_ptr().cast(), useful.len());
            }
            codes.iter().any(|code| is_error(*code))
        };
        (!failed).then_some(made)
    }

    /// What was decoded so far.
    pub(crate) fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// The bytes decoded so far, without the rest.
    pub(crate) fn into_plain(mut self) -> Vec<u8> {
        mem::take(&mut self.plain)
    }

    /// Reports whether all blocks are decoded and no stored bytes are left.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_over && self.taken_len == self.stored.len() && self.plain.len() == self.plain_len
    }

    /// Decodes blocks until at least `len` bytes are there, and all blocks if `len` is the whole
    /// length. After a failure nothing more can be decoded.
    pub(crate) fn advance(&mut self, len: usize) -> Result<(), ErrorCode> {
        let len = len.min(self.plain_len);
        while self.plain.len() < len || len == self.plain_len && !self.is_over {
            if self.is_over {
                // Ended early, or failed before.
                return Err(ERROR_GENERIC);
            }
            let done = self.step();
            self.is_over |= done.is_err();
            done?;
        }
        Ok(())
    }

    /// Decodes the next header or block.
    fn step(&mut self) -> Result<(), ErrorCode> {
        let context = self.context.as_ptr();
        // SAFETY: the context is live.
        let wanted_len = unsafe { sys::ZSTD_nextSrcSizeToDecompress(context) };
        let input = self.stored[self.taken_len..].get(..wanted_len).ok_or(ERROR_GENERIC)?;
        let room = self.plain_len.saturating_sub(self.plain.len());
        let spare = self.plain.spare_capacity_mut();
        let room = room.min(spare.len());
        // SAFETY: the context is live, and so are prefix and decoded bytes that it points to;
        // `input` is as long as it asked for, and `room` bytes are within the spare capacity, which
        // no one else reads.
        let written_len = unsafe {
            let target = spare.as_mut_ptr().cast();
            let input = input.as_ptr().cast();
            sys::ZSTD_decompressContinue(context, target, room, input, wanted_len)
        };
        if is_error(written_len) {
            return Err(written_len);
        }
        self.taken_len += wanted_len;
        // SAFETY: zstd wrote this many bytes, at most `room`, into the spare capacity.
        unsafe { self.plain.set_len(self.plain.len() + written_len.min(room)) };
        // SAFETY: the context is live.
        self.is_over = unsafe { sys::ZSTD_nextSrcSizeToDecompress(context) } == 0;
        Ok(())
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory_len(&self) -> usize {
        // SAFETY: the context is live.
        let context_len = unsafe { sys::ZSTD_sizeof_DCtx(self.context.as_ptr()) };
        context_len + self.prefix.own_len() + self.plain.capacity() + self.stored.capacity()
    }
}

impl Drop for BlockDecoder {
    fn drop(&mut self) {
        // SAFETY: the context is live and not used again.
        unsafe { sys::ZSTD_freeDCtx(self.context.as_ptr()) };
    }
}

/// What zstd says when no better word is known.
const ERROR_GENERIC: ErrorCode = 1usize.wrapping_neg();

fn is_error(code: usize) -> bool {
    // SAFETY: a plain number in, a plain number out.
    unsafe { sys::ZSTD_isError(code) != 0 }
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
