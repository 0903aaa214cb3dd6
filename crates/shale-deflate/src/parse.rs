//! Deflate streams as tokens and blocks.
//!
//! Tokens are not kept: they are decoded once for the plain bytes, and again for each model that
//! they are compared with. So the memory is that of the plain bytes, and 40 bytes a block.

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

/// Reads the tokens of a stream, block by block.
pub(crate) struct TokenReader<'a> {
    bits: BitReader<'a>,
    /// Decoders of literals with lengths and of distances, in a block that has some.
    decoders: Option<(Decoder, Decoder)>,
}

impl<'a> TokenReader<'a> {
    /// A reader at the start of a stream.
    pub(crate) fn new(input: &'a [u8]) -> Self {
        Self { bits: BitReader::new(input), decoders: None }
    }

    /// Begins the next block. Returns its form and whether it is the last one.
    pub(crate) fn block(&mut self) -> Result<(BlockForm, bool), DeflateError> {
        let is_last = self.bits.take(1)? == 1;
        let (form, decoders) = match self.bits.take(2)? {
            0 => (BlockForm::Stored, None),
            1 => {
                let decoders = (Decoder::new(&FIXED_LITERAL_LENS)?, Decoder::new(&[5; 32])?);
                (BlockForm::Fixed, Some(decoders))
            }
            2 => (BlockForm::Dynamic, Some(trees(&mut self.bits)?)),
            _ => return Err(DeflateError::Invalid),
        };
        self.decoders = decoders;
        Ok((form, is_last))
    }

    /// The bytes of a stored block that was just begun.
    pub(crate) fn stored(&mut self) -> Result<&'a [u8], DeflateError> {
        let head = self.bits.bytes(4)?;
        let len = u16::from_le_bytes([head[0], head[1]]);
        if len != !u16::from_le_bytes([head[2], head[3]]) {
            return Err(DeflateError::Invalid);
        }
        self.bits.bytes(usize::from(len))
    }

    /// The next token of the block, or `None` at its end. Distances are not compared with anything.
    #[inline]
    pub(crate) fn token(&mut self) -> Result<Option<Token>, DeflateError> {
        let Some((literals, distances)) = &self.decoders else { return Ok(None) };
        let bits = &mut self.bits;
        bits.refill();
        let symbol = literals.take(bits)?;
        if symbol < END_OF_BLOCK {
            return Ok(Some(Token::literal(symbol as u8)));
        }
        let Some(symbol) = symbol.checked_sub(END_OF_BLOCK + 1) else { return Ok(None) };
        let base = *LENGTH_BASE.get(symbol).ok_or(DeflateError::Invalid)?;
        let len = usize::from(base) + bits.take(u32::from(LENGTH_EXTRA[symbol]))?;
        bits.refill();
        let symbol = distances.take(bits)?;
        let base = *DISTANCE_BASE.get(symbol).ok_or(DeflateError::Invalid)?;
        let distance = usize::from(base) + bits.take(u32::from(DISTANCE_EXTRA[symbol]))?;
        Ok(Some(Token::matched(len, distance)))
    }
}

/// Takes apart the deflate stream at the start of `input`, which may hold at most `plain_max`
/// bytes.
///
/// # Errors
/// The input is not such a stream.
pub fn parse(input: &[u8], plain_max: usize) -> Result<Parsed, DeflateError> {
    let mut reader = TokenReader::new(input);
    let mut parsed = Parsed::default();
    let mut token_count = 0;
    loop {
        let (form, is_last) = reader.block()?;
        if form == BlockForm::Stored {
            let stored = reader.stored()?;
            if stored.len() > plain_max - parsed.plain.len() {
                return Err(DeflateError::TooLong(plain_max));
            }
            parsed.plain.extend_from_slice(stored);
        } else {
            token_count += tokens(&mut reader, &mut parsed.plain, plain_max)?;
        }
        parsed.blocks.push(Block {
            form,
            is_last,
            bit_end: reader.bits.position(),
            plain_end: parsed.plain.len(),
            token_end: token_count,
        });
        if is_last {
            parsed.stream_len = reader.bits.position().div_ceil(8) as usize;
            return Ok(parsed);
        }
    }
}

/// Appends what the tokens of a block stand for. Returns their number.
fn tokens(
    reader: &mut TokenReader<'_>,
    plain: &mut Vec<u8>,
    plain_max: usize,
) -> Result<usize, DeflateError> {
    let mut count = 0;
    while let Some(token) = reader.token()? {
        count += 1;
        let distance = token.distance();
        let len = if distance == 0 { 1 } else { token.value() };
        if len > plain_max - plain.len() {
            return Err(DeflateError::TooLong(plain_max));
        }
        if distance == 0 {
            plain.push(token.value() as u8);
            continue;
        }
        let from = plain.len().checked_sub(distance).ok_or(DeflateError::Invalid)?;
        if distance >= len {
            plain.extend_from_within(from..from + len);
        } else {
            for at in from..from + len {
                plain.push(plain[at]);
            }
        }
    }
    Ok(count)
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
