//! From samples to the payload.

use super::bits::{BitWriter, mask, zigzag};
use super::context::{
    CONTEXT_COUNT, RUN_LEN, TOKEN_COUNT, context_of, energy_after, low_bits_of, token_of,
};
use super::fit::{Reach, fit};
use super::predictor::{Channels, Predictor};
use super::shape::{Effort, STATES_AT_ONCE, SampleShape, TABLE_COUNT_MAX};
use super::tables::{
    EncoderStates, Frequencies, STATE_COUNT, STATE_LOG, normalized, write, written_len,
};
use super::words;

/// Residuals of a block of a channel.
struct Block {
    /// None if it is the one before of the channel.
    predictor: Option<Predictor>,
    channel: usize,
    /// Number of residuals.
    len: usize,
}

/// A logarithm to base 2, in parts of 1/256, of numbers up to [`STATE_COUNT`] and as many parts.
struct Logs([u16; STATE_COUNT + 1]);

impl Logs {
    fn new() -> Box<Logs> {
        let mut logs = Box::new(Logs([0; STATE_COUNT + 1]));
        for (number, log) in logs.0.iter_mut().enumerate().skip(1) {
            // One bit of the logarithm for each time that the square is at least 2.
            let whole = number.ilog2();
            let (mut square, mut bits) = ((number as u64) << (31 - whole), whole as u16);
            for _ in 0..8 {
                square = (square * square) >> 31;
                bits = bits << 1 | (square >> 32) as u16;
                let doubled = square >> 32;
                square >>= doubled;
            }
            *log = bits;
        }
        logs
    }

    /// Of a number of any size.
    fn of(&self, number: u64) -> u64 {
        let shift = (64 - number.leading_zeros()).saturating_sub(STATE_LOG);
        u64::from(self.0[(number >> shift) as usize]) + u64::from(shift) * 256
    }
}

/// Encodes whole groups as a payload.
pub(crate) fn encode(
    shape: SampleShape,
    row_len: usize,
    block_len: usize,
    effort: Effort,
    groups: &[u8],
) -> Option<Vec<u8>> {
    let count = usize::from(shape.channels);
    let group_count = groups.len() / shape.group_len();
    let mut channels = Channels::<i64>::new(count, group_count, row_len)?;
    words::split(shape, groups, &mut channels);
    let unused: Vec<u32> = (0..count).map(|channel| drop_unused(&mut channels, channel)).collect();
    let floats: Vec<f64> = channels.samples.iter().map(|&sample| sample as f64).collect();
    let logs = Logs::new();
    let bits = |channel: usize| shape.bits() - unused[channel];
    let mut blocks = Vec::new();
    let mut values = Vec::with_capacity(count * group_count);
    let mut before = vec![Predictor::default(); count];
    for from in (0..group_count).step_by(block_len) {
        let len = block_len.min(group_count - from);
        for (channel, before) in before.iter_mut().enumerate() {
            let chooser = Chooser {
                channels: &channels,
                floats: &floats,
                logs: &logs,
                channel,
                range: (from, len),
                bits: bits(channel),
            };
            let predictor = chooser.choose(before, effort);
            chooser.residuals(predictor.as_ref().unwrap_or(before), |value| {
                values.push(value);
            });
            if let Some(predictor) = &predictor {
                before.clone_from(predictor);
            }
            blocks.push(Block { predictor, channel, len });
        }
    }
    let contexts = contexts_of(&blocks, count, &values);
    let tables = Tables::of(&logs, &blocks, &contexts, &values);
    let mut out = BitWriter::default();
    for &unused in &unused {
        out.bits(unused.into(), 6);
    }
    tables.write(&mut out);
    // From back to front, as a decoder's state is made of what comes after it.
    let mut states = [0; STATES_AT_ONCE];
    let mut state_bits = vec![0u16; values.len()];
    let mut end = values.len();
    let mut run = contexts.len();
    for block in blocks.iter().rev() {
        let start = end - block.len;
        for from in (start..end).step_by(RUN_LEN).rev() {
            run -= 1;
            let context = usize::from(contexts[run]);
            let low_bits = low_bits_of(context);
            let table = &tables.encoders[usize::from(tables.of_context[context])];
            for at in (from..(from + RUN_LEN).min(end)).rev() {
                let (token, _) = token_of(values[at] >> low_bits);
                let state = &mut states[(at - from) % STATES_AT_ONCE];
                let (bits, len) = table.encode(state, token);
                state_bits[at] = bits | (len as u16) << STATE_LOG;
            }
        }
        end = start;
    }
    for state in states {
        out.bits(state.into(), STATE_LOG);
    }
    let (mut at, mut run) = (0, 0);
    for block in &blocks {
        out.bits(block.predictor.is_some().into(), 1);
        if let Some(predictor) = &block.predictor {
            predictor.write(block.channel, row_len > 0, &mut out);
        }
        let end = at + block.len;
        while at < end {
            let low_bits = low_bits_of(usize::from(contexts[run]));
            run += 1;
            for _ in 0..RUN_LEN.min(end - at) {
                let bits = u64::from(state_bits[at] & (STATE_COUNT as u16 - 1));
                out.bits(bits, (state_bits[at] >> STATE_LOG).into());
                let (_, open) = token_of(values[at] >> low_bits);
                let open = open + low_bits;
                out.bits(if open < 64 { values[at] & mask(open) } else { values[at] }, open);
                at += 1;
            }
        }
    }
    Some(out.finish())
}

/// Drops the low bits that are zero in all samples of a channel. Returns their number.
fn drop_unused(channels: &mut Channels<i64>, channel: usize) -> u32 {
    let start = channels.start_of(channel);
    let samples = &mut channels.samples[start..][..channels.group_count];
    let used = samples.iter().fold(0, |used, sample| used | sample);
    let unused = if used == 0 { 0 } else { used.trailing_zeros() };
    if unused > 0 {
        samples.iter_mut().for_each(|sample| *sample >>= unused);
    }
    unused
}

/// Chooses the predictor of a block of a channel.
struct Chooser<'a> {
    channels: &'a Channels<i64>,
    floats: &'a [f64],
    logs: &'a Logs,
    channel: usize,
    range: (usize, usize),
    bits: u32,
}

impl Chooser<'_> {
    fn residuals(&self, predictor: &Predictor, mut each: impl FnMut(u64)) {
        let unused = 64 - self.bits;
        predictor.predict(self.channels, self.channel, self.range, |predicted, sample| {
            let residual = sample.wrapping_sub(predicted) << unused >> unused;
            each(zigzag(residual));
        });
    }

    /// Bits that the block needs, about, in parts of 1/256.
    fn cost(&self, predictor: &Predictor) -> u64 {
        let (mut cost, mut sum, mut count) = (0, 0u64, 0u64);
        self.residuals(predictor, |value| {
            sum = sum.saturating_add(value);
            count += 1;
            if count == RUN_LEN as u64 {
                cost += self.run_cost(sum, count);
                (sum, count) = (0, 0);
            }
        });
        cost + self.run_cost(sum, count)
    }

    /// The entropy of two-sided geometric residuals with this sum: log2(1 + e · mean) each.
    fn run_cost(&self, sum: u64, count: u64) -> u64 {
        if count == 0 {
            return 0;
        }
        // 348 / 128 is e.
        let (one, scaled) = (128 * count, (sum >> 1).saturating_mul(696));
        (self.logs.of(one.saturating_add(scaled)) - self.logs.of(one)) * count
    }

    /// Returns nothing if the predictor of the block before is as good.
    fn choose(&self, before: &Predictor, effort: Effort) -> Option<Predictor> {
        let mut best = (self.cost(before), None);
        let take = |predictor: Predictor, best: &mut (u64, Option<Predictor>)| {
            let cost = self.cost(&predictor) + u64::from(predictor.written_len()) * 256;
            if cost < best.0 {
                *best = (cost, Some(predictor));
            }
        };
        for own in [&[][..], &[1], &[2, -1], &[3, -3, 1]] {
            let predictor = Predictor { own: own.to_vec(), ..Predictor::default() };
            take(predictor, &mut best);
        }
        // Nothing is left to gain.
        if best.0 < self.range.1 as u64 {
            return best.1;
        }
        let row = (self.channels.row_len > 0).then_some(effort.row_reach);
        let row = row.filter(|reach| self.channels.row_len > *reach + 1);
        let own = effort.own_count_of(self.bits);
        let mut others = vec![None];
        if self.channel > 0 {
            others = vec![Some((0, effort.other_count))];
        }
        if self.channel > 1 {
            others.push(Some((self.channel - 1, effort.other_count)));
        }
        // Where the row before is not there yet, it is of no use.
        let rows = match row {
            Some(_) if self.range.0 < self.channels.row_len => vec![row, None],
            _ => vec![row],
        };
        let reaches = others.iter().flat_map(|&other| rows.iter().map(move |&row| (other, row)));
        for (other, row) in reaches {
            let reach = Reach { own, other, row };
            if let Some(predictor) =
                fit(self.channels, self.floats, self.channel, self.range, reach)
            {
                take(predictor, &mut best);
            }
        }
        best.1
    }
}

/// The context of every run of residuals, in their order.
fn contexts_of(blocks: &[Block], channel_count: usize, values: &[u64]) -> Vec<u8> {
    let mut energies = vec![0; channel_count];
    let mut contexts = Vec::with_capacity(values.len() / RUN_LEN + blocks.len());
    let mut rest = values;
    for block in blocks {
        let (of_block, after) = rest.split_at(block.len);
        rest = after;
        let energy = &mut energies[block.channel];
        for run in of_block.chunks(RUN_LEN) {
            contexts.push(context_of(*energy) as u8);
            let sum = run.iter().fold(0u64, |sum, v| sum.saturating_add((v >> 1) + (v & 1)));
            *energy = energy_after(*energy, sum);
        }
    }
    contexts
}

/// The tables of a frame.
struct Tables {
    frequencies: Vec<Frequencies>,
    encoders: Vec<EncoderStates>,
    /// For each table, the first context that it is not for.
    ends: Vec<usize>,
    of_context: [u8; CONTEXT_COUNT],
}

/// Contexts in a row that share a table.
struct Share {
    end: usize,
    counts: Vec<u32>,
    cost: u64,
}

impl Share {
    fn new(logs: &Logs, end: usize, counts: Vec<u32>) -> Share {
        let frequencies = normalized(&counts);
        let of_token = |(&count, &frequency): (&u32, &u16)| {
            u64::from(count) * (u64::from(STATE_LOG) * 256 - logs.of(frequency.into()))
        };
        let used = counts.iter().zip(&frequencies).filter(|(count, _)| **count > 0);
        let cost = used.map(of_token).sum::<u64>() + u64::from(written_len(&frequencies) + 7) * 256;
        Share { end, counts, cost }
    }

    fn with(&self, logs: &Logs, next: &Share) -> Share {
        let counts = self.counts.iter().zip(&next.counts).map(|(a, b)| a + b).collect();
        Share::new(logs, next.end, counts)
    }
}

impl Tables {
    fn of(logs: &Logs, blocks: &[Block], contexts: &[u8], values: &[u64]) -> Tables {
        let mut counts = vec![vec![0u32; TOKEN_COUNT]; CONTEXT_COUNT];
        let (mut at, mut run) = (0, 0);
        for block in blocks {
            let end = at + block.len;
            while at < end {
                let context = usize::from(contexts[run]);
                run += 1;
                let low_bits = low_bits_of(context);
                for value in &values[at..(at + RUN_LEN).min(end)] {
                    counts[context][usize::from(token_of(value >> low_bits).0)] += 1;
                }
                at = (at + RUN_LEN).min(end);
            }
        }
        let mut shares: Vec<Share> = Vec::new();
        for (context, counts) in counts.into_iter().enumerate() {
            if counts.iter().any(|&count| count > 0) {
                shares.push(Share::new(logs, context + 1, counts));
            }
        }
        // Joins neighbours as long as the tables cost more than they save.
        let mut joined: Vec<Share> =
            shares.windows(2).map(|pair| pair[0].with(logs, &pair[1])).collect();
        loop {
            let gain = |at: usize| {
                let apart = shares[at].cost + shares[at + 1].cost;
                apart as i64 - joined[at].cost as i64
            };
            let Some(best) = (0..joined.len()).max_by_key(|&at| gain(at)) else { break };
            if gain(best) < 0 && shares.len() <= TABLE_COUNT_MAX {
                break;
            }
            shares[best] = joined.remove(best);
            shares.remove(best + 1);
            if best > 0 {
                joined[best - 1] = shares[best - 1].with(logs, &shares[best]);
            }
            if best < joined.len() {
                joined[best] = shares[best].with(logs, &shares[best + 1]);
            }
        }
        if let Some(last) = shares.last_mut() {
            last.end = CONTEXT_COUNT;
        }
        let mut of_context = [0; CONTEXT_COUNT];
        let mut start = 0;
        for (table, share) in shares.iter().enumerate() {
            of_context[start..share.end].fill(table as u8);
            start = share.end;
        }
        let frequencies: Vec<_> = shares.iter().map(|share| normalized(&share.counts)).collect();
        let encoders = frequencies.iter().cloned().map(EncoderStates::new).collect();
        let ends = shares.iter().map(|share| share.end).collect();
        Tables { frequencies, encoders, ends, of_context }
    }

    fn write(&self, out: &mut BitWriter) {
        out.bits(self.ends.len() as u64 - 1, 5);
        for (frequencies, end) in self.frequencies.iter().zip(&self.ends) {
            out.bits(*end as u64 - 1, 7);
            write(frequencies, out);
        }
    }
}
