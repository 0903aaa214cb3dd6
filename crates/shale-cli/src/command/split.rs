//! `shale split`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::args::Split;
use crate::bar::Bar;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{open, signal, size, text};

/// Cuts an image into parts.
///
/// # Errors
/// The image cannot be read or split in this way, or a part cannot be written.
pub fn run(args: &Split, say: &Say) -> anyhow::Result<Exit> {
    open::only_file(&args.image, "shale split")?;
    let found = open::gathered(&args.image, say)?;
    if found.parts > 1 {
        let what = format!("{} is split already; join it first", text::path(&args.image));
        return Err(Misuse(what).into());
    }
    let file = open::file(&args.image, say)?;
    let prefix = prefix(args)?;
    let cancel = signal::cancel()?;
    let bar = Bar::new(say);
    let report = shale::split(&*file, found.source, args.size, &prefix, args.force, &cancel, &bar);
    drop(bar);
    let report = report.map_err(|error| open::named(&args.image, error.into()))?;
    let first = report.parts.first().map_or(Path::new(""), PathBuf::as_path);
    if say.json {
        say.value(&json!({
            "parts": report.parts.iter().map(|path| text::path(path)).collect::<Vec<_>>(),
            "part_bytes": report.part_bytes,
            "file_bytes": report.file_bytes,
        }))?;
    } else {
        say.line(format!(
            "{}: {} parts of {}, the first is {}",
            text::path(&args.image),
            report.parts.len(),
            size::show(report.part_bytes),
            text::path(first)
        ));
    }
    Ok(Exit::Done)
}

/// The beginning of the paths of all parts.
fn prefix(args: &Split) -> anyhow::Result<PathBuf> {
    let image = || -> anyhow::Result<OsString> {
        let name = args.image.file_name().map(OsString::from);
        name.ok_or_else(|| Misuse("the image has no name; use -o PREFIX".to_owned()).into())
    };
    Ok(match &args.output {
        None => args.image.clone(),
        Some(output) if output.is_dir() => output.join(image()?),
        Some(output) if text::bytes(output.as_os_str()).ends_with(b"/") => {
            anyhow::bail!("{}: there is no such directory", text::path(output))
        }
        Some(output) => output.clone(),
    })
}
