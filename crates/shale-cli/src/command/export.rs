//! `shale export`.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::json;
use shale::read::Options;
use shale::{ExportFormat, ExportOptions, Output, PatientOutput, StreamFormat};

use crate::args::{CompressChoice, Export, FormatChoice};
use crate::bar::Bar;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{open, signal, size, text};

/// Converts an image to an archive.
///
/// # Errors
/// The command line is not valid, or no archive was written.
pub fn run(args: &Export, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout && say.json {
        bail!(Misuse("--json and the archive cannot both go to standard output".to_owned()));
    }
    if to_stdout && std::io::stdout().is_terminal() {
        let what =
            "refusing to write an archive to a terminal; redirect standard output or name a file";
        bail!(Misuse(what.to_owned()));
    }
    if args.format == Some(FormatChoice::Oci) {
        return super::export_oci::run(args, say);
    }
    let (format, compression) = format(args)?;
    let mut options = Options::default();
    if let Some(cache) = args.cache {
        options.cache_bytes_max = cache;
    }
    let tree = open::tree(&args.image, options, say)?;
    let patterns: Vec<&[u8]> = args.patterns.iter().map(|p| text::bytes(p)).collect();
    let options = ExportOptions::default()
        .format(format)
        .compression(compression)
        .compression_level(args.level)
        .block_len(args.block_size.map(|len| u32::try_from(len).unwrap_or(u32::MAX)))
        .overwrite(args.force)
        .patterns(shale::patterns_in_tree(&patterns, &tree).map_err(Misuse::of)?)
        .threads(args.threads)
        .cancel(signal::cancel()?);
    let bar = Bar::new(say);
    let report = if to_stdout {
        let out = std::io::stdout().as_fd().try_clone_to_owned();
        let out = File::from(out.context("cannot use standard output")?);
        let mut out = PatientOutput::new(move || Ok(out), &options.cancel)?;
        shale::export(&tree, Output::Stream(&mut out), &options, &bar)
    } else {
        shale::export(&tree, Output::Path(args.output.clone()), &options, &bar)
    };
    drop(bar);
    let report = report.with_context(|| format!("exporting {}", text::path(&args.image.image)))?;
    say.warn_of_losses(&report.left_out, report.left_out_count);
    if report.rounded_count > 0 {
        let count = size::count(report.rounded_count);
        say.line(format!(
            "{count} timestamps were truncated, as the format has no fractions of seconds"
        ));
    }
    let seconds = start.elapsed().as_secs_f64();
    if say.json {
        say.value(&json!({
            "entries": report.entries,
            "file_bytes": report.file_bytes,
            "rounded_count": report.rounded_count,
            "left_out_count": report.left_out_count,
            "left_out": text::path_messages(
                report.left_out.iter().map(|(path, what)| (&path[..], what.clone())),
            ),
            "seconds": seconds,
        }))?;
    } else {
        say.line(format!(
            "{}: {} entries, {}, {seconds:.1} s",
            text::path(&args.output),
            size::count(report.entries),
            size::show(report.file_bytes)
        ));
    }
    Ok(if report.left_out_count == 0 { Exit::Done } else { Exit::Partial })
}

fn format(args: &Export) -> anyhow::Result<(ExportFormat, Option<StreamFormat>)> {
    let by_name = ExportFormat::of_name(text::bytes(args.output.as_os_str()));
    let format = match (args.format, by_name) {
        (Some(FormatChoice::Tar), _) => ExportFormat::Tar,
        (Some(FormatChoice::Cpio), _) => ExportFormat::Cpio,
        (Some(FormatChoice::Mtree), _) => ExportFormat::Mtree,
        (Some(FormatChoice::Zip), _) => ExportFormat::Zip,
        (Some(FormatChoice::Squashfs), _) => ExportFormat::Squashfs,
        (Some(FormatChoice::Oci), _) => bail!(Misuse("oci is a format of its own".to_owned())),
        (Some(FormatChoice::Erofs), _) => ExportFormat::Erofs,
        (Some(FormatChoice::Iso), _) => ExportFormat::Iso,
        (Some(FormatChoice::Sevenz), _) => ExportFormat::Sevenz,
        (None, Some((format, _))) => format,
        (None, None) => bail!(Misuse(format!(
            "cannot tell the format from the name {}; use --format tar, cpio, zip, 7z, squashfs, \
             erofs, iso, mtree or oci",
            text::path(&args.output)
        ))),
    };
    let compression = match args.compress {
        None => match by_name {
            Some((by_name, compression)) if by_name == format && compression.is_some() => {
                compression
            }
            _ => format.usual_compression(),
        },
        Some(CompressChoice::None) => None,
        Some(CompressChoice::Gzip) => Some(StreamFormat::Gzip),
        Some(CompressChoice::Xz) => Some(StreamFormat::Xz),
        Some(CompressChoice::Zstd) => Some(StreamFormat::Zstd),
        Some(CompressChoice::Bzip2) => Some(StreamFormat::Bzip2),
        Some(CompressChoice::Lz4) => Some(StreamFormat::Lz4),
    };
    Ok((format, compression))
}
