//! Predicts a sample of a channel as a sum of earlier ones, in integers.
//!
//! Three windows of samples take part: the last ones of the channel itself, those around the same
//! place in the row before, and the last ones of a channel that comes before it in the group, with
//! the one of the same group. The result is the same on every machine: products are summed up in
//! 64 bits, and wrap.

use super::bits::{BitReader, BitWriter, golomb_len, mask, unzigzag, zigzag};

/// Most samples of the channel itself.
pub(crate) const OWN_COUNT_MAX: usize = 32;
/// Most samples of another channel.
pub(crate) const OTHER_COUNT_MAX: usize = 16;
/// Most samples of the row before on either side.
pub(crate) const ROW_REACH_MAX: usize = 6;
/// Most of those together.
pub(crate) const ROW_COUNT_MAX: usize = 2 * ROW_REACH_MAX + 1;
/// Groups for which the windows that do not hold the last sample are summed up at a time.
const BATCH_LEN: usize = 256;

/// An integer that holds the samples of a channel.
pub(crate) trait Sample: Copy + Default {
    fn to_i64(self) -> i64;
    /// Takes the lowest bits.
    fn from_i64(value: i64) -> Self;
}

impl Sample for i32 {
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.into()
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        value as i32
    }
}

impl Sample for i64 {
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        value
    }
}

/// The samples of all channels, one after the other, each after zeroes that stand for what is
/// before the first sample.
#[derive(Debug)]
pub(crate) struct Channels<S> {
    pub(crate) samples: Vec<S>,
    pub(crate) group_count: usize,
    /// Zeroes before each channel.
    pub(crate) pad: usize,
    /// Groups of a row; 0 where there are no rows.
    pub(crate) row_len: usize,
}

impl<S: Sample> Channels<S> {
    /// Returns `None` if memory is exhausted.
    pub(crate) fn new(count: usize, group_count: usize, row_len: usize) -> Option<Self> {
        let pad =
            (OWN_COUNT_MAX + 1).max(if row_len > 0 { row_len + ROW_REACH_MAX + 1 } else { 0 });
        let len = count * (group_count + pad);
        let mut samples = Vec::new();
        samples.try_reserve_exact(len).ok()?;
        samples.resize(len, S::default());
        Some(Self { samples, group_count, pad, row_len })
    }

    /// Place of the first sample of a channel.
    #[inline(always)]
    pub(crate) fn start_of(&self, channel: usize) -> usize {
        channel * (self.group_count + self.pad) + self.pad
    }
}

/// A prediction of the samples of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Predictor {
    /// Factors of the samples before in the channel, the last one first.
    pub(crate) own: Vec<i16>,
    /// Factors of the samples of another channel, that of the same group first.
    pub(crate) other: Vec<i16>,
    pub(crate) other_channel: usize,
    /// Factors of the samples of the row before: an odd number, from left to right.
    pub(crate) row: Vec<i16>,
    pub(crate) bias: i64,
    pub(crate) shift: u32,
}

impl Predictor {
    fn factors(&self) -> impl Iterator<Item = i16> {
        self.own.iter().chain(&self.other).chain(&self.row).copied()
    }

    /// The order of the code that is the shortest for the factors, and the bits of all.
    fn order(&self) -> (u32, u32) {
        let len = |order| self.factors().map(|f| golomb_len(zigzag(f.into()), order)).sum::<u32>();
        let orders = (0..16).map(|order| (order, len(order)));
        orders.min_by_key(|&(_, len)| len).unwrap_or_default()
    }

    /// Bits that [`Self::write`] needs, about.
    pub(crate) fn written_len(&self) -> u32 {
        self.order().1 + 32 + 64 - zigzag(self.bias).leading_zeros()
    }

    pub(crate) fn write(&self, channel: usize, has_rows: bool, out: &mut BitWriter) {
        out.bits(self.own.len() as u64, 6);
        if channel > 0 {
            out.bits(self.other.len() as u64, 5);
            out.bits(self.other_channel as u64, 4);
        }
        if has_rows {
            out.bits(self.row.len().div_ceil(2) as u64, 3);
        }
        out.bits(self.shift.into(), 4);
        let (order, _) = self.order();
        out.bits(order.into(), 4);
        for factor in self.factors() {
            out.golomb(zigzag(factor.into()), order);
        }
        let bias = zigzag(self.bias);
        let len = 64 - bias.leading_zeros();
        out.bits(len.into(), 6);
        out.bits(bias, len);
    }

    /// Returns nothing if the predictor is not defined.
    pub(crate) fn read(
        reader: &mut BitReader<'_>,
        channel: usize,
        has_rows: bool,
    ) -> Option<Predictor> {
        let own_count = reader.bits(6) as usize;
        let (mut other_count, mut other_channel, mut row_count) = (0, 0, 0);
        if channel > 0 {
            other_count = reader.bits(5) as usize;
            other_channel = reader.bits(4) as usize;
        }
        if has_rows {
            row_count = (reader.bits(3) as usize * 2).saturating_sub(1);
        }
        if own_count > OWN_COUNT_MAX
            || other_count > OTHER_COUNT_MAX
            || (other_channel >= channel && channel > 0)
            || row_count > ROW_COUNT_MAX
        {
            return None;
        }
        let shift = reader.bits(4) as u32;
        let order = reader.bits(4) as u32;
        let mut factors = |count| {
            let factor = |_| i16::try_from(unzigzag(reader.golomb(order)?)).ok();
            (0..count).map(factor).collect::<Option<Vec<i16>>>()
        };
        let (own, other, row) = (factors(own_count)?, factors(other_count)?, factors(row_count)?);
        let len = reader.bits(6) as u32;
        let bias = unzigzag(reader.bits(len) & mask(len));
        Some(Predictor { own, other, other_channel, row, bias, shift })
    }

    /// Adds to `sums` the products of the windows that do not hold the last sample of the channel,
    /// for the groups from `group` on.
    fn add_far<S: Sample>(
        &self,
        channels: &Channels<S>,
        channel: usize,
        group: usize,
        sums: &mut [i64],
    ) {
        let mut add = |start: usize, factor: i16| {
            let factor = i64::from(factor);
            let samples = &channels.samples[start..][..sums.len()];
            for (sum, sample) in sums.iter_mut().zip(samples) {
                *sum = sum.wrapping_add(sample.to_i64().wrapping_mul(factor));
            }
        };
        for (lag, &factor) in self.other.iter().enumerate() {
            add(channels.start_of(self.other_channel) + group - lag, factor);
        }
        let reach = self.row.len() / 2;
        for (place, &factor) in self.row.iter().enumerate() {
            let start = channels.start_of(channel) + group + place;
            add(start - reach - channels.row_len, factor);
        }
    }

    /// Groups whose far windows hold none of each other's samples.
    fn batch_len<S>(&self, channels: &Channels<S>) -> usize {
        match self.row.len() {
            0 => BATCH_LEN,
            len => BATCH_LEN.min(channels.row_len - len / 2),
        }
    }

    /// Calls `each` with the prediction of every group of `from..from + len`, in order, where all
    /// samples are known.
    pub(crate) fn predict<S: Sample>(
        &self,
        channels: &Channels<S>,
        channel: usize,
        (from, len): (usize, usize),
        mut each: impl FnMut(i64, i64),
    ) {
        let mut sums = [0; BATCH_LEN];
        let mut done = 0;
        while done < len {
            let count = BATCH_LEN.min(len - done);
            let sums = &mut sums[..count];
            sums.fill(self.bias);
            self.add_far(channels, channel, from + done, sums);
            let start = channels.start_of(channel) + from + done;
            for (lag, &factor) in self.own.iter().enumerate() {
                let factor = i64::from(factor);
                let samples = &channels.samples[start - lag - 1..][..count];
                for (sum, sample) in sums.iter_mut().zip(samples) {
                    *sum = sum.wrapping_add(sample.to_i64().wrapping_mul(factor));
                }
            }
            for (sum, sample) in sums.iter().zip(&channels.samples[start..]) {
                each(*sum >> self.shift, sample.to_i64());
            }
            done += count;
        }
    }

    /// Turns the residuals at the groups of `from..from + len` into samples of `bits` bits.
    pub(crate) fn restore<S: Sample>(
        &self,
        channels: &mut Channels<S>,
        channel: usize,
        (from, len): (usize, usize),
        bits: u32,
    ) {
        let mut sums = [0; BATCH_LEN];
        let batch_len = self.batch_len(channels).max(1);
        let mut done = 0;
        while done < len {
            let count = batch_len.min(len - done);
            let sums = &mut sums[..count];
            sums.fill(self.bias);
            self.add_far(channels, channel, from + done, sums);
            let start = channels.start_of(channel) + from + done;
            let samples = &mut channels.samples[..start + count];
            let ways = (self.shift, 64 - bits);
            let own = &self.own;
            match own.len() {
                0 => restore_with::<S, 0>(samples, start, sums, own, ways),
                1 => restore_with::<S, 1>(samples, start, sums, own, ways),
                2 => restore_with::<S, 2>(samples, start, sums, own, ways),
                3 => restore_with::<S, 3>(samples, start, sums, own, ways),
                4 => restore_with::<S, 4>(samples, start, sums, own, ways),
                5..=6 => restore_with::<S, 6>(samples, start, sums, own, ways),
                7..=8 => restore_with::<S, 8>(samples, start, sums, own, ways),
                9..=10 => restore_with::<S, 10>(samples, start, sums, own, ways),
                11..=12 => restore_with::<S, 12>(samples, start, sums, own, ways),
                13..=16 => restore_with::<S, 16>(samples, start, sums, own, ways),
                17..=20 => restore_with::<S, 20>(samples, start, sums, own, ways),
                21..=24 => restore_with::<S, 24>(samples, start, sums, own, ways),
                _ => restore_with::<S, OWN_COUNT_MAX>(samples, start, sums, own, ways),
            }
            done += count;
        }
    }
}

/// Turns residuals at the end of `samples` into samples, with up to `N` factors.
#[inline(always)]
fn restore_with<S: Sample, const N: usize>(
    samples: &mut [S],
    start: usize,
    sums: &[i64],
    own: &[i16],
    (shift, unused): (u32, u32),
) {
    // In the order of the samples, so the last one last; a factor of 0 changes nothing.
    let mut factors = [0; N];
    for (factor, &own) in factors.iter_mut().rev().zip(own) {
        *factor = i64::from(own);
    }
    let samples = &mut samples[start - N..];
    // The last sample stays in a register, as everything waits for it.
    let mut last = if N > 0 { samples[N - 1].to_i64() } else { 0 };
    for (at, &sum) in sums.iter().enumerate() {
        let Some(window) = samples.get_mut(at..at + N + 1) else { return };
        let mut sum = sum;
        for place in 0..N.saturating_sub(1) {
            sum = sum.wrapping_add(window[place].to_i64().wrapping_mul(factors[place]));
        }
        if N > 0 {
            sum = sum.wrapping_add(last.wrapping_mul(factors[N - 1]));
        }
        let value = (sum >> shift).wrapping_add(window[N].to_i64());
        last = value << unused >> unused;
        window[N] = S::from_i64(last);
    }
}
