//! The LZW of compress(1), `.Z`: codes of 9 to 16 bits over a table of strings that grows with
//! them.
//!
//! Codes are stored in groups of eight, lowest bits first; where their width changes, the rest of a
//! group is padding. Memory is 256 KiB for any input.

use std::io::{self, BufReader, Read};

const MAGIC: [u8; 2] = [0x1f, 0x9d];
/// In the byte after the magic: the most bits of a code, and that code 256 empties the table.
const BITS_MASK: u8 = 0x1f;
const BLOCK_MODE: u8 = 0x80;
const WIDTH_MIN: u32 = 9;
const WIDTH_MAX: u32 = 16;
const CODE_CLEAR: u16 = 256;

/// Decompresses a stream as it is read.
pub(crate) struct Lzw<R> {
    input: BufReader<R>,
    /// None before the header was read.
    table: Option<Table>,
    /// The string of the last code, backwards.
    string: Vec<u8>,
    is_done: bool,
}

struct Table {
    width_max: u32,
    is_block_mode: bool,
    width: u32,
    /// The group at hand, and the bits of it that were taken.
    group: Vec<u8>,
    taken_bits: usize,
    /// By code, from 256 on: the string without its last byte, and that byte.
    prefixes: Vec<u16>,
    suffixes: Vec<u8>,
    last: Option<u16>,
    /// First byte of the last string.
    first: u8,
}

fn corrupt() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a code without a string")
}

impl<R: Read> Lzw<R> {
    pub(crate) fn new(input: R) -> Self {
        let input = BufReader::with_capacity(64 << 10, input);
        Self { input, table: None, string: Vec::new(), is_done: false }
    }

    /// Puts the next string into `string`; false at the end.
    fn next_string(&mut self) -> io::Result<bool> {
        if self.table.is_none() {
            let mut head = [0; 3];
            self.input.read_exact(&mut head)?;
            let width_max = u32::from(head[2] & BITS_MASK);
            if head[..2] != MAGIC || !(WIDTH_MIN..=WIDTH_MAX).contains(&width_max) {
                return Err(corrupt());
            }
            self.table = Some(Table {
                width_max,
                is_block_mode: head[2] & BLOCK_MODE != 0,
                width: WIDTH_MIN,
                group: Vec::new(),
                taken_bits: 0,
                // Code 256 is no string in block mode.
                prefixes: vec![0; usize::from(head[2] & BLOCK_MODE != 0)],
                suffixes: vec![0; usize::from(head[2] & BLOCK_MODE != 0)],
                last: None,
                first: 0,
            });
        }
        let Some(table) = &mut self.table else { return Ok(false) };
        let Some(mut code) = table.code(&mut self.input)? else { return Ok(false) };
        if code == CODE_CLEAR && table.is_block_mode && table.last.is_some() {
            table.prefixes.clear();
            table.suffixes.clear();
            table.width = WIDTH_MIN;
            table.group.clear();
            let Some(next) = table.code(&mut self.input)? else { return Ok(false) };
            code = Some(next).filter(|&code| code < CODE_CLEAR).ok_or_else(corrupt)?;
        }
        table.string(code, &mut self.string)?;
        Ok(true)
    }
}

impl Table {
    /// Strings that the next code may mean.
    fn string_count(&self) -> usize {
        256 + self.prefixes.len()
    }

    /// The next code; `None` at the end.
    fn code(&mut self, input: &mut impl Read) -> io::Result<Option<u16>> {
        if self.string_count() > (1 << self.width) - 1 && self.width < self.width_max {
            self.width += 1;
            self.group.clear();
        }
        let width = self.width as usize;
        if self.group.is_empty() || self.taken_bits + width > self.group.len() * 8 {
            self.group.clear();
            input.take(u64::from(self.width)).read_to_end(&mut self.group)?;
            self.taken_bits = 0;
            if self.group.len() * 8 < width {
                return Ok(None);
            }
        }
        let at = self.taken_bits / 8;
        let bytes = self.group[at..].iter().take(4).rev();
        let bits = bytes.fold(0u32, |bits, &byte| bits << 8 | u32::from(byte));
        let code = bits >> (self.taken_bits % 8) & ((1 << width) - 1);
        self.taken_bits += width;
        Ok(Some(code as u16))
    }

    /// Puts the string of a code into `out`, backwards, and adds the string that it completes.
    fn string(&mut self, code: u16, out: &mut Vec<u8>) -> io::Result<()> {
        let mut at = code;
        if usize::from(code) >= self.string_count() {
            // Only the string that is completed right now may be meant before it is there.
            let last = self.last.filter(|_| usize::from(code) == self.string_count());
            at = last.ok_or_else(corrupt)?;
            out.push(self.first);
        }
        while let Some(index) = usize::from(at).checked_sub(256) {
            // A prefix is always an earlier string.
            out.push(self.suffixes[index]);
            at = self.prefixes[index];
        }
        self.first = at as u8;
        out.push(self.first);
        if let Some(last) = self.last
            && self.string_count() < 1 << self.width_max
        {
            self.prefixes.push(last);
            self.suffixes.push(self.first);
        }
        self.last = Some(code);
        Ok(())
    }
}

impl<R: Read> Read for Lzw<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while len < out.len() {
            if let Some(byte) = self.string.pop() {
                out[len] = byte;
                len += 1;
            } else if self.is_done || !self.next_string()? {
                self.is_done = true;
                break;
            }
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text as codes of single bytes, which the decoder still makes longer strings of: all widths
    /// occur, and the padding where they change.
    fn in_single_bytes(plain: &[u8], width_max: u32, clear_every: usize) -> Vec<u8> {
        let mut out = [&MAGIC[..], &[width_max as u8 | BLOCK_MODE]].concat();
        let (mut width, mut group, mut bits, mut strings) = (WIDTH_MIN, 0u128, 0, 257);
        let flush = |out: &mut Vec<u8>, group: &mut u128, bits: &mut u32, len: u32| {
            out.extend_from_slice(&group.to_le_bytes()[..len as usize]);
            (*group, *bits) = (0, 0);
        };
        let clear = usize::from(CODE_CLEAR) as u128;
        let mut codes = Vec::new();
        for (n, &byte) in plain.iter().enumerate() {
            if n > 0 && n % clear_every == 0 {
                codes.push(clear);
            }
            codes.push(u128::from(byte));
        }
        let mut is_first = true;
        for &code in &codes {
            if strings > (1 << width) - 1 && width < width_max {
                if bits > 0 {
                    flush(&mut out, &mut group, &mut bits, width);
                }
                width += 1;
            }
            group |= code << bits;
            bits += width;
            if bits == 8 * width || code == clear {
                flush(&mut out, &mut group, &mut bits, width);
            }
            if code == clear {
                (width, strings) = (WIDTH_MIN, 256);
            } else if !std::mem::take(&mut is_first) && strings < 1 << width_max {
                strings += 1;
            }
        }
        let len = bits.div_ceil(8);
        flush(&mut out, &mut group, &mut bits, len);
        out
    }

    fn plain(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Lzw::new(bytes).read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn codes_of_every_width_come_back() {
        let text: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        for (width_max, clear_every) in [(16, 1 << 20), (16, 30_000), (12, 3_000), (10, 1 << 20)] {
            let packed = in_single_bytes(&text, width_max, clear_every);
            assert!(plain(&packed).unwrap() == text, "{width_max} bits, {clear_every}");
        }
        assert_eq!(plain(&in_single_bytes(b"", 16, 1)).unwrap(), b"");
    }

    #[test]
    fn a_string_may_be_used_before_it_is_whole() {
        // a, the string that it begins, and the one that this begins: 1 + 2 + 3 bytes.
        let bits = 97u64 | 257 << 9 | 258 << 18;
        let packed = [&[0x1f, 0x9d, 0x90][..], &bits.to_le_bytes()[..4]].concat();
        assert_eq!(plain(&packed).unwrap(), b"aaaaaa");
    }

    #[test]
    fn codes_without_a_string_are_errors() {
        assert!(plain(&[0x1f, 0x9d, 0x90, 0xff, 0xff]).is_err());
        assert!(plain(&[0x1f, 0x9d, 0x88, 0, 0]).is_err());
        assert!(plain(&[0x1f, 0x9d]).is_err());
        // Any bytes give an error or text, never a panic.
        let mut bytes = vec![0x1f, 0x9d, 0x90];
        for n in 0..5000u32 {
            bytes.push((n.wrapping_mul(0x9e37_79b9) >> 11) as u8);
            let _ = plain(&bytes);
            if n > 64 {
                break;
            }
        }
    }
}
