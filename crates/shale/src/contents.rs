//! What the bytes of a content are: its digest and its holes.

use std::ops::Range;
use std::sync::Arc;

use shale_read::{Image, PieceKind, ReadError};
use shale_write::digest::{ContentDigest, ContentHasher};

/// What was read of a content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Known {
    pub(crate) digest: ContentDigest,
    /// Ascending ranges that do not touch.
    pub(crate) holes: Vec<Range<u64>>,
}

/// Reads a content whole.
///
/// # Errors
/// The image cannot be read, or is damaged.
pub(crate) fn read(image: &Arc<Image>, content: u64) -> Result<Known, ReadError> {
    let len = image.content_len(content)?;
    let mut hasher = ContentHasher::new();
    let mut holes: Vec<Range<u64>> = Vec::new();
    for piece in image.pieces(content, 0..len)? {
        let piece = piece?;
        match piece.kind {
            PieceKind::Frame { .. } | PieceKind::Rebuilt { .. } => {
                let Some((unit, offset)) = piece.kind.unit() else { continue };
                let plain = image.unit(unit)?;
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                let end = from.saturating_add(usize::try_from(piece.len).unwrap_or(usize::MAX));
                hasher.update(plain.get(from..end).unwrap_or_default());
            }
            PieceKind::Zero => hasher.update_zeroes(piece.len),
            PieceKind::Hole => {
                hasher.update_zeroes(piece.len);
                let end = piece.offset + piece.len;
                match holes.last_mut() {
                    Some(last) if last.end == piece.offset => last.end = end,
                    _ => holes.push(piece.offset..end),
                }
            }
        }
    }
    Ok(Known { digest: hasher.finish(), holes })
}
