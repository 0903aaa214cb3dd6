//! Huffman trees and blocks, as zlib makes them.
//!
//! Several sets of code lengths are optimal for the same counts. Which one zlib chooses depends on
//! how it breaks ties and how it shortens codes that are too long; this module does the same.

use crate::bits::BitWriter;
use crate::tables::{
    CODE_LENGTH_EXTRA, CODE_LENGTH_ORDER, DISTANCE_BASE, DISTANCE_CODES, DISTANCE_EXTRA,
    END_OF_BLOCK, FIXED_LITERAL_LENS, LENGTH_BASE, LENGTH_CODES, LENGTH_EXTRA, LITERAL_CODES,
    Token, distance_symbol, length_symbol,
};

/// Nodes of the largest tree.
const NODES: usize = 2 * LITERAL_CODES + 1;

/// One of the three trees of a block.
struct Kind {
    symbols: usize,
    len_max: u8,
    /// Extra bits of symbols from `extra_base` on.
    extra: &'static [u8],
    extra_base: usize,
    /// Lengths of the fixed codes, if there are any.
    fixed: Option<&'static [u8]>,
}

static FIXED_DISTANCE_LENS: [u8; DISTANCE_CODES] = [5; DISTANCE_CODES];
static FIXED_LITERALS: [u8; 288] = FIXED_LITERAL_LENS;

static LITERALS: Kind = Kind {
    symbols: LITERAL_CODES,
    len_max: 15,
    extra: &LENGTH_EXTRA,
    extra_base: END_OF_BLOCK + 1,
    fixed: Some(&FIXED_LITERALS),
};
static DISTANCES: Kind = Kind {
    symbols: DISTANCE_CODES,
    len_max: 15,
    extra: &DISTANCE_EXTRA,
    extra_base: 0,
    fixed: Some(&FIXED_DISTANCE_LENS),
};
static LENGTHS: Kind = Kind {
    symbols: LENGTH_CODES,
    len_max: 7,
    extra: &CODE_LENGTH_EXTRA,
    extra_base: 0,
    fixed: None,
};

/// A Huffman tree: lengths and codes by symbol.
struct HuffmanTree {
    lens: [u8; LITERAL_CODES + 2],
    codes: [u16; LITERAL_CODES + 2],
    /// Last symbol that has a code.
    last: usize,
}

/// Bits that the symbols of a block take, with own and with fixed codes.
#[derive(Default)]
struct Costs {
    own: i64,
    fixed: i64,
}

/// The heap in which nodes wait to be joined: the rarest first.
struct Heap<'a> {
    nodes: [u16; NODES],
    len: usize,
    freqs: &'a mut [u32; NODES],
    depths: [u8; NODES],
}

impl Heap<'_> {
    fn is_before(&self, a: u16, b: u16) -> bool {
        let (fa, fb) = (self.freqs[usize::from(a)], self.freqs[usize::from(b)]);
        fa < fb || (fa == fb && self.depths[usize::from(a)] <= self.depths[usize::from(b)])
    }

    fn sift_down(&mut self, mut at: usize) {
        let moved = self.nodes[at];
        let mut below = 2 * at;
        while below <= self.len {
            if below < self.len && self.is_before(self.nodes[below + 1], self.nodes[below]) {
                below += 1;
            }
            if self.is_before(moved, self.nodes[below]) {
                break;
            }
            self.nodes[at] = self.nodes[below];
            at = below;
            below *= 2;
        }
        self.nodes[at] = moved;
    }
}

impl HuffmanTree {
    /// The tree of symbols that occur as often as `counts` says. Adds what they cost.
    fn of(kind: &Kind, counts: &[u32], costs: &mut Costs) -> Self {
        let mut freqs = [0u32; NODES];
        freqs[..kind.symbols].copy_from_slice(&counts[..kind.symbols]);
        let mut heap = Heap { nodes: [0; NODES], len: 0, freqs: &mut freqs, depths: [0; NODES] };
        let mut last = None;
        for symbol in 0..kind.symbols {
            if heap.freqs[symbol] != 0 {
                heap.len += 1;
                heap.nodes[heap.len] = symbol as u16;
                last = Some(symbol);
            }
        }
        // At least two codes.
        while heap.len < 2 {
            let symbol = match last {
                None => 0,
                Some(symbol) if symbol < 2 => symbol + 1,
                Some(_) => 0,
            };
            if last.is_none_or(|last| last < 2) {
                last = Some(symbol);
            }
            heap.len += 1;
            heap.nodes[heap.len] = symbol as u16;
            heap.freqs[symbol] = 1;
            costs.own -= 1;
            if let Some(fixed) = kind.fixed {
                costs.fixed -= i64::from(fixed[symbol]);
            }
        }
        let last = last.unwrap_or(0);
        for at in (1..=heap.len / 2).rev() {
            heap.sift_down(at);
        }
        // The nodes in the order in which they were joined, the last one first.
        let mut sorted = [0u16; NODES];
        let mut sorted_from = NODES;
        let mut parents = [0u16; NODES];
        let mut node = kind.symbols;
        loop {
            let first = heap.nodes[1];
            heap.nodes[1] = heap.nodes[heap.len];
            heap.len -= 1;
            heap.sift_down(1);
            let second = heap.nodes[1];
            sorted[sorted_from - 1] = first;
            sorted[sorted_from - 2] = second;
            sorted_from -= 2;
            let (a, b) = (usize::from(first), usize::from(second));
            heap.freqs[node] = heap.freqs[a] + heap.freqs[b];
            heap.depths[node] = heap.depths[a].max(heap.depths[b]) + 1;
            parents[a] = node as u16;
            parents[b] = node as u16;
            heap.nodes[1] = node as u16;
            node += 1;
            heap.sift_down(1);
            if heap.len < 2 {
                break;
            }
        }
        sorted_from -= 1;
        sorted[sorted_from] = heap.nodes[1];
        let lens = lens_of(kind, last, &sorted[sorted_from..], &parents, &freqs, costs);
        let codes = codes_of(&lens[..=last]);
        Self { lens, codes, last }
    }

    fn fixed(kind: &Kind) -> Self {
        let fixed = kind.fixed.unwrap_or(&[]);
        let mut lens = [0; LITERAL_CODES + 2];
        lens[..fixed.len()].copy_from_slice(fixed);
        let codes = codes_of(&lens[..fixed.len()]);
        Self { lens, codes, last: kind.symbols - 1 }
    }

    fn put(&self, bits: &mut BitWriter, symbol: usize) {
        bits.put(u32::from(self.codes[symbol]), u32::from(self.lens[symbol]));
    }
}

/// Lengths of codes: depths in the tree, none longer than the longest. `sorted` begins with the
/// top of the tree.
fn lens_of(
    kind: &Kind,
    last: usize,
    sorted: &[u16],
    parents: &[u16; NODES],
    freqs: &[u32; NODES],
    costs: &mut Costs,
) -> [u8; LITERAL_CODES + 2] {
    let mut lens = [0u8; NODES];
    let mut counts = [0u32; 16];
    let len_max = kind.len_max;
    let mut too_long = 0i32;
    let extra = |symbol: usize| match symbol.checked_sub(kind.extra_base) {
        Some(at) => kind.extra.get(at).copied().unwrap_or(0),
        None => 0,
    };
    for &node in &sorted[1..] {
        let node = usize::from(node);
        let mut len = lens[usize::from(parents[node])] + 1;
        if len > len_max {
            len = len_max;
            too_long += 1;
        }
        lens[node] = len;
        if node > last {
            continue;
        }
        counts[usize::from(len)] += 1;
        let freq = i64::from(freqs[node]);
        costs.own += freq * i64::from(len + extra(node));
        if let Some(fixed) = kind.fixed {
            costs.fixed += freq * i64::from(fixed[node] + extra(node));
        }
    }
    if too_long > 0 {
        while too_long > 0 {
            let mut len = usize::from(len_max) - 1;
            while counts[len] == 0 {
                len -= 1;
            }
            counts[len] -= 1;
            counts[len + 1] += 2;
            counts[usize::from(len_max)] -= 1;
            too_long -= 2;
        }
        let mut rarest_first = sorted.iter().rev();
        for len in (1..=len_max).rev() {
            let mut left = counts[usize::from(len)];
            while left > 0 {
                let Some(&node) = rarest_first.next() else { break };
                let node = usize::from(node);
                if node > last {
                    continue;
                }
                if lens[node] != len {
                    costs.own += (i64::from(len) - i64::from(lens[node])) * i64::from(freqs[node]);
                    lens[node] = len;
                }
                left -= 1;
            }
        }
    }
    let mut leaves = [0; LITERAL_CODES + 2];
    leaves[..=last].copy_from_slice(&lens[..=last]);
    leaves
}

/// Canonical codes of RFC 1951, bits reversed.
fn codes_of(lens: &[u8]) -> [u16; LITERAL_CODES + 2] {
    let mut counts = [0u16; 16];
    for &len in lens {
        counts[usize::from(len)] += 1;
    }
    counts[0] = 0;
    let mut next = [0u16; 16];
    let mut code = 0u16;
    for len in 1..16 {
        code = code.wrapping_add(counts[len - 1]) << 1;
        next[len] = code;
    }
    let mut codes = [0; LITERAL_CODES + 2];
    for (symbol, &len) in lens.iter().enumerate() {
        if len > 0 {
            codes[symbol] = next[usize::from(len)].reverse_bits() >> (16 - len);
            next[usize::from(len)] = next[usize::from(len)].wrapping_add(1);
        }
    }
    codes
}

/// Calls `visit` with symbol, extra bits and how many, for lengths of codes run by run.
fn visit_lens(lens: &[u8], mut visit: impl FnMut(usize, u32, u32)) {
    let mut before = None;
    let mut count = 0usize;
    let limits = |next: Option<u8>, current: Option<u8>| match next {
        Some(0) => (138, 3),
        next if next.is_some() && next == current => (6, 3),
        _ => (7, 4),
    };
    let (mut count_max, mut count_min) = limits(lens.first().copied(), None);
    for (at, &len) in lens.iter().enumerate() {
        let next = lens.get(at + 1).copied();
        count += 1;
        if count < count_max && next == Some(len) {
            continue;
        }
        if count < count_min {
            for _ in 0..count {
                visit(usize::from(len), 0, 0);
            }
        } else if len != 0 {
            if before != Some(len) {
                visit(usize::from(len), 0, 0);
                count -= 1;
            }
            visit(16, count as u32 - 3, 2);
        } else if count <= 10 {
            visit(17, count as u32 - 3, 3);
        } else {
            visit(18, count as u32 - 11, 7);
        }
        count = 0;
        before = Some(len);
        (count_max, count_min) = limits(next, Some(len));
    }
}

/// The tokens of a block and how often each symbol occurs.
pub(crate) struct BlockTokens<'a> {
    pub(crate) tokens: &'a [Token],
    pub(crate) literal_counts: &'a [u32; LITERAL_CODES],
    pub(crate) distance_counts: &'a [u32; DISTANCE_CODES],
}

/// Writes a block in the shortest of its three forms. `plain` is the plain bytes of the block if
/// the encoder still had them all, which stored form needs.
pub(crate) fn write_block(
    bits: &mut BitWriter,
    block: &BlockTokens<'_>,
    plain: (usize, Option<&[u8]>),
    always_fixed: bool,
    is_last: bool,
) {
    let mut costs = Costs::default();
    let literals = HuffmanTree::of(&LITERALS, block.literal_counts, &mut costs);
    let distances = HuffmanTree::of(&DISTANCES, block.distance_counts, &mut costs);
    let mut counts = [0u32; LENGTH_CODES];
    for tree in [&literals, &distances] {
        visit_lens(&tree.lens[..=tree.last], |symbol, _, _| counts[symbol] += 1);
    }
    let lengths = HuffmanTree::of(&LENGTHS, &counts, &mut costs);
    let written =
        (3..LENGTH_CODES).rev().find(|&at| lengths.lens[CODE_LENGTH_ORDER[at]] != 0).unwrap_or(2)
            + 1;
    costs.own += 3 * written as i64 + 5 + 5 + 4;
    let bytes = |bits: i64| (bits + 3 + 7) >> 3;
    let fixed = bytes(costs.fixed);
    let mut least = bytes(costs.own);
    if fixed <= least || always_fixed {
        least = fixed;
    }
    let header = |form: u32| form << 1 | u32::from(is_last);
    match plain {
        (len, Some(stored)) if len as i64 + 4 <= least => {
            bits.put(header(0), 3);
            bits.align();
            bits.bytes.extend_from_slice(&(len as u16).to_le_bytes());
            bits.bytes.extend_from_slice(&(!(len as u16)).to_le_bytes());
            bits.bytes.extend_from_slice(stored);
        }
        _ if fixed == least => {
            bits.put(header(1), 3);
            write_tokens(
                bits,
                block.tokens,
                &HuffmanTree::fixed(&LITERALS),
                &HuffmanTree::fixed(&DISTANCES),
            );
        }
        _ => {
            bits.put(header(2), 3);
            bits.put(literals.last as u32 + 1 - 257, 5);
            bits.put(distances.last as u32, 5);
            bits.put(written as u32 - 4, 4);
            for &symbol in &CODE_LENGTH_ORDER[..written] {
                bits.put(u32::from(lengths.lens[symbol]), 3);
            }
            for tree in [&literals, &distances] {
                visit_lens(&tree.lens[..=tree.last], |symbol, extra, extra_bits| {
                    lengths.put(bits, symbol);
                    bits.put(extra, extra_bits);
                });
            }
            write_tokens(bits, block.tokens, &literals, &distances);
        }
    }
}

fn write_tokens(
    bits: &mut BitWriter,
    tokens: &[Token],
    literals: &HuffmanTree,
    distances: &HuffmanTree,
) {
    for &token in tokens {
        let distance = token.distance();
        if distance == 0 {
            literals.put(bits, token.value());
            continue;
        }
        let len = token.value();
        let symbol = length_symbol(len);
        literals.put(bits, END_OF_BLOCK + 1 + symbol);
        let extra = len - usize::from(LENGTH_BASE[symbol]);
        bits.put(extra as u32, u32::from(LENGTH_EXTRA[symbol]));
        let symbol = distance_symbol(distance);
        distances.put(bits, symbol);
        let extra = distance - usize::from(DISTANCE_BASE[symbol]);
        bits.put(extra as u32, u32::from(DISTANCE_EXTRA[symbol]));
    }
    literals.put(bits, END_OF_BLOCK);
}
