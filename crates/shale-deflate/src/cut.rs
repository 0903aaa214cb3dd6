//! What an encoder carries over from one block to the next.

/// What the encoder carried over when the block before a chunk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cut {
    /// Plain bytes of the stream before the chunk.
    pub before: u64,
    /// Bits of the block before in the first byte of the chunk.
    pub bits: u8,
    /// How many, at most 7.
    pub bit_count: u8,
    /// Set if a match search at the first byte of the chunk had been made.
    pub in_hand: Option<InHand>,
}

/// What a search for a match found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InHand {
    /// Length, 3 to 258, or 2 for no match.
    pub len: u16,
    /// Distance; 0 for no match.
    pub distance: u16,
}
