//! Filters: reversible rewriting before compression.
//!
//! Most are for machine code and work in place. A call names its target by distance, so calls of
//! one function from many places look all different. A filter rewrites the distance as the target's
//! place counted from the start of the bytes; then they look alike, and compress as repetitions.
//! Lengths do not change, and every byte string comes back as it was, whatever it is: a filter on
//! bytes that are no machine code costs compression, never correctness.
//!
//! The filter of lines (`lines.rs`) makes another form of text, which is shorter; the length of
//! that form stands before the compressed bytes.

use std::fmt;

use crate::{bcj_arm, bcj_arm64, bcj_x86};

/// What is done to a frame's bytes before compression. The number is the id stored in images:
/// never renumber, only add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
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
}

impl Filter {
    /// All filters, in the order of their ids.
    pub const ALL: [Filter; 5] =
        [Filter::None, Filter::BcjX86, Filter::BcjArm64, Filter::BcjArm, Filter::Lines];

    /// The filter of a stored id, or `None` for an id that this version does not know.
    pub const fn from_id(id: u8) -> Option<Filter> {
        match id {
            0 => Some(Filter::None),
            1 => Some(Filter::BcjX86),
            2 => Some(Filter::BcjArm64),
            3 => Some(Filter::BcjArm),
            4 => Some(Filter::Lines),
            _ => None,
        }
    }

    /// The id kept in images.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The name used in settings and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Filter::None => "none",
            Filter::BcjX86 => "bcj-x86",
            Filter::BcjArm64 => "bcj-arm64",
            Filter::BcjArm => "bcj-arm",
            Filter::Lines => "lines",
        }
    }

    /// The filter of a name, as [`Filter::name`] gives it.
    pub fn from_name(name: &str) -> Option<Filter> {
        Filter::ALL.into_iter().find(|filter| filter.name() == name)
    }

    /// Whether bytes keep their length and place, so that references can be filtered alike. A frame
    /// with another filter has no references.
    pub const fn is_in_place(self) -> bool {
        !matches!(self, Filter::Lines)
    }

    /// Rewrites in place, before compression. One pass, no memory. Nothing for a filter that does
    /// not work in place: see [`crate::lines_form`].
    pub fn apply(self, bytes: &mut [u8]) {
        match self {
            Filter::None | Filter::Lines => {}
            Filter::BcjX86 => bcj_x86::apply(bytes),
            Filter::BcjArm64 => bcj_arm64::apply(bytes),
            Filter::BcjArm => bcj_arm::apply(bytes),
        }
    }

    /// Undoes [`Filter::apply`] on exactly the same range of bytes.
    /// [`crate::Decoder::decode_filtered`] undoes all.
    pub fn reverse(self, bytes: &mut [u8]) {
        match self {
            Filter::None | Filter::Lines => {}
            Filter::BcjX86 => bcj_x86::reverse(bytes),
            Filter::BcjArm64 => bcj_arm64::reverse(bytes),
            Filter::BcjArm => bcj_arm::reverse(bytes),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
