//! `-o verify=LEVEL`: images checked before they are mounted.
//!
//! In the process that was called, not in the one that serves: there people see how far it is and
//! can end it. Whatever is read later is verified again, so a file that changes after the check is
//! found out all the same.

use anyhow::{Context, bail};
use shale::{Cancel, CheckLevel, CheckOptions};

use super::wishes::Wishes;
use crate::bar::Bar;
use crate::command::check;
use crate::report::Say;
use crate::{open, text};

/// The level that a word stands for; `None` is no check beforehand.
///
/// # Errors
/// The word stands for nothing.
pub fn parse(word: &str) -> anyhow::Result<Option<CheckLevel>> {
    let levels =
        [CheckLevel::Structure, CheckLevel::Tables, CheckLevel::Frames, CheckLevel::Content];
    match word {
        "read" => Ok(None),
        "off" | "no" | "none" => {
            bail!("what is read is always verified; verify=read checks nothing beforehand")
        }
        _ => match levels.into_iter().find(|level| level.name() == word) {
            Some(level) => Ok(Some(level)),
            None => bail!(
                "there are read, structure, tables, frames and content; an identity goes to expect="
            ),
        },
    }
}

/// Checks all images at the level asked for, until `cancel` ends it.
///
/// # Errors
/// One cannot be checked, or has a problem; all of that image's are told.
pub fn images(wishes: &Wishes, cancel: Cancel, say: &Say) -> anyhow::Result<()> {
    let Some(level) = wishes.verify else { return Ok(()) };
    let options = CheckOptions {
        offset: open::offset(wishes.offset),
        threads: wishes.driver.thread_count,
        level,
        expect: wishes.expect,
        cancel,
        ..CheckOptions::default()
    };
    for place in &wishes.places {
        let name = text::path(&place.image);
        let bar = Bar::new(say);
        let report = shale::check(open::source(&place.image)?, &options, &bar);
        drop(bar);
        let report = report.with_context(|| name.clone())?;
        if !report.is_clean() {
            check::problems(&report, &name, say);
            bail!(
                "{name} is not mounted: verify={} found problems ({}); `shale check` says what to \
                 do, and without verify= what is whole can be read",
                level.name(),
                report.problem_count
            );
        }
        say.detail(format!("{name}: no problem at level {}", level.name()));
    }
    Ok(())
}
