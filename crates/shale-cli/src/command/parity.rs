//! `shale parity`.

use std::path::Path;

use serde_json::{Value, json};
use shale::{ParityOptions, ParityProblem, ParityReport};

use crate::args::Parity;
use crate::bar::Bar;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, signal, size, text};

/// Adds parity to an image, or removes it.
///
/// # Errors
/// The image is damaged, or cannot be written.
pub fn run(args: &Parity, say: &Say) -> anyhow::Result<Exit> {
    let (Parity::Add { image, .. } | Parity::Remove { image, .. }) = args;
    open::only_whole(image, "shale parity")?;
    match args {
        Parity::Add { image, parity, more, offset, force, threads } => {
            let options = ParityOptions::default()
                .parts_per_million(*parity)
                .offset(open::offset(*offset))
                .force(*force)
                .threads(*threads)
                .cancel(signal::cancel()?);
            add(image, &options, *more, say)
        }
        Parity::Remove { image, offset, force, threads } => {
            let options = ParityOptions::default()
                .offset(open::offset(*offset))
                .force(*force)
                .threads(*threads)
                .cancel(signal::cancel()?);
            remove(image, &options, say)
        }
    }
}

fn add(image: &Path, options: &ParityOptions, keeps: bool, say: &Say) -> anyhow::Result<Exit> {
    let bar = Bar::new(say);
    let named = |error: shale::CheckError| open::named(image, error.into());
    let removed = match keeps {
        true => None,
        // What an interrupted writer left is cut off by adding, not here.
        false => match shale::remove_parity(image, &unforced(options), &bar) {
            Err(shale::CheckError::Parity {
                problem:
                    ParityProblem::InterruptedWriter
                    | ParityProblem::OtherDataFollows
                    | ParityProblem::AppendedAfter,
                ..
            }) => None,
            removed => removed.map_err(named)?,
        },
    };
    let report = shale::add_parity(image, options, &bar).map_err(named);
    drop(bar);
    if removed.is_some() && report.is_err() {
        say.warn(format!("{}: the earlier parity was removed", text::path(image)));
    }
    let report = report?;
    if say.json {
        let mut value = as_json(&report);
        value["replaced_bytes"] = removed.map_or(0, |removed| removed.removed_bytes).into();
        say.value(&value)?;
    } else {
        let replaced = if removed.is_some() { ", replaces the earlier parity" } else { "" };
        say.line(format!("{}: {}{replaced}", text::path(image), summary(&report)));
        say_if_large(&report, options.parts_per_million, say);
    }
    Ok(Exit::Done)
}

/// The options for removing parity before it is added: damage is always refused.
fn unforced(options: &ParityOptions) -> ParityOptions {
    options.clone().force(false)
}

fn remove(image: &Path, options: &ParityOptions, say: &Say) -> anyhow::Result<Exit> {
    let bar = Bar::new(say);
    let removed = shale::remove_parity(image, options, &bar);
    drop(bar);
    let removed = removed.map_err(|error| open::named(image, error.into()))?;
    let name = text::path(image);
    if say.json {
        say.value(&json!({
            "removed_bytes": removed.map_or(0, |removed| removed.removed_bytes),
            "image_bytes": removed.map(|removed| removed.image_bytes),
        }))?;
        return Ok(Exit::Done);
    }
    match removed {
        None => say.line(format!("{name}: has no parity")),
        Some(removed) => say.line(format!(
            "{name}: removed {} of parity; the image has {} now",
            size::show(removed.removed_bytes),
            size::show(removed.image_bytes)
        )),
    }
    Ok(Exit::Done)
}

/// Says so if the parity is more than twice the share that was requested.
pub fn say_if_large(report: &ParityReport, parts_per_million: u32, say: &Say) {
    let before = report.image_bytes - report.added_bytes;
    let wanted = u128::from(before) * u128::from(parts_per_million) / 1_000_000;
    if u128::from(report.added_bytes) > 2 * wanted {
        say.line(format!(
            "note: the parity is {:.0}% of this small image instead of {}%, as there are at least 18 \
             blocks of 64 KiB, or as many as the image has",
            report.added_bytes as f64 * 100.0 / before.max(1) as f64,
            f64::from(parts_per_million) / 10_000.0
        ));
    }
}

/// Describes what the parity can repair, in one line.
pub fn summary(report: &ParityReport) -> String {
    format!(
        "{} of parity: repairs any {} damaged blocks of 64 KiB{}, or any burst of {}",
        size::show(report.added_bytes),
        size::count(report.parity_of_group),
        match report.groups {
            1 => String::new(),
            groups => format!(" in each of {groups} groups"),
        },
        size::show(report.burst_bytes)
    )
}

/// Converts the report to JSON.
pub fn as_json(report: &ParityReport) -> Value {
    json!({
        "image_bytes": report.image_bytes,
        "added_bytes": report.added_bytes,
        "leaves": report.leaves,
        "groups": report.groups,
        "parity_of_group": report.parity_of_group,
        "burst_bytes": report.burst_bytes,
        "identity": report.identity.to_string(),
    })
}
