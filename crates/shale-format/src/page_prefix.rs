//! The head of a stored page that is compressed with another page as its prefix.
//!
//! A page of codec 3 begins with a reference to the page whose plain bytes are its prefix. That
//! page lies before it, so no page needs itself. This file follows the chain and bounds its length;
//! callers read, check and decode each page.

use crate::error::FormatError;
use crate::limits::PAGE_PREFIX_DEPTH_MAX;
use crate::root::{PageRefRaw, decode_page_ref, encode_page_ref};
use shale_table::PageRef;
use zerocopy::{FromBytes, IntoBytes};

/// Codec of a page that is compressed with the page as its prefix which it names.
pub const PAGE_WITH_PREFIX: u8 = 3;

/// Bytes of the reference at the start of such a page.
pub const PAGE_PREFIX_LEN: usize = size_of::<PageRefRaw>();

const STRUCTURE: &str = "prefix of a page";

/// Returns the start of a page whose prefix is `prefix`.
pub fn encode(prefix: &PageRef) -> [u8; PAGE_PREFIX_LEN] {
    let mut out = [0; PAGE_PREFIX_LEN];
    out.copy_from_slice(encode_page_ref(prefix).as_bytes());
    out
}

/// What a page is compressed with as its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix<'p> {
    /// Nothing.
    None,
    /// The dictionary of its table.
    Dictionary,
    /// The plain bytes of another page.
    Page(&'p [u8]),
}

/// Returns the plain bytes of a page. Calls `stored` for the page and for those that are its
/// prefix, at most [`PAGE_PREFIX_DEPTH_MAX`], and then `decode` with the compressed bytes of each.
///
/// # Errors
/// Those of `stored` and `decode`; a reference is not valid, or too many pages need each other.
pub fn plain_bytes<E: From<FormatError>>(
    page: &PageRef,
    mut stored: impl FnMut(&PageRef) -> Result<Vec<u8>, E>,
    mut decode: impl FnMut(&PageRef, Prefix<'_>, &[u8]) -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let mut above: Vec<(PageRef, Vec<u8>)> = Vec::new();
    let mut at = *page;
    let mut plain = loop {
        let bytes = stored(&at)?;
        match at.codec {
            0 => break bytes, // `check_page_ref` checks that the lengths agree.
            1 => break decode(&at, Prefix::None, &bytes)?,
            2 => break decode(&at, Prefix::Dictionary, &bytes)?,
            _ if above.len() == PAGE_PREFIX_DEPTH_MAX => {
                return Err(E::from(FormatError::Field {
                    structure: STRUCTURE,
                    field: "number of pages that need each other",
                    found: above.len() as u64 + 1,
                    allowed: "at most 6",
                }));
            }
            _ => {
                let (prefix, _) = split(&at, &bytes)?;
                above.push((at, bytes));
                at = prefix;
            }
        }
    };
    for (page, bytes) in above.iter().rev() {
        let (_, compressed) = split(page, bytes)?;
        plain = decode(page, Prefix::Page(&plain), compressed)?;
    }
    Ok(plain)
}

/// Splits what is stored of `page`: the page that is its prefix, and the compressed bytes.
///
/// # Errors
/// There are too few bytes, the reference is not valid, or the prefix does not lie before the page.
pub fn split<'s>(page: &PageRef, stored: &'s [u8]) -> Result<(PageRef, &'s [u8]), FormatError> {
    let (raw, rest) = PageRefRaw::read_from_prefix(stored).map_err(|_| FormatError::Short {
        structure: STRUCTURE,
        expected: PAGE_PREFIX_LEN as u64,
        found: stored.len() as u64,
    })?;
    let prefix = decode_page_ref(&raw)?;
    // `decode_page_ref` checked that this does not overflow.
    if prefix.offset + u64::from(prefix.stored_len) > page.offset {
        return Err(FormatError::Field {
            structure: STRUCTURE,
            field: "offset",
            found: prefix.offset,
            allowed: "before the page",
        });
    }
    Ok((prefix, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_lies_before_its_page() {
        let page = PageRef { offset: 5000, stored_len: 100, codec: 3, ..PageRef::default() };
        let prefix = PageRef {
            offset: 4000,
            checksum: 7,
            stored_len: 1000,
            plain_len: 3000,
            codec: 2,
            ..PageRef::default()
        };
        let mut stored = encode(&prefix).to_vec();
        stored.extend(b"rest");
        assert_eq!(split(&page, &stored), Ok((prefix, &b"rest"[..])));
        assert!(split(&PageRef { offset: 4999, ..page }, &stored).is_err());
        assert!(split(&page, &stored[..31]).is_err());
        for (place, value) in [(25, 1), (24, 4), (7, 0x80), (19, 0x80)] {
            let mut wrong = stored.clone();
            wrong[place] ^= value;
            assert!(split(&page, &wrong).is_err(), "byte {place}");
        }
    }
}
