//! `shale info`.

use std::fmt::Write;

use shale::read::Options;

use crate::args::ImageArgs;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, size};

/// Shows what an image is made of.
pub fn run(args: &ImageArgs, say: &Say) -> anyhow::Result<Exit> {
    let tree = open::tree(args, Options::default(), say)?;
    let info = shale::info(tree.image())?;
    if say.json {
        say.value(&info)?;
        return Ok(Exit::Done);
    }
    let mut out = String::new();
    writeln!(out, "format {}, image id {}", info.format_version, info.image_id)?;
    if let Some(identity) = &info.identity {
        writeln!(out, "identity {identity}")?;
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
        "not stored again: {} in equal files, {} in repeated segments, holes and zeroes",
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
    writeln!(out, "references: {} of {} frames", info.references, info.frames_with_references)?;
    let bounds = &info.bounds;
    writeln!(
        out,
        "a random read decodes at most {}, {} on average (largest frame {}, at most {} references, \
         depth {})",
        size::show(bounds.read_bytes_max),
        size::show(info.read_bytes_mean),
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
        writeln!(out, "the end is not whole: {recovered}")?;
    }
    say.raw(out.as_bytes())?;
    Ok(Exit::Done)
}
