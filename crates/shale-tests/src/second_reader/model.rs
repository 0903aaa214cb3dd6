//! Models of encoders, as chapter 9.3 of the specification says: plain bytes to a deflate stream.
//!
//! Nothing is tuned: chains are maps, codes are looked up by searching. `None` is a chunk that the
//! specification refuses.

use std::collections::HashMap;

/// Good, lazy, nice and chain of levels 1 to 9.
const EFFORTS: [[usize; 4]; 9] = [
    [4, 4, 8, 4],
    [4, 5, 16, 8],
    [4, 6, 32, 32],
    [4, 4, 16, 16],
    [8, 16, 32, 32],
    [8, 16, 128, 128],
    [8, 32, 128, 256],
    [32, 128, 258, 1024],
    [32, 258, 258, 4096],
];
const CHUNK_PROBES_MAX: usize = 33_554_432;
const CODE_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// An encoder and its settings.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    encoder: u64,
    level: usize,
    memory: usize,
    window_bits: usize,
    strategy: u64,
}

impl Model {
    /// The model of a number.
    pub fn of(number: u64) -> Option<Self> {
        let part = |shift: u32| (number >> shift & 15) as usize;
        let (level, memory, window_bits) = (part(8), part(12), part(16));
        let (encoder, strategy) = (number & 255, number >> 20);
        let fits = (1..=3).contains(&encoder)
            && (1..=9).contains(&level)
            && (1..=9).contains(&memory)
            && (9..=15).contains(&window_bits)
            && strategy <= 4;
        let is_gzip = encoder == 2;
        (fits && (!is_gzip || (memory, window_bits, strategy) == (8, 15, 0))).then_some(Self {
            encoder,
            level,
            memory,
            window_bits,
            strategy,
        })
    }

    /// Plain bytes before a chunk that it depends on.
    pub fn window_needed(self) -> u64 {
        if self.level <= 3 { 65_536 } else { 32_768 }
    }
}

/// First value and number of extra bits of each symbol of a length or a distance.
fn symbols(is_distance: bool) -> Vec<(usize, usize)> {
    let (first, count, each) = if is_distance { (1, 30, 2) } else { (3, 28, 4) };
    let (mut value, mut all) = (first, Vec::new());
    for symbol in 0..count {
        // The first two groups have no extra bits.
        let extra = (symbol / each as usize).saturating_sub(1);
        all.push((value, extra));
        value += 1 << extra;
    }
    if !is_distance {
        all.push((258, 0));
    }
    all
}

fn symbol_of(symbols: &[(usize, usize)], value: usize) -> usize {
    symbols.iter().rposition(|(first, _)| *first <= value).unwrap_or(0)
}

#[derive(Default)]
struct Bits {
    all: Vec<bool>,
}

impl Bits {
    fn put(&mut self, value: usize, count: usize) {
        self.all.extend((0..count).map(|bit| value >> bit & 1 == 1));
    }

    fn align(&mut self) {
        let len = self.all.len().next_multiple_of(8);
        self.all.resize(len, false);
    }

    fn whole_bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| (0..8).map(|bit| u8::from(bits[bit]) << bit).sum();
        self.all.chunks_exact(8).map(byte).collect()
    }
}

/// Lengths and codes of symbols.
struct Code {
    lens: Vec<usize>,
    codes: Vec<usize>,
    /// Last symbol with a count.
    last: usize,
    /// Bits of all symbols, extra bits included.
    cost: usize,
}

impl Code {
    fn of_counts(counts: &[usize], len_max: usize, extra: impl Fn(usize) -> usize) -> Self {
        let real = counts;
        let mut counts = counts.to_vec();
        let last_of = |counts: &[usize]| counts.iter().rposition(|count| *count > 0);
        while counts.iter().filter(|count| **count > 0).count() < 2 {
            let symbol = match last_of(&counts) {
                Some(last @ (0 | 1)) => last + 1,
                _ => 0,
            };
            counts[symbol] = 1;
        }
        let lens = lens(&counts, len_max);
        let cost = (0..real.len()).map(|s| real[s] * (lens[s] + extra(s))).sum();
        let last = last_of(&counts).unwrap_or(0);
        Self { codes: canonical(&lens), lens, last, cost }
    }

    fn fixed(lens: Vec<usize>) -> Self {
        Self { codes: canonical(&lens), last: lens.len() - 1, lens, cost: 0 }
    }

    fn put(&self, bits: &mut Bits, symbol: usize) {
        bits.put(self.codes[symbol], self.lens[symbol]);
    }
}

/// A node that is not joined yet: weight, height, number.
type Node = (usize, usize, usize);

fn is_before(a: Node, b: Node) -> bool {
    (a.0, a.1) <= (b.0, b.1)
}

/// Moves the node at `at` down; children of the node n are 2 n + 1 and 2 n + 2.
fn move_down(heap: &mut [Node], mut at: usize) {
    while 2 * at + 1 < heap.len() {
        let mut child = 2 * at + 1;
        if child + 1 < heap.len() && is_before(heap[child + 1], heap[child]) {
            child += 1;
        }
        if is_before(heap[at], heap[child]) {
            return;
        }
        heap.swap(at, child);
        at = child;
    }
}

fn lens(counts: &[usize], len_max: usize) -> Vec<usize> {
    let of_symbol = |(symbol, count): (usize, &usize)| (*count, 0, symbol);
    let mut heap: Vec<Node> =
        counts.iter().enumerate().filter(|(_, count)| **count > 0).map(of_symbol).collect();
    for at in (0..heap.len() / 2).rev() {
        move_down(&mut heap, at);
    }
    let (mut parents, mut taken) = (HashMap::new(), Vec::new());
    let mut number = counts.len();
    while heap.len() > 1 {
        let first = heap.swap_remove(0);
        move_down(&mut heap, 0);
        let second = heap[0];
        heap[0] = (first.0 + second.0, first.1.max(second.1) + 1, number);
        move_down(&mut heap, 0);
        for node in [first, second] {
            parents.insert(node.2, number);
            taken.push(node.2);
        }
        number += 1;
    }
    let mut depths = HashMap::from([(number - 1, 0)]);
    for &node in taken.iter().rev() {
        depths.insert(node, depths[&parents[&node]] + 1);
    }
    let too_long = taken.iter().filter(|node| depths[node] > len_max).count();
    let is_symbol = |node: &&usize| **node < counts.len();
    let mut of_len = vec![0; len_max + 1];
    for node in taken.iter().filter(is_symbol) {
        of_len[depths[node].min(len_max)] += 1;
    }
    for _ in 0..too_long / 2 {
        let longest = (1..len_max).rev().find(|len| of_len[*len] > 0).expect("a shorter code");
        of_len[longest] -= 1;
        of_len[longest + 1] += 2;
        of_len[len_max] -= 1;
    }
    let mut lens = vec![0; counts.len()];
    if too_long == 0 {
        taken.iter().filter(is_symbol).for_each(|node| lens[*node] = depths[node]);
        return lens;
    }
    let mut rarest_first = taken.iter().filter(is_symbol);
    for len in (1..=len_max).rev() {
        rarest_first.by_ref().take(of_len[len]).for_each(|node| lens[*node] = len);
    }
    lens
}

/// Codes of RFC 1951, 3.2.2, the first bit lowest.
fn canonical(lens: &[usize]) -> Vec<usize> {
    let (mut codes, mut code) = (vec![0; lens.len()], 0usize);
    for len in 1..16 {
        code <<= 1;
        for (symbol, _) in lens.iter().enumerate().filter(|(_, own)| **own == len) {
            codes[symbol] = (0..len).map(|bit| (code >> bit & 1) << (len - 1 - bit)).sum();
            code += 1;
        }
    }
    codes
}

/// Lengths of codes in runs: symbol, extra bits, how many.
fn runs_of(lens: &[usize]) -> Vec<(usize, usize, usize)> {
    let (mut runs, mut at) = (Vec::new(), 0);
    while at < lens.len() {
        let len = lens[at];
        let is_new = at == 0 || lens[at - 1] != len;
        let most = match (len, is_new) {
            (0, _) => 138,
            (_, true) => 7,
            (_, false) => 6,
        };
        let n = lens[at..].iter().take(most).take_while(|other| **other == len).count();
        match len {
            _ if n < if is_new && len > 0 { 4 } else { 3 } => {
                runs.extend(std::iter::repeat_n((len, 0, 0), n));
            }
            0 if n <= 10 => runs.push((17, n - 3, 3)),
            0 => runs.push((18, n - 11, 7)),
            _ => {
                runs.extend(is_new.then_some((len, 0, 0)));
                runs.push((16, n - 3 - usize::from(is_new), 2));
            }
        }
        at += n;
    }
    runs
}

/// A literal, or a match with its length and distance.
#[derive(Debug, Clone, Copy)]
enum Token {
    Literal(u8),
    Match(usize, usize),
}

/// What a chunk is rebuilt from.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'b> {
    /// Which encoder.
    pub model: Model,
    /// What it carried over.
    pub carried: u64,
    /// Plain bytes of the stream before the chunk.
    pub offset: u64,
    /// Window, plain bytes and what follows.
    pub data: &'b [u8],
    /// Where the chunk begins in them.
    pub start: usize,
    /// Where it ends if anything follows.
    pub end: Option<usize>,
}

struct Encoder<'b> {
    chunk: Chunk<'b>,
    /// Offset of the data in the plain bytes of the stream.
    base: usize,
    front: HashMap<usize, Option<usize>>,
    next: HashMap<usize, Option<usize>>,
    probes: usize,
    lengths: Vec<(usize, usize)>,
    distances: Vec<(usize, usize)>,
    tokens: Vec<Token>,
    block_start: usize,
    bits: Bits,
}

/// The bytes of a chunk.
pub fn rebuild(chunk: Chunk<'_>) -> Option<Vec<u8>> {
    let base = usize::try_from(chunk.offset).ok()?.checked_sub(chunk.start)?;
    let mut bits = Bits::default();
    bits.put((chunk.carried & 255) as usize, (chunk.carried >> 8 & 255) as usize);
    let mut encoder = Encoder {
        chunk,
        base,
        front: HashMap::new(),
        next: HashMap::new(),
        probes: 0,
        lengths: symbols(false),
        distances: symbols(true),
        tokens: Vec::new(),
        block_start: chunk.start,
        bits,
    };
    encoder.run()?;
    Some(encoder.bits.whole_bytes())
}

impl Encoder<'_> {
    fn effort(&self) -> [usize; 4] {
        EFFORTS[self.chunk.model.level - 1]
    }

    fn window_len(&self) -> usize {
        1 << self.chunk.model.window_bits
    }

    fn farthest(&self) -> usize {
        self.window_len() - 262
    }

    /// K(p), an offset in the stream.
    fn kept_from(&self, p: usize) -> usize {
        let len = self.window_len();
        (self.base + p).saturating_sub(2 * len - 262).div_ceil(len) * len
    }

    /// The byte at `place`, beyond the end too, when the encoder is at `p`.
    fn byte(&self, p: usize, place: usize) -> u8 {
        let data = self.chunk.data;
        match data.get(place) {
            Some(byte) => *byte,
            None if self.kept_from(p) == 0 => 0,
            None => data[place - self.window_len()],
        }
    }

    fn insert(&mut self, p: usize) -> Option<usize> {
        let memory = self.chunk.model.memory;
        let &[a, b, c] = self.chunk.data.get(p..p + 3)? else { return None };
        let [a, b, c] = [a, b, c].map(usize::from);
        let hash = if self.chunk.model.encoder == 3 {
            let d = usize::from(self.byte(p, p + 3));
            let h = 15.max(memory + 7);
            ((a + (b << 8) + (c << 16) + (d << 24)) * 66_521 + 66_521) % (1 << 32) / (1 << 16)
                % (1 << h)
        } else {
            let h = memory + 7;
            let s = h.div_ceil(3);
            ((a << (2 * s)) ^ (b << s) ^ c) % (1 << h)
        };
        let own = (self.base + p > 0).then_some(p);
        let before = self.front.insert(hash, own).flatten();
        self.next.insert(p, before);
        before
    }

    /// A first candidate that is near enough.
    fn near(&mut self, p: usize) -> Option<usize> {
        self.insert(p).filter(|first| p - first <= self.farthest())
    }

    /// Length and position of the longest match.
    fn longest(&mut self, p: usize, first: usize, n: usize) -> Option<(usize, usize)> {
        let [good, _, nice, chain] = self.effort();
        let left = self.chunk.data.len() - p;
        let is_beyond = self.chunk.model.encoder == 2 && left < 258;
        let most = if is_beyond { 258 } else { left.min(258) };
        if n >= most {
            return None;
        }
        let seen = |place: usize| match place.checked_sub(self.chunk.data.len()) {
            Some(0 | 1) => 0,
            _ => self.byte(p, place),
        };
        let (mut best, mut found, mut probes) = (n, None, 0);
        let mut candidate = first;
        for _ in 0..if n >= good { chain / 4 } else { chain } {
            let len = (0..most).take_while(|at| seen(candidate + at) == seen(p + at)).count();
            probes += 1;
            if len > best {
                (best, found) = (len, Some(candidate));
                if len >= if is_beyond { nice } else { nice.min(most) } {
                    break;
                }
            }
            match self.next.get(&candidate).copied().flatten() {
                Some(next) if p - next < self.farthest() => candidate = next,
                _ => break,
            }
        }
        self.probes += probes;
        Some((best.min(left), found?))
    }

    fn run(&mut self) -> Option<()> {
        let Chunk { model, data, start, .. } = self.chunk;
        match model.strategy {
            2 => return self.greedy(|_, _| (0, 0)),
            3 => {
                return self.greedy(|encoder, p| {
                    let same = |byte: &&u8| p > 0 && **byte == encoder.chunk.data[p - 1];
                    match data[p..].iter().take(258).take_while(same).count() {
                        len @ 3.. => (len, 1),
                        _ => (0, 0),
                    }
                });
            }
            _ => {}
        }
        if model.level <= 3 {
            let mut p = 0;
            while p < start {
                p += self.fast(p, start).0.max(1);
            }
            return self.greedy(|encoder, p| encoder.fast(p, usize::MAX));
        }
        for p in start.saturating_sub(self.window_len())..start {
            self.insert(p);
        }
        self.lazy()
    }

    /// One step of the fast search: a match, or zeroes. Inserts nothing from `end` on.
    fn fast(&mut self, p: usize, end: usize) -> (usize, usize) {
        let found = self.near(p).and_then(|first| self.longest(p, first, 2));
        let Some((len, from)) = found else { return (0, 0) };
        if len <= self.effort()[1] {
            for skipped in p + 1..end.min(p + len) {
                self.insert(skipped);
            }
        }
        (len, p - from)
    }

    fn greedy(
        &mut self,
        mut found_at: impl FnMut(&mut Self, usize) -> (usize, usize),
    ) -> Option<()> {
        let Chunk { data, start, .. } = self.chunk;
        let mut p = start;
        while p < data.len() {
            let (len, distance) = found_at(self, p);
            let token = if len > 0 { Token::Match(len, distance) } else { Token::Literal(data[p]) };
            let is_full = self.token(token, p);
            let next = p + len.max(1);
            if is_full && self.end_block(next, p)? {
                return Some(());
            }
            p = next;
        }
        self.last_block()
    }

    fn lazy(&mut self) -> Option<()> {
        let Chunk { data, start, carried, model, .. } = self.chunk;
        let (mut p, mut found, mut waits) = (start, (2, 0), false);
        let hand_len = (carried >> 16 & 0xffff) as usize;
        if hand_len > 0 {
            self.insert(p);
            found = (hand_len, p.checked_sub((carried >> 32 & 0xffff) as usize)?);
            (p, waits) = (p + 1, true);
        }
        while p < data.len() {
            let first = self.near(p);
            let before = std::mem::replace(&mut found, (2, 0));
            if let Some(first) = first.filter(|_| before.0 < self.effort()[1])
                && let Some((len, from)) = self.longest(p, first, before.0)
            {
                let is_poor = len <= 5 && (model.strategy == 1 || (len == 3 && p - from > 4096));
                if len > before.0 && !is_poor {
                    found = (len, from);
                }
            }
            if before.0 >= 3 && found.0 <= before.0 {
                let is_full = self.token(Token::Match(before.0, p - 1 - before.1), p);
                let (q, next) = (p, p + before.0 - 1);
                for skipped in p + 1..next {
                    self.insert(skipped);
                }
                (p, found, waits) = (next, (2, 0), false);
                if is_full && self.end_block(p, q)? {
                    return Some(());
                }
            } else {
                if waits && self.token(Token::Literal(data[p - 1]), p) && self.end_block(p, p)? {
                    return Some(());
                }
                (p, waits) = (p + 1, true);
            }
        }
        if waits {
            self.token(Token::Literal(data[p - 1]), p);
        }
        self.last_block()
    }

    /// Adds a token, and returns whether the block is full.
    fn token(&mut self, token: Token, q: usize) -> bool {
        self.tokens.push(token);
        let Model { encoder, level, memory, .. } = self.chunk.model;
        let n = self.tokens.len();
        let full = if encoder == 2 { 32_767 } else { (1 << (memory + 6)) - 1 };
        if n == full || encoder != 2 || level < 3 || !n.is_multiple_of(4096) {
            return n == full;
        }
        let (mut matches, mut b) = (0, 8 * n);
        for token in &self.tokens {
            if let Token::Match(_, distance) = *token {
                matches += 1;
                b += 5 + self.distances[symbol_of(&self.distances, distance)].1;
            }
        }
        matches < n / 2 && b / 8 < (q - self.block_start) / 2
    }

    /// Ends a block at `p`, and returns whether the chunk ends with it.
    fn end_block(&mut self, p: usize, q: usize) -> Option<bool> {
        self.block(p, q, false);
        let end = self.chunk.end;
        (end.is_none_or(|end| p <= end) && self.probes <= CHUNK_PROBES_MAX)
            .then_some(end == Some(p))
    }

    fn last_block(&mut self) -> Option<()> {
        let len = self.chunk.data.len();
        self.block(len, len, true);
        self.bits.align();
        (self.chunk.end.is_none() && self.probes <= CHUNK_PROBES_MAX).then_some(())
    }

    fn block(&mut self, p: usize, q: usize, is_last: bool) {
        let (mut literals, mut distances) = (vec![0; 286], vec![0; 30]);
        literals[256] = 1;
        for token in &self.tokens {
            match *token {
                Token::Literal(byte) => literals[usize::from(byte)] += 1,
                Token::Match(len, distance) => {
                    literals[257 + symbol_of(&self.lengths, len)] += 1;
                    distances[symbol_of(&self.distances, distance)] += 1;
                }
            }
        }
        let length_extra = |s: usize| s.checked_sub(257).map_or(0, |s| self.lengths[s].1);
        let distance_extra = |s: usize| self.distances[s].1;
        let first = Code::of_counts(&literals, 15, length_extra);
        let second = Code::of_counts(&distances, 15, distance_extra);
        let mut runs = runs_of(&first.lens[..=first.last]);
        runs.extend(runs_of(&second.lens[..=second.last]));
        let mut counts = vec![0; 19];
        runs.iter().for_each(|(symbol, ..)| counts[*symbol] += 1);
        let third =
            Code::of_counts(&counts, 7, |s| [2, 3, 7].get(s.wrapping_sub(16)).map_or(0, |n| *n));
        let written = CODE_ORDER.iter().rposition(|s| third.lens[*s] > 0).unwrap_or(0).max(2) + 1;
        let mut fixed_lens = vec![8; 288];
        fixed_lens[144..256].fill(9);
        fixed_lens[256..280].fill(7);
        let a = first.cost + second.cost + third.cost + 14 + 3 * written;
        let f = (0..286).map(|s| literals[s] * (fixed_lens[s] + length_extra(s))).sum::<usize>()
            + (0..30).map(|s| distances[s] * (5 + distance_extra(s))).sum::<usize>();
        let (a, f) = ((a + 10) / 8, (f + 10) / 8);
        let least = if f <= a || self.chunk.model.strategy == 4 { f } else { a };
        let plain = &self.chunk.data[self.block_start..p];
        let is_held = self.base + self.block_start >= self.kept_from(q);
        let last = usize::from(is_last);
        let mut bits = std::mem::take(&mut self.bits);
        if plain.len() <= 65_535 && is_held && plain.len() + 4 <= least {
            bits.put(last, 3);
            bits.align();
            bits.put(plain.len(), 16);
            bits.put(!plain.len(), 16);
            plain.iter().for_each(|byte| bits.put(usize::from(*byte), 8));
        } else if f == least {
            bits.put(2 | last, 3);
            self.put_tokens(&mut bits, &Code::fixed(fixed_lens), &Code::fixed(vec![5; 30]));
        } else {
            bits.put(4 | last, 3);
            bits.put(first.last - 256, 5);
            bits.put(second.last, 5);
            bits.put(written - 4, 4);
            CODE_ORDER[..written].iter().for_each(|symbol| bits.put(third.lens[*symbol], 3));
            for (symbol, more, width) in runs {
                third.put(&mut bits, symbol);
                bits.put(more, width);
            }
            self.put_tokens(&mut bits, &first, &second);
        }
        self.bits = bits;
        self.tokens.clear();
        self.block_start = p;
    }

    fn put_tokens(&self, bits: &mut Bits, first: &Code, second: &Code) {
        for token in &self.tokens {
            match *token {
                Token::Literal(byte) => first.put(bits, usize::from(byte)),
                Token::Match(len, distance) => {
                    let symbol = symbol_of(&self.lengths, len);
                    first.put(bits, 257 + symbol);
                    bits.put(len - self.lengths[symbol].0, self.lengths[symbol].1);
                    let symbol = symbol_of(&self.distances, distance);
                    second.put(bits, symbol);
                    bits.put(distance - self.distances[symbol].0, self.distances[symbol].1);
                }
            }
        }
        first.put(bits, 256);
    }
}
