//! `-o verify=LEVEL`: checks images before they are mounted.
//!
//! The check runs in the process that the user called, not in the background process, so that the
//! user sees its progress and can end it. Everything read later is verified again, so the check
//! cannot be bypassed by changing the file afterwards.

use anyhow::{Context, bail};
use shale::{Cancel, CheckOptions};

use super::options::MountOptions;
use crate::bar::Bar;
use crate::command::check;
use crate::report::Say;
use crate::{open, text};

/// Checks all images at the level of the options, until `cancel` ends it.
///
/// # Errors
/// An image cannot be checked, or has a problem; all problems of that image are reported.
pub fn images(options: &MountOptions, cancel: Cancel, say: &Say) -> anyhow::Result<()> {
    let Some(level) = options.verify else { return Ok(()) };
    let check_options = CheckOptions::default()
        .offset(open::offset(options.offset))
        .threads(options.driver.thread_count)
        .level(level)
        .expect(options.expect)
        .cancel(cancel);
    let layers = options.targets.iter().flat_map(|target| &target.layers);
    for image in layers.map(|layer| &layer.image) {
        let name = text::path(image);
        let bar = Bar::new(say);
        let report = shale::check(open::source(image, say)?, &check_options, &bar);
        drop(bar);
        let report = report.with_context(|| name.clone())?;
        if !report.is_clean() {
            check::problems(&report, &name, say);
            bail!(
                "{name} is not mounted: verify={} found problems ({}); run `shale check` for what \
                 to do, or mount without verify= to read the intact files",
                level.name(),
                report.problem_count
            );
        }
        say.detail(format!("{name}: no problem at level {}", level.name()));
    }
    Ok(())
}
