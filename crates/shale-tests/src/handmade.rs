//! Images made by hand: what the format allows and the product does not write.
//!
//! An image is taken apart by the second reader and put together again: in other pages, in frames
//! with a chosen codec, filter and references, as a second snapshot, with small groups of parity,
//! or with everything that a reader must ignore. Golden images are made this way. Uses the
//! structures of `shale-format`, the table builder and the codecs, and no other part of the
//! product. Panics on wrong input: it is for inputs that tests and scripts choose.

use crate::second_reader::image::{Column, Image, Rows, SharedTables};
use shale_codec::merkle::{leaf_hash, tree};
use shale_codec::parity::ParityEncoder;
use shale_codec::{Encoder, Filter, Settings, lines_form, xxh3_64};
use shale_format::merkle::{FAN_OUT, HASH_LEN, LEAF_LEN};
use shale_format::parity::{CHUNK_HEAD_LEN, ParitySet, ZONE_COUNT};
use shale_format::root::ReadBounds;
use shale_format::schema::{
    contents, directories, entries, extents, frames, inodes, references, symlinks, xattr_items,
    xattr_sets,
};
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::signature::SIGNATURE_LEN;
use shale_format::superblock::SUPERBLOCK_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_format::{
    Features, FrameRecord, MerkleHead, ParityHead, Root, SectionHeader, SectionType, Snapshot,
    Superblock, Trailer,
};
use shale_table::{PageRef, PageSink, Schema, TableBuilder, TableError, TableRoot, Value};
use std::collections::BTreeSet;

/// How a frame is cut from stream space and stored.
#[derive(Debug, Clone)]
pub struct Cut {
    /// Plain bytes; the last frame takes what is left.
    pub len: usize,
    /// Codec and its settings, such as `zstd:19`.
    pub codec: &'static str,
    /// The filter.
    pub filter: Filter,
    /// Frames whose plain bytes are its prefix.
    pub references: Vec<u64>,
}

impl Cut {
    /// A frame without filter and references.
    pub fn new(len: usize, codec: &'static str) -> Self {
        Self { len, codec, filter: Filter::None, references: Vec::new() }
    }
}

/// How an image is put together.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// Frames, in the order of stream space.
    pub cuts: Vec<Cut>,
    /// Rows of a data page and of an index page; the table builder's own if `None`.
    pub page_rows: Option<(usize, usize)>,
    /// Adds all that a reader must ignore.
    pub ignored: bool,
    /// No Merkle tree and no second root: the smallest image.
    pub bare: bool,
}

/// The golden images that are made by hand, by name, out of one or two images of the product.
pub fn golden(name: &str, images: &[Vec<u8>]) -> Option<Vec<u8>> {
    let filtered = |len, codec, filter, references: &[u64]| Cut {
        filter,
        references: references.to_vec(),
        ..Cut::new(len, codec)
    };
    let whole = vec![Cut::new(usize::MAX, "zstd:19")];
    let shape = match name {
        // The example of the specification.
        "small" => {
            Shape { cuts: vec![Cut::new(usize::MAX, "stored")], bare: true, ..Shape::default() }
        }
        // Each filter, with and without references, below each codec but brotli.
        "filters" => {
            let n = FILTERED_LEN;
            let cuts = vec![
                filtered(n, "stored", Filter::BcjX86, &[]),
                filtered(n, "zstd:19", Filter::BcjX86, &[0]),
                filtered(n, "lz4:hc=9", Filter::BcjArm64, &[]),
                filtered(n, "lzma:9", Filter::BcjArm64, &[2, 1]),
                filtered(n, "zstd:19", Filter::BcjArm, &[]),
                filtered(n, "lz4:hc=9", Filter::BcjArm, &[4]),
                filtered(n, "stored", Filter::Lines, &[]),
                filtered(n, "zstd:19", Filter::Lines, &[]),
                filtered(n, "lz4:hc=9", Filter::Lines, &[]),
                filtered(n, "lzma:9", Filter::Lines, &[]),
            ];
            Shape { cuts, ..Shape::default() }
        }
        // Brotli with and without references, and with a window that takes more than 24 bits. LZ4
        // with a prefix of which it uses the end only.
        "brotli" => {
            let text = |codec, filter, references| filtered(9000, codec, filter, references);
            let cuts = vec![
                Cut::new(17 << 20, "brotli:9"),
                Cut::new(5000, "stored"),
                text("brotli:11", Filter::None, &[]),
                text("brotli:9", Filter::None, &[2]),
                text("brotli:9", Filter::None, &[3, 2]),
                text("brotli:9", Filter::BcjX86, &[4]),
                text("brotli:9", Filter::None, &[0]),
                text("lz4:hc=9", Filter::None, &[0]),
            ];
            Shape { cuts, ..Shape::default() }
        }
        // A chain as long as allowed, and a frame with many references, some of them after it.
        "references" => {
            let chain = |frame: u64| {
                let codec = ["zstd:19", "lzma:9", "lz4:hc=9"][frame as usize % 3];
                let below: Vec<u64> = frame.checked_sub(1).into_iter().collect();
                filtered(CHAINED_LEN, codec, Filter::None, &below)
            };
            let mut cuts: Vec<Cut> = (0..9).map(chain).collect();
            let many: Vec<u64> = (0..8).chain([10, 11]).collect();
            cuts.push(filtered(CHAINED_LEN, "zstd:19", Filter::None, &many));
            cuts.push(Cut::new(CHAINED_LEN, "lz4:hc=9"));
            cuts.push(filtered(CHAINED_LEN, "lzma:9", Filter::None, &[10]));
            Shape { cuts, ..Shape::default() }
        }
        // Small pages: index pages of several levels, and pages with a dictionary.
        "index" => Shape { cuts: whole, page_rows: Some((6, 3)), ..Shape::default() },
        // All that a reader must ignore.
        "ignored" => Shape { cuts: whole, ignored: true, ..Shape::default() },
        "snapshots" => {
            let shape = Shape { cuts: whole, ..Shape::default() };
            return Some(append(images.first()?, images.get(1)?, b"second", &shape));
        }
        // Two bodies for three leaves, so two blocks of data, and one more for the last leaf.
        "parity-blocks" => {
            let set =
                |first_leaf, parity_count| ParitySet { first_leaf, group_count: 1, parity_count };
            return Some(with_parity(images.first()?, [set(0, 2), set(2, 1)], 0));
        }
        // Parity that protects what the parity before it does not, as an append writes it.
        "parity-extended" => {
            let image = images.first()?;
            let set = |first_leaf| {
                let groups = ParitySet { first_leaf, group_count: 1, parity_count: 1 };
                [groups, ParitySet::default()]
            };
            let (leaf, previous_at) =
                (image.len() as u64 / LEAF_LEN, image.len() as u64 % LEAF_LEN);
            return Some(with_parity(&with_parity(image, set(0), 0), set(leaf), previous_at));
        }
        _ => return None,
    };
    Some(reshape(images.first()?, &shape))
}

/// Bytes of each file of the golden tree `code`.
pub const FILTERED_LEN: usize = 3000;
/// Bytes of each file of the golden tree `texts`.
pub const CHAINED_LEN: usize = 2000;

/// An image with the trees and contents of `image`, put together as `shape` says.
pub fn reshape(image: &[u8], shape: &Shape) -> Vec<u8> {
    let parts = Image::open(image).expect("the second reader opens the image");
    let mut hand = Hand::new([0x5a; 16], shape.ignored);
    if shape.ignored {
        hand.section(4242, 0, b"a section of a type that nobody knows yet", 41);
        hand.stored(SectionType::History, b"made by hand\n");
        let mut signature = [b's'; SIGNATURE_LEN];
        signature[0] = 9;
        hand.stored(SectionType::Signature, &signature);
    }
    let mut stream = Stream::default();
    hand.frames(&mut stream, &parts.stream(), shape);
    let mut root = Root { bounds: stream.bounds(), ..Root::default() };
    hand.shared_tables(&mut root, parts.shared(), &stream, shape);
    root.snapshots.push(hand.snapshot(&parts, shape));
    hand.finish(&root, shape.bare, 0);
    hand.bytes
}

/// `old` with the tree of `new` as a further snapshot: bytes are only added.
pub fn append(old: &[u8], new: &[u8], name: &[u8], shape: &Shape) -> Vec<u8> {
    let before = Image::open(old).expect("the second reader opens the old image");
    let parts = Image::open(new).expect("the second reader opens the new image");
    let mut hand = Hand::resume(old);
    let previous_trailer_offset = (old.len() - TRAILER_SECTION_LEN) as u64;
    let mut stream = Stream::of(&before);
    let stream_start = stream.end();
    hand.frames(&mut stream, &parts.stream(), shape);

    // Shared tables grow at their ends; content 0 is the empty content of both.
    let (shared, added) = (before.shared(), parts.shared());
    let content_end = shared.contents.integers(contents::BASE).last().copied().unwrap_or(0);
    let content_shift = shared.contents.len() as u64 - 2;
    let mut joined = SharedTables::clone(shared);
    joined.contents.columns[contents::BASE]
        .join(&added.contents.columns[contents::BASE], |row| (row > 0).then_some(content_end));
    joined.extents.columns[extents::BASE]
        .join(&added.extents.columns[extents::BASE], |_| Some(content_end));
    joined.extents.columns[extents::STREAM]
        .join(&added.extents.columns[extents::STREAM], |_| Some(stream_start));
    let mut root = Root { bounds: stream.bounds(), ..Root::default() };
    hand.shared_tables(&mut root, &joined, &stream, shape);
    root.snapshots = crate::image::open(old).unwrap().snapshots().to_vec();
    let mut snapshot = hand.snapshot_shifted(&parts, content_shift, shape);
    snapshot.name = name.to_vec();
    root.snapshots.push(snapshot);
    hand.finish(&root, false, previous_trailer_offset);
    hand.bytes
}

/// `image` with parity in these two sets of groups: all leaves, and the last ones once more. If the
/// first set begins with a later leaf, `previous_at` is the place of the earlier section in that.
pub fn with_parity(image: &[u8], sets: [ParitySet; 2], previous_at: u64) -> Vec<u8> {
    let mut hand = Hand::resume(image);
    let trailer_at = image.len() - 64;
    let trailer = Trailer::decode(&image[trailer_at..], trailer_at as u64 - 64).unwrap();
    let head = ParityHead {
        section_offset: hand.bytes.len() as u64,
        image_id: hand.superblock.image_id,
        chunk_len: 1024,
        body_align: 4096,
        previous_at,
        sets,
        root_offset: trailer.root_offset,
        root_section_len: trailer.root_section_len,
        previous_trailer_offset: trailer_at as u64 - 64,
        section_count: trailer.section_count + 2,
        merkle_offset: trailer.merkle_offset,
    };
    let layout = head.layout().unwrap();
    let leaves: Vec<&[u8]> = image.chunks(LEAF_LEN as usize).collect();
    let filled = |leaf: &[u8]| {
        let mut leaf = leaf.to_vec();
        leaf.resize(LEAF_LEN as usize, 0);
        leaf
    };
    let mut bodies = Vec::new();
    for set in &sets {
        let groups = set.group_count as usize;
        let group = |group: usize| {
            let members = leaves.iter().skip(set.first_leaf as usize + group).step_by(groups);
            let members: Vec<Vec<u8>> = members.map(|leaf| filled(leaf)).collect();
            parity_of(&members, set.parity_count as usize)
        };
        let parities: Vec<Vec<Vec<u8>>> = (0..groups).map(group).collect();
        for index in 0..set.body_count() as usize {
            bodies.push(parities[index % groups][index / groups].clone());
        }
    }
    let protected = leaves[sets[0].first_leaf as usize..].iter().copied();
    let hashes: Vec<[u8; HASH_LEN]> =
        protected.chain(bodies.iter().map(Vec::as_slice)).map(leaf_hash).collect();
    let share_len = (head.chunk_len - CHUNK_HEAD_LEN) as usize;
    let mut table = hashes.as_flattened().to_vec();
    table.resize(layout.chunk_count as usize * share_len, 0);
    let mut shares: Vec<Vec<u8>> = table.chunks(share_len).map(<[u8]>::to_vec).collect();
    shares.extend(parity_of(&shares, shares.len() * (ZONE_COUNT as usize - 1)));

    let mut payload = vec![0; (layout.end - layout.zones[0]) as usize];
    let mut put = |offset: u64, bytes: &[u8]| {
        let at = (offset - layout.zones[0]) as usize;
        payload[at..at + bytes.len()].copy_from_slice(bytes);
    };
    for (index, body) in bodies.iter().enumerate() {
        put(layout.body_offset(index as u64), body);
    }
    for (zone, &offset) in layout.zones.iter().enumerate() {
        put(offset, &head.encode(offset, xxh3_64));
        for chunk in 0..layout.chunk_count {
            let number = zone as u64 * layout.chunk_count + chunk;
            let rest = [&number.to_le_bytes()[..], &shares[number as usize]].concat();
            let bytes = [&xxh3_64(&rest).to_le_bytes()[..], &rest].concat();
            let start = offset + shale_format::parity::PARITY_HEAD_LEN as u64;
            put(start + chunk * head.chunk_len, &bytes);
        }
    }
    hand.stored(SectionType::Parity, &payload);
    hand.stored(SectionType::Trailer, &head.trailer(&layout).encode());
    hand.bytes
}

fn parity_of(data: &[Vec<u8>], parity_count: usize) -> Vec<Vec<u8>> {
    let mut encoder = ParityEncoder::new(data.len(), parity_count, data[0].len()).unwrap();
    data.iter().for_each(|shard| encoder.add(shard).unwrap());
    let mut parity = Vec::new();
    encoder.finish(|_, slice| parity.push(slice.to_vec())).unwrap();
    parity
}

/// The frames of an image: their rows, references and plain bytes.
#[derive(Default)]
struct Stream {
    records: Vec<FrameRecord>,
    references: Vec<u64>,
    plain: Vec<Vec<u8>>,
}

impl Stream {
    fn of(image: &Image<'_>) -> Self {
        let table = &image.shared().frames;
        let references = image.shared().references.integers(references::FRAME).to_vec();
        let mut stream = Self { references, ..Self::default() };
        for row in 0..table.len() - 1 {
            let columns = std::array::from_fn(|column| table.integers(column)[row]);
            let next = table.integers(frames::PLAIN_START)[row + 1];
            stream.records.push(FrameRecord::from_columns(&columns, next).unwrap());
        }
        stream.plain = image.plain_frames();
        stream
    }

    fn end(&self) -> u64 {
        self.records.last().map_or(0, |record| record.plain_start + record.plain_len)
    }

    fn references_of(&self, frame: usize) -> &[u64] {
        let record = &self.records[frame];
        let first = record.reference_first as usize;
        &self.references[first..first + record.reference_count as usize]
    }

    fn bounds(&self) -> ReadBounds {
        let cost = |frame: usize| {
            let (mut needed, mut open) = (BTreeSet::from([frame]), vec![frame]);
            while let Some(frame) = open.pop() {
                let below = self.references_of(frame).iter().map(|&frame| frame as usize);
                open.extend(below.filter(|&frame| needed.insert(frame)));
            }
            needed.into_iter().map(|frame| self.records[frame].plain_len).sum::<u64>()
        };
        let records = || self.records.iter();
        ReadBounds {
            reference_count_max: records().map(|r| r.reference_count as u16).max().unwrap_or(0),
            depth_max: records().map(|r| r.depth).max().unwrap_or(0),
            frame_plain_len_max: records().map(|r| r.plain_len).max().unwrap_or(0),
            read_bytes_max: (0..self.records.len()).map(cost).max().unwrap_or(0),
        }
    }
}

/// An image as far as it is written.
struct Hand {
    bytes: Vec<u8>,
    superblock: Superblock,
    section_count: u64,
    /// Pages of the section that comes next.
    pages: Vec<u8>,
}

impl Hand {
    fn new(image_id: [u8; 16], ignored: bool) -> Self {
        let mut superblock = Superblock::new(image_id);
        if ignored {
            superblock.features = Features { compat: 0x8000_0000_0000_0001, incompat: 0 };
        }
        let mut bytes = superblock.encode(xxh3_64).to_vec();
        if ignored {
            bytes[48..56].copy_from_slice(b"unused !");
            let sum = xxh3_64(&bytes[..56]);
            bytes[56..].copy_from_slice(&sum.to_le_bytes());
        }
        Self { bytes, superblock, section_count: 0, pages: Vec::new() }
    }

    fn resume(image: &[u8]) -> Self {
        let superblock = Superblock::decode(image, xxh3_64).unwrap();
        let (mut at, mut section_count) = (SUPERBLOCK_LEN, 0);
        while at < image.len() {
            let tag = superblock.image_tag();
            at = SectionHeader::decode(&image[at..], at as u64, tag, xxh3_64).unwrap().end()
                as usize;
            section_count += 1;
        }
        Self { bytes: image.to_vec(), superblock, section_count, pages: Vec::new() }
    }

    /// Adds a section; returns the offset of its header and its length.
    fn section(&mut self, kind: u16, codec: u8, stored: &[u8], plain_len: u64) -> (u64, u64) {
        let header = SectionHeader {
            section_type: kind,
            codec,
            offset: self.bytes.len() as u64,
            stored_len: stored.len() as u64,
            plain_len,
            image_tag: self.superblock.image_tag(),
            payload_sum: xxh3_64(stored),
        };
        self.bytes.extend_from_slice(&header.encode(xxh3_64));
        self.bytes.extend_from_slice(stored);
        self.section_count += 1;
        (header.offset, header.end() - header.offset)
    }

    fn stored(&mut self, kind: SectionType, payload: &[u8]) -> (u64, u64) {
        self.section(kind as u16, 0, payload, payload.len() as u64)
    }

    /// Where the payload of the next section begins.
    fn payload_offset(&self) -> u64 {
        (self.bytes.len() + SECTION_HEADER_LEN) as u64
    }

    /// Cuts `plain` into frames, which go into one section, and adds them to `stream`.
    fn frames(&mut self, stream: &mut Stream, plain: &[u8], shape: &Shape) {
        if plain.is_empty() {
            return;
        }
        let (mut payload, mut rest) = (Vec::new(), plain);
        let first = stream.records.len() as u64;
        for (index, cut) in shape.cuts.iter().enumerate() {
            let is_last = index + 1 == shape.cuts.len();
            let (piece, after) = rest.split_at(if is_last { rest.len() } else { cut.len });
            rest = after;
            stream.plain.push(piece.to_vec());
            stream.records.push(FrameRecord::default());
            let references: Vec<u64> = cut.references.iter().map(|frame| first + frame).collect();
            let record = FrameRecord {
                plain_start: stream.plain[..stream.plain.len() - 1]
                    .iter()
                    .map(|plain| plain.len() as u64)
                    .sum(),
                plain_len: piece.len() as u64,
                reference_first: stream.references.len() as u64,
                reference_count: references.len() as u32,
                filter: cut.filter.id(),
                plain_sum: xxh3_64(piece),
                ..FrameRecord::default()
            };
            stream.references.extend(references);
            *stream.records.last_mut().unwrap() = record;
        }
        // A reference may lie after its frame: depths first, then the bytes.
        for (index, cut) in shape.cuts.iter().enumerate() {
            let at = first as usize + index;
            stream.records[at].depth = depth(stream, at);
            if shape.ignored {
                payload.extend_from_slice(b"between frames");
                stream.records[at].category = 99;
            }
            let (codec, stored) = encode(stream, at, cut);
            let record = &mut stream.records[at];
            record.codec = codec;
            record.stored_offset = self.payload_offset() + payload.len() as u64;
            record.stored_len = stored.len() as u64;
            record.stored_sum = xxh3_64(&stored);
            payload.extend_from_slice(&stored);
        }
        self.stored(SectionType::Frames, &payload);
    }

    fn shared_tables(
        &mut self,
        root: &mut Root,
        shared: &SharedTables,
        stream: &Stream,
        shape: &Shape,
    ) {
        root.contents = self.table(&contents::SCHEMA, &shared.contents, shape);
        root.extents = self.table(&extents::SCHEMA, &shared.extents, shape);
        let mut rows: Vec<[Value<'_>; 10]> = stream.records.iter().map(FrameRecord::row).collect();
        // Of the sentinel row only the end of stream space counts.
        let filler = if shape.ignored { 7 } else { 0 };
        let mut sentinel = [Value::U64(filler); 10];
        sentinel[frames::PLAIN_START] = Value::U64(stream.end());
        rows.push(sentinel);
        let rows: Vec<&[Value<'_>]> = rows.iter().map(|row| &row[..]).collect();
        root.frames = self.table_of(&frames::SCHEMA, &rows, shape);
        let rows = Rows { columns: vec![Column::Integers(stream.references.clone())] };
        root.references = self.table(&references::SCHEMA, &rows, shape);
    }

    fn snapshot(&mut self, image: &Image<'_>, shape: &Shape) -> Snapshot {
        self.snapshot_shifted(image, 0, shape)
    }

    /// The tables of the newest snapshot of an image; contents but the empty one get numbers that
    /// are greater by `content_shift`.
    fn snapshot_shifted(
        &mut self,
        image: &Image<'_>,
        content_shift: u64,
        shape: &Shape,
    ) -> Snapshot {
        let tables = image.snapshot();
        let mut inode_rows = tables.inodes.clone();
        let modes = inode_rows.integers(inodes::MODE).to_vec();
        if let Column::Integers(payloads) = &mut inode_rows.columns[inodes::PAYLOAD] {
            for (payload, mode) in payloads.iter_mut().zip(modes) {
                if mode & 0o170_000 == 0o100_000 && *payload > 0 {
                    *payload += content_shift;
                }
            }
        }
        Snapshot {
            name: Vec::new(),
            times_kept: tables.times_kept,
            file_bytes: tables.file_bytes,
            inodes: self.table(&inodes::SCHEMA, &inode_rows, shape),
            directories: self.table(&directories::SCHEMA, &tables.directories, shape),
            entries: self.table(&entries::SCHEMA, &tables.entries, shape),
            symlinks: self.table(&symlinks::SCHEMA, &tables.symlinks, shape),
            xattr_sets: self.table(&xattr_sets::SCHEMA, &tables.xattr_sets, shape),
            xattr_items: self.table(&xattr_items::SCHEMA, &tables.xattr_items, shape),
        }
    }

    fn table(&mut self, schema: &'static Schema, table: &Rows, shape: &Shape) -> TableRoot {
        let row = |row| table.columns.iter().map(|column| value(column, row)).collect();
        let rows: Vec<Vec<Value<'_>>> = (0..table.len()).map(row).collect();
        let rows: Vec<&[Value<'_>]> = rows.iter().map(Vec::as_slice).collect();
        self.table_of(schema, &rows, shape)
    }

    /// Writes a table as pages.
    fn table_of(
        &mut self,
        schema: &'static Schema,
        rows: &[&[Value<'_>]],
        shape: &Shape,
    ) -> TableRoot {
        let base = self.payload_offset();
        let mut sink = Sink { base, payload: &mut self.pages, first: None };
        let mut builder = TableBuilder::new(schema);
        if let Some((page_rows, index_rows)) = shape.page_rows {
            builder = builder.with_page_rows(page_rows).with_index_rows(index_rows);
        }
        for row in rows {
            builder.push(row, &mut sink).unwrap();
        }
        if let Some((page, _)) = &sink.first {
            builder.set_dictionary(*page);
        }
        builder.finish(&mut sink).unwrap()
    }

    fn finish(&mut self, root: &Root, bare: bool, previous_trailer_offset: u64) {
        let pages = std::mem::take(&mut self.pages);
        self.stored(SectionType::Pages, &pages);
        let plain = root.encode().unwrap();
        let mut stored = Vec::new();
        let settings: Settings = "zstd:19".parse().unwrap();
        Encoder::new(settings).unwrap().encode(&[], &plain, &mut stored).unwrap();
        let root_section = |hand: &mut Self| {
            hand.section(SectionType::Root as u16, 1, &stored, plain.len() as u64)
        };
        let (root_offset, root_section_len) = root_section(self);
        let mut merkle_offset = 0;
        if !bare {
            let leaves = self.bytes.chunks(LEAF_LEN as usize).map(leaf_hash).collect();
            let hashes = tree(leaves, FAN_OUT as usize);
            let head = MerkleHead {
                covered_len: self.bytes.len() as u64,
                root_offset,
                root_section_len,
                tree_root: *hashes.last().unwrap(),
            };
            let payload = [&head.encode(), hashes.as_flattened()].concat();
            merkle_offset = self.stored(SectionType::Merkle, &payload).0;
            root_section(self);
        }
        let trailer = Trailer {
            root_offset,
            root_section_len,
            image_len: (self.bytes.len() + TRAILER_SECTION_LEN) as u64,
            previous_trailer_offset,
            section_count: self.section_count,
            image_id: self.superblock.image_id,
            merkle_offset,
        };
        self.stored(SectionType::Trailer, &trailer.encode());
    }
}

fn value(column: &Column, row: usize) -> Value<'_> {
    match column {
        Column::Integers(values) => Value::U64(values[row]),
        Column::Strings(values) => Value::Bytes(&values[row]),
    }
}

/// One more than the greatest depth of the references; 0 without any.
fn depth(stream: &Stream, frame: usize) -> u8 {
    let below = stream.references_of(frame).iter();
    below.map(|&reference| depth(stream, reference as usize) + 1).max().unwrap_or(0)
}

/// The codec number of a frame and its stored bytes.
fn encode(stream: &Stream, frame: usize, cut: &Cut) -> (u8, Vec<u8>) {
    let settings: Settings = cut.codec.parse().unwrap();
    let mut encoder = Encoder::new(settings).unwrap();
    let mut stored = Vec::new();
    let plain = &stream.plain[frame];
    if cut.filter == Filter::Lines {
        let form = lines_form(plain).expect("lines that resemble each other");
        encoder.encode_form(&form, &mut stored).unwrap();
    } else {
        let filtered = |plain: &[u8]| {
            let mut bytes = plain.to_vec();
            cut.filter.apply(&mut bytes);
            bytes
        };
        let references = stream.references_of(frame).iter();
        let prefix: Vec<u8> =
            references.flat_map(|&frame| filtered(&stream.plain[frame as usize])).collect();
        encoder.encode(&prefix, &filtered(plain), &mut stored).unwrap();
    }
    assert!(stored.len() <= plain.len(), "frame {frame} grows from {} bytes", plain.len());
    (settings.codec.id(), stored)
}

/// Stores pages: the first as it is, the others with it as dictionary if that makes them smaller.
struct Sink<'h> {
    base: u64,
    payload: &'h mut Vec<u8>,
    first: Option<(PageRef, Vec<u8>)>,
}

impl PageSink for Sink<'_> {
    type Error = TableError;

    fn put(&mut self, plain: &[u8]) -> Result<PageRef, TableError> {
        let dictionary = self.first.as_ref().map_or(&[][..], |(_, plain)| plain);
        let settings: Settings = "zstd:19".parse().unwrap();
        let mut stored = Vec::new();
        Encoder::new(settings).unwrap().encode(dictionary, plain, &mut stored).unwrap();
        let codec = match (stored.len() < plain.len(), dictionary) {
            (false, _) => 0,
            (true, []) => 1,
            (true, _) => 2,
        };
        let stored = if codec == 0 { plain } else { &stored };
        let page = PageRef {
            offset: self.base + self.payload.len() as u64,
            checksum: xxh3_64(stored),
            stored_len: stored.len() as u32,
            plain_len: plain.len() as u32,
            codec,
            ..PageRef::default()
        };
        self.payload.extend_from_slice(stored);
        self.first.get_or_insert_with(|| (page, plain.to_vec()));
        Ok(page)
    }
}
