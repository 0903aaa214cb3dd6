//! The shape of samples, and the header that states it.

/// Most channels.
pub(super) const CHANNEL_COUNT_MAX: usize = 16;
/// Logarithm of the length of blocks that the encoder makes, in groups.
pub(super) const BLOCK_LEN_LOG: u32 = 12;
/// Most tables of frequencies in a frame.
pub(super) const TABLE_COUNT_MAX: usize = 32;
/// Logarithms of block lengths.
pub(super) const BLOCK_LEN_LOGS: std::ops::RangeInclusive<u32> = 8..=16;
/// States of the entropy coder. They take turns, so that a processor can work at all of them.
pub(super) const STATES_AT_ONCE: usize = 4;

/// What the bits of a sample mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// An integer in two's complement.
    Signed = 0,
    /// An integer from 0 on.
    Unsigned = 1,
    /// A number of IEEE 754.
    Float = 2,
}

/// Samples in groups: one sample of each channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleShape {
    pub(super) width: u8,
    pub(super) channels: u8,
    pub(super) is_big_endian: bool,
    pub(super) meaning: Meaning,
}

impl SampleShape {
    /// Describes groups of `channels` samples of `width` bytes. Returns nothing for widths other
    /// than 1, 2, 3, 4 and 8, and for no channels or more than 16.
    pub fn new(
        width: usize,
        channels: usize,
        is_big_endian: bool,
        meaning: Meaning,
    ) -> Option<SampleShape> {
        let fits = matches!(width, 1..=4 | 8) && (1..=CHANNEL_COUNT_MAX).contains(&channels);
        fits.then_some(SampleShape {
            width: width as u8,
            channels: channels as u8,
            is_big_endian,
            meaning,
        })
    }

    /// Bytes of a group.
    pub fn group_len(self) -> usize {
        usize::from(self.width) * usize::from(self.channels)
    }

    pub(super) fn bits(self) -> u32 {
        8 * u32::from(self.width)
    }
}

/// Where the samples of a frame are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleLayout {
    /// The samples.
    pub shape: SampleShape,
    /// Bytes before the first of them.
    pub head_len: usize,
    /// Bytes of them; what is more than whole groups is treated as what follows.
    pub samples_len: usize,
    /// Groups of a row of a picture; 0 if there are no rows.
    pub row_len: usize,
}

/// How much work the encoder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Effort {
    /// Most samples of the channel itself that take part.
    pub(super) own_count_max: usize,
    pub(super) other_count: usize,
    pub(super) row_reach: usize,
}

impl Effort {
    /// For levels that are fast.
    pub const FAST: Effort = Effort { own_count_max: 8, other_count: 2, row_reach: 1 };
    /// For all others.
    pub const THOROUGH: Effort = Effort { own_count_max: 32, other_count: 4, row_reach: 3 };

    /// Returns how many earlier samples of the channel predict a sample of `bits` bits. More of
    /// them take longer to decode, and short samples gain less.
    pub(super) fn own_count_of(self, bits: u32) -> usize {
        self.own_count_max.min(if bits <= 16 { 12 } else { 32 })
    }
}

/// What is before the payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(super) shape: SampleShape,
    pub(super) block_log: u32,
    pub(crate) head_len: usize,
    pub(super) group_count: usize,
    pub(super) row_len: usize,
}

impl Header {
    pub(super) fn block_len(&self) -> usize {
        1 << self.block_log
    }

    /// Bytes of the samples.
    pub(crate) fn samples_len(&self) -> usize {
        self.group_count * self.shape.group_len()
    }

    /// Splits stored bytes into header, payload and the codec's bytes. Returns nothing if the
    /// header is damaged or does not fit a frame of `plain_len` bytes.
    pub(crate) fn split(stored: &[u8], plain_len: usize) -> Option<(Header, &[u8], &[u8])> {
        let (&[width, channels, ways, block_log], mut rest) = stored.split_first_chunk()?;
        let meaning = match ways >> 1 {
            0 => Meaning::Signed,
            1 => Meaning::Unsigned,
            2 => Meaning::Float,
            _ => return None,
        };
        let (width, channels) = (usize::from(width), usize::from(channels));
        let shape = SampleShape::new(width, channels, ways & 1 == 1, meaning)?;
        let mut number = || {
            let mut value = 0u64;
            for place in 0..5 {
                let (&byte, after) = rest.split_first()?;
                rest = after;
                value |= u64::from(byte & 0x7F) << (7 * place);
                if byte < 0x80 {
                    return usize::try_from(value).ok();
                }
            }
            None
        };
        let (head_len, group_count, row_len) = (number()?, number()?, number()?);
        let payload_len = number()?;
        let samples_len = group_count.checked_mul(shape.group_len())?;
        let fits = group_count > 0
            && row_len <= group_count
            && head_len.checked_add(samples_len)? <= plain_len
            && BLOCK_LEN_LOGS.contains(&u32::from(block_log));
        let (payload, rest) = rest.split_at_checked(payload_len)?;
        let block_log = block_log.into();
        let header = Header { shape, block_log, head_len, group_count, row_len };
        fits.then_some((header, payload, rest))
    }
}
