//! The search for matches, as zlib does it.
//!
//! Positions with the same hash are chained, the newest first. The window is not moved: a position
//! that the encoder would have dropped is too far away to be used. Where it matters that the
//! encoder moved its window ([`Matcher::kept_from`]), the place is computed.

use crate::blocks::Blocks;
use crate::cut::InHand;
use crate::error::DeflateError;
use crate::model::{Effort, Encoder, Model, Strategy};
use crate::tables::{LOOKAHEAD_MIN, MATCH_MAX, MATCH_MIN, Token};

/// A match of this length and farther than `TOO_FAR` is not worth its bits.
const TOO_FAR: usize = 4096;

/// Finds the tokens of a range of bytes.
pub(crate) struct Matcher<'a> {
    /// Window, chunk and what follows.
    bytes: &'a [u8],
    /// Offset of `bytes` in the plain bytes of the stream.
    base: u64,
    model: Model,
    effort: Effort,
    distance_max: usize,
    /// Position + 1 of the newest string with each hash; 0 for none.
    head: Vec<u32>,
    /// The one before, by position modulo the window.
    prev: Vec<u32>,
    hash: Hash,
    probes_left: u64,
    probes_max: u64,
}

/// What a walk along a chain found.
struct Walk {
    /// Length and position of the longest match.
    len: usize,
    at: usize,
    /// What the walk counts for: one for each candidate, and one for each 16 bytes of a match.
    probes: u64,
}

/// How strings are hashed.
enum Hash {
    /// As zlib and GNU gzip do.
    Rolling { shift: u32, mask: u32 },
    /// As Chromium does: four bytes, multiplied.
    Product { mask: u32 },
}

impl Hash {
    /// The hash of three bytes, and of the one after them.
    #[inline]
    fn of(&self, [a, b, c]: [u8; 3], next: impl FnOnce() -> u8) -> usize {
        match *self {
            Self::Rolling { shift, mask } => {
                let hash = u32::from(a) << (2 * shift) ^ u32::from(b) << shift ^ u32::from(c);
                (hash & mask) as usize
            }
            Self::Product { mask } => {
                let four = u32::from_le_bytes([a, b, c, next()]);
                let product = four.wrapping_mul(66_521).wrapping_add(66_521);
                (product >> 16 & mask) as usize
            }
        }
    }
}

impl<'a> Matcher<'a> {
    /// A matcher over `bytes`, which begin at offset `base` of the stream.
    pub(crate) fn new(bytes: &'a [u8], base: u64, model: Model, probes_max: u64) -> Self {
        let hash_bits = model.hash_bits();
        let mask = (1 << hash_bits) - 1;
        let hash = match model.encoder {
            Encoder::Zlib | Encoder::Gzip => {
                Hash::Rolling { shift: hash_bits.div_ceil(MATCH_MIN as u32), mask }
            }
            Encoder::Chromium => Hash::Product { mask },
        };
        Self {
            bytes,
            base,
            model,
            effort: model.effort(),
            distance_max: model.distance_max(),
            head: vec![0; 1 << hash_bits],
            prev: vec![0; model.window_len()],
            hash,
            probes_left: probes_max,
            probes_max,
        }
    }

    /// Inserts the positions before `start`, as the encoder did. The fast search inserts only some:
    /// it is run again over the window, and has mostly come to the same tokens long before `start`.
    fn insert_window(&mut self, start: usize) -> Result<(), DeflateError> {
        if !self.effort.is_fast {
            let from = start.saturating_sub(self.model.window_len());
            (from..start).for_each(|at| {
                self.insert(at);
            });
            return Ok(());
        }
        let mut at = 0;
        while at < start {
            let first = self.insert(at);
            let mut len = MATCH_MIN - 1;
            if first > 0 && at + 1 - first <= self.distance_max {
                len = self.longest(at, first - 1, len)?.0;
            }
            if (MATCH_MIN..=self.effort.lazy).contains(&len) {
                (at + 1..start.min(at + len)).for_each(|at| {
                    self.insert(at);
                });
            }
            at += if len < MATCH_MIN { 1 } else { len };
        }
        Ok(())
    }

    /// Inserts the string at `at`. Returns the newest one with its hash before, plus 1, or 0.
    #[inline]
    fn insert(&mut self, at: usize) -> usize {
        let Some(&[a, b, c]) = self.bytes.get(at..at + MATCH_MIN) else { return 0 };
        let next = at + MATCH_MIN;
        let next = || self.bytes.get(next).copied().unwrap_or_else(|| self.stale(at, next));
        let hash = self.hash.of([a, b, c], next);
        let slot = &mut self.head[hash];
        let before = *slot;
        let mask = self.prev.len() - 1;
        self.prev[at & mask] = before;
        // Position 0 of a stream means "none" to zlib.
        *slot = if self.base == 0 && at == 0 { 0 } else { at as u32 + 1 };
        before as usize
    }

    /// The longest match at `at` that is longer than `longer_than`, in the chain from `first` on.
    /// Returns its length and position, or `longer_than` and `at`.
    fn longest(
        &mut self,
        at: usize,
        first: usize,
        longer_than: usize,
    ) -> Result<(usize, usize), DeflateError> {
        let bytes = self.bytes;
        let len_max = MATCH_MAX.min(bytes.len() - at);
        if len_max < MATCH_MAX && self.model.encoder == Encoder::Gzip {
            return self.longest_at_end(at, first, longer_than);
        }
        if longer_than >= len_max {
            return Ok((longer_than, at));
        }
        let scan = &bytes[at..at + len_max];
        let enough = self.effort.nice.min(len_max);
        let walk = self.walk(at, first, longer_than, enough, |candidate, best| {
            let other = &bytes[candidate..candidate + len_max];
            let may_be_longer = other[best] == scan[best]
                && other[best - 1] == scan[best - 1]
                && other[0] == scan[0];
            if may_be_longer { common_len(other, scan) } else { 0 }
        });
        self.spend(walk.probes)?;
        Ok((walk.len, walk.at))
    }

    /// As `longest`, for GNU gzip near the end of the stream: it compares on beyond the end, with
    /// two zero bytes and then what its window held a window before.
    fn longest_at_end(
        &mut self,
        at: usize,
        first: usize,
        longer_than: usize,
    ) -> Result<(usize, usize), DeflateError> {
        let end = self.bytes.len();
        let byte = |place: usize| match place {
            _ if place < end => self.bytes[place],
            _ if place >= end + 2 => self.stale(at, place),
            _ => 0,
        };
        let walk = self.walk(at, first, longer_than, self.effort.nice, |candidate, _| {
            (0..MATCH_MAX)
                .take_while(|&offset| byte(candidate + offset) == byte(at + offset))
                .count()
        });
        self.spend(walk.probes)?;
        Ok((walk.len.min(end - at), walk.at))
    }

    /// Goes along the chain from `first` on. `equal_len` returns how many bytes a candidate has in
    /// common with those at `at`, or less than the length given to it if they are not more than
    /// that. A match of `enough` bytes ends the search.
    #[inline]
    fn walk(
        &self,
        at: usize,
        first: usize,
        longer_than: usize,
        enough: usize,
        equal_len: impl Fn(usize, usize) -> usize,
    ) -> Walk {
        let mut chain = self.effort.chain;
        if longer_than >= self.effort.good {
            chain >>= 2;
        }
        // Positions are stored plus 1. Candidates after the first must be nearer than the farthest.
        let limit = if at > self.distance_max { at - self.distance_max + 1 } else { 0 };
        let mask = self.prev.len() - 1;
        let mut best = Walk { len: longer_than, at, probes: 0 };
        let mut candidate = first;
        loop {
            let len = equal_len(candidate, best.len);
            best.probes += 1 + (len / 16) as u64;
            if len > best.len {
                (best.len, best.at) = (len, candidate);
                if len >= enough {
                    return best;
                }
            }
            let next = self.prev[candidate & mask] as usize;
            if next <= limit {
                return best;
            }
            candidate = next - 1;
            chain -= 1;
            if chain == 0 {
                return best;
            }
        }
    }

    /// What the window of the encoder, when it had come to `at`, held at `place` after the end of
    /// the stream: what it held there before it was moved, or zeroes.
    fn stale(&self, at: usize, place: usize) -> u8 {
        if self.base + self.kept_from(at) as u64 == 0 {
            return 0;
        }
        let before = place.checked_sub(self.prev.len());
        before.and_then(|before| self.bytes.get(before)).copied().unwrap_or(0)
    }

    fn spend(&mut self, probes: u64) -> Result<(), DeflateError> {
        let left = self.probes_left.checked_sub(probes);
        self.probes_left = left.ok_or(DeflateError::TooManyProbes(self.probes_max))?;
        Ok(())
    }

    /// Where the window of the encoder began when it had come to `at`: bytes before were gone.
    fn kept_from(&self, at: usize) -> usize {
        let window = self.model.window_len() as u64;
        let at = self.base + at as u64;
        let fits = 2 * window - LOOKAHEAD_MIN as u64;
        let kept_from = at.saturating_sub(fits).div_ceil(window) * window;
        kept_from.saturating_sub(self.base) as usize
    }

    /// Finds tokens from `start` on, until the block that ends at `end`, or to the end of the
    /// stream if there is no such `end`.
    pub(crate) fn run(
        &mut self,
        blocks: &mut Blocks<'_>,
        start: usize,
        in_hand: Option<InHand>,
        end: Option<usize>,
    ) -> Result<(), DeflateError> {
        match self.model.strategy {
            Strategy::HuffmanOnly => return self.literals(blocks, start, end),
            Strategy::Rle => return self.runs(blocks, start, end),
            _ => self.insert_window(start)?,
        }
        match () {
            () if self.effort.is_fast => self.fast(blocks, start, end),
            () => self.lazy(blocks, start, in_hand, end),
        }
    }

    fn lazy(
        &mut self,
        blocks: &mut Blocks<'_>,
        start: usize,
        in_hand: Option<InHand>,
        end: Option<usize>,
    ) -> Result<(), DeflateError> {
        let bytes = self.bytes;
        let is_filtered = self.model.strategy == Strategy::Filtered;
        let mut at = start;
        let mut found = (MATCH_MIN - 1, start);
        // The byte before `at` waits: it becomes a literal if the match at `at` is longer.
        let mut waits = false;
        if let Some(in_hand) = in_hand {
            self.insert(start);
            let len = usize::from(in_hand.len);
            found = (
                len,
                start.checked_sub(usize::from(in_hand.distance)).ok_or(DeflateError::BadCut)?,
            );
            at += 1;
            waits = true;
        }
        while at < bytes.len() {
            if end.is_some_and(|end| at > end) {
                return Err(DeflateError::BadCut);
            }
            let first = self.insert(at);
            let before = found;
            found = (MATCH_MIN - 1, at);
            if first > 0 && before.0 < self.effort.lazy && at + 1 - first <= self.distance_max {
                let (len, from) = self.longest(at, first - 1, before.0)?;
                let is_poor =
                    len <= 5 && (is_filtered || (len == MATCH_MIN && at - from > TOO_FAR));
                if len > before.0 && !is_poor {
                    found = (len, from);
                }
            }
            if before.0 >= MATCH_MIN && found.0 <= before.0 {
                let token = Token::matched(before.0, at - 1 - before.1);
                let ends = blocks.push(token, at)?;
                let top = at;
                let next = at + before.0 - 1;
                for skipped in at + 1..next {
                    self.insert(skipped);
                }
                at = next;
                waits = false;
                found = (MATCH_MIN - 1, at);
                if ends {
                    blocks.end(bytes, at, self.kept_from(top), None, false)?;
                    if end == Some(at) {
                        return Ok(());
                    }
                }
                continue;
            }
            if waits && blocks.push(Token::literal(bytes[at - 1]), at)? {
                let in_hand = InHand { len: found.0 as u16, distance: (at - found.1) as u16 };
                blocks.end(bytes, at, self.kept_from(at), Some(in_hand), false)?;
                if end == Some(at) {
                    return Ok(());
                }
            }
            waits = true;
            at += 1;
        }
        if waits {
            blocks.push(Token::literal(bytes[at - 1]), at)?;
        }
        self.finish(blocks, end)
    }

    fn fast(
        &mut self,
        blocks: &mut Blocks<'_>,
        start: usize,
        end: Option<usize>,
    ) -> Result<(), DeflateError> {
        let bytes = self.bytes;
        let mut at = start;
        while at < bytes.len() {
            let top = at;
            let first = self.insert(at);
            let mut found = (MATCH_MIN - 1, at);
            if first > 0 && at + 1 - first <= self.distance_max {
                found = self.longest(at, first - 1, MATCH_MIN - 1)?;
            }
            let ends = if found.0 >= MATCH_MIN {
                let ends = blocks.push(Token::matched(found.0, at - found.1), at)?;
                if found.0 <= self.effort.lazy {
                    for skipped in at + 1..at + found.0 {
                        self.insert(skipped);
                    }
                }
                at += found.0;
                ends
            } else {
                at += 1;
                blocks.push(Token::literal(bytes[at - 1]), at - 1)?
            };
            if ends {
                blocks.end(bytes, at, self.kept_from(top), None, false)?;
                if end == Some(at) {
                    return Ok(());
                }
            }
            if end.is_some_and(|end| at > end) {
                return Err(DeflateError::BadCut);
            }
        }
        self.finish(blocks, end)
    }

    fn literals(
        &mut self,
        blocks: &mut Blocks<'_>,
        start: usize,
        end: Option<usize>,
    ) -> Result<(), DeflateError> {
        for at in start..self.bytes.len() {
            if blocks.push(Token::literal(self.bytes[at]), at)? {
                blocks.end(self.bytes, at + 1, self.kept_from(at), None, false)?;
                if end == Some(at + 1) {
                    return Ok(());
                }
            }
            if end.is_some_and(|end| at > end) {
                return Err(DeflateError::BadCut);
            }
        }
        self.finish(blocks, end)
    }

    fn runs(
        &mut self,
        blocks: &mut Blocks<'_>,
        start: usize,
        end: Option<usize>,
    ) -> Result<(), DeflateError> {
        let bytes = self.bytes;
        let mut at = start;
        while at < bytes.len() {
            let top = at;
            let mut len = 0;
            if at > 0 {
                let before = bytes[at - 1];
                let scan = &bytes[at..bytes.len().min(at + MATCH_MAX)];
                len = scan.iter().take_while(|&&byte| byte == before).count();
            }
            let ends = if len >= MATCH_MIN {
                let ends = blocks.push(Token::matched(len, 1), at)?;
                at += len;
                ends
            } else {
                at += 1;
                blocks.push(Token::literal(bytes[at - 1]), at - 1)?
            };
            if ends {
                blocks.end(bytes, at, self.kept_from(top), None, false)?;
                if end == Some(at) {
                    return Ok(());
                }
            }
            if end.is_some_and(|end| at > end) {
                return Err(DeflateError::BadCut);
            }
        }
        self.finish(blocks, end)
    }

    /// Ends the last block of the stream.
    fn finish(&self, blocks: &mut Blocks<'_>, end: Option<usize>) -> Result<(), DeflateError> {
        if end.is_some() {
            return Err(DeflateError::BadCut);
        }
        let len = self.bytes.len();
        blocks.end(self.bytes, len, self.kept_from(len), None, true)
    }
}

/// Number of equal bytes at the start of two slices of one length.
#[inline]
fn common_len(a: &[u8], b: &[u8]) -> usize {
    let (a_eights, _) = a.as_chunks::<8>();
    let (b_eights, _) = b.as_chunks::<8>();
    for (at, (x, y)) in a_eights.iter().zip(b_eights).enumerate() {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return at * 8 + (differ.trailing_zeros() / 8) as usize;
        }
    }
    let from = a_eights.len() * 8;
    from + a[from..].iter().zip(&b[from..]).take_while(|(x, y)| x == y).count()
}
