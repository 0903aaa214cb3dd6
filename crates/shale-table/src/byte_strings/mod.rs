//! How a run of byte strings is stored: five codecs, the cheapest chosen by size.
//!
//! A *string section* is one tag byte and what the tag says. The number of strings follows from the
//! position of the section. Tags:
//!
//! | tag | codec | then |
//! |---|---|---|
//! | 0x20 | constant | the string's length (varint), the string |
//! | 0x21 | [`plain`] | ends, length, bytes |
//! | 0x22 | [`front`] | restart interval, shared, ends, length, bytes: front coding |
//! | 0x23 | [`dictionary`] | count, values, codes |
//! | 0x24 | [`numbered`] | count, prefixes, suffixes, forms, codes, numbers |
//!
//! The sections inside a dictionary or a numbered section are constant, plain or front. The writer
//! takes the smallest encoding, but front coding must save one part in 16 over plain.
//!
//! Reading one string reads at most one restart group; nothing is unpacked in advance. Strings need
//! not be sorted; only [`ByteStrings::search`] needs them to ascend. On a damaged page it gives
//! some wrong position, never a panic.

mod buffer; // strings that wait to be encoded
mod plain; // ends and bytes
mod front; // shared prefix with the string before, restarts
mod simple; // one of these, or one string
mod dictionary; // distinct strings and codes
mod sequence; // numbers in names: where they are and how they sort
mod numbered; // a prefix, a number, a suffix

use std::{cmp::Ordering, fmt, ops::Range};

use crate::{
    error::Damage,
    integers,
    varint::{self, Reader},
};
pub(crate) use buffer::StringBuffer;
use simple::{Simple, TAG_DICTIONARY, TAG_NUMBERED};
use {dictionary::Dictionary, numbered::Numbered};

/// A parsed string section.
#[derive(Debug)]
pub(crate) enum ByteStrings {
    Simple(Simple),
    Dictionary(Box<Dictionary>),
    Numbered(Box<Numbered>),
}

impl ByteStrings {
    /// Reads the headers of a section of `count` strings (at least 1).
    pub(crate) fn parse(reader: &mut Reader, count: usize) -> Result<Self, Damage> {
        let tag = reader.byte()?;
        Ok(match tag {
            TAG_DICTIONARY => Self::Dictionary(Box::new(Dictionary::parse(reader, count)?)),
            TAG_NUMBERED => Self::Numbered(Box::new(Numbered::parse(reader, count)?)),
            _ => Self::Simple(Simple::parse(tag, reader, count)?),
        })
    }

    /// String `index`, which must be below the section's count. Returns it if the page has it as a
    /// whole; else returns `None` and replaces the content of `scratch` with it.
    pub(crate) fn find<'p>(
        &self,
        page: &'p [u8],
        index: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<&'p [u8]>, Damage> {
        match self {
            Self::Simple(simple) => simple.find(page, index, scratch),
            Self::Dictionary(dictionary) => dictionary.find(page, index, scratch),
            Self::Numbered(numbered) => numbered.build(page, index, scratch).map(|()| None),
        }
    }

    /// Like [`ByteStrings::find`], wherever the string is.
    pub(crate) fn view<'a>(
        &self,
        page: &'a [u8],
        index: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Damage> {
        Ok(self.find(page, index, scratch)?.unwrap_or(scratch))
    }

    /// Like `slice::binary_search` over the strings `range`, which must ascend.
    pub(crate) fn search(
        &self,
        page: &[u8],
        range: Range<usize>,
        key: &[u8],
    ) -> Result<Result<usize, usize>, Damage> {
        if let Self::Simple(Simple::Front(front)) = self {
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
            Self::Simple(simple) => simple.scan(page, range, visit),
            Self::Numbered(numbered) => numbered.scan(page, range, visit),
            Self::Dictionary(dictionary) => {
                let mut scratch = Vec::new();
                for index in range {
                    let found = dictionary.find(page, index, &mut scratch)?;
                    if !visit(index, found.unwrap_or(&scratch)) {
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
            Self::Simple(part) => part.heap_len(),
            Self::Dictionary(part) => size_of::<Dictionary>() + part.heap_len(),
            Self::Numbered(part) => size_of::<Numbered>() + part.heap_len(),
        }
    }
}

/// For people: the codec and its parts.
impl fmt::Display for ByteStrings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(part) => part.fmt(f),
            Self::Dictionary(part) => part.fmt(f),
            Self::Numbered(part) => part.fmt(f),
        }
    }
}

/// Appends `strings` (at least one) as the cheapest section.
pub(crate) fn encode(strings: &StringBuffer, out: &mut Vec<u8>) {
    if simple::is_constant(strings) {
        return simple::encode(strings, out);
    }
    let mut numbered = vec![TAG_NUMBERED];
    let is_numbered = numbered::encode(strings, &mut numbered);
    // Half a byte a string: nothing else comes near, so save the effort of trying.
    if is_numbered && numbered.len() < strings.len() / 2 {
        return out.extend_from_slice(&numbered);
    }
    let mut best = Vec::new();
    simple::encode(strings, &mut best);
    if is_numbered && numbered.len() < best.len() {
        best = numbered;
    }
    let mut dictionary = vec![TAG_DICTIONARY];
    if dictionary::encode(strings, &mut dictionary) && dictionary.len() < best.len() {
        best = dictionary;
    }
    out.extend_from_slice(&best);
}

/// Returns whether a section with this tag is one of strings.
pub(crate) fn is_tag(tag: u8) -> bool {
    (simple::TAG_CONSTANT..=TAG_NUMBERED).contains(&tag)
}

/// Appends `strings` (at least one) as a section that is quick to make: constant or plain.
pub(crate) fn encode_quickly(strings: &StringBuffer, out: &mut Vec<u8>) {
    if simple::is_constant(strings) {
        return simple::encode(strings, out);
    }
    out.push(simple::TAG_PLAIN);
    integers::encode_quickly(&strings.ends, out);
    varint::write(strings.bytes.len() as u64, out);
    out.extend_from_slice(&strings.bytes);
}

#[cfg(test)]
mod tests;
