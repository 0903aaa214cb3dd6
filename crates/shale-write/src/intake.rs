//! Takes entries in, one after the other, in the order of the source.
//!
//! Small contents are read ahead by the threads; here they are waited for in order, compared with
//! what is there already and put into the stream. Large ones are read here, in pieces. What cannot
//! be read is noted; if the options do not allow to pack without, nothing more is read after that,
//! but the rest is still opened, so that the error names everything at once.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use shale_format::Category;

use crate::budget::READ_AHEAD_BYTES;
use crate::categorize::category_of;
use crate::dedupe::{Contents, Identity};
use crate::extents::Place;
use crate::flow::{Env, Flow};
use crate::kin;
use crate::laying::{Laying, Order};
use crate::pool::{Pool, Ticket, Urgency};
use crate::progress::Phase;
use crate::read::{
    ATTEMPTS_MAX, Finished, LargeFile, LargePiece, LargeReader, PieceSource, ReadFailure, Run,
    SMALL_LEN_MAX, SmallContent, probe, read_sequence, read_small, small_content, split_runs,
};
use crate::scan::problem_kind;
use crate::segmenting::Segmenting;
use crate::shelf::{Laid, Shelf};
use crate::source::{Content, ContentFile, Metadata, OpenContent, SourceEntry};
use crate::temporary::temporary_file;
use crate::tree::{Added, InodeSlot, Tree};
use crate::{Problem, ProblemKind, Report, Source, WriteError};

/// The first half of a build: everything up to the last frame.
pub(crate) struct Intake<'env> {
    env: &'env Env<'env>,
    pub(crate) tree: Tree<'env>,
    pub(crate) contents: Contents,
    pub(crate) flow: Flow<'env>,
    segmenting: Option<Segmenting>,
    /// Contents that wait to be laid; `None` where they go into the stream at once.
    shelf: Option<Shelf>,
    pending: VecDeque<Pending>,
    pending_bytes: u64,
    problems: Vec<Problem>,
    /// Entries taken in that progress was not told of.
    untold: u64,
    pub(crate) report: Report,
}

/// A regular file whose turn has not come.
struct Pending {
    inode: InodeSlot,
    path: Vec<u8>,
    /// What it counts of the bytes read ahead.
    bytes: u64,
    work: Work,
}

enum Work {
    /// Read whole by a thread.
    Small(Ticket<SmallResult>),
    /// To be read here.
    Large(Box<dyn OpenContent>),
    /// Only opened, as there will be no image.
    Probe(Ticket<Result<(), ProblemKind>>),
}

/// The content, or why not; with what is needed to try otherwise.
type SmallResult = (Result<SmallContent, ReadFailure>, Option<Box<dyn OpenContent>>);

/// Entries after which progress is told.
const UNTOLD_MAX: u64 = 1024;
/// Most files read ahead of their turn.
const PENDING_COUNT_MAX: usize = 512;
/// Most further names of files read ahead of their turn.
const NAMES_WAITING_MAX: usize = 4096;

impl<'env> Intake<'env> {
    pub(crate) fn new(
        env: &'env Env<'env>,
        flow: Flow<'env>,
        segmenting: Option<Segmenting>,
    ) -> Self {
        Self {
            env,
            tree: Tree::new(env),
            contents: Contents::new(),
            flow,
            segmenting,
            shelf: env.plan.shelves.then(|| {
                let laying = Laying::new(env.plan.order, &env.options.first);
                Shelf::new(env.plan.shelf_bytes_max, env.options.temp_dir.clone(), laying)
            }),
            pending: VecDeque::new(),
            pending_bytes: 0,
            problems: Vec::new(),
            untold: 0,
            report: Report::default(),
        }
    }

    /// Takes everything in that `source` yields, and finishes all frames.
    pub(crate) fn run(
        &mut self,
        pool: &mut Pool<'env>,
        source: &mut dyn Source,
    ) -> Result<(), WriteError> {
        self.problems.append(&mut source.take_problems());
        let mut next = source.next_entry()?;
        while let Some(entry) = &next {
            self.env.options.check_cancel()?;
            // Most of a large forest is whole with that, and moved no further.
            match self.tree.add(pool, entry)? {
                Ok(Added::Whole) => self.whole(pool)?,
                added => {
                    if let Some(entry) = next.take() {
                        self.take(pool, entry, added)?;
                    }
                }
            }
            next = source.next_entry()?;
        }
        self.problems.append(&mut source.take_problems());
        while !self.pending.is_empty() {
            self.settle_oldest(pool)?;
        }
        self.env.progress.read(std::mem::take(&mut self.untold), 0);
        self.problems.sort_by(|a, b| a.path.cmp(&b.path));
        if self.is_doomed() {
            return Err(WriteError::Unreadable(std::mem::take(&mut self.problems)));
        }
        self.report.problems = std::mem::take(&mut self.problems);
        if let Some(shelf) = self.shelf.take() {
            self.env.progress.phase(Phase::Order);
            self.lay(pool, shelf)?;
        }
        self.flow.finish(pool, &self.contents)
    }

    /// Takes the contents from the shelf into the stream, in the order asked for.
    fn lay(&mut self, pool: &mut Pool<'env>, mut shelf: Shelf) -> Result<(), WriteError> {
        self.report.kin_contents = shelf.kin_count();
        self.report.contents_laid_first = shelf.listed_count();
        self.report.spool_bytes += shelf.file_len();
        let shelved = std::mem::take(&mut self.contents.extents);
        let order = shelf.order();
        let mut laid = Laid::default();
        let mut bytes = Vec::new();
        let hot = self.env.plan.hot.as_ref();
        let hot_count = hot.map_or(0, |_| self.report.contents_laid_first as usize);
        self.flow.begin_part(pool, hot_count > 0)?;
        for (place, &index) in order.iter().enumerate() {
            self.env.options.check_cancel()?;
            if place == hot_count {
                self.flow.begin_part(pool, false)?;
            }
            let item = shelf.item(index);
            let mut at = item.range().start;
            while at < item.range().end {
                shelf.read(&item, at, &mut bytes)?;
                at += bytes.len() as u64;
                self.data(pool, &bytes, item.content_len, item.category)?;
            }
            self.end_content(pool)?;
            laid.push(&item, &std::mem::take(&mut self.contents.extents));
        }
        laid.sort();
        self.contents.extents = shelved;
        let order: Vec<u32> = order.iter().map(|&index| shelf.item(index).content).collect();
        self.contents.reorder(&order, &laid);
        Ok(())
    }

    /// Whether there will be no image.
    fn is_doomed(&self) -> bool {
        !self.env.options.skip_unreadable && !self.problems.is_empty()
    }

    /// Counts an entry that needs nothing more.
    fn whole(&mut self, pool: &mut Pool<'env>) -> Result<(), WriteError> {
        self.untold += 1;
        if self.untold == UNTOLD_MAX {
            self.env.progress.read(std::mem::take(&mut self.untold), 0);
        }
        if self.tree.names_waiting() > NAMES_WAITING_MAX {
            while !self.pending.is_empty() {
                self.settle_oldest(pool)?;
            }
        }
        Ok(())
    }

    /// Sees to the content of an entry that the tree took in, or notes why it did not.
    fn take(
        &mut self,
        pool: &mut Pool<'env>,
        entry: SourceEntry,
        added: Result<Added, ProblemKind>,
    ) -> Result<(), WriteError> {
        let inode = match added {
            Ok(Added::Whole) => return self.whole(pool),
            Ok(Added::NeedsContent(inode)) => inode,
            Err(kind) => {
                self.problems.push(Problem { path: entry.path, kind });
                return Ok(());
            }
        };
        let SourceEntry { path, metadata, content, .. } = entry;
        let env = self.env;
        let bytes = metadata.len.min(SMALL_LEN_MAX);
        let work = match content {
            Content::None => {
                let kind = ProblemKind::Unreadable("its content is missing".to_owned());
                return self.leave_out(inode, path, kind);
            }
            Content::File(file) if self.is_doomed() => {
                Work::Probe(pool.submit(Urgency::Urgent, &env.leave, move |_| probe(&*file)))
            }
            Content::File(file) if metadata.len > SMALL_LEN_MAX => Work::Large(file),
            Content::File(file) => {
                Work::Small(pool.submit(Urgency::Urgent, &env.leave, move |_| {
                    let result = read_small(&*file, &|| env.is_cancelled());
                    (result.map(|content| sketched(env, content)), Some(file))
                }))
            }
            Content::Bytes(bytes) => small_work(pool, env, metadata, bytes, Vec::new()),
            Content::Reader { mut reader, holes } if metadata.len <= SMALL_LEN_MAX => {
                match read_sequence(&mut *reader, metadata.len, &holes) {
                    Ok(bytes) => small_work(pool, env, metadata, bytes, holes),
                    Err(error) => {
                        return self.leave_out(inode, path, problem_kind(&error));
                    }
                }
            }
            Content::Reader { reader, holes } => {
                // It is gone with the next entry, and its place in the stream is after the others.
                while !self.pending.is_empty() {
                    self.settle_oldest(pool)?;
                }
                let result = self.large_reader(pool, metadata, reader, holes)?;
                return self.settle(pool, inode, path, result);
            }
        };
        self.pending_bytes += bytes;
        self.pending.push_back(Pending { inode, path, bytes, work });
        while self.pending_bytes > READ_AHEAD_BYTES
            || self.pending.len() > PENDING_COUNT_MAX
            || self.pending.front().is_some_and(|oldest| match &oldest.work {
                Work::Small(ticket) => pool.is_ready(ticket),
                Work::Probe(ticket) => pool.is_ready(ticket),
                Work::Large(_) => false,
            })
        {
            self.settle_oldest(pool)?;
        }
        Ok(())
    }

    /// Waits for the oldest pending file and puts it where it belongs.
    fn settle_oldest(&mut self, pool: &mut Pool<'env>) -> Result<(), WriteError> {
        let Some(pending) = self.pending.pop_front() else {
            return Ok(());
        };
        self.env.options.check_cancel()?;
        self.pending_bytes -= pending.bytes;
        let result = match pending.work {
            Work::Probe(ticket) => match pool.wait(&ticket) {
                // The image will not be; the content need not be either.
                Ok(()) => return Ok(()),
                Err(kind) => Err(kind),
            },
            Work::Small(ticket) => {
                let (result, file) = pool.wait(&ticket);
                self.env.options.check_cancel()?;
                match (result, file) {
                    (Ok(content), _) => Ok(self.small(pool, content)?),
                    (Err(ReadFailure::Problem(kind)), _) => Err(kind),
                    (Err(ReadFailure::Large), Some(file)) => self.large(pool, &*file)?,
                    (Err(ReadFailure::Large), None) => Err(ProblemKind::Changed),
                }
            }
            Work::Large(_) if self.is_doomed() => return Ok(()),
            Work::Large(file) => self.large(pool, &*file)?,
        };
        self.settle(pool, pending.inode, pending.path, result)
    }

    fn settle(
        &mut self,
        pool: &mut Pool<'env>,
        inode: InodeSlot,
        path: Vec<u8>,
        result: Result<(Metadata, u64), ProblemKind>,
    ) -> Result<(), WriteError> {
        match result {
            Ok((metadata, content_id)) => {
                if let Some(shelf) = &mut self.shelf {
                    shelf.met(content_id, &path);
                }
                let digest = &self.contents.digests()[content_id as usize];
                self.tree.set_content(pool, inode, &metadata, content_id, digest)?;
                self.env.progress.read(1, 0);
            }
            Err(kind) => self.leave_out(inode, path, kind)?,
        }
        Ok(())
    }

    /// Names every entry that leads to an inode that is left out, not only the first.
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

    /// Puts a content that is in memory into the stream, unless it is there.
    fn small(
        &mut self,
        pool: &mut Pool<'env>,
        content: SmallContent,
    ) -> Result<(Metadata, u64), WriteError> {
        let len = content.bytes.len() as u64;
        self.report.files_read_again += content.read_again;
        self.env.progress.read(0, len);
        let metadata = Metadata { len, ..content.metadata };
        if len == 0 {
            return Ok((metadata, 0));
        }
        let identity = Identity { len, digest: content.digest, holes: &content.holes };
        if let Some(id) = self.find(&identity) {
            return Ok((metadata, id));
        }
        let base = self.contents.extents.end();
        let shelf_start = self.shelf.as_ref().map_or(0, Shelf::end);
        for run in &content.runs {
            match run {
                Run::Data(range) => {
                    self.data(pool, &content.bytes[range.clone()], len, content.category)?;
                }
                Run::Zero(len) => self.zeroes(pool, *len)?,
                Run::Hole(len) => self.hole(pool, *len)?,
            }
        }
        self.end_content(pool)?;
        let id = self.contents.push(content.digest, base);
        if let Some(shelf) = &mut self.shelf {
            shelf.end_content(shelf_start, id, len, content.category, &content.kin_sketch);
        }
        Ok((metadata, id))
    }

    fn find(&mut self, identity: &Identity) -> Option<u64> {
        let id = self.contents.find(identity)?;
        self.report.duplicate_files += 1;
        self.report.duplicate_bytes += identity.len;
        Some(id)
    }

    /// Reads a large file; only where one like it was met before, its bytes are read twice.
    fn large(
        &mut self,
        pool: &mut Pool<'env>,
        content: &dyn OpenContent,
    ) -> Result<Result<(Metadata, u64), ProblemKind>, WriteError> {
        for attempt in 0..ATTEMPTS_MAX {
            let mut file = match LargeFile::open(content) {
                Ok(file) => file,
                Err(kind) => return Ok(Err(kind)),
            };
            self.report.files_read_again += u64::from(attempt > 0);
            let metadata = file.metadata;
            if metadata.len <= SMALL_LEN_MAX {
                // It became small since it was listed.
                match read_small(content, &|| self.env.is_cancelled()) {
                    Ok(content) => {
                        let content = sketched(self.env, content);
                        return Ok(Ok(self.small(pool, content)?));
                    }
                    Err(ReadFailure::Problem(kind)) => return Ok(Err(kind)),
                    Err(ReadFailure::Large) => continue,
                }
            }
            match self.large_attempt(pool, &mut file)? {
                Ok(Some(id)) => {
                    return Ok(Ok((metadata, id)));
                }
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => return Ok(Err(problem_kind(&error))),
            }
        }
        Ok(Err(ProblemKind::Changed))
    }

    /// One reading of a large file; `None` if it changed meanwhile.
    fn large_attempt(
        &mut self,
        pool: &mut Pool<'env>,
        file: &mut LargeFile,
    ) -> Result<io::Result<Option<u64>>, WriteError> {
        let sample = match file.sample() {
            Ok(sample) => sample,
            Err(error) => return Ok(Err(error)),
        };
        let len = file.metadata.len;
        if self.contents.note_sample(len, sample) {
            let identity = match self.digest_only(file)? {
                Ok(Some(identity)) => identity,
                Ok(None) => return Ok(Ok(None)),
                Err(error) => return Ok(Err(error)),
            };
            let identity = Identity { len, digest: identity.0, holes: &identity.1 };
            if let Some(id) = self.find(&identity) {
                self.env.progress.read(0, len);
                return Ok(Ok(Some(id)));
            }
            file.rewind();
        }
        self.stream(pool, file, len)
    }

    /// Reads a file for its digest.
    fn digest_only(
        &mut self,
        file: &mut LargeFile,
    ) -> Result<io::Result<Option<Finished>>, WriteError> {
        loop {
            self.env.options.check_cancel()?;
            match file.next() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(file.finish()),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Puts a large content into the stream while it is read. If it turns out to have changed,
    /// what was put there stays, but nothing leads to it.
    fn stream(
        &mut self,
        pool: &mut Pool<'env>,
        pieces: &mut dyn PieceSource,
        len: u64,
    ) -> Result<io::Result<Option<u64>>, WriteError> {
        let base = self.contents.extents.end();
        let stream_start = self.flow.stream_len();
        let shelf_start = self.shelf.as_ref().map_or(0, Shelf::end);
        let mut sketcher = kin::Sketcher::default();
        let mut category = None;
        let mut runs = Vec::new();
        let finished = loop {
            self.env.options.check_cancel()?;
            match pieces.next() {
                Ok(Some(LargePiece::Data(bytes))) => {
                    let category = *category.get_or_insert_with(|| category_of(bytes));
                    if self.env.plan.order == Order::Similarity {
                        sketcher.push(bytes);
                    }
                    runs.clear();
                    split_runs(bytes, 0..bytes.len(), &mut runs);
                    for run in &runs {
                        match run {
                            Run::Data(range) => {
                                self.data(pool, &bytes[range.clone()], len, category)?;
                            }
                            Run::Zero(len) => self.zeroes(pool, *len)?,
                            Run::Hole(len) => self.hole(pool, *len)?,
                        }
                    }
                    self.env.progress.read(0, bytes.len() as u64);
                }
                Ok(Some(LargePiece::Hole(len))) => {
                    self.hole(pool, len)?;
                    self.env.progress.read(0, len);
                }
                Ok(None) => break pieces.finish(),
                Err(error) => break Err(error),
            }
        };
        self.end_content(pool)?;
        if let Ok(Some((digest, _))) = finished {
            let id = self.contents.push(digest, base);
            if let Some(shelf) = &mut self.shelf {
                let category = category.unwrap_or(Category::Generic);
                shelf.end_content(shelf_start, id, len, category, &sketcher.finish());
            }
            return Ok(Ok(Some(id)));
        }
        self.contents.extents.truncate(base);
        if let Some(shelf) = &mut self.shelf {
            shelf.truncate(shelf_start);
        }
        self.report.abandoned_bytes += self.flow.stream_len() - stream_start;
        Ok(finished.map(|_| None))
    }

    /// A large content that can be read only once. Where one of its length was met before, it goes
    /// through a temporary file, as whether it is new shows at its end.
    fn large_reader(
        &mut self,
        pool: &mut Pool<'env>,
        metadata: Metadata,
        reader: Box<dyn Read + Send>,
        holes: Vec<Range<u64>>,
    ) -> Result<Result<(Metadata, u64), ProblemKind>, WriteError> {
        let mut pieces = LargeReader::new(reader, metadata.len, holes);
        let result = if self.contents.has_large_len(metadata.len) {
            match self.copy_to_file(&mut pieces, metadata)? {
                Ok(file) => {
                    let mut file = LargeFile::of_file(Box::new(file), metadata);
                    self.large_attempt(pool, &mut file)?
                }
                Err(error) => Err(error),
            }
        } else {
            let result = self.stream(pool, &mut pieces, metadata.len)?;
            self.contents.note_sample(metadata.len, pieces.sample());
            result
        };
        Ok(match result {
            Ok(Some(id)) => Ok((metadata, id)),
            Ok(None) => Err(ProblemKind::Changed),
            Err(error) => Err(problem_kind(&error)),
        })
    }

    fn copy_to_file(
        &mut self,
        pieces: &mut LargeReader,
        metadata: Metadata,
    ) -> Result<io::Result<TemporaryContent>, WriteError> {
        let directory = self.env.options.temp_dir.as_deref();
        let mut file = temporary_file(directory).map_err(WriteError::Spool)?;
        loop {
            self.env.options.check_cancel()?;
            match pieces.next() {
                Ok(Some(LargePiece::Data(bytes))) => {
                    file.write_all(bytes).map_err(WriteError::Spool)?;
                }
                Ok(Some(LargePiece::Hole(len))) => {
                    file.seek(io::SeekFrom::Current(len as i64)).map_err(WriteError::Spool)?;
                }
                Ok(None) => break,
                Err(error) => return Ok(Err(error)),
            }
        }
        file.set_len(pieces.len()).map_err(WriteError::Spool)?;
        Ok(Ok(TemporaryContent { file, metadata, holes: pieces.holes().to_vec() }))
    }

    /// Data of a content of `content_len` bytes.
    fn data(
        &mut self,
        pool: &mut Pool<'env>,
        bytes: &[u8],
        content_len: u64,
        category: Category,
    ) -> Result<(), WriteError> {
        if let Some(shelf) = &mut self.shelf {
            let start = shelf.push(bytes)?;
            self.contents.extents.push(bytes.len() as u64, Place::Stream(start));
            return Ok(());
        }
        let may_split = content_len > SMALL_LEN_MAX;
        match &mut self.segmenting {
            None => {
                let offset = self.flow.push(pool, bytes, category, may_split)?;
                self.contents.extents.push(bytes.len() as u64, Place::Stream(offset));
                Ok(())
            }
            Some(segmenting) => segmenting.push(
                bytes,
                content_len,
                category,
                &mut self.flow,
                pool,
                &mut self.contents.extents,
            ),
        }
    }

    fn zeroes(&mut self, pool: &mut Pool<'env>, len: u64) -> Result<(), WriteError> {
        self.end_content(pool)?;
        self.contents.extents.push(len, Place::Zero);
        Ok(())
    }

    fn hole(&mut self, pool: &mut Pool<'env>, len: u64) -> Result<(), WriteError> {
        self.end_content(pool)?;
        self.contents.extents.push(len, Place::Hole);
        Ok(())
    }

    /// Ends what the segmenter holds back.
    fn end_content(&mut self, pool: &mut Pool<'env>) -> Result<(), WriteError> {
        match &mut self.segmenting {
            None => Ok(()),
            Some(segmenting) => segmenting.end(&mut self.flow, pool, &mut self.contents.extents),
        }
    }

    /// Adds what was counted here to the report.
    pub(crate) fn count(&mut self) {
        let report = &mut self.report;
        report.contents = self.contents.count() as u64;
        report.extents = self.contents.extents.row_count() as u64;
        self.contents.extents.visit(0, self.contents.extents.end(), |len, place| match place {
            Place::Hole => report.hole_bytes += len,
            Place::Zero => report.zero_bytes += len,
            Place::Stream(_) => {}
        });
        if let Some(segmenting) = &self.segmenting {
            (report.segments, report.segment_bytes) = segmenting.counts();
        }
        self.flow.report(report);
    }
}

/// Adds the kin sketch where the level uses it.
fn sketched(env: &Env<'_>, mut content: SmallContent) -> SmallContent {
    if env.plan.order == Order::Similarity {
        content.kin_sketch = kin::sketch_of(&content.bytes);
    }
    content
}

fn small_work<'env>(
    pool: &Pool<'env>,
    env: &'env Env<'env>,
    metadata: Metadata,
    bytes: Vec<u8>,
    holes: Vec<Range<u64>>,
) -> Work {
    Work::Small(pool.submit(Urgency::Urgent, &env.leave, move |_| {
        (Ok(sketched(env, small_content(metadata, bytes, holes))), None)
    }))
}

/// A content that came once and was copied to a file without a name.
struct TemporaryContent {
    file: File,
    metadata: Metadata,
    holes: Vec<Range<u64>>,
}

impl ContentFile for TemporaryContent {
    fn metadata(&mut self) -> io::Result<Metadata> {
        // Nobody else can change it.
        Ok(self.metadata)
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(out, offset)
    }

    fn data_after(&mut self, offset: u64, len: u64) -> io::Result<Option<Range<u64>>> {
        let mut start = offset;
        for hole in &self.holes {
            if hole.start > start {
                return Ok(Some(start..hole.start.min(len)));
            }
            start = start.max(hole.end);
        }
        Ok((start < len).then_some(start..len))
    }
}
