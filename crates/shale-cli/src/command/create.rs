//! `shale create`.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use serde_json::json;
use shale::read::{Image, Options as ReadOptions, TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale::write::level::LEVEL_DEFAULT;
use shale::write::{
    Category, Change, Options, Order, Problem, Report, Settings, StreamCounts, WriteError,
};
use shale::{
    Container, CreateOptions, CreateReport, Input, InputKind, Output, Password, PatientOutput,
    SourceError, SourceOptions, Surveyed,
};

use crate::advice::of_words;
use crate::args::{How, OrderChoice, Switch, Target, TimeName};
use crate::bar::Bar;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::sealed::Encrypted;
use crate::{elsewhere, foreign, input, memory, open, sealed, signal, size, text};

/// Packs the sources into an image.
///
/// # Errors
/// The command line is not valid, or no image was written.
pub fn run(
    inputs: &[Input],
    output: &Path,
    (how, target): (&How, &Target),
    is_rewrite: bool,
    say: &Say,
) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let to_stdout = output.as_os_str() == "-";
    if to_stdout && say.json {
        bail!(Misuse("--json and the image cannot both go to standard output".to_owned()));
    }
    read_stdin_once(inputs, how)?;
    let mut options = options(output, how)?
        .parity_ppm(target.parity.unwrap_or(0))
        .pad(target.pad)
        .overwrite(target.force);
    options.source.bases = open::bases(say);
    options.source.images = open::other_images(say);
    if is_rewrite {
        keep_parity(inputs, target, &mut options, say);
    }
    sealed::enclose(target, &mut options)?;
    let asked_first = options.build.first.len();
    let source = inputs.first().context("there is no source")?.name();
    if how.input.filter_dry_run {
        return dry_run(inputs, &options, say);
    }
    let written = written(output, target, &mut options)?;
    let bar = Bar::new(say);
    let report = if to_stdout {
        if std::io::stdout().is_terminal() {
            let what =
                "refusing to write an image to a terminal; redirect standard output or name a file";
            bail!(Misuse(what.to_owned()));
        }
        // A duplicate descriptor without a buffer, so that each write reports its own error.
        let out = std::io::stdout().as_fd().try_clone_to_owned();
        let out = File::from(out.context("cannot use standard output")?);
        let mut out = PatientOutput::new(move || Ok(out), &options.cancel)?;
        to_stream(inputs, &mut out, target, &options, &bar)
    } else {
        shale::create(inputs, Output::Path(written), &options, &bar)
    };
    drop(bar);
    let nothing = || format!("no image was written from {}", text::path(source));
    let report = report.map_err(|error| refused(error, nothing(), say))?;
    warn_of(&report.build.problems, "left out: ", say);
    warn_of_changes(&report.build.changes, say);
    for warning in &report.build.warnings {
        say.warn(warning);
    }
    let unmatched = unmatched(&options, how);
    for rule in &unmatched {
        say.warn(format!("the rule `{}` matched nothing", text::escape(rule)));
    }
    warn_of_rules(&options, say);
    let is_emptied = report.build.entries.total == 0 && !options.source.choose.rules.is_empty();
    if is_emptied {
        say.warn(
            "the image is empty: the rules left out everything. A directory that is left out is \
             not searched; add --include '*/' before the rule that leaves it out",
        );
    }
    for path in inputs.iter().filter_map(plain_file) {
        say.line(format!("{}: packed as a single file", text::path(path)));
    }
    if to_stdout {
        say.detail("the image went to standard output and was not verified");
    }
    if say.json {
        say.value(&as_json(&report, start.elapsed().as_secs_f64()))?;
    } else {
        let seconds = start.elapsed().as_secs_f64();
        summary(&report, output, seconds, asked_first, options.parity_ppm, say);
    }
    let build = &report.build;
    let is_whole =
        build.problems.is_empty() && build.changes.is_empty() && build.warnings.is_empty();
    Ok(if is_whole && !is_emptied { Exit::Done } else { Exit::Partial })
}

/// Returns where an output is written: in place, or for a URL in a temporary file that is uploaded.
///
/// # Errors
/// Nothing can be written to the URL, or its object exists and may not be replaced.
pub fn written(
    output: &Path,
    target: &Target,
    options: &mut CreateOptions,
) -> anyhow::Result<PathBuf> {
    match elsewhere::is_url(output) {
        false => Ok(output.to_owned()),
        #[cfg(feature = "remote")]
        true => crate::upload::deliver(output, target.force, options),
        #[cfg(not(feature = "remote"))]
        true => {
            let _ = (target, options);
            bail!(Misuse("this program was built without support for URLs".to_owned()))
        }
    }
}

/// Refuses a URL as an output that is written in a file only.
///
/// # Errors
/// It is one.
pub fn only_path(output: &Path, what: &str) -> anyhow::Result<()> {
    match elsewhere::is_url(output) {
        true => Err(Misuse(format!(
            "{what} is written to a file only; name one for it, and upload that"
        ))
        .into()),
        false => Ok(()),
    }
}

/// Packs the sources into an image in a stream, encrypted if the command line asks for that.
fn to_stream(
    inputs: &[Input],
    out: &mut (dyn Write + Send),
    target: &Target,
    options: &CreateOptions,
    bar: &Bar,
) -> Result<CreateReport, shale::Error> {
    let written = |error| shale::Error::Write(WriteError::Output(error));
    let encrypted = match Encrypted::new(&target.encrypt) {
        Ok(Some(encrypted)) => encrypted,
        _ => return shale::create(inputs, Output::Stream(out), options, bar),
    };
    let mut sealed = encrypted.stream(&mut *out).map_err(written)?;
    let report = shale::create(inputs, Output::Stream(&mut sealed), options, bar)?;
    sealed.finish().and_then(Write::flush).map_err(written)?;
    Ok(report)
}

/// The rules on the command line that matched nothing. Files of rules are often shared by several
/// sources, so their rules do not count.
pub fn unmatched<'o>(options: &'o CreateOptions, how: &How) -> Vec<&'o [u8]> {
    let args = &how.input;
    let given = [&args.exclude, &args.include, &args.filter];
    let given: HashSet<&[u8]> = given.into_iter().flatten().map(|rule| text::bytes(rule)).collect();
    options.source.choose.rules.unmatched().filter(|rule| given.contains(rule)).collect()
}

/// Names the rules of `--rule` that matched no file.
pub fn warn_of_rules(options: &CreateOptions, say: &Say) {
    for rule in options.build.rules.unmatched() {
        say.warn(format!("--rule '{}' matched no file", text::escape(rule)));
    }
}

/// Gives a rewritten image as much parity as the old one has, and warns that signatures do not
/// carry over.
pub fn keep_parity(inputs: &[Input], target: &Target, options: &mut CreateOptions, say: &Say) {
    for input in inputs {
        let InputKind::Path(path) = &input.kind else { continue };
        let Ok(source) = open::source(path, say) else { continue };
        let Ok(image) = Image::open(source, ReadOptions::default()) else { continue };
        if target.parity.is_none()
            && let Ok(Some(facts)) = shale::parity_facts(&image)
        {
            options.parity_ppm = options.parity_ppm.max(facts.parts_per_million);
        }
        let is_signed = shale::signatures(&image).is_ok_and(|signatures| !signatures.is_empty());
        if is_signed || super::sign::beside(path).exists() {
            say.warn(format!(
                "{}: its signature is not about the new image; sign that again",
                text::path(path)
            ));
        }
    }
}

/// The path of a source that is packed as one file, as it is no archive.
fn plain_file(input: &Input) -> Option<&Path> {
    let InputKind::Path(path) = &input.kind else { return None };
    let is_packed_whole = path.is_file() && foreign::is_plain(path);
    (is_packed_whole && !sealed::is_image(path).unwrap_or(false)).then_some(path)
}

/// Checks that at most one argument reads standard input.
///
/// # Errors
/// Several do.
pub fn read_stdin_once(inputs: &[Input], how: &How) -> anyhow::Result<()> {
    let is_stdin = |path: &&Path| path.as_os_str() == "-";
    let sources = inputs.iter().filter(|input| match &input.kind {
        InputKind::Stdin => true,
        InputKind::Manifest(path) => is_stdin(&path.as_path()),
        InputKind::Path(_) => false,
    });
    let explicit = match &how.order {
        Some(OrderChoice::Explicit(path)) => Some(path),
        _ => None,
    };
    let args = &how.input;
    let files = [&args.input_list, &args.map_users, &args.pseudo, &args.file_contexts, &how.hot];
    let files =
        files.map(Option::as_ref).into_iter().chain([explicit]).flatten().map(AsRef::as_ref);
    let count = sources.count() + files.filter(is_stdin).count();
    if count > 1 {
        let what = "standard input can be used only once; name a file for the other inputs";
        bail!(Misuse(what.to_owned()));
    }
    Ok(())
}

/// Shows what the rules do to each path.
///
/// # Errors
/// A source cannot be read.
pub fn dry_run(inputs: &[Input], options: &CreateOptions, say: &Say) -> anyhow::Result<Exit> {
    let bar = Bar::new(say);
    let decisions = shale::survey(inputs, options, &bar)?;
    drop(bar);
    if say.json {
        let all = decisions.iter().map(|Surveyed { decision, opens, rule }| {
            let mut object = serde_json::Map::new();
            text::put_name(&mut object, "path", &decision.path);
            object.insert("taken".to_owned(), decision.is_taken.into());
            object.insert("reason".to_owned(), text::escape(&decision.reason).into());
            let opens = opens.map(shale::write::Container::name);
            object.insert("taken_apart".to_owned(), opens.into());
            let rule = rule.as_deref().map(text::escape);
            object.insert("rule".to_owned(), rule.into());
            serde_json::Value::Object(object)
        });
        let all = all.collect::<Vec<_>>();
        say.value(&all)?;
        return Ok(Exit::Done);
    }
    let mut out = Vec::new();
    for Surveyed { decision, opens, rule } in &decisions {
        out.extend_from_slice(if decision.is_taken { b"+ " } else { b"- " });
        out.extend_from_slice(text::escape(&decision.path).as_bytes());
        if decision.is_directory {
            out.push(b'/');
        }
        if let Some(container) = opens {
            out.extend_from_slice(format!("    (taken apart: {})", container.name()).as_bytes());
        }
        if let Some(rule) = rule {
            out.extend_from_slice(format!("    (rule: {})", text::escape(rule)).as_bytes());
        }
        if !decision.reason.is_empty() {
            out.extend_from_slice(format!("    [{}]", text::escape(&decision.reason)).as_bytes());
        }
        out.push(b'\n');
    }
    say.raw(&out)?;
    for rule in options.source.choose.rules.unmatched() {
        say.warn(format!("rule `{}` matched nothing", text::escape(rule)));
    }
    warn_of_rules(options, say);
    Ok(Exit::Done)
}

/// Unreadable entries that are printed, at all and with the same words; further ones are counted.
const NAMED_MAX: usize = 1_000;
const ALIKE_MAX: usize = 20;

/// Prints each entry that could not be read, and counts those with the same problem.
pub fn warn_of(problems: &[Problem], prefix: &str, say: &Say) {
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    let mut printed = 0;
    for problem in problems {
        let count = alike.entry(problem.kind.to_string()).or_default();
        *count += 1;
        if *count <= ALIKE_MAX && printed < NAMED_MAX {
            printed += 1;
            say.warn(format!("{prefix}{problem}"));
        }
    }
    for (what, count) in alike.into_iter().filter(|(_, count)| *count > ALIKE_MAX) {
        say.warn(format!("{prefix}and {} more: {what}", count - ALIKE_MAX));
        printed += count - ALIKE_MAX;
    }
    if printed < problems.len() {
        say.warn(format!("{prefix}and {} more", problems.len() - printed));
    }
}

/// Names the files that changed while they were read, and counts those beyond the first.
pub fn warn_of_changes(changes: &[Change], say: &Say) {
    for change in changes.iter().take(NAMED_MAX) {
        say.warn(change.to_string());
    }
    if let Some(more @ 1..) = changes.len().checked_sub(NAMED_MAX) {
        say.warn(format!("and {more} more files changed while they were read"));
    }
}

/// Prints each entry that could not be packed, and returns the error with its advice. `nothing`
/// says what was not done.
pub fn refused(error: shale::Error, nothing: String, say: &Say) -> anyhow::Error {
    if let shale::Error::Write(WriteError::Source(SourceError::Conflict { paths, count })) = &error
    {
        return conflict(&nothing, paths, *count, say);
    }
    let shale::Error::Write(WriteError::Unreadable(problems)) = &error else {
        return anyhow::Error::from(error).context(nothing);
    };
    warn_of(problems, "", say);
    let count = problems.len();
    let entries = if count == 1 { "1 entry" } else { &format!("{count} entries") };
    if problems.iter().all(|problem| problem.kind.is_change()) {
        return anyhow!(
            "{nothing}: {entries} changed while they were read. Without --strict, the image gets \
             what was read, and names them"
        );
    }
    let fix = problems.iter().find_map(|problem| of_words(&problem.kind.to_string()));
    let fix = fix.map_or_else(|| "fix this".to_owned(), |(_, advice)| advice);
    anyhow!(
        "{nothing}: {entries} could not be read; {fix}, or use --skip-unreadable to pack the rest"
    )
}

/// Prints the first paths that several sources claim, and returns the error with its advice.
fn conflict(nothing: &str, paths: &[Vec<u8>], count: u64, say: &Say) -> anyhow::Error {
    for path in paths {
        say.warn(format!("{}: in more than one source", text::escape(path)));
    }
    let more = count.saturating_sub(paths.len() as u64);
    if more > 0 {
        say.warn(format!("and {more} more"));
    }
    let are = if count == 1 { "1 path is" } else { &format!("{count} paths are") };
    anyhow!(
        "{nothing}: {are} in more than one source. Give the sources different prefixes, or use \
         --replace to keep what the last source has"
    )
}

/// Parses `[CATEGORY=]CODEC[:SETTINGS]`.
fn codec(choice: &str) -> anyhow::Result<(Option<Category>, Settings)> {
    // Settings can also have equals signs, but only after a colon.
    let (category, settings) = match choice.split_once('=') {
        Some((category, settings)) if !category.contains(':') => {
            let names = || Category::ASSIGNED.map(Category::name).join(", ");
            let found = Category::from_name(category)
                .filter(|found| Category::ASSIGNED.contains(found))
                .ok_or_else(|| anyhow!("unknown category `{category}`; use {}", names()))?;
            (Some(found), settings)
        }
        _ => (None, choice),
    };
    Ok((category, settings.parse()?))
}

/// Translates `--order` and `--hot` into an order and the paths that come first.
fn layout(how: &How) -> anyhow::Result<(Option<Order>, Vec<Vec<u8>>)> {
    let hot = |how: &How| how.hot.as_deref().map_or(Ok(Vec::new()), input::path_list);
    Ok(match &how.order {
        Some(OrderChoice::Explicit(_)) if how.hot.is_some() => {
            let what = "--order explicit:FILE and --hot both say which files come first; use one";
            bail!(Misuse(what.to_owned()))
        }
        Some(OrderChoice::Explicit(file)) => (Some(Order::Source), input::path_list(file)?),
        Some(OrderChoice::Known(order)) => (Some(*order), hot(how)?),
        None => (None, hot(how)?),
    })
}

/// Translates the options of a build.
///
/// # Errors
/// An option is not valid, or a file that it names cannot be read.
pub fn options(output: &Path, how: &How) -> anyhow::Result<CreateOptions> {
    let codecs = how.codec.iter().map(|choice| codec(choice)).collect::<Result<_, _>>();
    let codecs = codecs.context("--codec").map_err(Misuse::of)?;
    // The library refuses a length beyond its limit, so a longer one only needs to stay beyond it.
    let frame_len = how.frame_size.map(|len| u32::try_from(len).unwrap_or(u32::MAX));
    let times_kept = how.keep_times.iter().fold(TIME_MTIME, |kept, time| {
        kept | match time {
            TimeName::Mtime => TIME_MTIME,
            TimeName::Atime => TIME_ATIME,
            TimeName::Ctime => TIME_CTIME,
            TimeName::Btime => TIME_BTIME,
        }
    });
    let (order, first) = layout(how)?;
    if let Some(place) = &how.temp_dir {
        let is_there = std::fs::metadata(place).and_then(|found| match found.is_dir() {
            true => Ok(()),
            false => Err(std::io::ErrorKind::NotADirectory.into()),
        });
        is_there.with_context(|| format!("--temp-dir {}", text::path(place)))?;
    }
    let beside = match output.parent() {
        _ if output.as_os_str() == "-" => None,
        Some(parent) if parent == Path::new("") => Some(Path::new(".").to_owned()),
        Some(parent) => parent.is_dir().then(|| parent.to_owned()),
        None => None,
    };
    let there = memory::memory();
    Ok(CreateOptions::default()
        .build(Options {
            level: how.digits.level().or(how.level).unwrap_or(LEVEL_DEFAULT),
            threads: how.threads,
            memory_bytes_max: how.memory.unwrap_or(0),
            memory_bytes_there: there.unwrap_or(0),
            frame_len,
            codecs,
            rules: input::file_rules(&how.rule)?,
            order,
            first,
            first_is_hot: how.hot.is_some(),
            recompress: how.recompress.map(|switch| switch == Switch::On),
            times_kept,
            skip_unreadable: how.skip_unreadable,
            strict: how.strict,
            snapshot_name: how.snapshot.as_ref().map_or(Vec::new(), |n| n.as_bytes().to_vec()),
            label: how.label.clone(),
            temp_dir: how.temp_dir.clone().or(beside),
            ..Options::default()
        })
        .source(sources(how, there)?)
        .verify(!how.no_verify)
        .cancel(signal::cancel()?))
}

/// Returns the options of the inputs. An archive may name as much memory for its decompressor as
/// the user says, or half of what is `there`, since the build needs some, too.
fn sources(how: &How, there: Option<u64>) -> anyhow::Result<SourceOptions> {
    let half = there.map_or(u64::MAX, |bytes| bytes / 2);
    Ok(SourceOptions::default()
        .one_file_system(how.one_file_system)
        .archive_offset(how.offset)
        .password(how.password_file.as_deref().map(password).transpose()?)
        .decoder_memory_len_max(Some(how.memory.unwrap_or(half)))
        .dereference(how.dereference)
        .container(match how.container_files {
            true => Container::Files,
            false => Container::Tree { tag: how.tag.clone(), platform: how.platform.clone() },
        })
        .choose(input::choose(&how.input)?)
        .adjust(input::adjust(&how.input)?)
        .pseudo(input::pseudo(&how.input)?)
        .file_contexts(input::file_contexts(&how.input)?)
        .replace(how.replace))
}

/// Reads the first line of a file.
fn password(file: &Path) -> anyhow::Result<Password> {
    const LEN_MAX: u64 = 4096;
    let mut line = Vec::new();
    let read = File::open(file).and_then(|file| file.take(LEN_MAX).read_to_end(&mut line));
    read.with_context(|| format!("--password-file {}", text::path(file)))?;
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    Ok(Password::new(line.strip_suffix(b"\r").unwrap_or(line)))
}

fn summary(
    report: &CreateReport,
    output: &Path,
    seconds: f64,
    asked_first: usize,
    parity_ppm: u32,
    say: &Say,
) {
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
        super::parity::say_if_large(parity, parity_ppm, say);
    }
    if asked_first > 0 {
        let found = build.contents_stored_first;
        say.line(format!("  stored first: {found} contents of {asked_first} listed paths"));
    }
    details(build, say);
    say.detail(format!(
        "  before the build: scan {:.1} CPU seconds; after it: verify {:.1}",
        report.scan_time.as_secs_f64(),
        report.verify_time.as_secs_f64()
    ));
}

/// The tables of a build as JSON.
pub fn tables(build: &Report) -> Vec<serde_json::Value> {
    let tables = build.tables.iter().map(|table| {
        json!({
            "name": table.name, "rows": table.rows, "pages": table.pages,
            "plain_bytes": table.plain_bytes, "stored_bytes": table.stored_bytes,
        })
    });
    tables.collect()
}

/// Prints what the sources held and how it is stored, if details are asked for.
pub fn details(build: &Report, say: &Say) {
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
        "  {} in duplicate files, {} in repeated segments, {} in holes, {} of zeros; {} compressed",
        size::show(build.duplicate_bytes),
        size::show(build.segment_bytes),
        size::show(build.hole_bytes),
        size::show(build.zero_bytes),
        size::show(build.plain_bytes)
    ));
    for (container, counts) in &build.streams {
        say.detail(format!(
            "  {} compressed streams of {} in {} are stored as the {} that they hold",
            size::count(counts.streams),
            size::show(counts.bytes),
            container.name(),
            size::show(counts.plain_bytes)
        ));
    }
    say.detail(format!(
        "  {} frames of {} stored bytes; {} of them have references ({} in total), saving about {}",
        build.frames,
        build.stored_bytes,
        build.frames_with_references,
        build.references,
        size::show(build.reference_saved_bytes)
    ));
    let (deciding, all) = cpu_seconds(build);
    let stages = build.times.iter().map(|time| {
        let all = (time.deciding + time.helping).as_secs_f64();
        format!("{} {all:.1} ({:.1})", time.stage.name(), time.deciding.as_secs_f64())
    });
    say.detail(format!(
        "  {all:.1} CPU seconds: {}; in brackets: of the one thread that decides, {deciding:.1} \
         ({:.0} %) in all",
        stages.collect::<Vec<_>>().join(", "),
        100.0 * share(deciding, all),
    ));
    if build.temporary_file_bytes > 0 {
        say.detail(format!("  {} in temporary files", size::show(build.temporary_file_bytes)));
    }
    for table in build.tables.iter().filter(|table| table.rows > 0) {
        say.detail(format!(
            "  table {}: {} rows, {} pages, {} bytes",
            table.name, table.rows, table.pages, table.stored_bytes
        ));
    }
}

/// CPU seconds of the build: of the deciding thread, and of all.
fn cpu_seconds(build: &Report) -> (f64, f64) {
    let times = build.times.iter();
    times.fold((0.0, 0.0), |(deciding, all), time| {
        let own = time.deciding.as_secs_f64();
        (deciding + own, all + own + time.helping.as_secs_f64())
    })
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Streams of one kind of container.
fn streams_as_json(container: &str, counts: &StreamCounts) -> serde_json::Value {
    json!({
        "container": container,
        "streams": counts.streams,
        "stream_bytes": counts.bytes,
        "stream_plain_bytes": counts.plain_bytes,
    })
}

fn as_json(report: &CreateReport, seconds: f64) -> serde_json::Value {
    let build = &report.build;
    let (deciding, all) = cpu_seconds(build);
    json!({
        "identity": build.identity.to_string(),
        "parity": report.parity.as_ref().map(super::parity::as_json),
        "image_id": shale::hex::encode(&build.image_id),
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
        "streams": build.streams.iter().map(|(_, counts)| counts.streams).sum::<u64>(),
        "stream_bytes": build.streams.iter().map(|(_, counts)| counts.bytes).sum::<u64>(),
        "stream_plain_bytes":
            build.streams.iter().map(|(_, counts)| counts.plain_bytes).sum::<u64>(),
        "streams_by_container": build
            .streams
            .iter()
            .map(|(container, counts)| streams_as_json(container.name(), counts))
            .collect::<Vec<_>>(),
        "hole_bytes": build.hole_bytes,
        "zero_bytes": build.zero_bytes,
        "plain_bytes": build.plain_bytes,
        "stored_bytes": build.stored_bytes,
        "frames": build.frames,
        "frames_with_references": build.frames_with_references,
        "references": build.references,
        "reference_saved_bytes": build.reference_saved_bytes,
        "tables": tables(build),
        "cpu_seconds": all,
        "deciding_share": share(deciding, all),
        "stages": build.times.iter().map(|time| json!({
            "name": time.stage.name(), "deciding_seconds": time.deciding.as_secs_f64(),
            "helping_seconds": time.helping.as_secs_f64(),
        })).collect::<Vec<_>>(),
        "scan_cpu_seconds": report.scan_time.as_secs_f64(),
        "verify_cpu_seconds": report.verified.map(|_| report.verify_time.as_secs_f64()),
        "temporary_bytes": build.temporary_file_bytes,
        "flight_bytes_max": build.flight_bytes_max,
        "left_out": build.problems.iter().map(|p| text::escape(p.to_string().as_bytes()))
            .collect::<Vec<_>>(),
        "changed": build.changes.iter().map(|c| text::escape(c.to_string().as_bytes()))
            .collect::<Vec<_>>(),
        "warnings": &build.warnings,
    })
}
