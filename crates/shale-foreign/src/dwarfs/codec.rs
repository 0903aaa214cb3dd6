//! Blocks, compressed in the ways that DwarFS has: a number says which.
//!
//! Every way gives at most the length asked for; one that would give more is an error.

use std::io::Cursor;

use shale_codec::stream;

use super::thrift::{Value, structure, varint};
use crate::decompress::what_is_wrong;

/// Decompresses the payload of a section.
pub(super) fn decode(kind: u64, bytes: &[u8], len_max: usize) -> Result<Vec<u8>, String> {
    match kind {
        0 => Ok(bytes.to_vec()),
        1 => stream::lzma_block(bytes, true, len_max).map_err(|e| what_is_wrong("xz", &e)),
        2 => stream::zstd_block(bytes, len_max).map_err(|e| what_is_wrong("zstd", &e)),
        3 | 4 => {
            let (len, rest) = bytes.split_first_chunk::<4>().ok_or("corrupt LZ4 data")?;
            let len = u32::from_le_bytes(*len) as usize;
            if len > len_max {
                return Err(format!("it says to have {len} bytes, {len_max} are allowed"));
            }
            stream::lz4_block(rest, len).map_err(|e| what_is_wrong("LZ4", &e))
        }
        5 => {
            let mut rest = bytes;
            let len = plain_len(&mut rest, len_max)?;
            let plain = stream::brotli_block(rest, len);
            let plain = plain.map_err(|e| what_is_wrong("brotli", &e))?;
            exactly(plain, len)
        }
        6 => {
            let mut rest = bytes;
            let len = plain_len(&mut rest, len_max)?;
            let (header, rest) = structure(rest)?;
            exactly(flac(&header, rest, len)?, len)
        }
        7 => {
            let mut rest = bytes;
            let len = plain_len(&mut rest, len_max)?;
            let (header, rest) = structure(rest)?;
            rice(&header, rest, len)
        }
        other => Err(format!("its compression is of kind {other}, which is not supported")),
    }
}

fn plain_len(bytes: &mut &[u8], len_max: usize) -> Result<usize, String> {
    let len = varint(bytes)?;
    let len = usize::try_from(len).ok().filter(|&len| len <= len_max);
    len.ok_or_else(|| format!("it says to have more than {len_max} bytes"))
}

fn exactly(plain: Vec<u8>, len: usize) -> Result<Vec<u8>, String> {
    match plain.len() == len {
        true => Ok(plain),
        false => Err(format!("it has {} bytes instead of {len}", plain.len())),
    }
}

/// Sound: FLAC, and how the samples lay in the file.
fn flac(header: &Value, bytes: &[u8], len: usize) -> Result<Vec<u8>, String> {
    const BIG_ENDIAN: i64 = 0x80;
    const SIGNED: i64 = 0x40;
    const PADDED_BELOW: i64 = 0x20;
    let flags = header.int(3);
    let sample_len = (flags & 3) as usize + 1;
    let bits = u32::try_from(header.int(2)).unwrap_or(0);
    if !(8..=8 * sample_len as u32).contains(&bits) {
        return Err(format!("sound of {bits} bits in {sample_len} bytes"));
    }
    let failed = |_: claxon::Error| "corrupt FLAC data".to_owned();
    let mut reader = claxon::FlacReader::new(Cursor::new(bytes)).map_err(failed)?;
    let mut out = Vec::new();
    let mut blocks = reader.blocks();
    let mut buffer = Vec::new();
    while out.len() < len {
        let Some(block) = blocks.read_next_or_eof(buffer).map_err(failed)? else { break };
        if block.channels() == 0 || block.duration() == 0 {
            return Err("a frame of sound is empty".to_owned());
        }
        for at in 0..block.duration() {
            for channel in 0..block.channels() {
                let mut sample = block.sample(channel, at);
                if flags & SIGNED == 0 {
                    sample = sample.wrapping_add(1i32.wrapping_shl(bits - 1));
                }
                if flags & PADDED_BELOW != 0 {
                    sample = sample.wrapping_shl(8 * sample_len as u32 - bits);
                }
                let bytes = sample.to_le_bytes();
                let used = bytes.iter().take(sample_len).copied();
                if flags & BIG_ENDIAN != 0 {
                    out.extend(used.rev());
                } else {
                    out.extend(used);
                }
            }
        }
        if out.len() > len {
            return Err(format!("its sound has more than {len} bytes"));
        }
        buffer = block.into_buffer();
    }
    Ok(out)
}

/// Pictures of 16 bits: differences in Rice code, in blocks with a parameter each.
fn rice(header: &Value, bytes: &[u8], len: usize) -> Result<Vec<u8>, String> {
    const PIXEL_BITS: u32 = 16;
    const PARAMETER_BITS: u32 = 4;
    const PARAMETER_MAX: u64 = 14;
    let number = |id: i64| u32::try_from(header.int(id)).unwrap_or(u32::MAX);
    let (block_len, streams) = (number(1) as usize, number(2) as usize);
    let (sample_len, unused) = (number(3), number(4));
    let is_big_endian = header.int(5) != 0;
    if sample_len != 2 || unused >= PIXEL_BITS || !(1..=2).contains(&streams) {
        return Err(format!(
            "pictures of {sample_len} bytes with {unused} unused bits in {streams} streams"
        ));
    }
    if !(1..=4096).contains(&block_len) || !len.is_multiple_of(2 * streams) {
        return Err(format!("pictures of {len} bytes in blocks of {block_len}"));
    }
    let pixel_count = len / 2;
    // Four bits are the least that a block takes.
    let block_count_max = bytes.len().saturating_mul(2);
    if pixel_count.div_ceil(block_len) > block_count_max {
        return Err(format!("pictures of {len} bytes out of {}", bytes.len()));
    }
    let mut bits = Bits { bytes, at: 0 };
    let swap = |pixel: u16| if is_big_endian { pixel.swap_bytes() } else { pixel };
    let write = |value: u64| swap((value << unused) as u16);
    let mut last = Vec::new();
    for _ in 0..streams {
        last.push(bits.take(PIXEL_BITS)?);
    }
    let mut pixels = vec![0u16; pixel_count];
    for chunk in pixels.chunks_mut(block_len * streams) {
        for (stream, last) in last.iter_mut().enumerate() {
            let places = chunk.iter_mut().skip(stream).step_by(streams);
            match bits.take(PARAMETER_BITS)? {
                0 => places.for_each(|place| *place = write(*last)),
                parameter @ 1..=PARAMETER_MAX => {
                    let low_bits = parameter as u32 - 1;
                    for place in places {
                        let high = bits.zeroes()?;
                        let folded = high << low_bits | bits.take(low_bits)?;
                        let difference = (folded >> 1) as i64 ^ -((folded & 1) as i64);
                        *last = last.wrapping_add(difference as u64);
                        *place = write(*last);
                    }
                }
                _ => {
                    for place in places {
                        *place = bits.take(PIXEL_BITS)? as u16;
                        *last = u64::from(swap(*place) >> unused);
                    }
                }
            }
        }
    }
    Ok(pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect())
}

/// Bits from the lowest of each byte on.
struct Bits<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl Bits<'_> {
    fn bit(&mut self) -> Result<u64, &'static str> {
        let byte = self.bytes.get((self.at / 8) as usize).ok_or("its picture is cut")?;
        let bit = byte >> (self.at % 8) & 1;
        self.at += 1;
        Ok(u64::from(bit))
    }

    fn take(&mut self, count: u32) -> Result<u64, &'static str> {
        (0..count).try_fold(0, |value, at| Ok(value | self.bit()? << at))
    }

    /// Zeroes in front of the next one, which is taken too. At most as many as a difference has
    /// values.
    fn zeroes(&mut self) -> Result<u64, &'static str> {
        let mut count = 0;
        while self.bit()? == 0 {
            count += 1;
            if count > 1 << 20 {
                return Err("its picture has a difference that is too large");
            }
        }
        Ok(count)
    }
}
