//! Frequencies of tokens and the coder that uses them: tabled asymmetric numeral systems, as in
//! zstd's FSE, with states that are shared by all tables. (Duda, "Asymmetric numeral systems",
//! 2013.)

use super::bits::{BitReader, BitWriter, golomb_len, unzigzag, zigzag};
use super::context::{TOKEN_COUNT, value_of};

/// log2 of the number of states.
pub(crate) const STATE_LOG: u32 = 11;
/// Number of states, and sum of the frequencies of a table.
pub(crate) const STATE_COUNT: usize = 1 << STATE_LOG;
/// The distance of states that are given to tokens one after the other.
const STATE_STEP: usize = (STATE_COUNT >> 1) + (STATE_COUNT >> 3) + 3;
/// Tokens that leave more bits open are looked up once more.
const OPEN_FAST_MAX: u32 = 28;
/// In [`State::open`]: the token leaves more bits open than fit; `least` is the token.
pub(crate) const OPEN_MANY: u8 = 255;

/// Frequencies of tokens, of which [`STATE_COUNT`] is the sum.
pub(crate) type Frequencies = Vec<u16>;

/// What a decoder does in a state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct State {
    /// The least value of the token.
    pub(crate) least: u32,
    /// The next state, but for bits to add.
    pub(crate) base: u16,
    /// The number of bits to add to it.
    pub(crate) bits: u8,
    /// The number of bits of the value that the token leaves open.
    pub(crate) open: u8,
}

/// The token of each state.
fn spread(frequencies: &[u16]) -> Vec<u8> {
    let mut tokens = vec![0; STATE_COUNT];
    let mut at = 0;
    for (token, &frequency) in frequencies.iter().enumerate() {
        for _ in 0..frequency {
            tokens[at] = token as u8;
            at = (at + STATE_STEP) % STATE_COUNT;
        }
    }
    tokens
}

/// The states of a decoder. The sum of the frequencies is right.
pub(crate) fn decoder_states(frequencies: &[u16]) -> Box<[State; STATE_COUNT]> {
    let mut next = [0u32; TOKEN_COUNT];
    for (next, &frequency) in next.iter_mut().zip(frequencies) {
        *next = u32::from(frequency);
    }
    let mut states = Box::new([State::default(); STATE_COUNT]);
    for (state, token) in states.iter_mut().zip(spread(frequencies)) {
        let number = next[usize::from(token)];
        next[usize::from(token)] += 1;
        let bits = STATE_LOG - number.ilog2();
        let (least, open) = value_of(token);
        let is_fast = open <= OPEN_FAST_MAX;
        *state = State {
            least: if is_fast { least as u32 } else { u32::from(token) },
            base: ((number << bits) - STATE_COUNT as u32) as u16,
            bits: bits as u8,
            open: if is_fast { open as u8 } else { OPEN_MANY },
        };
    }
    states
}

/// The states of an encoder.
#[derive(Debug)]
pub(crate) struct EncoderStates {
    frequencies: Frequencies,
    /// Of each token, the first of its places in `next`.
    first: Vec<u16>,
    /// States, by token and number.
    next: Vec<u16>,
}

impl EncoderStates {
    pub(crate) fn new(frequencies: Frequencies) -> Self {
        let mut first = Vec::with_capacity(frequencies.len());
        let mut sum = 0;
        for &frequency in &frequencies {
            first.push(sum);
            sum += frequency;
        }
        let (mut next, mut places) = (vec![0; STATE_COUNT], first.clone());
        for (state, token) in spread(&frequencies).into_iter().enumerate() {
            let place = &mut places[usize::from(token)];
            next[usize::from(*place)] = state as u16;
            *place += 1;
        }
        Self { frequencies, first, next }
    }

    /// Encodes a token before what `state` stands for. Returns the bits, and how many they are.
    #[inline(always)]
    pub(crate) fn encode(&self, state: &mut u16, token: u8) -> (u16, u32) {
        let frequency = u32::from(self.frequencies[usize::from(token)]);
        let number = u32::from(*state) + STATE_COUNT as u32;
        // The frequency is at least 1, as the token occurs.
        let mut bits = number.ilog2() - frequency.ilog2();
        if number >> bits < frequency {
            bits -= 1;
        }
        let place = u32::from(self.first[usize::from(token)]) + (number >> bits) - frequency;
        *state = self.next[place as usize];
        ((number & ((1 << bits) - 1)) as u16, bits)
    }
}

/// The order of the code of a frequency after another one.
fn order_after(before: u16) -> u32 {
    (16 - before.leading_zeros()) / 2
}

pub(crate) fn write(frequencies: &[u16], out: &mut BitWriter) {
    out.bits(frequencies.len() as u64 - 1, 8);
    let mut before = 0;
    for &frequency in frequencies {
        let step = i64::from(frequency) - i64::from(before);
        out.golomb(zigzag(step), order_after(before));
        before = frequency;
    }
}

/// Bits that [`write`] needs.
pub(crate) fn written_len(frequencies: &[u16]) -> u32 {
    let mut before = 0;
    let len = |&frequency: &u16| {
        let step = i64::from(frequency) - i64::from(before);
        let len = golomb_len(zigzag(step), order_after(before));
        before = frequency;
        len
    };
    8 + frequencies.iter().map(len).sum::<u32>()
}

/// Returns nothing if the frequencies are damaged.
pub(crate) fn read(reader: &mut BitReader<'_>) -> Option<Frequencies> {
    let count = reader.bits(8) + 1;
    let mut frequencies = Frequencies::with_capacity(count as usize);
    let (mut before, mut left) = (0u16, STATE_COUNT as u16);
    for _ in 0..count {
        let step = unzigzag(reader.golomb(order_after(before))?);
        before = u16::try_from(i64::from(before) + step).ok()?;
        left = left.checked_sub(before)?;
        frequencies.push(before);
    }
    (left == 0).then_some(frequencies)
}

/// Scales counts, not all of which are zero, to a sum of [`STATE_COUNT`]. A token that occurs keeps
/// a frequency above zero.
pub(crate) fn normalized(counts: &[u32]) -> Frequencies {
    let len = counts.iter().rposition(|&count| count > 0).map_or(1, |last| last + 1);
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum::<u64>().max(1);
    let mut left = STATE_COUNT as i64;
    let mut frequencies: Vec<i64> = counts[..len]
        .iter()
        .map(|&count| {
            let scaled = (u64::from(count) * STATE_COUNT as u64 + total / 2) / total;
            let frequency = if count > 0 { (scaled as i64).max(1) } else { 0 };
            left -= frequency;
            frequency
        })
        .collect();
    // The most frequent tokens lose or gain the least by one more or less.
    while left != 0 {
        let step = left.signum();
        let loss = |token: usize, frequency: i64| {
            // The share of the token's count that one step is, in either direction.
            u64::from(counts[token]) * (1 << 20) / (frequency as u64).max(1)
        };
        let tokens = frequencies.iter().enumerate().filter(|(_, f)| **f > i64::from(step < 0));
        let best = if step > 0 {
            tokens.max_by_key(|&(token, &frequency)| loss(token, frequency)).map(|(token, _)| token)
        } else {
            tokens.min_by_key(|&(token, &frequency)| loss(token, frequency)).map(|(token, _)| token)
        };
        let Some(best) = best else { break };
        frequencies[best] += step;
        left -= step;
    }
    frequencies.into_iter().map(|frequency| frequency as u16).collect()
}
