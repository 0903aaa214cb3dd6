//! Tokens against a path. All ways to match are followed at once, so no pattern takes longer than
//! its length times that of the path.

/// Most bytes that one token matches: those of a character.
const TOKEN_LEN_MAX: usize = 4;
/// Flags kept on the stack, enough for patterns of some fifty tokens.
const FLAGS_ON_STACK: usize = 256;

/// What a pattern is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// This byte.
    Byte(u8),
    /// Any unit except a slash.
    Any(Unit),
    /// Any number of bytes, but no slash.
    Run,
    /// Any number of bytes.
    RunOverSlashes,
    /// This many of the next tokens may be left out.
    Maybe(usize),
    /// A unit whose value is in one of the ranges, or in none of them; never a slash.
    Class {
        /// What one match takes.
        unit: Unit,
        /// None of the ranges may hold it.
        negated: bool,
        /// First and last values.
        ranges: Vec<(u32, u32)>,
    },
}

/// What a token for "one of" takes from the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// A byte.
    Byte,
    /// A character, or a byte where the path is not UTF-8.
    Char,
}

impl Unit {
    /// Value and length of the first unit of `bytes`, which are not empty.
    fn first(self, bytes: &[u8]) -> (u32, usize) {
        match self {
            Self::Byte => (u32::from(bytes[0]), 1),
            Self::Char => next_char(bytes),
        }
    }
}

/// Returns the first character of `bytes`, which are not empty, and its length. A byte that is not
/// part of a UTF-8 character counts by itself; its value is above all characters.
pub(super) fn next_char(bytes: &[u8]) -> (u32, usize) {
    const NOT_UTF8: u32 = 0x11_0000;
    let first = bytes[0];
    let len = match first {
        0..0x80 => return (u32::from(first), 1),
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => 1,
    };
    let char = bytes.get(..len).and_then(|c| std::str::from_utf8(c).ok());
    match char.and_then(|c| c.chars().next()) {
        Some(char) => (u32::from(char), len),
        None => (NOT_UTF8 + u32::from(first), 1),
    }
}

/// Returns the bytes as tokens that match only themselves.
pub(super) fn literal(bytes: &[u8]) -> Vec<Token> {
    bytes.iter().map(|&byte| Token::Byte(byte)).collect()
}

/// Which part of a path the tokens have to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    Whole,
    /// All of it, or what follows one of its slashes.
    End,
}

/// True if the tokens match `path`, or as much of it as `extent` says.
pub(super) fn matches(tokens: &[Token], path: &[u8], extent: Extent) -> bool {
    if ends_differ(tokens, path, extent) {
        return false;
    }
    let takes_chars = tokens.iter().any(|token| {
        matches!(token, Token::Any(Unit::Char) | Token::Class { unit: Unit::Char, .. })
    });
    let depth = if takes_chars { TOKEN_LEN_MAX + 1 } else { 2 };
    let mut on_stack = [false; FLAGS_ON_STACK];
    let mut on_heap = Vec::new();
    let len = depth * (tokens.len() + 1);
    let flags = match on_stack.get_mut(..len) {
        Some(flags) => flags,
        None => {
            on_heap.resize(len, false);
            &mut on_heap[..]
        }
    };
    Ways { tokens, flags, last: [0; TOKEN_LEN_MAX + 1], depth }.lead_through(path, extent)
}

/// True if the bytes that the pattern begins or ends with are not those of the path: most patterns
/// and most names differ there.
fn ends_differ(tokens: &[Token], path: &[u8], extent: Extent) -> bool {
    let differs = |(token, byte): (&Token, &u8)| match token {
        Token::Byte(wanted) => Some(wanted != byte),
        _ => None,
    };
    let differ = |ends: &mut dyn Iterator<Item = (&Token, &u8)>| {
        ends.map_while(differs).any(|differs| differs)
    };
    // A byte that may be left out decides nothing. Read from the end, such a byte comes before the
    // token that says so.
    let all_needed = !tokens.iter().any(|token| matches!(token, Token::Maybe(_)));
    (all_needed && differ(&mut tokens.iter().rev().zip(path.iter().rev())))
        || (extent == Extent::Whole && differ(&mut tokens.iter().zip(path)))
}

/// For each of the next offsets of a path, which tokens may match from there on.
struct Ways<'a> {
    tokens: &'a [Token],
    /// `tokens.len() + 1` flags for each of `depth` offsets, used in turn.
    flags: &'a mut [bool],
    /// The last token that is set for each of these offsets: most patterns get no further than to
    /// their first tokens.
    last: [usize; TOKEN_LEN_MAX + 1],
    depth: usize,
}

impl Ways<'_> {
    fn lead_through(mut self, path: &[u8], extent: Extent) -> bool {
        self.reach(0, 0);
        for index in 0..path.len() {
            self.skip_empty(index);
            self.advance(index, &path[index..]);
            if extent == Extent::End && path[index] == b'/' && index + 1 < path.len() {
                self.reach(index + 1, 0);
            }
        }
        self.skip_empty(path.len());
        self.is_set(path.len(), self.tokens.len())
    }

    fn slot(&self, offset: usize, token: usize) -> usize {
        offset % self.depth * (self.tokens.len() + 1) + token
    }

    fn is_set(&self, offset: usize, token: usize) -> bool {
        self.flags[self.slot(offset, token)]
    }

    fn reach(&mut self, offset: usize, token: usize) {
        let slot = self.slot(offset, token);
        self.flags[slot] = true;
        let last = &mut self.last[offset % self.depth];
        *last = token.max(*last);
    }

    /// Also reaches the tokens after those that may match nothing.
    fn skip_empty(&mut self, offset: usize) {
        let mut at = 0;
        while at <= self.last[offset % self.depth] && at < self.tokens.len() {
            if self.is_set(offset, at) {
                match self.tokens[at] {
                    Token::Run | Token::RunOverSlashes => self.reach(offset, at + 1),
                    Token::Maybe(count) => {
                        self.reach(offset, at + 1);
                        self.reach(offset, at + 1 + count);
                    }
                    _ => {}
                }
            }
            at += 1;
        }
    }

    /// Takes one unit of `rest`, which begins at `offset`, by each token that is set there.
    fn advance(&mut self, offset: usize, rest: &[u8]) {
        let tokens = self.tokens;
        let byte = rest[0];
        for at in 0..=self.last[offset % self.depth] {
            let slot = self.slot(offset, at);
            if !std::mem::take(&mut self.flags[slot]) {
                continue;
            }
            let Some(token) = tokens.get(at) else { continue };
            match token {
                Token::Byte(wanted) if *wanted == byte => self.reach(offset + 1, at + 1),
                Token::Any(unit) if byte != b'/' => {
                    self.reach(offset + unit.first(rest).1, at + 1);
                }
                Token::Run if byte != b'/' => self.reach(offset + 1, at),
                Token::RunOverSlashes => self.reach(offset + 1, at),
                Token::Class { unit, negated, ranges } if byte != b'/' => {
                    let (value, len) = unit.first(rest);
                    let is_in = ranges.iter().any(|&(low, high)| (low..=high).contains(&value));
                    if is_in != *negated {
                        self.reach(offset + len, at + 1);
                    }
                }
                _ => {}
            }
        }
        self.last[offset % self.depth] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_patterns_and_characters_of_every_length_match() {
        let any = vec![Token::Any(Unit::Char); 4];
        assert!(matches(&any, "a\u{e9}\u{20ac}\u{1f600}".as_bytes(), Extent::Whole));
        assert!(!matches(&any, "a\u{e9}\u{20ac}".as_bytes(), Extent::Whole));
        assert!(matches(&any, b"\xff\xc3\xe2\x82", Extent::Whole), "bytes that are not UTF-8");
        // More flags than fit on the stack.
        let long = vec![Token::Any(Unit::Char); 300];
        let path = "\u{e9}".repeat(300);
        assert!(matches(&long, path.as_bytes(), Extent::Whole));
        assert!(!matches(&long, &path.as_bytes()[2..], Extent::Whole));
    }

    #[test]
    fn a_last_byte_that_may_be_left_out_decides_nothing() {
        let tokens = [Token::Run, Token::Maybe(1), Token::Byte(b'a')];
        assert!(matches(&tokens, b"b", Extent::Whole) && matches(&tokens, b"ba", Extent::Whole));
        assert!(matches(&tokens, b"a/b", Extent::End));
    }

    #[test]
    fn the_end_of_a_path_begins_after_a_slash() {
        let tokens = literal(b"b/c");
        assert!(matches(&tokens, b"a/b/c", Extent::End) && matches(&tokens, b"b/c", Extent::End));
        assert!(!matches(&tokens, b"a/b/c", Extent::Whole));
        assert!(!matches(&tokens, b"ab/c", Extent::End));
    }

    /// What the tokens mean, one way after the other.
    fn means(tokens: &[Token], path: &[u8]) -> bool {
        let Some((token, after)) = tokens.split_first() else { return path.is_empty() };
        let from = |len: usize| path.get(len..).is_some_and(|rest| means(after, rest));
        match token {
            Token::Byte(byte) => path.first() == Some(byte) && from(1),
            Token::Any(_) | Token::Class { .. } if path.is_empty() || path[0] == b'/' => false,
            Token::Any(unit) => from(unit.first(path).1),
            Token::Class { unit, negated, ranges } => {
                let (value, len) = unit.first(path);
                let is_in = ranges.iter().any(|&(low, high)| low <= value && value <= high);
                is_in != *negated && from(len)
            }
            Token::Run => {
                let len_max = path.iter().take_while(|&&byte| byte != b'/').count();
                (0..=len_max).any(from)
            }
            Token::RunOverSlashes => (0..=path.len()).any(from),
            Token::Maybe(count) => means(after, path) || means(&after[*count..], path),
        }
    }

    #[test]
    fn all_ways_at_once_find_what_one_after_the_other_finds() {
        let mut state = 1u64;
        let mut below = |end: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % end
        };
        let bytes = [b'a', b'b', b'/', 0xc3, 0xa9];
        let mut found = [0; 2];
        for _ in 0..20_000 {
            let len = below(6);
            let mut tokens = Vec::new();
            for at in 0..len {
                let unit = if below(2) == 0 { Unit::Byte } else { Unit::Char };
                let ranges = vec![(u32::from(b'b'), 0xe9)];
                tokens.push(match below(8) {
                    0 => Token::Any(unit),
                    1 => Token::Run,
                    2 => Token::RunOverSlashes,
                    3 if at + 1 < len => Token::Maybe(1),
                    4 => Token::Class { unit, negated: below(2) == 0, ranges },
                    _ => Token::Byte(bytes[below(bytes.len())]),
                });
            }
            let path: Vec<u8> = (0..below(7)).map(|_| bytes[below(bytes.len())]).collect();
            let meant = means(&tokens, &path);
            found[usize::from(meant)] += 1;
            assert_eq!(matches(&tokens, &path, Extent::Whole), meant, "{tokens:?} {path:?}");
            let ends = (0..path.len()).filter(|&at| path[at] == b'/' && at + 1 < path.len());
            let meant = meant || ends.clone().any(|at| means(&tokens, &path[at + 1..]));
            assert_eq!(matches(&tokens, &path, Extent::End), meant, "{tokens:?} {path:?}");
        }
        assert!(found.iter().all(|&count| count > 1_000), "both outcomes are tested: {found:?}");
    }
}
