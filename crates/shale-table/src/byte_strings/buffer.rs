//! Strings that wait to be encoded, and what the codecs of strings share.

use crate::error::Damage;

pub(super) const TOO_LONG: Damage = Damage("a byte string is longer than the limit");

/// How many bytes two strings share at their start.
pub(super) fn shared_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Strings to encode, end to end in one buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct StringBuffer {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<u64>,
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
