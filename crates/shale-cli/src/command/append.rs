//! `shale append`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::json;
use shale::{AppendOptions, AppendReport, CreateOptions, Input, Rules};

use crate::args::Append;
use crate::bar::Bar;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
#[cfg(feature = "remote")]
use crate::upload::Growing;
use crate::{elsewhere, input, open, size, text, time};

use super::create::{
    dry_run, options, read_stdin_once, refused, unmatched, warn_of, warn_of_changes, warn_of_rules,
};

/// Appends a snapshot.
///
/// # Errors
/// The command line is not valid, or nothing was appended.
pub fn run(args: &Append, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let how = &args.how;
    let inputs = match &args.manifest {
        Some(manifest) => vec![input::manifest(manifest, &how.input)?],
        None if args.add.is_empty() => input::inputs(&args.sources)?,
        None => added(&args.add)?,
    };
    read_stdin_once(&inputs, how)?;
    if !elsewhere::is_url(&args.image) {
        open::only_file(&args.image, "shale append")?;
    }
    let mut create = options(&args.image, how)?;
    create.source.bases = open::bases(say);
    create.source.images = open::other_images(say);
    if how.input.filter_dry_run {
        return dry_run(&inputs, &create, say);
    }
    if how.snapshot.is_none() {
        create.build.snapshot_name = time::snapshot_name()?.into_bytes();
    }
    create.build.append_index = !args.no_append_index;
    let mut removes = Rules::default();
    for pattern in &args.remove {
        removes.exclude(text::bytes(pattern)).map_err(Misuse::of)?;
    }
    let removes = Arc::new(removes);
    let growing = growing(&args.image, &create, say)?;
    let mut options = AppendOptions::default()
        .create(create)
        .adds(!args.add.is_empty() || !args.remove.is_empty())
        .removes(Arc::clone(&removes))
        .reads_all(args.checksum)
        .message(args.message.clone())
        .offset(open::offset(args.image_offset))
        .waits(args.wait)
        .drops_parity(args.drop_parity);
    options.below = growing.as_ref().map(Growing::below).transpose()?;
    let bar = Bar::new(say);
    let report = shale::append(&args.image, &inputs, &options, &bar);
    let image = text::path(&args.image);
    let report = match (report, &growing) {
        (Ok(report), Some(growing)) => {
            let done = growing.finish(report.added_bytes, &bar);
            done.with_context(|| format!("nothing was appended to {image}"))?;
            Ok(report)
        }
        (report, _) => report,
    };
    drop(bar);
    let report = match report {
        Ok(report) => report,
        Err(error @ shale::Error::Read(_)) => return Err(open::named(&args.image, error.into())),
        Err(error) => return Err(refused(error, format!("nothing was appended to {image}"), say)),
    };
    warn_of(&report.build.problems, "left out: ", say);
    warn_of_changes(&report.build.changes, say);
    for warning in &report.build.warnings {
        // Replacing is what --add is for.
        match args.add.is_empty() {
            true => say.warn(warning),
            false => say.line(format!("note: {warning}")),
        }
    }
    for rule in unmatched(&options.create, how) {
        say.warn(format!("the rule `{}` matched nothing", text::escape(rule)));
    }
    warn_of_rules(&options.create, say);
    let mut is_partial = !report.build.problems.is_empty() || !report.build.changes.is_empty();
    is_partial |= args.add.is_empty() && !report.build.warnings.is_empty();
    for pattern in removes.unmatched() {
        is_partial = true;
        say.warn(format!("nothing to remove matches `{}`", text::escape(pattern)));
    }
    let name = &options.create.build.snapshot_name;
    match say.json {
        true => say.value(&as_json(&report, name, start.elapsed().as_secs_f64()))?,
        false => summary(&report, &image, name, start.elapsed().as_secs_f64(), say),
    }
    if report.is_unprotected {
        say.warn(format!("{image}: its parity does not cover the new part"));
    }
    if report.is_signed || super::sign::beside(&args.image).exists() {
        say.warn(format!(
            "{image}: its signature is of the state before, and not of the new one; sign that again"
        ));
    }
    Ok(if is_partial { Exit::Partial } else { Exit::Done })
}

/// Opens the object that an append is for; `None` for a file.
#[cfg(feature = "remote")]
fn growing(image: &Path, create: &CreateOptions, say: &Say) -> anyhow::Result<Option<Growing>> {
    elsewhere::is_url(image).then(|| Growing::open(image, create, say)).transpose()
}

/// Refuses URLs.
#[cfg(not(feature = "remote"))]
fn growing(image: &Path, _: &CreateOptions, say: &Say) -> anyhow::Result<Option<Growing>> {
    elsewhere::is_url(image).then(|| elsewhere::open(image, say)).transpose()?;
    Ok(None)
}

/// Never there: this build has no network.
#[cfg(not(feature = "remote"))]
enum Growing {}

#[cfg(not(feature = "remote"))]
impl Growing {
    fn below(&self) -> anyhow::Result<shale::Below> {
        match *self {}
    }

    fn finish(&self, _: u64, _: &Bar) -> anyhow::Result<()> {
        match *self {}
    }
}

/// Parses the sources of `--add`: a path that exists is one; otherwise, what stands before the
/// first equals sign is the prefix. `SOURCE=/PREFIX`, as in `create`, is understood, too.
fn added(words: &[OsString]) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::with_capacity(words.len());
    for word in words {
        let bytes = text::bytes(word);
        let split = bytes.iter().position(|&byte| byte == b'=');
        let split = split.filter(|_| !Path::new(word).exists()).map(|at| bytes.split_at(at));
        let Some((prefix, source)) = split else {
            inputs.push(Input::new(word));
            continue;
        };
        let source = OsStr::from_bytes(&source[1..]);
        let is_there = source == "-" || Path::new(source).exists();
        if !is_there && Path::new(OsStr::from_bytes(prefix)).exists() {
            inputs.extend(input::inputs(std::slice::from_ref(word))?);
            continue;
        }
        let prefix = input::prefix(prefix)?;
        inputs.push(Input { prefix: Some(prefix), ..Input::new(source) });
    }
    if inputs.iter().filter(|input| matches!(input.kind, shale::InputKind::Stdin)).count() > 1 {
        bail!(Misuse("standard input can be used only once".to_owned()));
    }
    Ok(inputs)
}

fn summary(report: &AppendReport, image: &str, name: &[u8], seconds: f64, say: &Say) {
    let build = &report.build;
    say.line(format!(
        "{image}: snapshot #{} {}: {} entries, {}; added {}, {seconds:.1} s{}",
        report.number,
        text::escape(name),
        size::count(build.entries.total),
        size::show(build.file_bytes),
        size::show(report.added_bytes),
        if report.verified.is_some() { ", verified" } else { ", not verified" },
    ));
    say.line(format!("  identity {}", build.identity));
    if report.cut_bytes > 0 {
        let cut = size::show(report.cut_bytes);
        say.line(format!("  removed {cut} that an interrupted append had left"));
    }
    if let Some(parity) = &report.parity {
        say.line(format!("  {}", super::parity::summary(parity)));
    }
    say.detail(format!(
        "  {} files ({}) unchanged and not read, {} files ({}) held already, {} new contents",
        size::count(build.held_files),
        size::show(build.held_bytes),
        size::count(build.duplicate_files),
        size::show(build.duplicate_bytes),
        size::count(build.contents),
    ));
    let checked = report.verified.as_ref().map_or(String::new(), |verified| {
        format!(", and {} to verify what was added", size::show(verified.read_bytes))
    });
    say.detail(format!("  read {} of the image{checked}", size::show(report.read_bytes)));
    super::create::details(build, say);
}

fn as_json(report: &AppendReport, name: &[u8], seconds: f64) -> serde_json::Value {
    let build = &report.build;
    let mut object = json!({
        "number": report.number,
        "identity": build.identity.to_string(),
        "image_bytes": build.image_bytes,
        "added_bytes": report.added_bytes,
        "read_bytes": report.read_bytes,
        "verify_read_bytes": report.verified.map(|verified| verified.read_bytes),
        "file_bytes": build.file_bytes,
        "entries": build.entries.total,
        "unread_files": build.held_files,
        "unread_bytes": build.held_bytes,
        "duplicate_files": build.duplicate_files,
        "duplicate_bytes": build.duplicate_bytes,
        "new_contents": build.contents,
        "stored_bytes": build.stored_bytes,
        "removed_bytes": report.cut_bytes,
        "tables": super::create::tables(build),
        "parity": report.parity.as_ref().map(super::parity::as_json),
        "verified": report.verified.is_some(),
        "seconds": seconds,
        "left_out": build.problems.iter().map(|p| text::escape(p.to_string().as_bytes()))
            .collect::<Vec<_>>(),
        "warnings": build.warnings,
    });
    if let Some(object) = object.as_object_mut() {
        text::put_name(object, "name", name);
    }
    object
}
