//! `shale check`.

use std::time::Instant;

use anyhow::Context;
use serde_json::{Map, Value, json};
use shale::{CheckOptions, CheckReport};

use crate::args::Check;
use crate::bar::Bar;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, signal, size, text};

/// Checks an image and tells everything that is wrong.
pub fn run(args: &Check, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let source = open::source(&args.image)?;
    let options = CheckOptions {
        offset: open::offset(args.offset),
        threads: args.threads,
        decode: !args.no_decode,
        expect: args.expect,
        cancel: signal::cancel()?,
        ..CheckOptions::default()
    };
    let bar = Bar::new(say);
    let report = shale::check(source, &options, &bar);
    drop(bar);
    let report = report.with_context(|| text::path(&args.image))?;
    let seconds = start.elapsed().as_secs_f64();
    if say.json {
        say.value(&as_json(&report, Some(seconds)))?;
    } else {
        people(&report, args, seconds, say);
    }
    Ok(if report.is_clean() { Exit::Done } else { Exit::Damaged })
}

/// Names every problem and every file that is hit.
pub fn problems(report: &CheckReport, name: &str, say: &Say) {
    for problem in &report.problems {
        say.warn(format!("{name}: {problem}"));
    }
    let unsaid = report.problem_count - report.problems.len() as u64;
    if unsaid > 0 {
        say.warn(format!("{name}: and {unsaid} more problems"));
    }
    for path in &report.damaged_paths {
        say.warn(format!(
            "{name}: damaged file: {} ({} bytes, first at {})",
            text::escape(&path.path),
            path.damaged_bytes,
            path.first_offset
        ));
    }
    let unsaid = report.damaged_path_count - report.damaged_paths.len() as u64;
    if unsaid > 0 {
        say.warn(format!("{name}: and {unsaid} more damaged files"));
    }
}

fn people(report: &CheckReport, args: &Check, seconds: f64, say: &Say) {
    let name = text::path(&args.image);
    problems(report, &name, say);
    let checked = &report.checked;
    say.detail(format!(
        "{} sections, {} pages, {} rows, {} entries, {} inodes, {} frames, {} stored bytes",
        checked.sections,
        checked.pages,
        checked.rows,
        checked.entries,
        checked.inodes,
        checked.frames,
        checked.stored_bytes
    ));
    if report.bytes_behind > 0 {
        say.detail(format!("{} bytes follow the image in its file", report.bytes_behind));
    }
    let plain = checked.plain_bytes;
    if report.is_clean() {
        if let Some(identity) = report.identity {
            say.detail(format!("identity {identity}"));
        }
        say.line(format!(
            "{name}: no problem; {} decoded in {seconds:.2} s, {}/s",
            size::show(plain),
            size::show((plain as f64 / seconds.max(0.001)) as u64)
        ));
    } else {
        say.warn(format!(
            "{name}: {} problems, {} damaged frames, {} damaged files. If it has \
             parity, `shale repair {name} -o NEW` restores it; else take another copy, or save \
             what is whole with `shale repair --salvage` or `shale extract --continue`",
            report.problem_count, report.damaged_frame_count, report.damaged_path_count
        ));
    }
}

/// A report for machines.
pub fn as_json(report: &CheckReport, seconds: Option<f64>) -> Value {
    let paths: Vec<Value> = report
        .damaged_paths
        .iter()
        .map(|path| {
            let mut object = Map::new();
            text::put_name(&mut object, "snapshot", &path.snapshot);
            text::put_name(&mut object, "path", &path.path);
            object.insert("damaged_bytes".to_owned(), path.damaged_bytes.into());
            object.insert("first_offset".to_owned(), path.first_offset.into());
            Value::Object(object)
        })
        .collect();
    json!({
        "clean": report.is_clean(),
        "offset": report.offset,
        "image_len": report.image_len,
        "identity": report.identity.map(|identity| identity.to_string()),
        "bytes_behind": report.bytes_behind,
        "checked": report.checked,
        "problem_count": report.problem_count,
        "problems": report.problems,
        "damaged_frame_count": report.damaged_frame_count,
        "damaged_path_count": report.damaged_path_count,
        "damaged_paths": paths,
        "seconds": seconds,
    })
}
