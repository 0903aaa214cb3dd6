//! `shale check`.

use std::path::Path;
use std::time::Instant;

use anyhow::bail;
use serde_json::{Map, Value, json};
use shale::{
    Advice, Cancel, CheckLevel, CheckOptions, CheckProblem, CheckReport, ParityState, Remedy,
};

use crate::args::{Check, LevelChoice};
use crate::bar::Bar;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{open, sealed, signal, size, text};

/// Checks images and prints all problems.
///
/// # Errors
/// A check could not be done; the other images are checked all the same.
pub fn run(args: &Check, say: &Say) -> anyhow::Result<Exit> {
    if args.expect.is_some() && args.images.len() > 1 {
        bail!(Misuse("--expect is for one image".to_owned()));
    }
    let cancel = signal::cancel()?;
    let (mut all, mut exit) = (Vec::new(), Exit::Done);
    for image in &args.images {
        match one(args, image, &cancel, &mut all, say) {
            Ok(Exit::Done) => {}
            Ok(other) => exit = other,
            Err(error) if args.images.len() == 1 || cancel.check().is_err() => return Err(error),
            Err(error) => {
                let failed = say.failure(&error);
                exit = if exit == Exit::Damaged { exit } else { failed };
            }
        }
    }
    if say.json {
        match &all[..] {
            [one] if args.images.len() == 1 => say.value(one)?,
            _ => say.value(&all)?,
        }
    }
    Ok(exit)
}

/// Checks one image; with `--json`, adds the report to `all`.
fn one(
    args: &Check,
    image: &Path,
    cancel: &Cancel,
    all: &mut Vec<Value>,
    say: &Say,
) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let source = match open::source(image, say) {
        // Damage of the encryption is damage of the image, which is not even opened.
        Err(error) if sealed::is_damage(&error) => {
            say.warn(format!("{error:#}"));
            let mut value = Map::new();
            text::put_name(&mut value, "path", text::bytes(image.as_os_str()));
            value.insert("clean".to_owned(), false.into());
            value.insert("error".to_owned(), format!("{error:#}").into());
            all.push(value.into());
            return Ok(Exit::Damaged);
        }
        source => source?,
    };
    let level = match args.level {
        _ if args.no_decode => CheckLevel::Frames,
        LevelChoice::Structure => CheckLevel::Structure,
        LevelChoice::Tables => CheckLevel::Tables,
        LevelChoice::Frames => CheckLevel::Frames,
        LevelChoice::Content => CheckLevel::Content,
    };
    let options = CheckOptions::default()
        .offset(open::offset(args.offset))
        .threads(args.threads)
        .level(level)
        .subset(args.subset.unwrap_or(shale::Subset::ALL))
        .time_max(args.time)
        .expect(args.expect)
        .cancel(cancel.clone());
    let bar = Bar::new(say);
    let report = shale::check(source, &options, &bar);
    drop(bar);
    let report = report.map_err(|error| open::named(image, error.into()))?;
    let seconds = start.elapsed().as_secs_f64();
    if say.json {
        let mut value = as_json(&report, Some(seconds));
        let next: Vec<Value> = report
            .advice()
            .iter()
            .map(|advice| {
                let command = command(*advice, image, report.offset);
                json!({ "what": what_next(*advice), "command": command })
            })
            .collect();
        value["next"] = next.into();
        value["subset"] = args.subset.map(|subset| subset.to_string()).into();
        text::put_name(
            value.as_object_mut().unwrap_or(&mut Map::new()),
            "path",
            text::bytes(image.as_os_str()),
        );
        all.push(value);
    } else {
        print(&report, args, image, seconds, say);
    }
    Ok(if report.is_clean() { Exit::Done } else { Exit::Damaged })
}

/// Prints each problem with the files it affects and whether it can be repaired, then each damaged
/// file.
pub fn problems(report: &CheckReport, name: &str, say: &Say) {
    for problem in &report.problems {
        let mut line = format!("{name}: {problem}");
        if let Some(touched) = touched(problem) {
            line += &format!("; affects {touched}");
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

/// Formats ` in snapshots a, b`. A snapshot without a name is left out.
fn in_snapshots(names: &[Vec<u8>]) -> String {
    let names: Vec<String> =
        names.iter().filter(|name| !name.is_empty()).map(|name| text::escape(name)).collect();
    match names.len() {
        0 => String::new(),
        1 => format!(" in snapshot {}", names[0]),
        _ => format!(" in snapshots {}", names.join(", ")),
    }
}

/// Describes the affected files, with the names of the first ones.
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
        Remedy::Parity => Some("parity can repair it"),
        Remedy::BeyondParity => Some("the damage is more than parity can repair"),
        Remedy::NoParity => Some("there is no parity to repair it"),
        Remedy::AsWritten => {
            Some("the parity was made from the same bytes, so it cannot repair it")
        }
        Remedy::OtherImage => Some("the image itself shows no damage"),
    }
}

/// Describes what to do.
fn what_next(advice: Advice) -> &'static str {
    match advice {
        Advice::GetExpectedImage => "get the expected image",
        Advice::Repair => "repair it from its parity, into a new file",
        Advice::GetAnotherCopy => "get another copy, and compare it with --expect",
        Advice::Salvage => "salvage the readable parts, into a new file",
        Advice::ExtractContinue => {
            "extract the undamaged data; lost parts of files become holes and are reported"
        }
    }
}

/// The command for an advice, if there is one. It names the offset of the image, as a damaged
/// superblock cannot be found after other data.
fn command(advice: Advice, image: &Path, offset: u64) -> Option<String> {
    let mut image = text::quoted(image);
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

fn print(report: &CheckReport, args: &Check, image: &Path, seconds: f64, say: &Say) {
    let name = text::path(image);
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
            "{name}: {} bytes of other data follow the image, so opening it searches for its end",
            report.bytes_behind
        ));
    }
    let part = args.subset.map_or_else(String::new, |subset| format!(" in part {subset}"));
    let left = match report.is_complete() {
        true => String::new(),
        false => format!(
            "; the time ran out, {} frames, {} leaves and {} sections were not checked",
            size::count(report.left.frames),
            size::count(report.left.leaves),
            size::count(report.left.sections)
        ),
    };
    if report.is_clean() {
        if let Some(identity) = report.identity {
            say.detail(format!("identity {identity}"));
        }
        say.line(format!("{name}: no damage found{part}; {}{left}", done(report, seconds)));
        return;
    }
    say.warn(format!(
        "{name}: {} problems{part}, {} damaged frames, {} damaged files{left}",
        report.problem_count, report.damaged_frame_count, report.damaged_path_count
    ));
    if let ParityState::Found { damaged_leaves, damaged_bodies, lost_leaves } = report.parity {
        let can = match lost_leaves {
            0 => "parity can repair all of them".to_owned(),
            lost => format!("parity cannot repair {lost} of them"),
        };
        say.warn(format!(
            "{name}: {damaged_leaves} leaves of 64 KiB and {damaged_bodies} parity bodies are \
             damaged; {can}"
        ));
    }
    for (index, advice) in report.advice().into_iter().enumerate() {
        let command =
            command(advice, image, report.offset).map_or_else(String::new, |c| format!(": {c}"));
        let word = if index == 0 { "next" } else { "else" };
        say.warn(format!("{word}: {}{command}", what_next(advice)));
    }
}

/// Describes what was checked and how fast.
fn done(report: &CheckReport, seconds: f64) -> String {
    let checked = &report.checked;
    let per_second = |bytes: u64| size::show((bytes as f64 / seconds.max(0.001)) as u64);
    match report.level {
        CheckLevel::Structure => format!("{} sections in {seconds:.2} s", checked.sections),
        CheckLevel::Tables => format!(
            "{} rows of metadata in {seconds:.2} s; contents were not checked",
            size::count(checked.rows)
        ),
        CheckLevel::Frames => {
            let bytes = checked.stored_bytes;
            format!(
                "{} of stored data in {seconds:.2} s, {}/s",
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

/// Converts a report to JSON.
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
