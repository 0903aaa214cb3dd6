//! Makes one image of several, without packing anything again.

use std::path::Path;
use std::sync::Arc;

use shale_host::Progress;
use shale_read::{Image, SnapshotChoice};

use crate::assemble::{AssembleReport, Snapshot, SnapshotPart, assemble};
use crate::error::Error;
use crate::info::history;
use crate::options::CreateOptions;

/// An image that is merged with others.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MergePart {
    /// The image.
    pub image: Arc<Image>,
    /// The snapshot to take, where one tree is made of all images.
    pub snapshot: SnapshotChoice,
    /// Path in the new tree below which it is put; empty for the root. Has no slashes at its ends.
    pub prefix: Vec<u8>,
}

impl MergePart {
    /// Takes the newest snapshot of an image, at the root of the new tree.
    pub fn new(image: Arc<Image>) -> Self {
        Self { image, snapshot: SnapshotChoice::Newest, prefix: Vec::new() }
    }

    shale_host::setters! {
        snapshot: SnapshotChoice,
        prefix: Vec<u8>,
    }
}

/// Bytes of the histories of the parts that the new image keeps.
const HISTORY_LEN_MAX: usize = 256 << 10;

/// Merges `parts` into a new image at `path`.
///
/// By default it has one snapshot, in which each part has its place; a path in several parts is an
/// error unless `options.replace` is set. With `keeps_snapshots` it has all snapshots of all parts,
/// one after the other, and prefixes do not count. Frames are copied as they are stored; contents
/// that are equal in several parts are stored once.
///
/// # Errors
/// On any error nothing is left under the output's name or beside it.
pub fn merge(
    parts: &[MergePart],
    keeps_snapshots: bool,
    path: &Path,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<AssembleReport, Error> {
    let images: Vec<Arc<Image>> = parts.iter().map(|part| Arc::clone(&part.image)).collect();
    let mut snapshots = Vec::new();
    if keeps_snapshots {
        for (index, image) in images.iter().enumerate() {
            for number in 0..image.snapshots().len() {
                let tree = image.tree(&SnapshotChoice::Index(number))?;
                let name = tree.snapshot().name.clone();
                let parts = vec![SnapshotPart { image: index, tree, prefix: Vec::new() }];
                snapshots.push(Snapshot { name, parts });
            }
        }
    } else {
        let mut trees = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let tree = part.image.tree(&part.snapshot)?;
            trees.push(SnapshotPart { image: index, tree, prefix: part.prefix.clone() });
        }
        snapshots.push(Snapshot { name: options.build.snapshot_name.clone(), parts: trees });
    }
    let mut text = String::new();
    for image in &images {
        for line in history(image)? {
            if text.len() + line.len() < HISTORY_LEN_MAX && !text.lines().any(|had| had == line) {
                text.push_str(&line);
                text.push('\n');
            }
        }
    }
    let label = options.build.label.as_ref();
    let label = label.map_or(String::new(), |label| format!(" label={label}"));
    text += &shale_write::history("merge", &format!("parts={}{label}", parts.len()));
    assemble(&images, &snapshots, &text, path, options, progress)
}
