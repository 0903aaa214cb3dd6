//! Files encrypted with age (<https://age-encryption.org/v1>), read at any offset.
//!
//! A [`Decrypted`] file is a source of its plain bytes: a read decrypts the chunks of 64 KiB that
//! it needs, and no more. An [`Encrypting`] writer makes such a file from a stream. Both are
//! compatible with the program `age`. Supported are X25519 keys, and passphrases for reading.
//!
//! No byte is returned before its chunk was authenticated. This crate knows nothing of images,
//! networks or the terminal.

mod error; // why a file does not open, or a chunk does not decrypt
mod limits; // what a file may demand
mod secret; // the key of a file, and keys made from it
mod bech32_key; // keys as text
mod header; // the lines before the payload, and their authentication code
mod payload; // chunks: where they are, sealed and opened
mod recipient; // public keys that a file is encrypted to
mod identity; // keys and passphrases that open a file
mod writer; // a stream, encrypted
mod source; // an encrypted file as a source of its plain bytes

pub use error::Error;
pub use identity::{Identities, Passphrase};
pub use recipient::Recipients;
pub use secret::FileKey;
pub use source::{Decrypted, is_encrypted};
pub use writer::Encrypting;
