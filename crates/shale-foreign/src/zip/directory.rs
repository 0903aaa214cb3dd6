//! The directory at the end of an archive: where it is, what it says, and whether that can be true.
//!
//! The end record says where the directory begins and how many entries it has. Without Zip64 the
//! count has 16 bits, and some writers let it overflow. So entries are read up to the end of the
//! directory and then compared with the count.

use super::extra::Extra;
use super::name;
use super::records::{
    DOS_DIRECTORY, DOS_READ_ONLY, END_LEN, END_MAGIC, END64_LOCATOR_MAGIC, END64_MAGIC, ENTRY_LEN,
    ENTRY_MAGIC, HOST_MAC, HOST_UNIX, LOCAL_LEN, SIGNATURE_MAGIC,
};
use super::time;
use crate::tree::{ImageFile, le};
use shale_format::Timestamp;

/// A comment at the end has at most 64 KiB.
const END_SEARCH_LEN: u64 = END_LEN as u64 + 65_535;
/// Bytes of the directory. A pass over it keeps 16 bytes for each entry of at least 46.
const DIRECTORY_LEN_MAX: u64 = 4 << 30;
/// Stands for a number that is in the extra field of large ones.
const IN_EXTRA: u64 = 0xffff_ffff;
/// A count of 16 bits that overflows begins anew.
const COUNT_MODULUS: u64 = 1 << 16;

/// The directory, read in pieces from front to back.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    taken: usize,
    /// What offsets in the archive are relative to: an archive may follow a program that unpacks
    /// it.
    pub(super) base: u64,
    /// Entries, as the end record counts them.
    count: u64,
    /// The count has 64 bits.
    is_large: bool,
}

/// What the directory says of an entry.
#[derive(Debug)]
pub(super) struct Entry {
    /// The name as it is stored, which the local header repeats.
    pub(super) raw_name: Vec<u8>,
    pub(super) path: Vec<u8>,
    /// Mode of Unix, where a system of that kind made it.
    pub(super) mode: Option<u32>,
    pub(super) is_directory: bool,
    pub(super) is_read_only: bool,
    pub(super) flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    pub(super) stored_len: u64,
    pub(super) len: u64,
    /// Where its local header is, in the file.
    pub(super) offset: u64,
    pub(super) dos_mtime: Timestamp,
    /// The time of day of MS-DOS, which tells wrong passwords.
    pub(super) dos_time: u16,
    pub(super) extra: Extra,
}

/// Returns true if a file ends like an archive with entries, whatever it begins with.
pub(crate) fn ends_like_one(file: &ImageFile) -> bool {
    Directory::find(file)
        .is_ok_and(|directory| file.read(directory.at, 4).is_ok_and(|magic| magic == ENTRY_MAGIC))
}

impl Directory {
    /// Finds the directory of the archive in `file`.
    ///
    /// # Errors
    /// Says why there is none that can be read.
    pub(super) fn find(file: &ImageFile) -> Result<Self, String> {
        let tail_start = file.len().saturating_sub(END_SEARCH_LEN);
        let tail = file.read(tail_start, file.len() - tail_start)?;
        let found = tail.windows(END_LEN).enumerate().rev().find(|(at, end)| {
            &end[..4] == END_MAGIC && at + END_LEN + le(&end[20..22]) as usize <= tail.len()
        });
        let (at, end) = found.ok_or("the directory at its end is missing: it was cut")?;
        let end_at = tail_start + at as u64;
        if !matches!(le(&end[4..6]), 0 | 0xffff) {
            return Err("it is a part of a split archive; join the parts first, with `zip -s 0 \
                        ARCHIVE.zip --out WHOLE.zip`"
                .to_owned());
        }
        let (mut count, mut len, mut start) =
            (le(&end[10..12]), le(&end[12..16]), le(&end[16..20]));
        let mut directory_end = end_at;
        let mut is_large = false;
        if let Some(locator_at) = end_at.checked_sub(20) {
            let locator = file.read(locator_at, 20)?;
            if &locator[..4] == END64_LOCATOR_MAGIC {
                // What precedes the archive moves this offset, too.
                let said = le(&locator[8..16]);
                let is_there = |at: u64| file.read(at, 4).is_ok_and(|magic| magic == END64_MAGIC);
                let end64_at = [Some(said), locator_at.checked_sub(56)]
                    .into_iter()
                    .flatten()
                    .find(|&at| is_there(at))
                    .ok_or("its Zip64 end record is not where it should be: corrupt")?;
                let end64 = file.read(end64_at, 56)?;
                (count, len, start) = (le(&end64[32..40]), le(&end64[40..48]), le(&end64[48..56]));
                directory_end = end64_at;
                is_large = true;
            }
        }
        if len > DIRECTORY_LEN_MAX {
            return Err(format!("its directory has {len} bytes, {DIRECTORY_LEN_MAX} are allowed"));
        }
        let before_end = directory_end.checked_sub(len);
        let base = before_end.and_then(|at| at.checked_sub(start));
        let base = base.ok_or("its directory lies beyond the end of the file: corrupt")?;
        let begins_at = |at: u64| file.read(at, 4).is_ok_and(|magic| magic == ENTRY_MAGIC);
        // Something may lie between the directory and its end record.
        let base = if base > 0 && !begins_at(start + base) && begins_at(start) { 0 } else { base };
        let at = start + base;
        Ok(Self { at, end: at + len, buffer: Vec::new(), taken: 0, base, count, is_large })
    }

    /// Where the directory begins. Data of all entries lie before it.
    pub(super) fn start(&self) -> u64 {
        self.at - (self.buffer.len() - self.taken) as u64
    }

    /// Reads all of the directory and checks that the end record counts its entries right and that
    /// no two entries share bytes of the archive.
    ///
    /// # Errors
    /// Says what is wrong with the archive.
    pub(super) fn survey(&self, file: &ImageFile) -> Result<u64, String> {
        let mut all = self.clone();
        let mut spans = Vec::new();
        let mut content_bytes = 0u64;
        while let Some(entry) = all.entry(file)? {
            let head_len = LOCAL_LEN + entry.raw_name.len() as u64;
            let len = head_len.saturating_add(entry.stored_len);
            content_bytes = content_bytes.saturating_add(entry.len);
            spans.push((entry.offset, entry.offset.saturating_add(len)));
        }
        let found = spans.len() as u64;
        let is_right = found == self.count
            || (!self.is_large && found > self.count && found % COUNT_MODULUS == self.count);
        if !is_right {
            return Err(format!(
                "its directory has {found} entries, its end record counts {}: corrupt. `zip -FF \
                 ARCHIVE.zip --out FIXED.zip` may repair it",
                self.count
            ));
        }
        spans.sort_unstable();
        match spans.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            None => Ok(content_bytes),
            Some(pair) => Err(format!(
                "the entries at bytes {} and {} overlap: it is corrupt, or a bomb that unpacks to \
                 far more than it stores",
                pair[0].0, pair[1].0
            )),
        }
    }

    /// The next entry; `None` at the end of the directory.
    ///
    /// # Errors
    /// Says what is wrong with the directory.
    pub(super) fn entry(&mut self, file: &ImageFile) -> Result<Option<Entry>, String> {
        let at = self.start();
        if at == self.end {
            return Ok(None);
        }
        let corrupt = || format!("at byte {at} should be an entry of its directory: corrupt");
        let magic = self.take(file, 4)?.ok_or_else(corrupt)?;
        if magic == SIGNATURE_MAGIC {
            // A signature of the directory lies after all entries.
            self.at = self.end;
            self.taken = self.buffer.len();
            return Ok(None);
        }
        if magic != ENTRY_MAGIC {
            return Err(corrupt());
        }
        let head = self.take(file, ENTRY_LEN - 4)?.ok_or_else(corrupt)?;
        let field = |at: usize, len: usize| le(&head[at - 4..at - 4 + len]);
        let raw_name = self.take(file, field(28, 2) as usize)?.ok_or_else(corrupt)?;
        let extra_bytes = self.take(file, field(30, 2) as usize)?.ok_or_else(corrupt)?;
        self.take(file, field(32, 2) as usize)?.ok_or_else(corrupt)?;

        let (host, flags, attributes) =
            (field(5, 1) as u8, field(8, 2) as u16, field(38, 4) as u32);
        let mut extra = Extra::default();
        extra.add(&extra_bytes).map_err(|what| format!("the entry at byte {at}: {what}"))?;
        let (mut stored_len, mut len, mut offset) = (field(20, 4), field(24, 4), field(42, 4));
        let mut large = extra.large.iter();
        for value in [&mut len, &mut stored_len, &mut offset] {
            if *value == IN_EXTRA {
                // Without Zip64 it is a number like any other.
                *value = large.next().copied().unwrap_or(*value);
            }
        }
        let path = name::path(&raw_name, host, flags, extra.unicode_path.as_deref());
        let is_dos = name::is_dos(host);
        Ok(Some(Entry {
            is_directory: path.ends_with(b"/") || (is_dos && attributes & DOS_DIRECTORY != 0),
            is_read_only: is_dos && attributes & DOS_READ_ONLY != 0,
            raw_name,
            path,
            mode: matches!(host, HOST_UNIX | HOST_MAC).then_some(attributes >> 16),
            flags,
            method: field(10, 2) as u16,
            crc: field(16, 4) as u32,
            stored_len,
            len,
            offset: offset
                .checked_add(self.base)
                .ok_or_else(|| format!("the entry at byte {at}: its offset is beyond 64 bits"))?,
            dos_time: field(12, 2) as u16,
            dos_mtime: time::from_dos(field(14, 2), field(12, 2)),
            extra,
        }))
    }

    /// The next `len` bytes; `None` where the directory has fewer.
    fn take(&mut self, file: &ImageFile, len: usize) -> Result<Option<Vec<u8>>, String> {
        const STEP: u64 = 256 << 10;
        if self.buffer.len() - self.taken < len {
            self.buffer.drain(..self.taken);
            self.taken = 0;
            let step = (self.end - self.at).min(STEP.max(len as u64));
            self.buffer.extend(file.read(self.at, step)?);
            self.at += step;
        }
        let bytes = self.buffer.get(self.taken..self.taken + len).map(<[u8]>::to_vec);
        self.taken += bytes.as_ref().map_or(0, Vec::len);
        Ok(bytes)
    }
}
