//! `shale report`: one HTML page about an image, without references to other files or the network.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use shale::read::Options;

use crate::args::Report;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{open, text};

mod figures; // what the page shows

/// The page around the figures.
const PAGE: &str = include_str!("report_page/page.html");
const STYLE: &str = include_str!("report_page/page.css");
const SCRIPT: &str = include_str!("report_page/page.js");

/// Writes the page.
///
/// # Errors
/// The image cannot be read, or the page cannot be written.
pub fn run(args: &Report, say: &Say) -> anyhow::Result<Exit> {
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout && say.json {
        bail!(Misuse("--json and the page cannot both go to standard output".to_owned()));
    }
    if !to_stdout && args.output.exists() && !args.force {
        bail!("{} exists; use --force to replace it", text::path(&args.output));
    }
    let tree = open::tree(&args.image, Options::default(), say)?;
    let info = shale::info(tree.image())?;
    let mut found = figures::gather(&tree)?;
    let mut info_json = serde_json::to_value(&info)?;
    info_json["label"] = json!(info.label());
    found["info"] = info_json;
    found["name"] = json!(
        args.image
            .image
            .file_name()
            .map_or_else(|| text::path(&args.image.image), |name| text::escape(text::bytes(name)),)
    );
    found["tool"] = json!(env!("CARGO_PKG_VERSION"));
    let page = page(&found)?;
    if to_stdout {
        say.raw(page.as_bytes())?;
        return Ok(Exit::Done);
    }
    write_whole(&args.output, page.as_bytes())
        .with_context(|| format!("cannot write {}", text::path(&args.output)))?;
    if say.json {
        say.value(&json!({ "page_bytes": page.len() }))?;
    } else {
        say.line(format!("{}: {} bytes", text::path(&args.output), page.len()));
    }
    Ok(Exit::Done)
}

/// Fills in the page. Names of files cannot end the element that holds the figures.
fn page(found: &Value) -> anyhow::Result<String> {
    let figures = serde_json::to_string(found)?.replace('<', "\\u003c");
    let title = found["name"].as_str().unwrap_or_default();
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let parts: BTreeMap<&str, &str> =
        [("TITLE", &title[..]), ("STYLE", STYLE), ("SCRIPT", SCRIPT), ("FIGURES", &figures)].into();
    let mut out = String::new();
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").context("the page is not whole")?;
        out += before;
        out += parts.get(name).context("the page has an unknown part")?;
        rest = after;
    }
    Ok(out + rest)
}

/// Writes a file that has its name only once it is complete.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    // A device or a pipe is written to and never replaced.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.partial", std::process::id()));
    let partial = parent.unwrap_or(Path::new("")).join(name);
    let written = std::fs::File::create_new(&partial)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_data()))
        .and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_out_of_the_page() {
        let found = json!({ "name": "</title><b>", "x": "</script><script>alert(1)" });
        let page = page(&found).unwrap();
        assert_eq!(page.matches("</script>").count(), 2, "the figures and the script");
        assert!(!page.contains("</title><b>") && !page.contains("{{"));
        for word in ["http:", "https:", "src=", "url("] {
            assert!(!page.contains(word), "{word}: the page must need nothing else");
        }
    }
}
