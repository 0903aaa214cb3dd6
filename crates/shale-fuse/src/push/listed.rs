//! Remembers the small files that were listed, and guesses which of them will be read next.
//!
//! Files are kept in the order of their listings, which is the order in which programs read them
//! that walk over a tree. Two habits lead to a guess: the files of a directory are read after it
//! was listed, and files are read in the order of the listings. A guess pays if one file in four is
//! read, so a score follows how many are: files that are not pushed lower it when they are listed
//! or passed over, and raise it when they are read. While files are pushed, one in sixteen is left
//! out, to learn whether readers still come.
//!
//! The memory is bounded, and the oldest files are forgotten first. A file that the kernel forgets
//! is forgotten here, too. This file knows no bytes and makes no system call.

use std::collections::{HashMap, VecDeque};

/// Files that are remembered: about 2 MiB.
const FILES_MAX: usize = 1 << 16;
/// Directories whose listings are told apart.
const DIRECTORIES_MAX: usize = 64;
/// Readers that are followed at once.
const READERS_MAX: usize = 8;
/// One in this many files is left out of a guess.
const SAMPLE: u32 = 16;
/// What the read of a file that was not pushed adds to the score; one that is not read takes 1.
const READ_SCORE: u32 = 4;
/// The score from which on files are pushed, and the highest.
const SCORE_MIN: u32 = 8;
const SCORE_MAX: u32 = 64;
/// Reads in the order of listings before a guess.
const STREAK_MIN: u32 = 2;
/// Files of the first guess about a reader, and of any guess.
const WINDOW_FIRST: u64 = 8;
const WINDOW_MAX: u64 = 64;
/// Bytes of the files of a guess.
const WINDOW_LEN_MAX: u64 = 256 << 10;
/// How many files a reader may leave out.
const GAP_MAX: u64 = 8;
/// Files that are not pushed after the kernel dropped one that was.
const PAUSE: u32 = 64;
const PAUSE_MAX: u32 = 4096;

/// A small file: its inode and its length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SmallFile {
    pub(super) inode: u64,
    pub(super) len: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Neither read nor pushed.
    New,
    /// Left out of a guess.
    Sample,
    Pushed,
    Read,
    /// Forgotten, or listed again later.
    Gone,
}

/// The files of one directory: positions in the order of listings.
struct ListedDirectory {
    inode: u64,
    first: u64,
    end: u64,
    /// The kernel has asked for what comes after the last entry, so it knows all of them.
    is_known: bool,
}

/// A program that reads files in the order of the listings.
#[derive(Debug, Clone, Copy, Default)]
struct Reader {
    /// The first position that no guess includes.
    next: u64,
    streak: u32,
    window: u64,
    touched: u64,
}

/// The files that were listed lately, and what happened to them.
#[derive(Default)]
pub(super) struct Listed {
    files: VecDeque<(SmallFile, State)>,
    /// Position of the first of `files`.
    first: u64,
    /// Positions by inode.
    positions: HashMap<u64, u64>,
    directories: VecDeque<ListedDirectory>,
    readers: Vec<Reader>,
    /// Number of reads, to tell which reader is the oldest.
    clock: u64,
    score: u32,
    sample_clock: u32,
    pause: u32,
}

impl Listed {
    /// Adds files of `directory` that the kernel was told of, in their order.
    pub(super) fn add(&mut self, directory: u64, files: &[SmallFile]) {
        if files.is_empty() {
            return;
        }
        let from = self.end();
        for &file in files {
            if self.files.len() == FILES_MAX {
                self.drop_oldest();
            }
            let position = self.end();
            if let Some(old) = self.positions.insert(file.inode, position) {
                self.set(old, State::Gone);
            }
            self.files.push_back((file, State::New));
            if self.score < SCORE_MIN {
                self.score = self.score.saturating_sub(1);
            }
        }
        let end = self.end();
        match self.directories.iter_mut().rev().find(|listed| listed.inode == directory) {
            // A large directory is listed in parts; others may have been listed in between.
            Some(listed) if listed.end == from && !listed.is_known => listed.end = end,
            _ => {
                if self.directories.len() == DIRECTORIES_MAX {
                    self.directories.pop_front();
                }
                let new = ListedDirectory { inode: directory, first: from, end, is_known: false };
                self.directories.push_back(new);
            }
        }
    }

    /// Notes that the kernel knows all entries of `directory`. Appends the files to push to
    /// `wanted`.
    pub(super) fn ended(&mut self, directory: u64, wanted: &mut Vec<SmallFile>) {
        let found = self.directories.iter_mut().rev().find(|listed| listed.inode == directory);
        let Some(listed) = found.filter(|listed| !listed.is_known) else { return };
        listed.is_known = true;
        let (first, end) = (listed.first, listed.end);
        if self.score < SCORE_MIN {
            return;
        }
        let next = self.take(first, end, WINDOW_MAX, wanted);
        if next < end {
            // Whoever reads these files will get here.
            self.clock += 1;
            let reader =
                Reader { next, streak: STREAK_MIN, window: WINDOW_MAX / 2, touched: self.clock };
            self.remember(reader);
        }
    }

    /// Notes a read of a file. Appends the files to push to `wanted`. Returns whether the file had
    /// been pushed, so the kernel has dropped it since.
    pub(super) fn read(&mut self, inode: u64, offset: u64, wanted: &mut Vec<SmallFile>) -> bool {
        let Some(&position) = self.positions.get(&inode) else { return false };
        let state = self.state(position);
        self.set(position, State::Read);
        let was_pushed = state == State::Pushed;
        if was_pushed {
            self.pause = (self.pause + PAUSE).min(PAUSE_MAX);
        }
        if matches!(state, State::New | State::Sample) {
            self.score = (self.score + READ_SCORE).min(SCORE_MAX);
        }
        if offset == 0 {
            self.follow(position, wanted);
        }
        was_pushed
    }

    /// Forgets an inode that the kernel no longer knows.
    pub(super) fn forget(&mut self, inode: u64) {
        if let Some(position) = self.positions.remove(&inode) {
            self.set(position, State::Gone);
        }
    }

    /// Takes back what the last call wanted and was not pushed: some of these files may be wanted
    /// again. If nothing could be pushed, that counts as a file that was left out.
    pub(super) fn not_pushed(&mut self, files: &[SmallFile], none_pushed: bool) {
        let mut first = u64::MAX;
        for file in files {
            if let Some(&position) = self.positions.get(&file.inode)
                && self.state(position) == State::Pushed
            {
                self.set(position, State::New);
                first = first.min(position);
            }
        }
        for reader in &mut self.readers {
            if reader.next > first && reader.next - first <= 4 * WINDOW_MAX {
                reader.next = first;
            }
        }
        if none_pushed {
            self.score = self.score.saturating_sub(1);
        }
    }

    /// Follows the reader that has come to `position`.
    fn follow(&mut self, position: u64, wanted: &mut Vec<SmallFile>) {
        self.clock += 1;
        let is_near = |reader: &&mut Reader| {
            position + 2 * WINDOW_MAX >= reader.next && position <= reader.next + GAP_MAX
        };
        let Some(reader) = self.readers.iter_mut().find(is_near) else {
            let new = Reader { next: position + 1, touched: self.clock, ..Reader::default() };
            return self.remember(new);
        };
        reader.touched = self.clock;
        if position >= reader.next {
            reader.streak += 1;
            reader.next = position + 1;
        }
        let is_far_ahead = reader.next > position + 1 + reader.window / 2;
        if self.score < SCORE_MIN || reader.streak < STREAK_MIN || is_far_ahead {
            return;
        }
        reader.window = (2 * reader.window).clamp(WINDOW_FIRST, WINDOW_MAX);
        let (from, window) = (reader.next, reader.window);
        let end = self.known_end(position);
        let next = self.take(from, end, window, wanted);
        let clock = self.clock;
        if let Some(reader) = self.readers.iter_mut().find(|reader| reader.touched == clock) {
            reader.next = next;
        }
    }

    /// Appends new files from `from` up to `end` to `wanted`, at most `count`, and marks them as
    /// pushed. Returns where it stopped.
    fn take(&mut self, from: u64, end: u64, count: u64, wanted: &mut Vec<SmallFile>) -> u64 {
        let mut len_left = WINDOW_LEN_MAX;
        let end = end.min(self.end()).min(from.saturating_add(4 * count));
        for position in from.max(self.first)..end {
            let (file, state) = self.files[(position - self.first) as usize];
            if state != State::New {
                continue;
            }
            if wanted.len() as u64 == count || u64::from(file.len) > len_left {
                return position;
            }
            if self.pause > 0 {
                self.pause -= 1;
                continue;
            }
            self.sample_clock = (self.sample_clock + 1) % SAMPLE;
            if self.sample_clock == 0 {
                self.set(position, State::Sample);
                self.score = self.score.saturating_sub(1);
                continue;
            }
            len_left -= u64::from(file.len);
            self.set(position, State::Pushed);
            wanted.push(file);
        }
        end.max(from)
    }

    /// The position up to which the kernel knows all files, if it reads the one at `position`. It
    /// may not have taken in the answer yet that named the others.
    fn known_end(&self, position: u64) -> u64 {
        let is_open = |listed: &&ListedDirectory| {
            !listed.is_known && !(listed.first..listed.end).contains(&position)
        };
        let open = self.directories.iter().filter(is_open);
        open.map(|listed| listed.first).min().unwrap_or(self.end())
    }

    fn remember(&mut self, new: Reader) {
        if self.readers.len() < READERS_MAX {
            self.readers.push(new);
        } else if let Some(oldest) =
            self.readers.iter_mut().min_by_key(|reader| (reader.streak.min(1), reader.touched))
        {
            *oldest = new;
        }
    }

    fn end(&self) -> u64 {
        self.first + self.files.len() as u64
    }

    fn state(&self, position: u64) -> State {
        let at = position.checked_sub(self.first).and_then(|at| self.files.get(at as usize));
        at.map_or(State::Gone, |(_, state)| *state)
    }

    fn set(&mut self, position: u64, state: State) {
        let at = position.checked_sub(self.first);
        if let Some((_, old)) = at.and_then(|at| self.files.get_mut(at as usize)) {
            *old = state;
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((file, state)) = self.files.pop_front() {
            self.first += 1;
            if state != State::Gone {
                self.positions.remove(&file.inode);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of 100 bytes with these inodes.
    fn files(inodes: std::ops::Range<u64>) -> Vec<SmallFile> {
        inodes.map(|inode| SmallFile { inode, len: 100 }).collect()
    }

    fn listed(directory: u64, inodes: std::ops::Range<u64>, listed: &mut Listed) -> Vec<u64> {
        listed.add(directory, &files(inodes));
        let mut wanted = Vec::new();
        listed.ended(directory, &mut wanted);
        wanted.iter().map(|file| file.inode).collect()
    }

    fn read(inode: u64, listed: &mut Listed) -> Vec<u64> {
        let mut wanted = Vec::new();
        listed.read(inode, 0, &mut wanted);
        wanted.iter().map(|file| file.inode).collect()
    }

    /// Reads what is not pushed, in order; returns how many reads it took.
    fn read_all(inodes: std::ops::Range<u64>, pushed: &mut Vec<u64>, memory: &mut Listed) -> u64 {
        let mut count = 0;
        for inode in inodes {
            if !pushed.contains(&inode) {
                count += 1;
                pushed.extend(read(inode, memory));
            }
        }
        count
    }

    #[test]
    fn files_are_pushed_once_those_listed_before_were_read() {
        let mut memory = Listed::default();
        assert_eq!(listed(1, 100..102, &mut memory), []);
        assert_eq!(read(100, &mut memory), []);
        assert_eq!(listed(2, 200..203, &mut memory), []);
        assert_eq!(read(101, &mut memory), []);
        assert_eq!(read(200, &mut memory), [201, 202]);
        assert_eq!(listed(3, 300..310, &mut memory), (300..310).collect::<Vec<_>>());
        // Nothing is pushed twice, however often the end is asked for.
        let mut wanted = Vec::new();
        memory.ended(3, &mut wanted);
        assert_eq!(wanted, []);
    }

    #[test]
    fn a_walk_reads_one_file_in_ten_itself() {
        let mut memory = Listed::default();
        let mut reads = 0;
        for directory in 0..1000 {
            let inodes = 10_000 + directory * 3..10_000 + directory * 3 + 3;
            let mut pushed = listed(directory, inodes.clone(), &mut memory);
            reads += read_all(inodes, &mut pushed, &mut memory);
        }
        assert!((150..300).contains(&reads), "{reads} of 3000");
    }

    #[test]
    fn a_large_directory_is_pushed_in_steps_while_it_is_read() {
        let mut memory = Listed::default();
        let mut pushed = listed(1, 0..20_000, &mut memory);
        assert_eq!(pushed, []);
        let reads = read_all(0..20_000, &mut pushed, &mut memory);
        assert!(reads < 2000, "{reads}");
    }

    #[test]
    fn listing_alone_pushes_nothing_and_ends_pushing() {
        let mut memory = Listed::default();
        for directory in 0..100 {
            assert_eq!(listed(directory, directory * 100..directory * 100 + 100, &mut memory), []);
        }
        let mut pushed = Vec::new();
        read_all(0..10_000, &mut pushed, &mut memory);
        let mut after = 0;
        for directory in 1000..4000 {
            after += listed(directory, directory * 10..directory * 10 + 10, &mut memory).len();
        }
        assert!((500..1200).contains(&after), "{after}");
        assert_eq!(listed(9999, 1_000_000..1_000_010, &mut memory), []);
    }

    #[test]
    fn readers_without_order_cause_no_push() {
        let mut memory = Listed::default();
        listed(1, 0..20_000, &mut memory);
        let (mut state, mut pushed) = (1u64, 0);
        for _ in 0..500 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            pushed += read((state >> 33) % 20_000, &mut memory).len();
        }
        assert!(pushed <= 64, "{pushed}");
    }

    #[test]
    fn a_file_that_the_kernel_forgot_or_may_not_know_is_not_pushed() {
        let mut memory = Listed::default();
        listed(1, 0..40, &mut memory);
        for inode in 5..40 {
            memory.forget(inode);
        }
        // The end of this directory was not asked for.
        memory.add(2, &files(100..140));
        let all: Vec<u64> = (0..3).flat_map(|inode| read(inode, &mut memory)).collect();
        assert_eq!(all, [3, 4]);
    }

    #[test]
    fn a_pushed_file_that_is_read_pauses_pushing() {
        let mut memory = Listed::default();
        let mut pushed = listed(1, 0..1000, &mut memory);
        while pushed.is_empty() {
            read_all(0..20, &mut pushed, &mut memory);
        }
        let mut wanted = Vec::new();
        assert!(memory.read(pushed[0], 0, &mut wanted));
        assert!(!memory.read(pushed[0], 4096, &mut wanted));
        assert_eq!(listed(2, 2000..2010, &mut memory), []);
        assert!(!listed(3, 3000..3100, &mut memory).is_empty());
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_are_forgotten() {
        let mut memory = Listed::default();
        for directory in 0..300 {
            // The same numbers come again, as after the kernel dropped its caches.
            let from = directory % 200 * 1000;
            listed(directory, from..from + 1000, &mut memory);
        }
        assert_eq!(memory.files.len(), FILES_MAX);
        assert!(memory.positions.len() <= FILES_MAX);
        assert_eq!(memory.directories.len(), DIRECTORIES_MAX);
        for (&inode, &position) in &memory.positions {
            assert_eq!(memory.files[(position - memory.first) as usize].0.inode, inode);
        }
    }
}
