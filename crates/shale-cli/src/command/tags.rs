//! `shale create --all-tags` and `shale append --all-tags`: a snapshot for each tag of images of
//! containers.

use std::path::Path;

use anyhow::bail;
use serde_json::json;
use shale::{AppendOptions, Input, TagReport};

use super::create::{only_path, options, refused, warn_of};
use crate::args::{Append, Create};
use crate::bar::Bar;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{input, open, sealed, size, text};

/// Packs all tags into a new image.
///
/// # Errors
/// The command line is not valid, or no image was written.
pub fn create(inputs: &[Input], args: &Create, say: &Say) -> anyhow::Result<Exit> {
    let source = only(inputs)?;
    if args.target.pad || args.output.as_os_str() == "-" {
        bail!(Misuse("--all-tags needs a file as its output, and does not pad it".to_owned()));
    }
    sealed::refuse(&args.target, "an image of all tags")?;
    only_path(&args.output, "an image of all tags")?;
    let options = options(&args.output, &args.how)?
        .parity_ppm(args.target.parity.unwrap_or(0))
        .overwrite(args.target.force);
    let bar = Bar::new(say);
    let reports = shale::create_tags(source, &args.output, &options, &bar);
    drop(bar);
    let nothing = || format!("no image was written from {}", text::path(source.name()));
    let reports = reports.map_err(|error| refused(error, nothing(), say))?;
    show(&reports, &args.output, say)
}

/// Appends all tags to an image.
///
/// # Errors
/// The command line is not valid, or a tag was not appended. Those before it stay.
pub fn append(args: &Append, say: &Say) -> anyhow::Result<Exit> {
    open::only_file(&args.image, "shale append")?;
    let inputs = input::inputs(&args.sources)?;
    let source = only(&inputs)?;
    let options = AppendOptions::default()
        .create(options(&args.image, &args.how)?)
        .message(args.message.clone())
        .offset(open::offset(args.image_offset))
        .waits(args.wait)
        .drops_parity(args.drop_parity);
    let mut reports = Vec::new();
    let bar = Bar::new(say);
    let appended = |report| reports.push(report);
    let result = shale::append_tags(&args.image, source, &options, &bar, appended);
    drop(bar);
    if let Err(error) = result {
        let image = text::path(&args.image);
        let nothing = match reports.len() {
            0 => format!("nothing was appended to {image}"),
            count => format!("only {count} tags were appended to {image}"),
        };
        return Err(refused(error, nothing, say));
    }
    show(&reports, &args.image, say)
}

fn only(inputs: &[Input]) -> anyhow::Result<&Input> {
    match inputs {
        [one] if one.prefix.is_none() => Ok(one),
        _ => bail!(Misuse("--all-tags takes one SOURCE, without a prefix".to_owned())),
    }
}

fn show(reports: &[TagReport], image: &Path, say: &Say) -> anyhow::Result<Exit> {
    let mut is_partial = false;
    for report in reports {
        warn_of(&report.build.problems, "left out: ", say);
        for warning in &report.build.warnings {
            say.warn(warning);
        }
        is_partial |= !report.build.problems.is_empty() || !report.build.warnings.is_empty();
    }
    if say.json {
        let snapshots = reports.iter().map(|report| {
            json!({
                "name": report.tag,
                "identity": report.build.identity.to_string(),
                "image_bytes": report.build.image_bytes,
                "entries": report.build.entries.total,
                "file_bytes": report.build.file_bytes,
                "verified": report.is_verified,
            })
        });
        say.value(&json!({ "snapshots": snapshots.collect::<Vec<_>>() }))?;
    } else {
        for report in reports {
            say.line(format!(
                "{}: snapshot {}: {} entries, {}; image of {}{}",
                text::path(image),
                text::escape(report.tag.as_bytes()),
                size::count(report.build.entries.total),
                size::show(report.build.file_bytes),
                size::show(report.build.image_bytes),
                if report.is_verified { ", verified" } else { ", not verified" },
            ));
        }
        if let Some(last) = reports.last() {
            say.line(format!("  identity {}", last.build.identity));
        }
    }
    Ok(if is_partial { Exit::Partial } else { Exit::Done })
}
