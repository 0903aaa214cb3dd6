//! Deflate streams that are rebuilt from contents.

use shale_codec::xxh3_64;
use shale_deflate::{AFTER_LEN, Cut, Limits, Model, Task, analyze, rebuild};
use shale_format::schema::{STREAM_REBUILT, chunks};
use shale_format::{Carried, ChunkRecord};
use shale_read::{PieceKind, ReadError, Unit};

use crate::assemble::{Draft, DraftFrame, noise};

/// Text that deflate makes smaller.
fn text(len: usize) -> Vec<u8> {
    let words = noise(len, 5).into_iter().flat_map(|byte| format!("{} ", byte % 50).into_bytes());
    words.take(len).collect()
}

/// The stream that zlib makes of `plain`.
fn stream_of(plain: &[u8]) -> Vec<u8> {
    let task = Task { window: &[], plain, after: &[] };
    rebuild(Model::zlib(6, 8), &Cut::default(), &task, u64::MAX).expect("a known model")
}

/// Rows of the chunks of a stream that content `content` holds, the sentinel included.
fn rows(stream: &[u8], content: u64) -> Vec<[u64; 8]> {
    let limits = Limits { chunk_plain_min: 10_000, ..Limits::default() };
    let analysis = analyze(stream, None, &limits).expect("made by a known model");
    let mut base = 0;
    let mut rows = Vec::new();
    for chunk in &analysis.chunks {
        let in_hand = chunk.cut.in_hand;
        let record = ChunkRecord {
            base,
            len: 0,
            content,
            offset: chunk.plain.start as u64,
            plain_len: chunk.plain.len() as u64,
            model: analysis.model.number(),
            carried: Carried {
                bits: chunk.cut.bits,
                bit_count: chunk.cut.bit_count,
                match_len: in_hand.map_or(0, |hand| hand.len),
                match_distance: in_hand.map_or(0, |hand| hand.distance),
            },
            depth: 1,
            sum: xxh3_64(&stream[chunk.stream.clone()]) as u32,
        };
        rows.push(record.columns());
        base += chunk.stream.len() as u64;
    }
    rows.push(ChunkRecord { base, ..ChunkRecord::default() }.columns());
    rows
}

/// A tree of a file that is `head`, the stream of `plain`, and `tail`. The plain bytes are content
/// 2 and belong to no file.
fn rebuilt(plain: &[u8], stream: &[u8]) -> Draft {
    let (plain_len, stream_len) = (plain.len() as u64, stream.len() as u64);
    let frame = DraftFrame::zstd([b"head", plain, b"tail"].concat(), &[], 0);
    let extents = [(4, 0), (stream_len, STREAM_REBUILT), (4, 4 + plain_len), (plain_len, 4)];
    let mut draft = Draft::one_file(vec![frame], &extents);
    let end = 8 + stream_len;
    draft.contents = vec![0, 0, end, end + plain_len];
    draft.chunks = rows(stream, 2);
    draft
}

#[test]
fn a_stream_is_rebuilt_in_any_range() {
    let plain = text(200_000);
    let stream = stream_of(&plain);
    let draft = rebuilt(&plain, &stream);
    assert!(draft.chunks.len() > 3, "several chunks");
    let tree = draft.tree();
    let whole = [b"head", &stream[..], b"tail"].concat();
    let mut buf = vec![0; whole.len() + 10];
    assert_eq!(tree.read(2, 0, &mut buf).unwrap(), whole.len());
    assert!(buf[..whole.len()] == whole);
    let chunk_count = draft.chunks.len() as u64 - 1;
    assert_eq!(tree.image().counters().snapshot().chunks_rebuilt, chunk_count);
    for at in (0..whole.len()).step_by(997) {
        let len = (at * 7 % 5000).min(whole.len() - at);
        let mut part = vec![0; len];
        assert_eq!(tree.read(2, at as u64, &mut part).unwrap(), len);
        assert!(part == whole[at..at + len], "{at}");
    }
    // All of that from the cache.
    assert_eq!(tree.image().counters().snapshot().chunks_rebuilt, chunk_count);
    let pieces = tree.pieces(2, 3..10).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(pieces.len(), 2);
    assert_eq!(pieces[1].kind, PieceKind::Rebuilt { chunk: 0, chunk_offset: 0 });
}

#[test]
fn a_read_of_a_byte_rebuilds_one_chunk() {
    let plain = text(200_000);
    let stream = stream_of(&plain);
    let tree = rebuilt(&plain, &stream).tree();
    let mut byte = [0];
    assert_eq!(tree.read(2, stream.len() as u64 / 2, &mut byte).unwrap(), 1);
    assert_eq!(byte[0], stream[stream.len() / 2 - 4]);
    assert_eq!(tree.image().counters().snapshot().chunks_rebuilt, 1);
}

/// Reads the file of `draft`, in which `change` was made to the first chunk.
fn read_changed(change: impl Fn(&mut [u64; 8])) -> Result<usize, ReadError> {
    let plain = text(50_000);
    let stream = stream_of(&plain);
    let mut draft = rebuilt(&plain, &stream);
    change(&mut draft.chunks[0]);
    let mut buf = vec![0; 100];
    draft.tree().read(2, 4, &mut buf)
}

#[test]
fn lies_about_chunks_are_errors_and_never_wrong_bytes() {
    assert_eq!(read_changed(|_| ()).unwrap(), 100);
    let honest = rows(&stream_of(&text(50_000)), 2)[0];
    for column in 0..8 {
        for value in [0, 1, 2, 3, 7, 255, 10_000, 1 << 20, 1 << 32, 1 << 62, u64::MAX] {
            let result = read_changed(|row| row[column] = value);
            // Chunks of depth 1 may claim to be deeper.
            let is_harmless =
                value == honest[column] || column == chunks::DEPTH && (1..=3).contains(&value);
            assert_eq!(result.is_ok(), is_harmless, "column {column}: {value}: {result:?}");
        }
    }
    let unknown = read_changed(|row| row[chunks::MODEL] = 99).unwrap_err();
    assert!(unknown.to_string().contains("newer version"), "{unknown}");
    assert!(!unknown.is_corrupt());
}

#[test]
fn bases_that_do_not_ascend_are_errors_and_no_hang() {
    let plain = text(200_000);
    let stream = stream_of(&plain);
    let honest = rebuilt(&plain, &stream);
    let bases: Vec<u64> = honest.chunks.iter().map(|row| row[chunks::BASE]).collect();
    assert!(bases.len() > 3);
    for row in 0..bases.len() {
        for value in bases.iter().flat_map(|&base| [base, base + 1, base + (1 << 62)]) {
            let mut draft = honest.clone();
            draft.chunks[row][chunks::BASE] = value;
            let mut buf = vec![0; stream.len()];
            let result = draft.tree().read(2, 4, &mut buf);
            assert!(value == bases[row] || result.is_err() || buf == stream, "{row}: {value}");
        }
    }
}

#[test]
fn a_chunk_that_needs_itself_is_an_error_and_no_hang() {
    let plain = text(50_000);
    let stream = stream_of(&plain);
    for depth in 1..=3 {
        let mut draft = rebuilt(&plain, &stream);
        // The content with the plain bytes is the stream itself.
        draft.extents[3].1 = STREAM_REBUILT;
        draft.extents[4].0 = draft.extents[3].0 + stream.len() as u64;
        draft.contents[3] = draft.extents[4].0;
        draft.chunks.iter_mut().for_each(|row| row[chunks::DEPTH] = depth);
        let error = draft.open().unit(Unit::Chunk(0)).unwrap_err();
        assert!(error.is_corrupt() && error.to_string().contains("depth"), "{error}");
    }
}

#[test]
fn streams_in_streams_are_rebuilt_as_deep_as_is_allowed() {
    let first = text(30_000);
    let second = stream_of(&first);
    let third = stream_of(&second);
    let (first_len, second_len, third_len) =
        (first.len() as u64, second.len() as u64, third.len() as u64);
    let frame = DraftFrame::zstd(first.clone(), &[], 0);
    let inner = STREAM_REBUILT + third_len;
    let extents = [(third_len, STREAM_REBUILT), (second_len, inner), (first_len, 0)];
    let mut draft = Draft::one_file(vec![frame], &extents);
    draft.contents =
        vec![0, 0, third_len, third_len + second_len, third_len + second_len + first_len];
    let mut outer_rows = rows(&third, 2);
    let mut inner_rows = rows(&second, 3);
    outer_rows.pop();
    outer_rows.iter_mut().for_each(|row| row[chunks::DEPTH] = 2);
    inner_rows.iter_mut().for_each(|row| row[chunks::BASE] += third_len);
    draft.chunks = [outer_rows, inner_rows].concat();
    let mut buf = vec![0; third.len()];
    assert_eq!(draft.tree().read(2, 0, &mut buf).unwrap(), third.len());
    assert!(buf == third);
    assert!(third.len() > AFTER_LEN);
    draft.chunks[0][chunks::DEPTH] = 1;
    assert!(draft.tree().read(2, 0, &mut buf).unwrap_err().is_corrupt());
}
