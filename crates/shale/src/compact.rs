//! Copies an image with some of its snapshots only. What no kept snapshot needs is dropped.

use std::path::Path;
use std::sync::Arc;

use shale_host::Progress;
use shale_read::{Image, SnapshotChoice};

use crate::assemble::{AssembleReport, Snapshot, SnapshotPart, assemble};
use crate::error::Error;
use crate::info::history;
use crate::options::CreateOptions;

/// Writes an image of the snapshots with the numbers `keep` to a new file at `path`.
///
/// Frames are copied as they are stored; a frame that a kept file needs in part is kept whole. The
/// result depends on the kept snapshots and the history of the image only. Of `options`, those that
/// say how sources are read do not count.
///
/// # Errors
/// On any error nothing is left under the output's name or beside it.
pub fn compact(
    image: &Arc<Image>,
    keep: &[usize],
    path: &Path,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<AssembleReport, Error> {
    let mut snapshots = Vec::with_capacity(keep.len());
    for &number in keep {
        let tree = image.tree(&SnapshotChoice::Index(number))?;
        let name = tree.snapshot().name.clone();
        let parts = vec![SnapshotPart { image: 0, tree, prefix: Vec::new() }];
        snapshots.push(Snapshot { name, parts, is_changed: false });
    }
    let mut lines = history(image)?;
    let label = lines.last().and_then(|last| last.split_once(" label=")).map(|(_, label)| label);
    let label = label.map_or(String::new(), |label| format!(" label={label}"));
    // Compacted twice, an image is the same.
    while lines.pop_if(|last| last.starts_with("compact ")).is_some() {}
    let mut text = lines.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text += &shale_write::history("compact", &format!("snapshots={}{label}", keep.len()));
    assemble(std::slice::from_ref(image), &snapshots, &text, path, options, progress)
}
