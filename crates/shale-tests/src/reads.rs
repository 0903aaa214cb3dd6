//! What reading an image costs, counted: plain bytes decoded against bytes wanted.
//!
//! Counts do not depend on the machine; prefetch is off, so that nothing is decoded by a guess.

use std::path::Path;
use std::sync::Arc;

use shale_read::{FileSource, Image, InodeKind, Options, ReadError, SnapshotChoice, Tree};

use crate::random::Random;

/// Bytes of the frame cache while a directory is read in order.
const CACHE_BYTES: u64 = 512 << 20;
/// Bytes asked for at a time.
const STEP_LEN: usize = 128 << 10;

/// A reading, and what it took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// Bytes of the files read.
    pub wanted_bytes: u64,
    /// Plain bytes of all frames decoded for them.
    pub decoded_bytes: u64,
}

impl Cost {
    /// Bytes decoded for a byte wanted.
    pub fn share(&self) -> f64 {
        self.decoded_bytes as f64 / self.wanted_bytes.max(1) as f64
    }
}

/// Opens an image without prefetch.
///
/// # Errors
///
/// The image is damaged.
pub fn open(image: &Path, cache_bytes_max: u64) -> Result<Tree, ReadError> {
    let source = Arc::new(FileSource::open(image).expect("the image opens"));
    let options = Options::default().cache_bytes_max(cache_bytes_max).prefetch_bytes_max(0);
    Image::open(source, options)?.tree(&SnapshotChoice::Newest)
}

/// Reads all files below `directory` in path order, with a cache of 512 MiB that starts empty.
///
/// # Errors
///
/// The image is damaged.
pub fn in_order(image: &Path, directory: &str) -> Result<Cost, ReadError> {
    let tree = open(image, CACHE_BYTES)?;
    let start = tree.lookup_path(directory.as_bytes())?.expect("the directory exists");
    let mut walk = tree.walk(start)?;
    let mut cost = Cost::default();
    while let Some(visit) = walk.advance()? {
        if visit.attributes.kind == InodeKind::File {
            cost.wanted_bytes += read_whole(&tree, visit.attributes.inode, visit.attributes.size)?;
        }
    }
    cost.decoded_bytes = tree.image().counters().snapshot().plain_bytes_decoded;
    Ok(cost)
}

/// Reads `count` files by chance, each with empty caches. Returns what each decoded, sorted.
///
/// # Errors
///
/// The image is damaged.
pub fn at_random(image: &Path, count: usize, seed: u64) -> Result<Vec<Cost>, ReadError> {
    let tree = open(image, CACHE_BYTES)?;
    let mut files = Vec::new();
    let mut walk = tree.walk(tree.root_inode())?;
    while let Some(visit) = walk.advance()? {
        if visit.attributes.kind == InodeKind::File && visit.attributes.size > 0 {
            files.push((visit.attributes.inode, visit.attributes.size));
        }
    }
    let mut random = Random::new(seed);
    let mut costs = Vec::with_capacity(count);
    for _ in 0..count {
        let (inode, size) = files[random.below(files.len() as u64) as usize];
        tree.image().clear_caches();
        let before = tree.image().counters().snapshot();
        let wanted_bytes = read_whole(&tree, inode, size)?;
        let counts = tree.image().counters().snapshot().since(&before);
        costs.push(Cost { wanted_bytes, decoded_bytes: counts.plain_bytes_decoded });
    }
    costs.sort_by_key(|cost| cost.decoded_bytes);
    Ok(costs)
}

fn read_whole(tree: &Tree, inode: u64, size: u64) -> Result<u64, ReadError> {
    let mut buffer = vec![0; STEP_LEN];
    let mut at = 0;
    while at < size {
        let got = tree.read(inode, at, &mut buffer)?;
        assert!(got > 0, "a read inside a file is short");
        at += got as u64;
    }
    Ok(at)
}
