//! `shale extract`.

use std::time::Instant;

use anyhow::Context;
use serde_json::{Map, Value, json};
use shale::read::Options;
use shale::{ExtractOptions, Overwrite, Owner, Patterns};

use crate::args::{Extract, OverwriteChoice};
use crate::bar::Bar;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, signal, size, text};

/// Extracts an image or parts of it.
pub fn run(args: &Extract, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let mut options = Options::default();
    if let Some(cache) = args.cache {
        options.cache_bytes_max = cache;
    }
    let tree = open::tree(&args.image, options, say)?;
    let patterns: Vec<&[u8]> = args.patterns.iter().map(|p| text::bytes(p)).collect();
    let options = ExtractOptions {
        patterns: Patterns::new(&patterns)?,
        threads: args.threads,
        overwrite: match args.overwrite {
            None => Overwrite::Refuse,
            Some(OverwriteChoice::Never) => Overwrite::Never,
            Some(OverwriteChoice::Older) => Overwrite::Older,
            Some(OverwriteChoice::Always) => Overwrite::Always,
        },
        owner: match (args.same_owner, args.no_same_owner) {
            (true, _) => Owner::Stored,
            (_, true) => Owner::Own,
            _ => Owner::Auto,
        },
        xattrs: !args.no_xattrs,
        devices: !args.no_devices,
        keep_going: args.keep_going,
        cancel: signal::cancel()?,
    };
    let bar = Bar::new(say);
    let report = shale::extract(&tree, &args.directory, &options, &bar);
    drop(bar);
    let report = report.with_context(|| format!("extracting {}", text::path(&args.image.image)))?;
    for problem in &report.problems {
        say.warn(format!("{}: {}", text::escape(&problem.path), problem.kind));
    }
    let unsaid = report.problem_count - report.problems.len() as u64;
    if unsaid > 0 {
        say.warn(format!("and {unsaid} more problems"));
    }
    if report.xattrs_left_out > 0 || report.set_id_left_out > 0 {
        say.line(format!(
            "not root: left out {} privileged xattrs and setuid or setgid of {} files",
            report.xattrs_left_out, report.set_id_left_out
        ));
    }
    let seconds = start.elapsed().as_secs_f64();
    if say.json {
        say.value(&json!({
            "directories": report.directories,
            "files": report.files,
            "file_bytes": report.file_bytes,
            "written_bytes": report.written_bytes,
            "symlinks": report.symlinks,
            "hard_links": report.hard_links,
            "specials": report.specials,
            "kept": report.kept,
            "xattrs_left_out": report.xattrs_left_out,
            "set_id_left_out": report.set_id_left_out,
            "problem_count": report.problem_count,
            "problems": report.problems.iter().map(|problem| {
                let mut object = Map::new();
                text::put_name(&mut object, "path", &problem.path);
                object.insert("what".to_owned(), problem.kind.to_string().into());
                Value::Object(object)
            }).collect::<Vec<_>>(),
            "seconds": seconds,
        }))?;
    } else {
        say.line(format!(
            "{}: {} files, {} directories, {} symlinks, {} hard links, {} devices and others, {}, \
             {seconds:.1} s",
            text::path(&args.directory),
            report.files,
            report.directories,
            report.symlinks,
            report.hard_links,
            report.specials,
            size::show(report.file_bytes)
        ));
    }
    Ok(if report.problem_count == 0 { Exit::Done } else { Exit::Partial })
}
