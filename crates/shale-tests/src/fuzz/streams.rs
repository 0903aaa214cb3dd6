//! Deflate streams: containers that are taken apart and read back, and chunks that are rebuilt.

use super::small_options;
use crate::second_reader::model;
use shale::{CheckOptions, NoProgress, check};
use shale_deflate::{Cut, InHand, Limits, Model, Task, analyze, rebuild};
use shale_format::{InodeKind, Timestamp};
use shale_model::SourceError;
use shale_model::{Content, Metadata};
use shale_read::{Image, MemorySource, SnapshotChoice};
use shale_write::{EntrySource, SourceEntry};
use std::sync::Arc;

/// A file with these bytes, below the root.
struct OneFile(Vec<Vec<u8>>);

impl EntrySource for OneFile {
    fn seed(&self) -> [u8; 32] {
        [6; 32]
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        Ok(self.0.pop().map(|bytes| {
            // The empty one is the root.
            let is_root = bytes.is_empty();
            SourceEntry {
                path: if is_root { Vec::new() } else { b"file".to_vec() },
                metadata: Metadata {
                    kind: if is_root { InodeKind::Directory } else { InodeKind::File },
                    permissions: 0o755,
                    uid: 0,
                    gid: 0,
                    mtime: Timestamp::default(),
                    atime: Timestamp::default(),
                    ctime: Timestamp::default(),
                    btime: Timestamp::default(),
                    len: bytes.len() as u64,
                    device: 0,
                },
                content: if is_root { Content::None } else { Content::Bytes(bytes) },
                xattrs: Arc::from([]),
                link: None,
                target: Vec::new(),
            }
        }))
    }
}

/// Packs the bytes as a file in which streams are looked for, at a level that the first byte
/// chooses, and reads it back. Every recognizer of containers is behind it.
pub fn take_apart(bytes: &[u8]) {
    let Some((level, file)) = bytes.split_first() else { return };
    if file.is_empty() {
        return;
    }
    let options = shale_write::Options {
        level: [0, 1, 4][usize::from(level % 3)],
        threads: 1,
        recompress: Some(true),
        ..shale_write::Options::default()
    };
    let mut image = Vec::new();
    let mut source = OneFile(vec![file.to_vec(), Vec::new()]);
    shale_write::create(&mut source, &mut image, &options, &NoProgress)
        .expect("nothing in a file keeps it from being packed");
    let source = Arc::new(MemorySource::new(image));
    let opened = Image::open(source.clone(), small_options()).expect("what is built opens");
    let tree = opened.tree(&SnapshotChoice::Newest).expect("it has a snapshot");
    let inode = tree.lookup_path(b"file").expect("it is whole").expect("the file is there");
    let mut found = vec![1; file.len() + 1];
    let len = tree.read(inode, 0, &mut found).expect("it is whole");
    assert!(found[..len] == *file, "the file is another");
    let report = check(source, &CheckOptions::default().threads(1), &NoProgress);
    let report = report.expect("it is an image");
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// Takes the bytes as a deflate stream. What is said to be rebuilt is.
pub fn deflate_stream(bytes: &[u8]) {
    let limits = Limits {
        plain_max: 1 << 20,
        chunk_plain_min: 16 << 10,
        chunk_probes_max: 1 << 18,
        ..Limits::default()
    };
    let Ok(found) = analyze(bytes, None, &limits) else { return };
    assert!(found.stream_len <= bytes.len() && found.plain.len() <= limits.plain_max);
    let mut at = 0;
    for chunk in &found.chunks {
        assert!(chunk.stream.start >= at, "chunks ascend");
        at = chunk.stream.end;
        let task = chunk.task(found.model, &found.plain);
        let rebuilt = rebuild(found.model, &chunk.cut, &task, limits.chunk_probes_max);
        assert!(rebuilt.is_ok_and(|rebuilt| rebuilt == bytes[chunk.stream.clone()]));
    }
    assert!(at <= found.stream_len);
}

/// Rebuilds a chunk whose model, cut and lengths the first bytes choose. Where both the product and
/// the second reader rebuild it, they make the same bytes.
pub fn chunk_rebuild(bytes: &[u8]) {
    let Some((head, data)) = bytes.split_first_chunk::<16>() else { return };
    let number = u64::from(u32::from_le_bytes([head[0], head[1], head[2], 0]));
    let Ok(found) = Model::from_number(number) else {
        assert!(model::Model::of(number).is_none(), "{number:#x} is a model of the second reader");
        return;
    };
    let part = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let window_len = part(3).min(data.len());
    let plain_len = part(5).min(data.len() - window_len);
    let after_len = (data.len() - window_len - plain_len).min(shale_deflate::AFTER_LEN);
    let data = &data[..window_len + plain_len + after_len];
    let (hand_len, distance) = (u16::from(head[7]), part(8) as u16);
    let cut = Cut {
        before: window_len as u64,
        bits: head[10],
        bit_count: head[11] % 9,
        in_hand: (hand_len > 0).then_some(InHand { len: hand_len, distance }),
    };
    let (window, rest) = data.split_at(window_len);
    let (plain, after) = rest.split_at(plain_len);
    let task = Task { window, plain, after };
    let Ok(rebuilt) = rebuild(found, &cut, &task, 1 << 20) else { return };
    let carried = u64::from(cut.bits)
        | u64::from(cut.bit_count) << 8
        | u64::from(hand_len) << 16
        | u64::from(distance) << 32;
    let second = model::rebuild(model::Chunk {
        model: model::Model::of(number).expect("both know the same models"),
        carried: if hand_len == 0 { carried & 0xffff } else { carried },
        offset: cut.before,
        data,
        start: window_len,
        end: (!after.is_empty()).then_some(window_len + plain_len),
    });
    assert!(second == Some(rebuilt), "the second reader rebuilds something else");
}
