//! `shale grep`.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use shale::listing::resolve;
use shale::query::{GrepOptions, LineMatch, grep};
use shale::read::{Attributes, InodeKind, Options};

use crate::args::Grep;
use crate::exit::{Exit, Misuse};
use crate::report::{Say, to_stderr};
use crate::{open, text};

/// Searches the contents of files.
///
/// # Errors
/// The pattern is not valid, a path does not exist, or the image cannot be read.
pub fn run(args: &Grep, say: &Say) -> anyhow::Result<Exit> {
    let tree = open::tree(&args.image, Options::default(), say)?;
    let mut files: Vec<(Vec<u8>, Attributes)> = Vec::new();
    let mut named = args.paths.iter().map(|path| text::bytes(path)).collect::<Vec<_>>();
    let single = named.len() == 1;
    if named.is_empty() {
        named.push(b"");
    }
    let mut alone = single;
    for start in named {
        let root = resolve(&tree, start, true)?;
        alone &= root.kind == InodeKind::File;
        let start = start.trim_ascii_start().strip_prefix(b"/").unwrap_or(start);
        for entry in tree.walk(root.inode)? {
            let entry = entry?;
            if entry.attributes.kind == InodeKind::File {
                let joins = !start.is_empty() && !entry.path.is_empty() && !start.ends_with(b"/");
                let slash = if joins { &b"/"[..] } else { b"" };
                files.push(([start, slash, &entry.path].concat(), entry.attributes));
            }
        }
    }
    let mut options = GrepOptions::default();
    options.ignore_case = args.ignore_case;
    options.fixed = args.fixed_strings;
    options.word = args.word_regexp;
    options.invert = args.invert_match;
    options.first_only = args.files_with_matches || say.quiet;
    options.binary = args.text;
    options.threads = shale::thread_count(args.threads.unwrap_or(0));
    let mut printer = Printer {
        args,
        json: say.json,
        quiet: say.quiet,
        raw: !say.escapes_names(),
        show_name: !alone && !args.no_filename,
        counts: BTreeMap::new(),
        matched: false,
        out: BufWriter::new(io::stdout()),
    };
    let report = grep(&tree, &files, &args.pattern, &options, &mut |path, outcome| match outcome {
        Ok(lines) => printer.lines(path, lines),
        Err(error) => {
            to_stderr(&format!("shale: {}: {error}", text::escape(path)));
            Ok(())
        }
    });
    let report = report.map_err(|error| match error {
        shale::query::Error::Pattern(_) => Misuse::of(error).into(),
        other => anyhow::Error::from(other),
    })?;
    printer.end()?;
    Ok(match (report.errors > 0, printer.matched) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::Done,
        (false, false) => Exit::Negative,
    })
}

struct Printer<'a, O> {
    args: &'a Grep,
    json: bool,
    quiet: bool,
    raw: bool,
    show_name: bool,
    /// With `--count`: lines of each path. A path may be reported in several parts.
    counts: BTreeMap<Vec<u8>, u64>,
    matched: bool,
    out: O,
}

impl<O: Write> Printer<'_, O> {
    fn lines(&mut self, path: &[u8], lines: &[LineMatch]) -> io::Result<()> {
        self.matched = true;
        if self.quiet {
            return Ok(());
        }
        if self.args.count || self.args.files_with_matches {
            *self.counts.entry(path.to_vec()).or_default() += lines.len() as u64;
            return Ok(());
        }
        for found in lines {
            if self.json {
                let mut object = serde_json::Map::new();
                text::put_name(&mut object, "path", path);
                object.insert("line_number".to_owned(), found.number.into());
                text::put_name(&mut object, "line", found.line.trim_ascii_end());
                serde_json::to_writer(&mut self.out, &object)?;
                self.out.write_all(b"\n")?;
                continue;
            }
            if self.show_name {
                self.out.write_all(&text::shown(path, self.raw))?;
                self.out.write_all(b":")?;
            }
            if self.args.line_number {
                write!(self.out, "{}:", found.number)?;
            }
            let line = found.line.strip_suffix(b"\n").unwrap_or(&found.line);
            self.out.write_all(&text::shown(line, self.raw))?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        for (path, count) in &self.counts {
            if self.json {
                let mut object = serde_json::Map::new();
                text::put_name(&mut object, "path", path);
                if self.args.count {
                    object.insert("count".to_owned(), (*count).into());
                }
                serde_json::to_writer(&mut self.out, &object)?;
            } else {
                self.out.write_all(&text::shown(path, self.raw))?;
                if self.args.count {
                    write!(self.out, ":{count}")?;
                }
            }
            self.out.write_all(b"\n")?;
        }
        self.out.flush()
    }
}
