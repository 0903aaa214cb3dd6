//! Same input, same options, same bytes: whatever the threads, the memory, the order in which the
//! tree was made, and where it lies.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::*;
use shale_write::level::ReferenceLimits;
use shale_write::{NoProgress, Options, create};

/// A tree of some hundred files, made in the order that `seed` shuffles.
fn make(root: &Path, seed: u64) {
    let mut jobs: Vec<u64> = (0..400).collect();
    let mut random = Random(seed);
    for index in (1..jobs.len()).rev() {
        jobs.swap(index, random.next() as usize % (index + 1));
    }
    for job in jobs {
        let directory = root.join(format!("d{}", job % 7)).join(format!("e{}", job % 3));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(format!("file {job}"));
        let mut random = Random(job / 2);
        match job % 10 {
            0 => symlink(format!("target {job}"), &path).unwrap(),
            1 => fs::write(&path, random.bytes(100_000)).unwrap(),
            2 if job % 4 == 2 => fs::write(&path, random.text(1_200_000)).unwrap(),
            3 => {
                let len = 100_000 + job;
                make_sparse(&path, len, &[(8192 * (job % 5), 8192 * (job % 5) + 4096)], 3);
            }
            _ => fs::write(&path, random.text(job as usize * 50)).unwrap(),
        }
        if job % 4 == 0 {
            set_xattr(&path, "user.number", job.to_string().as_bytes());
        }
        set_mtime(&path, 1_000_000_000 + job as i64, job as i64);
    }
    // Hard links: the two names in either order.
    let (one, other) = (root.join("link one"), root.join("d1/link other"));
    let (first, second) = if seed.is_multiple_of(2) { (&one, &other) } else { (&other, &one) };
    fs::write(first, b"linked").unwrap();
    fs::hard_link(first, second).unwrap();
    set_mtime(first, 77, 77);
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            }
        }
        set_mtime(&directory, 5, 5);
    }
}

#[test]
fn threads_memory_order_and_place_change_nothing() {
    assert_nothing_changes(&[(1, true)], &[(2, 0), (4, 240 << 20)]);
}

/// Packs two equal trees at these levels, with references or without, with these numbers of threads
/// and bytes of memory.
fn assert_nothing_changes(ways: &[(u8, bool)], runs: &[(usize, u64)]) {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make(first.path(), 2);
    make(second.path(), 3);
    for &(level, linked) in ways {
        // Segment dedupe and references, whatever the level says.
        let references = ReferenceLimits {
            count_max: 3,
            depth_max: 2,
            closure_bytes_max: 1 << 20,
            co_read_bytes_max: 1 << 20,
        };
        let options = |threads, memory_bytes_max| Options {
            level,
            references: linked.then_some(references),
            segment_window_len: linked.then_some(64),
            threads,
            memory_bytes_max,
            frame_len: Some(64 << 10),
            ..Options::default()
        };
        let (image, report) = pack(first.path(), &options(1, 0));
        assert_digests(&open(&image), &report);
        assert_eq!(report.references > 0, linked);
        for &(threads, memory) in runs {
            for root in [first.path(), second.path()] {
                let (again, other) = pack(root, &options(threads, memory));
                assert!(again == image, "level {level}, {threads} threads, {memory} bytes");
                assert_eq!(other.tree_digest, report.tree_digest);
            }
        }
    }
}

#[test]
fn options_that_change_the_image_change_its_identity() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), b"content").unwrap();
    let id = |options: &Options| pack(dir.path(), options).1.image_id;
    let base = options();
    let others = [
        Options { level: 2, ..base.clone() },
        Options { frame_len: Some(8 << 10), ..base.clone() },
        Options { times_kept: 0, ..base.clone() },
        Options { snapshot_name: b"monday".to_vec(), ..base.clone() },
        Options { codecs: vec![(None, "lz4".parse().unwrap())], ..base.clone() },
    ];
    let mut ids: Vec<_> = others.iter().map(id).collect();
    ids.push(id(&base));
    assert_eq!(id(&base), id(&Options { threads: 3, skip_unreadable: true, ..base.clone() }));
    fs::write(dir.path().join("file"), b"longer content").unwrap();
    ids.push(id(&base));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 7);
}

/// Takes bytes a few at a time, as a pipe may.
struct Trickle(Vec<u8>);

impl Write for Trickle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(100 + self.0.len() % 4000);
        self.0.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_pipe_gets_the_same_image() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 1);
    let options = options();
    let (image, _) = pack(dir.path(), &options);
    let mut pipe = Trickle(Vec::new());
    create(&mut scan(dir.path(), &options), &mut pipe, &options, &NoProgress).unwrap();
    assert!(pipe.0 == image);
}

/// What `make check` tries a sample of.
mod long {
    use super::assert_nothing_changes;

    #[test]
    fn threads_memory_order_and_place_change_nothing_at_other_levels() {
        let runs = [(1, 256 << 20), (2, 0), (4, 240 << 20), (4, 0)];
        assert_nothing_changes(&[(1, true), (1, false), (3, false)], &runs);
    }
}
