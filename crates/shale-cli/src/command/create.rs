//! `shale create`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::json;
use shale::read::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale::write::Options;
use shale::write::levels::LEVEL_DEFAULT;
use shale::{CreateOptions, CreateReport, Output};

use crate::args::{Create, TimeName};
use crate::bar::Bar;
use crate::exit::Exit;
use crate::report::Say;
use crate::{signal, size, text};

/// Packs a directory.
pub fn run(args: &Create, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout && say.json {
        bail!("--json and the image cannot both go to standard output");
    }
    let options = options(args)?;
    let bar = Bar::new(say);
    let report = if to_stdout {
        use std::io::IsTerminal;
        if std::io::stdout().is_terminal() {
            bail!("an image is not for a terminal: redirect standard output or name a file");
        }
        let mut out = std::io::stdout().lock().into_stream();
        shale::create(&args.source, Output::Stream(&mut out), &options, &bar)
    } else {
        shale::create(&args.source, Output::Path(args.output.clone()), &options, &bar)
    };
    drop(bar);
    let report =
        report.with_context(|| format!("no image was made of {}", text::path(&args.source)))?;
    for problem in &report.build.problems {
        say.warn(format!("left out: {}", text::escape(problem.to_string().as_bytes())));
    }
    if to_stdout {
        say.detail("written to standard output, so it was not read back and verified");
    }
    if say.json {
        say.value(&as_json(&report, start.elapsed().as_secs_f64()))?;
    } else {
        summary(&report, &args.output, start.elapsed().as_secs_f64(), say);
    }
    Ok(if report.build.problems.is_empty() { Exit::Done } else { Exit::Partial })
}

/// Standard output as something that may be written from another thread.
trait IntoStream {
    fn into_stream(self) -> std::fs::File;
}

impl IntoStream for std::io::StdoutLock<'static> {
    fn into_stream(self) -> std::fs::File {
        use std::os::fd::AsFd;
        // A duplicate of the descriptor: no line buffering, and errors at the write they belong to.
        match self.as_fd().try_clone_to_owned() {
            Ok(fd) => fd.into(),
            Err(error) => {
                eprintln!("shale: cannot use standard output: {error}");
                std::process::exit(i32::from(Exit::Failed.code()));
            }
        }
    }
}

fn options(args: &Create) -> anyhow::Result<CreateOptions> {
    let codec = args.codec.as_deref().map(str::parse).transpose().context("--codec")?;
    let frame_len = args.frame_size.map(u32::try_from).transpose().context("--frame-size")?;
    let times_kept = args.keep_times.iter().fold(TIME_MTIME, |kept, time| {
        kept | match time {
            TimeName::Mtime => TIME_MTIME,
            TimeName::Atime => TIME_ATIME,
            TimeName::Ctime => TIME_CTIME,
            TimeName::Btime => TIME_BTIME,
        }
    });
    let beside = match args.output.parent() {
        Some(parent) if args.output.as_os_str() != "-" && parent != Path::new("") => {
            parent.is_dir().then(|| parent.to_owned())
        }
        _ => None,
    };
    Ok(CreateOptions {
        build: Options {
            level: args.digits.level().or(args.level).unwrap_or(LEVEL_DEFAULT),
            threads: args.threads,
            memory_bytes_max: args.memory.unwrap_or(0),
            frame_len,
            codec,
            times_kept,
            skip_unreadable: args.skip_unreadable,
            snapshot_name: args.snapshot.as_ref().map_or(Vec::new(), |n| n.as_bytes().to_vec()),
            temp_dir: args.temp_dir.clone().or(beside),
            ..Options::default()
        },
        one_file_system: args.one_file_system,
        verify: !args.no_verify,
        overwrite: args.force,
        cancel: signal::cancel()?,
    })
}

fn summary(report: &CreateReport, output: &Path, seconds: f64, say: &Say) {
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
        "  {} frames, {} stored bytes, {} with references ({} in all), which saved {}",
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
