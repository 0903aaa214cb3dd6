//! The parts of an image that was split, as on media or on a file system with a limit.
//!
//! Parts have no heads, so the files joined by `cat` are the image. Each name says which part it is
//! and how many there are: `NAME.02-of-12`. All parts but the last have the same length. Where the
//! image has a Merkle tree, some leaves of each part are compared with it, so that parts that were
//! swapped or are of another image are noticed when the image is opened. Each part costs at most
//! three leaves of 64 KiB then.

use std::io;
use std::sync::Arc;

use shale_codec::merkle::leaf_hash;
use shale_format::merkle::{HASH_LEN, LEAF_LEN};

use crate::error::{Fault, ReadError};
use crate::files::place::Place;
use crate::storage::joined::JoinedSource;
use crate::storage::open::{LocatedImage, OffsetChoice};
use crate::storage::source::ByteSource;
use crate::trust::merkle;

/// Most parts of an image: each is an open file.
pub const PARTS_COUNT_MAX: u32 = 999;
/// Fewest bytes of a part but the last: it holds a leaf as a whole.
pub const PART_LEN_MIN: u64 = 2 * LEAF_LEN;

/// The name of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartName {
    /// The name before the number, which is that of the image.
    pub stem: Vec<u8>,
    /// The number of the part, from 1.
    pub number: u32,
    /// Number of parts, at least 2.
    pub count: u32,
}

impl PartName {
    /// Returns the name of a file, if it is the name of a part.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let dot = name.iter().rposition(|&byte| byte == b'.').filter(|&at| at > 0)?;
        let text = str::from_utf8(&name[dot + 1..]).ok()?;
        let (number, count) = text.split_once("-of-")?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if number.len() != count.len() || !is_number(number) || !is_number(count) {
            return None;
        }
        let (number, count) = (number.parse().ok()?, count.parse().ok()?);
        let is_valid = (2..=PARTS_COUNT_MAX).contains(&count) && (1..=count).contains(&number);
        let found = Self { stem: name[..dot].to_vec(), number, count };
        // Numbers have no more digits than they need.
        (is_valid && found.to_bytes() == name).then_some(found)
    }

    /// Returns the name of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let digits = self.count.to_string().len();
        let number = format!(".{:0digits$}-of-{}", self.number, self.count);
        [&self.stem[..], number.as_bytes()].concat()
    }
}

/// The parts of an image, joined.
pub(super) struct Joined {
    pub(super) source: Arc<dyn ByteSource>,
    /// Name of each part and its bytes.
    parts: Vec<(String, u64)>,
}

impl Joined {
    /// Opens all parts; `first` is the one at `place`, with the name `name`.
    ///
    /// # Errors
    /// It is not the first part, another is missing, or their lengths differ.
    pub(super) fn open(
        first: Arc<dyn ByteSource>,
        place: &dyn Place,
        name: &PartName,
    ) -> Result<Self, ReadError> {
        let shown = |name: &PartName| name.to_bytes().escape_ascii().to_string();
        let count = name.count;
        if name.number != 1 {
            let first = shown(&PartName { number: 1, ..name.clone() });
            return Err(wrong(format!(
                "{} is part {} of {count} of an image; name its first part, {first}",
                place.shown(),
                name.number
            )));
        }
        let len = first.len();
        let mut parts = vec![(shown(name), len)];
        let mut ranges = vec![(first, 0..len)];
        for number in 2..=count {
            let name = PartName { number, ..name.clone() };
            let place = place.beside(&name.to_bytes());
            let source = place.open().map_err(|error| {
                let is_missing = error.kind() == io::ErrorKind::NotFound;
                let what = if is_missing { "is missing" } else { "cannot be opened" };
                wrong(format!(
                    "part {number} of {count} of the image {what}: {}: {error}",
                    place.shown()
                ))
            })?;
            let found = source.len();
            let is_right = if number < count { found == len } else { (1..=len).contains(&found) };
            if !is_right {
                return Err(wrong(format!(
                    "part {number} of {count}, {}, has {found} bytes and part 1 has {len}: all \
                     parts but the last have the same length, and the last is not longer. A part \
                     is truncated or swapped with another; copy it again",
                    place.shown(),
                )));
            }
            parts.push((shown(&name), found));
            ranges.push((source, 0..found));
        }
        let joined = JoinedSource::new(ranges, 0).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { source: Arc::new(joined), parts })
    }

    /// Compares each part with the Merkle tree of the image. `image` is the source of the image, in
    /// which the bytes of the parts from `head_len` on are moved to `base_len`.
    ///
    /// # Errors
    /// The image is not complete, or a part holds something else.
    pub(super) fn check(
        &self,
        image: &Arc<dyn ByteSource>,
        (head_len, base_len): (u64, u64),
    ) -> Result<(), ReadError> {
        let count = self.parts.len();
        let found = match LocatedImage::find(image, OffsetChoice::Auto) {
            Ok(found) if found.recovery.is_none() => found,
            Err(error) if matches!(error.fault(), Fault::Io { .. }) => return Err(error),
            other => {
                let why = match other {
                    Ok(found) => found.recovery.map_or(String::new(), |recovery| recovery.reason),
                    Err(error) => error.to_string(),
                };
                return Err(wrong(format!(
                    "the {count} parts are not a whole image: the last one, {}, is truncated, or \
                     parts are swapped ({why}); copy them again",
                    self.parts[count - 1].0
                )));
            }
        };
        let whole = found.stored.clone().first(found.trailer.image_len);
        let tag = found.superblock.image_tag();
        // Without the tree, wrong parts show when they are read.
        let Ok(Some(tree)) = merkle::find(&whole, &found.trailer, tag) else { return Ok(()) };
        let mut start = 0;
        for (number, (name, len)) in self.parts.iter().enumerate() {
            let range = (start.max(head_len), start + len);
            start += len;
            // Where the part lies in the image.
            let moved = |at: u64| (at - head_len + base_len).checked_sub(found.start);
            let (Some(from), true) = (moved(range.0), range.0 < range.1) else { continue };
            let to = from + (range.1 - range.0);
            let leaves = from.div_ceil(LEAF_LEN)..to.min(tree.head.covered_len) / LEAF_LEN;
            if leaves.is_empty() {
                continue;
            }
            let last = leaves.end - 1;
            let mut looked_at = vec![leaves.start, leaves.start + (last - leaves.start) / 2, last];
            looked_at.dedup();
            let is_wrong = |leaf: &u64| -> Result<bool, ReadError> {
                let bytes = whole.read(leaf * LEAF_LEN, LEAF_LEN as usize)?;
                let Some(place) = tree.runs.places(*leaf..leaf + 1).next() else {
                    return Ok(false);
                };
                Ok(leaf_hash(&bytes)[..] != whole.read(place.start, HASH_LEN)?)
            };
            // Damage of a part of them is not worth refusing the others.
            let mut wrong_count = 0;
            for leaf in &looked_at {
                wrong_count += usize::from(is_wrong(leaf)?);
            }
            if wrong_count == looked_at.len() {
                return Err(wrong(format!(
                    "part {} of {count}, {name}, does not hold this part of the image: it is \
                     swapped with another, is of another image, or is damaged as a whole; copy it \
                     again",
                    number + 1
                )));
            }
        }
        Ok(())
    }
}

fn wrong(what: String) -> ReadError {
    Fault::Parts { what }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_say_which_and_how_many() {
        for name in ["a.shale.1-of-2", "a.shale.01-of-12", "a.012-of-999", "x.y.7-of-9"] {
            let found = PartName::parse(name.as_bytes()).unwrap();
            assert_eq!(found.to_bytes(), name.as_bytes());
        }
        let found = PartName::parse(b"a.shale.02-of-12").unwrap();
        assert_eq!((&found.stem[..], found.number, found.count), (&b"a.shale"[..], 2, 12));
        for name in [
            "a.shale",
            "a.1-of-1",
            "a.0-of-3",
            "a.4-of-3",
            "a.1-of-03",
            "a.001-of-012",
            "1-of-2",
            ".1-of-2",
            "a.1-of-",
            "a.-of-2",
            "a.+1-of-+2",
            "a.0001-of-1000",
            "a.1-of-2.shale",
        ] {
            assert_eq!(PartName::parse(name.as_bytes()), None, "{name}");
        }
    }
}
