//! liblzma's raw LZMA1 coders with a safe interface: all the `unsafe` that liblzma needs.
//!
//! A long-lived stream is set up anew for each frame and keeps its memory where sizes agree. The
//! preset dictionary is what the format calls the prefix. liblzma checks the bytes.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::{self, MaybeUninit};
use std::ptr;

use liblzma_sys as sys;

use crate::settings::MatchFinder;

/// Filter id of LZMA1 with a known length and without end marker, as in `lzma/lzma12.h`; the
/// bindings lack it.
const FILTER_LZMA1EXT: u64 = 0x4000_0000_0000_0002;

/// Filter id that ends a chain of filters.
const FILTER_END: u64 = u64::MAX;

/// How an LZMA1 stream is coded. The dictionary must cover prefix and frame. Only the encoder uses
/// the last five.
#[derive(Clone, Copy)]
pub(crate) struct Parameters {
    pub dictionary_len: u32,
    pub literal_context_bits: u32,
    pub literal_position_bits: u32,
    pub position_bits: u32,
    pub preset: u32,
    pub extreme: bool,
    pub nice_len: Option<u32>,
    pub match_finder: Option<MatchFinder>,
    pub search_depth: Option<u32>,
}

/// How a run of a coder ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The stream is complete, and this many bytes of the input are left over.
    Whole { rest_len: usize },
    /// Out of room for output.
    NoRoom,
    /// Out of input.
    NoInput,
    /// The input is not a stream, or the parameters are not valid.
    Damaged,
    /// Out of memory.
    NoMemory,
}

/// A long-lived encoder or decoder.
pub(crate) struct Stream(sys::lzma_stream);

// SAFETY: the stream owns the memory behind its pointers; the slices it is lent are gone from it
// at the end of each call. liblzma has no state tied to a thread.
unsafe impl Send for Stream {}

impl Stream {
    pub(crate) fn new() -> Stream {
        // SAFETY: all zero is how an unused stream is written in C (`LZMA_STREAM_INIT`).
        Stream(unsafe { mem::zeroed() })
    }

    /// Sets up for encoding a frame after `prefix`. liblzma copies the prefix at once.
    pub(crate) fn start_encoder(
        &mut self,
        parameters: &Parameters,
        prefix: &[u8],
    ) -> Result<(), End> {
        self.start(parameters, prefix, 0, sys::lzma_raw_encoder)
    }

    /// Sets up for decoding a frame of `plain_len` bytes after `prefix`, which is copied at once.
    pub(crate) fn start_decoder(
        &mut self,
        parameters: &Parameters,
        prefix: &[u8],
        plain_len: u64,
    ) -> Result<(), End> {
        self.start(parameters, prefix, plain_len, sys::lzma_raw_decoder)
    }

    fn start(
        &mut self,
        parameters: &Parameters,
        prefix: &[u8],
        plain_len: u64,
        init: unsafe extern "C" fn(*mut sys::lzma_stream, *const sys::lzma_filter) -> sys::lzma_ret,
    ) -> Result<(), End> {
        let mut options = parameters.options().ok_or(End::Damaged)?;
        options.preset_dict = if prefix.is_empty() { ptr::null() } else { prefix.as_ptr() };
        options.preset_dict_size = u32::try_from(prefix.len()).map_err(|_| End::Damaged)?;
        options.ext_flags = 0;
        options.ext_size_low = (plain_len & u64::from(u32::MAX)) as u32;
        options.ext_size_high = (plain_len >> 32) as u32;
        let filters = [
            sys::lzma_filter {
                id: FILTER_LZMA1EXT,
                options: ptr::from_mut(&mut options).cast::<c_void>(),
            },
            sys::lzma_filter { id: FILTER_END, options: ptr::null_mut() },
        ];
        // SAFETY: the stream is unused or was set up before, both of which are allowed; the
        // filters end with their end mark, and they, the options and the prefix outlive the
        // call, which copies what it needs of them.
        match unsafe { init(&raw mut self.0, filters.as_ptr()) } {
            sys::LZMA_OK => Ok(()),
            sys::LZMA_MEM_ERROR => Err(End::NoMemory),
            _ => Err(End::Damaged),
        }
    }

    /// Feeds `input`, all of it the rest of the input when `is_last`, and appends to `out` into at
    /// most `room` bytes of already reserved capacity. Cuts `input` to the bytes at its end that
    /// were not taken.
    pub(crate) fn run(
        &mut self,
        input: &mut &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
        room: usize,
    ) -> End {
        let stream = &mut self.0;
        let spare = out.spare_capacity_mut();
        let room = room.min(spare.len());
        stream.next_in = input.as_ptr();
        stream.avail_in = input.len();
        stream.next_out = spare.as_mut_ptr().cast();
        stream.avail_out = room;
        let action = if is_last { sys::LZMA_FINISH } else { sys::LZMA_RUN };
        let result = loop {
            // SAFETY: the stream was set up by `start` (liblzma refuses one that was not), and
            // its pointers and lengths are those of live slices.
            let result = unsafe { sys::lzma_code(stream, action) };
            let is_progress_possible = stream.avail_out > 0 && (stream.avail_in > 0 || is_last);
            if result != sys::LZMA_OK || !is_progress_possible {
                break result;
            }
        };
        let written_len = room - stream.avail_out;
        let rest_len = stream.avail_in;
        stream.next_in = ptr::null();
        stream.avail_in = 0;
        stream.next_out = ptr::null_mut();
        let is_full = mem::take(&mut stream.avail_out) == 0;
        // SAFETY: liblzma wrote this many bytes, at most `room`, into the spare capacity.
        unsafe { out.set_len(out.len() + written_len) };
        *input = &input[input.len() - rest_len..];
        match result {
            sys::LZMA_STREAM_END => End::Whole { rest_len },
            sys::LZMA_OK | sys::LZMA_BUF_ERROR if is_full => End::NoRoom,
            sys::LZMA_OK | sys::LZMA_BUF_ERROR => End::NoInput,
            sys::LZMA_MEM_ERROR => End::NoMemory,
            _ => End::Damaged,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: frees what the stream owns, which may be nothing; it is not used again.
        unsafe { sys::lzma_end(&raw mut self.0) }
    }
}

impl Parameters {
    /// `None` for a preset that liblzma does not know.
    fn options(&self) -> Option<sys::lzma_options_lzma> {
        let mut options = MaybeUninit::<sys::lzma_options_lzma>::zeroed();
        let preset = self.preset | if self.extreme { sys::LZMA_PRESET_EXTREME } else { 0 };
        // SAFETY: the pointer is that of a live value, which the call fills; all zero is also a
        // value of every one of its fields.
        let (is_unknown, mut options) = unsafe {
            let is_unknown = sys::lzma_lzma_preset(options.as_mut_ptr(), preset);
            (is_unknown, options.assume_init())
        };
        if is_unknown != 0 {
            return None;
        }
        options.dict_size = self.dictionary_len;
        options.lc = self.literal_context_bits;
        options.lp = self.literal_position_bits;
        options.pb = self.position_bits;
        options.nice_len = self.nice_len.unwrap_or(options.nice_len);
        options.depth = self.search_depth.unwrap_or(options.depth);
        if let Some(finder) = self.match_finder {
            options.mf = finder as sys::lzma_match_finder;
        }
        Some(options)
    }

    /// What an encoder with these parameters holds, in bytes.
    pub(crate) fn encoder_len(&self) -> Option<u64> {
        let mut options = self.options()?;
        let filters = [
            sys::lzma_filter {
                id: FILTER_LZMA1EXT,
                options: ptr::from_mut(&mut options).cast::<c_void>(),
            },
            sys::lzma_filter { id: FILTER_END, options: ptr::null_mut() },
        ];
        // SAFETY: the filters end with their end mark; they and the options outlive the call.
        let len = unsafe { sys::lzma_raw_encoder_memusage(filters.as_ptr()) };
        (len != u64::MAX).then_some(len)
    }
}
