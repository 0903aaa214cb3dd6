//! `shale create`.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use serde_json::json;
use shale::read::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale::write::levels::LEVEL_DEFAULT;
use shale::write::{Category, Options, Settings, WriteError};
use shale::{CreateOptions, CreateReport, Input, InputKind, Output};

use crate::args::{How, TimeName};
use crate::bar::Bar;
use crate::exit::{Exit, Misuse};
use crate::order::LayingChoice;
use crate::report::Say;
use crate::{input, order, signal, size, text};

/// Packs directories, archives, or what a manifest describes.
pub fn run(inputs: &[Input], output: &Path, how: &How, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let to_stdout = output.as_os_str() == "-";
    if to_stdout && say.json {
        bail!(Misuse("--json and the image cannot both go to standard output".to_owned()));
    }
    read_stdin_once(inputs, how)?;
    let options = options(output, how)?;
    let asked_first = options.build.first.len();
    let source = inputs.first().context("there is nothing to pack")?.name();
    if how.input.filter_dry_run {
        return dry_run(inputs, &options, say);
    }
    let bar = Bar::new(say);
    let report = if to_stdout {
        if std::io::stdout().is_terminal() {
            let what = "an image is not for a terminal: redirect standard output or name a file";
            bail!(Misuse(what.to_owned()));
        }
        // A descriptor of its own: nothing is buffered, and errors come at the write they belong
        // to.
        let out = std::io::stdout().as_fd().try_clone_to_owned();
        let mut out = File::from(out.context("cannot use standard output")?);
        shale::create(inputs, Output::Stream(&mut out), &options, &bar)
    } else {
        shale::create(inputs, Output::Path(output.to_owned()), &options, &bar)
    };
    drop(bar);
    let report = report.map_err(|error| refused(error, source, say))?;
    for problem in &report.build.problems {
        say.warn(format!("left out: {problem}"));
    }
    if to_stdout {
        say.detail("written to standard output, so it was not read back and verified");
    }
    if say.json {
        say.value(&as_json(&report, start.elapsed().as_secs_f64()))?;
    } else {
        summary(&report, output, start.elapsed().as_secs_f64(), asked_first, say);
    }
    Ok(if report.build.problems.is_empty() { Exit::Done } else { Exit::Partial })
}

/// Whoever reads standard input leaves nothing of it to the next.
fn read_stdin_once(inputs: &[Input], how: &How) -> anyhow::Result<()> {
    let is_stdin = |path: &&Path| path.as_os_str() == "-";
    let sources = inputs.iter().filter(|input| match &input.kind {
        InputKind::Stdin => true,
        InputKind::Manifest(path) => is_stdin(&path.as_path()),
        InputKind::Path(_) => false,
    });
    let explicit = match &how.order {
        Some(LayingChoice::Explicit(path)) => Some(path),
        _ => None,
    };
    let files = [&how.input.input_list, &how.input.map_users, &how.hot].map(Option::as_ref);
    let files = files.into_iter().chain([explicit]).flatten().map(AsRef::as_ref);
    let count = sources.count() + files.filter(is_stdin).count();
    if count > 1 {
        let what = "standard input can be one thing only; name a file for the others";
        bail!(Misuse(what.to_owned()));
    }
    Ok(())
}

/// Shows what the rules do to every path.
fn dry_run(inputs: &[Input], options: &CreateOptions, say: &Say) -> anyhow::Result<Exit> {
    let bar = Bar::new(say);
    let decisions = shale::survey(inputs, options, &bar)?;
    drop(bar);
    if say.json {
        let all = decisions.iter().map(|decision| {
            let mut object = serde_json::Map::new();
            text::put_name(&mut object, "path", &decision.path);
            object.insert("taken".to_owned(), decision.is_taken.into());
            object.insert("reason".to_owned(), text::escape(&decision.reason).into());
            serde_json::Value::Object(object)
        });
        let all = all.collect::<Vec<_>>();
        say.value(&all)?;
        return Ok(Exit::Done);
    }
    let mut out = Vec::new();
    for decision in &decisions {
        out.extend_from_slice(if decision.is_taken { b"+ " } else { b"- " });
        out.extend_from_slice(text::escape(&decision.path).as_bytes());
        if decision.is_directory {
            out.push(b'/');
        }
        if !decision.reason.is_empty() {
            out.extend_from_slice(format!("    [{}]", text::escape(&decision.reason)).as_bytes());
        }
        out.push(b'\n');
    }
    say.raw(&out)?;
    for rule in options.choose.rules.unmatched() {
        say.warn(format!("rule `{}` decided nothing", text::escape(rule)));
    }
    Ok(Exit::Done)
}

/// Entries named one by one when a source cannot be read; more are counted.
const NAMED_MAX: usize = 1_000;

/// Names each entry that could not be read, and says what can be done about it.
fn refused(error: shale::Error, source: &Path, say: &Say) -> anyhow::Error {
    let nothing = format!("no image was made of {}", text::path(source));
    let shale::Error::Write(WriteError::Unreadable(problems)) = &error else {
        return anyhow::Error::from(error).context(nothing);
    };
    for problem in problems.iter().take(NAMED_MAX) {
        say.warn(problem.to_string());
    }
    let (count, unsaid) = (problems.len(), problems.len().saturating_sub(NAMED_MAX));
    if unsaid > 0 {
        say.warn(format!("and {unsaid} more"));
    }
    anyhow!(
        "{nothing}: {count} of its entries could not be read. Mend that, or pack the others with \
         --skip-unreadable"
    )
}

/// `[CATEGORY=]CODEC[:SETTINGS]`.
fn codec(choice: &str) -> anyhow::Result<(Option<Category>, Settings)> {
    // Settings have equals signs, too, but only behind a colon.
    let (category, settings) = match choice.split_once('=') {
        Some((category, settings)) if !category.contains(':') => {
            let names = || Category::ALL.map(Category::name).join(", ");
            let found = Category::from_name(category)
                .ok_or_else(|| anyhow!("no category `{category}`; there are {}", names()))?;
            (Some(found), settings)
        }
        _ => (None, choice),
    };
    Ok((category, settings.parse()?))
}

fn options(output: &Path, how: &How) -> anyhow::Result<CreateOptions> {
    let codecs = how.codec.iter().map(|choice| codec(choice)).collect::<Result<_, _>>();
    let codecs = codecs.context("--codec").map_err(Misuse::of)?;
    // What is longer than any frame may be is refused with those.
    let frame_len = how.frame_size.map(|len| u32::try_from(len).unwrap_or(u32::MAX));
    let times_kept = how.keep_times.iter().fold(TIME_MTIME, |kept, time| {
        kept | match time {
            TimeName::Mtime => TIME_MTIME,
            TimeName::Atime => TIME_ATIME,
            TimeName::Ctime => TIME_CTIME,
            TimeName::Btime => TIME_BTIME,
        }
    });
    let (order, first) = order::laying(how.order.as_ref(), how.hot.as_ref())?;
    if let Some(place) = &how.temp_dir {
        let is_there = std::fs::metadata(place).and_then(|found| match found.is_dir() {
            true => Ok(()),
            false => Err(std::io::ErrorKind::NotADirectory.into()),
        });
        is_there.with_context(|| format!("--temp-dir {}", text::path(place)))?;
    }
    let beside = match output.parent() {
        Some(parent) if output.as_os_str() != "-" && parent != Path::new("") => {
            parent.is_dir().then(|| parent.to_owned())
        }
        _ => None,
    };
    Ok(CreateOptions {
        build: Options {
            level: how.digits.level().or(how.level).unwrap_or(LEVEL_DEFAULT),
            threads: how.threads,
            memory_bytes_max: how.memory.unwrap_or(0),
            frame_len,
            codecs,
            order,
            first,
            first_is_hot: how.hot.is_some(),
            times_kept,
            skip_unreadable: how.skip_unreadable,
            snapshot_name: how.snapshot.as_ref().map_or(Vec::new(), |n| n.as_bytes().to_vec()),
            temp_dir: how.temp_dir.clone().or(beside),
            ..Options::default()
        },
        one_file_system: how.one_file_system,
        dereference: how.dereference,
        choose: input::choose(&how.input)?,
        adjust: input::adjust(&how.input)?,
        verify: !how.no_verify,
        parity_ppm: how.parity.unwrap_or(0),
        overwrite: how.force,
        cancel: signal::cancel()?,
    })
}

fn summary(report: &CreateReport, output: &Path, seconds: f64, asked_first: usize, say: &Say) {
    let build = &report.build;
    let ratio = size::ratio(build.file_bytes, build.image_bytes);
    say.line(format!(
        "{}: {} entries, {} -> {}, ratio {ratio}, {seconds:.1} s, {}/s{}",
        text::path(output),
        size::count(build.entries.total),
        size::show(build.file_bytes),
        size::show(build.image_bytes),
        size::show((build.file_bytes as f64 / seconds.max(0.001)) as u64),
        if report.verified.is_some() { ", verified" } else { ", not verified" },
    ));
    say.line(format!("  identity {}", build.identity));
    if let Some(parity) = &report.parity {
        say.line(format!("  {}", super::parity::summary(parity)));
    }
    if asked_first > 0 {
        let found = build.contents_laid_first;
        say.line(format!("  {found} contents laid first, of {asked_first} paths listed"));
    }
    say.detail(format!(
        "  {} files, {} directories, {} symlinks, {} devices, {} fifos and sockets, {} hard links",
        build.entries.files,
        build.entries.directories,
        build.entries.symlinks,
        build.entries.devices,
        build.entries.specials,
        build.entries.hard_links
    ));
    say.detail(format!(
        "  {} in duplicate files, {} in repeated segments, {} in holes, {} zero; {} to compress",
        size::show(build.duplicate_bytes),
        size::show(build.segment_bytes),
        size::show(build.hole_bytes),
        size::show(build.zero_bytes),
        size::show(build.plain_bytes)
    ));
    say.detail(format!(
        "  {} frames, {} stored bytes, {} with references ({} in all), which saved about {}",
        build.frames,
        build.stored_bytes,
        build.frames_with_references,
        build.references,
        size::show(build.reference_saved_bytes)
    ));
    for table in build.tables.iter().filter(|table| table.rows > 0) {
        say.detail(format!(
            "  table {}: {} rows, {} pages, {} bytes",
            table.name, table.rows, table.pages, table.stored_bytes
        ));
    }
}

fn as_json(report: &CreateReport, seconds: f64) -> serde_json::Value {
    let build = &report.build;
    json!({
        "identity": build.identity.to_string(),
        "parity": report.parity.as_ref().map(super::parity::as_json),
        "image_id": text::hex(&build.image_id),
        "image_bytes": build.image_bytes,
        "file_bytes": build.file_bytes,
        "seconds": seconds,
        "verified": report.verified.is_some(),
        "entries": build.entries.total,
        "files": build.entries.files,
        "directories": build.entries.directories,
        "symlinks": build.entries.symlinks,
        "devices": build.entries.devices,
        "specials": build.entries.specials,
        "hard_links": build.entries.hard_links,
        "duplicate_files": build.duplicate_files,
        "duplicate_bytes": build.duplicate_bytes,
        "segment_bytes": build.segment_bytes,
        "hole_bytes": build.hole_bytes,
        "zero_bytes": build.zero_bytes,
        "plain_bytes": build.plain_bytes,
        "stored_bytes": build.stored_bytes,
        "frames": build.frames,
        "frames_with_references": build.frames_with_references,
        "references": build.references,
        "reference_saved_bytes": build.reference_saved_bytes,
        "tables": build.tables.iter().map(|table| json!({
            "name": table.name, "rows": table.rows, "pages": table.pages,
            "plain_bytes": table.plain_bytes, "stored_bytes": table.stored_bytes,
        })).collect::<Vec<_>>(),
        "left_out": build.problems.iter().map(|p| text::escape(p.to_string().as_bytes()))
            .collect::<Vec<_>>(),
    })
}
