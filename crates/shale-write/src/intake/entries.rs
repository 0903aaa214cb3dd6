//! Takes entries in, one after the other, in the order of the source.
//!
//! Small contents and the first bytes of large ones are read ahead by the threads. Here they are
//! waited for in order and given to the [`ContentWriter`], which reads the rest of large ones.
//! Entries that cannot be read are noted. If the options do not allow an image without them, no
//! more contents are read, but the remaining files are still opened, so that the error names all
//! of them at once.

use std::collections::VecDeque;
use std::io::{Cursor, Read};
use std::ops::Range;

use shale_model::{
    Change, Content, EntrySource, Metadata, OpenContent, Problem, ProblemKind, SourceEntry,
};

use crate::content::read::{
    ReadFailure, SMALL_LEN_MAX, SmallContent, first_bytes, probe, read_sequence, read_small,
    small_content,
};
use crate::exec::build::{Build, Env};
use crate::exec::pool::{Ticket, Urgency};
use crate::intake::contents::ContentWriter;
use crate::intake::large::{FIRST_LEN, Opened, open_large};
use crate::intake::outcome::Outcome;
use crate::intake::sketched::sketched;
use crate::intake::treatment::Treatment;
use crate::output::emitter::Emitter;
use crate::plan::budget::READ_AHEAD_BYTES;
use crate::plan::error::WriteError;
use crate::plan::report::{Report, Stage};
use crate::recompress::container::SNIFF_LEN;
use crate::recompress::take_apart::may_hold_streams;
use crate::tree::builder::{Added, TreeBuilder};
use crate::tree::links::InodeSlot;

/// Entries so far.
pub(crate) struct Intake<'env> {
    build: Build<'env>,
    pub(crate) tree: TreeBuilder<'env>,
    pub(crate) contents: ContentWriter<'env>,
    pending: VecDeque<Pending>,
    pending_bytes: u64,
    problems: Vec<Problem>,
    /// How many of the problems were looked at, and whether one of them allows no image.
    judged: (usize, bool),
    changes: Vec<Change>,
    /// Entries taken in that progress was not told of.
    untold: u64,
}

/// A regular file whose turn has not come.
struct Pending {
    inode: InodeSlot,
    path: Vec<u8>,
    /// What it counts of the bytes read ahead.
    bytes: u64,
    treatment: Treatment,
    work: Work,
}

enum Work {
    /// Read whole by a thread.
    Small(Ticket<SmallResult>),
    /// Opened by a thread, with its first bytes; the rest is read when its turn comes.
    Large(Ticket<(Box<dyn OpenContent>, Result<Opened, ProblemKind>)>),
    /// Only opened, as there will be no image.
    Probe(Ticket<Result<(), ProblemKind>>),
}

/// What a thread made of a small file.
enum SmallResult {
    /// Its content.
    Read(Box<SmallContent>),
    /// It became large since it was listed: read it as a large one.
    Large(Box<dyn OpenContent>),
    /// It could not be read.
    Failed(ProblemKind),
}

/// Reads a file that is small, or that may hold streams.
fn read_whole_file(
    env: &Env<'_>,
    file: Box<dyn OpenContent>,
    len: u64,
    treatment: Treatment,
) -> SmallResult {
    let mut len_max = SMALL_LEN_MAX;
    if len > SMALL_LEN_MAX {
        match first_bytes(&*file, SNIFF_LEN) {
            Ok(first) if may_hold_streams(&first) => {
                len_max = env.whole_len_max(treatment.recompress);
            }
            // Whatever is wrong is reported when it is read.
            _ => return SmallResult::Large(file),
        }
    }
    match read_small(&*file, len_max, env.patience(), &|| env.is_cancelled()) {
        Ok(content) => SmallResult::Read(Box::new(sketched(env, content, treatment))),
        Err(ReadFailure::Large) => SmallResult::Large(file),
        Err(ReadFailure::Problem(kind)) => SmallResult::Failed(kind),
    }
}

/// Entries after which progress is told.
const UNTOLD_MAX: u64 = 1024;
/// Most files read ahead of their turn.
const PENDING_COUNT_MAX: usize = 512;
/// Most further names of files read ahead of their turn.
const NAMES_WAITING_MAX: usize = 4096;

impl<'env> Intake<'env> {
    /// No entries. Frames go to `emitter`.
    pub(crate) fn new(build: Build<'env>, emitter: Emitter<'env>) -> Self {
        Self {
            tree: TreeBuilder::new(build.clone()),
            contents: ContentWriter::new(build.clone(), emitter),
            pending: VecDeque::new(),
            pending_bytes: 0,
            problems: Vec::new(),
            judged: (0, false),
            changes: Vec::new(),
            untold: 0,
            build,
        }
    }

    /// Takes in every entry that `source` yields, and ends the contents. Adds to `report` which
    /// entries were left out.
    ///
    /// # Errors
    /// [`WriteError::Unreadable`] where entries were left out and the options do not allow it, and
    /// all others.
    pub(crate) fn run(
        &mut self,
        source: &mut dyn EntrySource,
        report: &mut Report,
    ) -> Result<(), WriteError> {
        self.problems.append(&mut source.take_problems());
        let mut next = source.next_entry()?;
        while let Some(entry) = &next {
            self.build.check_cancel()?;
            match self.tree.add(entry)? {
                // True of most entries of a large tree; they are moved no further.
                Added::Whole => self.count_whole()?,
                Added::NeedsContent(inode) => {
                    if let Some(entry) = next.take() {
                        self.take_content(entry, inode)?;
                    }
                }
                Added::Refused(kind) => {
                    self.problems.push(Problem { path: entry.path.clone(), kind });
                }
            }
            next = source.next_entry()?;
        }
        self.problems.append(&mut source.take_problems());
        report.warnings = source.take_warnings();
        self.settle_all()?;
        self.build.progress().done(std::mem::take(&mut self.untold), 0);
        let is_doomed = self.is_doomed();
        self.problems.sort_by(|a, b| a.path.cmp(&b.path));
        self.changes.sort_by(|a, b| a.path.cmp(&b.path));
        report.changes = std::mem::take(&mut self.changes);
        report.problems = std::mem::take(&mut self.problems);
        if is_doomed {
            return Err(WriteError::Unreadable(std::mem::take(&mut report.problems)));
        }
        Ok(())
    }

    /// Returns whether there will be no image.
    fn is_doomed(&mut self) -> bool {
        let (seen, is_doomed) = self.judged;
        let options = self.build.options();
        let is_doomed = is_doomed || self.problems[seen..].iter().any(|p| options.is_fatal(p));
        self.judged = (self.problems.len(), is_doomed);
        is_doomed
    }

    /// Counts an entry that needs nothing more.
    fn count_whole(&mut self) -> Result<(), WriteError> {
        self.untold += 1;
        if self.untold == UNTOLD_MAX {
            self.build.progress().done(std::mem::take(&mut self.untold), 0);
        }
        if self.tree.names_waiting() > NAMES_WAITING_MAX {
            self.settle_all()?;
        }
        Ok(())
    }

    /// Begins to read the content of an entry, or reads it if it can be read only now.
    fn take_content(&mut self, entry: SourceEntry, inode: InodeSlot) -> Result<(), WriteError> {
        let SourceEntry { path, metadata, content, .. } = entry;
        let env = self.build.env;
        let treatment = Treatment::of(env, &path);
        let whole_len_max = env.whole_len_max(treatment.recompress);
        let mut bytes = metadata.len.min(whole_len_max);
        let work = match content {
            Content::Held(content) => {
                let outcome = self.contents.held(metadata, content)?;
                return self.settle(inode, path, outcome);
            }
            Content::None => {
                let kind = ProblemKind::Unreadable("its content is missing".to_owned());
                return self.leave_out(inode, path, kind);
            }
            Content::File(file) if self.is_doomed() => {
                Work::Probe(self.build.submit(Urgency::Urgent, Stage::Read, move |_| probe(&*file)))
            }
            Content::File(file) if metadata.len > whole_len_max => {
                bytes = FIRST_LEN;
                Work::Large(self.build.submit(Urgency::Urgent, Stage::Read, move |_| {
                    let opened = open_large(env, &*file, treatment);
                    (file, opened)
                }))
            }
            Content::File(file) => {
                Work::Small(self.build.submit(Urgency::Urgent, Stage::Read, move |_| {
                    read_whole_file(env, file, metadata.len, treatment)
                }))
            }
            Content::Bytes(bytes) => self.digest(metadata, bytes, Vec::new(), treatment),
            Content::Reader { mut reader, holes } if metadata.len <= SMALL_LEN_MAX => {
                match read_sequence(&mut *reader, metadata.len, &holes) {
                    Ok(bytes) => self.digest(metadata, bytes, holes, treatment),
                    Err(error) => return self.leave_out(inode, path, ProblemKind::of(&error)),
                }
            }
            Content::Reader { mut reader, holes } => {
                let mut first = Vec::new();
                if metadata.len <= whole_len_max && holes.is_empty() {
                    let len = SNIFF_LEN as u64;
                    if let Err(error) = reader.by_ref().take(len).read_to_end(&mut first) {
                        return self.leave_out(inode, path, ProblemKind::of(&error));
                    }
                }
                let mut reader = Cursor::new(first).chain(reader);
                if may_hold_streams(reader.get_ref().0.get_ref()) {
                    let read = read_sequence(&mut reader, metadata.len, &holes);
                    let work = match read {
                        Ok(bytes) => self.digest(metadata, bytes, holes, treatment),
                        Err(error) => return self.leave_out(inode, path, ProblemKind::of(&error)),
                    };
                    return self.wait_for(Pending { inode, path, bytes, treatment, work });
                }
                let reader = Box::new(reader);
                // It is gone with the next entry, and its bytes come after those of the others.
                self.settle_all()?;
                self.contents.treat(treatment);
                let outcome = self.contents.large_reader(metadata, reader, holes)?;
                return self.settle(inode, path, outcome);
            }
        };
        self.wait_for(Pending { inode, path, bytes, treatment, work })
    }

    /// Puts a file among those whose turn has not come, and settles the oldest ones.
    fn wait_for(&mut self, file: Pending) -> Result<(), WriteError> {
        self.pending_bytes += file.bytes;
        self.pending.push_back(file);
        while self.pending_bytes > READ_AHEAD_BYTES
            || self.pending.len() > PENDING_COUNT_MAX
            || self.pending.front().is_some_and(|oldest| oldest.work.is_ready())
        {
            self.settle_oldest()?;
        }
        Ok(())
    }

    /// Lets a thread digest a content that is in memory.
    fn digest(
        &self,
        metadata: Metadata,
        bytes: Vec<u8>,
        holes: Vec<Range<u64>>,
        treatment: Treatment,
    ) -> Work {
        let env = self.build.env;
        Work::Small(self.build.submit(Urgency::Urgent, Stage::Read, move |_| {
            let content = small_content(metadata, bytes, holes);
            SmallResult::Read(Box::new(sketched(env, content, treatment)))
        }))
    }

    fn settle_all(&mut self) -> Result<(), WriteError> {
        while !self.pending.is_empty() {
            self.settle_oldest()?;
        }
        Ok(())
    }

    /// Waits for the oldest pending file and stores its content.
    fn settle_oldest(&mut self) -> Result<(), WriteError> {
        let Some(pending) = self.pending.pop_front() else {
            return Ok(());
        };
        self.build.check_cancel()?;
        self.pending_bytes -= pending.bytes;
        self.contents.treat(pending.treatment);
        let outcome = match pending.work {
            Work::Probe(ticket) => match self.build.wait(&ticket) {
                // There will be no image, so its content is not needed.
                Ok(()) => return Ok(()),
                Err(kind) => Outcome::LeftOut(kind),
            },
            Work::Small(ticket) => {
                let result = self.build.wait(&ticket);
                self.build.check_cancel()?;
                match result {
                    SmallResult::Read(content) => self.contents.small(*content)?,
                    SmallResult::Large(file) => self.contents.large(&*file, None)?,
                    SmallResult::Failed(kind) => Outcome::LeftOut(kind),
                }
            }
            Work::Large(_) if self.is_doomed() => return Ok(()),
            Work::Large(ticket) => {
                let (file, opened) = self.build.wait(&ticket);
                self.contents.large(&*file, Some(opened))?
            }
        };
        self.settle(pending.inode, pending.path, outcome)
    }

    fn settle(
        &mut self,
        inode: InodeSlot,
        path: Vec<u8>,
        outcome: Outcome,
    ) -> Result<(), WriteError> {
        match outcome {
            Outcome::Stored(metadata, content_id, change) => {
                if let Some(kind) = change {
                    self.changes.push(Change { path: path.clone(), kind });
                }
                self.contents.note_path(content_id, &path);
                let digest = self.contents.digest(content_id);
                self.tree.set_content(inode, &metadata, content_id, &digest)?;
                self.build.progress().done(1, 0);
                Ok(())
            }
            Outcome::LeftOut(kind) => self.leave_out(inode, path, kind),
        }
    }

    /// Names every entry of an inode that is left out, not only the first.
    fn leave_out(
        &mut self,
        inode: InodeSlot,
        path: Vec<u8>,
        kind: ProblemKind,
    ) -> Result<(), WriteError> {
        for path in self.tree.leave_out(inode, &kind)? {
            self.problems.push(Problem { path, kind: kind.clone() });
        }
        self.problems.push(Problem { path, kind });
        Ok(())
    }
}

impl Work {
    /// Returns whether it can be settled without waiting.
    fn is_ready(&self) -> bool {
        match self {
            Self::Small(ticket) => ticket.is_ready(),
            Self::Probe(ticket) => ticket.is_ready(),
            Self::Large(ticket) => ticket.is_ready(),
        }
    }
}
