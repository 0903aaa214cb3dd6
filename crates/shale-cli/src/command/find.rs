//! `shale find`.

use std::io::{BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use serde_json::Value;
use shale::listing::resolve;
use shale::query::find::{Candidate, Expression, Names, Versions, find};
use shale::read::{InodeKind, Options, SnapshotChoice, Timestamp, Tree};

use crate::args::Find;
use crate::attributes::{Columns, as_json, with_target};
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{open, text};
use shale::owners::Owners;

/// Prints the entries that an expression selects.
///
/// # Errors
/// The expression is wrong, a start does not exist, or the image cannot be read.
pub fn run(args: &Find, say: &Say) -> anyhow::Result<Exit> {
    let mut words = args.words.clone();
    let mut snapshots = args.snapshots;
    let (mut zero, mut detailed) = (false, false);
    words.retain(|word| {
        let flag = match word.to_str() {
            Some("--snapshots") => &mut snapshots,
            Some("-print0") => &mut zero,
            Some("-ls") => &mut detailed,
            Some("-print") => return false,
            _ => return true,
        };
        *flag = true;
        false
    });
    let is_test = |word: &&std::ffi::OsString| {
        matches!(text::bytes(word).first(), Some(b'-' | b'(' | b')' | b'!'))
    };
    let tests_at = words.iter().position(|word| is_test(&word)).unwrap_or(words.len());
    let tests = words.split_off(tests_at);
    let test_words = tests.iter().map(|word| word.to_str().map(str::to_owned));
    let test_words: Option<Vec<String>> = test_words.collect();
    let test_words = test_words.ok_or_else(|| Misuse("a test is not UTF-8".to_owned()))?;
    let expression = Expression::parse(&test_words, &Surroundings(Owners::of_machine()));
    let expression = expression.map_err(Misuse::of)?;
    let starts: Vec<Vec<u8>> = match words.is_empty() {
        true => vec![Vec::new()],
        false => words.iter().map(|word| text::bytes(word).to_vec()).collect(),
    };
    let raw = zero || !say.escapes_names();
    let out = BufWriter::new(std::io::stdout().lock());
    let mut printer = Printer {
        columns: Columns::new(false, false),
        json: say.json,
        detailed,
        raw,
        zero,
        first: true,
        out,
    };
    if snapshots {
        let options = Options::default().offset(open::offset(args.image.offset));
        let image = open::image(&args.image.image, options.expect(args.image.expect), say)?;
        let mut versions = Versions::default();
        let mut starts_found = vec![false; starts.len()];
        for snapshot in 0..image.snapshots().len() {
            let tree = image.tree(&SnapshotChoice::Index(snapshot))?;
            for (start, is_found) in starts.iter().zip(&mut starts_found) {
                // A start may be missing from some snapshots.
                if let Ok(root) = resolve(&tree, start, false) {
                    *is_found = true;
                    find(&tree, root.inode, trimmed(start), &expression, |candidate| {
                        versions.add(snapshot, candidate);
                        Ok::<(), anyhow::Error>(())
                    })?;
                }
            }
        }
        if let Some(missing) = starts_found.iter().position(|is_found| !is_found) {
            let path = text::escape(&starts[missing]);
            return Err(anyhow!("{path}: no snapshot has such a file or directory"));
        }
        printer.begin()?;
        versions.each(|path, attributes, snapshots| {
            printer.version(Candidate { path, attributes }, snapshots)
        })?;
    } else {
        let tree = open::tree(&args.image, Options::default(), say)?;
        printer.begin()?;
        for start in &starts {
            let root = resolve(&tree, start, false)?;
            find(&tree, root.inode, trimmed(start), &expression, |candidate| {
                printer.entry(&tree, candidate)
            })?;
        }
    }
    printer.end()?;
    Ok(Exit::Done)
}

/// A start as it is printed: without slashes at its ends.
fn trimmed(start: &[u8]) -> &[u8] {
    let first = start.iter().position(|&byte| byte != b'/').unwrap_or(start.len());
    let end = start.iter().rposition(|&byte| byte != b'/').map_or(first, |last| last + 1);
    &start[first..end]
}

struct Surroundings(Owners);

impl Names for Surroundings {
    fn user(&self, name: &str) -> Option<u32> {
        self.0.user_id(name)
    }

    fn group(&self, name: &str) -> Option<u32> {
        self.0.group_id(name)
    }

    fn mtime(&self, path: &str) -> Option<Timestamp> {
        std::fs::metadata(path).and_then(|facts| facts.modified()).ok().map(timestamp)
    }

    fn now(&self) -> Timestamp {
        timestamp(SystemTime::now())
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp { sec: since.as_secs() as i64, nsec: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let borrowed = i64::from(before.subsec_nanos() > 0);
            Timestamp {
                sec: -(before.as_secs() as i64) - borrowed,
                nsec: (1_000_000_000 - before.subsec_nanos()) % 1_000_000_000,
            }
        }
    }
}

struct Printer<O: Write> {
    columns: Columns,
    json: bool,
    detailed: bool,
    raw: bool,
    zero: bool,
    first: bool,
    out: O,
}

impl<O: Write> Printer<O> {
    fn begin(&mut self) -> anyhow::Result<()> {
        if self.json {
            self.out.write_all(b"[")?;
        }
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        if self.json {
            self.out.write_all(b"\n]\n")?;
        }
        Ok(self.out.flush()?)
    }

    fn entry(&mut self, tree: &Tree, candidate: Candidate<'_>) -> anyhow::Result<()> {
        let wants_target = self.json || self.detailed;
        let target = match candidate.attributes.kind {
            InodeKind::Symlink if wants_target => {
                Some(tree.link_target(candidate.attributes.inode)?)
            }
            _ => None,
        };
        if self.json {
            return self.object(candidate, target.as_deref(), None);
        }
        if self.detailed {
            write!(self.out, "{} ", self.columns.long(candidate.attributes))?;
        }
        self.name(candidate.path, target.as_deref())
    }

    fn version(&mut self, candidate: Candidate<'_>, snapshots: &[usize]) -> anyhow::Result<()> {
        if self.json {
            return self.object(candidate, None, Some(snapshots));
        }
        write!(self.out, "{}\t", ranges(snapshots))?;
        if self.detailed {
            write!(self.out, "{} ", self.columns.long(candidate.attributes))?;
        }
        self.name(candidate.path, None)
    }

    fn name(&mut self, path: &[u8], target: Option<&[u8]>) -> anyhow::Result<()> {
        let path = if path.is_empty() { b"." } else { path };
        self.out.write_all(&with_target(path, target, self.raw))?;
        self.out.write_all(if self.zero { b"\0" } else { b"\n" })?;
        Ok(())
    }

    fn object(
        &mut self,
        candidate: Candidate<'_>,
        target: Option<&[u8]>,
        snapshots: Option<&[usize]>,
    ) -> anyhow::Result<()> {
        let mut object = as_json(candidate.attributes);
        text::put_name(&mut object, "path", candidate.path);
        if let Some(target) = target {
            text::put_name(&mut object, "target", target);
        }
        if let Some(snapshots) = snapshots {
            object.insert("snapshots".to_owned(), snapshots.to_vec().into());
        }
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        serde_json::to_writer(&mut self.out, &Value::Object(object))?;
        Ok(())
    }
}

/// Snapshot numbers in short: `#0-#3,#7`.
fn ranges(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |(first, end): &(usize, usize)| match first == end {
        true => format!("#{first}"),
        false => format!("#{first}-#{end}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_numbers_are_joined_to_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "#0-#3,#7,#9-#10");
        assert_eq!(ranges(&[4]), "#4");
    }
}
