//! Promise: check holds the tables against each other. All sums of these images are right; the
//! rows of one table are not what those of another say.

use crate::assemble::{Draft, inode};
use shale::read::MemorySource;
use shale::{CheckLevel, CheckOptions, NoProgress, check};
use shale_format::InodeKind;
use std::sync::Arc;

/// What a check says is wrong, by this many threads.
fn problems(draft: &Draft, threads: usize) -> Vec<String> {
    let options = CheckOptions::default().threads(threads).level(CheckLevel::Tables);
    let source = Arc::new(MemorySource::new(draft.assemble()));
    let report = check(source, &options, &NoProgress).unwrap();
    report.problems.iter().map(|problem| problem.to_string()).collect()
}

/// The sample, as it says of itself that it is.
fn sample() -> Draft {
    let mut draft = Draft::sample();
    // Pages of a few rows, so that what belongs together lies apart.
    draft.page_rows = 3;
    draft.spoil_root = Some(|root| {
        root.bounds.frame_plain_len_max = 4096;
        root.bounds.read_bytes_max = 4096;
        root.bounds.reference_count_max = 2;
        root.bounds.depth_max = 2;
    });
    draft
}

fn rename(draft: &mut Draft, row: usize, name: &[u8]) {
    draft.entries[row].1 = name.to_vec();
}

#[test]
fn tables_that_agree_are_not_complained_about() {
    for threads in [1, 2] {
        assert_eq!(problems(&sample(), threads), Vec::<String>::new());
    }
}

#[test]
fn whatever_does_not_agree_is_said_and_by_any_number_of_threads_alike() {
    type Spoil = fn(&mut Draft);
    let cases: &[(Spoil, &[&str])] = &[
        (|draft| rename(draft, 2, b"c"), &["row 2: name `c` is not in order"]),
        (|draft| rename(draft, 1, b"a.txt"), &["row 1: name `a.txt` is not in order"]),
        // The first name of a directory may be anything: the one before is another's.
        (|draft| rename(draft, 6, b"z"), &[]),
        (|draft| rename(draft, 9, b"a"), &["row 9: name `a` is not in order"]),
        // Both kinds at once: names come after inodes, whichever was ready first.
        (
            |draft| {
                rename(draft, 9, b"a");
                draft.inodes[0].link_count = 9;
            },
            &["directory inode 1: link count is 9, expected 3", "row 9: name `a` is not in order"],
        ),
        (|draft| draft.entries[2].0 = 9, &["row 2: inode is 9, the next new one is 4"]),
        (|draft| draft.inodes[1].link_count = 1, &["row 8: inode 2 has more names than links"]),
        (|draft| draft.inodes[1].link_count = 4, &["inode 2: 2 names are missing"]),
        (
            |draft| draft.entries[8].0 = 3,
            &[
                "row 8: directory inode 3 has more than one name",
                "directory inode 3: link count is 3, expected 4",
                "inode 2: 1 names are missing",
            ],
        ),
        (
            |draft| draft.directories[2].2 = 0,
            &["row 7: directory 2 belongs to inode 9 in directory 0, but inode 9 is here in 1"],
        ),
        (
            |draft| draft.inodes.push(inode(InodeKind::File, 0)),
            &["11 inodes are reached, there are 12"],
        ),
    ];
    for (number, (spoil, expected)) in cases.iter().enumerate() {
        let mut draft = sample();
        spoil(&mut draft);
        for threads in [1, 2] {
            let found = problems(&draft, threads);
            let agree = found.len() == expected.len()
                && found.iter().zip(*expected).all(|(found, expected)| found.ends_with(expected));
            assert!(agree, "case {number}, {threads} threads: {found:#?}");
        }
    }
}
