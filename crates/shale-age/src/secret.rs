//! The key of a file, and the keys that are made from it. They leave memory when they are dropped.

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce, Tag};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::error::Error;

/// Bytes of the key of a file.
pub(crate) const FILE_KEY_LEN: usize = 16;
/// Bytes of the code that authenticates what was encrypted.
pub(crate) const TAG_LEN: usize = 16;

/// The key of one file. It decrypts all of the file.
#[derive(Clone)]
pub struct FileKey(pub(crate) Zeroizing<[u8; FILE_KEY_LEN]>);

impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileKey(..)")
    }
}

impl FileKey {
    /// Makes a new key.
    pub(crate) fn generate() -> Result<Self, Error> {
        let mut key = Zeroizing::new([0; FILE_KEY_LEN]);
        random(&mut *key)?;
        Ok(Self(key))
    }

    /// Makes the key for one purpose of the file.
    pub(crate) fn derive(&self, salt: &[u8], purpose: &[u8]) -> Zeroizing<[u8; 32]> {
        derive(&*self.0, salt, purpose)
    }

    /// Encrypts this key with one that is used only once.
    pub(crate) fn wrap(&self, key: &[u8; 32]) -> Vec<u8> {
        let mut body = self.0.to_vec();
        let tag = ChaCha20Poly1305::new(key.into())
            .encrypt_inout_detached(&Nonce::default(), &[], body.as_mut_slice().into())
            .expect("16 bytes are within the limit of the cipher");
        body.extend_from_slice(&tag);
        body
    }

    /// Decrypts a key. Returns `None` if `body` was encrypted with another key. A body of another
    /// length is never decrypted, so that it tells nothing about the key.
    pub(crate) fn unwrap(key: &[u8; 32], body: &[u8]) -> Option<Self> {
        let (found, tag) = body.split_first_chunk::<FILE_KEY_LEN>()?;
        let tag: [u8; TAG_LEN] = tag.try_into().ok()?;
        let mut found = Zeroizing::new(*found);
        ChaCha20Poly1305::new(key.into())
            .decrypt_inout_detached(
                &Nonce::default(),
                &[],
                found.as_mut_slice().into(),
                &Tag::from(tag),
            )
            .ok()?;
        Some(Self(found))
    }
}

/// Makes a key from another one (HKDF-SHA-256).
pub(crate) fn derive(key: &[u8], salt: &[u8], purpose: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut out = Zeroizing::new([0; 32]);
    Hkdf::<Sha256>::new(Some(salt), key)
        .expand(purpose, &mut *out)
        .expect("32 bytes are within the limit of HKDF");
    out
}

/// Fills `bytes` with random numbers of the system.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), Error> {
    let mut at = 0;
    while at < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[at..], rustix::rand::GetRandomFlags::empty()) {
            Ok(len) => at += len,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::Random(error.into())),
        }
    }
    Ok(())
}
