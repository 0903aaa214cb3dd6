//! One page of a table: its rows become what is stored.

use shale_codec::{Codec, Settings};
use shale_format::page_prefix::{self, PAGE_PATCH, PAGE_PREFIX_LEN, PAGE_WITH_PREFIX, PatchHead};
use shale_table::{Alignment, Bases, Earlier, PageRows, patch};

use crate::base::pages::{Near, StoredAs};
use crate::exec::scratch::EncoderScratch;
use crate::output::follow::hash_of_rows;
use crate::plan::error::WriteError;

/// Codec of a page that needs the dictionary of its table. Used in page references only.
pub(crate) const WITH_DICTIONARY: u8 = 2;

/// Settings of the trial that shows how well a column compresses.
const TRIAL: Settings = Settings { codec: Codec::Zstd, level: 9, ..Settings::STORED };

/// Settings of the trial that finds the best of several prefixes.
const QUICK: Settings = Settings { codec: Codec::Zstd, level: 3, ..Settings::STORED };

/// A compressed page.
pub(crate) struct PackedPage {
    pub(crate) row_count: usize,
    pub(crate) first_key: u64,
    pub(crate) plain: Vec<u8>,
    pub(crate) stored: Option<Vec<u8>>,
    pub(crate) codec: u8,
    /// As the reference to it says: of a patch, the length of that.
    pub(crate) plain_len: u32,
    pub(crate) bases: Bases,
    /// Hash of its rows, where more trees follow.
    pub(crate) hash: Option<[u8; 32]>,
    /// The page that it needs.
    pub(crate) stored_as: StoredAs,
}

/// Returns the plain bytes of a page that is short when it is compressed after `prefix`.
fn plain_of(
    scratch: &mut EncoderScratch,
    rows: &PageRows,
    prefix: &[u8],
) -> Result<Vec<u8>, WriteError> {
    let mut failure = None;
    let plain = rows.encode(&mut |section| match scratch.encode(TRIAL, prefix, section) {
        Ok(left) => left.len(),
        Err(error) => {
            failure = Some(error);
            section.len()
        }
    })?;
    failure.map_or(Ok(plain), Err)
}

/// Returns the page after which `plain` is shortest.
fn nearest<'n>(
    scratch: &mut EncoderScratch,
    plain: &[u8],
    near: &'n [Near],
) -> Result<Option<&'n Near>, WriteError> {
    let mut best: Option<(usize, &Near)> = None;
    for near in near {
        let len = scratch.encode(QUICK, &near.prefix.plain, plain)?.len();
        if best.is_none_or(|best| len < best.0) {
            best = Some((len, near));
        }
    }
    Ok(best.map(|best| best.1))
}

/// Returns what is stored of a page with this prefix, if that is shorter than `len` and than the
/// plain bytes.
fn after(
    scratch: &mut EncoderScratch,
    settings: Settings,
    near: &Near,
    plain: &[u8],
    len: usize,
) -> Result<Option<Vec<u8>>, WriteError> {
    let compressed = scratch.encode(settings, &near.prefix.plain, plain)?;
    let is_shorter = PAGE_PREFIX_LEN + compressed.len() < len.min(plain.len());
    Ok(is_shorter.then(|| [&page_prefix::encode(&near.prefix.page)[..], &compressed].concat()))
}

/// A page that is patched may have this many times the rows of the new one: reading the new one
/// decodes it.
const PATCHED_ROWS_RATIO: usize = 4;

/// What is stored of a page that is a patch, and the length of the patch.
struct PackedPatch {
    stored: Vec<u8>,
    plain_len: u32,
    near: Near,
}

/// Returns the page as a patch of the one that it has most rows in common with.
fn patch_of(
    scratch: &mut EncoderScratch,
    settings: Settings,
    rows: &PageRows,
    near: &[Near],
) -> Result<Option<PackedPatch>, WriteError> {
    let mut best: Option<(Earlier, Alignment, &Near)> = None;
    for near in near {
        let earlier = Earlier::new(near.base.plain.to_vec())?;
        if earlier.row_count() > PATCHED_ROWS_RATIO * rows.row_count().max(64) {
            continue;
        }
        let Some(aligned) = earlier.align(rows) else { continue };
        if best.as_ref().is_none_or(|best| aligned.equal() > best.1.equal()) {
            best = Some((earlier, aligned, near));
        }
    }
    let Some((earlier, aligned, near)) = best.filter(|best| best.1.equal() > 0) else {
        return Ok(None);
    };
    let patch = patch(&earlier, rows, &aligned);
    let compressed = scratch.encode(settings, &[], &patch)?;
    let is_compressed = compressed.len() < patch.len();
    let head = PatchHead { generation: near.generation, base: near.base.page, is_compressed };
    let body = if is_compressed { &compressed } else { &patch };
    let stored = [&head.encode()[..], body].concat();
    Ok(Some(PackedPatch { stored, plain_len: patch.len() as u32, near: near.clone() }))
}

/// Packs a page in the form that is shortest: on its own, with the dictionary, as a patch of one of
/// the pages that it is near to, or with one of them as its prefix.
pub(crate) fn pack(
    scratch: &mut EncoderScratch,
    settings: Settings,
    mut rows: PageRows,
    (dictionary, near): (&[u8], &[Near]),
    (has_bases, is_followed): (bool, bool),
) -> Result<PackedPage, WriteError> {
    let first_key = rows.first_key();
    let row_count = rows.row_count();
    let bases = if has_bases { rows.shift() } else { Bases::default() };
    let hash = is_followed.then(|| hash_of_rows(&rows, Bases::default()));
    let plain = plain_of(scratch, &rows, &[])?;
    let stored = scratch.encode(settings, dictionary, &plain)?;
    let packed = |plain: Vec<u8>, stored, (codec, plain_len), stored_as| PackedPage {
        row_count,
        first_key,
        plain_len,
        plain,
        stored,
        codec,
        bases,
        hash,
        stored_as,
    };
    let patched = patch_of(scratch, settings, &rows, near)?;
    let alone_len = stored.len().min(plain.len());
    let patched_len = patched.as_ref().map_or(usize::MAX, |patched| patched.stored.len());
    // Where a patch is short, nothing else is shorter.
    if patched_len > alone_len / 4
        && let Some(near) = nearest(scratch, &plain, near)?
    {
        let plain = plain_of(scratch, &rows, &near.prefix.plain)?;
        let len_max = alone_len.min(patched_len);
        if let Some(stored) = after(scratch, settings, near, &plain, len_max)? {
            let kind = (PAGE_WITH_PREFIX, plain.len() as u32);
            return Ok(packed(plain, Some(stored), kind, StoredAs::Prefixed(near.clone())));
        }
    }
    if let Some(patched) = patched.filter(|patched| patched.stored.len() < alone_len) {
        let kind = (PAGE_PATCH, patched.plain_len);
        return Ok(packed(plain, Some(patched.stored), kind, StoredAs::Patched(patched.near)));
    }
    let stored = (stored.len() < plain.len()).then_some(stored);
    let codec = match (&stored, dictionary) {
        (None, _) => Codec::Stored.id(),
        (Some(_), []) => Codec::Zstd.id(),
        (Some(_), _) => WITH_DICTIONARY,
    };
    let kind = (codec, plain.len() as u32);
    Ok(packed(plain, stored, kind, StoredAs::Alone))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shale_format::schema::references;
    use shale_table::{Page, PageRef, TableBuilder, Value};

    use super::*;
    use crate::tests::random;

    /// Integers of 13 bits.
    fn numbers(seed: u64, count: usize) -> Vec<u64> {
        let bytes = random(seed, 2 * count);
        bytes.chunks(2).map(|two| u64::from(two[0]) << 5 | u64::from(two[1]) >> 3).collect()
    }

    /// Packs a page with one column of integers. Also returns the length of its bit-packed form
    /// after compression.
    fn packed(values: &[u64]) -> (PackedPage, usize) {
        let mut builder = TableBuilder::new(&references::SCHEMA);
        for &value in values {
            assert!(builder.push_apart(&[Value::U64(value)]).unwrap().is_none());
        }
        let rows = builder.cut().unwrap();
        let settings: Settings = "zstd:19".parse().unwrap();
        let mut scratch = EncoderScratch::default();
        let to_the_bit = scratch.encode(settings, &[], &rows.encode(&mut |_| 0).unwrap()).unwrap();
        (pack(&mut scratch, settings, rows, (&[], &[]), (false, false)).unwrap(), to_the_bit.len())
    }

    #[test]
    fn numbers_that_come_again_are_compressed_and_others_take_no_more() {
        // Contents of a tree in 20 versions, each with a new one. Their number is odd, so values of
        // 13 bits lie differently in their bytes each time.
        let mut version = numbers(1, 501);
        let mut versions = Vec::new();
        for (number, new) in numbers(2, 20).into_iter().enumerate() {
            version[number * 7] = new;
            versions.extend_from_slice(&version);
        }
        let (page, to_the_bit) = packed(&versions);
        let stored = page.stored.unwrap();
        assert!(stored.len() * 3 < to_the_bit, "{} of {to_the_bit}", stored.len());
        let parsed = Page::parse(page.plain, &references::SCHEMA).unwrap();
        let mut back = Vec::new();
        parsed.u64_range(0, 0..versions.len(), &mut back).unwrap();
        assert_eq!(back, versions);

        let (page, to_the_bit) = packed(&numbers(3, 10_000));
        assert!(page.stored.map_or(page.plain.len(), |stored| stored.len()) <= to_the_bit);
    }

    /// Where a page is that was stored so.
    fn place(page: &PackedPage, offset: u64) -> PageRef {
        let stored_len = page.stored.as_ref().map_or(page.plain.len(), Vec::len) as u32;
        let (plain_len, codec) = (page.plain_len, page.codec);
        PageRef { offset, stored_len, plain_len, codec, ..PageRef::default() }
    }

    fn rows_of(values: &[u64]) -> PageRows {
        let mut builder = TableBuilder::new(&references::SCHEMA);
        for &value in values {
            assert!(builder.push_apart(&[Value::U64(value)]).unwrap().is_none());
        }
        builder.cut().unwrap()
    }

    #[test]
    fn a_page_that_resembles_another_is_a_patch_of_it() {
        let before = numbers(4, 3000);
        let mut after = before.clone();
        (0..10).for_each(|n| after[n * 290] += 1);
        let (page, _) = packed(&before);
        let first = place(&page, 64);
        let near = Near::written(first, Arc::new(page.plain.clone()), StoredAs::Alone);
        let (other, _) = packed(&numbers(5, 3000));
        let other = Near::written(place(&other, 20), Arc::new(other.plain), StoredAs::Alone);
        let settings: Settings = "zstd:19".parse().unwrap();
        let mut scratch = EncoderScratch::default();
        let near = [other, near];
        let found =
            pack(&mut scratch, settings, rows_of(&after), (&[], &near), (false, false)).unwrap();
        let stored = found.stored.unwrap();
        assert_eq!(found.codec, PAGE_PATCH);
        assert!(stored.len() < 80, "{}", stored.len());
        let at = PageRef { offset: 9000, codec: PAGE_PATCH, ..PageRef::default() };
        let (head, patch) = PatchHead::split(&at, &stored).unwrap();
        assert_eq!((head.base, head.generation), (first, 1));
        assert!(!head.is_compressed, "a short patch");
        let mut patched = shale_table::Patched::new(page.plain).unwrap();
        patched.apply(patch).unwrap();
        let parsed = Page::parse(patched.into_plain().unwrap(), &references::SCHEMA).unwrap();
        let mut back = Vec::new();
        parsed.u64_range(0, 0..after.len(), &mut back).unwrap();
        assert_eq!(back, after);
    }

    #[test]
    fn a_page_of_rows_that_are_elsewhere_has_a_prefix() {
        // The same values in another order are no rows of the other page, but its bytes.
        let before = numbers(4, 3000);
        let after = [&before[1500..], &before[..1500]].concat();
        let (page, _) = packed(&before);
        let near = Near::written(place(&page, 64), Arc::new(page.plain), StoredAs::Alone);
        let settings: Settings = "zstd:19".parse().unwrap();
        let mut scratch = EncoderScratch::default();
        let found =
            pack(&mut scratch, settings, rows_of(&after), (&[], &[near]), (false, false)).unwrap();
        assert!(matches!(found.codec, PAGE_WITH_PREFIX | PAGE_PATCH), "{}", found.codec);
        assert!(found.stored.unwrap().len() * 3 < 2 * found.plain.len());
    }

    #[test]
    fn chains_are_short_and_do_not_grow_old() {
        for is_patch in [false, true] {
            let mut near: Option<Near> = None;
            let (mut ages, mut depths) = (Vec::new(), Vec::new());
            for (age, checksum) in (0_u64..500).zip(numbers(6, 500)) {
                let page = PageRef { offset: age, checksum, ..PageRef::default() };
                let (needed, depth) = match (&near, is_patch) {
                    (None, _) => (age, 0),
                    (Some(near), true) => (near.base.page.offset, near.base.depth + 1),
                    (Some(near), false) => (near.prefix.page.offset, near.prefix.depth + 1),
                };
                depths.push(depth);
                ages.push(age - needed);
                let stored_as = match near {
                    None => StoredAs::Alone,
                    Some(near) if is_patch => StoredAs::Patched(near),
                    Some(near) => StoredAs::Prefixed(near),
                };
                near = Some(Near::written(page, Arc::default(), stored_as));
            }
            let depth_max = if is_patch { 12 } else { 6 };
            assert!(depths.iter().all(|&depth| depth <= depth_max), "{depths:?}");
            let young = ages.iter().filter(|&&age| age <= 4).count();
            assert!(young > 250, "{young} of 500 need one of the four tables before");
            // What changed is stored again a few times only.
            let mean = ages.iter().sum::<u64>() / 500;
            assert!(!is_patch || mean <= 4, "{mean}");
        }
    }
}
