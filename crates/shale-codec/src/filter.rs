//! Filters: reversible changes of plain bytes before compression.
//!
//! Most filters are for machine code and work in place. A call names its target by distance, so
//! calls of one function from many places all look different. A filter turns the distance into the
//! target's position in the bytes; then these calls are equal, and compress as repetitions. Lengths
//! do not change, and every byte string comes back as it was: a filter on bytes that are not
//! machine code costs compression, never correctness.
//!
//! The filter of lines (`lines.rs`) makes a shorter form of text. The length of that form precedes
//! the compressed bytes. The filter of arrays (`array.rs`) makes a form of records that is as long
//! as they are; the shape of the records precedes the compressed bytes. The filter of samples
//! (`samples.rs`) compresses them itself, and only what is around them is left for the codec.

use std::fmt;

use crate::codec::Codec;
use crate::{bcj_arm, bcj_arm64, bcj_x86};

/// What is done to a frame's bytes before compression. The discriminant is the number in images:
/// never renumber, only add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum Filter {
    /// Nothing.
    #[default]
    None = 0,
    /// Calls and jumps of 32-bit and 64-bit x86.
    BcjX86 = 1,
    /// Calls and page addresses of 64-bit ARM.
    BcjArm64 = 2,
    /// Calls of 32-bit ARM (not Thumb).
    BcjArm = 3,
    /// Lines that resemble each other, as columns.
    Lines = 4,
    /// Arrays of records, as planes.
    Array = 5,
    /// Samples of sound and pictures, as residuals.
    Samples = 6,
}

impl Filter {
    /// All filters, in the order of their numbers.
    pub const ALL: [Filter; 7] = [
        Filter::None,
        Filter::BcjX86,
        Filter::BcjArm64,
        Filter::BcjArm,
        Filter::Lines,
        Filter::Array,
        Filter::Samples,
    ];

    /// Returns the filter with this number, or `None` for a number that this version does not know.
    pub const fn from_id(id: u8) -> Option<Filter> {
        match id {
            0 => Some(Filter::None),
            1 => Some(Filter::BcjX86),
            2 => Some(Filter::BcjArm64),
            3 => Some(Filter::BcjArm),
            4 => Some(Filter::Lines),
            5 => Some(Filter::Array),
            6 => Some(Filter::Samples),
            _ => None,
        }
    }

    /// The number in images.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The name in settings and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Filter::None => "none",
            Filter::BcjX86 => "bcj-x86",
            Filter::BcjArm64 => "bcj-arm64",
            Filter::BcjArm => "bcj-arm",
            Filter::Lines => "lines",
            Filter::Array => "array",
            Filter::Samples => "samples",
        }
    }

    /// Returns the filter with this [`Filter::name`].
    pub fn from_name(name: &str) -> Option<Filter> {
        Filter::ALL.into_iter().find(|filter| filter.name() == name)
    }

    /// Reports whether bytes keep their length and position, so that references can be filtered
    /// alike. A frame with another filter has no references.
    pub const fn is_in_place(self) -> bool {
        !matches!(self, Filter::Lines | Filter::Array | Filter::Samples)
    }

    /// Filters in place, before compression. Makes one pass and needs no memory. Does nothing for a
    /// filter that does not work in place; see [`crate::lines_form`], [`crate::array_form`] and
    /// [`crate::samples_form`].
    pub fn apply(self, bytes: &mut [u8]) {
        match self {
            Filter::None | Filter::Lines | Filter::Array | Filter::Samples => {}
            Filter::BcjX86 => bcj_x86::apply(bytes),
            Filter::BcjArm64 => bcj_arm64::apply(bytes),
            Filter::BcjArm => bcj_arm::apply(bytes),
        }
    }

    /// Undoes [`Filter::apply`] on exactly the same range of bytes.
    /// [`crate::Decoder::decode_filtered`] undoes every filter.
    pub fn reverse(self, bytes: &mut [u8]) {
        self.reverse_part(bytes, 0);
    }

    /// Undoes [`Filter::apply`] on a part of the bytes that begins at `start`. It begins and ends
    /// where [`Filter::last_cut`] says, or where the bytes begin and end.
    pub(crate) fn reverse_part(self, bytes: &mut [u8], start: usize) {
        match self {
            Filter::None | Filter::Lines | Filter::Array | Filter::Samples => {}
            Filter::BcjX86 => bcj_x86::reverse(bytes, start),
            Filter::BcjArm64 => bcj_arm64::reverse(bytes, start),
            Filter::BcjArm => bcj_arm::reverse(bytes, start),
        }
    }

    /// Returns the last place from `start` on where the front of filtered bytes can be cut, so that
    /// what is before it can be undone alone.
    pub(crate) fn last_cut(self, filtered: &[u8], start: usize) -> usize {
        match self {
            Filter::None => filtered.len(),
            Filter::BcjX86 => bcj_x86::last_cut(filtered, start),
            Filter::BcjArm64 | Filter::BcjArm => (filtered.len() & !3).max(start),
            Filter::Lines | Filter::Array | Filter::Samples => start,
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Returns the numbers of a codec and a filter as text: `zstd`, `zstd+bcj-x86`. A number that this
/// version does not know stays a number.
pub fn codec_text(codec: u8, filter: u8) -> String {
    let codec = Codec::from_id(codec).map_or(format!("codec {codec}"), |c| c.name().to_owned());
    match Filter::from_id(filter) {
        Some(Filter::None) => codec,
        Some(filter) => format!("{codec}+{}", filter.name()),
        None => format!("{codec}+filter {filter}"),
    }
}
