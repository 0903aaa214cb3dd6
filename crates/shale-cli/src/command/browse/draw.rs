//! The picture: a title, what is shown, details of what is selected, and the keys.

use std::fmt::Write;

use shale::listing::Entry;
use shale::read::{Attributes, InodeKind};

use super::browser::{Browser, FRAME_LINES, Over};
use super::cells::fit;
use super::place::OpenDirectory;
use super::preview::Preview;
use super::search::Search;
use crate::{size, text};

const REVERSED: &str = "\x1b[7m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// What the keys do.
const HELP: &[&str] = &[
    "Keys",
    "",
    "  up, down, PageUp, PageDown, Home, End, j, k, g, G   move",
    "  Enter, right, l      open a directory or a file; a link opens what it leads to",
    "  left, h, Backspace   back",
    "  /                    search names in this directory, or lines of this file",
    "  n, N                 the next one, the one before",
    "  f                    find names in all directories below the root",
    "  x                    a file as bytes, or as text",
    "  e                    extract what is selected, with everything below it",
    "  s                    snapshots",
    "  Esc                  back; ends a search or an extraction",
    "  q, Ctrl-C            end",
    "",
    "Names that are not UTF-8 and control characters are shown with a backslash.",
];

/// Returns the picture for a terminal of this size, as what is sent to it.
pub fn picture(browser: &Browser, width: usize, height: usize) -> String {
    let mut lines = Vec::with_capacity(height);
    let body_len = height.saturating_sub(FRAME_LINES);
    lines.push(styled(REVERSED, &title(browser), width));
    let mut body = match &browser.over {
        Over::Nothing => directory(browser.place(), browser, width, body_len),
        Over::Preview(preview) => {
            preview.shown(body_len).iter().map(|line| fit(line, width)).collect()
        }
        Over::Search(search) => found(search, width, body_len),
        Over::Snapshots { cursor, top } => snapshots(browser, (*cursor, *top), width, body_len),
        Over::Help => HELP.iter().take(body_len).map(|line| fit(line, width)).collect(),
    };
    body.resize(body_len, fit("", width));
    lines.append(&mut body);
    lines.push(styled(BOLD, &detail(browser), width));
    lines.push(fit(&bottom(browser), width));
    // A terminal of one or two lines shows the beginning.
    lines.truncate(height);
    let mut out = String::from("\x1b[H");
    for (index, line) in lines.iter().enumerate() {
        // Each line at its place, however wide the terminal thinks that characters are.
        let _ = write!(out, "\x1b[{};1H\x1b[K{line}", index + 1);
    }
    if let Some(prompt) = &browser.prompt {
        let typed = format!("{}{}", prompt.kind.label(), text::safe(&prompt.text));
        let column = typed.chars().count().min(width.saturating_sub(1)) + 1;
        let _ = write!(out, "\x1b[{height};{column}H\x1b[?25h");
    } else {
        out.push_str("\x1b[?25l");
    }
    out
}

fn styled(style: &str, line: &str, width: usize) -> String {
    format!("{style}{}{PLAIN}", fit(line, width))
}

fn title(browser: &Browser) -> String {
    let mut out = format!(" {}", browser.image);
    let snapshots = browser.tree.image().snapshots();
    if snapshots.len() > 1
        && let Some(number) = browser.snapshot_number()
    {
        let _ = write!(out, " #{number} {}", text::escape(&browser.tree.snapshot().name));
    }
    let path = match &browser.over {
        Over::Preview(preview) => &preview.path,
        _ => &browser.place().path,
    };
    let _ = write!(out, "  /{}", text::escape(path));
    out
}

/// A line of a listing.
fn entry_line(name: &[u8], attributes: &Attributes) -> String {
    let size = match attributes.kind {
        InodeKind::File => size::brief(attributes.size),
        InodeKind::Directory => "dir".to_owned(),
        InodeKind::Symlink => "link".to_owned(),
        _ => "-".to_owned(),
    };
    let slash = if attributes.kind == InodeKind::Directory { "/" } else { "" };
    format!("{size:>8}  {}{slash}", text::escape(name))
}

fn directory(place: &OpenDirectory, browser: &Browser, width: usize, height: usize) -> Vec<String> {
    if place.entries.is_empty() {
        let what = if browser.places.len() == 1 { "the image is empty" } else { "empty" };
        return vec![fit(&format!("{:>8}  {what}", ""), width)];
    }
    let shown = place.entries.iter().enumerate().skip(place.top).take(height);
    shown
        .map(|(index, Entry { name, attributes })| {
            cursor_line(&entry_line(name, attributes), index == place.cursor, width)
        })
        .collect()
}

fn found(search: &Search, width: usize, height: usize) -> Vec<String> {
    let shown = search.found.iter().enumerate().skip(search.top).take(height);
    shown
        .map(|(index, (path, attributes))| {
            cursor_line(&entry_line(path, attributes), index == search.cursor, width)
        })
        .collect()
}

fn snapshots(
    browser: &Browser,
    (cursor, top): (usize, usize),
    width: usize,
    height: usize,
) -> Vec<String> {
    let all = browser.tree.image().snapshots().iter().enumerate().skip(top).take(height);
    all.map(|(number, snapshot)| {
        let size = size::show(snapshot.file_bytes);
        let line = format!("{number:>5}  {size:>11}  {}", text::escape(&snapshot.name));
        cursor_line(&line, number == cursor, width)
    })
    .collect()
}

fn cursor_line(line: &str, is_selected: bool, width: usize) -> String {
    if is_selected { styled(REVERSED, line, width) } else { fit(line, width) }
}

/// What is known of what is selected.
fn detail(browser: &Browser) -> String {
    let of_entry = |attributes: &Attributes, name: &[u8]| {
        format!("{} {}", browser.columns.long(attributes), text::escape(name))
    };
    match &browser.over {
        Over::Nothing => {
            let place = browser.place();
            let Some(entry) = place.selected() else { return String::new() };
            let mut out = format!("{}/{} ", place.cursor + 1, place.entries.len());
            out += &of_entry(&entry.attributes, &entry.name);
            if entry.attributes.kind == InodeKind::Symlink
                && let Ok(target) = browser.tree.link_target(entry.attributes.inode)
            {
                let _ = write!(out, " -> {}", text::escape(&target));
            }
            out
        }
        Over::Preview(preview) => of_preview(preview),
        Over::Search(search) => format!("`{}`: {}", text::safe(&search.wanted), search.state()),
        Over::Snapshots { .. } => "Enter shows a snapshot".to_owned(),
        Over::Help => String::new(),
    }
}

fn of_preview(preview: &Preview) -> String {
    let (what, count) = (if preview.is_hex { "row" } else { "line" }, preview.count());
    let len = size::show(preview.attributes.size);
    let at = (preview.top + 1).min(count);
    let cut = if preview.is_cut() { ", the beginning" } else { "" };
    format!("{what} {at} of {count}{cut}, {len}")
}

/// What is typed, what happened, or the keys.
fn bottom(browser: &Browser) -> String {
    if let Some(prompt) = &browser.prompt {
        return format!("{}{}", prompt.kind.label(), text::safe(&prompt.text));
    }
    if !browser.message.is_empty() {
        return browser.message.clone();
    }
    match &browser.over {
        Over::Preview(_) => "/ search  n next  x text/bytes  e extract  h back  ? help  q end",
        Over::Help => "any key goes back",
        _ => "Enter open  h back  / search  f find  e extract  s snapshots  ? help  q end",
    }
    .to_owned()
}
