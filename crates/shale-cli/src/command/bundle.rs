//! `shale bundle`.
//!
//! The image is made beside the output, in a directory that is removed again, or taken as it is.
//! With `--train`, it is made, mounted, and made a second time in the order in which the program
//! read its files.

mod runtime; // where the runtime is
mod train; // what a start reads
mod workshop; // a directory beside the output

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::json;
use shale::read::{InodeKind, SnapshotChoice, Tree};
use shale::{BundleOptions, CreateOptions, Input, InputKind, Output};

use super::create;
use crate::args::Bundle;
use crate::bar::Bar;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{input, open, signal, size, text};
use workshop::Workshop;

/// An image and the snapshot of it that a bundle runs.
struct Made {
    path: PathBuf,
    tree: Tree,
}

/// Makes one file of a runtime and an image.
///
/// # Errors
/// The runtime is missing, the image cannot be made or does not hold the program, the training
/// fails, or the output cannot be written. No output is left then.
pub fn run(args: &Bundle, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    if !args.arguments.is_empty() && !args.train {
        bail!(Misuse("arguments after -- are for --train; the bundle takes its own".to_owned()));
    }
    let run = program(args)?;
    let runtime = runtime::find(args.runtime.as_deref())?;
    if runtime.is_dynamic {
        say.warn(
            "this runtime is not static: the bundle needs the C library of the machine that it \
             runs on. `make runtime` builds a static one",
        );
    }
    if args.output.exists() && !args.target.force {
        bail!("{} exists: use --force to replace it", text::path(&args.output));
    }
    let workshop = Workshop::beside(&args.output)?;
    let inputs = input::inputs(std::slice::from_ref(&args.source))?;
    let mut options = create::options(&args.output, &args.how)?
        .parity_ppm(args.target.parity.unwrap_or(0))
        .pad(args.target.pad);
    let mut exit = Exit::Done;
    let mut pack = |options: &CreateOptions, name: &str, is_last: bool| {
        let path = workshop.path(name);
        let whole = make(&inputs, &path, options, args, is_last, say)?;
        if !whole {
            exit = Exit::Partial;
        }
        opened(path, say)
    };
    let mut hot = options.build.first.clone();
    let ready = ready_image(&inputs, args, say)?;
    let made = match ready {
        Some(path) => opened(path, say)?,
        None if args.train => {
            let plain = options.clone().parity_ppm(0);
            let first = pack(&plain, "plain.shale", false)?;
            check_program(&first.tree, &run)?;
            hot = train::first_reads(&first.tree, &run, args, &workshop, say)?;
            say.detail(format!("the program read {} files", hot.len()));
            options.build.first = hot.clone();
            options.build.first_is_hot = true;
            drop(first);
            pack(&options, "hot.shale", true)?
        }
        None => pack(&options, "image.shale", true)?,
    };
    check_program(&made.tree, &run)?;
    let image_offset = made.tree.image().offset();
    let image_bytes = made.tree.image().len();
    let warm_len = shale::warm_len(&made.tree, &hot)?;
    let file = File::open(&made.path);
    let file = file.with_context(|| format!("cannot open {}", text::path(&made.path)))?;
    let bundle = BundleOptions::default()
        .run(run)
        .warm_len(warm_len)
        .overwrite(args.target.force)
        .cancel(signal::cancel()?);
    let bar = Bar::new(say);
    let bytes = shale::bundle(&runtime, &file, image_offset, &args.output, &bundle, &bar)?;
    drop(bar);
    let seconds = start.elapsed().as_secs_f64();
    if say.json {
        say.value(&json!({
            "bundle_bytes": bytes,
            "runtime_bytes": runtime.byte_count(),
            "image_bytes": image_bytes,
            "file_bytes": made.tree.file_bytes(),
            "trained_files": if args.train { hot.len() } else { 0 },
            "warm_bytes": warm_len,
            "is_static": !runtime.is_dynamic,
            "seconds": seconds,
        }))?;
    } else {
        say.line(format!(
            "{}: {} of files -> {}, of which {} runtime, {seconds:.1} s{}",
            text::path(&args.output),
            size::show(made.tree.file_bytes()),
            size::show(bytes),
            size::show(runtime.byte_count()),
            match args.train {
                true => format!(", trained with {} files", hot.len()),
                false => String::new(),
            },
        ));
    }
    Ok(exit)
}

/// Returns the path of the program in the image.
fn program(args: &Bundle) -> anyhow::Result<Vec<u8>> {
    let mut run = text::bytes(&args.run);
    while let Some(rest) = run.strip_prefix(b"./").or_else(|| run.strip_prefix(b"/")) {
        run = rest;
    }
    if run.is_empty() {
        bail!(Misuse("--run names no program".to_owned()));
    }
    Ok(run.to_vec())
}

/// Returns the path of the source if it is an image that can be taken as it is. Says so if it has
/// to be packed again, and what does not come along then.
///
/// # Errors
/// What protects the image cannot be read.
fn ready_image(inputs: &[Input], args: &Bundle, say: &Say) -> anyhow::Result<Option<PathBuf>> {
    let [Input { kind: InputKind::Path(path), prefix: None, snapshot: None, .. }] = inputs else {
        return Ok(None);
    };
    if !path.is_file() {
        return Ok(None);
    }
    let opened = open::source(path, say).ok();
    let opened = opened
        .and_then(|source| shale::read::Image::open(source, shale::read::Options::default()).ok());
    let Some(image) = opened else { return Ok(None) };
    let info = shale::info(&image)?;
    let why = if args.train {
        "for --train"
    } else if info.codecs.iter().any(|group| group.name == "brotli") {
        // Only early versions wrote such frames.
        "since the runtime does not read the codec brotli"
    } else if image.recovered().is_some() {
        "since its end is damaged"
    } else {
        return Ok(Some(path.clone()));
    };
    let mut lost = Vec::new();
    if super::sign::is_signed(path, &image)? {
        lost.push("its signature is not about the new image");
    }
    if image.snapshots().len() > 1 {
        lost.push("only its newest snapshot is in the bundle");
    }
    if args.target.parity.is_none() && shale::parity_facts(&image)?.is_some() {
        lost.push("its parity is not made again without --parity");
    }
    let said = format!("{}: packed again {why}", text::path(path));
    match lost.is_empty() {
        true => say.detail(said),
        false => say.warn(format!("{said}; {}", lost.join("; "))),
    }
    Ok(None)
}

fn opened(path: PathBuf, say: &Say) -> anyhow::Result<Made> {
    let source = open::source(&path, say)?;
    let image = shale::read::Image::open(source, shale::read::Options::default())?;
    let tree = image.tree(&SnapshotChoice::Newest)?;
    Ok(Made { path, tree })
}

/// Packs the sources. Returns whether everything was packed; with `is_told`, prints what was not.
fn make(
    inputs: &[Input],
    path: &Path,
    options: &CreateOptions,
    args: &Bundle,
    is_told: bool,
    say: &Say,
) -> anyhow::Result<bool> {
    let bar = Bar::new(say);
    let report = shale::create(inputs, Output::Path(path.to_owned()), options, &bar);
    drop(bar);
    let source = inputs.first().context("there is no source")?.name();
    let nothing = || format!("no bundle was written from {}", text::path(source));
    let report = report.map_err(|error| create::refused(error, nothing(), say))?;
    let build = &report.build;
    if is_told {
        create::warn_of(&build.problems, "left out: ", say);
        create::warn_of_changes(&build.changes, say);
        build.warnings.iter().for_each(|warning| say.warn(warning));
        for rule in create::unmatched(options, &args.how) {
            say.warn(format!("the rule `{}` matched nothing", text::escape(rule)));
        }
        create::warn_of_rules(options, say);
        create::details(build, say);
    }
    Ok(build.problems.is_empty() && build.changes.is_empty() && build.warnings.is_empty())
}

/// Checks that the program can be executed, as far as the image tells: a link may lead outside.
fn check_program(tree: &Tree, run: &[u8]) -> anyhow::Result<()> {
    let shown = text::escape(run);
    let Some(inode) = tree.lookup_path(run)? else {
        bail!("--run {shown}: it is not in the source");
    };
    let found = tree.attributes(inode)?;
    match found.kind {
        InodeKind::Symlink => Ok(()),
        InodeKind::File if found.permissions & 0o111 != 0 => Ok(()),
        InodeKind::File => {
            bail!("--run {shown}: it is not executable; use chmod +x in the source")
        }
        _ => bail!("--run {shown}: it is not a program"),
    }
}
