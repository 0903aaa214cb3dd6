//! `shale compact`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use shale::read::Image;

use super::assemble::{options, reading, show};
use super::create::{refused, written};
use crate::args::{Compact, Copying};
use crate::bar::Bar;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, text};

/// Copies an image without what its snapshots do not need.
///
/// # Errors
/// The image cannot be read, or nothing was written.
pub fn run(args: &Compact, say: &Say) -> anyhow::Result<Exit> {
    let read = reading().offset(open::offset(args.image_offset));
    let image = open::image(&args.image, read, say)?;
    let mut keep = Vec::new();
    for word in &args.keep {
        keep.push(image.snapshot_number(&open::snapshot(Some(word)))?);
    }
    if args.keep.is_empty() {
        keep = (0..image.snapshots().len()).collect();
    }
    keep.sort_unstable();
    keep.dedup();
    copy(&image, (&args.image, &args.output), &keep, &args.copying, say)
}

/// Copies the snapshots with the numbers `keep` into a new image.
///
/// # Errors
/// Nothing was written.
pub fn copy(
    image: &Arc<Image>,
    (path, output): (&Path, &Path),
    keep: &[usize],
    copying: &Copying,
    say: &Say,
) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let mut options = options(&[(path, image)], output, copying, say)?;
    let written = written(output, &copying.target, &mut options)?;
    let bar = Bar::new(say);
    let report = shale::compact(image, keep, &written, &options, &bar);
    drop(bar);
    let nothing = || format!("no image was written from {}", text::path(path));
    let report = report.map_err(|error| refused(error, nothing(), say))?;
    show(&report, output, start.elapsed(), say)
}
