//! Bytes in, bytes out: compression, filters and digests.
//!
//! The one crate that links C libraries. It knows codecs, not images: a caller passes a prefix
//! (bytes that both sides have) and a frame, and keeps codec number, filter number and plain
//! length. Nothing that a caller stores anyway is stored again in the compressed bytes.
//!
//! - [`Encoder`] compresses. Its output depends on settings, prefix and plain bytes only.
//! - [`Decoder`] decompresses untrusted bytes: it gives exactly the asked length or an error, in
//!   memory bounded by the lengths that the caller gives.
//! - [`Partial`] does so up to where a frame is wanted, and goes on when more is.
//! - [`Filter`] rewrites machine code, lines that resemble each other, arrays, or samples of
//!   sound and pictures, so that they compress better.
//! - [`looks_incompressible`] says cheaply when compressing is not worth a try.
//! - [`stream`] reads and writes what other programs compress: gzip, xz, zstd and so on.
//! - [`digest`] has XXH3 to detect damage and BLAKE3 to identify contents.
//!
//! The callers choose codecs and frame sizes, and keep checksums.
//!
//! ```
//! use shale_codec::{Decoder, Encoder, xxh3_64};
//!
//! let (prefix, plain) = (b"what both sides have", b"what both sides have, and a little more");
//! let mut stored = Vec::new();
//! Encoder::new("zstd:19".parse()?)?.encode(prefix, plain, &mut stored)?;
//! let sum = xxh3_64(&stored);
//!
//! // Later: the sum says whether these are the bytes that were stored.
//! assert_eq!(xxh3_64(&stored), sum);
//! let mut decoded = Vec::new();
//! let codec = shale_codec::Codec::Zstd;
//! Decoder::new().decode(codec, prefix, &stored, plain.len(), &mut decoded)?;
//! assert_eq!(decoded, plain);
//! # Ok::<(), shale_codec::CodecError>(())
//! ```

mod codec; // the codecs and their numbers
mod prefix; // the prefix of a frame that is decoded in steps
mod error; // what can go wrong
mod lengths; // the longest frame, and room for results
mod settings; // levels and options of encoders
mod zstd; // one codec in a file, both directions
mod zstd_sys; // zstd's contexts; all `unsafe` is in files of this name
mod lzma; // LZMA1
mod lzma_sys; // liblzma's raw coders
mod lz4; // LZ4 blocks
mod lz4_sys; // LZ4's functions
#[cfg(feature = "brotli")]
mod brotli; // brotli, in Rust
#[cfg(feature = "brotli-encoder")]
mod brotli_encoder; // for tests of the decoder
mod bcj_x86; // calls and jumps of x86
mod bcj_arm64; // calls and page addresses of 64-bit ARM
mod bcj_arm; // calls of 32-bit ARM
mod filter; // all filters by number
mod lines; // lines that resemble each other, as columns
mod array; // arrays of records, as planes
mod samples; // samples of sound and pictures, as residuals
mod encoder; // compresses with any codec
mod decoder; // decompresses with any codec
mod partial; // decompresses up to where a frame is wanted, and goes on later
mod sample; // is compressing worth a try?
/// Streams and blocks as other programs compress them, for importers and exporters.
pub mod stream;
/// Checksums and hashes.
pub mod digest;
/// Hashes of the leaves of a stream, and the tree above them.
pub mod merkle;
/// Parity over shards: computes again what is lost.
pub mod parity;
/// Signatures over a few bytes, and their keys.
pub mod signature;

pub use array::{ArrayShape, Difference, Shuffle, array_form, array_shapes, guess_record_len};
pub use codec::Codec;
pub use decoder::Decoder;
pub use digest::{Hash, Hasher, Xxh3, hash, xxh3_64, xxh3_128};
pub use encoder::Encoder;
pub use error::{CodecError, SettingsError};
pub use filter::{Filter, codec_text};
pub use lines::{lines_form, lines_memory_len};
pub use partial::Partial;
pub use prefix::Prefix;
pub use sample::looks_incompressible;
pub use samples::{Effort, Meaning, SampleForm, SampleLayout, SampleShape, samples_form};
pub use settings::{LzmaOptions, MatchFinder, Settings, ZstdOptions, ZstdStrategy};
