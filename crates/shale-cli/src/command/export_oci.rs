//! `shale export --format oci`.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::json;
use shale::foreign::oci::OciConfig;
use shale::read::Options;
use shale::{OciOptions, OciOutput, Output, PatientOutput, StreamFormat};

use crate::args::{CompressChoice, Export};
use crate::bar::Bar;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{open, signal, size, text};

/// Writes snapshots as images of containers.
///
/// # Errors
/// The command line is not valid, or nothing was written.
pub fn run(args: &Export, say: &Say) -> anyhow::Result<Exit> {
    let start = Instant::now();
    if !args.patterns.is_empty() || args.block_size.is_some() {
        bail!(Misuse("--format oci takes whole snapshots, and has no blocks".to_owned()));
    }
    let compression = match args.compress {
        None | Some(CompressChoice::Gzip) => Some(StreamFormat::Gzip),
        Some(CompressChoice::None) => None,
        Some(CompressChoice::Zstd) => Some(StreamFormat::Zstd),
        Some(_) => bail!(Misuse("layers are compressed with gzip, zstd or none".to_owned())),
    };
    let mut read = Options::default().offset(open::offset(args.image.offset));
    if let Some(cache) = args.cache {
        read.cache_bytes_max = cache;
    }
    let image = open::image(&args.image.image, read.expect(args.image.expect), say)?;
    let what = &args.container;
    let config = OciConfig {
        platform: what.platform.clone(),
        entrypoint: what.entrypoint.clone(),
        cmd: what.cmd.clone(),
        env: what.env.clone(),
        working_dir: what.workdir.clone(),
        user: what.user.clone(),
        labels: what.image_label.clone(),
    };
    config.check().map_err(Misuse)?;
    let options = OciOptions::default()
        .config(config)
        .all_snapshots(what.all_snapshots)
        .tag(what.tag.clone())
        .compression(compression)
        .compression_level(args.level)
        .threads(args.threads)
        .overwrite(args.force)
        .cancel(signal::cancel()?);
    let snapshot = open::snapshot(args.image.snapshot.as_deref());
    let bar = Bar::new(say);
    let to_stdout = args.output.as_os_str() == "-";
    let is_archive = args.output.extension().is_some_and(|extension| extension == "tar");
    let report = if to_stdout {
        let out = std::io::stdout().as_fd().try_clone_to_owned();
        let out = File::from(out.context("cannot use standard output")?);
        let mut out = PatientOutput::new(move || Ok(out), &options.cancel)?;
        let output = OciOutput::Archive(Output::Stream(&mut out));
        shale::export_oci(&image, &snapshot, output, &options, &bar)
    } else {
        let path = args.output.clone();
        let output = match is_archive {
            true => OciOutput::Archive(Output::Path(path)),
            false => OciOutput::Directory(path),
        };
        shale::export_oci(&image, &snapshot, output, &options, &bar)
    };
    drop(bar);
    let report = report.with_context(|| format!("exporting {}", text::path(&args.image.image)))?;
    say.warn_of_losses(&report.left_out, report.left_out_count);
    let seconds = start.elapsed().as_secs_f64();
    if say.json {
        let images = report.images.iter();
        let images = images.map(|(tag, layers)| json!({ "tag": tag, "layers": layers }));
        say.value(&json!({
            "images": images.collect::<Vec<_>>(),
            "entries": report.entries,
            "whiteouts": report.whiteouts,
            "file_bytes": report.file_bytes,
            "stored_bytes": report.stored_bytes,
            "left_out_count": report.left_out_count,
            "seconds": seconds,
        }))?;
    } else {
        let name = match to_stdout {
            true => "standard output".to_owned(),
            false => text::path(Path::new(&args.output)),
        };
        for (tag, layers) in &report.images {
            let layers = if *layers == 1 { "1 layer" } else { &format!("{layers} layers") };
            say.line(format!("{name}:{tag}: {layers}"));
        }
        say.line(format!(
            "{} entries, {}, layers of {}, {seconds:.1} s",
            size::count(report.entries),
            size::show(report.file_bytes),
            size::show(report.stored_bytes),
        ));
    }
    Ok(if report.left_out_count == 0 { Exit::Done } else { Exit::Partial })
}
