//! Recognises files of uncompressed sound by their structure: WAV (also extensible, RF64, BW64 and
//! RIFX), Sony's W64, AIFF and AIFC, CAF, AU.
//!
//! Headers are not trusted: a length that is not true ends where the file ends, and whatever
//! contradicts itself is not recognised. Looks at the given bytes once; never fails.

use std::ops::Range;

use shale_codec::{Meaning, SampleShape};

/// Chunks that are looked at, at most.
const CHUNK_COUNT_MAX: usize = 256;

/// Returns the samples of a file that starts with `bytes` and is `len` bytes long: their range and
/// shape. The range may end beyond the end of the file.
pub(crate) fn sound_of(bytes: &[u8], len: u64) -> Option<(Range<u64>, SampleShape)> {
    let kind = bytes.first_chunk::<4>()?;
    match kind {
        b"RIFF" | b"RF64" | b"BW64" | b"RIFX" => wav(bytes, len),
        b"riff" => w64(bytes, len),
        b"FORM" => aiff(bytes, len),
        b"caff" => caf(bytes, len),
        b".snd" | b"dns." => au(bytes, len),
        _ => None,
    }
}

/// Reads numbers of one byte order; what is beyond the end is 0.
#[derive(Clone, Copy)]
struct Numbers<'a> {
    bytes: &'a [u8],
    is_big: bool,
}

impl<'a> Numbers<'a> {
    fn number(self, at: usize, width: usize) -> u64 {
        let of_byte = |place: usize| {
            let place = if self.is_big { width - 1 - place } else { place };
            u64::from(self.bytes.get(at.saturating_add(place)).copied().unwrap_or(0))
        };
        (0..width).fold(0, |sum, place| sum | of_byte(place) << (8 * place))
    }

    fn u16(self, at: usize) -> u64 {
        self.number(at, 2)
    }

    fn u32(self, at: usize) -> u64 {
        self.number(at, 4)
    }

    fn u64(self, at: usize) -> u64 {
        self.number(at, 8)
    }

    fn id(self, at: usize) -> &'a [u8] {
        self.bytes.get(at..at.saturating_add(4)).unwrap_or_default()
    }
}

/// A range that ends with the file where its length is not known or not true.
fn range(start: u64, claimed_len: u64, len: u64) -> Range<u64> {
    let rest = len.saturating_sub(start);
    start..start + if claimed_len == 0 { rest } else { claimed_len.min(rest) }
}

/// Integers of `width` bytes, or floats.
fn shape(width: u64, channels: u64, is_big: bool, meaning: Meaning) -> Option<SampleShape> {
    let is_float = meaning == Meaning::Float;
    if is_float && !matches!(width, 4 | 8) || !is_float && width > 4 {
        return None;
    }
    SampleShape::new(usize::try_from(width).ok()?, usize::try_from(channels).ok()?, is_big, meaning)
}

/// The shape that a `fmt ` chunk at `at` describes.
fn wav_shape(numbers: Numbers<'_>, at: usize) -> Option<SampleShape> {
    let mut tag = numbers.u16(at);
    if tag == 0xFFFE {
        // Extensible: the first two bytes of the identifier of the format.
        tag = numbers.u16(at + 24);
    }
    let (channels, block_len, bits) =
        (numbers.u16(at + 2), numbers.u16(at + 12), numbers.u16(at + 14));
    let width = match block_len.checked_div(channels) {
        Some(width) if width > 0 && width * channels == block_len => width,
        _ => bits.div_ceil(8),
    };
    let meaning = match tag {
        1 if width == 1 => Meaning::Unsigned,
        1 => Meaning::Signed,
        3 => Meaning::Float,
        _ => return None,
    };
    shape(width, channels, numbers.is_big, meaning)
}

fn wav(bytes: &[u8], len: u64) -> Option<(Range<u64>, SampleShape)> {
    let numbers = Numbers { bytes, is_big: bytes.starts_with(b"RIFX") };
    if numbers.id(8) != b"WAVE" {
        return None;
    }
    let (mut found, mut long_len) = (None, None);
    let mut at = 12;
    for _ in 0..CHUNK_COUNT_MAX {
        let chunk_len = numbers.u32(at + 4);
        match numbers.id(at) {
            b"ds64" => long_len = Some(numbers.u64(at + 16)),
            b"fmt " => found = Some(wav_shape(numbers, at + 8)?),
            b"data" => {
                let is_long = chunk_len == u64::from(u32::MAX);
                let claimed_len = if is_long { long_len.unwrap_or(0) } else { chunk_len };
                return Some((range(at as u64 + 8, claimed_len, len), found?));
            }
            [] => return None,
            _ => {}
        }
        at = at.checked_add(usize::try_from(chunk_len + chunk_len % 2).ok()?)?.checked_add(8)?;
    }
    None
}

fn w64(bytes: &[u8], len: u64) -> Option<(Range<u64>, SampleShape)> {
    let numbers = Numbers { bytes, is_big: false };
    if numbers.u64(4) != 0xDB28_D6A5_11CF_912E || numbers.id(24) != b"wave" {
        return None;
    }
    let mut found = None;
    let mut at = 40;
    for _ in 0..CHUNK_COUNT_MAX {
        // The length counts the 24 bytes of identifier and length.
        let chunk_len = numbers.u64(at + 16);
        match numbers.id(at) {
            b"fmt " => found = Some(wav_shape(numbers, at + 24)?),
            b"data" => {
                let claimed_len = chunk_len.saturating_sub(24);
                return Some((range(at as u64 + 24, claimed_len, len), found?));
            }
            [] => return None,
            _ => {}
        }
        let step = usize::try_from(chunk_len.max(24)).ok()?;
        at = at.checked_add(step.checked_next_multiple_of(8)?)?;
    }
    None
}

fn aiff(bytes: &[u8], len: u64) -> Option<(Range<u64>, SampleShape)> {
    let numbers = Numbers { bytes, is_big: true };
    let is_aifc = match numbers.id(8) {
        b"AIFF" => false,
        b"AIFC" => true,
        _ => return None,
    };
    let (mut found, mut data) = (None, None);
    let mut at = 12;
    for _ in 0..CHUNK_COUNT_MAX {
        let chunk_len = numbers.u32(at + 4);
        match numbers.id(at) {
            b"COMM" => {
                let width = numbers.u16(at + 14).div_ceil(8);
                let kind = if is_aifc { numbers.id(at + 26) } else { b"NONE" };
                let (is_big, meaning) = match kind {
                    b"NONE" | b"twos" | b"in24" | b"in32" => (true, Meaning::Signed),
                    b"sowt" | b"42ni" | b"23ni" => (false, Meaning::Signed),
                    b"raw " => (true, Meaning::Unsigned),
                    b"fl32" | b"FL32" | b"fl64" | b"FL64" => (true, Meaning::Float),
                    _ => return None,
                };
                found = Some(shape(width, numbers.u16(at + 8), is_big, meaning)?);
            }
            b"SSND" => {
                let start = (at as u64 + 16).saturating_add(numbers.u32(at + 8));
                let claimed_len = chunk_len.saturating_sub(8 + numbers.u32(at + 8));
                data = Some(range(start, claimed_len, len));
            }
            _ => {}
        }
        if let (Some(shape), Some(data)) = (found, &data) {
            return Some((data.clone(), shape));
        }
        if at >= bytes.len() {
            return None;
        }
        at = at.checked_add(usize::try_from(chunk_len + chunk_len % 2).ok()?)?.checked_add(8)?;
    }
    None
}

fn caf(bytes: &[u8], len: u64) -> Option<(Range<u64>, SampleShape)> {
    let numbers = Numbers { bytes, is_big: true };
    let mut found = None;
    let mut at = 8;
    for _ in 0..CHUNK_COUNT_MAX {
        let chunk_len = numbers.u64(at + 4);
        match numbers.id(at) {
            b"desc" => {
                let (flags, packet_len) = (numbers.u32(at + 24), numbers.u32(at + 28));
                let channels = numbers.u32(at + 36);
                if numbers.id(at + 20) != b"lpcm" || numbers.u32(at + 32) != 1 {
                    return None;
                }
                let meaning = if flags & 1 == 1 { Meaning::Float } else { Meaning::Signed };
                let width = packet_len.checked_div(channels)?;
                found = Some(shape(width, channels, flags & 2 == 0, meaning)?);
            }
            b"data" => {
                // A count of edits comes first. A length of -1 means up to the end.
                let claimed_len = if chunk_len > i64::MAX as u64 { 4 } else { chunk_len };
                return Some((range(at as u64 + 16, claimed_len.saturating_sub(4), len), found?));
            }
            [] => return None,
            _ => {}
        }
        at = at.checked_add(usize::try_from(chunk_len).ok()?)?.checked_add(12)?;
    }
    None
}

fn au(bytes: &[u8], len: u64) -> Option<(Range<u64>, SampleShape)> {
    let numbers = Numbers { bytes, is_big: bytes[0] == b'.' };
    let (start, claimed_len) = (numbers.u32(4), numbers.u32(8));
    let (width, meaning) = match numbers.u32(12) {
        encoding @ 2..=5 => (encoding - 1, Meaning::Signed),
        6 => (4, Meaning::Float),
        7 => (8, Meaning::Float),
        _ => return None,
    };
    let shape = shape(width, numbers.u32(20), numbers.is_big, meaning)?;
    let claimed_len = if claimed_len == u64::from(u32::MAX) { 0 } else { claimed_len };
    (start >= 24).then(|| (range(start, claimed_len, len), shape))
}
