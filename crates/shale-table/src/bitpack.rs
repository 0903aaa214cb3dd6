//! Integers of one fixed width, laid end to end as a little-endian bit string: value `i` is bits
//! `i * width .. (i + 1) * width`, where bit `b` is bit `b % 8` of byte `b / 8`.
//!
//! Reading takes the page and the section's start, not the section's bytes: the common case then
//! loads eight bytes at once even near a section's end. It never reads outside the page; that the
//! section is as long as it must be is checked when the page is parsed.

use crate::error::Damage;

/// Bytes that `count` values of `width` bits take.
pub(crate) fn packed_len(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Bits that `value` needs; 0 for 0.
pub(crate) fn width_of(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// Value `index` of the section that starts at byte `start` of `page`. `width` is 0 to 64.
#[inline]
pub(crate) fn get(page: &[u8], start: usize, index: usize, width: u32) -> Result<u64, Damage> {
    if width == 0 {
        return Ok(0);
    }
    let bit = index * width as usize;
    let byte = start + bit / 8;
    let shift = (bit % 8) as u32;
    let mask = u64::MAX >> (64 - width);
    if let Some(chunk) = page.get(byte..).and_then(|rest| rest.first_chunk::<9>()) {
        let low = u64::from_le_bytes(*chunk.first_chunk::<8>().unwrap_or(&[0; 8]));
        let mut value = low >> shift;
        if shift + width > 64 {
            value |= u64::from(chunk[8]) << (64 - shift);
        }
        return Ok(value & mask);
    }
    let needed = (shift + width).div_ceil(8) as usize;
    let bytes = page.get(byte..byte + needed).ok_or(Damage("packed values end early"))?;
    let wide = bytes.iter().rev().fold(0u128, |wide, &byte| wide << 8 | u128::from(byte));
    Ok((wide >> shift) as u64 & mask)
}

/// Values `first .. first + out.len()`, as by [`get`].
pub(crate) fn read(
    page: &[u8],
    start: usize,
    first: usize,
    width: u32,
    out: &mut [u64],
) -> Result<(), Damage> {
    if width == 0 {
        out.fill(0);
        return Ok(());
    }
    let mask = u64::MAX >> (64 - width);
    let mut bit = first * width as usize;
    for (i, value) in out.iter_mut().enumerate() {
        // Up to 57 bits lie in the eight bytes from the one they start in.
        match page.get(start + bit / 8..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(chunk) if width <= 57 => {
                *value = u64::from_le_bytes(*chunk) >> (bit % 8) & mask;
            }
            _ => *value = get(page, start, first + i, width)?,
        }
        bit += width as usize;
    }
    Ok(())
}

/// Appends `values`, each of which must fit in `width` bits, filled up to a whole byte.
pub(crate) fn write(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let mut pending = 0u128;
    let mut pending_bits = 0u32;
    for value in values {
        debug_assert!(width_of(value) <= width);
        pending |= u128::from(value) << pending_bits;
        pending_bits += width;
        while pending_bits >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            pending_bits -= 8;
        }
    }
    if pending_bits > 0 {
        out.push(pending as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_width_round_trips_at_any_place(
            values in prop::collection::vec(any::<u64>(), 1..200),
            width in 1u32..=64,
            before in 0usize..9,
            after in 0usize..12,
        ) {
            let values: Vec<u64> = values.iter().map(|v| v >> (64 - width)).collect();
            let mut page = vec![0xa5; before];
            write(values.iter().copied(), width, &mut page);
            prop_assert_eq!(page.len(), before + packed_len(values.len(), width));
            page.resize(page.len() + after, 0xff);
            for (i, &value) in values.iter().enumerate() {
                prop_assert_eq!(get(&page, before, i, width), Ok(value));
            }
            let mut all = vec![0; values.len()];
            read(&page, before, 0, width, &mut all).unwrap();
            prop_assert_eq!(all, values);
        }
    }

    #[test]
    fn reading_past_the_page_is_an_error() {
        assert!(get(&[0; 4], 0, 4, 8).is_err());
        assert!(get(&[0; 4], 9, 0, 1).is_err());
        assert!(get(&[0; 4], 0, 0, 33).is_err());
        assert_eq!(get(&[0xff; 4], 3, 0, 8), Ok(0xff));
    }
}
