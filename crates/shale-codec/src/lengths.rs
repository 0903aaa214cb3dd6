//! Lengths of frames: the longest one, room for a result, and the error of a wrong length.

use crate::{Codec, CodecError};

/// The longest frame. Callers have lower limits of their own. This one keeps the libraries' 32-bit
/// lengths and window logarithms out of reach.
pub(crate) const FRAME_LEN_MAX: usize = 512 << 20;

/// Refuses frames that the libraries' lengths could not hold.
pub(crate) fn check_len(codec: Codec, frame_len: usize) -> Result<(), CodecError> {
    if codec != Codec::Stored && frame_len > FRAME_LEN_MAX {
        let (len, len_max) = (frame_len as u64, FRAME_LEN_MAX as u64);
        return Err(CodecError::TooLong { codec, len, len_max });
    }
    Ok(())
}

/// Makes room for `len` more bytes, or reports that there is no memory.
pub(crate) fn reserve(codec: Codec, len: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    out.try_reserve(len).map_err(|_| CodecError::OutOfMemory { codec, len: len as u64 })
}

/// Copies bytes to the end of `out`.
pub(crate) fn append(codec: Codec, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    reserve(codec, bytes.len(), out)?;
    out.extend_from_slice(bytes);
    Ok(())
}

/// The error of a frame whose length is not the one asked for.
pub(crate) fn wrong_len(codec: Codec, expected: usize, found: usize) -> CodecError {
    CodecError::WrongLength { codec, expected: expected as u64, found: found as u64 }
}
