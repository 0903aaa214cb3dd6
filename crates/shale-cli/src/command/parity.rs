//! `shale parity`.

use anyhow::Context;
use serde_json::{Value, json};
use shale::{ParityOptions, ParityReport};

use crate::args::Parity;
use crate::bar::Bar;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, signal, size, text};

/// Adds parity to an image.
pub fn run(args: &Parity, say: &Say) -> anyhow::Result<Exit> {
    let Parity::Add { image, share, offset, force, threads } = args;
    let options = ParityOptions {
        parts_per_million: *share,
        offset: open::offset(*offset),
        force: *force,
        threads: *threads,
        cancel: signal::cancel()?,
        ..ParityOptions::default()
    };
    let bar = Bar::new(say);
    let report = shale::add_parity(image, &options, &bar);
    drop(bar);
    let report = report.with_context(|| text::path(image))?;
    if say.json {
        say.value(&as_json(&report))?;
    } else {
        say.line(format!("{}: {}", text::path(image), summary(&report)));
    }
    Ok(Exit::Done)
}

/// What parity promises, in one line.
pub fn summary(report: &ParityReport) -> String {
    format!(
        "{} of parity: any {} damaged leaves of 64 KiB can be repaired{}, or any burst of {}",
        size::show(report.added_bytes),
        size::count(report.parity_of_group),
        match report.groups {
            1 => String::new(),
            groups => format!(" in each of {groups} groups"),
        },
        size::show(report.burst_bytes)
    )
}

/// The same for machines.
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
