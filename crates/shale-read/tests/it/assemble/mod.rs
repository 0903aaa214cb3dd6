//! Assembles images row by row, without checking the rows: honest ones from [`Draft::sample`],
//! hostile ones by changing its rows. The structures around the rows (superblock, sections,
//! checksums, pages) are always valid.
#![allow(dead_code)] // Tests of another crate include this file and use a part of it.

use shale_codec::{Codec, Encoder, Filter, Settings, lines_form, xxh3_64};
use shale_format::inode::device_number;
use shale_format::schema::{
    STREAM_HOLE, STREAM_ZERO, chunks, contents, directories, entries, extents, frames, inodes,
    references, symlinks, xattr_items, xattr_sets,
};
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_format::{
    FrameRecord, InodeKind, InodeRecord, ReadBounds, Root, SectionHeader, SectionType, Snapshot,
    Superblock, Timestamp, Trailer,
};
use shale_read::{Image, MemorySource, Options, ReadError, SnapshotChoice, Tree};
use shale_table::{PageRef, PageSink, Schema, TableBuilder, TableError, TableRoot, Value};
use std::sync::Arc;

pub mod exercise;

pub const IMAGE_ID: [u8; 16] = *b"an image of test";

/// One frame before it is stored.
#[derive(Clone)]
pub struct DraftFrame {
    pub plain: Vec<u8>,
    pub codec: Codec,
    pub filter: Filter,
    pub references: Vec<u64>,
    /// What the record claims.
    pub depth: u8,
    /// Stored in place of what the codec makes of `plain`.
    pub stored: Option<Vec<u8>>,
    /// Changes the record after the frame is stored.
    pub spoil: Option<fn(&mut FrameRecord)>,
}

impl DraftFrame {
    pub fn stored(plain: impl Into<Vec<u8>>) -> Self {
        Self {
            plain: plain.into(),
            codec: Codec::Stored,
            filter: Filter::None,
            references: Vec::new(),
            depth: 0,
            stored: None,
            spoil: None,
        }
    }

    pub fn zstd(plain: impl Into<Vec<u8>>, references: &[u64], depth: u8) -> Self {
        Self { codec: Codec::Zstd, references: references.to_vec(), depth, ..Self::stored(plain) }
    }
}

/// Rows of all tables with their sentinels; the sentinel of the frames is added later.
#[derive(Clone)]
pub struct Draft {
    pub frames: Vec<DraftFrame>,
    /// Starts of contents; the last is the sentinel.
    pub contents: Vec<u64>,
    /// (base, stream); the last is the sentinel.
    pub extents: Vec<(u64, u64)>,
    /// Rows of chunks; the last is the sentinel. None if no stream is rebuilt.
    pub chunks: Vec<[u64; 8]>,
    pub inodes: Vec<InodeRecord>,
    /// (entry_first, inode, parent); the last is the sentinel.
    pub directories: Vec<(u64, u64, u64)>,
    pub entries: Vec<(u64, Vec<u8>)>,
    pub symlinks: Vec<Vec<u8>>,
    pub xattr_sets: Vec<(u64, u64)>,
    pub xattr_items: Vec<(Vec<u8>, Vec<u8>)>,
    pub page_rows: usize,
    /// Whether pages are compressed, those of the entries with a dictionary.
    pub compressed: bool,
    /// Changes the reference to the first stored page, as it is in an index page or a root.
    pub spoil_page: Option<fn(&mut PageRef)>,
    pub spoil_root: Option<fn(&mut Root)>,
}

pub fn inode(kind: InodeKind, payload: u64) -> InodeRecord {
    let time = Timestamp { sec: -5, nsec: 999_999_999 };
    InodeRecord {
        kind,
        permissions: 0o644,
        uid: 1000,
        gid: u32::MAX,
        link_count: 1,
        mtime: time,
        atime: Timestamp::default(),
        ctime: Timestamp::default(),
        btime: Timestamp::default(),
        xattr_set: 0,
        payload,
    }
}

/// Bytes that do not repeat, the same in every run.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

/// Content 3 of the sample: data, a hole, data, a zero run, data that spans frames.
pub fn sparse_bytes() -> Vec<u8> {
    let mut bytes = b"before the hole ".to_vec();
    bytes.resize(16 + 100, 0);
    bytes.extend_from_slice(b"after the hole  ");
    bytes.resize(16 + 100 + 16 + 50, 0);
    bytes.extend_from_slice(&noise(600, 3)[100..500]);
    bytes
}

impl Draft {
    /// A tree with all kinds of inode:
    ///
    /// ```text
    /// 1 /            5 /link -> a.txt     9 /d/e/
    /// 2 /a.txt       6 /pipe             10 /d/tty
    /// 3 /d/          7 /socket
    /// 4 /empty       8 /sparse              /d/hard = a.txt
    /// ```
    ///
    /// Frames 0 and 1 hold the contents, 2 repeats 0 and refers to it, 3 refers to 0 and 2.
    pub fn sample() -> Self {
        let text = b"hello from a file of a test, hello again, and hello once more".to_vec();
        let sparse = sparse_bytes();
        let noise = noise(600, 3);
        let mut first = text.clone();
        first.extend_from_slice(&sparse[..16]);
        first.extend_from_slice(&sparse[116..132]);
        let text_len = text.len() as u64;
        let mut second = first.clone();
        second.extend_from_slice(b"second");
        let mut third = second.clone();
        third.extend_from_slice(&first);
        third.extend_from_slice(&noise[300..]);

        let frames = vec![
            DraftFrame::stored(first.clone()),
            DraftFrame::zstd(noise[..300].to_vec(), &[], 0),
            DraftFrame::zstd(second.clone(), &[0], 1),
            DraftFrame::zstd(third.clone(), &[0, 2], 2),
        ];
        let stream_noise = first.len() as u64;
        let stream_second = stream_noise + 300;
        let stream_third = stream_second + second.len() as u64;
        let noise_tail = stream_third + (second.len() + first.len()) as u64;
        // Contents: empty, text, sparse, the whole of frames 2 and 3.
        let sparse_at = text_len;
        let long_at = sparse_at + sparse.len() as u64;
        let long_len = (second.len() + third.len()) as u64;
        let extents = vec![
            (0, 0), // The text and, right after it, the first part of the sparse file.
            (sparse_at + 16, STREAM_HOLE),
            (sparse_at + 116, text_len + 16),
            (sparse_at + 132, STREAM_ZERO),
            (sparse_at + 182, stream_noise + 100),
            (sparse_at + 382, noise_tail),
            (long_at, stream_second),
            (long_at + long_len, 0),
        ];
        let directory = |index, link_count| InodeRecord {
            permissions: 0o755,
            link_count,
            ..inode(InodeKind::Directory, index)
        };
        let mut file = inode(InodeKind::File, 1);
        file.link_count = 2;
        file.xattr_set = 1;
        let mut sparse_file = inode(InodeKind::File, 2);
        sparse_file.xattr_set = 2;
        let entry = |inode: u64, name: &[u8]| (inode, name.to_vec());
        Self {
            frames,
            contents: vec![0, 0, sparse_at, long_at, long_at + long_len],
            extents,
            chunks: Vec::new(),
            inodes: vec![
                directory(0, 3),
                file,
                directory(1, 3),
                inode(InodeKind::File, 0),
                inode(InodeKind::Symlink, 0),
                inode(InodeKind::Fifo, 0),
                inode(InodeKind::Socket, 0),
                sparse_file,
                directory(2, 2),
                inode(InodeKind::CharDevice, device_number(5, 70_000)),
                inode(InodeKind::File, 3),
            ],
            directories: vec![(0, 1, 0), (7, 3, 0), (10, 9, 1), (11, 0, 0)],
            entries: vec![
                entry(2, b"a.txt"),
                entry(3, b"d"),
                entry(4, b"empty"),
                entry(5, b"link"),
                entry(6, b"pipe"),
                entry(7, b"socket"),
                entry(8, b"sparse"),
                entry(9, b"e"),
                entry(2, b"hard"),
                entry(10, b"tty"),
                entry(11, b"long\xff"),
            ],
            symlinks: vec![b"a.txt".to_vec()],
            xattr_sets: vec![(0, 2), (2, 1)],
            xattr_items: vec![
                (b"trusted.a".to_vec(), b"1".to_vec()),
                (b"user.b".to_vec(), Vec::new()),
                (b"user.c".to_vec(), noise_value()),
            ],
            page_rows: 4096,
            compressed: false,
            spoil_page: None,
            spoil_root: None,
        }
    }

    /// A tree of one directory with `count` empty files of numbered names.
    pub fn many_files(count: u64) -> Self {
        let mut draft = Self::sample();
        draft.inodes.truncate(1);
        draft.inodes.extend((0..count).map(|_| inode(InodeKind::File, 0)));
        draft.entries = (0..count).map(|n| (n + 2, format!("file-{n:08}").into_bytes())).collect();
        draft.directories = vec![(0, 1, 0), (count, 0, 0)];
        draft
    }

    /// A single file with this content and these extents (lengths and streams).
    pub fn one_file(frames: Vec<DraftFrame>, extents: &[(u64, u64)]) -> Self {
        let mut draft = Self::many_files(1);
        draft.inodes[1].payload = 1;
        draft.frames = frames;
        let mut base = 0;
        draft.extents.clear();
        for &(len, stream) in extents {
            draft.extents.push((base, stream));
            base += len;
        }
        draft.extents.push((base, 0));
        draft.contents = vec![0, 0, base];
        draft
    }

    /// The bytes of the image.
    pub fn assemble(&self) -> Vec<u8> {
        let superblock = Superblock::new(IMAGE_ID);
        let mut image = superblock.encode(xxh3_64).to_vec();
        self.append_state(&mut image, 0, 0)
    }

    /// Appends the sections of a complete state to `image`, trailer included.
    pub fn append_state(
        &self,
        image: &mut Vec<u8>,
        previous_trailer_offset: u64,
        section_count: u64,
    ) -> Vec<u8> {
        let payload_at = (image.len() + SECTION_HEADER_LEN) as u64;
        let (frames_payload, records, reference_rows) = self.store_frames(payload_at);
        push_section(image, SectionType::Frames, &frames_payload);

        let mut sink = Pages {
            at: (image.len() + SECTION_HEADER_LEN) as u64,
            bytes: Vec::new(),
            compressed: self.compressed,
            dictionary: Vec::new(),
            spoil: self.spoil_page,
        };
        let root = self.tables(&mut sink, &records, &reference_rows);
        push_section(image, SectionType::Pages, &sink.bytes);

        let root_offset = image.len() as u64;
        push_section(image, SectionType::Root, &root.encode().expect("a root within limits"));
        let trailer_at = image.len() as u64;
        let trailer = Trailer {
            root_offset,
            root_section_len: trailer_at - root_offset,
            image_len: trailer_at + TRAILER_SECTION_LEN as u64,
            previous_trailer_offset,
            merkle_offset: 0,
            section_count: section_count + 3,
            image_id: IMAGE_ID,
        };
        push_section(image, SectionType::Trailer, &trailer.encode());
        image.clone()
    }

    fn store_frames(&self, payload_at: u64) -> (Vec<u8>, Vec<FrameRecord>, Vec<u64>) {
        let mut payload = Vec::new();
        let mut records = Vec::new();
        let mut reference_rows = Vec::new();
        let mut plain_start = 0;
        for frame in &self.frames {
            let filtered = |plain: &[u8]| {
                let mut bytes = plain.to_vec();
                frame.filter.apply(&mut bytes);
                bytes
            };
            let prefix: Vec<u8> = frame
                .references
                .iter()
                .filter_map(|&reference| self.frames.get(reference as usize))
                .flat_map(|reference| filtered(&reference.plain))
                .collect();
            let mut stored = Vec::new();
            let mut codec = frame.codec;
            let level = Settings::default_level(codec).min(9);
            let settings = Settings::new(codec, level).expect("a level of the codec");
            let mut encoder = Encoder::new(settings).expect("settings of a level");
            if let Some(other) = &frame.stored {
                stored.clone_from(other);
            } else if frame.filter == Filter::Lines {
                let form = lines_form(&frame.plain).expect("lines that resemble each other");
                encoder.encode_form(&form, &mut stored).expect("encodes");
            } else if codec != Codec::Stored {
                let plain = filtered(&frame.plain);
                encoder.encode(&prefix, &plain, &mut stored).expect("encodes");
            }
            let is_plain = frame.filter.is_in_place() && codec == Codec::Stored
                || stored.len() > frame.plain.len();
            if is_plain && frame.stored.is_none() {
                codec = Codec::Stored;
                stored = filtered(&frame.plain);
            }
            let mut record = FrameRecord {
                plain_start,
                plain_len: frame.plain.len() as u64,
                stored_offset: payload_at + payload.len() as u64,
                stored_len: stored.len() as u64,
                codec: codec.id(),
                filter: frame.filter.id(),
                category: 0,
                depth: frame.depth,
                reference_first: reference_rows.len() as u64,
                reference_count: frame.references.len() as u32,
                stored_sum: xxh3_64(&stored),
                plain_sum: xxh3_64(&frame.plain),
            };
            if let Some(spoil) = frame.spoil {
                spoil(&mut record);
            }
            records.push(record);
            reference_rows.extend_from_slice(&frame.references);
            payload.extend_from_slice(&stored);
            plain_start += frame.plain.len() as u64;
        }
        records.push(FrameRecord { plain_start, ..FrameRecord::default() });
        (payload, records, reference_rows)
    }

    fn tables(&self, sink: &mut Pages, records: &[FrameRecord], reference_rows: &[u64]) -> Root {
        fn u64s(values: &[u64]) -> Vec<Value<'static>> {
            values.iter().map(|&value| Value::U64(value)).collect()
        }
        let mut table = |schema: &'static Schema, rows: Vec<Vec<Value<'_>>>| -> TableRoot {
            let mut builder = TableBuilder::new(schema).with_page_rows(self.page_rows);
            sink.dictionary.clear();
            if self.compressed && schema.name == "entries" {
                sink.dictionary = noise(3000, 77);
                let dictionary = sink.dictionary.clone();
                builder.set_dictionary(sink.put_plain(&dictionary));
            }
            for row in rows {
                builder.push(&row, sink).expect("a row of the schema");
            }
            builder.finish(sink).expect("finishes")
        };
        let times_kept = shale_format::root::TIME_MTIME;
        let mut root = Root {
            bounds: ReadBounds::default(),
            chunks: table(&chunks::SCHEMA, self.chunks.iter().map(|row| u64s(row)).collect()),
            contents: table(&contents::SCHEMA, self.contents.iter().map(|&b| u64s(&[b])).collect()),
            extents: table(
                &extents::SCHEMA,
                self.extents.iter().map(|&(base, stream)| u64s(&[base, stream])).collect(),
            ),
            frames: table(&frames::SCHEMA, records.iter().map(|r| r.row().to_vec()).collect()),
            references: table(
                &references::SCHEMA,
                reference_rows.iter().map(|&frame| u64s(&[frame])).collect(),
            ),
            snapshots: Vec::new(),
            earlier: Vec::new(),
        };
        let snapshot = Snapshot {
            name: b"test".to_vec(),
            times_kept,
            file_bytes: self.contents.last().copied().unwrap_or(0),
            inodes: table(&inodes::SCHEMA, self.inodes.iter().map(|i| i.row().to_vec()).collect()),
            directories: table(
                &directories::SCHEMA,
                self.directories.iter().map(|&(e, i, p)| u64s(&[e, i, p])).collect(),
            ),
            entries: table(
                &entries::SCHEMA,
                self.entries
                    .iter()
                    .map(|(inode, name)| vec![Value::U64(*inode), Value::Bytes(name)])
                    .collect(),
            ),
            symlinks: table(
                &symlinks::SCHEMA,
                self.symlinks.iter().map(|target| vec![Value::Bytes(target)]).collect(),
            ),
            xattr_sets: table(
                &xattr_sets::SCHEMA,
                self.xattr_sets.iter().map(|&(first, count)| u64s(&[first, count])).collect(),
            ),
            xattr_items: table(
                &xattr_items::SCHEMA,
                self.xattr_items
                    .iter()
                    .map(|(name, value)| vec![Value::Bytes(name), Value::Bytes(value)])
                    .collect(),
            ),
        };
        root.snapshots.push(snapshot);
        if let Some(spoil) = self.spoil_root {
            spoil(&mut root);
        }
        root
    }

    /// The image, opened from memory.
    pub fn open(&self) -> Arc<Image> {
        open(self.assemble()).expect("an image whose root is right opens")
    }

    /// The tree of the image.
    pub fn tree(&self) -> Tree {
        self.open().tree(&SnapshotChoice::Newest).expect("has a snapshot")
    }
}

fn noise_value() -> Vec<u8> {
    noise(100, 9)
}

pub fn open(bytes: Vec<u8>) -> Result<Arc<Image>, ReadError> {
    open_with(bytes, Options::default())
}

pub fn open_with(bytes: Vec<u8>, options: Options) -> Result<Arc<Image>, ReadError> {
    Image::open(Arc::new(MemorySource::new(bytes)), options)
}

pub fn push_section(image: &mut Vec<u8>, section_type: SectionType, payload: &[u8]) {
    let header = SectionHeader {
        section_type: section_type as u16,
        codec: 0,
        offset: image.len() as u64,
        stored_len: payload.len() as u64,
        plain_len: payload.len() as u64,
        image_tag: Superblock::new(IMAGE_ID).image_tag(),
        payload_sum: xxh3_64(payload),
    };
    image.extend_from_slice(&header.encode(xxh3_64));
    image.extend_from_slice(payload);
}

/// Collects stored pages.
struct Pages {
    at: u64,
    bytes: Vec<u8>,
    compressed: bool,
    dictionary: Vec<u8>,
    spoil: Option<fn(&mut PageRef)>,
}

impl Pages {
    fn put_plain(&mut self, plain: &[u8]) -> PageRef {
        self.put_as(plain, plain, 0)
    }

    fn put_as(&mut self, plain: &[u8], stored: &[u8], codec: u8) -> PageRef {
        let page = PageRef {
            offset: self.at + self.bytes.len() as u64,
            checksum: xxh3_64(stored),
            stored_len: stored.len() as u32,
            plain_len: plain.len() as u32,
            codec,
            ..PageRef::default()
        };
        self.bytes.extend_from_slice(stored);
        page
    }
}

impl PageSink for Pages {
    type Error = TableError;

    fn put(&mut self, plain: &[u8]) -> Result<PageRef, TableError> {
        let mut page = if self.compressed {
            let settings = Settings::new(Codec::Zstd, 3).expect("a level");
            let mut stored = Vec::new();
            Encoder::new(settings)
                .and_then(|mut encoder| encoder.encode(&self.dictionary, plain, &mut stored))
                .expect("encodes");
            self.put_as(plain, &stored, if self.dictionary.is_empty() { 1 } else { 2 })
        } else {
            self.put_plain(plain)
        };
        if let Some(spoil) = self.spoil.take() {
            spoil(&mut page);
        }
        Ok(page)
    }
}
