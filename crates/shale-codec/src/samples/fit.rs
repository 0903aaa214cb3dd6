//! Finds factors that predict the samples of a block well: least squares over all windows, of
//! which the samples that help little are left out.
//!
//! Only sums, products and quotients of 64-bit floats, in a fixed order: the same on every machine.
//! (Covariance method with updates along diagonals: Makhoul, "Linear prediction: a tutorial
//! review", 1975.)

use super::predictor::{Channels, OWN_COUNT_MAX, Predictor};

/// Lanes of a sum, so that it can use vectors.
const LANES: usize = 8;
/// A column that differs from a sum of others by less than this part of itself is left out.
const SINGULAR: f64 = 1e-11;
/// Bits that a factor costs, about.
const FACTOR_BITS: f64 = 11.0;

/// Base-2 logarithm with an error of at most 0.01.
pub(crate) fn log2(value: f64) -> f64 {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7FF) as f64 - 1023.0;
    let part = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    exponent + (part * (2.0 - part / 3.0) - 5.0 / 3.0)
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (ones, one_rest) = one.as_chunks::<LANES>();
    let (others, other_rest) = other.as_chunks::<LANES>();
    for (one, other) in ones.iter().zip(others) {
        for lane in 0..LANES {
            lanes[lane] += one[lane] * other[lane];
        }
    }
    let rest: f64 = one_rest.iter().zip(other_rest).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f64>() + rest
}

/// Windows that may take part.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reach {
    pub(crate) own: usize,
    /// Another channel, and how many of its samples.
    pub(crate) other: Option<(usize, usize)>,
    /// Samples of the row before, on either side of the one at the same place.
    pub(crate) row: Option<usize>,
}

/// A sample that takes part.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tap {
    One,
    Own(usize),
    Other(usize),
    Row(usize),
}

/// Consecutive samples: place of the newest in front of the block's first, and how many.
#[derive(Clone, Copy)]
struct Window {
    start: usize,
    count: usize,
    /// The first column of the window.
    column: usize,
}

/// Sums of products of all columns over a block. Column 0 is all ones.
struct Products {
    size: usize,
    sums: Vec<f64>,
}

impl Products {
    fn at(&self, one: usize, other: usize) -> f64 {
        self.sums[one * self.size + other]
    }

    fn set(&mut self, one: usize, other: usize, sum: f64) {
        self.sums[one * self.size + other] = sum;
        self.sums[other * self.size + one] = sum;
    }

    fn of(samples: &[f64], windows: &[Window], len: usize) -> Products {
        let size = windows.last().map_or(1, |window| window.column + window.count);
        let mut products = Products { size, sums: vec![0.0; size * size] };
        products.set(0, 0, len as f64);
        let column = |window: &Window, lag: usize| &samples[window.start - lag..][..len];
        for (index, one) in windows.iter().enumerate() {
            let mut sum: f64 = column(one, 0).iter().sum();
            for lag in 0..one.count {
                products.set(0, one.column + lag, sum);
                let at = one.start - lag;
                sum += samples[at - 1] - samples[at - 1 + len];
            }
            for other in &windows[index..] {
                let is_same = one.start == other.start;
                for lag in 0..other.count {
                    let sum = dot(column(one, 0), column(other, lag));
                    products.set(one.column, other.column + lag, sum);
                }
                for lag in 1..if is_same { 0 } else { one.count } {
                    let sum = dot(column(one, lag), column(other, 0));
                    products.set(one.column + lag, other.column, sum);
                }
                for i in 1..one.count {
                    for j in if is_same { i } else { 1 }..other.count {
                        let (a, b) = (one.start - i, other.start - j);
                        let sum = products.at(one.column + i - 1, other.column + j - 1)
                            + samples[a] * samples[b]
                            - samples[a + len] * samples[b + len];
                        products.set(one.column + i, other.column + j, sum);
                    }
                }
            }
        }
        products
    }
}

/// Predictors for the groups of `from..from + len` of a channel, the one that seems best first.
/// `samples` are those of `channels` as floats.
pub(crate) fn fit(
    channels: &Channels<i64>,
    samples: &[f64],
    channel: usize,
    (from, len): (usize, usize),
    reach: Reach,
) -> Option<Predictor> {
    let start = channels.start_of(channel) + from;
    // The samples to predict are those before them with a lag of 0.
    let own = Window { start, count: reach.own.min(OWN_COUNT_MAX) + 1, column: 1 };
    let mut windows = vec![own];
    let mut column = 1 + own.count;
    let mut order = vec![Tap::One];
    let mut others = (0..0).map(Tap::Other as fn(usize) -> Tap);
    let mut rows = Vec::new();
    let (mut other_column, mut row_column) = (0, 0);
    if let Some((other, count)) = reach.other {
        let start = channels.start_of(other) + from;
        windows.push(Window { start, count, column });
        other_column = column;
        column += count;
        others = (0..count).map(Tap::Other as fn(usize) -> Tap);
    }
    if let Some(reach) = reach.row {
        let start = start + reach - channels.row_len;
        windows.push(Window { start, count: 2 * reach + 1, column });
        row_column = column;
        rows.push(vec![Tap::Row(reach)]);
        rows.extend((1..=reach).map(|step| vec![Tap::Row(reach - step), Tap::Row(reach + step)]));
    }
    let mut rows = rows.into_iter();
    for lag in 1..own.count {
        order.push(Tap::Own(lag));
        order.extend(others.next());
        order.extend(rows.next().into_iter().flatten());
    }
    order.extend(others);
    order.extend(rows.flatten());
    let products = Products::of(samples, &windows, len);
    let column_of = |tap: Tap| match tap {
        Tap::One => 0,
        Tap::Own(lag) => 1 + lag,
        Tap::Other(lag) => other_column + lag,
        // The window goes back from the newest sample, which is the rightmost.
        Tap::Row(place) => row_column + place,
    };
    let columns: Vec<usize> = order.iter().map(|tap| column_of(*tap)).collect();
    let factors = solve(&products, 1, &columns, len)?;
    let mut best = Predictor::default();
    let used = |wanted: &dyn Fn(Tap) -> Option<usize>| {
        let of = |(tap, &factor): (&Tap, &f64)| wanted(*tap).map(|at| (at, factor));
        let found: Vec<_> = order.iter().zip(&factors).filter_map(of).collect();
        let count = found.iter().map(|(at, _)| at + 1).max().unwrap_or(0);
        let mut all = vec![0.0; count];
        found.into_iter().for_each(|(at, factor)| all[at] = factor);
        all
    };
    let own = used(&|tap| if let Tap::Own(lag) = tap { Some(lag - 1) } else { None });
    let other = used(&|tap| if let Tap::Other(lag) = tap { Some(lag) } else { None });
    let mut row = used(&|tap| if let Tap::Row(place) = tap { Some(place) } else { None });
    if let Some(reach) = reach.row
        && !row.is_empty()
    {
        row.resize(2 * reach + 1, 0.0);
        while row.len() > 1 && row[0] == 0.0 && row[row.len() - 1] == 0.0 {
            row.pop();
            row.remove(0);
        }
        // From left to right.
        row.reverse();
    }
    let largest = own.iter().chain(&other).chain(&row).fold(0.0f64, |max, f| max.max(f.abs()));
    if !largest.is_finite() || largest >= 32_000.0 {
        return None;
    }
    let mut shift = 14;
    while shift > 0 && largest * f64::from(1u32 << shift) > 32_000.0 {
        shift -= 1;
    }
    let scale = f64::from(1u32 << shift);
    // What rounding takes from one factor is given to the next.
    let mut carry = 0.0;
    let mut rounded = |factors: Vec<f64>| -> Vec<i16> {
        let round = |factor: f64| {
            let exact = factor * scale + carry;
            let rounded = exact.round().clamp(-32_768.0, 32_767.0);
            carry = exact - rounded;
            rounded as i16
        };
        factors.into_iter().map(round).collect()
    };
    best.own = rounded(own);
    best.other = rounded(other);
    best.row = rounded(row);
    best.other_channel = reach.other.map_or(0, |(other, _)| other);
    best.shift = shift;
    let bias = (factors[0] * scale).round();
    let half = 1i64 << shift >> 1;
    best.bias = if bias.abs() < 1e15 { bias as i64 + half } else { half };
    Some(best)
}

/// Solves for the factors of `columns` that predict the column `target`. Those after the ones that
/// pay are 0.
fn solve(products: &Products, target: usize, columns: &[usize], len: usize) -> Option<Vec<f64>> {
    let size = columns.len();
    let mut lower = vec![0.0; size * size];
    let (mut pivots, mut parts) = (vec![0.0f64; size], vec![0.0; size]);
    let mut error = products.at(target, target);
    let mut best = (f64::INFINITY, 0);
    for k in 0..size {
        for j in 0..k {
            let mut sum = products.at(columns[k], columns[j]);
            for i in 0..j {
                sum -= lower[k * size + i] * lower[j * size + i] * pivots[i];
            }
            lower[k * size + j] = if pivots[j] > 0.0 { sum / pivots[j] } else { 0.0 };
        }
        let own = products.at(columns[k], columns[k]);
        let (mut pivot, mut part) = (own, products.at(columns[k], target));
        for i in 0..k {
            pivot -= lower[k * size + i] * lower[k * size + i] * pivots[i];
            part -= lower[k * size + i] * pivots[i] * parts[i];
        }
        if pivot > own * SINGULAR {
            (pivots[k], parts[k]) = (pivot, part / pivot);
            error -= pivot * parts[k] * parts[k];
        }
        let mean = (error / len as f64).max(0.0) + 0.1;
        let cost = len as f64 / 2.0 * log2(mean) + FACTOR_BITS * k as f64;
        if cost < best.0 {
            best = (cost, k + 1);
        }
    }
    let mut factors = vec![0.0; size];
    for k in (0..best.1).rev() {
        let mut factor = parts[k];
        for j in k + 1..best.1 {
            factor -= lower[j * size + k] * factors[j];
        }
        factors[k] = if pivots[k] > 0.0 { factor } else { 0.0 };
    }
    factors.iter().all(|factor| factor.is_finite()).then_some(factors)
}
