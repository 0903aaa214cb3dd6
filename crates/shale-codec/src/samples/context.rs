//! What the residuals before say of the next ones, and how residuals are split into a token, which
//! is coded by its frequency, and bits that are stored as they are.
//!
//! The *energy* of a channel is about 32 times the mean of its last residuals, without signs. Its
//! logarithm, in halves, is the *context* of the next eight residuals. A residual loses as many low
//! bits as leaves about six for its mean; what is left becomes a token.

/// Residuals that share a context.
pub(crate) const RUN_LEN: usize = 8;
/// Contexts.
pub(crate) const CONTEXT_COUNT: usize = 128;
/// Values that are tokens themselves; longer ones have four tokens for each number of bits.
const DIRECT_COUNT: u64 = 16;
/// Tokens.
pub(crate) const TOKEN_COUNT: usize = 256;

/// The context after residuals of this energy.
#[inline(always)]
pub(crate) fn context_of(energy: u64) -> usize {
    if energy < 2 {
        return energy as usize;
    }
    let log = energy.ilog2();
    (2 * log + (energy >> (log - 1) & 1) as u32) as usize
}

/// The low bits of a residual in this context that are no part of its token.
#[inline(always)]
pub(crate) fn low_bits_of(context: usize) -> u32 {
    ((context / 2) as u32).saturating_sub(6)
}

/// The energy after a run of residuals whose sum without signs is `sum`.
#[inline(always)]
pub(crate) fn energy_after(energy: u64, sum: u64) -> u64 {
    (energy - energy / 4).saturating_add(sum)
}

/// The token of a value, and the number of bits of the value that it leaves open.
#[inline(always)]
pub(crate) fn token_of(value: u64) -> (u8, u32) {
    if value < DIRECT_COUNT {
        return (value as u8, 0);
    }
    let open = value.ilog2() - 2;
    ((DIRECT_COUNT + u64::from(open - 2) * 4 + (value >> open & 3)) as u8, open)
}

/// The least value with this token, and the number of bits that it leaves open.
pub(crate) fn value_of(token: u8) -> (u64, u32) {
    let token = u64::from(token);
    if token < DIRECT_COUNT {
        return (token, 0);
    }
    let open = (token - DIRECT_COUNT) / 4 + 2;
    ((4 + token % 4) << open, open as u32)
}
