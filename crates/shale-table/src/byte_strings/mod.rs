//! How a run of byte strings is stored: five codecs, the cheapest chosen by size.
//!
//! A *string section* is one tag byte and what the tag says; how many strings it holds is known
//! from where it stands. Tags:
//!
//! | tag | codec | then |
//! |---|---|---|
//! | 0x20 | constant | the string's length (varint), the string |
//! | 0x21 | [`plain`] | ends, length, bytes |
//! | 0x22 | [`front`] | restart interval, shared, ends, length, bytes: front coding |
//! | 0x23 | [`dictionary`] | count, values, codes |
//! | 0x24 | [`numbered`] | count, prefixes, suffixes, forms, codes, numbers |
//!
//! Inside a dictionary or a numbered section only constant, plain and front may stand. The writer
//! takes the smallest, except that front coding must save one part in 16 over plain.
//!
//! Reading one string touches at most one restart group; nothing else is materialised. Strings need
//! not be sorted; only [`ByteStrings::search`] needs them to ascend, and on a damaged page gives
//! some wrong place, never a panic.

mod dictionary; // distinct strings and codes
mod front; // shared prefix with the string before, restarts
mod numbered; // a prefix, a number, a suffix
mod plain; // ends and bytes
mod sequence; // numbers in names: where they are and how they sort

use std::{cmp::Ordering, fmt, ops::Range};

use crate::{
    error::Damage,
    limits::VALUE_LEN_MAX,
    varint::{self, Reader, Span},
};
use {dictionary::Dictionary, front::Front, numbered::Numbered, plain::Plain};

const TAG_CONSTANT: u8 = 0x20;
const TAG_PLAIN: u8 = 0x21;
const TAG_FRONT: u8 = 0x22;
const TAG_DICTIONARY: u8 = 0x23;
const TAG_NUMBERED: u8 = 0x24;

const TOO_LONG: Damage = Damage("a byte string is longer than the limit");

/// Which codecs may stand in a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nesting {
    /// A column's own: all.
    Column,
    /// A part of another section: constant, plain and front.
    Part,
}

/// A parsed string section.
#[derive(Debug)]
pub(crate) enum ByteStrings {
    Constant(Span),
    Plain(Plain),
    Front(Box<Front>),
    Dictionary(Box<Dictionary>),
    Numbered(Box<Numbered>),
}

impl ByteStrings {
    /// Reads the headers of a section of `count` strings (at least 1).
    pub(crate) fn parse(
        reader: &mut Reader,
        count: usize,
        nesting: Nesting,
    ) -> Result<Self, Damage> {
        let tag = reader.byte()?;
        if nesting == Nesting::Part && matches!(tag, TAG_DICTIONARY | TAG_NUMBERED) {
            return Err(Damage("a string codec stands where it may not nest"));
        }
        Ok(match tag {
            TAG_CONSTANT => {
                let len = reader.varint_max(VALUE_LEN_MAX, TOO_LONG.0)?;
                Self::Constant(reader.span(len)?)
            }
            TAG_PLAIN => Self::Plain(Plain::parse(reader, count)?),
            TAG_FRONT => Self::Front(Box::new(Front::parse(reader, count)?)),
            TAG_DICTIONARY => Self::Dictionary(Box::new(Dictionary::parse(reader, count)?)),
            TAG_NUMBERED => Self::Numbered(Box::new(Numbered::parse(reader, count)?)),
            _ => return Err(Damage("a string section has an unknown tag")),
        })
    }

    /// String `index`, which must be below the section's count. If it lies in the page whole, that
    /// is what it returns; else `None`, and the string replaces the content of `scratch`.
    pub(crate) fn find<'p>(
        &self,
        page: &'p [u8],
        index: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<&'p [u8]>, Damage> {
        match self {
            Self::Constant(span) => Ok(Some(span.of(page))),
            Self::Plain(plain) => plain.get(page, index).map(Some),
            Self::Front(front) => front.find(page, index, scratch),
            Self::Dictionary(dictionary) => dictionary.find(page, index, scratch),
            Self::Numbered(numbered) => numbered.build(page, index, scratch).map(|()| None),
        }
    }

    /// As [`ByteStrings::find`], wherever the string is.
    pub(crate) fn view<'a>(
        &self,
        page: &'a [u8],
        index: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Damage> {
        Ok(self.find(page, index, scratch)?.unwrap_or(scratch))
    }

    /// As `slice::binary_search` over the strings `range`, which must ascend.
    pub(crate) fn search(
        &self,
        page: &[u8],
        range: Range<usize>,
        key: &[u8],
    ) -> Result<Result<usize, usize>, Damage> {
        if let Self::Front(front) = self {
            return front.search(page, range, key);
        }
        let mut scratch = Vec::new();
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.view(page, middle, &mut scratch)?.cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }

    /// Calls `visit(index, string)` over `range` in order until it returns false.
    pub(crate) fn scan(
        &self,
        page: &[u8],
        range: Range<usize>,
        visit: &mut dyn FnMut(usize, &[u8]) -> bool,
    ) -> Result<(), Damage> {
        match self {
            Self::Front(front) => front.scan(page, range, visit),
            Self::Plain(plain) => plain.scan(page, range, visit),
            Self::Numbered(numbered) => numbered.scan(page, range, visit),
            Self::Constant(_) | Self::Dictionary(_) => {
                let mut scratch = Vec::new();
                for index in range {
                    if !visit(index, self.view(page, index, &mut scratch)?) {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_len(&self) -> usize {
        match self {
            Self::Constant(_) => 0,
            Self::Plain(part) => part.heap_len(),
            Self::Front(part) => size_of::<Front>() + part.heap_len(),
            Self::Dictionary(part) => size_of::<Dictionary>() + part.heap_len(),
            Self::Numbered(part) => size_of::<Numbered>() + part.heap_len(),
        }
    }
}

/// For people: the codec and its parts.
impl fmt::Display for ByteStrings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(span) => write!(f, "constant of {} bytes", span.len()),
            Self::Plain(part) => part.fmt(f),
            Self::Front(part) => part.fmt(f),
            Self::Dictionary(part) => part.fmt(f),
            Self::Numbered(part) => part.fmt(f),
        }
    }
}

/// Bytes that two strings share at their start.
fn shared_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Strings to encode, end to end in one buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct StringBuffer {
    bytes: Vec<u8>,
    ends: Vec<u64>,
}

impl StringBuffer {
    pub(crate) fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len() as u64);
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }
}

impl<'a> FromIterator<&'a [u8]> for StringBuffer {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(strings: I) -> Self {
        let mut buffer = Self::default();
        strings.into_iter().for_each(|string| buffer.push(string));
        buffer
    }
}

/// Appends `strings` (at least one) as the section that costs least.
pub(crate) fn encode(strings: &StringBuffer, nesting: Nesting, out: &mut Vec<u8>) {
    let first = strings.get(0);
    if strings.iter().all(|string| string == first) {
        out.push(TAG_CONSTANT);
        varint::write(first.len() as u64, out);
        out.extend_from_slice(first);
        return;
    }
    let mut numbered = vec![TAG_NUMBERED];
    let mut best = None;
    if nesting == Nesting::Column && numbered::encode(strings, &mut numbered) {
        // Half a byte a string: nothing else comes near, so save the effort of trying.
        if numbered.len() < strings.len() / 2 {
            return out.extend_from_slice(&numbered);
        }
        best = Some(numbered);
    }
    let mut plain = vec![TAG_PLAIN];
    plain::encode(strings, &mut plain);
    let mut front = vec![TAG_FRONT];
    front::encode(strings, &mut front);
    let front_pays = front.len() < plain.len() - plain.len() / 16;
    let simple = if front_pays { front } else { plain };
    let mut best = best.filter(|best| best.len() < simple.len()).unwrap_or(simple);
    let mut dictionary = vec![TAG_DICTIONARY];
    if nesting == Nesting::Column
        && dictionary::encode(strings, &mut dictionary)
        && dictionary.len() < best.len()
    {
        best = dictionary;
    }
    out.extend_from_slice(&best);
}

#[cfg(test)]
mod tests;
