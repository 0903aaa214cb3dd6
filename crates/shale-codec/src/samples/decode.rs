//! From the payload to samples. The payload is not trusted.

use super::bits::{BitReader, WORD_BITS, mask, unzigzag};
use super::context::{CONTEXT_COUNT, RUN_LEN, context_of, energy_after, low_bits_of, value_of};
use super::predictor::{Channels, Predictor, Sample};
use super::shape::{CHANNEL_COUNT_MAX, Header, STATES_AT_ONCE, TABLE_COUNT_MAX};
use super::tables::{OPEN_MANY, STATE_COUNT, STATE_LOG, State, decoder_states, read};
use super::words;

/// Appends the samples of a payload to `out`.
pub(crate) fn decode(
    header: &Header,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    if header.shape.width == 8 {
        decode_as::<i64>(header, payload, out)
    } else {
        decode_as::<i32>(header, payload, out)
    }
}

/// The tables of a frame, and which context uses which.
struct Tables {
    all: Vec<Table>,
    of_context: [u8; CONTEXT_COUNT],
}

struct Table {
    states: Box<[State; STATE_COUNT]>,
    /// Most bits that a token takes.
    bits_max: u32,
}

impl Tables {
    fn read(reader: &mut BitReader<'_>) -> Option<Tables> {
        let count = reader.bits(5) as usize + 1;
        let mut of_context = [0; CONTEXT_COUNT];
        let mut all = Vec::with_capacity(count.min(TABLE_COUNT_MAX));
        let mut start = 0;
        for table in 0..count {
            let end = reader.bits(7) as usize + 1;
            if end <= start || reader.is_beyond_end() {
                return None;
            }
            of_context[start..end].fill(table as u8);
            start = end;
            let states = decoder_states(&read(reader)?);
            let bits = |state: &State| u32::from(state.bits) + u32::from(state.open);
            let bits_max = states.iter().map(bits).max().unwrap_or(0);
            all.push(Table { states, bits_max });
        }
        (start == CONTEXT_COUNT).then_some(Tables { all, of_context })
    }
}

/// What goes on from block to block in a channel.
struct ChannelState {
    unused: u32,
    energy: u64,
    predictor: Predictor,
}

fn decode_as<S: Sample>(
    header: &Header,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let shape = header.shape;
    let count = usize::from(shape.channels);
    let group_len = shape.group_len();
    let mut reader = BitReader::new(payload);
    let mut states: Vec<ChannelState> = Vec::with_capacity(CHANNEL_COUNT_MAX);
    for _ in 0..count {
        let unused = reader.bits(6) as u32;
        if unused >= shape.bits() {
            return Err("more bits are unused than there are");
        }
        states.push(ChannelState { unused, energy: 0, predictor: Predictor::default() });
    }
    let unused: Vec<u32> = states.iter().map(|state| state.unused).collect();
    let tables = Tables::read(&mut reader).ok_or("the tables are damaged")?;
    let mut coder = Coder { at: [0; STATES_AT_ONCE] };
    for state in &mut coder.at {
        *state = reader.bits(STATE_LOG) as u16;
    }
    let mut channels = Channels::<S>::new(count, header.group_count, header.row_len)
        .ok_or("there is no memory")?;
    let start = out.len();
    out.resize(start + header.group_count * group_len, 0);
    let mut from = 0;
    while from < header.group_count {
        let len = header.block_len().min(header.group_count - from);
        for (channel, state) in states.iter_mut().enumerate() {
            if reader.bits(1) == 1 {
                state.predictor = Predictor::read(&mut reader, channel, header.row_len > 0)
                    .filter(|predictor| predictor.row.len() / 2 < header.row_len.max(1))
                    .ok_or("a predictor is not defined")?;
            }
            let at = channels.start_of(channel) + from;
            let residuals = &mut channels.samples[at..at + len];
            if !coder.residuals(&mut reader, &tables, &mut state.energy, residuals) {
                return Err("a residual has too many bits");
            }
            if reader.is_beyond_end() {
                return Err("the residuals are truncated");
            }
            let bits = shape.bits() - state.unused;
            state.predictor.restore(&mut channels, channel, (from, len), bits);
        }
        let bytes = &mut out[start + from * group_len..][..len * group_len];
        words::join(shape, &channels, (from, len), &unused, bytes);
        from += len;
    }
    if coder.at != [0; STATES_AT_ONCE] || !reader.is_at_end() {
        return Err("the residuals do not end where their bytes end");
    }
    Ok(())
}

/// The states of the entropy coder, which take turns.
struct Coder {
    at: [u16; STATES_AT_ONCE],
}

impl Coder {
    /// Reads the residuals of a block. Returns `false` if one is damaged.
    fn residuals<S: Sample>(
        &mut self,
        reader: &mut BitReader<'_>,
        tables: &Tables,
        energy: &mut u64,
        out: &mut [S],
    ) -> bool {
        for run in out.chunks_mut(RUN_LEN) {
            let context = context_of(*energy);
            let low_bits = low_bits_of(context);
            let table = &tables.all[usize::from(tables.of_context[context])];
            let is_short = table.bits_max + low_bits <= WORD_BITS;
            let sum = match <&mut [S; RUN_LEN]>::try_from(&mut *run) {
                Ok(run) if is_short => self.short_run(reader, &table.states, low_bits, run),
                _ => match self.any_run(reader, &table.states, low_bits, run) {
                    Some(sum) => sum,
                    None => return false,
                },
            };
            *energy = energy_after(*energy, sum);
        }
        true
    }

    /// Reads a whole run of residuals none of which has many bits. Returns their sum without signs.
    #[inline(always)]
    fn short_run<S: Sample>(
        &mut self,
        reader: &mut BitReader<'_>,
        table: &[State; STATE_COUNT],
        low_bits: u32,
        run: &mut [S; RUN_LEN],
    ) -> u64 {
        let mut reader_now = reader.clone();
        let mut sum = 0;
        let mut next = |at: &mut u16, residual: &mut S| {
            let state = table[usize::from(*at) % STATE_COUNT];
            let word = reader_now.word();
            let bits = u32::from(state.bits);
            let open = u32::from(state.open) + low_bits;
            *at = state.base + (word & mask(bits)) as u16;
            reader_now.skip(bits + open);
            let value = (u64::from(state.least) << low_bits) + (word >> bits & mask(open));
            sum += (value >> 1) + (value & 1);
            *residual = S::from_i64(unzigzag(value));
        };
        let [mut a, mut b, mut c, mut d] = self.at;
        let [r0, r1, r2, r3, r4, r5, r6, r7] = run;
        next(&mut a, r0);
        next(&mut b, r1);
        next(&mut c, r2);
        next(&mut d, r3);
        next(&mut a, r4);
        next(&mut b, r5);
        next(&mut c, r6);
        next(&mut d, r7);
        self.at = [a, b, c, d];
        *reader = reader_now;
        sum
    }

    /// Reads any run of residuals. Returns their sum without signs.
    fn any_run<S: Sample>(
        &mut self,
        reader: &mut BitReader<'_>,
        table: &[State; STATE_COUNT],
        low_bits: u32,
        run: &mut [S],
    ) -> Option<u64> {
        let mut sum = 0u64;
        for (place, residual) in run.iter_mut().enumerate() {
            let at = &mut self.at[place % STATES_AT_ONCE];
            let state = table[usize::from(*at) % STATE_COUNT];
            *at = state.base + reader.bits(state.bits.into()) as u16;
            let value = long_value(reader, state, low_bits)?;
            sum = sum.saturating_add((value >> 1) + (value & 1));
            *residual = S::from_i64(unzigzag(value));
        }
        Some(sum)
    }
}

/// The value of a state, whatever number of bits it has.
fn long_value(reader: &mut BitReader<'_>, state: State, low_bits: u32) -> Option<u64> {
    let (least, open) = match state.open {
        OPEN_MANY => value_of(state.least as u8),
        open => (state.least.into(), open.into()),
    };
    let open = open + low_bits;
    if open > 64 || least.leading_zeros() < low_bits {
        return None;
    }
    Some((least << low_bits).wrapping_add(reader.bits(open)))
}
