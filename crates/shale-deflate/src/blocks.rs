//! Blocks of tokens: when they end, and how they are written.
//!
//! While a model is searched for, the tokens are compared with those of the stream, so that a wrong
//! model is dropped at its first wrong token and not after a block.

use crate::bits::BitWriter;
use crate::cut::InHand;
use crate::error::DeflateError;
use crate::model::{Encoder, Model, Strategy};
use crate::parse::{BlockForm, Parsed, TokenReader};
use crate::tables::{
    DISTANCE_CODES, DISTANCE_EXTRA, END_OF_BLOCK, LITERAL_CODES, Token, distance_symbol,
    length_symbol,
};

/// Collects tokens and writes blocks.
pub(crate) struct Blocks<'a> {
    model: Model,
    symbols_max: usize,
    tokens: Vec<Token>,
    literal_counts: [u32; LITERAL_CODES],
    distance_counts: [u32; DISTANCE_CODES],
    match_count: usize,
    /// Where the current block begins in the bytes of the matcher.
    start: usize,
    bits: BitWriter,
    /// The stream that must come out, while a model is searched for.
    expected: Option<Expected<'a>>,
    /// Ends of blocks, while a model is searched for.
    pub(crate) ends: Vec<BlockEnd>,
}

struct Expected<'a> {
    parsed: &'a Parsed,
    stream: &'a [u8],
    reader: TokenReader<'a>,
    /// Current block, and its next token.
    block: usize,
    token: usize,
    /// Bytes that were compared.
    compared: usize,
}

/// The end of a block of the stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockEnd {
    /// Offset of its end in the plain bytes.
    pub(crate) plain: usize,
    /// Offset of its end in the stream, in bits.
    pub(crate) bit: u64,
    /// What the matcher had found beyond it.
    pub(crate) in_hand: Option<InHand>,
}

impl<'a> Blocks<'a> {
    /// Blocks from `start` on, whose first bits are those of the cut.
    pub(crate) fn new(model: Model, start: usize, bits: BitWriter) -> Self {
        let mut blocks = Self {
            model,
            symbols_max: model.block_symbols_max(),
            tokens: Vec::new(),
            literal_counts: [0; LITERAL_CODES],
            distance_counts: [0; DISTANCE_CODES],
            match_count: 0,
            start,
            bits,
            expected: None,
            ends: Vec::new(),
        };
        blocks.begin(start);
        blocks
    }

    /// Blocks that must come out as the stream of `parsed`.
    pub(crate) fn expecting(
        model: Model,
        parsed: &'a Parsed,
        stream: &'a [u8],
    ) -> Result<Self, DeflateError> {
        let reader = TokenReader::new(stream);
        let mut expected = Expected { parsed, stream, reader, block: 0, token: 0, compared: 0 };
        expected.reader.block()?;
        Ok(Self { expected: Some(expected), ..Self::new(model, 0, BitWriter::default()) })
    }

    /// The stream so far: whole bytes, or all of it if it has ended.
    pub(crate) fn into_bytes(mut self, is_end: bool) -> Vec<u8> {
        if is_end {
            self.bits.align();
        } else {
            self.bits.settle();
        }
        self.bits.bytes
    }

    fn begin(&mut self, start: usize) {
        self.start = start;
        self.tokens.clear();
        self.literal_counts = [0; LITERAL_CODES];
        self.literal_counts[END_OF_BLOCK] = 1;
        self.distance_counts = [0; DISTANCE_CODES];
        self.match_count = 0;
    }

    /// Adds a token that the matcher chose at `at`. Returns whether the block must end.
    pub(crate) fn push(&mut self, token: Token, at: usize) -> Result<bool, DeflateError> {
        if let Some(expected) = &mut self.expected {
            expected.check(token)?;
        }
        self.tokens.push(token);
        let distance = token.distance();
        if distance == 0 {
            self.literal_counts[token.value()] += 1;
        } else {
            self.match_count += 1;
            self.literal_counts[END_OF_BLOCK + 1 + length_symbol(token.value())] += 1;
            self.distance_counts[distance_symbol(distance)] += 1;
        }
        let count = self.tokens.len();
        Ok(count == self.symbols_max || self.ends_early(count, at))
    }

    /// GNU gzip ends a block early if it compresses well and has few matches.
    fn ends_early(&self, count: usize, at: usize) -> bool {
        if self.model.encoder != Encoder::Gzip || self.model.level <= 2 || count & 0xfff != 0 {
            return false;
        }
        let mut bits = count as u64 * 8;
        for (&count, &extra) in self.distance_counts.iter().zip(&DISTANCE_EXTRA) {
            bits += u64::from(count) * (5 + u64::from(extra));
        }
        let plain_len = at.saturating_sub(self.start) as u64;
        self.match_count < count / 2 && bits / 8 < plain_len / 2
    }

    /// Ends the block at `end` of `bytes`. `kept_from` is where the window of the encoder began.
    pub(crate) fn end(
        &mut self,
        bytes: &[u8],
        end: usize,
        kept_from: usize,
        in_hand: Option<InHand>,
        is_last: bool,
    ) -> Result<(), DeflateError> {
        let plain = bytes.get(self.start..end).ok_or(DeflateError::BadCut)?;
        let stored = (self.start >= kept_from && plain.len() <= 0xffff).then_some(plain);
        let block = crate::trees::BlockTokens {
            tokens: &self.tokens,
            literal_counts: &self.literal_counts,
            distance_counts: &self.distance_counts,
        };
        let always_fixed = self.model.strategy == Strategy::Fixed;
        crate::trees::write_block(
            &mut self.bits,
            &block,
            (plain.len(), stored),
            always_fixed,
            is_last,
        );
        if let Some(expected) = &mut self.expected {
            expected.end(&mut self.bits, end, is_last)?;
            let bit = expected.parsed.blocks[expected.block - 1].bit_end;
            self.ends.push(BlockEnd { plain: end, bit, in_hand });
        }
        self.begin(end);
        Ok(())
    }
}

impl Expected<'_> {
    fn check(&mut self, token: Token) -> Result<(), DeflateError> {
        let block = self.parsed.blocks.get(self.block).ok_or(DeflateError::Unknown)?;
        // The tokens of a stored block are lost.
        if block.form != BlockForm::Stored {
            if self.token == block.token_end || self.reader.token()? != Some(token) {
                return Err(DeflateError::Unknown);
            }
            self.token += 1;
        }
        Ok(())
    }

    fn end(&mut self, bits: &mut BitWriter, end: usize, is_last: bool) -> Result<(), DeflateError> {
        let block = self.parsed.blocks.get(self.block).ok_or(DeflateError::Unknown)?;
        if block.plain_end != end || block.is_last != is_last || block.token_end != self.token {
            return Err(DeflateError::Unknown);
        }
        if is_last {
            bits.align();
        } else {
            bits.settle();
        }
        let written = self.compared + bits.bytes.len();
        if self.stream.get(self.compared..written) != Some(&bits.bytes[..]) {
            return Err(DeflateError::Unknown);
        }
        let (rest, rest_len) = bits.rest();
        if rest_len > 0 {
            let next = self.stream.get(written).copied().unwrap_or(0);
            if next & ((1 << rest_len) - 1) != rest {
                return Err(DeflateError::Unknown);
            }
        }
        if written as u64 * 8 + u64::from(rest_len)
            != if is_last { written as u64 * 8 } else { block.bit_end }
        {
            return Err(DeflateError::Unknown);
        }
        self.compared = written;
        bits.bytes.clear();
        self.block += 1;
        if block.form == BlockForm::Stored {
            self.reader.stored()?;
        } else if self.reader.token()?.is_some() {
            return Err(DeflateError::Unknown);
        }
        if !is_last {
            self.reader.block()?;
        }
        Ok(())
    }
}
