//! The codecs without parts of strings: constant, plain and front coding. Dictionaries and numbered
//! names store their own strings in sections of these.

use std::{fmt, ops::Range};

use super::{
    buffer::{StringBuffer, TOO_LONG},
    front::{self, Front},
    plain::{self, Plain},
};
use crate::{
    error::Damage,
    limits::VALUE_LEN_MAX,
    varint::{self, Reader, Span},
};

pub(super) const TAG_CONSTANT: u8 = 0x20;
pub(super) const TAG_PLAIN: u8 = 0x21;
pub(super) const TAG_FRONT: u8 = 0x22;
pub(super) const TAG_DICTIONARY: u8 = 0x23;
pub(super) const TAG_NUMBERED: u8 = 0x24;

/// A parsed string section without parts of strings.
#[derive(Debug)]
pub(crate) enum Simple {
    Constant(Span),
    Plain(Plain),
    Front(Box<Front>),
}

impl Simple {
    /// Reads the headers of a section of `count` strings (at least 1), after its tag.
    pub(super) fn parse(tag: u8, reader: &mut Reader, count: usize) -> Result<Self, Damage> {
        Ok(match tag {
            TAG_CONSTANT => {
                let len = reader.varint_max(VALUE_LEN_MAX, TOO_LONG.0)?;
                Self::Constant(reader.span(len)?)
            }
            TAG_PLAIN => Self::Plain(Plain::parse(reader, count)?),
            TAG_FRONT => Self::Front(Box::new(Front::parse(reader, count)?)),
            TAG_DICTIONARY | TAG_NUMBERED => {
                return Err(Damage("a string codec is nested where it may not be"));
            }
            _ => return Err(Damage("a string section has an unknown tag")),
        })
    }

    /// Reads the headers of a section that is a part of another one.
    pub(super) fn parse_part(reader: &mut Reader, count: usize) -> Result<Self, Damage> {
        let tag = reader.byte()?;
        Self::parse(tag, reader, count)
    }

    /// String `index`, which must be below the section's count. Returns it if the page has it as a
    /// whole; else returns `None` and replaces the content of `scratch` with it.
    pub(super) fn find<'p>(
        &self,
        page: &'p [u8],
        index: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<&'p [u8]>, Damage> {
        match self {
            Self::Constant(span) => Ok(Some(span.of(page))),
            Self::Plain(plain) => plain.get(page, index).map(Some),
            Self::Front(front) => front.find(page, index, scratch),
        }
    }

    /// Like [`Simple::find`], wherever the string is.
    pub(super) fn view<'a>(
        &self,
        page: &'a [u8],
        index: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Damage> {
        Ok(self.find(page, index, scratch)?.unwrap_or(scratch))
    }

    /// Calls `visit(index, string)` over `range` in order until it returns false.
    pub(super) fn scan(
        &self,
        page: &[u8],
        range: Range<usize>,
        visit: &mut dyn FnMut(usize, &[u8]) -> bool,
    ) -> Result<(), Damage> {
        match self {
            Self::Front(front) => front.scan(page, range, visit),
            Self::Plain(plain) => plain.scan(page, range, visit),
            Self::Constant(span) => {
                for index in range {
                    if !visit(index, span.of(page)) {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_len(&self) -> usize {
        match self {
            Self::Constant(_) => 0,
            Self::Plain(part) => part.heap_len(),
            Self::Front(part) => size_of::<Front>() + part.heap_len(),
        }
    }
}

/// For people: the codec and its parts.
impl fmt::Display for Simple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(span) => write!(f, "constant of {} bytes", span.len()),
            Self::Plain(part) => part.fmt(f),
            Self::Front(part) => part.fmt(f),
        }
    }
}

/// Reports whether all strings (at least one) are equal.
pub(super) fn is_constant(strings: &StringBuffer) -> bool {
    let first = strings.get(0);
    strings.iter().all(|string| string == first)
}

/// Appends `strings` (at least one) as the cheapest section without parts of strings.
pub(super) fn encode(strings: &StringBuffer, out: &mut Vec<u8>) {
    if is_constant(strings) {
        let first = strings.get(0);
        out.push(TAG_CONSTANT);
        varint::write(first.len() as u64, out);
        out.extend_from_slice(first);
        return;
    }
    let mut plain = vec![TAG_PLAIN];
    plain::encode(strings, &mut plain);
    let mut front = vec![TAG_FRONT];
    front::encode(strings, &mut front);
    let front_pays = front.len() < plain.len() - plain.len() / 16;
    out.extend_from_slice(if front_pays { &front } else { &plain });
}
