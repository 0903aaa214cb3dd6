//! LZ4's block functions with a safe interface: all the `unsafe` that LZ4 needs.
//!
//! `lz4-sys` builds and links the library but declares only a part of it; the calls with
//! dictionaries are declared here, as in the library's headers `lz4.h` and `lz4hc.h`.
//!
//! Lengths are checked here against the library's `int`. LZ4 checks the bytes.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

// For its library alone.
use lz4_sys as _;

unsafe extern "C" {
    fn LZ4_createStream() -> *mut c_void;
    fn LZ4_freeStream(stream: *mut c_void) -> c_int;
    fn LZ4_resetStream(stream: *mut c_void);
    fn LZ4_loadDict(stream: *mut c_void, prefix: *const c_char, prefix_len: c_int) -> c_int;
    fn LZ4_compress_fast_continue(
        stream: *mut c_void,
        plain: *const c_char,
        stored: *mut c_char,
        plain_len: c_int,
        stored_len_max: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_createStreamHC() -> *mut c_void;
    fn LZ4_freeStreamHC(stream: *mut c_void) -> c_int;
    fn LZ4_resetStreamHC(stream: *mut c_void, level: c_int);
    fn LZ4_loadDictHC(stream: *mut c_void, prefix: *const c_char, prefix_len: c_int) -> c_int;
    fn LZ4_compress_HC_continue(
        stream: *mut c_void,
        plain: *const c_char,
        stored: *mut c_char,
        plain_len: c_int,
        stored_len_max: c_int,
    ) -> c_int;
    fn LZ4_compressBound(plain_len: c_int) -> c_int;
    fn LZ4_decompress_safe_usingDict(
        stored: *const c_char,
        plain: *mut c_char,
        stored_len: c_int,
        plain_len_max: c_int,
        prefix: *const c_char,
        prefix_len: c_int,
    ) -> c_int;
}

/// The block of no bytes: a token without literals and match.
const EMPTY_BLOCK: &[u8] = &[0];

/// The longest block for this many plain bytes, or `None` when LZ4 cannot hold them.
pub(crate) fn bound(plain_len: usize) -> Option<usize> {
    let plain_len = c_int::try_from(plain_len).ok()?;
    // SAFETY: a number in, a number out; zero for a length that is too large.
    let bound = unsafe { LZ4_compressBound(plain_len) };
    usize::try_from(bound).ok().filter(|bound| *bound > 0)
}

/// A long-lived compressing stream.
pub(crate) struct Compressor {
    stream: NonNull<c_void>,
    /// Zero is the fast compressor, anything else a level of the high compression one.
    level: c_int,
}

// SAFETY: a stream is plain memory owned by this value; LZ4 has no state outside it.
unsafe impl Send for Compressor {}

impl Compressor {
    /// Returns `None` if there is no memory.
    pub(crate) fn new(level: i32) -> Option<Compressor> {
        // SAFETY: both return a new stream or null.
        let stream = unsafe { if level == 0 { LZ4_createStream() } else { LZ4_createStreamHC() } };
        Some(Compressor { stream: NonNull::new(stream)?, level })
    }

    /// Appends one block to `out`, into at most `room` bytes of already reserved capacity. The
    /// block stands for `joined` from `prefix_len` on; what comes before is the prefix. `None` is
    /// a refusal: lengths out of range, or too little room.
    pub(crate) fn compress(
        &mut self,
        joined: &[u8],
        prefix_len: usize,
        out: &mut Vec<u8>,
        room: usize,
    ) -> Option<()> {
        let (prefix, plain) = joined.split_at_checked(prefix_len)?;
        if plain.is_empty() {
            // LZ4 computes addresses before the end of its input, which must not wrap around as
            // those of an empty slice would.
            out.extend_from_slice(EMPTY_BLOCK);
            return Some(());
        }
        let prefix_len = c_int::try_from(prefix.len()).ok()?;
        let plain_len = c_int::try_from(plain.len()).ok()?;
        let (prefix, plain) = (prefix.as_ptr().cast(), plain.as_ptr().cast());
        let spare = out.spare_capacity_mut();
        let room = c_int::try_from(room.min(spare.len())).ok()?;
        let stored: *mut c_char = spare.as_mut_ptr().cast();
        let stream = self.stream.as_ptr();
        // SAFETY: the stream is of the kind that `level` says, as `new` made it. Pointers and
        // lengths are those of live slices. Loading a prefix keeps a pointer to it in the
        // stream, which the reset at the start of the next call clears before any use.
        let len = unsafe {
            if self.level == 0 {
                LZ4_resetStream(stream);
                if prefix_len > 0 {
                    LZ4_loadDict(stream, prefix, prefix_len);
                }
                LZ4_compress_fast_continue(stream, plain, stored, plain_len, room, 1)
            } else {
                LZ4_resetStreamHC(stream, self.level);
                if prefix_len > 0 {
                    LZ4_loadDictHC(stream, prefix, prefix_len);
                }
                LZ4_compress_HC_continue(stream, plain, stored, plain_len, room)
            }
        };
        let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
        // SAFETY: LZ4 wrote `len` bytes, at most `room`, into the spare capacity.
        unsafe { out.set_len(out.len() + len) };
        Some(())
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: the stream is of the kind that `level` says, and not used again.
        unsafe {
            if self.level == 0 {
                LZ4_freeStream(self.stream.as_ptr());
            } else {
                LZ4_freeStreamHC(self.stream.as_ptr());
            }
        }
    }
}

/// Appends what a block decodes to, into at most `room` bytes of already reserved capacity, and
/// says how many they are. `None` is a block that is damaged, or longer than `room`.
pub(crate) fn decompress(
    prefix: &[u8],
    stored: &[u8],
    out: &mut Vec<u8>,
    room: usize,
) -> Option<usize> {
    if room == 0 || stored.is_empty() {
        return (stored == EMPTY_BLOCK).then_some(0);
    }
    let prefix_len = c_int::try_from(prefix.len()).ok()?;
    let stored_len = c_int::try_from(stored.len()).ok()?;
    let spare = out.spare_capacity_mut();
    let room = c_int::try_from(room.min(spare.len())).ok()?;
    let plain: *mut c_char = spare.as_mut_ptr().cast();
    // SAFETY: pointers and lengths are those of live slices; this is LZ4's decoder for untrusted
    // bytes, which reads and writes within them only.
    let len = unsafe {
        LZ4_decompress_safe_usingDict(
            stored.as_ptr().cast(),
            plain,
            stored_len,
            room,
            prefix.as_ptr().cast(),
            prefix_len,
        )
    };
    let len = usize::try_from(len).ok()?;
    // SAFETY: LZ4 wrote `len` bytes, at most `room`, into the spare capacity.
    unsafe { out.set_len(out.len() + len) };
    Some(len)
}
