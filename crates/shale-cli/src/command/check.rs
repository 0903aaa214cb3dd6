//! `shale check`.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use serde_json::{Map, Value, json};
use shale::{Advice, CheckLevel, CheckOptions, CheckProblem, CheckReport, ParityState, Remedy};

use crate::args::{Check, LevelChoice};
use crate::bar::Bar;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, signal, size, text};

/// Checks an image and tells everything that is wrong.
pub fn run(args: &Check, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let source = open::source(&args.image)?;
    let level = match args.level {
        _ if args.no_decode => CheckLevel::Frames,
        LevelChoice::Structure => CheckLevel::Structure,
        LevelChoice::Tables => CheckLevel::Tables,
        LevelChoice::Frames => CheckLevel::Frames,
        LevelChoice::Content => CheckLevel::Content,
    };
    let options = CheckOptions {
        offset: open::offset(args.offset),
        threads: args.threads,
        level,
        subset: args.subset.unwrap_or(shale::Subset::ALL),
        time_max: args.time,
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
        let mut value = as_json(&report, Some(seconds));
        let next: Vec<Value> = report
            .advice()
            .iter()
            .map(|advice| {
                let command = command(*advice, args, report.offset);
                json!({ "what": what_next(*advice), "command": command })
            })
            .collect();
        value["next"] = next.into();
        value["subset"] = args.subset.map(|subset| subset.to_string()).into();
        say.value(&value)?;
    } else {
        people(&report, args, seconds, say);
    }
    Ok(if report.is_clean() { Exit::Done } else { Exit::Damaged })
}

/// Names every problem with what it touches and whether it can be repaired, and every file whose
/// bytes are hit.
pub fn problems(report: &CheckReport, name: &str, say: &Say) {
    for problem in &report.problems {
        let mut line = format!("{name}: {problem}");
        if let Some(touched) = touched(problem) {
            line += &format!("; touches {touched}");
        }
        if let Some(remedy) = remedy(problem.remedy) {
            line += &format!("; {remedy}");
        }
        say.warn(line);
    }
    let unsaid = report.problem_count - report.problems.len() as u64;
    if unsaid > 0 {
        say.warn(format!("{name}: and {unsaid} more problems"));
    }
    for path in &report.damaged_paths {
        say.warn(format!(
            "{name}: damaged file: {} ({}){}",
            text::escape(&path.path),
            match path.damaged_bytes {
                1 => format!("1 byte, at {}", path.first_offset),
                bytes => format!("{bytes} bytes, first at {}", path.first_offset),
            },
            in_snapshots(std::slice::from_ref(&path.snapshot)),
        ));
    }
    let unsaid = report.damaged_path_count - report.damaged_paths.len() as u64;
    if unsaid > 0 {
        say.warn(format!("{name}: and {unsaid} more damaged files"));
    }
}

/// ` in snapshot a, b`; nothing for the one without a name.
fn in_snapshots(names: &[Vec<u8>]) -> String {
    let names: Vec<String> =
        names.iter().filter(|name| !name.is_empty()).map(|name| text::escape(name)).collect();
    match names.len() {
        0 => String::new(),
        1 => format!(" in snapshot {}", names[0]),
        _ => format!(" in snapshots {}", names.join(", ")),
    }
}

/// The files in words; the names of the first few.
fn touched(problem: &CheckProblem) -> Option<String> {
    const NAMED: usize = 3;
    let touches = &problem.touches;
    let snapshots = in_snapshots(&touches.snapshots);
    if touches.everything {
        return Some(format!("everything{snapshots}"));
    }
    let count = touches.path_count;
    let named: Vec<String> =
        touches.paths.iter().take(NAMED).map(|path| text::entry(path)).collect();
    let more = match count.saturating_sub(named.len() as u64) {
        0 => String::new(),
        more => format!(" and {} more", size::count(more)),
    };
    (count > 0).then(|| format!("{}{more}{snapshots}", named.join(", ")))
}

fn remedy(remedy: Remedy) -> Option<&'static str> {
    match remedy {
        Remedy::NotSought => None,
        Remedy::Parity => Some("parity restores it"),
        Remedy::BeyondParity => Some("more is damaged than parity can restore"),
        Remedy::NoParity => Some("there is no parity to restore it"),
        Remedy::AsWritten => Some("it was so when the parity was made"),
        Remedy::OtherImage => Some("nothing is damaged as far as this tells"),
    }
}

/// What to do, in words.
fn what_next(advice: Advice) -> &'static str {
    match advice {
        Advice::GetExpectedImage => "get the image that you expected",
        Advice::Repair => "restore it from its parity, into a new file",
        Advice::GetAnotherCopy => "get another copy, if there is one; --expect compares it",
        Advice::Salvage => "save what leads to the rest, into a new file",
        Advice::ExtractContinue => {
            "bring out what is whole; lost parts of files become holes, and each is named"
        }
    }
}

/// The command that does it, if there is one. A damaged beginning is not found behind other data,
/// so that the offset is said.
fn command(advice: Advice, args: &Check, offset: u64) -> Option<String> {
    let mut image = quoted(&args.image);
    if offset > 0 {
        image = format!("--offset {offset} {image}");
    }
    match advice {
        Advice::GetExpectedImage | Advice::GetAnotherCopy => None,
        Advice::Repair => Some(format!("shale repair {image} -o NEW")),
        Advice::Salvage => Some(format!("shale repair --salvage {image} -o NEW")),
        Advice::ExtractContinue => Some(format!("shale extract --continue {image} -C DIR")),
    }
}

/// The path as a shell takes it, and no option.
fn quoted(path: &Path) -> String {
    let mut name = text::path(path);
    if name.starts_with('-') {
        name.insert_str(0, "./");
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(&byte);
    if name.bytes().all(is_plain) {
        return name;
    }
    // Where a byte had to be escaped the shell has to take the escape back.
    match name.contains('\\') {
        true => format!("$'{}'", name.replace('\'', "\\'")),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

fn people(report: &CheckReport, args: &Check, seconds: f64, say: &Say) {
    let name = text::path(&args.image);
    problems(report, &name, say);
    let checked = &report.checked;
    say.detail(format!(
        "{} sections, {} pages, {} rows, {} entries, {} inodes, {} leaves, {} frames, {} stored \
         bytes",
        checked.sections,
        checked.pages,
        checked.rows,
        checked.entries,
        checked.inodes,
        checked.leaves,
        checked.frames,
        checked.stored_bytes
    ));
    if report.bytes_behind > 0 {
        say.line(format!(
            "{name}: {} bytes follow the image in its file; whatever opens it looks for its end \
             first",
            report.bytes_behind
        ));
    }
    let part = args.subset.map_or_else(String::new, |subset| format!(" in part {subset}"));
    let left = match report.is_complete() {
        true => String::new(),
        false => format!(
            "; the time was over before {} frames, {} leaves and {} sections",
            size::count(report.left.frames),
            size::count(report.left.leaves),
            size::count(report.left.sections)
        ),
    };
    if report.is_clean() {
        if let Some(identity) = report.identity {
            say.detail(format!("identity {identity}"));
        }
        say.line(format!("{name}: no problem{part}; {}{left}", done(report, seconds)));
        return;
    }
    say.warn(format!(
        "{name}: {} problems{part}, {} damaged frames, {} damaged files{left}",
        report.problem_count, report.damaged_frame_count, report.damaged_path_count
    ));
    if let ParityState::Found { damaged_leaves, damaged_bodies, lost_leaves } = report.parity {
        let can = match lost_leaves {
            0 => "parity restores all of them".to_owned(),
            lost => format!("{lost} of them are more than parity can restore"),
        };
        say.warn(format!(
            "{name}: {damaged_leaves} leaves of 64 KiB and {damaged_bodies} bodies of parity are \
             damaged; {can}"
        ));
    }
    for (index, advice) in report.advice().into_iter().enumerate() {
        let command =
            command(advice, args, report.offset).map_or_else(String::new, |c| format!(": {c}"));
        let word = if index == 0 { "next" } else { "else" };
        say.warn(format!("{word}: {}{command}", what_next(advice)));
    }
}

/// What was done in how many seconds, by level.
fn done(report: &CheckReport, seconds: f64) -> String {
    let checked = &report.checked;
    let per_second = |bytes: u64| size::show((bytes as f64 / seconds.max(0.001)) as u64);
    match report.level {
        CheckLevel::Structure => format!("{} sections in {seconds:.2} s", checked.sections),
        CheckLevel::Tables => format!(
            "{} rows of metadata in {seconds:.2} s; bytes and frames were not looked at",
            size::count(checked.rows)
        ),
        CheckLevel::Frames => {
            let bytes = checked.stored_bytes;
            format!(
                "{} of frames compared in {seconds:.2} s, {}/s",
                size::show(bytes),
                per_second(bytes)
            )
        }
        CheckLevel::Content => {
            let bytes = checked.plain_bytes;
            format!("{} decoded in {seconds:.2} s, {}/s", size::show(bytes), per_second(bytes))
        }
    }
}

fn problem_as_json(problem: &CheckProblem) -> Value {
    let touches = &problem.touches;
    let names = |names: &[Vec<u8>], key: &str| -> Vec<Value> {
        names
            .iter()
            .map(|name| {
                let mut object = Map::new();
                text::put_name(&mut object, key, name);
                Value::Object(object)
            })
            .collect()
    };
    json!({
        "place": problem.place,
        "offset": problem.offset,
        "len": problem.len,
        "what": problem.what,
        "remedy": problem.remedy.name(),
        "repairable": problem.remedy == Remedy::Parity,
        "touches": {
            "everything": touches.everything,
            "path_count": touches.path_count,
            "paths": names(&touches.paths, "path"),
            "snapshots": names(&touches.snapshots, "snapshot"),
        },
    })
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
    let parity = match report.parity {
        ParityState::NotSought => json!({ "state": "not sought" }),
        ParityState::None => json!({ "state": "none" }),
        ParityState::Found { damaged_leaves, damaged_bodies, lost_leaves } => json!({
            "state": "found",
            "damaged_leaves": damaged_leaves,
            "damaged_bodies": damaged_bodies,
            "lost_leaves": lost_leaves,
        }),
    };
    json!({
        "clean": report.is_clean(),
        "complete": report.is_complete(),
        "level": report.level.name(),
        "offset": report.offset,
        "image_len": report.image_len,
        "identity": report.identity.map(|identity| identity.to_string()),
        "bytes_behind": report.bytes_behind,
        "checked": report.checked,
        "left": report.left,
        "problem_count": report.problem_count,
        "problems": report.problems.iter().map(problem_as_json).collect::<Vec<_>>(),
        "damaged_frame_count": report.damaged_frame_count,
        "parity": parity,
        "damaged_path_count": report.damaged_path_count,
        "damaged_paths": paths,
        "seconds": seconds,
    })
}
