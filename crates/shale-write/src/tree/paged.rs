//! Bytes that are read and changed in any order, in bounded memory.
//!
//! Pages beyond the budget wait in a temporary file. The clock algorithm decides which page leaves
//! memory: a page that was used since the hand last passed stays for another round. A page that was
//! never changed is all zero and is stored nowhere.
//!
//! Three structures use pages: [`Rows`], records of one length by number; [`Heap`], byte strings
//! one after the other; and [`Index`], which finds the number of a record by a hash. Beside its
//! pages in memory each takes four bytes a page of 4 KiB.

use std::io;
use std::path::PathBuf;

use crate::exec::spill::Spill;

/// Bytes of a page.
const PAGE_LEN: usize = 4096;
/// Fewest pages in memory.
const FRAMES_MIN: usize = 4;

/// Where a page is: nowhere, because it is zero; in the file; otherwise in the frame with this
/// index.
const ZERO: u32 = u32::MAX;
const IN_FILE: u32 = u32::MAX - 1;

/// Pages, some of them in memory.
#[derive(Debug)]
pub(crate) struct Paged {
    spill: Spill,
    locations: Vec<u32>,
    frames: Vec<Frame>,
    hand: usize,
}

#[derive(Debug)]
struct Frame {
    bytes: Box<[u8; PAGE_LEN]>,
    page: usize,
    is_changed: bool,
    was_used: bool,
}

impl Paged {
    /// Starts without pages. At most `memory_bytes_max` bytes of them stay in memory, but never
    /// fewer than four pages.
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        let spill = Spill::new(memory_bytes_max, temp_dir);
        Self { spill, locations: Vec::new(), frames: Vec::new(), hand: 0 }
    }

    /// Bytes of the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.spill.file_len()
    }

    /// Returns a page for reading.
    fn page(&mut self, page: usize) -> io::Result<&[u8; PAGE_LEN]> {
        let frame = self.bring(page)?;
        Ok(&self.frames[frame].bytes)
    }

    /// Returns a page for changing.
    fn page_mut(&mut self, page: usize) -> io::Result<&mut [u8; PAGE_LEN]> {
        let frame = self.bring(page)?;
        let frame = &mut self.frames[frame];
        frame.is_changed = true;
        Ok(&mut frame.bytes)
    }

    /// Brings a page into memory. Returns the frame that holds it.
    fn bring(&mut self, page: usize) -> io::Result<usize> {
        if page >= self.locations.len() {
            self.locations.resize(page + 1, ZERO);
        }
        let location = self.locations[page];
        if let Some(frame) = self.frames.get_mut(location as usize) {
            frame.was_used = true;
            return Ok(location as usize);
        }
        let index = self.free_frame()?;
        let frame = &mut self.frames[index];
        match location {
            IN_FILE => self.spill.read_at(&mut frame.bytes[..], offset_of(page))?,
            _ => frame.bytes.fill(0),
        }
        frame.page = page;
        frame.is_changed = false;
        frame.was_used = true;
        self.locations[page] = index as u32;
        Ok(index)
    }

    /// Frees a frame: writes its page to the file if needed.
    fn free_frame(&mut self) -> io::Result<usize> {
        let has_memory = self.spill.take_memory(PAGE_LEN as u64);
        if has_memory || self.frames.len() < FRAMES_MIN {
            let bytes = Box::new([0; PAGE_LEN]);
            self.frames.push(Frame { bytes, page: 0, is_changed: false, was_used: false });
            return Ok(self.frames.len() - 1);
        }
        loop {
            let index = self.hand;
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &mut self.frames[index];
            if std::mem::take(&mut frame.was_used) {
                continue;
            }
            let page = frame.page;
            if frame.is_changed {
                self.spill.write_at(&frame.bytes[..], offset_of(page))?;
                frame.is_changed = false;
            }
            // A page that was never changed is still zero, but the file may not hold it.
            let is_in_file = offset_of(page + 1) <= self.spill.file_len();
            self.locations[page] = if is_in_file { IN_FILE } else { ZERO };
            return Ok(index);
        }
    }
}

fn offset_of(page: usize) -> u64 {
    page as u64 * PAGE_LEN as u64
}

/// Records of one length, by number. A record that was never written is zero.
#[derive(Debug)]
pub(crate) struct Rows<const LEN: usize> {
    paged: Paged,
}

impl<const LEN: usize> Rows<LEN> {
    const PER_PAGE: usize = PAGE_LEN / LEN;

    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        Self { paged: Paged::new(memory_bytes_max, temp_dir) }
    }

    /// Returns a record for reading. At most one page is read and one written.
    pub(crate) fn get(&mut self, number: u32) -> io::Result<&[u8; LEN]> {
        let (page, at) = Self::locate(number);
        let bytes = self.paged.page(page)?;
        bytes[at..].first_chunk().ok_or_else(|| unreachable!("records do not cross pages"))
    }

    /// Returns a record for changing.
    pub(crate) fn get_mut(&mut self, number: u32) -> io::Result<&mut [u8; LEN]> {
        let (page, at) = Self::locate(number);
        let bytes = self.paged.page_mut(page)?;
        bytes[at..].first_chunk_mut().ok_or_else(|| unreachable!("records do not cross pages"))
    }

    /// Bytes of the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.paged.file_len()
    }

    fn locate(number: u32) -> (usize, usize) {
        let number = number as usize;
        (number / Self::PER_PAGE, number % Self::PER_PAGE * LEN)
    }
}

/// Byte strings, one after the other, never changed.
#[derive(Debug)]
pub(crate) struct Heap {
    paged: Paged,
    end: u64,
}

impl Heap {
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        Self { paged: Paged::new(memory_bytes_max, temp_dir), end: 0 }
    }

    /// Appends a string. Returns where it begins.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> io::Result<u64> {
        let start = self.end;
        while !bytes.is_empty() {
            let at = (self.end % PAGE_LEN as u64) as usize;
            let len = bytes.len().min(PAGE_LEN - at);
            let page = self.paged.page_mut((self.end / PAGE_LEN as u64) as usize)?;
            page[at..at + len].copy_from_slice(&bytes[..len]);
            self.end += len as u64;
            bytes = &bytes[len..];
        }
        Ok(start)
    }

    /// Reads a string into `out`.
    pub(crate) fn get(&mut self, mut start: u64, len: usize, out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        while out.len() < len {
            let at = (start % PAGE_LEN as u64) as usize;
            let take = (len - out.len()).min(PAGE_LEN - at);
            let page = self.paged.page((start / PAGE_LEN as u64) as usize)?;
            out.extend_from_slice(&page[at..at + take]);
            start += take as u64;
        }
        Ok(())
    }

    /// Bytes of the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.paged.file_len()
    }
}

/// Finds the number of a record by 32 bits of a hash. The hash is scaled to the number of buckets;
/// a record takes the next free bucket from there. So records lie in the order of their hashes, and
/// doubling reads and writes buckets from front to back.
#[derive(Debug)]
pub(crate) struct Index {
    buckets: Rows<8>,
    bucket_count: u64,
    used: u64,
    memory_bytes_max: u64,
    temp_dir: Option<PathBuf>,
}

/// Buckets of a new index.
const BUCKETS_MIN: u64 = (PAGE_LEN / 8) as u64;
/// Most buckets of an index: enough for every number at the greatest load.
const BUCKETS_MAX: u64 = 1 << 32;

impl Index {
    /// Makes an empty index. While it doubles, it holds twice these bytes.
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        Self {
            buckets: Rows::new(memory_bytes_max, temp_dir.clone()),
            bucket_count: BUCKETS_MIN,
            used: 0,
            memory_bytes_max,
            temp_dir,
        }
    }

    /// Calls `is_it` with the numbers of records that have this hash, until it returns true. Reads
    /// a page or two.
    pub(crate) fn find(
        &mut self,
        hash: u32,
        mut is_it: impl FnMut(u32) -> io::Result<bool>,
    ) -> io::Result<Option<u32>> {
        let mut bucket = self.first_bucket(hash);
        loop {
            let (found, number) = read_bucket(self.buckets.get(bucket)?);
            if number == 0 {
                return Ok(None);
            }
            if found == hash && is_it(number - 1)? {
                return Ok(Some(number - 1));
            }
            bucket = self.next_bucket(bucket);
        }
    }

    /// Adds the number of a record, below 2^32 - 1, that was not found.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) -> io::Result<()> {
        // At most five of eight buckets are used, so one is free.
        if (self.used + 1) * 8 > self.bucket_count * 5 && self.bucket_count < BUCKETS_MAX {
            self.double()?;
        }
        self.put(hash, number + 1)
    }

    /// Bytes of the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.buckets.file_len()
    }

    fn put(&mut self, hash: u32, number: u32) -> io::Result<()> {
        let mut bucket = self.first_bucket(hash);
        loop {
            let bytes = self.buckets.get(bucket)?;
            if read_bucket(bytes).1 == 0 {
                break;
            }
            bucket = self.next_bucket(bucket);
        }
        let bytes = self.buckets.get_mut(bucket)?;
        bytes[..4].copy_from_slice(&hash.to_le_bytes());
        bytes[4..].copy_from_slice(&number.to_le_bytes());
        self.used += 1;
        Ok(())
    }

    fn double(&mut self) -> io::Result<()> {
        let larger = Self {
            bucket_count: self.bucket_count * 2,
            ..Self::new(self.memory_bytes_max, self.temp_dir.clone())
        };
        let mut smaller = std::mem::replace(self, larger);
        for bucket in 0..smaller.bucket_count {
            let (hash, number) = read_bucket(smaller.buckets.get(bucket as u32)?);
            if number > 0 {
                self.put(hash, number)?;
            }
        }
        Ok(())
    }

    fn first_bucket(&self, hash: u32) -> u32 {
        ((u64::from(hash) * self.bucket_count) >> 32) as u32
    }

    fn next_bucket(&self, bucket: u32) -> u32 {
        ((u64::from(bucket) + 1) % self.bucket_count) as u32
    }
}

fn read_bucket(bytes: &[u8; 8]) -> (u32, u32) {
    let bucket = u64::from_le_bytes(*bytes);
    (bucket as u32, (bucket >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few pages in memory, so nearly all go through the file.
    const LITTLE: u64 = 6 * PAGE_LEN as u64;

    fn scattered(number: u32) -> u32 {
        number.wrapping_mul(0x9E37_79B1)
    }

    #[test]
    fn rows_come_back_from_memory_and_file() {
        const COUNT: u32 = 20_000;
        for memory in [0, LITTLE, 1 << 30] {
            let mut rows = Rows::<24>::new(memory, None);
            let at = |number| scattered(number) % COUNT;
            for number in 0..COUNT {
                let row = rows.get_mut(at(number)).unwrap();
                row[0] = row[0].wrapping_add(number as u8);
                row[20..24].copy_from_slice(&at(number).to_le_bytes());
            }
            let mut expected = vec![0u8; COUNT as usize];
            for number in 0..COUNT {
                let sum = &mut expected[at(number) as usize];
                *sum = sum.wrapping_add(number as u8);
            }
            for number in (0..COUNT).rev() {
                let row = rows.get(number).unwrap();
                let was_written = row[20..24] == number.to_le_bytes();
                assert!(was_written || row == &[0; 24], "row {number}");
                assert_eq!(row[0], expected[number as usize], "row {number}");
            }
            assert_eq!(rows.get(COUNT * 3).unwrap(), &[0; 24]);
            assert_eq!(rows.file_len() > 0, memory < 1 << 30);
            assert!(rows.paged.frames.len() as u64 <= (memory / 4096).max(FRAMES_MIN as u64));
        }
    }

    #[test]
    fn strings_come_back_wherever_they_are_cut() {
        let mut heap = Heap::new(LITTLE, None);
        let string = |number: usize| vec![number as u8; number * 37 % 9001];
        let starts: Vec<u64> = (0..200).map(|number| heap.push(&string(number)).unwrap()).collect();
        let mut out = Vec::new();
        for (number, start) in starts.into_iter().enumerate().rev() {
            let expected = string(number);
            heap.get(start, expected.len(), &mut out).unwrap();
            assert!(out == expected, "string {number}");
        }
        assert!(heap.file_len() > 0);
    }

    #[test]
    fn an_index_finds_what_it_was_given_and_nothing_else() {
        for memory in [0, LITTLE, 1 << 30] {
            let mut index = Index::new(memory, None);
            // Every hash twice, and some at the very end, which continue at the front.
            let hash = |number: u32| match number {
                0..100 => u32::MAX - number % 2,
                _ => scattered(number / 2),
            };
            for number in 0..20_000 {
                index.insert(hash(number), number).unwrap();
            }
            for number in 0..20_000 {
                let found = index.find(hash(number), |found| Ok(found == number)).unwrap();
                assert_eq!(found, Some(number));
            }
            for number in 20_000..21_000 {
                assert_eq!(index.find(hash(number), |found| Ok(found == number)).unwrap(), None);
            }
        }
    }

    #[test]
    fn a_missing_temporary_directory_is_an_error() {
        let mut rows = Rows::<24>::new(0, Some(PathBuf::from("/nonexistent/directory")));
        let put = |number| rows.get_mut(number).map(|row| row[0] = 1);
        assert!((0..100_000).map(put).any(|put| put.is_err()));
    }
}
