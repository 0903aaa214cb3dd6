//! Counts what random reads decode:
//! `cargo run --example random -- IMAGE COUNT LEN CACHE_MIB [cold] [part] [whole]`.
//!
//! Reads `COUNT` ranges of `LEN` bytes at multiples of 4 KiB, in files chosen by their size: with
//! `part` as a mount reads them, no further than needed; with `whole` through whole frames. Prints
//! the mean of plain bytes decoded for one read, and the time. With `cold`, no read finds a frame
//! in the cache.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use shale_read::{FileSource, Image, Options, SnapshotChoice};

/// Files that a reader would read in pieces.
const FILE_LEN_MIN: u64 = 64 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, count, len, cache_mib, rest @ ..] = args.as_slice() else {
        return Err("usage: random IMAGE COUNT LEN CACHE_MIB [cold] [part] [whole]".into());
    };
    let (count, len): (u64, usize) = (count.parse()?, len.parse()?);
    let has = |word: &str| rest.iter().any(|found| found == word);
    for (way, whole) in [("part", false), ("whole", true)] {
        if !has(way) {
            continue;
        }
        let options = Options::default().cache_bytes_max(cache_mib.parse::<u64>()? << 20);
        let image = Image::open(Arc::new(FileSource::open(path)?), options)?;
        let tree = image.tree(&SnapshotChoice::Newest)?;
        let mut files = Vec::new();
        let mut total_len = 0;
        for entry in tree.walk(tree.root_inode())? {
            let attributes = entry?.attributes;
            if attributes.content().is_some() && attributes.size >= FILE_LEN_MIN {
                total_len += attributes.size;
                files.push((total_len, attributes.inode, attributes.size));
            }
        }
        let before = image.counters().snapshot();
        let start = Instant::now();
        let mut state = 1u64;
        let mut chance = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below.max(1)
        };
        let mut buf = vec![0; len];
        for _ in 0..count {
            let at = chance(total_len);
            let (_, inode, size) = files[files.partition_point(|(end, _, _)| *end <= at)];
            let from = chance((size + 1).saturating_sub(len as u64)) / 4096 * 4096;
            if has("cold") {
                image.cache().clear();
            }
            if whole {
                tree.visit_data(inode, from..from + len as u64, |_| true)?;
            } else {
                tree.read(inode, from, &mut buf)?;
            }
        }
        let found = image.counters().snapshot().since(&before);
        println!(
            "{way}: {} bytes decoded for a read, {} frames, {} times gone on; {:.3} s",
            found.plain_bytes_decoded / count.max(1),
            found.frames_decoded,
            found.frames_continued,
            start.elapsed().as_secs_f64(),
        );
    }
    Ok(())
}
