//! How deep a check goes, and which part of an image it covers.
//!
//! A part is chosen by index alone. Nothing is remembered between checks, and every index belongs
//! to exactly one part of a division, so seven checks of one seventh each cover everything.

use std::str::FromStr;

/// How deep a check goes. Each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum CheckLevel {
    /// Superblock, section headers, trailers, root, hashes of the Merkle tree: a few reads.
    Structure,
    /// Every page and row of every table, and what must hold between them: all metadata.
    Tables,
    /// Every byte of the image against its checksums and hashes.
    Frames,
    /// Every frame decoded and compared with what was packed.
    #[default]
    Content,
}

impl CheckLevel {
    /// All levels, in order.
    pub const ALL: [CheckLevel; 4] =
        [CheckLevel::Structure, CheckLevel::Tables, CheckLevel::Frames, CheckLevel::Content];

    /// The name of the level.
    pub fn name(self) -> &'static str {
        match self {
            CheckLevel::Structure => "structure",
            CheckLevel::Tables => "tables",
            CheckLevel::Frames => "frames",
            CheckLevel::Content => "content",
        }
    }
}

/// A part of an image. It covers sections with the leaves in their payloads, other leaves in runs
/// of [`LEAVES_TAKEN`] and frames in runs of [`FRAMES_IN_RUN`]: of each, those whose index modulo
/// `of` is `part - 1`.
///
/// [`LEAVES_TAKEN`]: super::bytes::LEAVES_TAKEN
/// [`FRAMES_IN_RUN`]: super::frames::FRAMES_IN_RUN
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subset {
    part: u64,
    of: u64,
}

impl Subset {
    /// Everything.
    pub const ALL: Subset = Subset { part: 1, of: 1 };

    /// Returns part number `part` of `of`, counted from 1; `None` if the number is out of range.
    pub fn new(part: u64, of: u64) -> Option<Self> {
        (1 <= part && part <= of).then_some(Self { part, of })
    }

    /// True if the item with this index belongs to the part.
    pub fn has(self, index: u64) -> bool {
        index % self.of == self.part - 1
    }

    /// The number of items, out of `count`, that belong to the part.
    pub fn count_of(self, count: u64) -> u64 {
        (count + self.of - self.part) / self.of
    }

    /// True if the part is the whole image.
    pub fn is_all(self) -> bool {
        self.of == 1
    }
}

impl std::fmt::Display for Subset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

impl FromStr for Subset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| -> Option<u64> {
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
        };
        text.split_once('/')
            .and_then(|(part, of)| Some((number(part)?, number(of)?)))
            .filter(|&(_, of)| of <= 1 << 32)
            .and_then(|(part, of)| Self::new(part, of))
            .ok_or_else(|| format!("`{text}` is not a part; write 1/7 to 7/7 for sevenths"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_in_exactly_one_part() {
        for of in 1..9 {
            let parts: Vec<Subset> = (1..=of).filter_map(|part| Subset::new(part, of)).collect();
            for index in 0..40 {
                let holders = parts.iter().filter(|part| part.has(index)).count();
                assert_eq!(holders, 1, "index {index} of {of} parts");
            }
            for part in &parts {
                let counted = (0..40).filter(|&index| part.has(index)).count() as u64;
                assert_eq!(part.count_of(40), counted, "{part}");
            }
        }
    }

    #[test]
    fn parts_are_read_from_text_and_nothing_else_is() {
        assert_eq!("2/7".parse(), Ok(Subset { part: 2, of: 7 }));
        for wrong in ["", "0/7", "8/7", "7", "1/", "/1", "a/b", "+1/7", "1/99999999999999"] {
            assert!(wrong.parse::<Subset>().is_err(), "{wrong}");
        }
    }
}
