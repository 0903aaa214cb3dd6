//! `shale rewrite` where only names and metadata change: frames are copied as they are stored.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use shale::read::{Image, Options as ReadOptions};
use shale::{Input, InputKind, MergePart};

use super::assemble::{reading, show_as};
use super::create;
use crate::args::{Create, How, Switch};
use crate::bar::Bar;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, sealed, text};

/// Packs the sources anew, or copies them if they are images and only names and metadata change.
///
/// # Errors
/// The command line is not valid, or nothing was written.
pub fn run(inputs: &[Input], args: &Create, say: &Say) -> anyhow::Result<Exit> {
    let (how, target, output) = (&args.how, &args.target, &args.output);
    let is_file = output.as_os_str() != "-" && (output.is_file() || !output.exists());
    let may_copy =
        is_file && changes_metadata(how) && !changes_packing(how) && !how.input.filter_dry_run;
    match if may_copy { parts(inputs, say) } else { None } {
        Some(parts) => copy(inputs, &parts, args, say),
        None => create::run(inputs, output, (how, target), true, say),
    }
}

fn copy(inputs: &[Input], parts: &[MergePart], args: &Create, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let (how, target, output) = (&args.how, &args.target, &args.output);
    create::read_stdin_once(inputs, how)?;
    let mut options = create::options(output, how)?
        .parity_ppm(target.parity.unwrap_or(0))
        .pad(target.pad)
        .overwrite(target.force);
    create::keep_parity(inputs, target, &mut options, say);
    sealed::enclose(target, &mut options)?;
    let written = create::written(output, target, &mut options)?;
    let bar = Bar::new(say);
    let report = shale::rewrite(parts, &written, &options, &bar);
    drop(bar);
    let nothing = || format!("no image was written to {}", text::path(output));
    let report = report.map_err(|error| create::refused(error, nothing(), say))?;
    for rule in create::unmatched(&options, how) {
        say.warn(format!("the rule `{}` matched nothing", text::escape(rule)));
    }
    let is_emptied = report.build.entries.total == 0 && !options.source.choose.rules.is_empty();
    if is_emptied {
        say.warn("the image is empty: the rules left out everything");
    }
    let exit = show_as(&report, "copied", output, start.elapsed(), say)?;
    say.detail("  nothing was compressed again; a level, such as -6, packs anew");
    Ok(if is_emptied { Exit::Partial } else { exit })
}

/// Returns whether an option asks for other names or metadata.
fn changes_metadata(how: &How) -> bool {
    let input = &how.input;
    !input.rule_order.is_empty()
        || input.input_list.is_some()
        || input.max_size.is_some()
        || input.newer.is_some()
        || input.remove_empty_dirs
        || !input.without.is_empty()
        || input.pseudo.is_some()
        || input.file_contexts.is_some()
        || input.owner.is_some()
        || input.group.is_some()
        || input.all_root
        || input.map_users.is_some()
        || input.chmod.is_some()
        || input.mtime.is_some()
        || input.no_xattrs
        || !input.xattr_include.is_empty()
        || !input.xattr_exclude.is_empty()
        || !how.keep_times.is_empty()
        || how.snapshot.is_some()
        || how.label.is_some()
}

/// Returns whether an option says how contents are read or packed.
fn changes_packing(how: &How) -> bool {
    how.level.is_some()
        || how.digits.level().is_some()
        || !how.codec.is_empty()
        || !how.rule.is_empty()
        || how.order.is_some()
        || how.hot.is_some()
        || how.frame_size.is_some()
        || how.recompress == Some(Switch::On)
        || how.skip_unreadable
        || how.dereference
        || how.offset > 0
}

/// Opens the inputs; `None` if any is not a ShaleFS image.
fn parts(inputs: &[Input], say: &Say) -> Option<Vec<MergePart>> {
    let read = reading();
    let mut parts = Vec::with_capacity(inputs.len());
    let mut opened: Vec<(PathBuf, Arc<Image>)> = Vec::new();
    for input in inputs {
        let InputKind::Path(path) = &input.kind else { return None };
        let image = match opened.iter().find(|(known, _)| known == path) {
            Some((_, image)) => Arc::clone(image),
            None => image(path, read.clone(), say)?,
        };
        opened.push((path.clone(), Arc::clone(&image)));
        parts.push(
            MergePart::new(image)
                .snapshot(input.snapshot.clone().unwrap_or_default())
                .prefix(input.prefix.clone().unwrap_or_default()),
        );
    }
    Some(parts)
}

fn image(path: &Path, read: ReadOptions, say: &Say) -> Option<Arc<Image>> {
    if !path.is_file() {
        return None;
    }
    // What cannot be opened is refused by the build, with what it is instead.
    let source = open::file(path, say).ok()?;
    let at_start = read.offset(shale::read::OffsetChoice::At(0));
    Image::open(source, at_start.clone()).ok()?;
    open::image(path, at_start, say).ok()
}
