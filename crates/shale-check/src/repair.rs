//! Restores a damaged image into a new file.
//!
//! With parity, every leaf is compared with its hash and restored if possible. If all leaves are
//! restored, parity and trailer are written again, and the result is the original image, bit for
//! bit. Without parity, or if it is not enough, *salvage* restores the structures that lead to the
//! rest: a superblock, and a trailer for the newest intact root. Files whose frames are intact can
//! then be read. The damaged file is only read. The new one is checked completely before it gets
//! its name.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shale_codec::xxh3_64;
use shale_format::limits::PARITY_SECTIONS_MAX;
use shale_format::merkle::LEAF_LEN;
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_format::{SectionHeader, SectionType, Superblock, Trailer};
use shale_host::{Cancel, Existing, OutputFile, Phase, Progress, existing, thread_count};
use shale_read::files::{Bases, FilePlace, gather};
use shale_read::trust::parity::{
    LeafDamage, LeafStore, Parity, find, find_previous, read_available,
};
use shale_read::trust::salvage::{Remains, remains};
use shale_read::{ByteSource, FileSource, OffsetChoice};

use crate::check::{CheckOptions, CheckReport, check};
use crate::error::Error;
use crate::parity::ParityOutput;

/// Bytes copied at once.
const CHUNK_LEN: u64 = 1 << 20;

/// How to repair an image.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairOptions {
    /// Where the image begins in its file; `Auto` means at its start.
    pub offset: OffsetChoice,
    /// Where the base of a thin image is, besides the directory of that.
    pub bases: Bases,
    /// Keep what can be read if not everything can be restored.
    pub salvage: bool,
    /// Replace an existing output.
    pub overwrite: bool,
    /// Threads; 0 for one per processor.
    pub threads: usize,
    /// Cancels the run; nothing is left of the new file.
    pub cancel: Cancel,
}

impl RepairOptions {
    shale_host::setters! {
        offset: OffsetChoice,
        bases: Bases,
        salvage: bool,
        overwrite: bool,
        threads: usize,
        cancel: Cancel,
    }
}

/// What a repair did.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Bytes of the new file.
    pub image_bytes: u64,
    /// True if the image has parity that could be read.
    pub has_parity: bool,
    /// Damaged leaves that were restored.
    pub leaves_repaired: u64,
    /// Damaged bodies of parity that were computed again.
    pub bodies_repaired: u64,
    /// Damaged leaves that could not be restored; their bytes are as they were found.
    pub leaves_lost: u64,
    /// Damaged bytes after the protected image that were left out.
    pub bytes_left_out: u64,
    /// Structures that salvage reconstructed, in words.
    pub made_anew: Vec<String>,
    /// The check of the new file.
    pub check: CheckReport,
}

impl RepairReport {
    /// True if the new image has no problem.
    pub fn is_whole(&self) -> bool {
        self.check.is_clean()
    }
}

/// Repairs the image at `path` into the new file `output`. Of a thin image and its base, or of the
/// parts of an image, it makes one whole image.
///
/// # Errors
/// [`Error::Repair`] if not everything can be restored and salvage was not asked for,
/// [`Error::Salvage`] if no root is left. Nothing is left under the name of the output then.
pub fn repair(
    path: &Path,
    output: &Path,
    options: &RepairOptions,
    progress: &dyn Progress,
) -> Result<RepairReport, Error> {
    if existing(output)? == Existing::Stream {
        return Err(shale_host::Error::NotReplaceable { path: output.to_owned() }.into());
    }
    if existing(output)? == Existing::File && !options.overwrite {
        return Err(shale_host::Error::Exists { path: output.to_owned() }.into());
    }
    let first = FileSource::open(path).map_err(Error::io("open", path))?;
    let source = gather(Arc::new(first), &FilePlace::new(path), &options.bases)?.source;
    let (start, refused) = match options.offset {
        OffsetChoice::At(start) => (start, None),
        OffsetChoice::Auto => {
            let how = shale_read::Options::default().repair(false);
            match shale_read::Image::open(Arc::clone(&source), how) {
                Ok(image) => (image.offset(), None),
                Err(error) => (0, Some(error)),
            }
        }
    };
    let new = OutputFile::create(output)?;
    let mut repairer = Repairer {
        source,
        start,
        path,
        out: ParityOutput {
            file: new.file(),
            path: output.to_owned(),
            start,
            threads: thread_count(options.threads),
            cancel: options.cancel.clone(),
        },
        options,
        progress,
        report: RepairReport::default(),
    };
    repairer.run()?;
    let mut report = repairer.report;
    let again = new.file().try_clone().map_err(Error::io("read back", output))?;
    let again = FileSource::new(again).map_err(Error::io("read back", output))?;
    report.image_bytes = again.len();
    let how = CheckOptions::default()
        .offset(OffsetChoice::At(start))
        .threads(options.threads)
        .cancel(options.cancel.clone());
    report.check =
        check(Arc::new(again), &how, progress).map_err(|error| match (error, refused) {
            // The reader, which looks at the end of the file too, knows more about the cause.
            (Error::NotImage, Some(refused)) => Error::Read(refused),
            (error, _) => error,
        })?;
    if !report.check.is_clean() && !options.salvage {
        let what = match (report.has_parity, report.leaves_lost) {
            (false, _) => "it has no parity that could be read".to_owned(),
            (true, 0) => "parity says that it is whole, but the check does not; it was damaged \
                          before the parity was made"
                .to_owned(),
            (true, lost) => format!("{lost} damaged leaves are more than its parity can restore"),
        };
        return Err(Error::Repair { path: path.to_owned(), what });
    }
    new.sync()?;
    options.cancel.check()?;
    new.commit(options.overwrite)?;
    Ok(report)
}

struct Repairer<'a> {
    source: Arc<dyn ByteSource>,
    start: u64,
    path: &'a Path,
    out: ParityOutput<'a>,
    options: &'a RepairOptions,
    progress: &'a dyn Progress,
    report: RepairReport,
}

impl Repairer<'_> {
    fn run(&mut self) -> Result<(), Error> {
        self.progress.phase(Phase::Repair);
        let parity = find(&self.source, Some(self.start), None);
        let len = match &parity {
            Some(parity) => self.source.len().max(self.start + parity.image_len()),
            None => self.source.len(),
        };
        self.copy(len)?;
        if let Some(parity) = parity {
            self.report.has_parity = true;
            if self.restore(&parity)? {
                return self.behind(&parity);
            }
        }
        if self.options.salvage { self.salvage() } else { Ok(()) }
    }

    /// Copies what can be read; unreadable bytes become zeroes.
    fn copy(&self, len: u64) -> Result<(), Error> {
        let file = self.out.file;
        let io = |error| Error::io("write to", &self.out.path)(error);
        file.set_len(len).map_err(io)?;
        self.progress.found(0, self.source.len());
        let (mut at, mut buf) = (0, vec![0; CHUNK_LEN as usize]);
        while at < self.source.len() {
            self.options.cancel.check()?;
            let piece = (self.source.len() - at).min(CHUNK_LEN);
            let buf = &mut buf[..piece as usize];
            read_available(&self.source, at, buf);
            file.write_all_at(buf, at).map_err(io)?;
            at += piece;
            self.progress.done(0, piece);
        }
        Ok(())
    }

    /// Restores the leaves. If all are intact then, writes parity and trailer again and returns
    /// true.
    fn restore(&mut self, newest: &Parity) -> Result<bool, Error> {
        let io = |error| Error::io("repair into", &self.out.path)(error);
        let again = self.out.file.try_clone().map_err(io)?;
        let again = FileSource::new(again).map_err(io)?;
        let repaired = AtomicU64::new(0);
        let count = &mut |_| _ = repaired.fetch_add(1, Ordering::Relaxed);
        // A later section may restore what leads to the one before.
        let (mut parts, mut left) = (vec![newest.clone()], Vec::new());
        while let Some(part) = parts.get(left.len()) {
            let damage = self.repair_part(part, count)?;
            left.push(damage);
            if parts.len() < PARITY_SECTIONS_MAX {
                parts.extend(find_previous(&again, part));
            }
        }
        // A section whose leaves are whole can be written again, and leaves of the next with it.
        for at in (1..parts.len()).rev() {
            if left[at].leaves.is_empty() && !left[at - 1].leaves.is_empty() {
                self.out.write_section(parts[at].head(), self.progress)?;
                left[at - 1] = self.repair_part(&parts[at - 1], count)?;
            }
        }
        self.report.leaves_repaired = repaired.into_inner();
        let lost: BTreeSet<u64> = left.iter().flat_map(|damage| &damage.leaves).copied().collect();
        self.report.leaves_lost = lost.len() as u64;
        let is_incomplete = parts.last().is_some_and(|first| first.leaves().start > 0);
        if !lost.is_empty() || is_incomplete {
            return Ok(false);
        }
        self.report.bodies_repaired = left[0].bodies.len() as u64;
        // A reader that looks for the header of the old section first must not see the new one yet.
        self.out.write_section(newest.head(), self.progress)?;
        Ok(true)
    }

    /// Restores the leaves that a section protects. Returns the damage that is left.
    fn repair_part(&self, part: &Parity, count: &mut dyn FnMut(u64)) -> Result<LeafDamage, Error> {
        let mut store = FileStore { file: self.out.file, start: self.start };
        let damage = self.scan(part, &store)?;
        let Some(mut damage) = damage else { return Err(shale_host::Error::Cancelled.into()) };
        part.repair(&mut store, &mut damage, count)
            .map_err(|error| Error::io("repair into", &self.out.path)(error))?;
        Ok(damage)
    }

    fn scan(&self, parity: &Parity, store: &FileStore<'_>) -> Result<Option<LeafDamage>, Error> {
        let layout = parity.layout();
        let count = layout.protected_count() + layout.body_count;
        self.progress.found(0, count * LEAF_LEN);
        let flag = self.options.cancel.flag();
        let done = |len| self.progress.done(0, len);
        Ok(parity.scan(store, self.out.threads, &flag, &done))
    }

    /// Keeps what follows the protected image if it is a chain of complete sections that ends with
    /// a trailer; cuts off the rest.
    fn behind(&mut self, parity: &Parity) -> Result<(), Error> {
        let mut tag = [0; 8];
        tag.copy_from_slice(&parity.head().image_id[..8]);
        let tag = u64::from_le_bytes(tag);
        let end = self.source.len().saturating_sub(self.start);
        let mut keep = parity.image_len();
        let mut at = keep;
        while at < end {
            let Some(header) = self.whole_section(at, end, tag)? else { break };
            at = header.end();
            if header.section_type == SectionType::Trailer as u16 {
                keep = at;
            }
        }
        self.report.bytes_left_out = end.saturating_sub(keep);
        self.out
            .file
            .set_len(self.start + keep)
            .map_err(|error| Error::io("cut", &self.out.path)(error))
    }

    /// Returns the header at `at` if it and its payload are intact.
    fn whole_section(&self, at: u64, end: u64, tag: u64) -> Result<Option<SectionHeader>, Error> {
        let mut bytes = [0; SECTION_HEADER_LEN];
        if end - at < SECTION_HEADER_LEN as u64 {
            return Ok(None);
        }
        read_available(&self.source, self.start + at, &mut bytes);
        let Ok(header) = SectionHeader::decode(&bytes, at, tag, xxh3_64) else { return Ok(None) };
        if header.stored_len > end - header.payload_offset() {
            return Ok(None);
        }
        let (mut sum, mut from) = (shale_codec::Xxh3::new(), header.payload_offset());
        let mut buf = Vec::new();
        while from < header.end() {
            self.options.cancel.check()?;
            buf.resize((header.end() - from).min(CHUNK_LEN) as usize, 0);
            read_available(&self.source, self.start + from, &mut buf);
            sum.update(&buf);
            from += buf.len() as u64;
        }
        Ok((sum.sum_64() == header.payload_sum).then_some(header))
    }

    /// Restores the structures that lead to the rest.
    fn salvage(&mut self) -> Result<(), Error> {
        let again = self.out.file.try_clone().map_err(Error::io("read back", &self.out.path))?;
        let again = FileSource::new(again).map_err(Error::io("read back", &self.out.path))?;
        let again: Arc<dyn ByteSource> = Arc::new(again);
        let nothing = |what: &str| Error::Salvage { path: self.path.to_owned(), what: what.into() };
        let Some(found) = remains(&again, self.start) else {
            return Err(nothing("no section of an image is left in it"));
        };
        let Some(&(root_offset, root_section_len)) = found.roots.last() else {
            return Err(nothing(
                "no root is left, neither the newest nor its copy nor an older one; nothing says \
                 where the tables begin",
            ));
        };
        let superblock = self.superblock(&found)?;
        // Of the complete states, the newest counts.
        let end = again.len().saturating_sub(self.start);
        let leads = |trailer: &Trailer| {
            found.roots.iter().any(|(offset, _)| *offset == trailer.root_offset)
        };
        if found.trailers.last().is_some_and(|(_, last)| last.image_len == end && leads(last)) {
            return Ok(());
        }
        let (root_offset, root_section_len) = found
            .trailers
            .last()
            .filter(|(_, trailer)| leads(trailer) && trailer.root_offset > root_offset)
            .map_or((root_offset, root_section_len), |(_, trailer)| {
                (trailer.root_offset, trailer.root_section_len)
            });
        let trailer = Trailer {
            root_offset,
            root_section_len,
            image_len: end + TRAILER_SECTION_LEN as u64,
            previous_trailer_offset: found.trailers.last().map_or(0, |(offset, _)| *offset),
            section_count: found.sections.len() as u64,
            image_id: superblock.image_id,
            // The tree does not cover what is left.
            merkle_offset: 0,
        };
        let payload = trailer.encode();
        let header = SectionHeader {
            section_type: SectionType::Trailer as u16,
            codec: 0,
            offset: end,
            stored_len: payload.len() as u64,
            plain_len: payload.len() as u64,
            image_tag: superblock.image_tag(),
            payload_sum: xxh3_64(&payload),
        };
        let bytes = [&header.encode(xxh3_64)[..], &payload].concat();
        self.write(end, &bytes)?;
        self.report
            .made_anew
            .push(format!("a trailer that leads to the root at offset {root_offset}"));
        Ok(())
    }

    /// Returns the superblock, reconstructed if it is lost.
    fn superblock(&mut self, found: &Remains) -> Result<Superblock, Error> {
        if let Some(superblock) = found.superblock {
            return Ok(superblock);
        }
        let superblock = found.superblock();
        self.write(0, &superblock.encode(xxh3_64))?;
        self.report.made_anew.push("the superblock".to_owned());
        Ok(superblock)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.out
            .file
            .write_all_at(bytes, self.start + offset)
            .map_err(|error| Error::io("write to", &self.out.path)(error))
    }
}

/// The leaves of the new file.
struct FileStore<'f> {
    file: &'f File,
    start: u64,
}

impl LeafStore for FileStore<'_> {
    fn read(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        self.file.read_exact_at(buf, self.start + offset)
    }

    fn repaired(&mut self, _: u64, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all_at(bytes, self.start + offset)
    }
}
