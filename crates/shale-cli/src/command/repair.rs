//! `shale repair`.

use anyhow::Context;
use serde_json::json;
use shale::{RepairOptions, RepairReport};

use crate::args::Repair;
use crate::bar::Bar;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, signal, size, text};

/// Repairs an image into a new file.
///
/// # Errors
/// The image cannot be restored, or the output cannot be written.
pub fn run(args: &Repair, say: &Say) -> anyhow::Result<Exit> {
    open::only_file(&args.image, "shale repair")?;
    let options = RepairOptions::default()
        .offset(open::offset(args.offset))
        .bases(open::bases(say))
        .salvage(args.salvage)
        .overwrite(args.force)
        .threads(args.threads)
        .cancel(signal::cancel()?);
    let bar = Bar::new(say);
    let report = shale::repair(&args.image, &args.output, &options, &bar);
    drop(bar);
    let report = report
        .map_err(|error| open::named(&args.image, error.into()))
        .context("cannot repair the image")?;
    for what in &report.made_anew {
        say.line(format!("rebuilt: {what}"));
    }
    if say.json {
        say.value(&json!({
            "whole": report.is_whole(),
            "image_bytes": report.image_bytes,
            "has_parity": report.has_parity,
            "leaves_repaired": report.leaves_repaired,
            "bodies_repaired": report.bodies_repaired,
            "leaves_lost": report.leaves_lost,
            "bytes_left_out": report.bytes_left_out,
            "made_anew": report.made_anew,
            "check": super::check::as_json(&report.check, None),
        }))?;
    } else {
        print(&report, args, say);
    }
    Ok(if report.is_whole() && report.bytes_left_out == 0 { Exit::Done } else { Exit::Partial })
}

fn print(report: &RepairReport, args: &Repair, say: &Say) {
    let name = text::path(&args.output);
    if report.bytes_left_out > 0 {
        say.warn(format!(
            "{name}: {} after the protected part are damaged and were left out",
            size::show(report.bytes_left_out)
        ));
    }
    if report.is_whole() {
        say.line(format!(
            "{name}: complete and checked; repaired {} leaves and {} parity bodies",
            report.leaves_repaired, report.bodies_repaired
        ));
        return;
    }
    super::check::problems(&report.check, &name, say);
    say.warn(format!(
        "{name}: not everything could be restored: {} leaves were repaired, {} are lost. `shale \
         extract --continue {name} -C DIR` extracts the undamaged data, with holes for the rest",
        report.leaves_repaired, report.leaves_lost
    ));
}
