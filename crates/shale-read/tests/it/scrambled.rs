//! Thousands of images with valid checksums and scrambled rows: every call returns a result or an
//! error. Nothing may panic, overflow or run for ever. The changes are the same in every run.

use crate::assemble::exercise::exercise;
use crate::assemble::{self, Draft};

/// A xorshift generator: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// A number that is likely to cause trouble in place of `old`.
    fn value(&mut self, old: u64) -> u64 {
        match self.below(8) {
            0 => old.wrapping_add(1),
            1 => old.wrapping_sub(1),
            2 => self.next() % 16,
            3 => self.next() % 2000,
            4 => u64::MAX - self.next() % 20,
            5 => 1 << self.below(64),
            6 => old ^ 1 << self.below(64),
            _ => 0,
        }
    }
}

/// Changes one row.
fn scramble(draft: &mut Draft, random: &mut Random) {
    fn pick<'v, T>(values: &'v mut [T], random: &mut Random) -> Option<&'v mut T> {
        let at = random.below(values.len());
        values.get_mut(at)
    }
    match random.below(14) {
        0 => {
            if let Some(base) = pick(&mut draft.contents, random) {
                *base = random.value(*base);
            }
        }
        1 | 2 => {
            if let Some((base, stream)) = pick(&mut draft.extents, random) {
                let field = if random.below(2) == 0 { base } else { stream };
                *field = random.value(*field);
            }
        }
        3 | 4 => {
            if let Some(inode) = pick(&mut draft.inodes, random) {
                match random.below(3) {
                    0 => inode.payload = random.value(inode.payload),
                    1 => inode.xattr_set = random.value(inode.xattr_set),
                    _ => {
                        let modes = [0o010000, 0o020000, 0o040000, 0o100000, 0o120000];
                        let mode = modes[random.below(modes.len())];
                        inode.kind = shale_format::InodeKind::from_mode(mode).expect("a kind");
                    }
                }
            }
        }
        5 | 6 => {
            if let Some((first, inode, parent)) = pick(&mut draft.directories, random) {
                let field = [first, inode, parent].into_iter().nth(random.below(3)).expect("one");
                *field = random.value(*field);
            }
        }
        7 => {
            if let Some((inode, _)) = pick(&mut draft.entries, random) {
                *inode = random.value(*inode);
            }
        }
        8 => {
            let (a, b) = (random.below(draft.entries.len()), random.below(draft.entries.len()));
            if a < draft.entries.len() && b < draft.entries.len() {
                draft.entries.swap(a, b);
            }
        }
        9 => {
            if let Some((first, count)) = pick(&mut draft.xattr_sets, random) {
                let field = if random.below(2) == 0 { first } else { count };
                *field = random.value(*field);
            }
        }
        10 => {
            if let Some(frame) = pick(&mut draft.frames, random) {
                frame.depth = random.below(10) as u8;
                frame.references = (0..random.below(5)).map(|_| random.next() % 6).collect();
            }
        }
        11 => {
            let spoils: [fn(&mut shale_format::FrameRecord); 8] = [
                |r| r.plain_start = r.plain_start.wrapping_add(1),
                |r| r.plain_start = r.plain_start.wrapping_sub(1),
                |r| r.plain_start = u64::MAX - 3,
                |r| r.stored_offset = u64::MAX - 3,
                |r| r.stored_len = 0,
                |r| r.codec = 3,
                |r| r.filter = 2,
                |r| r.reference_first = u64::MAX,
            ];
            if let Some(frame) = pick(&mut draft.frames, random) {
                frame.spoil = Some(spoils[random.below(spoils.len())]);
            }
        }
        12 => {
            // Drops the last rows of a table.
            match random.below(8) {
                0 => drop(draft.inodes.pop()),
                1 => drop(draft.directories.pop()),
                2 => drop(draft.entries.pop()),
                3 => drop(draft.contents.pop()),
                4 => drop(draft.extents.pop()),
                5 => drop(draft.frames.pop()),
                6 => drop(draft.xattr_items.pop()),
                _ => drop(draft.symlinks.pop()),
            }
        }
        _ => draft.page_rows = 1 + random.below(4),
    }
}

#[test]
fn no_scrambled_rows_make_the_reader_panic_or_hang() {
    let rounds = std::env::var("SCRAMBLE_ROUNDS").ok().and_then(|n| n.parse().ok());
    let mut random = Random(0x5ca1ab1e);
    let mut with_errors = 0;
    let rounds = rounds.unwrap_or(1500);
    for _ in 0..rounds {
        let mut draft = Draft::sample();
        for _ in 0..1 + random.below(4) {
            scramble(&mut draft, &mut random);
        }
        // The checks of the writer may refuse a root; then there is no image to read.
        if let Ok(image) = assemble::open(draft.assemble()) {
            let tree = image.tree(&Default::default()).expect("a snapshot");
            let errors = exercise(&tree);
            with_errors += u64::from(errors.iter().any(|error| error.is_corrupt()));
        }
    }
    assert!(with_errors > rounds / 2, "{with_errors} of {rounds} had errors");
}
