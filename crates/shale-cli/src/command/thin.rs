//! `shale create --base`, `shale delta`, `shale patch` and `shale merge --thick`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::json;
use shale::read::{Image, Options as ReadOptions, SnapshotChoice};
use shale::{
    AppendOptions, Input, InputKind, Output, PatientOutput, ThinBase, ThinReport, WholeOptions,
    WholeReport,
};

use super::create::{
    details, only_path, options, read_stdin_once, refused, unmatched, warn_of, warn_of_changes,
    warn_of_rules,
};
use crate::args::{Create, Delta, How, Merge, Patch};
use crate::bar::Bar;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{elsewhere, input, open, sealed, signal, size, text};

/// Packs sources into a thin image over `base`.
///
/// # Errors
/// The command line is not valid, or no image was written.
pub fn create(inputs: &[Input], base: &Path, args: &Create, say: &Say) -> anyhow::Result<Exit> {
    if args.target.parity.is_some_and(|parity| parity > 0) || args.target.pad {
        bail!(Misuse(
            "--parity and --pad are for whole images; add parity to the base, or use them when the \
             thin image is made whole"
                .to_owned()
        ));
    }
    sealed::refuse(&args.target, "a thin image")?;
    let job = Job {
        base,
        inputs,
        output: &args.output,
        how: &args.how,
        overwrites: args.target.force,
        reads_all: args.checksum,
        message: "",
    };
    job.run(None, say)
}

/// Checks that the bases of the command line make sense for a `create` that makes no thin image.
///
/// # Errors
/// There are several.
pub fn only_one_base(bases: &[PathBuf], is_rewrite: bool) -> anyhow::Result<()> {
    if bases.len() > 1 && !is_rewrite {
        bail!(Misuse("a thin image has one base; use --base once".to_owned()));
    }
    Ok(())
}

/// Writes a delta.
///
/// # Errors
/// The command line is not valid, or no delta was written.
pub fn delta(args: &Delta, say: &Say) -> anyhow::Result<Exit> {
    let inputs = input::inputs(&args.new)?;
    let job = Job {
        base: &args.old,
        inputs: &inputs,
        output: &args.output,
        how: &args.how,
        overwrites: args.force,
        // Times may be those of a build that sets them all alike.
        reads_all: true,
        message: &args.message,
    };
    // The times that are kept are part of the tree.
    let as_new = match &inputs[..] {
        [Input { kind: InputKind::Path(path), snapshot, .. }] if path.is_file() => {
            let read = ReadOptions::default();
            let image = open::source(path, say).ok().and_then(|it| Image::open(it, read).ok());
            let choice = snapshot.clone().unwrap_or(SnapshotChoice::Newest);
            image.and_then(|image| image.tree(&choice).ok())
        }
        _ => None,
    };
    let as_new = as_new.map(|tree| {
        let snapshot = tree.snapshot();
        (snapshot.name.clone(), snapshot.times_kept)
    });
    job.run(as_new, say)
}

/// A thin image to be made.
struct Job<'a> {
    base: &'a Path,
    inputs: &'a [Input],
    output: &'a Path,
    how: &'a How,
    overwrites: bool,
    reads_all: bool,
    message: &'a str,
}

impl Job<'_> {
    /// Makes it. `as_new` is the name of the snapshot and the times that it keeps, where options do
    /// not say otherwise.
    fn run(&self, as_new: Option<(Vec<u8>, u8)>, say: &Say) -> anyhow::Result<Exit> {
        let start = Instant::now();
        only_path(self.output, "a thin image")?;
        let to_stdout = self.output.as_os_str() == "-";
        if to_stdout && say.json {
            bail!(Misuse("--json and the image cannot both go to standard output".to_owned()));
        }
        read_stdin_once(self.inputs, self.how)?;
        let mut create = options(self.output, self.how)?.overwrite(self.overwrites);
        create.source.bases = open::bases(say);
        create.source.images = open::other_images(say);
        if let Some((name, times_kept)) = as_new {
            create.build.times_kept |= times_kept;
            if self.how.snapshot.is_none() {
                create.build.snapshot_name = name;
            }
        }
        if self.how.input.filter_dry_run {
            return super::create::dry_run(self.inputs, &create, say);
        }
        let base = base(self.base, say)?;
        let options = AppendOptions::default()
            .create(create)
            .reads_all(self.reads_all)
            .message(self.message.to_owned());
        let bar = Bar::new(say);
        let report = if to_stdout {
            if std::io::stdout().is_terminal() {
                let what = "refusing to write an image to a terminal; redirect standard output or \
                            name a file";
                bail!(Misuse(what.to_owned()));
            }
            let out = std::io::stdout().as_fd().try_clone_to_owned();
            let out = File::from(out.context("cannot use standard output")?);
            let mut out = PatientOutput::new(move || Ok(out), &options.create.cancel)?;
            shale::create_thin(&base, self.inputs, Output::Stream(&mut out), &options, &bar)
        } else {
            let output = Output::Path(self.output.to_owned());
            shale::create_thin(&base, self.inputs, output, &options, &bar)
        };
        drop(bar);
        let report = match report {
            Ok(report) => report,
            Err(error @ shale::Error::Read(_)) => {
                return Err(open::named(self.base, error.into()));
            }
            Err(error) => {
                return Err(refused(error, "no thin image was written".to_owned(), say));
            }
        };
        let build = &report.build;
        warn_of(&build.problems, "left out: ", say);
        warn_of_changes(&build.changes, say);
        build.warnings.iter().for_each(|warning| say.warn(warning));
        for rule in unmatched(&options.create, self.how) {
            say.warn(format!("the rule `{}` matched nothing", text::escape(rule)));
        }
        warn_of_rules(&options.create, say);
        if to_stdout {
            say.detail("the thin image went to standard output and was not verified");
        }
        self.show(&report, start.elapsed(), say)?;
        let is_whole =
            build.problems.is_empty() && build.changes.is_empty() && build.warnings.is_empty();
        Ok(if is_whole { Exit::Done } else { Exit::Partial })
    }

    fn show(&self, report: &ThinReport, took: Duration, say: &Say) -> anyhow::Result<()> {
        let build = &report.build;
        if say.json {
            return say.value(&json!({
                "identity": build.identity.to_string(),
                "number": report.number,
                "thin_bytes": report.file_bytes,
                "image_bytes": build.image_bytes,
                "base_bytes": report.base_bytes,
                "base_identity": report.base_identity.to_string(),
                "file_bytes": build.file_bytes,
                "entries": build.entries.total,
                "unread_files": build.held_files,
                "unread_bytes": build.held_bytes,
                "duplicate_files": build.duplicate_files,
                "duplicate_bytes": build.duplicate_bytes,
                "new_contents": build.contents,
                "stored_bytes": build.stored_bytes,
                "verified": report.verified.is_some(),
                "seconds": took.as_secs_f64(),
                "left_out": build.problems.iter()
                    .map(|problem| text::escape(problem.to_string().as_bytes()))
                    .collect::<Vec<_>>(),
                "warnings": build.warnings,
            }));
        }
        let verified = if report.verified.is_some() { "verified" } else { "not verified" };
        say.line(format!(
            "{}: {} entries, {}; {} over {}, {:.1} s, {verified}",
            text::path(self.output),
            size::count(build.entries.total),
            size::show(build.file_bytes),
            size::show(report.file_bytes),
            text::path(self.base),
            took.as_secs_f64(),
        ));
        say.line(format!("  identity {}", build.identity));
        if !is_beside(self.output, self.base) {
            say.detail(format!(
                "  to read it, put {} beside it, or name it with --base",
                text::path(self.base)
            ));
        }
        details(build, say);
        Ok(())
    }
}

/// True if a reader finds the base beside the thin image.
fn is_beside(thin: &Path, base: &Path) -> bool {
    let folder = |path: &Path| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        std::fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()
    };
    !elsewhere::is_url(base) && folder(thin) == folder(base)
}

/// Opens a base in whatever files it has.
fn base(path: &Path, say: &Say) -> anyhow::Result<ThinBase> {
    let files = open::gathered(path, say)?;
    Ok(ThinBase { files, shown: text::path(path), name: open::file_name(path, say) })
}

/// Applies a delta.
///
/// # Errors
/// The delta is for another image, something is damaged, or the output cannot be written.
pub fn patch(args: &Patch, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let shown = text::path(&args.delta);
    let thin = open::file(&args.delta, say)?;
    let options = WholeOptions::default()
        .overwrite(args.force)
        .skips_verify(args.no_verify)
        .expect(args.expect)
        .waits(args.wait)
        .cancel(signal::cancel()?);
    let bar = Bar::new(say);
    let report = match &args.output {
        Some(output) => {
            not_stdout(output)?;
            let base = base(&args.old, say)?;
            shale::over(thin, &shown, &base)
                .and_then(|files| shale::whole(&files, output, &options, &bar))
        }
        None => {
            open::only_whole(&args.old, "shale patch without -o")?;
            shale::patch(thin, &shown, &args.old, &options, &bar)
        }
    };
    drop(bar);
    let report = report.map_err(|error| match error {
        shale::Error::Read(_) => open::named(&args.delta, error.into()),
        error => error.into(),
    })?;
    show_whole(&report, args.output.as_ref().unwrap_or(&args.old), !args.no_verify, start, say)
}

/// Makes a thin image whole.
///
/// # Errors
/// The image is not thin, something is damaged, or the output cannot be written.
pub fn thick(args: &Merge, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let [image] = &args.images[..] else {
        bail!(Misuse("--thick is for one thin image".to_owned()));
    };
    sealed::refuse(&args.copying.target, "a thin image that is made whole")?;
    let path = Path::new(OsStr::from_bytes(image.as_bytes()));
    not_stdout(&args.output)?;
    only_path(&args.output, "a thin image that is made whole")?;
    let files = open::gathered(path, say)?;
    if files.base.is_none() {
        return Err(shale::Error::NotThin { image: text::path(path) }.into());
    }
    let options = WholeOptions::default()
        .overwrite(args.copying.target.force)
        .skips_verify(args.copying.no_verify)
        .cancel(signal::cancel()?);
    let bar = Bar::new(say);
    let report = shale::whole(&files, &args.output, &options, &bar);
    drop(bar);
    let report = report.map_err(|error| match error {
        shale::Error::Read(_) => open::named(path, error.into()),
        error => error.into(),
    })?;
    show_whole(&report, &args.output, !args.copying.no_verify, start, say)
}

fn not_stdout(output: &Path) -> anyhow::Result<()> {
    match output.as_os_str() == "-" {
        true => {
            bail!(Misuse("this command compares its output before it names it; name a file".into()))
        }
        false => Ok(()),
    }
}

fn show_whole(
    report: &WholeReport,
    output: &Path,
    is_verified: bool,
    start: Instant,
    say: &Say,
) -> anyhow::Result<Exit> {
    let seconds = start.elapsed().as_secs_f64();
    if say.json {
        say.value(&json!({
            "identity": report.identity.to_string(),
            "image_bytes": report.image_bytes,
            "added_bytes": report.added_bytes,
            "snapshots": report.snapshots,
            "verified": is_verified,
            "seconds": seconds,
        }))?;
    } else {
        say.line(format!(
            "{}: {}, {} of it added, {seconds:.1} s, {}",
            text::path(output),
            size::show(report.image_bytes),
            size::show(report.added_bytes),
            if is_verified { "verified" } else { "not verified" },
        ));
        say.line(format!("  identity {}", report.identity));
    }
    Ok(Exit::Done)
}
