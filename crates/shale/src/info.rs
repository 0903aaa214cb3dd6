//! Counts and sizes of an image, from its root and from the tables that describe storage. Reads the
//! index pages of all tables and all frame records; decodes no frame.

use std::collections::BTreeMap;

use serde::Serialize;
use shale_codec::codec_text;
use shale_format::root::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale_format::{Category, SectionType, hex};
use shale_read::Image;
use shale_table::Table;
use shale_write::STREAMS_WORD;

use crate::error::Error;

/// Facts about an image.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Info {
    /// Format version, major and minor.
    pub format_version: String,
    /// Identity, in hexadecimal; `None` before format 0.2.
    pub identity: Option<String>,
    /// Image id, in hexadecimal: derived from its input and options.
    pub image_id: String,
    /// Where the image begins in its file.
    pub offset: u64,
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Compatible feature bits.
    pub features_compat: u64,
    /// Incompatible feature bits.
    pub features_incompat: u64,
    /// Snapshots, newest last.
    pub snapshots: Vec<SnapshotInfo>,
    /// Unique contents, without the empty one.
    pub contents: u64,
    /// Bytes of these contents, holes included.
    pub content_bytes: u64,
    /// Extents: runs of content that are stored together.
    pub extents: u64,
    /// Frames.
    pub frames: u64,
    /// Plain bytes of all frames.
    pub plain_bytes: u64,
    /// Stored bytes of all frames.
    pub stored_bytes: u64,
    /// References of all frames.
    pub references: u64,
    /// Frames with references.
    pub frames_with_references: u64,
    /// Plain bytes decoded to read one byte with an empty cache, on average over all bytes of
    /// frames.
    pub read_bytes_mean: u64,
    /// Upper bounds of one random read.
    pub bounds: Bounds,
    /// Frames by codec.
    pub codecs: Vec<FrameGroup>,
    /// Frames by category.
    pub categories: Vec<FrameGroup>,
    /// Stored bytes and pages of each table.
    pub tables: Vec<TableInfo>,
    /// Sections by type.
    pub sections: Vec<SectionGroup>,
    /// History of the image: a line for each build.
    pub history: Vec<String>,
    /// Compressed streams that are rebuilt, by the kind of container that they were found in, as
    /// the builds counted them.
    pub streams: Vec<StreamGroup>,
    /// The parity in the image.
    pub parity: Option<ParityInfo>,
    /// Public keys of the signatures in the image, in hexadecimal. They are not verified.
    pub signers: Vec<String>,
    /// The reason, if the newest state is incomplete and an earlier one is shown.
    pub recovered: Option<String>,
}

/// One snapshot.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SnapshotInfo {
    /// Name, made printable; may be empty.
    pub name: String,
    /// Directory entries.
    pub entries: u64,
    /// Inodes.
    pub inodes: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes of all regular files, hard links counted once.
    pub file_bytes: u64,
    /// Which times are stored.
    pub times: Vec<&'static str>,
}

/// Upper bounds of a random read, guaranteed by the image.
#[derive(Debug, Clone, Copy, Serialize)]
#[non_exhaustive]
pub struct Bounds {
    /// Most references of any frame.
    pub reference_count_max: u16,
    /// Longest chain of references.
    pub depth_max: u8,
    /// Plain bytes of the largest frame.
    pub frame_plain_bytes_max: u64,
    /// Most plain bytes decoded for one byte.
    pub read_bytes_max: u64,
}

/// Frames with the same codec or category.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct FrameGroup {
    /// Name of the codec or category.
    pub name: String,
    /// Frames.
    pub frames: u64,
    /// Plain bytes.
    pub plain_bytes: u64,
    /// Stored bytes.
    pub stored_bytes: u64,
    /// Plain bytes decoded to read one of their bytes with an empty cache, on average.
    pub read_bytes_mean: u64,
    /// Sum of which that is the mean.
    #[serde(skip)]
    decoded: u128,
}

/// One table.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// Index of its snapshot; `None` for shared tables.
    pub snapshot: Option<usize>,
    /// Rows.
    pub rows: u64,
    /// Pages, index pages included.
    pub pages: u64,
    /// Plain bytes of the pages.
    pub plain_bytes: u64,
    /// Stored bytes of the pages.
    pub stored_bytes: u64,
}

/// Parity in an image.
#[derive(Debug, Clone, Copy, Serialize)]
#[non_exhaustive]
pub struct ParityInfo {
    /// Sections of parity.
    pub sections: u64,
    /// Bytes of these sections.
    pub stored_bytes: u64,
    /// Length of the longest burst of damage that is always repaired.
    pub burst_bytes: u64,
    /// The share of the image, in parts per million, for which as much would be added again.
    pub parts_per_million: u32,
}

/// Sections of one type.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SectionGroup {
    /// The type.
    pub name: String,
    /// Number of sections.
    pub count: u64,
    /// Stored bytes, without headers.
    pub stored_bytes: u64,
}

/// Gathers counts and sizes. Costs one read for each section and index page, a scan of the frame
/// table, and for each frame a look at the records of its references.
///
/// # Errors
/// The image cannot be read.
pub fn info(image: &Image) -> Result<Info, Error> {
    let superblock = image.superblock();
    let root = image.root();
    let mut codecs: BTreeMap<String, FrameGroup> = BTreeMap::new();
    let mut categories: BTreeMap<String, FrameGroup> = BTreeMap::new();
    let (mut plain_bytes, mut stored_bytes, mut frames_with_references) = (0, 0, 0);
    let mut decoded = 0;
    for record in image.frame_records(0..image.frame_count()) {
        let (frame, record) = record?;
        let cost = match record.reference_count {
            0 => record.plain_len,
            _ => image.read_cost(frame)?.plain_bytes,
        };
        // Each byte of the frame costs this much.
        let frame_decoded = u128::from(record.plain_len) * u128::from(cost);
        decoded += frame_decoded;
        plain_bytes += record.plain_len;
        stored_bytes += record.stored_len;
        frames_with_references += u64::from(record.reference_count > 0);
        let codec = codec_text(record.codec, record.filter);
        let category = Category::from_id(record.category).name().to_owned();
        for (groups, name) in [(&mut codecs, codec), (&mut categories, category)] {
            let group = groups.entry(name.clone()).or_insert(FrameGroup {
                name,
                frames: 0,
                plain_bytes: 0,
                stored_bytes: 0,
                read_bytes_mean: 0,
                decoded: 0,
            });
            group.decoded += frame_decoded;
            group.frames += 1;
            group.plain_bytes += record.plain_len;
            group.stored_bytes += record.stored_len;
        }
    }
    for group in codecs.values_mut().chain(categories.values_mut()) {
        group.read_bytes_mean = mean(group.decoded, group.plain_bytes);
    }
    let contents = image.content_count();
    let counts_streams = |line: &String| line.split(' ').next() == Some(STREAMS_WORD);
    let (counted, history) = history(image)?.into_iter().partition::<Vec<_>, _>(counts_streams);
    Ok(Info {
        format_version: format!("{}.{}", superblock.version_major, superblock.version_minor),
        identity: image.identity()?.map(|(_, identity)| identity.to_string()),
        image_id: hex::encode(&superblock.image_id),
        offset: image.offset(),
        image_bytes: image.trailer().image_len,
        features_compat: superblock.features.compat,
        features_incompat: superblock.features.incompat,
        snapshots: root.snapshots.iter().map(snapshot_info).collect(),
        contents: contents.saturating_sub(1),
        content_bytes: content_bytes(image)?,
        extents: root.extents.row_count.saturating_sub(1),
        frames: image.frame_count(),
        plain_bytes,
        stored_bytes,
        references: root.references.row_count,
        frames_with_references,
        read_bytes_mean: mean(decoded, plain_bytes),
        bounds: Bounds {
            reference_count_max: root.bounds.reference_count_max,
            depth_max: root.bounds.depth_max,
            frame_plain_bytes_max: root.bounds.frame_plain_len_max,
            read_bytes_max: root.bounds.read_bytes_max,
        },
        codecs: codecs.into_values().collect(),
        categories: categories.into_values().collect(),
        tables: tables(image)?,
        sections: sections(image)?,
        history,
        streams: streams_of(&counted),
        parity: shale_check::parity_facts(image)?.map(|facts| ParityInfo {
            sections: facts.sections,
            stored_bytes: facts.stored_bytes,
            burst_bytes: facts.burst_bytes,
            parts_per_million: facts.parts_per_million,
        }),
        signers: shale_check::signatures(image)?
            .iter()
            .map(|signature| hex::encode(&signature.public_key))
            .collect(),
        recovered: image.recovered().map(|recovery| recovery.reason.clone()),
    })
}

/// Mean of the bytes decoded for one byte, from the sum over all bytes.
fn mean(decoded: u128, bytes: u64) -> u64 {
    (decoded / u128::from(bytes.max(1))) as u64
}

fn snapshot_info(snapshot: &shale_read::Snapshot) -> SnapshotInfo {
    SnapshotInfo {
        name: snapshot.name.escape_ascii().to_string(),
        entries: snapshot.entries.row_count,
        inodes: snapshot.inodes.row_count,
        directories: snapshot.directories.row_count.saturating_sub(1),
        file_bytes: snapshot.file_bytes,
        times: [
            (TIME_MTIME, "mtime"),
            (TIME_ATIME, "atime"),
            (TIME_CTIME, "ctime"),
            (TIME_BTIME, "btime"),
        ]
        .into_iter()
        .filter(|(bit, _)| snapshot.times_kept & bit != 0)
        .map(|(_, name)| name)
        .collect(),
    }
}

fn content_bytes(image: &Image) -> Result<u64, Error> {
    let Some(table) = image.tables().into_iter().find(|t| t.schema.name == "contents") else {
        return Ok(0);
    };
    let pages = image.table_pages(&table);
    let rows = Table::new(table.root, table.schema, &pages).map_err(shale_read::ReadError::from)?;
    match rows.row_count().checked_sub(1) {
        Some(last) => Ok(rows.u64(0, last)?),
        None => Ok(0),
    }
}

fn tables(image: &Image) -> Result<Vec<TableInfo>, Error> {
    let mut infos = Vec::new();
    for table in image.tables() {
        let pages = image.table_pages(&table);
        let rows =
            Table::new(table.root, table.schema, &pages).map_err(shale_read::ReadError::from)?;
        let mut info = TableInfo {
            name: table.schema.name.to_owned(),
            snapshot: table.snapshot,
            rows: table.root.row_count,
            pages: 0,
            plain_bytes: 0,
            stored_bytes: 0,
        };
        rows.visit_pages(|visit| {
            info.pages += 1;
            info.plain_bytes += u64::from(visit.page.plain_len);
            info.stored_bytes += u64::from(visit.page.stored_len);
            Ok(true)
        })?;
        infos.push(info);
    }
    Ok(infos)
}

/// Compressed streams of one kind of container.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StreamGroup {
    /// What they were found in.
    pub container: String,
    /// How many.
    pub streams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that they hold.
    pub plain_bytes: u64,
}

impl Info {
    /// The label that the last build gave the image: the rest of its line of the history.
    pub fn label(&self) -> Option<&str> {
        label_in(&self.history)
    }
}

/// Returns the label of an image, if it has one. Reads the sections of its history, and the headers
/// of all others.
///
/// # Errors
/// They cannot be read.
pub fn label(image: &Image) -> Result<Option<String>, Error> {
    Ok(label_in(&history(image)?).map(str::to_owned))
}

fn label_in(history: &[String]) -> Option<&str> {
    let (_, label) = history.last()?.split_once(" label=")?;
    Some(label)
}

/// Sums up the lines of the history that count streams. What is not as a build writes it counts
/// nothing.
fn streams_of(lines: &[String]) -> Vec<StreamGroup> {
    let mut groups: BTreeMap<String, StreamGroup> = BTreeMap::new();
    for word in lines.iter().flat_map(|line| line.split(' ').skip(1)) {
        let Some((name, numbers)) = word.split_once('=') else { continue };
        let numbers: Vec<u64> = numbers.split(',').filter_map(|n| n.parse().ok()).collect();
        let [streams, bytes, plain_bytes] = numbers[..] else { continue };
        let group = groups.entry(name.to_owned()).or_default();
        name.clone_into(&mut group.container);
        group.streams = group.streams.saturating_add(streams);
        group.bytes = group.bytes.saturating_add(bytes);
        group.plain_bytes = group.plain_bytes.saturating_add(plain_bytes);
    }
    groups.into_values().collect()
}

/// The lines of all history sections, oldest first. A section of unusual length is left out.
pub(crate) fn history(image: &Image) -> Result<Vec<String>, Error> {
    const HISTORY_LEN_MAX: u64 = 1 << 20;
    let mut lines = Vec::new();
    for section in image.sections() {
        let section = section?;
        if section.section_type == SectionType::History as u16
            && section.plain_len <= HISTORY_LEN_MAX
            && section.stored_len <= HISTORY_LEN_MAX
        {
            let payload = image.section_payload(&section, HISTORY_LEN_MAX)?;
            let text = String::from_utf8_lossy(&payload);
            lines.extend(text.lines().map(str::to_owned));
        }
    }
    Ok(lines)
}

fn sections(image: &Image) -> Result<Vec<SectionGroup>, Error> {
    let mut groups: BTreeMap<u16, SectionGroup> = BTreeMap::new();
    for section in image.sections() {
        let section = section?;
        let kind = section.section_type;
        let group = groups.entry(kind).or_insert_with(|| SectionGroup {
            name: SectionType::from_id(kind)
                .map_or_else(|| format!("type {kind}"), |kind| kind.name().to_owned()),
            count: 0,
            stored_bytes: 0,
        });
        group.count += 1;
        group.stored_bytes += section.stored_len;
    }
    Ok(groups.into_values().collect())
}
