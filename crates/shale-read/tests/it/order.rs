//! A directory has one name, wherever a listing begins and however it is looked up. Honest trees
//! are walked completely, no directory of a hostile tree is entered twice, and costs are counted.

use crate::assemble::{Draft, inode};
use shale_format::InodeKind;
use shale_read::{Image, SnapshotChoice, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A generator of the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// What an entry leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    File,
    Directory,
    /// An inode that already has a name.
    Link(u64),
}

fn name(row: u64) -> Vec<u8> {
    format!("{row:08}").into_bytes()
}

/// Rows of a tree in level order. `entries` returns those of the directory with an index. The name
/// of an entry is its row.
fn tree(mut entries: impl FnMut(u64, &[InodeKind]) -> Vec<To>) -> Draft {
    let mut draft = Draft { inodes: Vec::new(), entries: Vec::new(), ..Draft::sample() };
    let mut kinds = vec![InodeKind::Directory];
    let mut directories = vec![(0u64, 1u64, 0u64)];
    let mut index = 0;
    while index < directories.len() {
        directories[index].0 = draft.entries.len() as u64;
        for to in entries(index as u64, &kinds) {
            let new = kinds.len() as u64 + 1;
            let row = draft.entries.len() as u64;
            let number = match to {
                To::Link(inode) => inode,
                To::File | To::Directory => new,
            };
            draft.entries.push((number, name(row)));
            match to {
                To::File => kinds.push(InodeKind::File),
                To::Directory => {
                    kinds.push(InodeKind::Directory);
                    directories.push((0, new, index as u64));
                }
                To::Link(_) => {}
            }
        }
        index += 1;
    }
    let mut next = 0;
    draft.inodes.extend(kinds.iter().map(|&kind| match kind {
        InodeKind::Directory => {
            next += 1;
            inode(kind, next - 1)
        }
        _ => inode(kind, 0),
    }));
    directories.push((draft.entries.len() as u64, 0, 0));
    draft.directories = directories;
    draft
}

fn random_tree(random: &mut Random) -> Draft {
    let (links, directories) = (random.below(8), 1 + random.below(4));
    let mut left = 4 + random.below(20);
    let mut draft = tree(|index, kinds| {
        // Almost all are hard links, or none is.
        let count = if index == 0 { 2 + random.below(12) } else { random.below(12) };
        let mut entries = Vec::new();
        for _ in 0..count {
            let file = 1 + random.below(kinds.len() as u64);
            let is_file = kinds[file as usize - 1] == InodeKind::File;
            entries.push(match random.below(8) {
                n if n < links && is_file => To::Link(file),
                n if n >= 8 - directories && left > 0 => {
                    left -= 1;
                    To::Directory
                }
                _ => To::File,
            });
        }
        entries
    });
    draft.page_rows = [1, 2, 5, 4096][random.below(4) as usize];
    draft
}

fn row_of(name: &[u8]) -> u64 {
    std::str::from_utf8(name).unwrap().parse().unwrap()
}

/// For each directory, the rows through which it was entered.
fn ways_in(draft: &Draft) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut ways: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let tree = draft.tree();
    for pair in draft.directories.windows(2) {
        let (rows, above) = (pair[0].0..pair[1].0, pair[0].1);
        for row in rows.clone() {
            if let Ok(Some(found)) = tree.lookup_attributes(above, &name(row)) {
                assert_eq!(tree.lookup(above, &name(row)).unwrap(), Some(found.inode));
                if found.kind == InodeKind::Directory {
                    ways.entry(found.inode).or_default().insert(row);
                }
            }
        }
        for cookie in 0..=rows.end - rows.start {
            let _ = tree.list_attributes(above, cookie, |entry, found| {
                if found.kind == InodeKind::Directory {
                    ways.entry(found.inode).or_default().insert(row_of(entry.name));
                }
                true
            });
        }
    }
    let mut walk = tree.walk(1).unwrap();
    let mut errors = 0;
    loop {
        match walk.advance() {
            Ok(Some(visit)) if visit.depth > 0 => {
                if visit.attributes.kind == InodeKind::Directory {
                    ways.entry(visit.attributes.inode).or_default().insert(row_of(visit.name()));
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(_) => errors += 1,
        }
        assert!(errors <= draft.entries.len());
    }
    ways
}

#[test]
fn every_entry_of_an_honest_tree_is_followed_from_everywhere() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..300 {
        let draft = random_tree(&mut random);
        let tree = draft.tree();
        for pair in draft.directories.windows(2) {
            let (rows, above) = (pair[0].0..pair[1].0, pair[0].1);
            for cookie in 0..=rows.end - rows.start {
                let mut next = rows.start + cookie;
                let met = tree.list_attributes(above, cookie, |entry, _| {
                    assert_eq!(row_of(entry.name), next);
                    next += 1;
                    true
                });
                met.unwrap();
                assert_eq!(next, rows.end);
            }
            for row in rows {
                let expected = draft.entries[row as usize].0;
                assert_eq!(tree.lookup(above, &name(row)).unwrap(), Some(expected));
            }
        }
        let ways = ways_in(&draft);
        assert!(ways.values().all(|rows| rows.len() == 1));
        assert_eq!(ways.len(), draft.directories.len() - 2);
    }
}

#[test]
fn no_directory_is_entered_by_two_names_whatever_lies_between() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut refused = 0;
    for _ in 0..1_500 {
        let mut draft = random_tree(&mut random);
        // More names for directories, in their own parents; and what makes them pass.
        for _ in 0..1 + random.below(4) {
            let index = 1 + random.below(draft.directories.len() as u64) as usize;
            let Some(&(_, number, parent)) = draft.directories.get(index) else { continue };
            let above = parent as usize;
            let rows = draft.directories[above].0..draft.directories[above + 1].0;
            if number == 0 || rows.is_empty() {
                continue;
            }
            let mut place = |number: u64, random: &mut Random| {
                let row = rows.start + random.below(rows.end - rows.start);
                draft.entries[row as usize].0 = number;
            };
            place(number, &mut random);
            for _ in 0..random.below(3) {
                let any = 1 + random.below(draft.inodes.len() as u64);
                place(any, &mut random);
            }
        }
        let names = |number| draft.entries.iter().filter(|entry| entry.0 == number).count();
        for (number, rows) in ways_in(&draft) {
            assert!(rows.len() <= 1, "directory inode {number} is entered by rows {rows:?}");
            refused += usize::from(names(number) > 1);
        }
    }
    assert!(refused > 300, "only {refused} directories had several names");
}

/// Enters every directory that listings return, a few entries at a time as a driver asks for them,
/// and every directory found under each name. Returns the directories entered.
fn walk(tree: &Tree, reply: u64, limit: u64) -> u64 {
    let mut entered = 0;
    let mut waiting = vec![1];
    while let Some(directory) = waiting.pop() {
        entered += 1;
        if entered > limit {
            break;
        }
        let mut cookie = 0;
        loop {
            let mut names = Vec::new();
            let listed = tree.list_attributes(directory, cookie, |entry, _| {
                names.push(entry.name.to_vec());
                cookie = entry.cookie;
                (names.len() as u64) < reply
            });
            if listed.is_err() || names.is_empty() {
                break;
            }
            for name in names {
                let found = tree.lookup_attributes(directory, &name);
                if let Ok(Some(found)) = found
                    && found.kind == InodeKind::Directory
                {
                    waiting.push(found.inode);
                }
            }
        }
    }
    entered
}

#[test]
fn names_that_are_a_reply_apart_do_not_double_a_walk() {
    // 30 levels. Each has a name for the next one at both ends, and links to one file between them.
    let (levels, links) = (30, 20);
    let mut draft = tree(|index, _| {
        let mut entries = Vec::new();
        entries.extend((index == 0).then_some(To::File));
        entries.extend((index + 1 < levels).then_some(To::Directory));
        entries.extend((0..=links).map(|_| To::Link(2)));
        entries
    });
    // The last link of each level leads to the next directory too.
    for index in 0..levels as usize - 1 {
        let (end, below) = (draft.directories[index + 1].0, draft.directories[index + 1].1);
        draft.entries[end as usize - 1].0 = below;
    }
    for page_rows in [3, 4096] {
        draft.page_rows = page_rows;
        for reply in [1, 8, 1000] {
            let entered = walk(&draft.tree(), reply, 10_000);
            assert!(entered <= levels, "{entered} directories entered, {reply} names a reply");
        }
    }
}

/// Pages touched since the last call, cached or not.
fn touched(image: &Arc<Image>, last: &mut u64) -> u64 {
    let now = image.counters().snapshot();
    let before = std::mem::replace(last, now.pages_read + now.page_hits);
    *last - before
}

#[test]
fn a_directory_among_many_is_found_without_looking_through_them() {
    let count = 100_000;
    let mut draft = tree(|index, _| match index {
        0 => vec![To::Directory; count],
        _ => Vec::new(),
    });
    draft.page_rows = 1000;
    let image = draft.open();
    let tree = image.tree(&SnapshotChoice::Newest).unwrap();
    for row in [77_777, 5, count as u64 - 1] {
        assert_eq!(tree.lookup(1, &name(row)).unwrap(), Some(row + 2));
    }
    // As for files, and the first page of the entries, and index and page of the directory found.
    let cost = image.counters().snapshot().pages_read;
    assert!(cost <= 3 * (4 + 1 + 8 + 1 + 2), "{cost} pages for three");
}

#[test]
fn entries_after_hard_links_are_scanned_once() {
    // Files and directories in turn, after a hard link to a file with a lower number.
    let count = 60_000;
    let mut draft = tree(|index, _| match index {
        0 => vec![To::File, To::Directory],
        1 => {
            let mut entries = vec![To::Link(2)];
            entries.extend((0..count).map(|n| match n % 3 {
                0 => To::Directory,
                1 => To::Link(2),
                _ => To::File,
            }));
            entries
        }
        _ => Vec::new(),
    });
    draft.page_rows = 1000;
    let image = draft.open();
    let tree = image.tree(&SnapshotChoice::Newest).unwrap();
    let mut last = 0;
    let mut cost_max = 0;
    let (mut cookie, mut met, mut replies) = (0, 0, 0);
    touched(&image, &mut last);
    let begin = last;
    loop {
        let mut count = 0;
        tree.list_attributes(3, cookie, |entry, _| {
            cookie = entry.cookie;
            count += 1;
            count < 50
        })
        .unwrap();
        met += count;
        replies += 1;
        cost_max = cost_max.max(touched(&image, &mut last));
        if count == 0 {
            break;
        }
    }
    assert_eq!(met, count + 1);
    // The cost of 50 entries, never that of all earlier entries, which are up to 60 pages.
    let mean = (last - begin) / replies;
    assert!(mean < 190, "{mean} pages touched for 50 entries in the mean, {cost_max} at most");
    let all = image.counters().snapshot().pages_read;

    // Lookups in any order: all earlier pages the first time, then from the nearest mark.
    let directory = |n: u64| 2 + 1 + 3 * n;
    let look_up = |n: u64, last: &mut u64| {
        let found = tree.lookup_attributes(3, &name(directory(n))).unwrap().unwrap();
        assert_eq!(found.kind, InodeKind::Directory);
        touched(&image, last)
    };
    touched(&image, &mut last);
    for n in (1..19_000).step_by(997) {
        look_up(n, &mut last);
    }
    for n in (2..19_000).step_by(997) {
        let cost = look_up(n, &mut last);
        assert!(cost < 60, "{cost} pages touched for a name");
    }
    assert_eq!(image.counters().snapshot().pages_read, all, "nothing is read twice");
}
