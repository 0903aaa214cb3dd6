//! Bytes in, bytes out: compression, filters and digests.
//!
//! The one crate that links C libraries. It knows codecs, not images: a caller hands over a
//! prefix (bytes both sides already have) and a frame, and keeps the codec id, the filter id and
//! the plain length; nothing that a caller stores anyway is stored again in the compressed bytes.
//!
//! - [`Encoder`] compresses; its output depends on settings, prefix and plain bytes alone.
//! - [`Decoder`] decompresses untrusted bytes: exactly the asked length or an error, in memory
//!   bounded by the lengths the caller gives.
//! - [`Filter`] rewrites machine code, or lines that resemble each other, so that they compress
//!   better.
//! - [`looks_incompressible`] says cheaply that trying is not worth it.
//! - [`stream`] reads and writes what other programs compress: gzip, xz, zstd and so on.
//! - [`digest`]: XXH3 for damage, BLAKE3 for identity.
//!
//! It does not choose codecs or frame sizes, and does not keep checksums: the callers do.

// What can go wrong, and the names of things.
mod error;
mod codec;
mod settings;
// The two doors: dispatch to the codec files below.
mod encoder;
mod decoder;
// One codec per file, both directions together; the `*_sys` files hold all the `unsafe` there is.
mod zstd;
mod zstd_sys;
mod lzma;
mod lzma_sys;
mod lz4;
mod lz4_sys;
mod brotli;
// Reversible rewriting of machine code.
mod filter;
mod bcj_x86;
mod bcj_arm64;
mod bcj_arm;
// Reversible rearranging of text.
mod lines;
// Is it worth trying at all?
mod sample;
// Streams and blocks as other programs compress them, for importers and exporters.
pub mod stream;
// Checksums and identities.
pub mod digest;
/// Hashes of the leaves of a stream, and the tree above them.
pub mod merkle;
/// Parity over shards: what is lost and known to be lost is computed again.
pub mod parity;
/// Signatures over a few bytes, and their keys.
pub mod signature;

pub use codec::Codec;
pub use decoder::Decoder;
pub use digest::{Hash, Hasher, Xxh3, hash, xxh3_64, xxh3_128};
pub use encoder::Encoder;
pub use error::{CodecError, SettingsError};
pub use filter::Filter;
pub use lines::{lines_form, lines_memory_len};
pub use sample::looks_incompressible;
pub use settings::{LzmaOptions, MatchFinder, Settings, ZstdOptions, ZstdStrategy};
