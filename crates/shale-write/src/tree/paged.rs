//! Bytes that are read and changed in any order, in bounded memory.
//!
//! A page that no longer fits waits in a temporary file without a name, made when it is first
//! needed. Which page leaves is decided by a clock: one that was used since the hand last passed
//! gets another round. A page that was never used is all zero and lies nowhere.
//!
//! On top: [`Rows`], records of one length by number; [`Heap`], byte strings end to end; and
//! [`Index`], which finds the number of a record by a hash. Besides its pages in memory each holds
//! four bytes a page of 4 KiB.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::temporary::get_or_make;

/// Bytes of a page.
const PAGE_LEN: usize = 4096;
/// Fewest pages in memory: one cannot do.
const FRAMES_MIN: usize = 4;

/// Where a page is: nowhere, as it is zero; in the file; else in this frame.
const ZERO: u32 = u32::MAX;
const IN_FILE: u32 = u32::MAX - 1;

/// The pages.
#[derive(Debug)]
pub(crate) struct Paged {
    temp_dir: Option<PathBuf>,
    file: Option<File>,
    file_len: u64,
    places: Vec<u32>,
    frames: Vec<Frame>,
    frame_count_max: usize,
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
    /// No pages; at most so many bytes of them in memory, but never fewer than four pages.
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        let frame_count_max = usize::try_from(memory_bytes_max / PAGE_LEN as u64);
        Self {
            temp_dir,
            file: None,
            file_len: 0,
            places: Vec::new(),
            frames: Vec::new(),
            frame_count_max: frame_count_max.unwrap_or(usize::MAX).max(FRAMES_MIN),
            hand: 0,
        }
    }

    /// Bytes of the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.file_len
    }

    /// A page to be read.
    fn page(&mut self, page: usize) -> io::Result<&[u8; PAGE_LEN]> {
        let frame = self.bring(page)?;
        Ok(&self.frames[frame].bytes)
    }

    /// A page to be changed.
    fn page_mut(&mut self, page: usize) -> io::Result<&mut [u8; PAGE_LEN]> {
        let frame = self.bring(page)?;
        let frame = &mut self.frames[frame];
        frame.is_changed = true;
        Ok(&mut frame.bytes)
    }

    /// The frame that holds a page, which it holds from now on.
    fn bring(&mut self, page: usize) -> io::Result<usize> {
        if page >= self.places.len() {
            self.places.resize(page + 1, ZERO);
        }
        let place = self.places[page];
        if let Some(frame) = self.frames.get_mut(place as usize) {
            frame.was_used = true;
            return Ok(place as usize);
        }
        let index = self.free_frame()?;
        let frame = &mut self.frames[index];
        match (place, &self.file) {
            (IN_FILE, Some(file)) => {
                file.read_exact_at(&mut frame.bytes[..], offset_of(page))?;
            }
            (IN_FILE, None) => return Err(io::ErrorKind::NotFound.into()),
            _ => frame.bytes.fill(0),
        }
        frame.page = page;
        frame.is_changed = false;
        frame.was_used = true;
        self.places[page] = index as u32;
        Ok(index)
    }

    /// A frame whose page is in the file or was never there.
    fn free_frame(&mut self) -> io::Result<usize> {
        if self.frames.len() < self.frame_count_max {
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
                let file = get_or_make(&mut self.file, self.temp_dir.as_deref())?;
                file.write_all_at(&frame.bytes[..], offset_of(page))?;
                frame.is_changed = false;
                self.file_len = self.file_len.max(offset_of(page + 1));
            }
            // What was never changed since it was zero is zero still, but the file has it not.
            let is_in_file = offset_of(page + 1) <= self.file_len;
            self.places[page] = if is_in_file { IN_FILE } else { ZERO };
            return Ok(index);
        }
    }
}

fn offset_of(page: usize) -> u64 {
    page as u64 * PAGE_LEN as u64
}

/// Records of one length, by number. One that was never written is zero.
#[derive(Debug)]
pub(crate) struct Rows<const LEN: usize> {
    paged: Paged,
}

impl<const LEN: usize> Rows<LEN> {
    const PER_PAGE: usize = PAGE_LEN / LEN;

    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        Self { paged: Paged::new(memory_bytes_max, temp_dir) }
    }

    /// A record to be read: at most one page is read and one written.
    pub(crate) fn get(&mut self, number: u32) -> io::Result<&[u8; LEN]> {
        let (page, at) = Self::place(number);
        let bytes = self.paged.page(page)?;
        bytes[at..].first_chunk().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// A record to be changed.
    pub(crate) fn get_mut(&mut self, number: u32) -> io::Result<&mut [u8; LEN]> {
        let (page, at) = Self::place(number);
        let bytes = self.paged.page_mut(page)?;
        bytes[at..].first_chunk_mut().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Bytes of the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.paged.file_len()
    }

    fn place(number: u32) -> (usize, usize) {
        let number = number as usize;
        (number / Self::PER_PAGE, number % Self::PER_PAGE * LEN)
    }
}

/// Byte strings end to end, never changed.
#[derive(Debug)]
pub(crate) struct Heap {
    paged: Paged,
    end: u64,
}

impl Heap {
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        Self { paged: Paged::new(memory_bytes_max, temp_dir), end: 0 }
    }

    /// Keeps a string; where it begins.
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

    /// Puts a string into `out`.
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

/// Finds the number of a record by a hash, of which 32 bits are kept: a place is the hash scaled to
/// the number of places, and the next free one behind it. So all are in order of their hashes, and
/// doubling goes through both old and new places from front to back.
#[derive(Debug)]
pub(crate) struct Index {
    places: Rows<8>,
    place_count: u64,
    used: u64,
    memory_bytes_max: u64,
    temp_dir: Option<PathBuf>,
}

/// Places of an index at first.
const PLACES_MIN: u64 = (PAGE_LEN / 8) as u64;
/// Places of an index at most: every number there can be, at the greatest load.
const PLACES_MAX: u64 = 1 << 32;

impl Index {
    /// An empty index; while it doubles, it holds twice these bytes.
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<PathBuf>) -> Self {
        Self {
            places: Rows::new(memory_bytes_max, temp_dir.clone()),
            place_count: PLACES_MIN,
            used: 0,
            memory_bytes_max,
            temp_dir,
        }
    }

    /// Calls `is_it` with numbers whose record may be the one, until it says so. Reads a page or
    /// two.
    pub(crate) fn find(
        &mut self,
        hash: u32,
        mut is_it: impl FnMut(u32) -> io::Result<bool>,
    ) -> io::Result<Option<u32>> {
        let mut place = self.first_place(hash);
        loop {
            let (found, number) = read_place(self.places.get(place)?);
            if number == 0 {
                return Ok(None);
            }
            if found == hash && is_it(number - 1)? {
                return Ok(Some(number - 1));
            }
            place = self.next_place(place);
        }
    }

    /// Adds the number of a record, below 2^32 - 1, that was not found.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) -> io::Result<()> {
        // At most five of eight places are used, so one is free.
        if (self.used + 1) * 8 > self.place_count * 5 && self.place_count < PLACES_MAX {
            self.double()?;
        }
        self.put(hash, number + 1)
    }

    /// Bytes of the temporary file.
    pub(crate) fn file_len(&self) -> u64 {
        self.places.file_len()
    }

    fn put(&mut self, hash: u32, number: u32) -> io::Result<()> {
        let mut place = self.first_place(hash);
        loop {
            let bytes = self.places.get(place)?;
            if read_place(bytes).1 == 0 {
                break;
            }
            place = self.next_place(place);
        }
        let bytes = self.places.get_mut(place)?;
        bytes[..4].copy_from_slice(&hash.to_le_bytes());
        bytes[4..].copy_from_slice(&number.to_le_bytes());
        self.used += 1;
        Ok(())
    }

    fn double(&mut self) -> io::Result<()> {
        let larger = Self {
            place_count: self.place_count * 2,
            ..Self::new(self.memory_bytes_max, self.temp_dir.clone())
        };
        let mut smaller = std::mem::replace(self, larger);
        for place in 0..smaller.place_count {
            let (hash, number) = read_place(smaller.places.get(place as u32)?);
            if number > 0 {
                self.put(hash, number)?;
            }
        }
        Ok(())
    }

    fn first_place(&self, hash: u32) -> u32 {
        ((u64::from(hash) * self.place_count) >> 32) as u32
    }

    fn next_place(&self, place: u32) -> u32 {
        ((u64::from(place) + 1) % self.place_count) as u32
    }
}

fn read_place(bytes: &[u8; 8]) -> (u32, u32) {
    let place = u64::from_le_bytes(*bytes);
    (place as u32, (place >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few pages in memory, so that nearly everything passes through the file.
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
            // Every hash twice, and some at the very end, which go on at the front.
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
