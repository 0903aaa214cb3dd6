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
/// error unless `options.source.replace` is set. With `keeps_snapshots` it has all snapshots of all
/// parts, one after the other, and prefixes do not count. Frames are copied as they are stored;
/// contents that are equal in several parts are stored once.
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
                snapshots.push(Snapshot { name, parts, is_changed: false });
            }
        }
    } else {
        let mut trees = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let tree = part.image.tree(&part.snapshot)?;
            trees.push(SnapshotPart { image: index, tree, prefix: part.prefix.clone() });
        }
        let name = options.build.snapshot_name.clone();
        snapshots.push(Snapshot { name, parts: trees, is_changed: false });
    }
    let mut text = histories(&images)?;
    let label = label(options);
    text += &shale_write::history("merge", &format!("parts={}{label}", parts.len()));
    assemble(&images, &snapshots, &text, path, options, progress)
}

/// The label of the options, as it ends a line of the history.
pub(crate) fn label(options: &CreateOptions) -> String {
    let mut text = String::new();
    for c in options.build.label.iter().flat_map(|label| label.chars()) {
        match c {
            '\\' => text.push_str("\\\\"),
            c if c.is_control() => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    if options.build.label.is_some() { format!(" label={text}") } else { text }
}

/// The lines of the histories of all images, each distinct one once.
///
/// # Errors
/// An image cannot be read.
pub(crate) fn histories(images: &[Arc<Image>]) -> Result<String, Error> {
    let mut text = String::new();
    for image in images {
        for line in history(image)? {
            if text.len() + line.len() < HISTORY_LEN_MAX && !text.lines().any(|had| had == line) {
                text.push_str(&line);
                text.push('\n');
            }
        }
    }
    Ok(text)
}
