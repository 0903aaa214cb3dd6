//! Writes an archive: entries in order, with frames that other threads decode ahead.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use shale_foreign::archive::{Archive, Taken};
use shale_host::{Phase, Progress, thread_count, threads};
use shale_read::Tree;

use super::decode_ahead;
use super::options::ExportOptions;
use super::report::ExportReport;
use super::step::Step;
use super::walk::Walk;
use crate::error::Error;

/// Frames decoded and not yet written, for each thread.
const FRAMES_AHEAD: usize = 16;
/// Steps that the walk may be ahead of the writer.
const STEPS_AHEAD: usize = 1024;
/// Left-out entries kept in a report; more are counted.
const LEFT_OUT_MAX: usize = 1_000;

/// Writes the selected entries of `tree` to `archive`.
///
/// # Errors
/// The archive is then incomplete; the caller removes it.
pub fn export_to_archive(
    tree: &Tree,
    mut archive: Box<dyn Archive + '_>,
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<ExportReport, Error> {
    let threads = thread_count(options.threads);
    progress.phase(Phase::Files);
    progress.found(tree.entry_count(), tree.file_bytes());
    let (asker, tickets) = decode_ahead::new(FRAMES_AHEAD * threads);
    let (to_writer, steps) = sync_channel(STEPS_AHEAD);
    let mut report = ExportReport::default();
    std::thread::scope(|scope| {
        let workers = threads::start(scope, threads, || {
            let (image, tickets) = (tree.image(), Arc::clone(&tickets));
            move || decode_ahead::work(image, &tickets)
        });
        let no_thread = Error::io::<io::Error>("start", "a thread");
        if workers.is_empty() {
            return Err(no_thread(io::ErrorKind::WouldBlock.into()));
        }
        // The workers hold the last references: when all workers are gone, nobody waits for a
        // ticket.
        drop(tickets);
        let keeps = archive.keeps();
        let walk = move || {
            let walk = Walk {
                tree,
                options,
                keeps,
                first_names: HashMap::new(),
                given: HashSet::new(),
                name_counts: None,
            };
            walk.run(asker, &to_writer);
        };
        threads::start_one(scope, walk).map_err(no_thread)?;
        let result = write(&mut *archive, &steps, options, progress, &mut report);
        // The walk ends when its steps have no receiver.
        drop(steps);
        result
    })?;
    archive.finish().map_err(cannot_write)?;
    if options.patterns.unmatched().next().is_some() {
        let patterns: Vec<String> =
            options.patterns.unmatched().map(|p| format!("`{}`", p.escape_ascii())).collect();
        return Err(Error::NoMatch { patterns: patterns.join(", ") });
    }
    Ok(report)
}

pub(super) fn cannot_write(error: io::Error) -> Error {
    Error::io("write", "the output")(error)
}

fn write(
    archive: &mut dyn Archive,
    steps: &Receiver<Step>,
    options: &ExportOptions,
    progress: &dyn Progress,
    report: &mut ExportReport,
) -> Result<(), Error> {
    let zeroes = vec![0; 256 << 10];
    let mut is_taken = true;
    let mut current = Vec::new();
    let keeps_links = archive.keeps().hard_links;
    // For inodes with several names that were left out, why.
    let mut inodes_left_out: HashMap<u64, Vec<String>> = HashMap::new();
    while let Ok(step) = steps.recv() {
        options.cancel.check()?;
        match step {
            Step::Failed(error) => return Err(error),
            Step::Entry(entry) => {
                let inode = entry.attributes.inode;
                let is_link = keeps_links && entry.hard_link.is_some();
                let taken = match inodes_left_out.get(&inode).filter(|_| is_link) {
                    // A hard link to an entry that was left out would dangle.
                    Some(lost) => Taken { is_in: false, lost: lost.clone(), is_rounded: false },
                    None => archive.entry(&entry.for_archive()).map_err(cannot_write)?,
                };
                if !taken.is_in && entry.link_count > 1 && entry.hard_link.is_none() {
                    inodes_left_out.insert(inode, taken.lost.clone());
                }
                current.clone_from(&entry.path);
                is_taken = taken.is_in;
                report.entries += u64::from(is_taken);
                if is_taken && entry.hard_link.is_none() {
                    report.file_bytes += entry.metadata.len;
                }
                report.rounded_count += u64::from(is_taken && taken.is_rounded);
                if !taken.lost.is_empty() {
                    report.left_out_count += 1;
                    if report.left_out.len() < LEFT_OUT_MAX {
                        report.left_out.push((entry.path, taken.lost.join("; ")));
                    }
                }
            }
            Step::Frame(ticket, range, offset) if is_taken => {
                let bytes = ticket.wait().map_err(|error| {
                    let path = current.escape_ascii();
                    Error::Read(error.at(format!("{path}, at its offset {offset}")))
                })?;
                let bytes = bytes.get(range).unwrap_or_default();
                archive.data(bytes).map_err(cannot_write)?;
                progress.done(0, bytes.len() as u64);
            }
            Step::Zeroes(len) if is_taken => {
                let mut left = len;
                while left > 0 {
                    options.cancel.check()?;
                    let len = left.min(zeroes.len() as u64);
                    archive.data(&zeroes[..len as usize]).map_err(cannot_write)?;
                    left -= len;
                }
                progress.done(0, len);
            }
            Step::End if is_taken => {
                archive.end_entry().map_err(cannot_write)?;
                progress.done(1, 0);
            }
            Step::Frame(..) | Step::Zeroes(_) | Step::End => {}
        }
    }
    Ok(())
}
