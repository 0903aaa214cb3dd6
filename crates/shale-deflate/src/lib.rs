//! Rebuilds deflate streams bit for bit from the bytes that they hold.
//!
//! Most deflate streams were written by a handful of encoders. An encoder is a function: the same
//! bytes and settings give the same stream. This crate has frozen copies of such functions, called
//! *models*, and finds the one that made a given stream ([`analyze`]). A stream can then be stored
//! as its plain bytes and a few numbers, and [`rebuild`] makes it again.
//!
//! A long stream is cut into *chunks* at boundaries of its blocks. Each chunk is rebuilt on its own
//! from at most 64 KiB of plain bytes before it and a [`Cut`], which holds what the encoder carried
//! over. Work is counted in probes and limited.
//!
//! The models never change: images depend on them. A correction of a model is a new model with a
//! new number.
//!
//! ```
//! use shale_deflate::{Limits, Task, analyze, rebuild};
//!
//! // The raw deflate stream of 30 bytes `a`, as zlib writes it at level 6.
//! let stream = [0x4b, 0xc4, 0x0b, 0x00];
//! let analysis = analyze(&stream, None, &Limits::default()).expect("a known encoder");
//! assert_eq!(analysis.plain, [b'a'; 30]);
//! let chunk = &analysis.chunks[0];
//! let task = Task { window: &[], plain: &analysis.plain, after: &[] };
//! assert_eq!(rebuild(analysis.model, &chunk.cut, &task, u64::MAX).expect("known"), stream);
//! ```

/// What can go wrong.
mod error;
/// The models and their settings.
mod model;
/// Tables of RFC 1951.
mod tables;
/// Bits in and out.
mod bits;
/// Huffman trees and blocks, as zlib writes them.
mod trees;
/// What an encoder carries over.
mod cut;
/// Blocks of tokens: when they end, and how they are written.
mod blocks;
/// The search for matches.
mod matcher;
/// Chunks: rebuilt from a cut.
mod chunk;
/// Deflate streams as tokens and blocks.
mod parse;
/// Finds the model of a stream.
mod analyze;

pub use analyze::{Analysis, Chunk, Limits, analyze};
pub use chunk::{AFTER_LEN, Task, rebuild};
pub use cut::{Cut, InHand};
pub use error::DeflateError;
pub use model::{Encoder, Hint, Model, Strategy};
pub use parse::{Parsed, parse};
