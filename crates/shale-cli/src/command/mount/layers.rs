//! Opens what a target names: one snapshot, all snapshots of an image, or several images on top of
//! each other.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use shale::read::{Image, Log, Options as ReadOptions, Tree};
use shale_fuse::{Reopen, Snapshots, Union, View};

use super::options::{Layer, MountOptions, ShownSource, Target};
use crate::report::Say;
use crate::{open, text};

/// What a target shows.
pub struct Opened {
    pub view: Arc<dyn View>,
    /// The tree, if the view is one tree.
    pub tree: Option<Tree>,
    /// The label of the image, of the topmost one where there are several, if it is asked for.
    pub label: Option<String>,
}

/// Opens a target.
///
/// # Errors
/// An image or snapshot does not exist or cannot be read.
pub fn open(
    target: &Target,
    options: &MountOptions,
    read: &ReadOptions,
    say: &Say,
) -> anyhow::Result<Opened> {
    let mut label = None;
    let mut trees = Vec::with_capacity(target.layers.len());
    for layer in &target.layers {
        let (image, name) = (image(layer, options, read, say)?, text::path(&layer.image));
        if options.source == ShownSource::Label {
            label = shale::label(&image).with_context(|| name.clone())?;
        }
        if options.snapshots {
            let snapshots = match options.follow {
                true => {
                    let reopen = reopen(&layer.image, &image, options, read, say);
                    Snapshots::following(&image, reopen)
                }
                false => Snapshots::new(&image),
            };
            return Ok(Opened { view: Arc::new(snapshots.context(name)?), tree: None, label });
        }
        let wanted = layer.snapshot.as_deref().or(options.snapshot.as_deref());
        trees.push(image.tree(&open::snapshot(wanted)).context(name)?);
    }
    if let [tree] = &trees[..] {
        return Ok(Opened { view: Arc::new(tree.clone()), tree: Some(tree.clone()), label });
    }
    let views = trees.into_iter().map(|tree| Arc::new(tree) as Arc<dyn View>).collect();
    let union = Union::new(views).context("cannot read the root of an image of the union")?;
    Ok(Opened { view: Arc::new(union), tree: None, label })
}

fn image(
    layer: &Layer,
    options: &MountOptions,
    read: &ReadOptions,
    say: &Say,
) -> anyhow::Result<Arc<Image>> {
    open::image(&layer.image, logging(&layer.image, options, read), say)
}

/// Adds what depends on the image to the options of reading.
fn logging(path: &Path, options: &MountOptions, read: &ReadOptions) -> ReadOptions {
    let (log, name) = (options.log.clone(), text::path(path));
    let log = Log(Arc::new(move |line: &str| log.line(&format!("{name}: {line}"))));
    read.clone().log(log).offset(open::offset(options.offset)).expect(options.expect)
}

/// Opens `image` again whenever its file has changed and ends with another trailer.
fn reopen(
    path: &Path,
    image: &Arc<Image>,
    options: &MountOptions,
    read: &ReadOptions,
    say: &Say,
) -> Reopen {
    let say = *say;
    let read = logging(path, options, read);
    let path: PathBuf = path.to_owned();
    // Whether the file has changed since `image` was opened is not known.
    let seen = Mutex::new((None, *image.trailer()));
    Box::new(move || {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp(&path);
        if now.is_none() || now == seen.0 {
            return None;
        }
        // If it cannot be opened now, it is tried again when the file changes again.
        seen.0 = now;
        let image = open::source(&path, &say)
            .ok()
            .and_then(|source| Image::open(source, read.clone()).ok())?;
        let trailer = *image.trailer();
        // An append that is under way leaves the trailer of the state before it.
        (trailer != seen.1).then(|| {
            seen.1 = trailer;
            image
        })
    })
}

/// Returns what tells whether a file was changed.
fn stamp(path: &Path) -> Option<(u64, u64, u64, i64, i64)> {
    let of = |it: Metadata| (it.dev(), it.ino(), it.len(), it.mtime(), it.mtime_nsec());
    std::fs::metadata(path).ok().map(of)
}
