//! Recognises files of one uncompressed array: pictures of netpbm and Windows, and NumPy's `.npy`.
//!
//! As for sound, headers are not trusted. Looks at the given bytes once; never fails.

use std::ops::Range;

use shale_codec::{Meaning, SampleShape};

/// Samples of a picture or array: their range, shape, and groups of a row.
pub(crate) type Picture = (Range<u64>, SampleShape, u64);

/// Returns the samples of a file that starts with `bytes`.
pub(crate) fn picture_of(bytes: &[u8]) -> Option<Picture> {
    match bytes {
        [b'P', b'5', ..] => netpbm(bytes, 1),
        [b'P', b'6', ..] => netpbm(bytes, 3),
        [b'B', b'M', ..] => bitmap(bytes),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => numpy(bytes),
        _ => None,
    }
}

fn netpbm(bytes: &[u8], channels: usize) -> Option<Picture> {
    let mut numbers = [0u64; 3];
    let mut at = 2;
    for number in &mut numbers {
        loop {
            match bytes.get(at)? {
                b'#' => at += bytes[at..].iter().take(1024).position(|byte| *byte == b'\n')?,
                byte if byte.is_ascii_whitespace() => at += 1,
                _ => break,
            }
        }
        let digits = bytes[at..].iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
        *number = std::str::from_utf8(&bytes[at..at + digits]).ok()?.parse().ok()?;
        at += digits;
    }
    let [width, height, most] = numbers;
    bytes.get(at).filter(|byte| byte.is_ascii_whitespace())?;
    let bytes_each = if most > 255 { 2 } else { 1 };
    let shape = SampleShape::new(bytes_each, channels, true, Meaning::Unsigned)?;
    let start = at as u64 + 1;
    let len = width.checked_mul(height)?.checked_mul(shape.group_len() as u64)?;
    (most < 65_536).then_some((start..start.checked_add(len)?, shape, width))
}

fn bitmap(bytes: &[u8]) -> Option<Picture> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (start, width, height) = (u32_at(10)?, u32_at(18)?, u32_at(22)?);
    let (bits, compression) = (u32_at(28)? as u16, u32_at(30)?);
    let channels = match bits {
        8 => 1,
        24 => 3,
        32 => 4,
        _ => return None,
    };
    if u32_at(14)? < 40 || !matches!(compression, 0 | 3) || start < 54 {
        return None;
    }
    let shape = SampleShape::new(1, channels, false, Meaning::Unsigned)?;
    // Rows are padded to four bytes: without whole groups there are no rows.
    let row_bytes = (u64::from(width) * channels as u64).next_multiple_of(4);
    let row_len = match row_bytes % channels as u64 {
        0 => row_bytes / channels as u64,
        _ => return None,
    };
    let height = u64::from((height as i32).unsigned_abs());
    let start = u64::from(start);
    Some((start..start + row_bytes.checked_mul(height)?, shape, row_len))
}

fn numpy(bytes: &[u8]) -> Option<Picture> {
    let (len, at) = match bytes.get(6)? {
        1 => (u64::from(u16::from_le_bytes(*bytes.get(8..)?.first_chunk()?)), 10),
        _ => (u64::from(u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?)), 12),
    };
    let start = at as u64 + len;
    let header = bytes.get(at..usize::try_from(start).ok().filter(|end| *end <= 65_536)?)?;
    let header = std::str::from_utf8(header).ok()?;
    let after = |key: &str| Some(header.split_once(key)?.1.trim_start());
    let kind = after("'descr':")?.strip_prefix('\'')?.split('\'').next()?;
    let mut letters = kind.chars();
    let is_big = letters.next()? == '>';
    let meaning = match letters.next()? {
        'i' => Meaning::Signed,
        'u' | 'b' => Meaning::Unsigned,
        'f' => Meaning::Float,
        _ => return None,
    };
    let width: usize = letters.as_str().parse().ok()?;
    let inside = after("'shape':")?.strip_prefix('(')?.split(')').next()?;
    let mut sides = Vec::new();
    for side in inside.split(',').map(str::trim).filter(|side| !side.is_empty()) {
        sides.push(side.parse::<u64>().ok().filter(|side| *side > 0)?);
    }
    if after("'fortran_order':")?.starts_with("True") {
        sides.reverse();
    }
    let count = sides.iter().try_fold(1u64, |count, side| count.checked_mul(*side))?;
    // The last side is the channels where it is short.
    let channels = match sides.len() {
        0 => return None,
        1 => 1,
        _ => sides.pop_if(|side| *side <= 16).unwrap_or(1),
    };
    let row_len = if sides.len() > 1 { sides.last().copied()? } else { 0 };
    let shape = SampleShape::new(width, channels as usize, is_big, meaning)?;
    Some((start..start.checked_add(count.checked_mul(width as u64)?)?, shape, row_len))
}
