//! Compares a copied image with its sources, without decoding frames.
//!
//! A frame decodes to the same bytes as in the source if its stored bytes, its record and the
//! frames that it refers to are the same; a file is the same if its parts lie at the same places of
//! the same frames. All of this is read back and compared, and so are the trees
//! ([`crate::verify`]). What a source stores wrongly under valid checksums is copied as it is:
//! `check` finds it, as it decodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shale_codec::xxh3_64;
use shale_format::{ChunkRecord, FrameRecord};
use shale_host::{Progress, thread_count, threads};
use shale_read::{Image, PieceKind, ReadError};
use shale_write::CopiedPlace;

use super::copier::Plan;
use crate::error::Error;
use crate::options::CreateOptions;
use crate::verify::{fail, unreadable};

/// Frames, chunks or contents that a thread compares at a time.
const RUN: u64 = 64;
/// Bytes of neighbouring frames that are read at once.
const BYTES_READ_MAX: u64 = 1 << 20;

/// Why an image is not a copy.
enum Difference {
    Found(String),
    Unreadable(ReadError),
}

impl From<ReadError> for Difference {
    fn from(error: ReadError) -> Self {
        Self::Unreadable(error)
    }
}

/// Compares frames, chunks and contents of `image` with what was to be copied, with several
/// threads. Returns the bytes of the contents.
///
/// # Errors
/// [`Error::Verify`] if anything differs or cannot be read; cancellation.
pub(super) fn compare(
    plan: &Plan<'_>,
    image: &Arc<Image>,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<u64, Error> {
    let counts = [
        ("frames", image.frame_count(), plan.frame_count()),
        ("chunks", image.chunk_count(), plan.chunk_count()),
        ("contents", image.content_count(), plan.content_count() + 1),
    ];
    for (what, found, expected) in counts {
        if found != expected {
            return fail(format!("it has {found} {what}, {expected} were written"));
        }
    }
    progress.found(plan.content_count(), 0);
    let bytes = AtomicU64::new(0);
    let compared = Compared { plan, image, options, failure: Mutex::new(None) };
    compared.in_runs(0..plan.frame_count(), |run| compared.frames(run))?;
    compared.in_runs(0..plan.chunk_count(), |run| {
        for chunk in run {
            let expected = ChunkRecord { base: 0, ..plan.chunk(chunk)? };
            if (ChunkRecord { base: 0, ..image.chunk_record(chunk)? }) != expected {
                return Err(Difference::Found(format!("chunk {chunk} is not that of its source")));
            }
        }
        Ok(())
    })?;
    compared.in_runs(1..plan.content_count() + 1, |run| {
        let count = run.end - run.start;
        for content in run {
            bytes.fetch_add(compared.content(content)?, Ordering::Relaxed);
        }
        progress.done(count, 0);
        Ok(())
    })?;
    Ok(bytes.into_inner())
}

struct Compared<'a> {
    plan: &'a Plan<'a>,
    image: &'a Arc<Image>,
    options: &'a CreateOptions,
    failure: Mutex<Option<Difference>>,
}

impl Compared<'_> {
    /// Calls `work` with runs of `all`, with several threads.
    fn in_runs(
        &self,
        all: std::ops::Range<u64>,
        work: impl Fn(std::ops::Range<u64>) -> Result<(), Difference> + Sync,
    ) -> Result<(), Error> {
        let next = AtomicU64::new(all.start);
        let worker = || {
            loop {
                let first = next.fetch_add(RUN, Ordering::Relaxed);
                if first >= all.end || self.options.cancel.is_cancelled() {
                    return;
                }
                if let Err(difference) = work(first..(first + RUN).min(all.end)) {
                    next.store(all.end, Ordering::Relaxed);
                    let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                    failure.get_or_insert(difference);
                }
            }
        };
        threads::run(thread_count(self.options.build.threads), worker);
        self.options.cancel.check()?;
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            None => Ok(()),
            Some(Difference::Found(what)) => fail(what),
            Some(Difference::Unreadable(error)) => Err(unreadable(error)),
        }
    }

    /// Compares frames: records, references and stored bytes.
    fn frames(&self, run: std::ops::Range<u64>) -> Result<(), Difference> {
        // Neighbours in the file, which are read at once.
        let mut together: Vec<(u64, FrameRecord)> = Vec::new();
        let mut end = 0;
        for next in self.image.frame_records(run) {
            let (frame, record) = next?;
            self.frame(frame, &record)?;
            let start = together.first().map_or(0, |(_, first)| first.stored_offset);
            if record.stored_offset != end
                || (record.stored_offset + record.stored_len) - start > BYTES_READ_MAX
            {
                self.stored(&together)?;
                together.clear();
            }
            end = record.stored_offset + record.stored_len;
            together.push((frame, record));
        }
        self.stored(&together)
    }

    /// Compares a record and its references with those of the source.
    fn frame(&self, frame: u64, found: &FrameRecord) -> Result<(), Difference> {
        let (expected, references) = self.plan.frame(frame)?;
        let same = FrameRecord {
            plain_start: found.plain_start,
            stored_offset: found.stored_offset,
            reference_first: found.reference_first,
            depth: found.depth,
            ..expected
        };
        if *found != same {
            return Err(Difference::Found(format!("frame {frame} is not that of its source")));
        }
        let referred = self.image.references(found)?;
        if referred.frames() != references {
            return Err(Difference::Found(format!("frame {frame} refers to other frames")));
        }
        for &reference in referred.frames() {
            if self.image.frame_record(reference)?.depth >= found.depth {
                return Err(Difference::Found(format!("frame {frame} refers to a deeper one")));
            }
        }
        Ok(())
    }

    /// Compares the stored bytes of neighbouring frames with their sums.
    fn stored(&self, together: &[(u64, FrameRecord)]) -> Result<(), Difference> {
        let (Some((_, first)), Some((_, last))) = (together.first(), together.last()) else {
            return Ok(());
        };
        // At most one frame, or the bytes that are read at once; the reader has checked both.
        let len = last.stored_offset + last.stored_len - first.stored_offset;
        let mut bytes = vec![0; len as usize];
        self.image.read_stored(first.stored_offset, &mut bytes)?;
        let mut rest = &bytes[..];
        for (frame, record) in together {
            let (stored, after) = rest.split_at(record.stored_len as usize);
            if xxh3_64(stored) != record.stored_sum {
                return Err(Difference::Found(format!(
                    "frame {frame} was not written as it was read"
                )));
            }
            rest = after;
        }
        Ok(())
    }

    /// Compares where the parts of a content lie. Returns its length.
    fn content(&self, content: u64) -> Result<u64, Difference> {
        let mut expected = Parts::default();
        self.plan.content(content, &mut |len, place| expected.push(len, place))?;
        let mut found = Parts::default();
        for piece in self.image.pieces(content, 0..u64::MAX)? {
            let piece = piece?;
            let place = match piece.kind {
                PieceKind::Zero => CopiedPlace::Zero,
                PieceKind::Hole => CopiedPlace::Hole,
                PieceKind::Frame { frame, frame_offset } => {
                    CopiedPlace::Frame { frame, offset: frame_offset }
                }
                PieceKind::Rebuilt { chunk, chunk_offset } => {
                    CopiedPlace::Rebuilt { chunk, offset: chunk_offset }
                }
            };
            found.push(piece.len, place);
        }
        match found.0 == expected.0 {
            true => Ok(found.0.iter().map(|(len, _)| len).sum()),
            false => Err(Difference::Found(format!("content {content} is not that of its source"))),
        }
    }
}

/// The parts of a content. Those that continue each other are one, as extents may be cut otherwise.
#[derive(Default)]
struct Parts(Vec<(u64, CopiedPlace)>);

impl Parts {
    fn push(&mut self, len: u64, place: CopiedPlace) {
        use CopiedPlace::{Frame, Hole, Rebuilt, Zero};
        if let Some((last_len, last)) = self.0.last_mut() {
            let continues = match (*last, place) {
                (Zero, Zero) | (Hole, Hole) => true,
                (Frame { frame, offset }, Frame { frame: next, offset: at }) => {
                    frame == next && offset.checked_add(*last_len) == Some(at)
                }
                (Rebuilt { chunk, offset }, Rebuilt { chunk: next, offset: at }) => {
                    chunk == next && offset.checked_add(*last_len) == Some(at)
                }
                _ => false,
            };
            if continues {
                *last_len += len;
                return;
            }
        }
        self.0.push((len, place));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use shale_host::{NoProgress, Output};
    use shale_read::{MemorySource, SnapshotChoice};

    use super::super::numbers::{Needed, Offsets};
    use super::*;
    use shale_source::{Input, copied};

    /// Packs two files with these bytes.
    fn packed(folder: &Path, name: &str, files: [&[u8]; 2]) -> Vec<u8> {
        let (source, path) = (folder.join(name), folder.join(format!("{name}.shale")));
        std::fs::create_dir(&source).unwrap();
        for (name, bytes) in ["a", "b"].iter().zip(files) {
            std::fs::write(source.join(name), bytes).unwrap();
        }
        let mut options = CreateOptions::default();
        options.build.level = 1;
        let output = Output::Path(path.clone());
        crate::create::create(&[Input::new(&source)], output, &options, &NoProgress).unwrap();
        std::fs::read(path).unwrap()
    }

    fn open(bytes: &[u8]) -> Arc<Image> {
        let options = shale_read::Options::default();
        Image::open(Arc::new(MemorySource::new(bytes.to_vec())), options).unwrap()
    }

    /// Compares `copy` as if it had been made of `source`.
    fn judge(source: &[u8], copy: &[u8]) -> Result<u64, String> {
        let images = [open(source)];
        let offsets = Offsets::new(&images);
        let mut needed = Needed::new(&offsets);
        let tree = images[0].tree(&SnapshotChoice::Newest).unwrap();
        let options = CreateOptions::default();
        let mut entries = copied(tree, b"", 0, None).unwrap();
        needed.walk(&mut *entries, &options.cancel).unwrap();
        let plan = Plan::new(&images, (&offsets, needed), "", &options, &NoProgress).unwrap();
        compare(&plan, &open(copy), &options, &NoProgress).map_err(|error| error.to_string())
    }

    #[test]
    fn a_copy_that_is_not_that_of_its_source_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let text = |letter: u8, len: usize| vec![letter; len];
        let a = text(b'a', 5000);
        let source = packed(place, "source", [&a, b"other"]);
        assert_eq!(judge(&source, &source), Ok(5005));
        let refused = |name: &str, files: [&[u8]; 2], part: &str| {
            let said = judge(&source, &packed(place, name, files)).unwrap_err();
            assert!(said.contains(part), "{name}: {said}");
        };
        refused("bytes", [&text(b'b', 5000), b"other"], "frame 0");
        refused("one", [&a, &a], "contents");
        // The same bytes in one frame, but divided otherwise.
        let mut longer = a.clone();
        longer.push(b'o');
        refused("lengths", [&longer, b"ther"], "content 1");
        // A byte that changed after it was hashed.
        let image = open(&source);
        let at = image.frame_record(0).unwrap().stored_offset as usize;
        let mut damaged = source.clone();
        damaged[at] ^= 1;
        let said = judge(&source, &damaged).unwrap_err();
        assert!(said.contains("frame 0 was not written as it was read"), "{said}");
    }

    #[test]
    fn parts_that_continue_each_other_are_one() {
        let mut parts = Parts::default();
        let frame = |frame, offset| CopiedPlace::Frame { frame, offset };
        for (len, place) in [
            (5, frame(1, 0)),
            (3, frame(1, 5)),
            (2, frame(2, 8)),
            (1, CopiedPlace::Hole),
            (1, CopiedPlace::Hole),
            (1, CopiedPlace::Zero),
            (4, frame(2, 0)),
            (4, frame(2, 5)),
        ] {
            parts.push(len, place);
        }
        let expected = [
            (8, frame(1, 0)),
            (2, frame(2, 8)),
            (2, CopiedPlace::Hole),
            (1, CopiedPlace::Zero),
            (4, frame(2, 0)),
            (4, frame(2, 5)),
        ];
        assert_eq!(parts.0, expected);
    }
}
