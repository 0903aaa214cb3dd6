//! Frames, contents and trees of other images that a new image takes over, as the writer sees them.
//!
//! Like [`crate::Base`], this is what the writer asks for and the facade answers with the reader.
//! All numbers are those of the new image: frames count from 0, contents from 1, because content 0
//! is the empty one.

use shale_format::{ChunkRecord, FrameRecord};
use shale_model::EntrySource;

use crate::base::image::BaseError;
use crate::plan::digest::ContentDigest;

/// A frame with its stored bytes.
#[derive(Debug, Clone, Default)]
pub struct CopiedFrame {
    /// Its record in the image that it comes from. The start in stream space, the offset, the rows
    /// of its references and its depth are set anew.
    pub record: FrameRecord,
    /// Frames that it refers to. They may come later, but never in a circle.
    pub references: Vec<u64>,
    /// Its bytes as they are stored.
    pub stored: Vec<u8>,
}

/// Where a part of a content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiedPlace {
    /// In a frame, from this plain byte on.
    Frame {
        /// The frame.
        frame: u64,
        /// Offset of the part in its plain bytes.
        offset: u64,
    },
    /// In a chunk of a stream that is rebuilt, from this byte on.
    Rebuilt {
        /// The chunk.
        chunk: u64,
        /// Offset of the part in it.
        offset: u64,
    },
    /// Zeroes that were data in the source.
    Zero,
    /// A hole of the source.
    Hole,
}

/// The tree of one snapshot.
pub struct CopiedTree {
    /// Its entries. The contents of files are [`shale_model::Content::Held`], by their numbers.
    pub source: Box<dyn EntrySource>,
    /// Name of the snapshot.
    pub name: Vec<u8>,
    /// The times that it keeps, as in [`crate::Options::times_kept`].
    pub times_kept: u8,
}

/// Everything that a new image takes over.
pub trait Copies {
    /// Number of frames.
    fn frame_count(&self) -> u64;

    /// Returns a frame. Asked for in order.
    ///
    /// # Errors
    /// An image cannot be read, or is damaged.
    fn frame(&mut self, frame: u64) -> Result<CopiedFrame, BaseError>;

    /// Number of chunks.
    fn chunk_count(&self) -> u64;

    /// Returns a chunk. Its content is a number of the new image, and its base is set anew. Asked
    /// for in order, before all contents.
    ///
    /// # Errors
    /// An image cannot be read, or is damaged.
    fn chunk(&mut self, chunk: u64) -> Result<ChunkRecord, BaseError>;

    /// Number of contents without the empty one.
    fn content_count(&self) -> u64;

    /// Gives the parts of a content to `visit`, with their lengths, in order. Returns its digest,
    /// if its bytes were read. Asked for in order, after all frames.
    ///
    /// # Errors
    /// An image cannot be read, or is damaged.
    fn content(
        &mut self,
        content: u64,
        visit: &mut dyn FnMut(u64, CopiedPlace),
    ) -> Result<Option<ContentDigest>, BaseError>;

    /// Returns the tree of the next snapshot, oldest first; `None` after the last. Asked for after
    /// all contents.
    ///
    /// # Errors
    /// An image cannot be read, or is damaged.
    fn next_tree(&mut self) -> Result<Option<CopiedTree>, BaseError>;
}
