//! Trees of images whose contents the writer knows, chosen and changed as the options say.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::manifest::manifest_source::ManifestSource;
use shale_model::EntrySource;
use shale_read::Tree;

use crate::adjust::Adjusted;
use crate::choose::ByMetadata;
use crate::error::Error;
use crate::image::held_chosen;
use crate::join::Part;
use crate::options::SourceOptions;

/// Returns a tree of an image, whose contents are named by their IDs, counted from `first`, and not
/// read. `changes` say which of its entries are taken below `prefix`, and with which metadata; by
/// default all, as they are.
///
/// # Errors
/// The image is damaged.
pub fn copied(
    tree: Tree,
    prefix: &[u8],
    first: u64,
    changes: Option<&SourceOptions>,
) -> Result<Box<dyn EntrySource>, Error> {
    let Some(options) = changes else { return held_chosen(tree, None, first) };
    let select = options.choose.select(prefix, None, None);
    let mut source = held_chosen(tree, select.clone(), first)?;
    if let Some(select) = select.filter(|_| options.choose.is_by_metadata()) {
        source = Box::new(ByMetadata { source, select, seed: Vec::new() });
    }
    if !options.adjust.is_nothing() {
        source = Box::new(Adjusted { source, adjust: Arc::new(options.adjust.clone()) });
    }
    Ok(source)
}

/// The entries that the options add to all inputs.
///
/// # Errors
/// They cannot be read.
pub fn added(options: &SourceOptions) -> Result<Option<Part>, Error> {
    let added = options.pseudo.as_ref().map(|pseudo| pseudo.manifest().as_bytes().to_vec());
    let Some(added) = added.filter(|added| !added.is_empty()) else { return Ok(None) };
    let added = Box::new(io::Cursor::new(added));
    let mut source: Box<dyn EntrySource> =
        Box::new(ManifestSource::open(added, b"the pseudo file", PathBuf::new())?);
    if !options.adjust.is_nothing() {
        source = Box::new(Adjusted { source, adjust: Arc::new(options.adjust.clone()) });
    }
    Ok(Some(Part { source, prefix: Vec::new(), is_tree: false }))
}
