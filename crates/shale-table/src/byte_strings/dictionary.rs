//! Distinct strings: string `i` is `values[codes[i]]`. For names that are repeated, such as those
//! that every directory of a kind has.
//!
//! Layout: `count` varint (1 to the number of strings); `values`, the distinct strings, a nested
//! string section; `codes`, an integer section of tier 4. A code that is not below the count is
//! damage. The writer lists values in order of first use, so they keep the order of the column,
//! and new ones have rising codes.

use std::{collections::HashMap, fmt};

use super::{
    buffer::StringBuffer,
    simple::{self, Simple},
};
use crate::{
    error::Damage,
    integers::{self, Integers, TIER_COLUMN},
    varint::{self, Reader},
};

#[derive(Debug)]
pub(crate) struct Dictionary {
    count: usize,
    values: Simple,
    codes: Integers,
}

impl Dictionary {
    pub(super) fn parse(reader: &mut Reader, count: usize) -> Result<Self, Damage> {
        let value_count = reader.varint_max(count, "a dictionary has more values than are used")?;
        if value_count == 0 {
            return Err(Damage("a dictionary is empty"));
        }
        Ok(Self {
            count: value_count,
            values: Simple::parse_part(reader, value_count)?,
            codes: Integers::parse(reader, count, TIER_COLUMN)?,
        })
    }

    pub(super) fn find<'p>(
        &self,
        page: &'p [u8],
        index: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<&'p [u8]>, Damage> {
        let code = self.codes.get(page, index)?;
        if code >= self.count as u64 {
            return Err(Damage("a code is beyond its dictionary"));
        }
        self.values.find(page, code as usize, scratch)
    }

    pub(super) fn heap_len(&self) -> usize {
        self.values.heap_len() + self.codes.heap_len()
    }
}

impl fmt::Display for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dictionary of {}({}, {})", self.count, self.values, self.codes)
    }
}

/// False if the distinct strings are too many to be worth it.
pub(super) fn encode(strings: &StringBuffer, out: &mut Vec<u8>) -> bool {
    let mut known: HashMap<&[u8], u64> = HashMap::new();
    let mut distinct = StringBuffer::default();
    let mut codes = Vec::with_capacity(strings.len());
    for string in strings.iter() {
        let code = *known.entry(string).or_insert_with(|| {
            distinct.push(string);
            distinct.len() as u64 - 1
        });
        if distinct.len() > strings.len() / 2 {
            return false;
        }
        codes.push(code);
    }
    varint::write(distinct.len() as u64, out);
    simple::encode(&distinct, out);
    integers::encode(&codes, TIER_COLUMN, out);
    true
}
