//! Ed25519 signatures (RFC 8032): keys, signing, verifying.
//!
//! Verification is the strict one: keys of small order and signatures in more than one form are
//! refused. Callers make keys, store them, and decide which ones to trust.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

/// A public key.
pub type PublicKey = [u8; 32];
/// A signature.
pub type SignatureBytes = [u8; 64];

/// The secret half of a key. It is erased from memory when dropped, and never shown by `Debug`.
pub struct SecretKey(SigningKey);

impl SecretKey {
    /// Makes a key of its 32 bytes, which must come from a source of true randomness.
    pub fn new(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The 32 bytes of the key.
    pub fn seed(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        self.0.verifying_key().to_bytes()
    }

    /// Signs `message`. The same key and message always give the same signature.
    pub fn sign(&self, message: &[u8]) -> SignatureBytes {
        self.0.sign(message).to_bytes()
    }
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

/// Reports whether the owner of `key` made `signature` over `message`.
pub fn is_signed(key: &PublicKey, message: &[u8], signature: &SignatureBytes) -> bool {
    VerifyingKey::from_bytes(key)
        .is_ok_and(|key| key.verify_strict(message, &Signature::from_bytes(signature)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_vector_of_the_rfc_holds() {
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect()
        };
        let seed = bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let public = bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let signature = bytes(
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701\
             cf9b46bd25bf5f0595bbe24655141438e7a100b",
        );
        let key = SecretKey::new(&seed.try_into().unwrap());
        assert_eq!(key.public().to_vec(), public);
        assert_eq!(key.sign(b"").to_vec(), signature);
        assert!(is_signed(&key.public(), b"", &key.sign(b"")));
    }

    #[test]
    fn nothing_else_is_signed() {
        let key = SecretKey::new(&[7; 32]);
        let signature = key.sign(b"message");
        assert!(!is_signed(&key.public(), b"messagf", &signature));
        assert!(!is_signed(&SecretKey::new(&[8; 32]).public(), b"message", &signature));
        for bit in 0..512 {
            let mut other = signature;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_signed(&key.public(), b"message", &other), "bit {bit}");
        }
        assert!(!is_signed(&[0; 32], b"message", &[0; 64]), "a key of small order");
        assert_eq!(format!("{key:?}"), "SecretKey(..)");
    }
}
