//! `shale merge`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use shale::read::Image;
use shale::{InputKind, MergePart};

use super::assemble::{options, reading, show};
use super::create::{refused, written};
use crate::args::Merge;
use crate::bar::Bar;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{input, open, text};

/// Makes one image of several.
///
/// # Errors
/// An image cannot be read, or nothing was written.
pub fn run(args: &Merge, say: &Say) -> anyhow::Result<Exit> {
    if args.thick {
        return super::thin::thick(args, say);
    }
    let start = Instant::now();
    let mut parts = Vec::new();
    let mut opened: Vec<(PathBuf, Arc<Image>)> = Vec::new();
    let read = reading();
    for given in input::inputs(&args.images)? {
        let InputKind::Path(path) = &given.kind else {
            bail!(Misuse("an image cannot come from standard input".to_owned()));
        };
        if args.snapshots && (given.snapshot.is_some() || given.prefix.is_some()) {
            bail!(Misuse(
                "--snapshots keeps all snapshots as they are; leave out @SNAPSHOT and =/PREFIX"
                    .to_owned()
            ));
        }
        let image = match opened.iter().find(|(known, _)| known == path) {
            Some((_, image)) => Arc::clone(image),
            None => open::image(path, read.clone(), say)?,
        };
        opened.push((path.clone(), Arc::clone(&image)));
        parts.push(
            MergePart::new(image)
                .snapshot(given.snapshot.clone().unwrap_or_default())
                .prefix(given.prefix.clone().unwrap_or_default()),
        );
    }
    let sources: Vec<(&Path, &Arc<Image>)> =
        opened.iter().map(|(path, image)| (path.as_path(), image)).collect();
    let mut options = options(&sources, &args.output, &args.copying, say)?;
    options.source.replace = args.replace;
    if let Some(name) = &args.snapshot {
        options.build.snapshot_name = text::bytes(name).to_vec();
    }
    options.build.label.clone_from(&args.label);
    let written = written(&args.output, &args.copying.target, &mut options)?;
    let bar = Bar::new(say);
    let report = shale::merge(&parts, args.snapshots, &written, &options, &bar);
    drop(bar);
    let report = report.map_err(|error| refused(error, "no image was written".to_owned(), say))?;
    show(&report, &args.output, start.elapsed(), say)
}
