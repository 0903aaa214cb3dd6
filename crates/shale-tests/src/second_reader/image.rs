//! From the superblock to the bytes of a file, by chapters 4 to 8 of the specification. `None` is
//! whatever is not as it says.

pub use super::page::Column;
use super::page::{self, Met};
use super::{array, lines, model, samples};
use crate::manifest::{Manifest, Record, content_hash};
use shale_codec::{Codec, Decoder, Filter, xxh3_64};
use std::collections::{BTreeMap, HashMap};

/// An image with all its tables in memory.
#[derive(Debug)]
pub struct Image<'b> {
    bytes: &'b [u8],
    shared: SharedTables,
    snapshot: SnapshotTables,
    met: Met,
}

/// The tables that all snapshots share.
#[derive(Debug, Clone)]
pub struct SharedTables {
    /// Table `contents`.
    pub contents: Rows,
    /// Table `extents`.
    pub extents: Rows,
    /// Table `frames`.
    pub frames: Rows,
    /// Table `references`.
    pub references: Rows,
    /// Table `chunks`.
    pub chunks: Rows,
}

/// The tables of the newest snapshot, and what the root says of it.
#[derive(Debug, Clone)]
pub struct SnapshotTables {
    /// Which times are kept.
    pub times_kept: u8,
    /// Bytes of all files.
    pub file_bytes: u64,
    /// Table `inodes`.
    pub inodes: Rows,
    /// Table `directories`.
    pub directories: Rows,
    /// Table `entries`.
    pub entries: Rows,
    /// Table `symlinks`.
    pub symlinks: Rows,
    /// Table `xattr_sets`.
    pub xattr_sets: Rows,
    /// Table `xattr_items`.
    pub xattr_items: Rows,
}

/// All rows of a table, column by column.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// The columns; none where the table is empty.
    pub columns: Vec<Column>,
}

impl Rows {
    /// Rows of the table.
    pub fn len(&self) -> usize {
        match self.columns.first() {
            Some(Column::Integers(values)) => values.len(),
            Some(Column::Strings(values)) => values.len(),
            None => 0,
        }
    }

    /// The table has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A column of integers; empty for a column of strings and in an empty table.
    pub fn integers(&self, column: usize) -> &[u64] {
        match self.columns.get(column) {
            Some(Column::Integers(values)) => values,
            _ => &[],
        }
    }

    fn number(&self, column: usize, row: u64) -> Option<u64> {
        match self.columns.get(column)? {
            Column::Integers(values) => values.get(usize::try_from(row).ok()?).copied(),
            Column::Strings(_) => None,
        }
    }

    fn string(&self, column: usize, row: u64) -> Option<&[u8]> {
        match self.columns.get(column)? {
            Column::Strings(values) => values.get(usize::try_from(row).ok()?).map(Vec::as_slice),
            Column::Integers(_) => None,
        }
    }

    /// Last row whose column 0 is at most `key`.
    fn last_at_most(&self, key: u64) -> Option<u64> {
        match self.columns.first()? {
            Column::Integers(values) => {
                values.partition_point(|value| *value <= key).checked_sub(1).map(|row| row as u64)
            }
            Column::Strings(_) => None,
        }
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn slice(bytes: &[u8], offset: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
}

impl<'b> Image<'b> {
    /// Reads an image that begins with the first byte and ends with the last.
    pub fn open(bytes: &'b [u8]) -> Option<Self> {
        let superblock = bytes.get(..64)?;
        let right = superblock[..8] == [0x8b, 0x53, 0x48, 0x41, 0x4c, 0x45, 0x0d, 0x0a]
            && xxh3_64(&superblock[..56]) == u64_at(superblock, 56)?
            && superblock[8..10] == [0, 0]
            && matches!(superblock[10..12], [1..=4, 0])
            && u64_at(superblock, 24)? == 0;
        let tag = u64_at(superblock, 32)?;
        let end = bytes.len() as u64;
        let (kind, trailer) = section(bytes, end.checked_sub(128)?, tag)?;
        let own =
            kind == 8 && u64_at(&trailer, 16)? == end && trailer[40..56] == superblock[32..48];
        let (kind, root) = section(bytes, u64_at(&trailer, 0)?, tag)?;
        if !right || !own || kind != 3 {
            return None;
        }
        let mut met = Met::new();
        let (snapshot_count, roots) = snapshot_count(bytes, u64_at(&trailer, 0)?, &root, tag)?;
        met.insert(("snapshots", snapshot_count));
        met.insert(("roots", roots));
        let mut table_at =
            |at, kinds: &[bool]| table(bytes, root.get(at..at + 88)?, kinds, &mut met);
        // The last snapshot is the newest; the ones before are skipped.
        let mut at = 376;
        let needs = *root.get(7)?;
        let chunks = match needs & 1 {
            0 => Rows::default(),
            _ => {
                at += 88;
                table_at(376, &[true; 8])?
            }
        };
        if needs & 2 != 0 {
            // Further records only say what a reader may fetch.
            let further = u64::from(u32_at(&root, at + 36)?);
            at += 40 * (1 + usize::try_from(further).ok().filter(|&further| further < 12)?);
        }
        for _ in 1..u32_at(&root, 0)? {
            at += 544 + usize::from(u16::from_le_bytes([*root.get(at)?, *root.get(at + 1)?]));
        }
        let times_kept = *root.get(at + 2)?;
        let file_bytes = u64_at(&root, at + 8)?;
        let shared = SharedTables {
            contents: table_at(24, &[true])?,
            extents: table_at(112, &[true, true])?,
            frames: table_at(200, &[true; 10])?,
            references: table_at(288, &[true])?,
            chunks,
        };
        let snapshot = SnapshotTables {
            times_kept,
            file_bytes,
            inodes: table_at(at + 16, &[true; 14])?,
            directories: table_at(at + 104, &[true; 3])?,
            entries: table_at(at + 192, &[true, false])?,
            symlinks: table_at(at + 280, &[false])?,
            xattr_sets: table_at(at + 368, &[true, true])?,
            xattr_items: table_at(at + 456, &[false, false])?,
        };
        let frame_count = shared.frames.len() - 1;
        let codecs = &shared.frames.integers(3)[..frame_count];
        met.extend(codecs.iter().map(|codec| ("codec", codec & 0xff)));
        met.extend(codecs.iter().map(|codec| ("filter", codec >> 8 & 0xff)));
        met.extend(shared.frames.integers(5)[..frame_count].iter().map(|&depth| ("depth", depth)));
        for chunk in 1..shared.chunks.len() {
            met.insert(("encoder", shared.chunks.integers(4)[chunk - 1] & 255));
            met.insert(("chunk depth", shared.chunks.integers(6)[chunk - 1]));
        }
        Some(Self { bytes, shared, snapshot, met })
    }

    /// What the image makes use of: tags of pages, codecs, filters and so on, with their numbers.
    pub fn met(&self) -> &Met {
        &self.met
    }

    /// The tables that all snapshots share.
    pub fn shared(&self) -> &SharedTables {
        &self.shared
    }

    /// The tables of the newest snapshot.
    pub fn snapshot(&self) -> &SnapshotTables {
        &self.snapshot
    }

    /// The plain bytes of all frames. Panics where one does not decode.
    pub fn plain_frames(&self) -> Vec<Vec<u8>> {
        let mut frames = HashMap::new();
        let count = self.shared.frames.len() as u64 - 1;
        for frame in 0..count {
            self.decode(frame, 0, &mut frames).expect("the frame decodes");
        }
        (0..count).map(|frame| frames[&frame].clone()).collect()
    }

    /// All of stream space. Panics where a frame does not decode.
    pub fn stream(&self) -> Vec<u8> {
        self.plain_frames().concat()
    }

    /// The manifest of the newest snapshot.
    pub fn manifest(&self) -> Option<Manifest> {
        let (mut records, mut names) = (BTreeMap::new(), HashMap::<u64, Vec<Vec<u8>>>::new());
        let mut frames = HashMap::new();
        let mut waiting = vec![(Vec::new(), 1)];
        while let Some((path, inode)) = waiting.pop() {
            let record = self.record(&path, inode, &mut frames)?;
            if record.kind == 'd' {
                let directory = self.snapshot.inodes.number(13, inode - 1)?;
                let first = self.snapshot.directories.number(0, directory)?;
                let end = self.snapshot.directories.number(0, directory + 1)?;
                for row in first..end {
                    let name = self.snapshot.entries.string(1, row)?;
                    let full =
                        if path.is_empty() { name.to_vec() } else { [&path, name].join(&b'/') };
                    waiting.push((full, self.snapshot.entries.number(0, row)?));
                }
            } else {
                names.entry(inode).or_default().push(path.clone());
            }
            records.insert(path, record);
        }
        Some(Manifest::with_links(records, names))
    }

    fn record(
        &self,
        path: &[u8],
        inode: u64,
        frames: &mut HashMap<u64, Vec<u8>>,
    ) -> Option<Record> {
        let column = |column| self.snapshot.inodes.number(column, inode - 1);
        let (mode, payload) = (column(0)?, column(13)?);
        let kind = match mode >> 12 {
            0o01 => 'p',
            0o02 => 'c',
            0o04 => 'd',
            0o06 => 'b',
            0o10 => '-',
            0o12 => 'l',
            0o14 => 's',
            _ => return None,
        };
        let (mut len, mut content, mut data) = (0, Vec::new(), Vec::new());
        if kind == 'l' {
            content = self.snapshot.symlinks.string(0, payload)?.to_vec();
            len = content.len() as u64;
        } else if kind == '-' {
            let base = self.shared.contents.number(0, payload)?;
            len = self.shared.contents.number(0, payload + 1)?.checked_sub(base)?;
            data = self.data_map(base, len)?;
            let read = |at, buffer: &mut [u8]| self.read(base + at, buffer, 4, frames).ok_or(());
            content = content_hash(len, &data, read).ok()?;
        }
        let mut xattrs = BTreeMap::new();
        if let Some(set) = column(12)?.checked_sub(1) {
            let first = self.snapshot.xattr_sets.number(0, set)?;
            for item in first..first + self.snapshot.xattr_sets.number(1, set)? {
                let name = self.snapshot.xattr_items.string(0, item)?;
                xattrs.insert(name.to_vec(), self.snapshot.xattr_items.string(1, item)?.to_vec());
            }
        }
        let is_device = matches!(kind, 'b' | 'c');
        Some(Record {
            kind,
            mode: (mode & 0o7777) as u32,
            owner: (column(1)? as u32, column(2)? as u32),
            len,
            mtime: ((column(4)? ^ 1 << 63) as i64, column(5)? as u32),
            device: if is_device { ((payload >> 32) as u32, payload as u32) } else { (0, 0) },
            link_count: if kind == 'd' { 1 } else { column(3)? },
            first_name: path.to_vec(),
            xattrs,
            content,
            data,
        })
    }

    /// Pieces of content space that are not holes, joined, from the start of a content.
    fn data_map(&self, base: u64, len: u64) -> Option<Vec<(u64, u64)>> {
        let mut map: Vec<(u64, u64)> = Vec::new();
        let mut at = 0;
        while at < len {
            let extent = self.shared.extents.last_at_most(base + at)?;
            let end = (self.shared.extents.number(0, extent + 1)? - base).min(len);
            if self.shared.extents.number(1, extent)? != u64::MAX {
                match map.last_mut() {
                    Some(last) if last.1 == at => last.1 = end,
                    _ => map.push((at, end)),
                }
            }
            at = end;
        }
        Some(map)
    }

    /// Fills `buffer` from a position in content space. Needs only chunks of less than this depth.
    fn read(
        &self,
        mut position: u64,
        mut buffer: &mut [u8],
        depth: u64,
        frames: &mut HashMap<u64, Vec<u8>>,
    ) -> Option<()> {
        while !buffer.is_empty() {
            let extent = self.shared.extents.last_at_most(position)?;
            let left = self.shared.extents.number(0, extent + 1)? - position;
            let (base, stream) =
                (self.shared.extents.number(0, extent)?, self.shared.extents.number(1, extent)?);
            let mut len = left.min(buffer.len() as u64) as usize;
            if stream >= u64::MAX - 1 {
                buffer[..len].fill(0);
            } else if stream >= 1 << 63 {
                let at = stream - (1 << 63) + (position - base);
                let chunk = self.shared.chunks.last_at_most(at)?;
                self.rebuild(chunk, depth, frames)?;
                let rebuilt = frames.get(&(chunk | 1 << 63))?;
                let within = (at - self.shared.chunks.number(0, chunk)?) as usize;
                len = len.min(rebuilt.len() - within);
                buffer[..len].copy_from_slice(&rebuilt[within..within + len]);
            } else {
                let at = stream + (position - base);
                let frame = self.shared.frames.last_at_most(at)?;
                self.decode(frame, 0, frames)?;
                let plain = frames.get(&frame)?;
                let within = (at - self.shared.frames.number(0, frame)?) as usize;
                len = len.min(plain.len() - within);
                buffer[..len].copy_from_slice(&plain[within..within + len]);
            }
            position += len as u64;
            buffer = &mut buffer[len..];
        }
        Some(())
    }

    /// Puts the bytes of a chunk of less than this depth into `frames`, with bit 63 set in its
    /// number.
    fn rebuild(&self, chunk: u64, depth: u64, frames: &mut HashMap<u64, Vec<u8>>) -> Option<()> {
        let column = |column| self.shared.chunks.number(column, chunk);
        let (content, offset, plain_len) = (column(1)?, column(2)?, column(3)?);
        let len = self.shared.chunks.number(0, chunk + 1)?.checked_sub(column(0)?)?;
        let model = model::Model::of(column(4)?)?;
        let own_depth = column(6)?;
        if own_depth >= depth || !(1..=3).contains(&own_depth) || plain_len > 1 << 20 {
            return None;
        }
        if frames.contains_key(&(chunk | 1 << 63)) {
            return Some(());
        }
        let start = offset.min(model.window_needed());
        let base = self.shared.contents.number(0, content)?;
        let content_len = self.shared.contents.number(0, content + 1)?.checked_sub(base)?;
        let end = content_len.min(offset.checked_add(plain_len + 1024)?);
        let mut data = vec![0; end.checked_sub(offset - start)? as usize];
        self.read(base + offset - start, &mut data, own_depth, frames)?;
        let plain_end = (start + plain_len) as usize;
        let rebuilt = model::rebuild(model::Chunk {
            model,
            carried: column(5)?,
            offset,
            data: &data,
            start: start as usize,
            end: (plain_end < data.len()).then_some(plain_end),
        })?;
        let is_right = rebuilt.len() as u64 == len && xxh3_64(&rebuilt) as u32 == column(7)? as u32;
        frames.insert(chunk | 1 << 63, rebuilt);
        is_right.then_some(())
    }

    /// Puts the plain bytes of a frame, and of all it refers to, into `frames`.
    fn decode(&self, frame: u64, level: u8, frames: &mut HashMap<u64, Vec<u8>>) -> Option<()> {
        if frames.contains_key(&frame) || level > 8 {
            return frames.contains_key(&frame).then_some(());
        }
        let column = |column| self.shared.frames.number(column, frame);
        let [codec, filter, ..] = column(3)?.to_le_bytes();
        let filter = Filter::from_id(filter)?;
        let mut prefix = Vec::new();
        let first = column(6)?;
        for row in first..first + column(7)? {
            let reference = self.shared.references.number(0, row)?;
            if self.shared.frames.number(5, reference)? >= column(5)? {
                return None;
            }
            self.decode(reference, level + 1, frames)?;
            let mut bytes = frames.get(&reference)?.clone();
            filter.apply(&mut bytes);
            prefix.append(&mut bytes);
        }
        let stored = slice(self.bytes, column(1)?, column(2)?)?;
        let plain_len = (self.shared.frames.number(0, frame + 1)? - column(0)?) as usize;
        let mut plain = Vec::new();
        let codec = Codec::from_id(codec)?;
        if filter == Filter::Lines {
            let mut at = 0;
            let form_len = lines::varint(stored, &mut at)? as usize;
            let mut form = Vec::new();
            Decoder::new().decode(codec, &[], &stored[at..], form_len, &mut form).ok()?;
            plain = lines::undo(&form).filter(|plain| plain.len() == plain_len)?;
        } else if filter == Filter::Samples {
            let parts = samples::split(stored)?;
            let rest_len = plain_len.checked_sub(parts.byte_count())?;
            if rest_len > 0 {
                Decoder::new().decode(codec, &[], parts.rest, rest_len, &mut plain).ok()?;
            } else if !parts.rest.is_empty() {
                return None;
            }
            let tail = plain.get(parts.head_len..)?.to_vec();
            plain.truncate(parts.head_len);
            plain.extend(parts.undo()?);
            plain.extend(tail);
        } else if filter == Filter::Array {
            let (shape, stored) = stored.split_at_checked(3)?;
            let mut form = shape.to_vec();
            Decoder::new().decode(codec, &[], stored, plain_len, &mut form).ok()?;
            plain = array::undo(&form)?;
        } else {
            Decoder::new().decode(codec, &prefix, stored, plain_len, &mut plain).ok()?;
            filter.reverse(&mut plain);
        }
        let right = xxh3_64(stored) == column(8)? && xxh3_64(&plain) == column(9)?;
        frames.insert(frame, plain);
        right.then_some(())
    }
}

/// The number of snapshots of a root whose section is at `offset`, and of the roots that it needs,
/// with itself.
fn snapshot_count(bytes: &[u8], offset: u64, root: &[u8], tag: u64) -> Option<(u64, u64)> {
    let needs = *root.get(7).filter(|needs| **needs < 4)?;
    let own = u64::from(u32_at(root, 0)?);
    if needs & 2 == 0 {
        return Some((own, 1));
    }
    let earlier = root.get(if needs & 1 == 0 { 376 } else { 464 }..)?.get(..40)?;
    let (count, section_len) = (u64::from(u32_at(earlier, 32)?), u64_at(earlier, 16)?);
    let mut found = None;
    // Both copies are there.
    for at in [u64_at(earlier, 0)?, u64_at(earlier, 8)?] {
        let (kind, plain) = section(bytes, at, tag)?;
        let right = kind == 3
            && at.checked_add(section_len)? <= offset
            && u64_at(bytes.get(at as usize..)?, 24)? + 64 == section_len
            && u64_at(bytes.get(at as usize..)?, 48)? == u64_at(earlier, 24)?;
        if !right {
            return None;
        }
        found = found.or(Some((at, plain)));
    }
    let (at, plain) = found?;
    let (below, roots) = snapshot_count(bytes, at, &plain, tag)?;
    (below >= count && count > 0 && roots <= 12).then_some((own + count, roots + 1))
}

/// Type and plain payload of the section whose header is at `offset`.
fn section(bytes: &[u8], offset: u64, tag: u64) -> Option<(u16, Vec<u8>)> {
    let header = slice(bytes, offset, 64)?;
    let payload = slice(bytes, offset + 64, u64_at(header, 24)?)?;
    let right = header[..8] == [0x8b, 0x53, 0x45, 0x43, 0x54, 0x4e, 0x0d, 0x0a]
        && u64_at(header, 16)? == offset
        && u64_at(header, 40)? == tag
        && u64_at(header, 48)? == xxh3_64(payload)
        && u64_at(header, 56)? == xxh3_64(&header[..56]);
    let plain = decoded(header[10], &[], payload, u64_at(header, 32)?)?;
    right.then(|| (u16::from_le_bytes([header[8], header[9]]), plain))
}

fn decoded(codec: u8, prefix: &[u8], stored: &[u8], plain_len: u64) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let codec = Codec::from_id(codec)?;
    let plain_len = usize::try_from(plain_len).ok()?;
    Decoder::new().decode(codec, prefix, stored, plain_len, &mut plain).ok()?;
    Some(plain)
}

/// A page by its reference of 32 bytes, still plain bytes.
fn page_bytes(bytes: &[u8], reference: &[u8], dictionary: &[u8]) -> Option<Vec<u8>> {
    page_above(bytes, reference, dictionary, 0)
}

/// The same, for a page that is the prefix of as many others as `depth` says.
fn page_above(bytes: &[u8], reference: &[u8], dictionary: &[u8], depth: usize) -> Option<Vec<u8>> {
    let stored = slice(bytes, u64_at(reference, 0)?, u32_at(reference, 16)?.into())?;
    if xxh3_64(stored) != u64_at(reference, 8)? {
        return None;
    }
    let plain_len = u64::from(u32_at(reference, 20)?);
    match reference[24] {
        codec @ (0 | 1) => decoded(codec, &[], stored, plain_len),
        2 => decoded(1, dictionary, stored, plain_len),
        3 if depth < 6 => {
            let (prefix, compressed) = stored.split_at_checked(32)?;
            let end = u64_at(prefix, 0)?.checked_add(u32_at(prefix, 16)?.into())?;
            if end > u64_at(reference, 0)? || prefix[25..] != [0; 7] {
                return None;
            }
            let prefix = page_above(bytes, prefix, dictionary, depth + 1)?;
            decoded(1, &prefix, compressed, plain_len)
        }
        _ => None,
    }
}

/// The columns of a page by its reference, patches included. `kinds` are those of the data pages of
/// its table; without them it is an index page.
fn page_columns(
    bytes: &[u8],
    reference: &[u8],
    (dictionary, kinds): (&[u8], Option<&[bool]>),
    met: &mut Met,
) -> Option<Vec<Column>> {
    let (mut at, mut patches) = (reference.to_vec(), Vec::new());
    while at[24] == 4 {
        let stored = slice(bytes, u64_at(&at, 0)?, u32_at(&at, 16)?.into())?;
        let (base, codec, patch) = page::patch_head(stored)?;
        let patch = (codec, patch);
        let end = u64_at(&base, 0)?.checked_add(u32_at(&base, 16)?.into())?;
        if xxh3_64(stored) != u64_at(&at, 8)? || end > u64_at(&at, 0)? || patches.len() == 12 {
            return None;
        }
        patches.push(decoded(patch.0, &[], patch.1, u32_at(&at, 20)?.into())?);
        met.insert(("codec of patch", patch.0.into()));
        at = base.to_vec();
    }
    let plain = page_bytes(bytes, &at, dictionary)?;
    let index = vec![true; if plain.get(1) == Some(&11) { 11 } else { 8 }];
    if kinds.is_none() {
        met.insert(("index columns", index.len() as u64));
    }
    let mut columns = page::page_met(&plain, kinds.unwrap_or(&index), met)?;
    for patch in patches.iter().rev() {
        columns = page::patched(&columns, patch, met)?;
    }
    Some(columns)
}

/// Adds the bases of a page to the columns of its table, which its kinds of columns tell apart.
fn add_bases(columns: &mut [Column], kinds: &[bool], bases: [u64; 3]) {
    let shifts: &[(usize, Option<u64>)] = match kinds {
        [true, false] => &[(0, None)],
        [true, true, true] => &[(0, None), (1, None), (2, None)],
        kinds if kinds.len() == 14 => &[(13, Some(0o040_000)), (13, Some(0o120_000))],
        _ => &[],
    };
    let Some(Column::Integers(modes)) = columns.first().cloned() else { return };
    for ((column, kind), base) in shifts.iter().zip(bases) {
        let Column::Integers(values) = &mut columns[*column] else { continue };
        for (value, mode) in values.iter_mut().zip(&modes) {
            if kind.is_none_or(|kind| mode & 0o170_000 == kind) {
                *value = value.wrapping_add(base);
            }
        }
    }
}

/// A whole table by its root of 88 bytes.
fn table(bytes: &[u8], root: &[u8], kinds: &[bool], met: &mut Met) -> Option<Rows> {
    let level_count = root[16];
    met.insert(("levels", level_count.into()));
    if level_count == 0 {
        return Some(Rows::default());
    }
    let dictionary = match root[56..88].iter().all(|b| *b == 0) {
        true => Vec::new(),
        false => page_bytes(bytes, &root[56..88], &[])?,
    };
    // From the top down: references to the pages of each level in order.
    let mut references = vec![(root[24..56].to_vec(), [0; 3])];
    for _ in 1..level_count {
        let mut below = Vec::new();
        for (reference, _) in &references {
            met.insert(("page codec", reference[24].into()));
            let columns = page_columns(bytes, reference, (&dictionary, None), met)?;
            let index = Rows { columns };
            let mut row = 0;
            while index.number(0, row).is_some() {
                let narrow = |column| index.number(column, row).map(|value| value as u32);
                let mut reference = index.number(3, row)?.to_le_bytes().to_vec();
                reference.extend(index.number(4, row)?.to_le_bytes());
                reference.extend(narrow(5)?.to_le_bytes());
                reference.extend(narrow(6)?.to_le_bytes());
                reference.extend([narrow(7)? as u8, 0, 0, 0, 0, 0, 0, 0]);
                let base =
                    |at: usize| index.columns.get(8 + at).and_then(|_| index.number(8 + at, row));
                below.push((reference, [0, 1, 2].map(|at| base(at).unwrap_or(0))));
                row += 1;
            }
        }
        references = below;
    }
    let mut columns: Vec<Column> = Vec::new();
    for (reference, bases) in &references {
        met.insert(("page codec", reference[24].into()));
        let mut more = page_columns(bytes, reference, (&dictionary, Some(kinds)), met)?;
        add_bases(&mut more, kinds, *bases);
        if columns.is_empty() {
            columns = more;
            continue;
        }
        for (column, more) in columns.iter_mut().zip(more) {
            match (column, more) {
                (Column::Integers(all), Column::Integers(more)) => all.extend(more),
                (Column::Strings(all), Column::Strings(more)) => all.extend(more),
                _ => return None,
            }
        }
    }
    let table = Rows { columns };
    (table.len() as u64 == u64_at(root, 0)?).then_some(table)
}
