//! `shale extract --list` and `--dry-run`: what an extraction would do, without doing it.

use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::bail;
use serde_json::{Value, json};
use shale::Patterns;
use shale::read::{InodeKind, Timestamp, Tree};

use crate::args::{Extract, OverwriteChoice};
use crate::attributes::{as_json, with_target};
use crate::command::select;
use crate::exit::Exit;
use crate::report::Say;
use crate::{size, text};

/// Lists the selected paths; names of directories end in a slash.
///
/// # Errors
/// No pattern matches, or the image cannot be read.
pub fn list(tree: &Tree, patterns: &Patterns, say: &Say) -> anyhow::Result<Exit> {
    let raw = !say.escapes_names();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut count = 0u64;
    let mut all = Vec::new();
    select::each_selected(tree, patterns, |path, attributes, _| {
        if path.is_empty() {
            return Ok(());
        }
        count += 1;
        if say.json {
            let mut object = as_json(attributes);
            text::put_name(&mut object, "path", path);
            all.push(Value::Object(object));
            return Ok(());
        }
        out.write_all(&with_target(path, None, raw))?;
        let is_directory = attributes.kind == InodeKind::Directory;
        out.write_all(if is_directory { b"/\n" } else { b"\n" })?;
        Ok(())
    })?;
    out.flush()?;
    drop(out);
    let unmatched = select::unmatched(patterns, count)?;
    if say.json {
        say.value(&all)?;
    }
    finish(patterns, &unmatched, say)
}

/// Counts what would be extracted and finds existing files.
///
/// # Errors
/// No pattern matches, files exist that the options do not allow to replace, or the image cannot
/// be read.
pub fn dry_run(
    tree: &Tree,
    patterns: &Patterns,
    directory: &Path,
    args: &Extract,
    say: &Say,
) -> anyhow::Result<Exit> {
    let (mut files, mut directories, mut others, mut bytes) = (0u64, 0u64, 0u64, 0u64);
    let (mut existing, mut kept) = (0u64, 0u64);
    let mut first = None;
    select::each_selected(tree, patterns, |path, attributes, _| {
        let Some(path) = stripped(path, args.strip_components) else { return Ok(()) };
        match attributes.kind {
            InodeKind::Directory => {
                directories += 1;
                return Ok(());
            }
            InodeKind::File => {
                files += 1;
                bytes += attributes.size;
            }
            _ => others += 1,
        }
        let target = directory.join(std::ffi::OsStr::from_bytes(path));
        let Ok(found) = target.symlink_metadata() else { return Ok(()) };
        existing += 1;
        first.get_or_insert_with(|| path.to_vec());
        kept += u64::from(match args.overwrite {
            None | Some(OverwriteChoice::Always) => false,
            Some(OverwriteChoice::Never) => true,
            Some(OverwriteChoice::Older) => !is_older(&found, attributes.mtime),
        });
        Ok(())
    })?;
    let unmatched = select::unmatched(patterns, files + directories + others)?;
    if say.json {
        say.value(&json!({
            "dry_run": true,
            "files": files,
            "file_bytes": bytes,
            "directories": directories,
            "other": others,
            "existing": existing,
            "kept": kept,
        }))?;
    } else {
        say.raw(
            format!(
                "would extract into {}: {} files of {}, {} directories, {} other entries\n",
                text::path(directory),
                size::count(files),
                size::show(bytes),
                size::count(directories),
                size::count(others)
            )
            .as_bytes(),
        )?;
        if let (Some(_), true) = (args.overwrite, existing > 0) {
            let replaced = existing - kept;
            say.raw(format!("would replace {replaced} files and keep {kept}\n").as_bytes())?;
        }
    }
    if let (None, Some(first)) = (args.overwrite, first) {
        bail!(
            "{existing} files exist already in {}, first: {}; nothing would be extracted; use an \
             empty directory, or --overwrite never, older or always",
            text::path(directory),
            text::escape(&first)
        );
    }
    finish(patterns, &unmatched, say)
}

/// Warns of patterns without a match.
fn finish(patterns: &Patterns, unmatched: &[Vec<u8>], say: &Say) -> anyhow::Result<Exit> {
    warn_unmatched(patterns, say);
    for pattern in unmatched {
        say.warn(format!("{}: nothing in the image matches", text::escape(pattern)));
    }
    Ok(if unmatched.is_empty() { Exit::Done } else { Exit::Partial })
}

/// The path without its leading components, if any components are left.
fn stripped(path: &[u8], count: usize) -> Option<&[u8]> {
    let mut rest = path;
    for _ in 0..count {
        let slash = rest.iter().position(|&byte| byte == b'/')?;
        rest = &rest[slash + 1..];
    }
    (!rest.is_empty()).then_some(rest)
}

fn is_older(found: &std::fs::Metadata, stored: Timestamp) -> bool {
    use std::os::unix::fs::MetadataExt;
    (found.mtime(), found.mtime_nsec()) < (stored.sec, i64::from(stored.nsec))
}

/// Warns of exclusions without effect.
pub(super) fn warn_unmatched(patterns: &Patterns, say: &Say) {
    for pattern in patterns.unmatched_exclusions() {
        say.warn(format!("--exclude {} matched nothing", text::escape(pattern)));
    }
}
