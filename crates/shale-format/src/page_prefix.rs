//! The heads of stored pages that need another page.
//!
//! A page of codec 3 begins with a reference to the page whose plain bytes are its prefix, a page
//! of codec 4 with one to the page that it patches. That page lies before it, so none needs itself.
//! This file follows the chain and bounds its length; callers read, check and decode each page.
//! Patched pages have rows, but no certain plain bytes, so none is a prefix.

use crate::error::FormatError;
use crate::limits::{PAGE_PATCH_DEPTH_MAX, PAGE_PREFIX_DEPTH_MAX};
use crate::root::{PageRefRaw, check_page_ref, decode_page_ref, encode_page_ref};
use shale_table::{PageRef, Patched, TableError, varint};
use zerocopy::{FromBytes, IntoBytes};

/// Codec of a page that is compressed with the page as its prefix which it names.
pub const PAGE_WITH_PREFIX: u8 = 3;

/// Bytes of the reference at the start of such a page.
pub const PAGE_PREFIX_LEN: usize = size_of::<PageRefRaw>();

/// Codec of a page that is a patch of the page which it names.
pub const PAGE_PATCH: u8 = 4;

/// Most bytes of the head of such a page.
pub const PATCH_HEAD_LEN_MAX: usize = 2 * VARINT_LEN_MAX + 2 * 5 + 8 + 2;

/// Most bytes of a varint of 64 bits.
const VARINT_LEN_MAX: usize = 10;

const STRUCTURE: &str = "prefix of a page";
const PATCH: &str = "head of a patch of a page";

/// The head of a page of codec 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatchHead {
    /// How many pages came before it in a row of pages that patch each other. Helps writers to
    /// choose bases; readers ignore it.
    pub generation: u64,
    /// The page that is patched.
    pub base: PageRef,
    /// Whether the patch is compressed.
    pub is_compressed: bool,
}

impl PatchHead {
    /// Returns the head as it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PATCH_HEAD_LEN_MAX);
        varint::write(self.generation, &mut out);
        varint::write(self.base.offset, &mut out);
        out.extend_from_slice(&self.base.checksum.to_le_bytes());
        varint::write(self.base.stored_len.into(), &mut out);
        varint::write(self.base.plain_len.into(), &mut out);
        out.extend([self.base.codec, u8::from(self.is_compressed)]);
        out
    }

    /// Splits what is stored of `page`, or the start of it: the head and the rest.
    ///
    /// # Errors
    /// There are too few bytes, or the head is not valid, or the base does not lie before the page.
    pub fn split<'s>(page: &PageRef, stored: &'s [u8]) -> Result<(Self, &'s [u8]), FormatError> {
        let field =
            |field, found, allowed| FormatError::Field { structure: PATCH, field, found, allowed };
        let short =
            || FormatError::Short { structure: PATCH, expected: 15, found: stored.len() as u64 };
        let mut rest = stored;
        let generation = varint::take(&mut rest).ok_or_else(short)?;
        let offset = varint::take(&mut rest).ok_or_else(short)?;
        let (checksum, after) = rest.split_first_chunk().ok_or_else(short)?;
        rest = after;
        let mut narrow = || {
            let value = varint::take(&mut rest).ok_or_else(short)?;
            u32::try_from(value).map_err(|_| field("length", value, "below 2^32"))
        };
        let (stored_len, plain_len) = (narrow()?, narrow()?);
        let (&[codec, is_compressed], rest) = rest.split_first_chunk().ok_or_else(short)?;
        if is_compressed > 1 {
            return Err(field("codec of the patch", is_compressed.into(), "0 or 1"));
        }
        let checksum = u64::from_le_bytes(*checksum);
        let base = PageRef { offset, checksum, stored_len, plain_len, codec, ..PageRef::default() };
        check_page_ref(&base)?;
        // `check_page_ref` checked that this does not overflow.
        if base.offset + u64::from(base.stored_len) > page.offset {
            return Err(field("offset", base.offset, "before the page"));
        }
        Ok((Self { generation, base, is_compressed: is_compressed == 1 }, rest))
    }
}

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

/// Returns the plain bytes of a page. Calls `stored` for the page and for those that it needs, at
/// most [`PAGE_PATCH_DEPTH_MAX`] and [`PAGE_PREFIX_DEPTH_MAX`], and then `decode` with the
/// compressed bytes of each.
///
/// # Errors
/// Those of `stored` and `decode`; a reference is not valid, or too many pages need each other.
pub fn plain_bytes<E: From<FormatError> + From<TableError>>(
    page: &PageRef,
    mut stored: impl FnMut(&PageRef) -> Result<Vec<u8>, E>,
    mut decode: impl FnMut(&PageRef, Prefix<'_>, &[u8]) -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let mut patches = Vec::new();
    let mut at = *page;
    while at.codec == PAGE_PATCH {
        if patches.len() == PAGE_PATCH_DEPTH_MAX {
            return Err(too_many(patches.len(), "at most 12").into());
        }
        let bytes = stored(&at)?;
        let (head, body) = PatchHead::split(&at, &bytes)?;
        // Patches are short, so those of a whole chain fit in memory.
        patches.push(match head.is_compressed {
            true => decode(&at, Prefix::None, body)?,
            false if body.len() == at.plain_len as usize => body.to_vec(),
            false => return Err(other_len(&at).into()),
        });
        at = head.base;
    }
    let plain = plain_bytes_of_prefixed(&at, &mut stored, &mut decode)?;
    if patches.is_empty() {
        return Ok(plain);
    }
    let mut patched = Patched::new(plain)?;
    for patch in patches.iter().rev() {
        patched.apply(patch)?;
    }
    Ok(patched.into_plain()?)
}

/// Returns the plain bytes of a page that is not a patch, in the same way.
fn plain_bytes_of_prefixed<E: From<FormatError>>(
    page: &PageRef,
    stored: &mut impl FnMut(&PageRef) -> Result<Vec<u8>, E>,
    decode: &mut impl FnMut(&PageRef, Prefix<'_>, &[u8]) -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let mut above: Vec<(PageRef, Vec<u8>)> = Vec::new();
    let mut at = *page;
    let mut plain = loop {
        if at.codec == PAGE_PATCH {
            let (structure, field, found) = (STRUCTURE, "page codec", u64::from(at.codec));
            return Err(FormatError::Field { structure, field, found, allowed: "0 to 3" }.into());
        }
        let bytes = stored(&at)?;
        match at.codec {
            0 => break bytes, // `check_page_ref` checks that the lengths agree.
            1 => break decode(&at, Prefix::None, &bytes)?,
            2 => break decode(&at, Prefix::Dictionary, &bytes)?,
            _ if above.len() == PAGE_PREFIX_DEPTH_MAX => {
                return Err(too_many(above.len(), "at most 6").into());
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

fn other_len(patch: &PageRef) -> FormatError {
    FormatError::Field {
        structure: STRUCTURE,
        field: "plain length of a patch that is not compressed",
        found: u64::from(patch.plain_len),
        allowed: "that of the patch",
    }
}

fn too_many(depth: usize, allowed: &'static str) -> FormatError {
    FormatError::Field {
        structure: STRUCTURE,
        field: "number of pages that need each other",
        found: depth as u64 + 1,
        allowed,
    }
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
        for (place, value) in [(25, 1), (24, 8), (7, 0x80), (19, 0x80)] {
            let mut wrong = stored.clone();
            wrong[place] ^= value;
            assert!(split(&page, &wrong).is_err(), "byte {place}");
        }
    }
    #[test]
    fn a_patch_names_a_page_before_it() {
        let page = PageRef { offset: 5000, stored_len: 100, codec: 4, ..PageRef::default() };
        let base = PageRef {
            offset: 4000,
            checksum: 7,
            stored_len: 1000,
            plain_len: 3000,
            codec: 4,
            ..PageRef::default()
        };
        let head = PatchHead { generation: 300, base, is_compressed: true };
        let mut stored = head.encode();
        assert!(stored.len() <= PATCH_HEAD_LEN_MAX);
        let len = stored.len();
        stored.extend(b"rest");
        assert_eq!(PatchHead::split(&page, &stored), Ok((head, &b"rest"[..])));
        assert!(PatchHead::split(&PageRef { offset: 4999, ..page }, &stored).is_err());
        for cut in 0..len {
            assert!(PatchHead::split(&page, &stored[..cut]).is_err(), "cut at {cut}");
        }
        stored[len - 1] = 2;
        assert!(PatchHead::split(&page, &stored).is_err());
        stored[len - 1] = 1;
        stored[len - 2] = 5;
        assert!(PatchHead::split(&page, &stored).is_err());
    }

    #[test]
    fn chains_of_patches_end() {
        let page =
            |offset: u64, codec| PageRef { offset, stored_len: 50, codec, ..PageRef::default() };
        // Each page needs the one that lies 100 bytes before it, which claims to be a patch, too.
        let mut read = 0;
        let found = plain_bytes::<Failure>(
            &page(5000, PAGE_PATCH),
            |at| {
                read += 1;
                let base = page(at.offset - 100, PAGE_PATCH);
                Ok(PatchHead { generation: 0, base, is_compressed: false }.encode())
            },
            |_, _, _| Ok(Vec::new()),
        );
        assert!(found.is_err());
        assert_eq!(read, PAGE_PATCH_DEPTH_MAX);
        // A patch that is stored as it is has the length that its page names.
        let mut read = 0;
        let found = plain_bytes::<Failure>(
            &PageRef { plain_len: 1, ..page(5000, PAGE_PATCH) },
            |at| {
                read += 1;
                let base = page(at.offset - 100, 0);
                Ok(PatchHead { generation: 0, base, is_compressed: false }.encode())
            },
            |_, _, _| Ok(Vec::new()),
        );
        assert!(found.is_err());
        assert_eq!(read, 1, "the base is not read");
        // A patch is no prefix.
        let found = plain_bytes::<Failure>(
            &page(5000, PAGE_WITH_PREFIX),
            |_| Ok(encode(&page(100, PAGE_PATCH)).to_vec()),
            |_, _, _| Ok(Vec::new()),
        );
        assert!(found.is_err());
    }

    #[derive(Debug)]
    struct Failure;

    impl From<FormatError> for Failure {
        fn from(_: FormatError) -> Self {
            Self
        }
    }

    impl From<TableError> for Failure {
        fn from(_: TableError) -> Self {
            Self
        }
    }
}
