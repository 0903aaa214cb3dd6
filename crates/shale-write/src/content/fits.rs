//! Reads the headers of FITS files: which bytes after one are a picture, and of what shape.
//!
//! (Definition of the Flexible Image Transport System, version 4.0: cards of 80 bytes in blocks of
//! 2,880, numbers big-endian.) Headers are not trusted; a header that contradicts itself ends the
//! search, and the rest of the file is treated as any bytes.

use shale_codec::{Meaning, SampleShape};

/// Headers and data fill up blocks of this length.
pub(crate) const BLOCK_LEN: usize = 2880;
const CARD_LEN: usize = 80;
/// Longer headers are not read to their end.
pub(crate) const HEADER_LEN_MAX: usize = 1 << 20;

/// What follows a header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Bytes of data, before they are filled up to a block.
    pub(crate) data_len: u64,
    /// Shape and row length of a picture.
    pub(crate) picture: Option<(SampleShape, u64)>,
}

/// Returns whether a file starts as a FITS file does.
pub(crate) fn is_fits(bytes: &[u8]) -> bool {
    bytes.starts_with(b"SIMPLE  =") && bytes.len() >= BLOCK_LEN
}

/// Returns whether blocks end a header.
pub(crate) fn ends_header(block: &[u8]) -> bool {
    block.chunks(CARD_LEN).any(|card| card.starts_with(b"END     "))
}

/// Reads the cards of a header. Returns nothing if it is none.
pub(crate) fn unit_of(header: &[u8]) -> Option<Unit> {
    let is_first = header.starts_with(b"SIMPLE  =");
    let is_picture = is_first || header.starts_with(b"XTENSION= 'IMAGE ");
    if !is_first && !header.starts_with(b"XTENSION=") {
        return None;
    }
    let (mut bits, mut side_count, mut extra, mut groups) = (0i64, 0, 0u64, 1u64);
    let mut sides = Vec::new();
    let mut is_mosaic = false;
    for card in header.chunks_exact(CARD_LEN) {
        let (key, value) = card.split_at(8);
        let key = key.trim_ascii_end();
        let number = || {
            let text = std::str::from_utf8(value.strip_prefix(b"=")?).ok()?;
            text.split('/').next()?.trim().parse::<i64>().ok()
        };
        match key {
            b"END" => break,
            b"BITPIX" => bits = number()?,
            b"NAXIS" => side_count = usize::try_from(number()?).ok().filter(|n| *n < 1000)?,
            b"PCOUNT" => extra = u64::try_from(number()?).ok()?,
            b"GCOUNT" => groups = u64::try_from(number()?).ok()?,
            b"BAYERPAT" | b"COLORTYP" | b"XBAYROFF" | b"BAYOFFX" => is_mosaic = true,
            _ if key.starts_with(b"NAXIS") && sides.len() < side_count => {
                sides.push(u64::try_from(number()?).ok()?);
            }
            _ => {}
        }
    }
    if !matches!(bits, 8 | 16 | 32 | 64 | -32 | -64) || sides.len() != side_count {
        return None;
    }
    let width = bits.unsigned_abs() / 8;
    let count = match sides.first() {
        None => 0,
        // Random groups have a first side of 0.
        Some(0) => sides[1..].iter().try_fold(1, |n: u64, side| n.checked_mul(*side))?,
        Some(_) => sides.iter().try_fold(1, |n: u64, side| n.checked_mul(*side))?,
    };
    let data_len = extra.checked_add(count)?.checked_mul(groups)?.checked_mul(width)?;
    let meaning = match bits {
        8 => Meaning::Unsigned,
        ..0 => Meaning::Float,
        _ => Meaning::Signed,
    };
    let row_len = sides.first().copied().unwrap_or(0);
    // Columns of a mosaic have two colours, and the next row of one is two rows on.
    let channels = if is_mosaic && row_len.is_multiple_of(2) { 2 } else { 1 };
    let shape = SampleShape::new(width as usize, channels, true, meaning)?;
    let has_samples = is_picture && row_len > 0 && groups == 1 && extra == 0;
    Some(Unit { data_len, picture: has_samples.then_some((shape, row_len)) })
}
