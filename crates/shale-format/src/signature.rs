//! The payload of a signature section: who signed which identity.
//!
//! Only the layout is known here. `shale_codec` verifies signatures, and the user decides whom to
//! trust.

use crate::error::FormatError;
use crate::merkle::Identity;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of a signature payload in bytes.
pub const SIGNATURE_LEN: usize = 136;
/// `SignatureRaw::algorithm`: Ed25519 (RFC 8032).
pub const ALGORITHM_ED25519: u16 = 1;
/// The signed message is these bytes and the identity.
pub const SIGNATURE_CONTEXT: &[u8; 20] = b"ShaleFS signature 1\n";

/// On-disk layout of a signature.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct SignatureRaw {
    /// 1: Ed25519.
    pub algorithm: U16,
    /// Reserved, must be zero.
    pub reserved: [u8; 6],
    /// Public key of the signer.
    pub public_key: [u8; 32],
    /// The identity signed.
    pub identity: [u8; 32],
    /// The signature.
    pub signature: [u8; 64],
}

const _: () = assert!(size_of::<SignatureRaw>() == SIGNATURE_LEN);

/// A signature over an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// Public key of the signer.
    pub public_key: [u8; 32],
    /// The identity signed.
    pub identity: Identity,
    /// The signature.
    pub signature: [u8; 64],
}

impl Signature {
    /// Returns the bytes that are signed. They name their purpose, so that the signature is not
    /// valid for anything else.
    pub fn message(identity: &Identity) -> [u8; 52] {
        let mut message = [0; 52];
        message[..20].copy_from_slice(SIGNATURE_CONTEXT);
        message[20..].copy_from_slice(&identity.0);
        message
    }

    /// Returns the payload on disk.
    pub fn encode(&self) -> [u8; SIGNATURE_LEN] {
        let raw = SignatureRaw {
            algorithm: U16::new(ALGORITHM_ED25519),
            reserved: [0; 6],
            public_key: self.public_key,
            identity: self.identity.0,
            signature: self.signature,
        };
        let mut out = [0; SIGNATURE_LEN];
        out.copy_from_slice(raw.as_bytes());
        out
    }

    /// Reads a payload. Returns `None` for an algorithm that this version does not know.
    ///
    /// # Errors
    /// The payload has another length, or a reserved byte is not zero.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, FormatError> {
        const STRUCTURE: &str = "signature";
        let raw = SignatureRaw::read_from_bytes(bytes).map_err(|_| FormatError::Short {
            structure: STRUCTURE,
            expected: SIGNATURE_LEN as u64,
            found: bytes.len() as u64,
        })?;
        if raw.algorithm.get() != ALGORITHM_ED25519 {
            return Ok(None);
        }
        if raw.reserved != [0; 6] {
            return Err(FormatError::Field {
                structure: STRUCTURE,
                field: "reserved",
                found: 1,
                allowed: "0",
            });
        }
        Ok(Some(Self {
            public_key: raw.public_key,
            identity: Identity(raw.identity),
            signature: raw.signature,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read_as_they_are_written() {
        let signature =
            Signature { public_key: [1; 32], identity: Identity([2; 32]), signature: [3; 64] };
        let mut bytes = signature.encode();
        assert_eq!(Signature::decode(&bytes), Ok(Some(signature)));
        assert!(Signature::decode(&bytes[1..]).is_err());
        bytes[7] = 1;
        assert!(Signature::decode(&bytes).is_err());
        bytes[0] = 2;
        assert_eq!(Signature::decode(&bytes), Ok(None), "an algorithm of a later version");
        assert_eq!(&Signature::message(&Identity([9; 32]))[..20], SIGNATURE_CONTEXT);
    }
}
