//! A source that is far away: what is asked for ahead, counted in reads that had to wait.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::assemble::{Draft, DraftFrame, inode, noise};
use shale_format::InodeKind;
use shale_read::{ByteSource, Image, MemorySource, Options, SnapshotChoice, Tree};

/// Frames of the draft, each with this many files.
const FRAMES: u64 = 300;
const FILES_PER_FRAME: u64 = 4;
const FILE_LEN: u64 = 1000;

/// Bytes in memory that are far: a read of what nobody asked for is a round trip.
struct Far {
    bytes: MemorySource,
    asked: Mutex<Vec<Range<u64>>>,
    waits: Mutex<Vec<Range<u64>>>,
}

impl Far {
    fn new(bytes: &[u8]) -> Self {
        Self { bytes: MemorySource::new(bytes), asked: Mutex::default(), waits: Mutex::default() }
    }

    /// Reads that had to wait since the last call, and bytes that were asked for ahead.
    fn cost(&self) -> (usize, u64) {
        let waits = std::mem::take(&mut *self.waits.lock().unwrap()).len();
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        (waits, asked.iter().map(|range| range.end - range.start).sum())
    }
}

impl ByteSource for Far {
    fn len(&self) -> u64 {
        self.bytes.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let range = offset..offset + buf.len() as u64;
        let is_asked = |asked: &Range<u64>| asked.start <= range.start && range.end <= asked.end;
        if !self.asked.lock().unwrap().iter().any(is_asked) {
            self.waits.lock().unwrap().push(range);
        }
        self.bytes.read_at(offset, buf)
    }

    fn is_far(&self) -> bool {
        true
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        self.asked.lock().unwrap().extend_from_slice(ranges);
    }
}

/// A directory of small files, each a content of its own, in the order of the frames.
fn small_files() -> Draft {
    let count = FRAMES * FILES_PER_FRAME;
    let mut draft = Draft::many_files(count);
    let frame_len = (FILES_PER_FRAME * FILE_LEN) as usize;
    draft.frames = (0..FRAMES).map(|n| DraftFrame::stored(noise(frame_len, n + 1))).collect();
    draft.contents = vec![0];
    draft.contents.extend((0..=count).map(|n| n * FILE_LEN));
    draft.extents = (0..count).map(|n| (n * FILE_LEN, n * FILE_LEN)).collect();
    draft.extents.push((count * FILE_LEN, 0));
    draft.inodes.truncate(1);
    draft.inodes.extend((0..count).map(|n| inode(InodeKind::File, n + 1)));
    draft
}

fn open(draft: &Draft) -> (Tree, Arc<Far>) {
    let far = Arc::new(Far::new(&draft.assemble()));
    let image = Image::open(Arc::clone(&far) as _, Options::default()).expect("opens");
    (image.tree(&SnapshotChoice::Newest).expect("a snapshot"), far)
}

fn read(tree: &Tree, file: u64) {
    let bytes = tree.read_to_vec(file + 2, 1 << 20).expect("reads");
    let frame = noise((FILES_PER_FRAME * FILE_LEN) as usize, file / FILES_PER_FRAME + 1);
    let at = (file % FILES_PER_FRAME * FILE_LEN) as usize;
    assert!(bytes == frame[at..at + FILE_LEN as usize]);
}

#[test]
fn files_that_are_read_one_after_the_other_are_asked_for_ahead() {
    let (tree, far) = open(&small_files());
    read(&tree, 0);
    far.cost();
    for file in 1..FRAMES * FILES_PER_FRAME {
        read(&tree, file);
    }
    let (waits, asked) = far.cost();
    // The first few files tell that there is a habit.
    assert!(waits <= 3, "{waits} reads had to wait");
    // By the walk, and by the first read of the frame: a source knows what is on its way.
    assert!(asked <= 2 * FRAMES * FILES_PER_FRAME * FILE_LEN, "{asked}");
}

#[test]
fn a_file_by_chance_asks_for_nothing_but_itself() {
    let (tree, far) = open(&small_files());
    read(&tree, 0);
    far.cost();
    for file in [700, 90, 400, 1100, 250] {
        read(&tree, file);
        let (_, asked) = far.cost();
        assert_eq!(asked, FILES_PER_FRAME * FILE_LEN, "for file {file}");
    }
}
