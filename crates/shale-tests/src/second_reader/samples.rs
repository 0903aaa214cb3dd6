//! The filter of samples, undone as chapter 9.4 of the specification says, sample by sample.

use super::lines::varint;

/// What is before the payload, and the payload.
pub struct Samples<'a> {
    width: usize,
    channel_count: usize,
    ways: u8,
    block_len: usize,
    /// Bytes before the samples.
    pub head_len: usize,
    group_count: usize,
    row_len: usize,
    payload: &'a [u8],
    /// The codec's bytes.
    pub rest: &'a [u8],
}

/// Splits the stored bytes of a frame.
pub fn split(stored: &[u8]) -> Option<Samples<'_>> {
    let &[width, channel_count, ways, block_log, ..] = stored else { return None };
    let mut at = 4;
    let mut number = || usize::try_from(varint(stored, &mut at)?).ok();
    let (head_len, group_count, row_len) = (number()?, number()?, number()?);
    let payload_len = number()?;
    let (payload, rest) = stored[at..].split_at_checked(payload_len)?;
    let right = matches!(width, 1..=4 | 8)
        && matches!(channel_count, 1..=16)
        && ways < 6
        && matches!(block_log, 8..=16)
        && group_count > 0
        && row_len <= group_count;
    right.then_some(Samples {
        width: width.into(),
        channel_count: channel_count.into(),
        ways,
        block_len: 1 << block_log,
        head_len,
        group_count,
        row_len,
        payload,
        rest,
    })
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn bits(&mut self, count: u32) -> Option<u64> {
        let mut value = 0;
        for place in 0..count {
            let bit = self.bytes.get(self.at / 8)? >> (self.at % 8) & 1;
            value |= u64::from(bit) << place;
            self.at += 1;
        }
        Some(value)
    }

    fn golomb(&mut self, k: u32) -> Option<u64> {
        let mut zeroes = 0;
        while self.bits(1)? == 0 {
            zeroes += 1;
        }
        (zeroes <= 32).then_some((((1 << zeroes) - 1) << k) + self.bits(k + zeroes)?)
    }
}

fn signed(value: u64) -> i128 {
    let value = i128::from(value);
    if value % 2 == 0 { value / 2 } else { -(value + 1) / 2 }
}

#[derive(Clone, Default)]
struct Predictor {
    own: Vec<i128>,
    other: Vec<i128>,
    other_channel: usize,
    row: Vec<i128>,
    shift: u64,
    bias: i128,
}

/// Token and number of every state.
type Table = Vec<(u64, u64)>;

fn table(bits: &mut Bits<'_>) -> Option<Table> {
    let mut frequencies = Vec::new();
    let mut before = 0i128;
    for _ in 0..bits.bits(8)? + 1 {
        let digits = if before > 0 { before.ilog2() + 1 } else { 0 };
        before += signed(bits.golomb(digits / 2)?);
        if !(0..=2048).contains(&before) {
            return None;
        }
        frequencies.push(before as u64);
    }
    if frequencies.iter().sum::<u64>() != 2048 {
        return None;
    }
    let mut table = vec![(0, 0); 2048];
    let mut state = 0;
    for (token, &frequency) in frequencies.iter().enumerate() {
        for _ in 0..frequency {
            table[state].0 = token as u64;
            state = (state + 1283) % 2048;
        }
    }
    let mut numbers = frequencies;
    for (token, number) in &mut table {
        *number = numbers[*token as usize];
        numbers[*token as usize] += 1;
    }
    Some(table)
}

impl Samples<'_> {
    /// Bytes of the samples.
    pub fn byte_count(&self) -> usize {
        self.group_count * self.channel_count * self.width
    }

    /// The bytes of the samples.
    pub fn undo(&self) -> Option<Vec<u8>> {
        let mut bits = Bits { bytes: self.payload, at: 0 };
        let whole_bits = 8 * self.width as u32;
        let mut unused = Vec::new();
        for _ in 0..self.channel_count {
            unused.push(bits.bits(6).filter(|unused| *unused < u64::from(whole_bits))? as u32);
        }
        let (mut tables, mut ends) = (Vec::new(), Vec::<u64>::new());
        for _ in 0..bits.bits(5)? + 1 {
            let end = bits.bits(7)?;
            if ends.last().is_some_and(|last| end <= *last) {
                return None;
            }
            ends.push(end);
            tables.push(table(&mut bits)?);
        }
        if ends.last() != Some(&127) {
            return None;
        }
        let mut states = [0; 4];
        for state in &mut states {
            *state = bits.bits(11)? as usize;
        }
        let mut energies = vec![0u64; self.channel_count];
        let mut predictors = vec![Predictor::default(); self.channel_count];
        let mut samples = vec![Vec::<i128>::new(); self.channel_count];
        let mut start = 0;
        while start < self.group_count {
            let len = self.block_len.min(self.group_count - start);
            for channel in 0..self.channel_count {
                if bits.bits(1)? == 1 {
                    predictors[channel] = self.predictor(&mut bits, channel)?;
                }
                let energy = &mut energies[channel];
                let (mut sum, mut context) = (0u64, 0);
                for n in 0..len {
                    if n % 8 == 0 {
                        if n > 0 {
                            *energy = (*energy - *energy / 4).saturating_add(sum);
                        }
                        sum = 0;
                        context = match *energy {
                            e @ (0 | 1) => e,
                            e => u64::from(2 * e.ilog2()) + (e >> (e.ilog2() - 1) & 1),
                        };
                    }
                    let low = (context / 2).saturating_sub(6);
                    let table = ends.iter().position(|end| context <= *end)?;
                    let state = &mut states[n % 8 % 4];
                    let (token, number) = tables[table][*state];
                    let taken = 11 - number.ilog2();
                    *state = ((number << taken) - 2048 + bits.bits(taken)?) as usize;
                    let (value, open) = match token {
                        0..16 => (token, 0),
                        _ => ((4 + token % 4) << (token / 4 - 2), token / 4 - 2),
                    };
                    if open + low > 64 || u128::from(value) << low >= 1 << 64 {
                        return None;
                    }
                    let value = (value << low) + bits.bits((open + low) as u32)?;
                    sum = sum.saturating_add(signed(value).unsigned_abs() as u64);
                    let predicted = self.predict(&predictors[channel], &samples, channel);
                    let sample_bits = whole_bits - unused[channel];
                    let sum = predicted + signed(value);
                    let shifted = 128 - sample_bits;
                    samples[channel].push(sum << shifted >> shifted);
                }
                *energy = (*energy - *energy / 4).saturating_add(sum);
            }
            start += len;
        }
        let rest = self.payload.len() * 8 - bits.at;
        if states != [0; 4] || rest >= 8 || bits.bits(rest as u32)? != 0 {
            return None;
        }
        let mut out = Vec::new();
        #[allow(clippy::needless_range_loop)] // Two indices, the outer one second.
        for group in 0..self.group_count {
            for channel in 0..self.channel_count {
                let mut value = samples[channel][group] << unused[channel];
                let least = -(1i128 << (whole_bits - 1));
                match self.ways >> 1 {
                    1 => value -= least,
                    2 if value < 0 && value != least => value = least - value,
                    _ => {}
                }
                let bytes = value.to_le_bytes();
                let mut bytes = bytes[..self.width].to_vec();
                if self.ways & 1 == 1 {
                    bytes.reverse();
                }
                out.extend_from_slice(&bytes);
            }
        }
        Some(out)
    }

    fn predictor(&self, bits: &mut Bits<'_>, channel: usize) -> Option<Predictor> {
        let mut predictor = Predictor::default();
        let (own_count, mut other_count, mut row_count) = (bits.bits(6)?, 0, 0);
        if channel > 0 {
            other_count = bits.bits(5)?;
            predictor.other_channel = bits.bits(4)? as usize;
            if predictor.other_channel >= channel {
                return None;
            }
        }
        if self.row_len > 0 {
            let u = bits.bits(3)?;
            row_count = (2 * u).saturating_sub(1);
            if u > 0 && u > self.row_len as u64 {
                return None;
            }
        }
        if own_count > 32 || other_count > 16 {
            return None;
        }
        predictor.shift = bits.bits(4)?;
        let k = bits.bits(4)? as u32;
        let mut factors = |count: u64| -> Option<Vec<i128>> {
            let factor = |_| {
                let factor = signed(bits.golomb(k)?);
                (-32_768..32_768).contains(&factor).then_some(factor)
            };
            (0..count).map(factor).collect()
        };
        (predictor.own, predictor.other) = (factors(own_count)?, factors(other_count)?);
        predictor.row = factors(row_count)?;
        let len = bits.bits(6)? as u32;
        predictor.bias = signed(bits.bits(len)?);
        Some(predictor)
    }

    /// The prediction of the next sample of a channel.
    fn predict(&self, predictor: &Predictor, samples: &[Vec<i128>], channel: usize) -> i128 {
        let n = samples[channel].len() as i128;
        let sample = |channel: usize, at: i128| match usize::try_from(at) {
            Ok(at) => samples[channel][at],
            Err(_) => 0,
        };
        let mut sum = predictor.bias;
        for (i, factor) in (0..).zip(&predictor.own) {
            sum += factor * sample(channel, n - 1 - i);
        }
        for (i, factor) in (0..).zip(&predictor.other) {
            sum += factor * sample(predictor.other_channel, n - i);
        }
        let (rows, reach) = (self.row_len as i128, predictor.row.len() as i128 / 2);
        for (i, factor) in (0..).zip(&predictor.row) {
            sum += factor * sample(channel, n - rows - reach + i);
        }
        i128::from(sum as i64 >> predictor.shift)
    }
}
