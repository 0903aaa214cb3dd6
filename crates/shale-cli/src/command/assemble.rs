//! What `compact`, `forget` and `merge` have in common: the copy and its report.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use serde_json::json;
use shale::read::{FrameCache, Image, Options as ReadOptions};
use shale::write::Options;
use shale::{AssembleReport, CreateOptions};

use crate::args::Copying;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{memory, sealed, signal, size, text};

/// Bytes of the frame cache that all sources share: they are read once, in order.
const CACHE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of pages that are kept of each source.
const PAGE_BYTES_MAX: u64 = 8 << 20;

/// Options that sources are opened with. They share one cache, so their number takes no memory.
pub fn reading() -> ReadOptions {
    let cache = FrameCache::new(CACHE_BYTES_MAX);
    ReadOptions::default().cache(cache).page_cache_bytes_max(PAGE_BYTES_MAX)
}

/// Translates the options. The new image gets as much parity as the best protected source has,
/// unless `--parity` says otherwise.
///
/// # Errors
/// The output is standard output.
pub fn options(
    sources: &[(&Path, &Arc<Image>)],
    output: &Path,
    args: &Copying,
    say: &Say,
) -> anyhow::Result<CreateOptions> {
    if output.as_os_str() == "-" {
        bail!(Misuse("this command reads its output back; name a file for it".to_owned()));
    }
    let mut parity = args.target.parity.unwrap_or(0);
    for (path, image) in sources {
        if args.target.parity.is_none()
            && let Some(facts) = shale::parity_facts(image)?
        {
            parity = parity.max(facts.parts_per_million);
        }
        if super::sign::is_signed(path, image)? {
            say.warn(format!(
                "{}: its signature is not about the new image; sign that",
                text::path(path)
            ));
        }
    }
    let beside = output.parent().map(|parent| match parent == Path::new("") {
        true => Path::new(".").to_owned(),
        false => parent.to_owned(),
    });
    let build = Options {
        threads: args.threads,
        memory_bytes_there: memory::memory().unwrap_or(0),
        temp_dir: beside.filter(|parent| parent.is_dir()),
        ..Options::default()
    };
    let mut options = CreateOptions::default()
        .build(build)
        .verify(!args.no_verify)
        .parity_ppm(parity)
        .pad(args.target.pad)
        .overwrite(args.target.force)
        .cancel(signal::cancel()?);
    sealed::enclose(&args.target, &mut options)?;
    Ok(options)
}

/// Prints what was done, and returns the exit code.
///
/// # Errors
/// Standard output cannot be written.
pub fn show(
    report: &AssembleReport,
    output: &Path,
    took: Duration,
    say: &Say,
) -> anyhow::Result<Exit> {
    show_as(report, "", output, took, say)
}

/// As [`show`]. `what` is said of how the image was made, if it is not empty.
///
/// # Errors
/// Standard output cannot be written.
pub fn show_as(
    report: &AssembleReport,
    what: &str,
    output: &Path,
    took: Duration,
    say: &Say,
) -> anyhow::Result<Exit> {
    let build = &report.build;
    for warning in &build.warnings {
        say.warn(warning);
    }
    if say.json {
        say.value(&json!({
            "identity": build.identity.to_string(),
            "source_bytes": report.source_bytes,
            "image_bytes": build.image_bytes,
            "snapshots": report.snapshots,
            "frames": build.frames,
            "copied_bytes": build.stored_bytes,
            "dropped_frames": report.dropped_frames,
            "contents": build.contents,
            "equal_contents": report.equal_contents,
            "compared_contents": report.compared_contents,
            "parity": report.parity.as_ref().map(super::parity::as_json),
            "verified": report.verified.is_some(),
            "seconds": took.as_secs_f64(),
            "warnings": build.warnings,
        }))?;
    } else {
        let snapshots = match report.snapshots {
            1 => "1 snapshot".to_owned(),
            count => format!("{} snapshots", size::count(count as u64)),
        };
        say.line(format!(
            "{}: {}{snapshots}, {} -> {}, {:.1} s{}",
            text::path(output),
            if what.is_empty() { String::new() } else { format!("{what}, ") },
            size::show(report.source_bytes),
            size::show(build.image_bytes),
            took.as_secs_f64(),
            if report.verified.is_some() { ", verified" } else { ", not verified" },
        ));
        say.line(format!("  identity {}", build.identity));
        if let Some(parity) = &report.parity {
            say.line(format!("  {}", super::parity::summary(parity)));
        }
        say.detail(format!(
            "  copied {} frames ({}), left {} behind; {} contents, {} of them in several images",
            size::count(build.frames),
            size::show(build.stored_bytes),
            size::count(report.dropped_frames),
            size::count(build.contents),
            size::count(report.equal_contents),
        ));
        if let Some(verified) = &report.verified {
            say.detail(format!(
                "  compared with the sources: {} frames as they are stored, {} entries",
                size::count(build.frames),
                size::count(verified.entries),
            ));
        }
    }
    Ok(if build.warnings.is_empty() { Exit::Done } else { Exit::Partial })
}
