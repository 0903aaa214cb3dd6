//! Makes an image with other names and metadata, without packing anything again.

use std::path::Path;
use std::sync::Arc;

use shale_host::Progress;
use shale_read::Image;

use crate::assemble::{AssembleReport, Snapshot, SnapshotPart, assemble};
use crate::error::Error;
use crate::merge::{MergePart, histories, label};
use crate::options::CreateOptions;

/// Writes an image of one snapshot to a new file at `path`: the trees of `parts`, as
/// `options.source` says.
///
/// Frames are copied as they are stored; those that no entry needs any more are left out. Of
/// `options.build`, the level and codecs do not count. The tree is the one that [`crate::create()`]
/// makes of the same images and options.
///
/// # Errors
/// On any error nothing is left under the output's name or beside it.
pub fn rewrite(
    parts: &[MergePart],
    path: &Path,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<AssembleReport, Error> {
    let images: Vec<Arc<Image>> = parts.iter().map(|part| Arc::clone(&part.image)).collect();
    let mut trees = Vec::with_capacity(parts.len());
    for (image, part) in parts.iter().enumerate() {
        let tree = part.image.tree(&part.snapshot)?;
        trees.push(SnapshotPart { image, tree, prefix: part.prefix.clone() });
    }
    let name = options.build.snapshot_name.clone();
    let snapshot = Snapshot { name, parts: trees, is_changed: true };
    let mut text = histories(&images)?;
    let label = label(options);
    text += &shale_write::history("rewrite", &format!("copied=1{label}"));
    assemble(&images, &[snapshot], &text, path, options, progress)
}
