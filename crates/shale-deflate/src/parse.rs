//! Deflate streams as tokens and blocks.

use crate::bits::BitReader;
use crate::error::DeflateError;
use crate::tables::{
    CODE_LENGTH_ORDER, DISTANCE_BASE, DISTANCE_EXTRA, END_OF_BLOCK, FIXED_LITERAL_LENS,
    LENGTH_BASE, LENGTH_CODES, LENGTH_EXTRA, Token,
};

/// A deflate stream that was taken apart.
#[derive(Debug, Default)]
pub struct Parsed {
    /// What it holds.
    pub plain: Vec<u8>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) blocks: Vec<Block>,
    /// Bytes of the stream; the input may go on after it.
    pub stream_len: usize,
}

/// A block of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) form: BlockForm,
    pub(crate) is_last: bool,
    /// Offset of its end in the stream, in bits.
    pub(crate) bit_end: u64,
    pub(crate) plain_end: usize,
    pub(crate) token_end: usize,
}

/// How a block is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockForm {
    Stored,
    Fixed,
    Dynamic,
}

/// Bits that one look at the table decodes.
const FAST_BITS: u32 = 10;

/// A decoder of Huffman codes.
struct Decoder {
    /// Symbol and length of each code of at most `FAST_BITS` bits, by its first bits.
    fast: Vec<u16>,
    /// Codes of each length.
    counts: [u16; 16],
    /// Symbols in the order of their codes.
    symbols: Vec<u16>,
}

impl Decoder {
    /// The decoder of codes with these lengths. Refuses sets that are over-subscribed, or
    /// incomplete with more than one code.
    fn new(lens: &[u8]) -> Result<Self, DeflateError> {
        let mut counts = [0u16; 16];
        for &len in lens {
            counts[usize::from(len)] += 1;
        }
        let used = lens.len() as u16 - counts[0];
        counts[0] = 0;
        let mut left = 1i32;
        for &count in &counts[1..] {
            left = (left << 1) - i32::from(count);
            if left < 0 {
                return Err(DeflateError::Invalid);
            }
        }
        if left > 0 && used > 1 {
            return Err(DeflateError::Invalid);
        }
        let mut offsets = [0u16; 16];
        let mut next = [0u16; 16];
        let mut code = 0;
        for len in 1..16 {
            code = (code + counts[len - 1]) << 1;
            next[len] = code;
            offsets[len] = offsets[len - 1] + counts[len - 1];
        }
        let mut symbols = vec![0; lens.len()];
        let mut fast = vec![0u16; 1 << FAST_BITS];
        for (symbol, &len) in lens.iter().enumerate() {
            if len == 0 {
                continue;
            }
            let len = usize::from(len);
            symbols[usize::from(offsets[len])] = symbol as u16;
            offsets[len] += 1;
            let code = next[len].reverse_bits() >> (16 - len);
            next[len] += 1;
            if len as u32 <= FAST_BITS {
                let entry = (symbol as u16) << 4 | len as u16;
                fast.iter_mut().skip(usize::from(code)).step_by(1 << len).for_each(|e| *e = entry);
            }
        }
        Ok(Self { fast, counts, symbols })
    }

    /// Takes one symbol. At least 15 bits are held, or all that are left.
    #[inline]
    fn take(&self, bits: &mut BitReader<'_>) -> Result<usize, DeflateError> {
        let held = bits.peek();
        let entry = self.fast[(held & ((1 << FAST_BITS) - 1)) as usize];
        if entry != 0 {
            bits.skip(u32::from(entry & 15))?;
            return Ok(usize::from(entry >> 4));
        }
        let (mut code, mut first, mut index) = (0i32, 0i32, 0i32);
        for len in 1..16 {
            code |= (held >> (len - 1) & 1) as i32;
            let count = i32::from(self.counts[len as usize]);
            if code - count < first {
                bits.skip(len)?;
                return Ok(usize::from(self.symbols[(index + code - first) as usize]));
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        Err(DeflateError::Invalid)
    }
}

/// Takes apart the deflate stream at the start of `input`, which may hold at most `plain_max`
/// bytes.
///
/// # Errors
/// The input is not such a stream.
pub fn parse(input: &[u8], plain_max: usize) -> Result<Parsed, DeflateError> {
    let mut bits = BitReader::new(input);
    let mut parsed = Parsed::default();
    loop {
        let is_last = bits.take(1)? == 1;
        let form = match bits.take(2)? {
            0 => BlockForm::Stored,
            1 => BlockForm::Fixed,
            2 => BlockForm::Dynamic,
            _ => return Err(DeflateError::Invalid),
        };
        match form {
            BlockForm::Stored => {
                let head = bits.bytes(4)?;
                let len = u16::from_le_bytes([head[0], head[1]]);
                if len != !u16::from_le_bytes([head[2], head[3]]) {
                    return Err(DeflateError::Invalid);
                }
                if parsed.plain.len() + usize::from(len) > plain_max {
                    return Err(DeflateError::TooLong(plain_max));
                }
                parsed.plain.extend_from_slice(bits.bytes(usize::from(len))?);
            }
            BlockForm::Fixed => {
                let literals = Decoder::new(&FIXED_LITERAL_LENS)?;
                let distances = Decoder::new(&[5; 32])?;
                tokens(&mut bits, &literals, &distances, &mut parsed, plain_max)?;
            }
            BlockForm::Dynamic => {
                let (literals, distances) = trees(&mut bits)?;
                tokens(&mut bits, &literals, &distances, &mut parsed, plain_max)?;
            }
        }
        parsed.blocks.push(Block {
            form,
            is_last,
            bit_end: bits.position(),
            plain_end: parsed.plain.len(),
            token_end: parsed.tokens.len(),
        });
        if is_last {
            parsed.stream_len = bits.position().div_ceil(8) as usize;
            return Ok(parsed);
        }
    }
}

fn trees(bits: &mut BitReader<'_>) -> Result<(Decoder, Decoder), DeflateError> {
    let literal_count = bits.take(5)? + 257;
    let distance_count = bits.take(5)? + 1;
    let written = bits.take(4)? + 4;
    if literal_count > 286 || distance_count > 30 {
        return Err(DeflateError::Invalid);
    }
    let mut lens = [0u8; LENGTH_CODES];
    for &symbol in &CODE_LENGTH_ORDER[..written] {
        lens[symbol] = bits.take(3)? as u8;
    }
    let lengths = Decoder::new(&lens)?;
    let mut lens = [0u8; 286 + 30];
    let total = literal_count + distance_count;
    let mut at = 0;
    while at < total {
        bits.refill();
        let symbol = lengths.take(bits)?;
        let (len, count) = match symbol {
            0..=15 => (symbol as u8, 1),
            16 if at == 0 => return Err(DeflateError::Invalid),
            16 => (lens[at - 1], 3 + bits.take(2)?),
            17 => (0, 3 + bits.take(3)?),
            _ => (0, 11 + bits.take(7)?),
        };
        if at + count > total {
            return Err(DeflateError::Invalid);
        }
        lens[at..at + count].fill(len);
        at += count;
    }
    if lens[END_OF_BLOCK] == 0 {
        return Err(DeflateError::Invalid);
    }
    Ok((Decoder::new(&lens[..literal_count])?, Decoder::new(&lens[literal_count..total])?))
}

fn tokens(
    bits: &mut BitReader<'_>,
    literals: &Decoder,
    distances: &Decoder,
    parsed: &mut Parsed,
    plain_max: usize,
) -> Result<(), DeflateError> {
    let plain = &mut parsed.plain;
    loop {
        bits.refill();
        let symbol = literals.take(bits)?;
        if symbol < END_OF_BLOCK {
            if plain.len() >= plain_max {
                return Err(DeflateError::TooLong(plain_max));
            }
            plain.push(symbol as u8);
            parsed.tokens.push(Token::literal(symbol as u8));
            continue;
        }
        if symbol == END_OF_BLOCK {
            return Ok(());
        }
        let symbol = symbol - END_OF_BLOCK - 1;
        let base = *LENGTH_BASE.get(symbol).ok_or(DeflateError::Invalid)?;
        let len = usize::from(base) + bits.take(u32::from(LENGTH_EXTRA[symbol]))?;
        // The longest match has a symbol of its own, and zlib never writes it otherwise.
        bits.refill();
        let symbol = distances.take(bits)?;
        let base = *DISTANCE_BASE.get(symbol).ok_or(DeflateError::Invalid)?;
        let distance = usize::from(base) + bits.take(u32::from(DISTANCE_EXTRA[symbol]))?;
        if distance > plain.len() {
            return Err(DeflateError::Invalid);
        }
        if plain.len() + len > plain_max {
            return Err(DeflateError::TooLong(plain_max));
        }
        let from = plain.len() - distance;
        if distance >= len {
            plain.extend_from_within(from..from + len);
        } else {
            for at in from..from + len {
                plain.push(plain[at]);
            }
        }
        parsed.tokens.push(Token::matched(len, distance));
    }
}
