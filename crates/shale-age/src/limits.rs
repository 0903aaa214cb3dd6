//! What an encrypted file may demand before anything of it is authenticated.

/// Bytes of a header. One recipient takes about 100 bytes, so this is enough for ten thousand.
pub(crate) const HEADER_LEN_MAX: usize = 1 << 20;

/// Work factor of a passphrase: the base-2 logarithm of scrypt's N. `age` writes 18. Each step more
/// doubles time and memory: 20 needs 1 GiB.
pub(crate) const WORK_FACTOR_MAX: u8 = 20;
