//! Flips every byte of a small image and truncates it at every length: each call returns what it
//! returns for the intact image, or an error. Nothing is silently wrong.

use crate::assemble::{self, Draft};
use shale_read::{Options, ReadError, SnapshotChoice, Tree};

/// The results of all calls on a tree.
fn answers(tree: &Tree) -> Vec<Result<Vec<u8>, ReadError>> {
    let mut answers = Vec::new();
    for inode in 1..=11 {
        answers.push(tree.attributes(inode).map(|a| format!("{a:?}").into_bytes()));
        answers.push(tree.link_target(inode));
        answers.push(tree.xattrs(inode).map(|x| format!("{x:?}").into_bytes()));
        answers.push(tree.xattr(inode, b"user.c").map(|x| format!("{x:?}").into_bytes()));
        answers.push(tree.directory_path(inode));
        for name in [&b"a.txt"[..], b"d", b"sparse", b"tty", b"e", b"long\xff", b"absent"] {
            answers.push(tree.lookup(inode, name).map(|i| format!("{i:?}").into_bytes()));
        }
        let mut names = Vec::new();
        let listed = tree.list(inode, 0, |entry| {
            names.extend_from_slice(format!("{entry:?}").as_bytes());
            true
        });
        answers.push(listed.map(|()| names));
        let mut bytes = vec![0; 5000];
        answers.push(tree.read(inode, 0, &mut bytes).map(|len| bytes[..len].to_vec()));
        let mut bytes = vec![0; 7];
        answers.push(tree.read(inode, 380, &mut bytes).map(|len| bytes[..len].to_vec()));
        answers.push(tree.seek_hole(inode, 1).map(|at| format!("{at:?}").into_bytes()));
        answers.push(tree.data_len(inode).map(|len| len.to_le_bytes().to_vec()));
    }
    let image = tree.image();
    for frame in 0..4 {
        answers.push(image.frame_verified(frame).map(|bytes| bytes.to_vec()));
    }
    answers
}

/// Opens the image and compares all results. `None` if it does not open.
fn ask(bytes: Vec<u8>, expected: &[Result<Vec<u8>, ReadError>], what: &str) -> Option<usize> {
    let options = Options::default().cache_bytes_max(1 << 20).page_cache_bytes_max(1 << 20);
    let image = assemble::open_with(bytes, options).ok()?;
    let tree = image.tree(&SnapshotChoice::Newest).ok()?;
    let mut errors = 0;
    for (n, (found, expected)) in answers(&tree).iter().zip(expected).enumerate() {
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{what}: answer {n}"),
            (Ok(found), Err(error)) => panic!("{what}: {found:?} instead of {error}"),
            (Err(error), Ok(_)) => {
                assert!(error.is_corrupt(), "{what}: {error}");
                errors += 1;
            }
            (Err(_), Err(_)) => {}
        }
    }
    Some(errors)
}

#[test]
fn no_flipped_byte_gives_a_wrong_answer() {
    for compressed in [false, true] {
        let draft = Draft { compressed, ..Draft::sample() };
        let image = draft.assemble();
        let expected = answers(&draft.tree());
        let (mut refused, mut noticed, mut unnoticed) = (0, 0, Vec::new());
        for at in 0..image.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut bytes = image.clone();
                bytes[at] ^= mask;
                match ask(bytes, &expected, &format!("byte {at} ^ {mask:#x}")) {
                    None => refused += 1,
                    Some(0) => unnoticed.push(at),
                    Some(_) => noticed += 1,
                }
            }
        }
        assert!(refused > 0 && noticed > refused, "{refused} refused, {noticed} noticed");
        // Bytes that no reader uses: headers and padding of sections whose payload the root names
        // directly. The headers of frames and pages have 64 bytes each.
        unnoticed.dedup();
        let headers = image.len() - 64..image.len();
        assert!(unnoticed.iter().all(|at| !headers.contains(at)), "the trailer is checked");
        assert!(unnoticed.len() <= 128, "{} bytes may change unnoticed", unnoticed.len());
    }
}

#[test]
fn no_cut_gives_a_wrong_answer() {
    let draft = Draft::sample();
    let image = draft.assemble();
    let expected = answers(&draft.tree());
    for len in 0..image.len() {
        // Truncated: nothing to open.
        assert_eq!(ask(image[..len].to_vec(), &expected, &format!("cut at {len}")), None);
        // The beginning is missing.
        let _ = ask(image[len + 1..].to_vec(), &expected, &format!("from {len}"));
        // The end is zeroes, as after a crash.
        let mut bytes = image[..len].to_vec();
        bytes.resize(image.len(), 0);
        let _ = ask(bytes, &expected, &format!("zeroes from {len}"));
    }
}

#[test]
fn no_lost_or_repeated_block_gives_a_wrong_answer() {
    let draft = Draft { compressed: true, page_rows: 3, ..Draft::sample() };
    let image = draft.assemble();
    let expected = answers(&draft.tree());
    for block in [16, 64, 512] {
        for at in (0..image.len() - 2 * block).step_by(block) {
            let mut lost = image.clone();
            lost.drain(at..at + block);
            let _ = ask(lost, &expected, &format!("{block} bytes lost at {at}"));
            let mut repeated = image.clone();
            repeated.copy_within(at..at + block, at + block);
            let _ = ask(repeated, &expected, &format!("{block} bytes repeated at {at}"));
        }
    }
}
