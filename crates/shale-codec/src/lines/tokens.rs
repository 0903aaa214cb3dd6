//! What a line is made of: numbers, words, and the bytes between them.

/// A part of a line that may become a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) start: u32,
    /// Twice its length, plus one for a number: a text has many tokens.
    len_and_kind: u32,
}

impl Token {
    fn new(start: u32, end: u32, is_number: bool) -> Self {
        Self { start, len_and_kind: (end - start) << 1 | u32::from(is_number) }
    }

    pub(super) fn end(self) -> u32 {
        self.start + (self.len_and_kind >> 1)
    }

    /// Digits only; else a word.
    pub(super) fn is_number(self) -> bool {
        self.len_and_kind & 1 == 1
    }
}

/// How lines are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grain {
    /// Into numbers and words.
    Fine,
    /// The same, but text between spaces that has letters stays whole: names of packages and files,
    /// and versions, in which the bytes between words differ from line to line.
    Coarse,
}

/// Most changes between letters and digits within what is split. What has more is a hash or the
/// like, and stays one word.
const PART_COUNT_MAX: usize = 4;

/// Splits a line, which starts at `start` in its frame, into tokens in order. Letters, digits,
/// underscores and bytes beyond ASCII belong to tokens; nothing else does. Digits within letters
/// are numbers of their own.
pub(super) fn tokens_of(line: &[u8], start: u32, grain: Grain, tokens: &mut Vec<Token>) {
    if grain == Grain::Fine {
        return split(line, start, tokens);
    }
    let mut at = 0;
    for field in line.split(u8::is_ascii_whitespace) {
        let start = start + at as u32;
        at += field.len() + 1;
        if field.iter().any(|&byte| byte.is_ascii_alphabetic() || byte >= 0x80) {
            tokens.push(Token::new(start, start + field.len() as u32, false));
        } else {
            split(field, start, tokens);
        }
    }
}

fn split(line: &[u8], start: u32, tokens: &mut Vec<Token>) {
    let class_at = |at: usize| line.get(at).map_or(Class::Between, |&byte| CLASSES[byte as usize]);
    let mut at = 0;
    while at < line.len() {
        if class_at(at) == Class::Between {
            at += 1;
            continue;
        }
        let first = tokens.len();
        let from = at;
        loop {
            let part = at;
            let class = class_at(at);
            if class == Class::Between {
                break;
            }
            while class_at(at) == class {
                at += 1;
            }
            let (start, end) = (start + part as u32, start + at as u32);
            tokens.push(Token::new(start, end, class == Class::Number));
        }
        if tokens.len() - first > PART_COUNT_MAX {
            tokens.truncate(first);
            let (start, end) = (start + from as u32, start + at as u32);
            tokens.push(Token::new(start, end, false));
        }
    }
}

/// What kind of token a byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Between,
    Word,
    Number,
}

static CLASSES: [Class; 256] = {
    let mut classes = [Class::Word; 256];
    let mut byte = 0;
    while byte < 0x80u8 {
        classes[byte as usize] = match byte {
            b'0'..=b'9' => Class::Number,
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => Class::Word,
            _ => Class::Between,
        };
        byte += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words_are_separated_and_hashes_stay_whole() {
        let line = "2024-02-29T09:00Z é=a1b2c3d4e5, x_86;";
        let mut tokens = Vec::new();
        tokens_of(line.as_bytes(), 0, Grain::Fine, &mut tokens);
        let found: Vec<_> = tokens
            .iter()
            .map(|token| (&line[token.start as usize..token.end() as usize], token.is_number()))
            .collect();
        let expected = [
            ("2024", true),
            ("02", true),
            ("29", true),
            ("T", false),
            ("09", true),
            ("00", true),
            ("Z", false),
            ("é", false),
            ("a1b2c3d4e5", false),
            ("x_", false),
            ("86", true),
        ];
        assert_eq!(found, expected);

        let line = "2026-11 install libfoo-bar:amd64 <none> 1.2-3";
        let mut tokens = Vec::new();
        tokens_of(line.as_bytes(), 0, Grain::Coarse, &mut tokens);
        let found: Vec<_> =
            tokens.iter().map(|token| &line[token.start as usize..token.end() as usize]).collect();
        assert_eq!(found, ["2026", "11", "install", "libfoo-bar:amd64", "<none>", "1", "2", "3"]);
    }
}
