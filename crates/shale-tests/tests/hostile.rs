//! Promise: a hostile image does no harm. Its sums are right and its numbers are not: every number
//! of every fixed structure is replaced by the worst ones, and nothing panics, hangs or takes
//! memory that the image does not have.

use shale::{CheckOptions, NoProgress, check};
use shale_read::{ByteSource, MemorySource};
use shale_tests::command::create;
use shale_tests::fuzz::mend_sums;
use shale_tests::model::make;
use shale_tests::nasty::tiny_tree;
use shale_tests::places;
use shale_tests::walk::{facts, small_options};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn small_image() -> Vec<u8> {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    make(&tiny_tree(3), &source, 1).unwrap();
    let path = folder.path().join("small.shale");
    create(&source, &path, &[]);
    std::fs::read(&path).unwrap()
}

/// A source that counts the bytes that are read.
struct Counted {
    source: MemorySource,
    read: AtomicU64,
}

impl ByteSource for Counted {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.read.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.source.read_at(offset, buf)
    }
}

/// Peak memory of this process in bytes.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn worst_numbers_in_every_place_do_no_harm() {
    let bytes = small_image();
    let before = memory_peak();
    let worst = [0, 1, u64::from(u32::MAX), 1 << 40, i64::MAX as u64, u64::MAX - 1, u64::MAX];
    let mut most_read = 0;
    // Every aligned place: structures, pages and frames. In frames and pages the sums of the
    // references find the change; in headers and roots the numbers are believed.
    for at in (0..bytes.len() - 8).step_by(8) {
        for value in worst {
            let mut image = bytes.clone();
            image[at..at + 8].copy_from_slice(&value.to_le_bytes());
            mend_sums(&mut image);
            let source = Arc::new(Counted { source: MemorySource::new(image), read: 0.into() });
            let _ = facts(source.clone(), small_options());
            let options = CheckOptions::default().threads(1);
            let _ = check(source.clone(), &options, &NoProgress);
            most_read = most_read.max(source.read.load(Ordering::Relaxed));
        }
    }
    let grown = memory_peak().saturating_sub(before);
    assert!(grown < 512 << 20, "{grown} bytes more than before");
    println!("at most {most_read} bytes read of {}", bytes.len());
    assert!(most_read < 100 * bytes.len() as u64, "{most_read} bytes read of {}", bytes.len());
}
