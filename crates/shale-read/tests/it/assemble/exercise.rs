//! Calls everything that a tree and its image offer, and collects the errors.

use shale_read::{ReadError, Tree};

/// Bytes that all calls on a small image may read and decode.
const BYTES_MAX: u64 = 1 << 30;

/// Calls everything that a tree offers and returns the errors. Panics if too much is decoded.
pub fn exercise(tree: &Tree) -> Vec<ReadError> {
    let before = tree.image().counters().snapshot();
    let mut errors = Vec::new();
    let mut note = |result: Result<(), ReadError>| errors.extend(result.err());
    let inode_max = tree.inode_count().min(50) + 2;
    let mut buf = vec![0; 3000];
    for inode in (0..=inode_max).chain([u64::MAX]) {
        note(tree.attributes(inode).map(drop));
        note(tree.lookup(inode, b"a.txt").map(drop));
        note(tree.lookup(inode, b"e").map(drop));
        note(tree.lookup(inode, b"tty").map(drop));
        for cookie in [0, 1, 3, u64::MAX] {
            note(tree.list(inode, cookie, |_| true));
            note(tree.list_attributes(inode, cookie, |_, _| true));
        }
        note(tree.link_target(inode).map(drop));
        note(tree.xattr(inode, b"user.b").map(drop));
        note(tree.xattr_names(inode).map(drop));
        note(tree.xattrs(inode).map(drop));
        note(tree.parent(inode).map(drop));
        note(tree.directory_path(inode).map(drop));
        note(tree.path_of(inode).map(drop));
        note(tree.read(inode, 0, &mut buf).map(drop));
        note(tree.read(inode, 170, &mut buf[..300]).map(drop));
        note(tree.seek_data(inode, 3).map(drop));
        note(tree.seek_hole(inode, 3).map(drop));
        note(tree.data_len(inode).map(drop));
        match tree.pieces(inode, 0..10_000) {
            Ok(pieces) => pieces.take(10_000).for_each(|piece| note(piece.map(drop))),
            Err(error) => note(Err(error)),
        }
    }
    note(tree.lookup_path(b"d/e/../tty").map(drop));
    if let Ok(mut walk) = tree.walk(1) {
        let mut steps = 0u64;
        loop {
            match walk.advance() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => note(Err(error)),
            }
            steps += 1;
            assert!(steps <= tree.entry_count() + 1, "a walk goes in circles");
        }
    }
    let image = tree.image();
    for frame in 0..image.frame_count().min(50) {
        note(image.frame(frame).map(drop));
        note(image.frame_verified(frame).map(drop));
        note(image.read_cost(frame).map(drop));
    }
    image.frame_records(0..1000).for_each(|record| note(record.map(drop)));
    for table in image.tables() {
        note(image.check_table(&table, |_| true));
    }
    let counters = image.counters().snapshot().since(&before);
    let bytes = counters.source_bytes + counters.plain_bytes_decoded;
    assert!(bytes < BYTES_MAX, "{counters:?}");
    errors
}
