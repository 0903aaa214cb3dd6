//! The figures of the page: directories by plain and by stored size, what a random read decodes,
//! the largest, dearest and most duplicated files.
//!
//! Reads all frame records and the extents of all contents; decodes no frame. Takes 24 bytes for
//! each frame, 4 for each content, and a node for each directory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use serde_json::{Value, json};
use shale::read::{Image, InodeKind, PieceKind, Tree};

use crate::text;

/// Files of each list.
const FILES_SHOWN: usize = 20;
/// Directories of the map; smaller ones count for the next larger one above them.
const DIRECTORIES_SHOWN: usize = 4_000;
/// Number of the filter of lines.
const FILTER_LINES: u8 = 4;

/// What is known of each frame.
#[derive(Default)]
struct Frames {
    stored: Vec<u64>,
    /// Plain bytes decoded to read one byte of it.
    cost: Vec<u64>,
    /// Bytes of all contents that lie in it; bytes of several contents count several times.
    used: Vec<u64>,
    /// Plain bytes by the power of two that their cost does not exceed.
    histogram: BTreeMap<u32, u64>,
    /// Frames, plain and stored bytes: with references, as columns of lines, and others.
    ways: BTreeMap<&'static str, (u64, u64, u64)>,
}

struct Directory {
    parent: usize,
    name: Vec<u8>,
    plain: u64,
    stored: u64,
    files: u64,
}

/// The largest items by a number, with their paths.
struct Top(BinaryHeap<Reverse<(u64, u64, Vec<u8>)>>);

impl Top {
    fn push(&mut self, rank: u64, value: u64, path: &[u8]) {
        let is_full = self.0.len() == FILES_SHOWN;
        if rank == 0 || is_full && self.0.peek().is_some_and(|least| least.0.0 >= rank) {
            return;
        }
        self.0.push(Reverse((rank, value, path.to_vec())));
        if self.0.len() > FILES_SHOWN {
            self.0.pop();
        }
    }

    fn finish(self) -> Vec<Value> {
        let all = self.0.into_sorted_vec().into_iter();
        all.map(|Reverse((rank, value, path))| json!([text::escape(&path), rank, value])).collect()
    }
}

/// Gathers the figures of a snapshot.
///
/// # Errors
/// The image cannot be read.
pub fn gather(tree: &Tree) -> anyhow::Result<Value> {
    let image = tree.image();
    let mut frames = frames(image)?;
    for content in 1..image.content_count() {
        for piece in image.pieces(content, 0..image.content_len(content)?)? {
            let piece = piece?;
            if let PieceKind::Frame { frame, .. } = piece.kind {
                frames.used[frame as usize] += piece.len;
            }
        }
    }
    let mut directories: Vec<Directory> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut counts = vec![0u32; image.content_count() as usize];
    let mut again: HashMap<u64, (u64, Vec<u8>)> = HashMap::new();
    let (mut largest, mut dearest) = (Top(BinaryHeap::new()), Top(BinaryHeap::new()));
    let (mut counted, mut charged) = (HashSet::new(), HashSet::new());
    let mut walk = tree.walk(tree.root_inode())?;
    while let Some(step) = walk.advance()? {
        open.truncate(step.depth);
        let attributes = step.attributes;
        let name = step.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if attributes.kind == InodeKind::Directory {
            let parent = open.last().copied().unwrap_or(0);
            open.push(directories.len());
            let name = name.to_vec();
            directories.push(Directory { parent, name, plain: 0, stored: 0, files: 0 });
            continue;
        }
        let is_new = attributes.link_count < 2 || counted.insert(attributes.inode);
        if attributes.kind != InodeKind::File || !is_new {
            continue;
        }
        let mut stored = 0;
        if let Some(content) = attributes.content().filter(|&content| content > 0) {
            let count = &mut counts[content as usize];
            *count += 1;
            match *count {
                1 => {
                    let (bytes, cost) = storage(image, &frames, content, &mut charged, u64::MAX)?;
                    stored = bytes;
                    dearest.push(cost, attributes.size, step.path);
                }
                2 => _ = again.insert(content, (attributes.size, step.path.to_vec())),
                _ => {}
            }
        }
        largest.push(attributes.size, stored, step.path);
        if let Some(&directory) = open.last() {
            let directory = &mut directories[directory];
            directory.plain += attributes.size;
            directory.stored += stored;
            directory.files += 1;
        }
    }
    let mut duplicated = Top(BinaryHeap::new());
    for (content, (len, path)) in again {
        let count = u64::from(counts[content as usize]);
        duplicated.push(len.saturating_mul(count - 1), count, &path);
    }
    Ok(json!({
        "directories": shown(directories),
        "histogram": frames.histogram.into_iter().collect::<Vec<_>>(),
        "ways": frames.ways.into_iter().map(|(name, (count, plain, stored))| {
            json!([name, count, plain, stored])
        }).collect::<Vec<_>>(),
        "largest": largest.finish(),
        "dearest": dearest.finish(),
        "duplicated": duplicated.finish(),
    }))
}

fn frames(image: &Image) -> anyhow::Result<Frames> {
    let mut frames = Frames::default();
    for record in image.frame_records(0..image.frame_count()) {
        let (frame, record) = record?;
        let cost = match record.reference_count {
            0 => record.plain_len,
            _ => image.read_cost(frame)?.plain_bytes,
        };
        frames.stored.push(record.stored_len);
        frames.cost.push(cost);
        let step = cost.max(1).next_power_of_two().ilog2();
        *frames.histogram.entry(step).or_default() += record.plain_len;
        let way = match (record.filter, record.reference_count) {
            (FILTER_LINES, _) => "lines as columns",
            (_, 0) => "alone",
            _ => "with references",
        };
        let (count, plain, stored) = frames.ways.entry(way).or_default();
        *count += 1;
        *plain += record.plain_len;
        *stored += record.stored_len;
    }
    frames.used = vec![0; frames.stored.len()];
    Ok(frames)
}

/// The stored bytes of a content, as its share of its frames, and what a read of it decodes at
/// most. What it is rebuilt from belongs to it, but only to the first content that needs it:
/// `charged` has those that were met. Chunks from `depth_end` on are passed over.
fn storage(
    image: &Image,
    frames: &Frames,
    content: u64,
    charged: &mut HashSet<u64>,
    depth_end: u64,
) -> anyhow::Result<(u64, u64)> {
    let is_first = charged.insert(content);
    let (mut stored, mut cost) = (0.0, 0);
    let mut inner_before = None;
    for piece in image.pieces(content, 0..image.content_len(content)?)? {
        let piece = piece?;
        match piece.kind {
            PieceKind::Frame { frame, .. } => {
                let frame = frame as usize;
                let share = piece.len as f64 / frames.used[frame].max(1) as f64;
                stored += frames.stored[frame] as f64 * share;
                cost = cost.max(frames.cost[frame]);
            }
            PieceKind::Rebuilt { chunk, .. } => {
                let record = image.chunk_record(chunk)?;
                let inner = record.content;
                // Chunks of one stream follow each other.
                if inner_before.replace(inner) != Some(inner) && record.depth < depth_end {
                    let (bytes, below) = storage(image, frames, inner, charged, record.depth)?;
                    stored += bytes as f64;
                    cost = cost.max(below);
                }
            }
            PieceKind::Hole | PieceKind::Zero => {}
        }
    }
    Ok((if is_first { stored.round() as u64 } else { 0 }, cost))
}

/// The directories of the map, parents first: parent, name, plain and stored bytes, files. Sizes
/// include everything below.
fn shown(mut all: Vec<Directory>) -> Vec<Value> {
    for index in (1..all.len()).rev() {
        let Directory { parent, plain, stored, files, .. } = all[index];
        all[parent].plain += plain;
        all[parent].stored += stored;
        all[parent].files += files;
    }
    let (plain, stored) =
        all.first().map_or((1, 1), |root| (root.plain.max(1), root.stored.max(1)));
    let weight = |directory: &Directory| {
        let share = |bytes: u64, of: u64| (u128::from(bytes) << 64) / u128::from(of);
        share(directory.plain, plain).max(share(directory.stored, stored))
    };
    let mut order: Vec<usize> = (0..all.len()).collect();
    // A parent is at least as large as what is in it, and comes first among equals.
    order.sort_by_key(|&index| (Reverse(weight(&all[index])), index));
    order.truncate(DIRECTORIES_SHOWN);
    order.sort_unstable();
    let mut places = HashMap::new();
    let mut out = Vec::with_capacity(order.len());
    for (place, &index) in order.iter().enumerate() {
        let directory = &all[index];
        places.insert(index, place);
        let parent = places.get(&directory.parent).copied().unwrap_or(0);
        let name = text::escape(&directory.name);
        out.push(json!([parent, name, directory.plain, directory.stored, directory.files]));
    }
    out
}
