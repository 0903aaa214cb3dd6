//! `shale info`.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};
use shale::Info;
use shale::read::files::{BaseFacts, Gathered};
use shale::read::{Options, Tree};

use super::du::{Usage, each_usage};
use crate::args::{ImageArgs, InfoArgs};
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, size, text};

/// Largest directories that are shown.
const DIRECTORIES_SHOWN: usize = 3;
/// Width of the labels.
const LABEL_WIDTH: usize = 13;

/// Shows how large images are and how they are stored.
///
/// # Errors
/// An image cannot be read; the others are shown all the same.
pub fn run(args: &InfoArgs, say: &Say) -> anyhow::Result<Exit> {
    let mut all = Vec::new();
    let mut failed = None;
    for (index, image) in args.images.iter().enumerate() {
        match show(args, image, index > 0, say) {
            Ok(value) => all.extend(value),
            Err(error) if args.images.len() == 1 => return Err(error),
            Err(error) => failed = Some(say.failure(&error)),
        }
    }
    if say.json {
        match &all[..] {
            [one] if args.images.len() == 1 => say.value(one)?,
            _ => say.value(&all)?,
        }
    }
    Ok(failed.unwrap_or(Exit::Done))
}

/// Shows one image, or returns its JSON.
fn show(
    args: &InfoArgs,
    path: &Path,
    is_further: bool,
    say: &Say,
) -> anyhow::Result<Option<Value>> {
    let image = ImageArgs {
        image: path.to_owned(),
        offset: args.offset,
        snapshot: args.snapshot.clone(),
        expect: args.expect,
    };
    let tree = open::tree(&image, Options::default(), say)?;
    let files = open::gathered(path, say)?;
    let info = shale::info(tree.image())?;
    if say.verbose > 0 && !say.json {
        say.raw((details(&info)? + &base_details(&files)).as_bytes())?;
        return Ok(None);
    }
    // A damaged entry must not hide everything else.
    let usage = usage(&tree);
    if say.json {
        let mut value = as_json(path, &info, usage.as_ref().ok())?;
        value["base"] = base_as_json(files.base.as_ref());
        value["parts"] = files.parts.into();
        return Ok(Some(value));
    }
    let mut out = if is_further { "\n".to_owned() } else { String::new() };
    summary(&mut out, path, &tree, &info, usage)?;
    if let Some(base) = &files.base {
        let thin = info.image_bytes - base.base_len + base.head_len;
        writeln!(
            out,
            "{:<LABEL_WIDTH$}{} over {}, {} ({})",
            "thin",
            size::show(thin),
            text::escape(&base.name),
            size::show(base.base_len),
            base.identity
        )?;
    }
    if files.parts > 1 {
        writeln!(out, "{:<LABEL_WIDTH$}{}", "parts", files.parts)?;
    }
    say.raw(out.as_bytes())?;
    Ok(None)
}

/// The bases of an image, one line each.
fn base_details(files: &Gathered) -> String {
    let mut out = String::new();
    let mut next = files.base.as_ref();
    while let Some(base) = next {
        out += &format!(
            "base: {} of {} bytes, identity {}, found at {}\n",
            text::escape(&base.name),
            base.base_len,
            base.identity,
            text::escape(base.found.as_bytes())
        );
        next = base.base.as_deref();
    }
    if files.parts > 1 {
        out += &format!("split into {} parts\n", files.parts);
    }
    out
}

fn base_as_json(base: Option<&BaseFacts>) -> Value {
    base.map_or(Value::Null, |base| {
        let mut object = json!({
            "image_bytes": base.base_len,
            "identity": base.identity.to_string(),
            "head_bytes": base.head_len,
            "found": text::escape(base.found.as_bytes()),
            "base": base_as_json(base.base.as_deref()),
        });
        if let Some(object) = object.as_object_mut() {
            text::put_name(object, "name", &base.name);
        }
        object
    })
}

/// The number of files, and the directories of the first level by size, largest first.
struct Sizes {
    files: u64,
    bytes: u64,
    directories: Vec<(Vec<u8>, Usage)>,
}

fn usage(tree: &Tree) -> anyhow::Result<Sizes> {
    let mut directories = Vec::new();
    let mut counted = HashSet::new();
    let total = each_usage(tree, b"", &mut counted, |path, depth, usage, is_directory| {
        if is_directory && depth == 1 {
            let path = path.strip_prefix(b"/").unwrap_or(path);
            directories.push((path.to_vec(), usage));
        }
        Ok(())
    })?;
    directories.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
    directories.truncate(DIRECTORIES_SHOWN);
    Ok(Sizes { files: total.files, bytes: total.bytes, directories })
}

/// Writes the plain answers: how large, what is in it, how it was made and how it is protected.
fn summary(
    out: &mut String,
    path: &Path,
    tree: &Tree,
    info: &Info,
    usage: anyhow::Result<Sizes>,
) -> anyhow::Result<()> {
    let mut line = |label: &str, text: String| writeln!(out, "{label:<LABEL_WIDTH$}{text}");
    line(
        "image",
        format!(
            "{}, {} ({} bytes), format {}",
            text::path(path),
            size::show(info.image_bytes),
            size::count(info.image_bytes),
            info.format_version
        ),
    )?;
    if let Some(label) = info.label() {
        line("label", text::escape(label.as_bytes()))?;
    }
    let snapshot = tree.snapshot();
    let entries = size::count(snapshot.entries.row_count);
    let directories = size::count(snapshot.directories.row_count.saturating_sub(1));
    let files = match &usage {
        Ok(usage) => {
            format!(" with {} files and {directories} directories", size::count(usage.files))
        }
        Err(_) => format!(" with {directories} directories"),
    };
    let bytes = size::show(snapshot.file_bytes);
    line("contents", format!("{bytes} in {entries} entries{files}"))?;
    let all_bytes: u64 = info.snapshots.iter().map(|snapshot| snapshot.file_bytes).sum();
    line("ratio", size::ratio(all_bytes, info.image_bytes))?;
    let names: Vec<String> = info
        .snapshots
        .iter()
        .enumerate()
        .map(|(number, it)| match it.name.is_empty() {
            true => format!("#{number}"),
            false => format!("#{number} \"{}\"", it.name),
        })
        .collect();
    line("snapshots", format!("{}: {}", names.len(), names.join(", ")))?;
    let made = info.history.last().map_or("not recorded".to_owned(), |line| made_with(line));
    line("made with", made)?;
    for (index, group) in info.streams.iter().enumerate() {
        let label = if index == 0 { "rebuilt" } else { "" };
        line(
            label,
            format!(
                "{}: {} compressed streams of {}, stored as the {} that they hold",
                text::escape(group.container.as_bytes()),
                size::count(group.streams),
                size::show(group.bytes),
                size::show(group.plain_bytes)
            ),
        )?;
    }
    line("protection", protection(info))?;
    line(
        "random read",
        format!(
            "decodes {} on average, at most {}",
            size::show(info.read_bytes_mean),
            size::show(info.bounds.read_bytes_max)
        ),
    )?;
    match usage {
        Err(error) => line("directories", format!("not readable: {error}"))?,
        Ok(usage) if usage.directories.is_empty() => line("directories", "none".to_owned())?,
        Ok(usage) => {
            let width = usage.directories.iter().map(|(_, it)| size::show(it.bytes).len()).max();
            let width = width.unwrap_or(0);
            for (index, (path, it)) in usage.directories.iter().enumerate() {
                let label = if index == 0 { "largest" } else { "" };
                let share = it.bytes as f64 * 100.0 / usage.bytes.max(1) as f64;
                let (bytes, path) = (size::show(it.bytes), text::escape(path));
                line(label, format!("{bytes:>width$} {share:>3.0}%  {path}"))?;
            }
        }
    }
    if let Some(recovered) = &info.recovered {
        line("damage", format!("the end of the image is damaged: {recovered}"))?;
    }
    Ok(())
}

/// Describes a line of the history, such as `create writer=0.1.0 format=0.3 level=6 codec=zstd:19
/// frame-len=262144`. Other options are left out here; `--json` has the whole line.
fn made_with(line: &str) -> String {
    let field = |name: &str| {
        line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    let mut made = vec![format!("shale {}", field("writer").unwrap_or("of unknown version"))];
    made.extend(field("level").map(|level| format!("level {level}")));
    made.extend(field("codec").map(str::to_owned));
    let frame_len = field("frame-len").and_then(|len| len.parse().ok());
    made.extend(frame_len.map(|len| format!("frames of {}", size::show(len))));
    text::escape(made.join(", ").as_bytes())
}

fn protection(info: &Info) -> String {
    let parity = match &info.parity {
        None => "no parity".to_owned(),
        Some(parity) => format!(
            "parity of {}, repairs any burst of {}",
            size::show(parity.stored_bytes),
            size::show(parity.burst_bytes)
        ),
    };
    let signatures = match &info.signers[..] {
        [] => "not signed".to_owned(),
        [one] => format!("signature by {} (not verified)", &one[..one.len().min(16)]),
        many => format!("{} signatures (not verified)", many.len()),
    };
    let identity = if info.identity.is_some() { "" } else { ", no identity" };
    format!("{parity}; {signatures}{identity}")
}

fn as_json(path: &Path, info: &Info, usage: Option<&Sizes>) -> anyhow::Result<Value> {
    use std::os::unix::ffi::OsStrExt;
    let mut value = serde_json::to_value(info)?;
    if let Value::Object(object) = &mut value {
        text::put_name(object, "path", path.as_os_str().as_bytes());
        let directories = usage.map(|usage| {
            let largest = usage.directories.iter().map(|(path, it)| {
                let mut object = serde_json::Map::new();
                text::put_name(&mut object, "path", path);
                object.insert("bytes".to_owned(), it.bytes.into());
                object.insert("files".to_owned(), it.files.into());
                Value::Object(object)
            });
            largest.collect::<Vec<_>>()
        });
        object.insert("label".to_owned(), json!(info.label()));
        object.insert("files".to_owned(), json!(usage.map(|usage| usage.files)));
        object.insert("largest_directories".to_owned(), json!(directories));
    }
    Ok(value)
}

/// Describes how everything is stored: identity, frames, codecs, tables and sections.
fn details(info: &Info) -> anyhow::Result<String> {
    let mut out = String::new();
    writeln!(out, "format {}, image id {}", info.format_version, info.image_id)?;
    if let Some(identity) = &info.identity {
        writeln!(out, "identity {identity}")?;
    }
    if let Some(label) = info.label() {
        writeln!(out, "label {}", text::escape(label.as_bytes()))?;
    }
    writeln!(out, "{} bytes from offset {}", info.image_bytes, info.offset)?;
    for (number, snapshot) in info.snapshots.iter().enumerate() {
        writeln!(
            out,
            "snapshot #{number} \"{}\": {} entries, {} inodes, {} directories, {} in files; times: {}",
            snapshot.name,
            snapshot.entries,
            snapshot.inodes,
            snapshot.directories,
            size::show(snapshot.file_bytes),
            snapshot.times.join(", ")
        )?;
    }
    writeln!(
        out,
        "contents: {} of {}, in {} extents",
        info.contents,
        size::show(info.content_bytes),
        info.extents
    )?;
    let file_bytes: u64 = info.snapshots.iter().map(|snapshot| snapshot.file_bytes).sum();
    writeln!(
        out,
        "deduplicated: {} in equal files, {} in repeated segments, holes and zeros",
        size::show(file_bytes.saturating_sub(info.content_bytes)),
        size::show(info.content_bytes.saturating_sub(info.plain_bytes))
    )?;
    writeln!(
        out,
        "frames: {}, {} stored as {}, ratio {}",
        info.frames,
        size::show(info.plain_bytes),
        size::show(info.stored_bytes),
        size::ratio(info.plain_bytes, info.stored_bytes)
    )?;
    writeln!(out, "references: {} in {} frames", info.references, info.frames_with_references)?;
    let bounds = &info.bounds;
    writeln!(
        out,
        "a random read decodes {} on average, at most {} (largest frame {}, at most {} references, \
         depth {})",
        size::show(info.read_bytes_mean),
        size::show(bounds.read_bytes_max),
        size::show(bounds.frame_plain_bytes_max),
        bounds.reference_count_max,
        bounds.depth_max
    )?;
    for (title, groups) in [("codec", &info.codecs), ("category", &info.categories)] {
        for group in groups {
            writeln!(
                out,
                "  {title} {}: {} frames, {} stored as {}, ratio {}, a read decodes {} on average",
                group.name,
                group.frames,
                size::show(group.plain_bytes),
                size::show(group.stored_bytes),
                size::ratio(group.plain_bytes, group.stored_bytes),
                size::show(group.read_bytes_mean)
            )?;
        }
    }
    for table in info.tables.iter().filter(|table| table.rows > 0) {
        writeln!(
            out,
            "  table {}: {} rows in {} pages, {} stored as {}",
            table.name,
            table.rows,
            table.pages,
            size::show(table.plain_bytes),
            size::show(table.stored_bytes)
        )?;
    }
    for section in &info.sections {
        writeln!(
            out,
            "  sections {}: {} with {}",
            section.name,
            section.count,
            size::show(section.stored_bytes)
        )?;
    }
    if let Some(recovered) = &info.recovered {
        writeln!(out, "the end of the image is damaged: {recovered}")?;
    }
    Ok(out)
}
