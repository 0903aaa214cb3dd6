//! Tables of RFC 1951: codes of lengths and distances.

/// Longest match.
pub(crate) const MATCH_MAX: usize = 258;
/// Shortest match.
pub(crate) const MATCH_MIN: usize = 3;
/// Bytes that zlib keeps ahead of its position while more input comes.
pub(crate) const LOOKAHEAD_MIN: usize = MATCH_MAX + MATCH_MIN + 1;
/// Literals, the end of a block, and lengths.
pub(crate) const LITERAL_CODES: usize = 286;
/// Distances.
pub(crate) const DISTANCE_CODES: usize = 30;
/// Lengths of codes.
pub(crate) const LENGTH_CODES: usize = 19;
/// The symbol that ends a block.
pub(crate) const END_OF_BLOCK: usize = 256;

/// Extra bits of symbols 257 to 285.
pub(crate) const LENGTH_EXTRA: [u8; 29] =
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
/// Shortest length of symbols 257 to 285.
pub(crate) const LENGTH_BASE: [u16; 29] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131,
    163, 195, 227, 258,
];
/// Extra bits of distances.
pub(crate) const DISTANCE_EXTRA: [u8; 30] = [
    0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13,
    13,
];
/// Shortest distance of each symbol.
pub(crate) const DISTANCE_BASE: [u16; 30] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537,
    2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577,
];
/// Extra bits of the codes of lengths.
pub(crate) const CODE_LENGTH_EXTRA: [u8; LENGTH_CODES] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 7];
/// The order in which lengths of codes of lengths are written.
pub(crate) const CODE_LENGTH_ORDER: [usize; LENGTH_CODES] =
    [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Symbol less 257 of each length, at length − 3.
static LENGTH_SYMBOL: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut symbol = 0;
    while symbol < 28 {
        let mut at = LENGTH_BASE[symbol] as usize;
        while at < LENGTH_BASE[symbol + 1] as usize {
            table[at - 3] = symbol as u8;
            at += 1;
        }
        symbol += 1;
    }
    table[255] = 28;
    table
};

/// Symbol of a length, less 257.
pub(crate) fn length_symbol(len: usize) -> usize {
    usize::from(LENGTH_SYMBOL[(len - MATCH_MIN) & 255])
}

/// Symbol of a distance, at least 1.
pub(crate) fn distance_symbol(distance: usize) -> usize {
    let last = distance - 1;
    if last < 4 {
        return last;
    }
    let top = last.ilog2() as usize;
    2 * top + (last >> (top - 1) & 1)
}

/// Lengths of the fixed codes of literals and lengths.
pub(crate) const FIXED_LITERAL_LENS: [u8; 288] = {
    let mut lens = [8u8; 288];
    let mut at = 144;
    while at < 256 {
        lens[at] = 9;
        at += 1;
    }
    while at < 280 {
        lens[at] = 7;
        at += 1;
    }
    lens
};

/// A literal or a match as one number: distance in the upper half, 0 for a literal; length or byte
/// in the lower half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(u32);

impl Token {
    pub(crate) fn literal(byte: u8) -> Self {
        Self(u32::from(byte))
    }

    pub(crate) fn matched(len: usize, distance: usize) -> Self {
        Self((distance as u32) << 16 | len as u32)
    }

    /// Distance, 0 for a literal.
    pub(crate) fn distance(self) -> usize {
        (self.0 >> 16) as usize
    }

    /// Length of a match, or the byte of a literal.
    pub(crate) fn value(self) -> usize {
        (self.0 & 0xffff) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_the_inverse_of_the_tables() {
        for len in MATCH_MIN..=MATCH_MAX {
            let symbol = length_symbol(len);
            let base = usize::from(LENGTH_BASE[symbol]);
            assert!((base..base + (1 << LENGTH_EXTRA[symbol])).contains(&len), "{len}");
            assert_eq!(len == MATCH_MAX, symbol == 28);
        }
        for distance in 1..=32_768 {
            let symbol = distance_symbol(distance);
            let base = usize::from(DISTANCE_BASE[symbol]);
            assert!((base..base + (1 << DISTANCE_EXTRA[symbol])).contains(&distance));
        }
    }
}
