//! One row of the frame table, typed and checked against the limits.

use crate::error::FormatError;
use crate::limits::{FRAME_PLAIN_LEN_MAX, REFERENCE_COUNT_MAX, REFERENCE_DEPTH_MAX};
use crate::schema::frames;
use shale_table::Value;

/// What kind of data a frame holds: statistics and choice of codec, never needed to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Category {
    /// Nothing special is known.
    #[default]
    Generic = 0,
    /// Text-like.
    Text = 1,
    /// Machine code.
    Code = 2,
    /// PCM audio.
    Audio = 3,
    /// FITS and raw sensor images.
    Sensor = 4,
    /// Compressed already.
    Incompressible = 5,
    /// Bytes that only serve as references; no extent leads here.
    Dictionary = 6,
    /// Arrays of numbers.
    Array = 7,
}

impl Category {
    /// All categories, by number.
    pub const ALL: [Self; 8] = [
        Self::Generic,
        Self::Text,
        Self::Code,
        Self::Audio,
        Self::Sensor,
        Self::Incompressible,
        Self::Dictionary,
        Self::Array,
    ];

    /// The categories that a frame of this version's writer can get.
    pub const ASSIGNED: [Self; 7] = [
        Self::Generic,
        Self::Text,
        Self::Code,
        Self::Audio,
        Self::Sensor,
        Self::Array,
        Self::Incompressible,
    ];

    /// Returns the category with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.name() == name)
    }

    /// Returns the category with this number. Unknown numbers are generic, as decoding does not
    /// depend on it.
    pub fn from_id(id: u64) -> Self {
        match id {
            1 => Self::Text,
            2 => Self::Code,
            3 => Self::Audio,
            4 => Self::Sensor,
            5 => Self::Incompressible,
            6 => Self::Dictionary,
            7 => Self::Array,
            _ => Self::Generic,
        }
    }

    /// The name in the glossary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Text => "text",
            Self::Code => "code",
            Self::Audio => "audio",
            Self::Sensor => "sensor",
            Self::Incompressible => "incompressible",
            Self::Dictionary => "dictionary",
            Self::Array => "array",
        }
    }
}

/// A frame: where it is stored and how it becomes plain bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameRecord {
    /// Offset of the plain bytes in stream space.
    pub plain_start: u64,
    /// Plain bytes: the next row's `plain_start` less this one's.
    pub plain_len: u64,
    /// Offset of the stored bytes from the start of the image.
    pub stored_offset: u64,
    /// Stored bytes.
    pub stored_len: u64,
    /// Codec number (`shale_codec::Codec`).
    pub codec: u8,
    /// Filter number (`shale_codec::Filter`).
    pub filter: u8,
    /// Category number.
    pub category: u64,
    /// Longest chain of references below.
    pub depth: u8,
    /// First row in the table of references.
    pub reference_first: u64,
    /// Number of references.
    pub reference_count: u32,
    /// XXH3-64 of the stored bytes.
    pub stored_sum: u64,
    /// XXH3-64 of the plain bytes.
    pub plain_sum: u64,
}

impl FrameRecord {
    /// Returns the row for a table builder. The next row gives `plain_len`.
    pub fn row(&self) -> [Value<'static>; 10] {
        [
            Value::U64(self.plain_start),
            Value::U64(self.stored_offset),
            Value::U64(self.stored_len),
            Value::U64(u64::from(self.codec) | u64::from(self.filter) << 8),
            Value::U64(self.category),
            Value::U64(u64::from(self.depth)),
            Value::U64(self.reference_first),
            Value::U64(u64::from(self.reference_count)),
            Value::U64(self.stored_sum),
            Value::U64(self.plain_sum),
        ]
    }

    /// Makes a record of the columns of its row and the `plain_start` of the next row.
    ///
    /// # Errors
    /// A value is beyond its limit, or values contradict each other.
    pub fn from_columns(columns: &[u64; 10], next_plain_start: u64) -> Result<Self, FormatError> {
        let field = |field, found, allowed| {
            Err(FormatError::Field { structure: "frame table row", field, found, allowed })
        };
        let plain_start = columns[frames::PLAIN_START];
        let plain_len = match next_plain_start.checked_sub(plain_start) {
            Some(len) if len <= FRAME_PLAIN_LEN_MAX => len,
            _ => {
                return field("next plain start", next_plain_start, "plain start + at most 64 MiB");
            }
        };
        let stored_len = columns[frames::STORED_LEN];
        // A writer stores a frame plain if its codec does not make it smaller.
        if stored_len > plain_len {
            return field("stored length", stored_len, "at most the plain length");
        }
        let codec = columns[frames::CODEC];
        if codec > 0xffff {
            return field("codec", codec, "two bytes: codec and filter");
        }
        let depth = columns[frames::DEPTH];
        if depth > u64::from(REFERENCE_DEPTH_MAX) {
            return field("depth", depth, "at most 8");
        }
        let reference_count = columns[frames::REFERENCE_COUNT];
        if reference_count > u64::from(REFERENCE_COUNT_MAX) {
            return field("reference count", reference_count, "at most 16");
        }
        if (reference_count == 0) != (depth == 0) {
            return field("depth", depth, "0 exactly when there are no references");
        }
        if columns[frames::STORED_OFFSET].checked_add(stored_len).is_none() {
            return field("stored offset", columns[frames::STORED_OFFSET], "inside the image");
        }
        Ok(Self {
            plain_start,
            plain_len,
            stored_offset: columns[frames::STORED_OFFSET],
            stored_len,
            codec: codec as u8,
            filter: (codec >> 8) as u8,
            category: columns[frames::CATEGORY],
            depth: depth as u8,
            reference_first: columns[frames::REFERENCE_FIRST],
            reference_count: reference_count as u32,
            stored_sum: columns[frames::STORED_SUM],
            plain_sum: columns[frames::PLAIN_SUM],
        })
    }
}
