//! The values of slots as codes: finds the mode with the cheapest codes, and writes them.

use super::{CODE_LITERAL, CODE_SAME, MODE_NATURAL, MODE_PLACE, number, push_varint};

const MODE_COUNT: usize = (MODE_PLACE | MODE_NATURAL) as usize + 1;
/// What a compressor leaves of a code that is equal to the one before, roughly.
const COST_AGAIN: u32 = 1;
/// What it leaves of each byte of another code, in the same unit.
const COST_BYTE: u32 = 8;

/// All slots of a form. Takes each value twice, line by line: to weigh modes, then to code it.
pub(super) struct Columns<'a> {
    columns: Vec<Column<'a>>,
    /// The last value of each place.
    places: Vec<&'a [u8]>,
}

struct Column<'a> {
    /// Slots before it in its template.
    place: u32,
    /// By mode, until one is chosen.
    weights: [Weight<'a>; MODE_COUNT],
    mode: u8,
    last: &'a [u8],
    codes: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Weight<'a> {
    cost: u32,
    last: Code<'a>,
}

/// How a value is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code<'a> {
    Same,
    Literal(&'a [u8]),
    Step(i64),
}

impl<'a> Columns<'a> {
    /// Prepares for slots with these places, in the order of templates.
    pub(super) fn new(places: Vec<u32>) -> Self {
        let place_count = places.iter().max().map_or(0, |&last| last as usize + 1);
        let weights = [Weight { cost: 0, last: Code::Literal(&[]) }; MODE_COUNT];
        let column = |place| Column { place, weights, mode: 0, last: &[], codes: Vec::new() };
        let columns = places.into_iter().map(column).collect();
        Self { columns, places: vec![&[]; place_count] }
    }

    /// Weighs the values of the next line, whose first slot is `first`.
    pub(super) fn weigh(&mut self, first: usize, values: impl Iterator<Item = &'a [u8]>) {
        self.each(first, values, |column, value, place| {
            // Most values do not change, whatever they are compared with.
            let is_same = value == column.last && value == place;
            for (mode, weight) in (0..).zip(&mut column.weights) {
                if is_same && weight.last == Code::Same {
                    weight.cost = weight.cost.saturating_add(COST_AGAIN);
                    continue;
                }
                let code = Code::of(value, column.last, place, mode);
                let cost = if code == weight.last { COST_AGAIN } else { COST_BYTE * code.len() };
                *weight = Weight { cost: weight.cost.saturating_add(cost), last: code };
            }
        });
    }

    /// Chooses the cheapest mode of each slot, the first of equal ones, and writes the modes.
    pub(super) fn choose(&mut self, bytes: &mut Vec<u8>) {
        for column in &mut self.columns {
            let modes = (0..).zip(&column.weights);
            column.mode = modes.min_by_key(|(_, weight)| weight.cost).map_or(0, |(mode, _)| mode);
            column.last = &[];
            bytes.push(column.mode);
        }
        self.places.fill(&[]);
    }

    /// Codes the values of the next line, whose first slot is `first`.
    pub(super) fn push(&mut self, first: usize, values: impl Iterator<Item = &'a [u8]>) {
        self.each(first, values, |column, value, place| {
            Code::of(value, column.last, place, column.mode).write(&mut column.codes);
        });
    }

    /// Passes each value to its column, with the last one of its place, and remembers it in both.
    fn each(
        &mut self,
        first: usize,
        values: impl Iterator<Item = &'a [u8]>,
        mut show: impl FnMut(&mut Column<'a>, &'a [u8], &'a [u8]),
    ) {
        let columns = self.columns[first..].iter_mut();
        for ((value, column), place) in values.zip(columns).zip(&mut self.places) {
            show(column, value, place);
            column.last = value;
            *place = value;
        }
    }

    /// Writes all codes, place by place: values of one place are often of one kind.
    pub(super) fn write(mut self, bytes: &mut Vec<u8>) {
        self.columns.sort_by_key(|column| column.place);
        for column in &self.columns {
            bytes.extend_from_slice(&column.codes);
        }
    }
}

impl<'a> Code<'a> {
    fn of(value: &'a [u8], last: &[u8], place: &[u8], mode: u8) -> Self {
        let known = if mode & MODE_PLACE == 0 { last } else { place };
        if value == known {
            return Self::Same;
        }
        step(value, known, mode & MODE_NATURAL != 0).map_or(Self::Literal(value), Self::Step)
    }

    fn number(self) -> u64 {
        match self {
            Self::Same => CODE_SAME,
            Self::Literal(_) => CODE_LITERAL,
            Self::Step(step) => zigzag(step) + CODE_LITERAL,
        }
    }

    /// Bytes that it takes, roughly.
    fn len(self) -> u32 {
        let bits = u64::BITS - self.number().leading_zeros();
        let literal = if let Self::Literal(value) = self { 1 + value.len() as u32 } else { 0 };
        bits.div_ceil(7).max(1) + literal
    }

    fn write(self, out: &mut Vec<u8>) {
        push_varint(self.number(), out);
        if let Self::Literal(value) = self {
            push_varint(value.len() as u64, out);
            out.extend_from_slice(value);
        }
    }
}

/// The difference between two numbers, if the decoder gets the same digits from it.
fn step(value: &[u8], known: &[u8], is_natural: bool) -> Option<i64> {
    let is_alike =
        if is_natural { value.len() == 1 || value[0] != b'0' } else { value.len() == known.len() };
    if !is_alike {
        return None;
    }
    // Both have at most 18 digits.
    let step = number(value)? as i64 - number(known)? as i64;
    // 007 and 7 are not the same value.
    (step != 0).then_some(step)
}

/// Maps -1, 1, -2, 2 to 1, 2, 3, 4.
fn zigzag(step: i64) -> u64 {
    ((step << 1) ^ (step >> 63)) as u64
}
