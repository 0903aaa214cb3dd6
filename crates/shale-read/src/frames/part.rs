//! A frame of which only the front is decoded, up to what its readers wanted.
//!
//! A read of a few bytes does not pay for all of a long frame: decoding stops after the last
//! wanted byte and goes on when more is wanted. No byte is decoded twice while the state of the
//! decoder is kept. The cache bounds the memory of all states and drops the oldest; a frame
//! without its state keeps its front, and is decoded as a whole once more is wanted.
//!
//! The plain bytes of a frame have one sum, so the front of a frame is verified by the sum of the
//! stored bytes alone. An error further back is found by the reader that gets there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use shale_codec::{Codec, Partial};

/// Plain bytes of a frame. Holding it keeps the bytes in memory, not in the cache.
pub type FrameBytes = Arc<Vec<u8>>;

/// A frame that is wanted up to this part of its length (three quarters) is decoded whole: going on
/// later would cost more than it saves.
const WHOLE_PART: (usize, usize) = (3, 4);

/// How much of a frame to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Up to this length.
    Front(usize),
    /// All of it.
    Whole,
}

/// Decides how far to decode a frame of `plain_len` bytes, of which `decoded_len` are decoded and
/// `wanted_len` are wanted. Each step at least doubles what is decoded, so there are few of them.
pub(crate) fn extent(
    codec: Codec,
    decoded_len: usize,
    wanted_len: usize,
    plain_len: usize,
) -> Extent {
    let len = wanted_len.max(decoded_len.saturating_mul(2));
    let len = Partial::step_len(codec, len, plain_len);
    let (part, of) = WHOLE_PART;
    if len >= plain_len / of * part { Extent::Whole } else { Extent::Front(len) }
}

/// The front of a frame, in the cache. Readers that want more than there is take turns.
pub(crate) struct PartFrame(Mutex<Front>);

/// What there is of a frame.
pub(crate) enum Front {
    /// The front, and what it takes to go on.
    Decoding(Box<Partial>),
    /// The front alone.
    Kept(Vec<u8>),
    /// All of it.
    Whole(FrameBytes),
}

impl PartFrame {
    pub(crate) fn new(partial: Partial) -> Self {
        Self(Mutex::new(Front::Decoding(Box::new(partial))))
    }

    /// Waits until no other reader is decoding this frame.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Front> {
        // Decoding does not panic. If it did, the front is still as it was before.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`PartFrame::lock`], but gives up if someone else has the frame.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Front>> {
        match self.0.try_lock() {
            Ok(front) => Some(front),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Frees the state of the decoder, unless someone uses the frame. Calls `shed` with the memory
    /// that remains, while nobody else can use the frame. Returns whether the frame is without a
    /// state now.
    pub(crate) fn shed(&self, shed: impl FnOnce(usize)) -> bool {
        let Some(mut front) = self.try_lock() else { return false };
        if let Front::Decoding(_) = *front {
            let Front::Decoding(partial) = front.take() else { return true };
            let mut bytes = partial.into_bytes();
            bytes.shrink_to_fit();
            shed(bytes.capacity());
            *front = Front::Kept(bytes);
        }
        true
    }
}

impl Front {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Decoding(partial) => partial.bytes(),
            Self::Kept(bytes) => bytes,
            Self::Whole(bytes) => bytes,
        }
    }

    /// Takes everything out, and leaves nothing.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Kept(Vec::new()))
    }
}
