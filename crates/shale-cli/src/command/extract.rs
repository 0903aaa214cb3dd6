//! `shale extract`.

mod preview; // --list and --dry-run

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::json;
use shale::read::{Options, Tree};
use shale::{
    ErrorKind, ExportFormat, ExportOptions, ExtractOptions, Output, Overwrite, Owner, Patterns,
    Sparse,
};

use crate::args::{Extract, OverwriteChoice, SparseChoice};
use crate::bar::Bar;
use crate::exit::{Exit, Left, Misuse};
use crate::report::Say;
use crate::{open, signal, size, text};

/// Extracts an image or parts of it.
///
/// # Errors
/// The command line is not valid, or the extraction failed.
pub fn run(args: &Extract, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let mut options = Options::default();
    if let Some(cache) = args.cache {
        options.cache_bytes_max = cache;
    }
    let tree = open::tree(&args.image, options, say)?;
    let patterns: Vec<&[u8]> = args.patterns.iter().map(|p| text::bytes(p)).collect();
    let mut patterns = shale::patterns_in_tree(&patterns, &tree).map_err(Misuse::of)?;
    let excluded: Vec<&[u8]> = args.exclude.iter().map(|p| text::bytes(p)).collect();
    patterns.exclude(&excluded).map_err(Misuse::of)?;
    if args.to_stdout {
        return to_stdout(args, &tree, patterns, say);
    }
    if args.list {
        return preview::list(&tree, &patterns, say);
    }
    let directory = args.directory.as_deref().unwrap_or(Path::new("."));
    if args.dry_run {
        return preview::dry_run(&tree, &patterns, directory, args, say);
    }
    let options = ExtractOptions::default()
        .patterns(patterns)
        .threads(args.threads)
        .overwrite(match args.overwrite {
            None => Overwrite::Refuse,
            Some(OverwriteChoice::Never) => Overwrite::Never,
            Some(OverwriteChoice::Older) => Overwrite::Older,
            Some(OverwriteChoice::Always) => Overwrite::Always,
        })
        .owner(match (args.same_owner, args.no_same_owner) {
            (true, _) => Owner::Stored,
            (_, true) => Owner::Own,
            _ => Owner::Auto,
        })
        .xattrs(!args.no_xattrs)
        .devices(!args.no_devices)
        .sparse(match args.sparse {
            None | Some(SparseChoice::Stored) => Sparse::Stored,
            Some(SparseChoice::Always) => Sparse::Zeroes,
            Some(SparseChoice::Never) => Sparse::Never,
        })
        .strip_components(args.strip_components)
        .keep_going(args.keep_going)
        .cancel(signal::cancel()?);
    let bar = Bar::new(say);
    let report = shale::extract(&tree, directory, &options, &bar);
    let complete = bar.items_done();
    drop(bar);
    let report = report.map_err(|error| failed(error, args, directory, complete, say))?;
    preview::warn_unmatched(&options.patterns, say);
    for problem in &report.problems {
        say.warn(format!("{}: {}", text::entry(&problem.path), problem.kind));
    }
    let unsaid = report.problem_count - report.problems.len() as u64;
    if unsaid > 0 {
        say.warn(format!("and {unsaid} more problems"));
    }
    if report.xattrs_left_out > 0 || report.set_id_left_out > 0 {
        say.line(format!(
            "not running as root: skipped {} privileged extended attributes, and the setuid and \
             setgid bits of {} files",
            report.xattrs_left_out, report.set_id_left_out
        ));
    }
    if report.stripped > 0 {
        say.line(format!(
            "--strip-components left out {} files with shorter paths",
            report.stripped
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
            "stripped": report.stripped,
            "xattrs_left_out": report.xattrs_left_out,
            "set_id_left_out": report.set_id_left_out,
            "problem_count": report.problem_count,
            "problems": text::path_messages(
                report.problems.iter().map(|problem| (&problem.path[..], problem.kind.to_string())),
            ),
            "seconds": seconds,
        }))?;
    } else {
        say.line(format!(
            "{}: {} files, {} directories, {} symlinks, {} hard links, {} special files, {}, \
             {seconds:.1} s",
            text::path(directory),
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

/// Adds to an error which files an unfinished extraction left.
fn failed(
    error: shale::ExtractError,
    args: &Extract,
    directory: &Path,
    complete: u64,
    say: &Say,
) -> anyhow::Error {
    let place = text::path(directory);
    let files = match complete {
        1 => "1 complete file is".to_owned(),
        count => format!("{} complete files are", size::count(count)),
    };
    if error.kind() == ErrorKind::Cancelled {
        let left = format!(
            "{files} in {place}; incomplete files were removed, and directories may lack their \
             permissions and times"
        );
        return anyhow::Error::from(error).context(Left(left));
    }
    if complete > 0 {
        say.warn(format!("{files} in {place}"));
    }
    anyhow::Error::from(error).context(format!("extracting {}", text::path(&args.image.image)))
}

/// Writes the contents of files to standard output, one after the other.
fn to_stdout(args: &Extract, tree: &Tree, patterns: Patterns, say: &Say) -> anyhow::Result<Exit> {
    if say.json {
        bail!(Misuse("--json and the contents cannot both go to standard output".to_owned()));
    }
    let options = ExportOptions::default()
        .format(ExportFormat::Contents)
        .patterns(patterns)
        .threads(args.threads)
        .cancel(signal::cancel()?);
    let out = std::io::stdout().as_fd().try_clone_to_owned();
    let mut out = File::from(out.context("cannot use standard output")?);
    let bar = Bar::new(say);
    let result = shale::export(tree, Output::Stream(&mut out), &options, &bar);
    drop(bar);
    result.with_context(|| format!("extracting {}", text::path(&args.image.image)))?;
    Ok(Exit::Done)
}
