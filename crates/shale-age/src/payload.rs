//! The payload: chunks of 64 KiB, each encrypted and authenticated under its number (STREAM).
//!
//! The last chunk says that it is the last, so that a file cannot be cut or continued unnoticed.

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce, Tag};

use crate::error::Error;
use crate::secret::{FileKey, TAG_LEN};

/// Plain bytes of a chunk; the last one may have fewer.
pub(crate) const CHUNK_LEN: usize = 64 << 10;
/// Bytes of a chunk in the file.
pub(crate) const SEALED_LEN: usize = CHUNK_LEN + TAG_LEN;
/// Bytes before the first chunk. The key of the payload is made of them and the key of the file.
pub(crate) const SALT_LEN: usize = 16;

/// Where the chunks of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Where the first chunk begins in the file.
    pub(crate) start: u64,
    /// Number of chunks, at least 1.
    pub(crate) chunks: u64,
    /// Plain bytes.
    pub(crate) len: u64,
    /// Where the file ends.
    end: u64,
}

impl Layout {
    /// The layout of a file of `file_len` bytes whose header has `header_len`.
    pub(crate) fn of(file_len: u64, header_len: u64) -> Result<Self, Error> {
        let cut = Error::Truncated { len: file_len };
        let start = header_len + SALT_LEN as u64;
        let Some(sealed) = file_len.checked_sub(start) else { return Err(cut) };
        let chunks = sealed.div_ceil(SEALED_LEN as u64);
        let last_len = sealed - chunks.saturating_sub(1) * SEALED_LEN as u64;
        // Only an empty file has an empty chunk.
        let last_len_min = TAG_LEN as u64 + u64::from(chunks > 1);
        if last_len < last_len_min {
            return Err(cut);
        }
        Ok(Self { start, chunks, len: sealed - chunks * TAG_LEN as u64, end: file_len })
    }

    /// Where `chunk` begins and ends in the file.
    pub(crate) fn sealed(&self, chunk: u64) -> (u64, u64) {
        let at = self.start + chunk * SEALED_LEN as u64;
        (at, self.end.min(at + SEALED_LEN as u64))
    }

    /// Plain bytes of `chunk`.
    pub(crate) fn plain_len(&self, chunk: u64) -> usize {
        let (at, end) = self.sealed(chunk);
        (end - at) as usize - TAG_LEN
    }
}

/// Opens and seals the chunks of one file.
pub(crate) struct Chunks(ChaCha20Poly1305);

impl Chunks {
    /// The chunks of the file with this key and salt.
    pub(crate) fn new(key: &FileKey, salt: &[u8; SALT_LEN]) -> Self {
        let key = key.derive(salt, b"payload");
        Self(ChaCha20Poly1305::new((&*key).into()))
    }

    /// Encrypts a chunk in place, and returns its authentication code.
    pub(crate) fn seal(&self, number: u64, is_last: bool, bytes: &mut [u8]) -> [u8; TAG_LEN] {
        let tag = self.0.encrypt_inout_detached(&nonce(number, is_last), &[], bytes.into());
        tag.expect("a chunk is within the limit of the cipher").into()
    }

    /// Decrypts a chunk in place, which its authentication code follows. Returns false, and leaves
    /// the bytes as they are, if it is not the chunk of this number.
    pub(crate) fn open(&self, number: u64, is_last: bool, sealed: &mut [u8]) -> bool {
        let Some((bytes, tag)) = sealed.split_last_chunk_mut::<TAG_LEN>() else { return false };
        let tag = Tag::from(*tag);
        let nonce = nonce(number, is_last);
        self.0.decrypt_inout_detached(&nonce, &[], bytes.into(), &tag).is_ok()
    }
}

fn nonce(number: u64, is_last: bool) -> Nonce {
    let mut nonce = [0; 12];
    nonce[3..11].copy_from_slice(&number.to_be_bytes());
    nonce[11] = is_last.into();
    nonce.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_no_file_has_are_refused() {
        let sealed = SEALED_LEN as u64;
        let of = |payload: u64| Layout::of(100 + 16 + payload, 100);
        for (payload, chunks, len) in
            [(16, 1, 0), (17, 1, 1), (sealed, 1, 65_536), (sealed + 17, 2, 65_537)]
        {
            let found = of(payload).unwrap();
            assert_eq!((found.chunks, found.len), (chunks, len));
        }
        for payload in [0, 1, 15, sealed + 1, sealed + 16] {
            assert!(matches!(of(payload), Err(Error::Truncated { .. })), "{payload}");
        }
        assert!(matches!(Layout::of(100, 100), Err(Error::Truncated { .. })));
    }
}
