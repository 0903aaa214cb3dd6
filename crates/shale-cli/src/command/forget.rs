//! `shale forget`.

use std::fmt::Write;

use anyhow::bail;
use serde_json::{Map, Value};
use shale::{Fate, Retention};

use super::assemble::reading;
use super::compact::copy;
use crate::args::Forget;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{open, text};

/// Decides which snapshots are kept, and copies them if an output is named.
///
/// # Errors
/// The image cannot be read, nothing would be kept, or nothing was written.
pub fn run(args: &Forget, say: &Say) -> anyhow::Result<Exit> {
    let read = reading().offset(open::offset(args.image_offset));
    let image = open::image(&args.image, read, say)?;
    let mut numbers = Vec::new();
    for word in &args.keep {
        numbers.push(image.snapshot_number(&open::snapshot(Some(word)))?);
    }
    let retention = Retention::default()
        .last(args.keep_last)
        .daily(args.keep_daily)
        .weekly(args.keep_weekly)
        .monthly(args.keep_monthly)
        .yearly(args.keep_yearly)
        .numbers(numbers);
    if retention.keeps_nothing() {
        bail!(Misuse(
            "nothing says which snapshots to keep; use --keep-last, --keep-daily, --keep-weekly, \
             --keep-monthly, --keep-yearly or --keep"
                .to_owned()
        ));
    }
    let fates = retention.decide(image.snapshots());
    let keep: Vec<usize> =
        fates.iter().filter(|fate| fate.is_kept()).map(|fate| fate.number).collect();
    if keep.is_empty() {
        bail!(
            "{}: these rules keep none of its {} snapshots: none has a time as its name. Use \
             --keep-last or --keep",
            text::path(&args.image),
            fates.len()
        );
    }
    let Some(output) = &args.output else {
        return list(&fates, |number| &image.snapshots()[number].name, say);
    };
    let timeless = fates.iter().filter(|fate| !fate.is_kept() && fate.has_no_time).count();
    if timeless > 0 {
        say.line(format!(
            "note: {timeless} snapshots are dropped whose names are no times, so that no rule by \
             time could keep them"
        ));
    }
    copy(&image, (&args.image, output), &keep, &args.copying, say)
}

fn list<'n>(fates: &[Fate], name: impl Fn(usize) -> &'n [u8], say: &Say) -> anyhow::Result<Exit> {
    if say.json {
        let objects = fates.iter().map(|fate| {
            let mut object = Map::new();
            object.insert("number".to_owned(), fate.number.into());
            text::put_name(&mut object, "name", name(fate.number));
            object.insert("kept".to_owned(), fate.is_kept().into());
            object.insert("reasons".to_owned(), fate.reasons.clone().into());
            Value::Object(object)
        });
        say.value(&objects.collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    let mut lines = String::new();
    for fate in fates {
        let reasons = match fate.is_kept() {
            true => fate.reasons.join(", "),
            false if fate.has_no_time => "(its name is no time)".to_owned(),
            false => String::new(),
        };
        let verb = if fate.is_kept() { "keep" } else { "drop" };
        let name = text::escape(name(fate.number));
        let line = format!("{verb} {:>3}  {name}  {reasons}", fate.number);
        writeln!(lines, "{}", line.trim_end())?;
    }
    say.raw(lines.as_bytes())?;
    say.line("nothing was changed; -o IMAGE copies what is kept into a new image");
    Ok(Exit::Done)
}
