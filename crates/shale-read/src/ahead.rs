//! The frames of one read, decoded side by side.
//!
//! A long read covers several frames, and a frame may need several references first. The reader
//! leaves all but the first to the [`Workers`](crate::Workers) and then goes through them in order,
//! as if it were alone: what is decoded by then it finds, what is being decoded it waits for, what
//! nobody has begun it decodes itself. A frame is still decoded once.

use crate::cache::FrameKey;
use crate::content::{Piece, PieceKind};
use crate::counters::add;
use crate::image::Image;

/// Shorter reads than this seldom cover more than a frame or two; looking would cost more.
pub(crate) const READ_LEN_MIN: usize = 96 << 10;
/// Frames asked of others for one read.
const SHARED_MAX: usize = 64;
/// Part of the cache that the frames of one read may take, or they would drive each other out.
const CACHE_PART: u64 = 4;

impl Image {
    /// Asks others to decode what `pieces` need beyond the first frame that is missing.
    pub(crate) fn share_pieces(&self, pieces: &[Piece]) {
        let mut last = None;
        self.share(pieces.iter().filter_map(|piece| match piece.kind {
            PieceKind::Frame { frame, .. } if last != Some(frame) => {
                last = Some(frame);
                Some((frame, piece.len))
            }
            _ => None,
        }));
    }

    /// Asks others to decode the frames that are missing, given with a length that is at least
    /// roughly theirs, all but the first. Does nothing without others.
    pub(crate) fn share(&self, frames: impl Iterator<Item = (u64, u64)>) {
        let Some(workers) = &self.workers else { return };
        let mut bytes_left = self.cache().bytes_max() / CACHE_PART;
        let key = |frame| FrameKey { image: self.number(), frame };
        let missing = frames.filter(|(frame, _)| !self.cache().contains(key(*frame)));
        for (frame, len) in missing.skip(1).take(SHARED_MAX) {
            let Some(left) = bytes_left.checked_sub(len) else { return };
            bytes_left = left;
            let image = self.me.clone();
            workers.want(move || {
                // An error is the reader's to meet and to tell.
                if let Some(image) = image.upgrade()
                    && image.decode_ahead(frame, false).is_ok_and(|decoded| decoded)
                {
                    add(&image.counters().frames_shared, 1);
                }
            });
        }
    }
}
