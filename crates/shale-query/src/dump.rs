//! Shows any structure of an image with its place and fields, for people and programs that inspect
//! images. Values are shown as they are stored, with their meaning if they have one.

use std::ops::Range;

use shale_codec::codec_text;
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::superblock::SUPERBLOCK_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_format::{Category, InodeKind, SectionType, hex};
use shale_read::{Image, ReadError, TableId};
use shale_table::{ColumnKind, PageRef, Table, TableRoot};

use crate::error::Error;

/// What can be dumped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The superblock.
    Superblock,
    /// Every section header.
    Sections,
    /// The newest trailer.
    Trailer,
    /// The root: bounds and snapshots.
    Root,
    /// The root of every table.
    Tables,
    /// The pages of a table, with the encodings of their columns.
    Pages(TableName),
    /// The rows of a table.
    Rows(TableName),
}

/// A table: its name and, for a table of a snapshot, the index of the snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// Name of the schema.
    pub name: String,
    /// Index of the snapshot; `None` for the newest.
    pub snapshot: Option<usize>,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A signed number.
    Signed(i64),
    /// A checksum or bit set, shown in hexadecimal.
    Hex(u64),
    /// Text.
    Text(String),
    /// A name or other bytes of the image.
    Bytes(Vec<u8>),
}

/// One structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it is: "superblock", "section", "frames row", ...
    pub structure: String,
    /// Its index among structures of this kind.
    pub index: Option<u64>,
    /// Its offset from the start of the image.
    pub offset: Option<u64>,
    /// Its length there.
    pub len: Option<u64>,
    /// Its fields in order.
    pub fields: Vec<(String, Value)>,
}

impl Record {
    fn new(structure: impl Into<String>) -> Self {
        let structure = structure.into();
        Self { structure, index: None, offset: None, len: None, fields: Vec::new() }
    }

    fn index(mut self, index: u64) -> Self {
        self.index = Some(index);
        self
    }

    fn at(mut self, offset: u64, len: u64) -> Self {
        (self.offset, self.len) = (Some(offset), Some(len));
        self
    }

    fn put(mut self, name: impl Into<String>, value: Value) -> Self {
        self.fields.push((name.into(), value));
        self
    }

    fn number(self, name: impl Into<String>, value: impl Into<u64>) -> Self {
        self.put(name, Value::Number(value.into()))
    }

    fn text(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.put(name, Value::Text(value.into()))
    }
}

/// Names of all tables.
pub const TABLE_NAMES: [&str; 10] = [
    "contents",
    "extents",
    "frames",
    "references",
    "inodes",
    "directories",
    "entries",
    "symlinks",
    "xattr_sets",
    "xattr_items",
];

/// Calls `show` with each record of `what` until it returns false. `range` selects by index:
/// sections, pages or rows. Reads only what is shown, one page at a time.
///
/// # Errors
/// [`Error::NoTable`] if there is no such table, [`Error::Read`] if the image cannot be read.
pub fn dump(
    image: &Image,
    what: &What,
    range: Range<u64>,
    show: &mut dyn FnMut(Record) -> bool,
) -> Result<(), Error> {
    match what {
        What::Superblock => drop(show(superblock(image))),
        What::Trailer => drop(show(trailer(image))),
        What::Root => root(image, show),
        What::Sections => {
            for (index, section) in (0..).zip(image.sections()) {
                let section = section?;
                if index < range.start {
                    continue;
                }
                if index >= range.end || !show(section_record(index, &section)) {
                    break;
                }
            }
        }
        What::Tables => {
            for table in image.tables() {
                let record = table_record(table_title(&table), &table.root);
                if !show(record) {
                    break;
                }
            }
        }
        What::Pages(name) => pages(image, &find(image, name)?, range, show)?,
        What::Rows(name) => rows(image, &find(image, name)?, range, show)?,
    }
    Ok(())
}

fn find(image: &Image, wanted: &TableName) -> Result<TableId, Error> {
    let newest = image.snapshots().len().checked_sub(1);
    let snapshot = wanted.snapshot.or(newest);
    let found = image.tables().into_iter().find(|table| {
        table.schema.name == wanted.name && (table.snapshot.is_none() || table.snapshot == snapshot)
    });
    found.ok_or_else(|| Error::NoTable { table: wanted.name.escape_debug().to_string() })
}

fn superblock(image: &Image) -> Record {
    let superblock = image.superblock();
    Record::new("superblock")
        .at(0, SUPERBLOCK_LEN as u64)
        .number("image_start", image.offset())
        .number("version_major", superblock.version_major)
        .number("version_minor", superblock.version_minor)
        .put("compat", Value::Hex(superblock.features.compat))
        .put("incompat", Value::Hex(superblock.features.incompat))
        .text("image_id", hex::encode(&superblock.image_id))
}

fn trailer(image: &Image) -> Record {
    let trailer = image.trailer();
    let len = TRAILER_SECTION_LEN as u64;
    Record::new("trailer")
        .at(trailer.image_len.saturating_sub(len), len)
        .number("root_offset", trailer.root_offset)
        .number("root_section_len", trailer.root_section_len)
        .number("image_len", trailer.image_len)
        .number("previous_trailer_offset", trailer.previous_trailer_offset)
        .number("section_count", trailer.section_count)
        .text("image_id", hex::encode(&trailer.image_id))
}

fn root(image: &Image, show: &mut dyn FnMut(Record) -> bool) {
    let (root, trailer) = (image.root(), image.trailer());
    let bounds = root.bounds;
    let record = Record::new("root")
        .at(trailer.root_offset, trailer.root_section_len)
        .number("snapshot_count", root.snapshots.len() as u64)
        .number("reference_count_max", bounds.reference_count_max)
        .number("depth_max", bounds.depth_max)
        .number("frame_plain_len_max", bounds.frame_plain_len_max)
        .number("read_bytes_max", bounds.read_bytes_max);
    if !show(record) {
        return;
    }
    for (index, snapshot) in (0..).zip(&root.snapshots) {
        let record = Record::new("snapshot")
            .index(index)
            .put("name", Value::Bytes(snapshot.name.clone()))
            .put("times_kept", Value::Hex(u64::from(snapshot.times_kept)))
            .number("file_bytes", snapshot.file_bytes)
            .number("inodes", snapshot.inodes.row_count)
            .number("directories", snapshot.directories.row_count)
            .number("entries", snapshot.entries.row_count)
            .number("symlinks", snapshot.symlinks.row_count)
            .number("xattr_sets", snapshot.xattr_sets.row_count)
            .number("xattr_items", snapshot.xattr_items.row_count);
        if !show(record) {
            return;
        }
    }
}

fn section_record(index: u64, section: &shale_format::SectionHeader) -> Record {
    let kind = section.section_type;
    Record::new("section")
        .index(index)
        .at(section.offset, SECTION_HEADER_LEN as u64 + section.stored_len)
        .text(
            "section_type",
            SectionType::from_id(kind).map_or(format!("type {kind}"), |kind| kind.name().into()),
        )
        .number("codec", section.codec)
        .number("stored_len", section.stored_len)
        .number("plain_len", section.plain_len)
        .put("payload_sum", Value::Hex(section.payload_sum))
}

fn table_title(table: &TableId) -> String {
    match table.snapshot {
        Some(snapshot) => format!("table {} of snapshot {snapshot}", table.schema.name),
        None => format!("table {}", table.schema.name),
    }
}

fn table_record(title: String, root: &TableRoot) -> Record {
    let mut record = Record::new(title)
        .number("row_count", root.row_count)
        .number("page_count", root.page_count)
        .number("level_count", root.level_count);
    record = page_fields(record, "top", &root.top);
    if root.dictionary != PageRef::default() {
        record = page_fields(record, "dictionary", &root.dictionary);
    }
    record
}

fn page_fields(record: Record, prefix: &str, page: &PageRef) -> Record {
    record
        .number(format!("{prefix}.offset"), page.offset)
        .number(format!("{prefix}.stored_len"), page.stored_len)
        .number(format!("{prefix}.plain_len"), page.plain_len)
        .number(format!("{prefix}.codec"), page.codec)
        .put(format!("{prefix}.checksum"), Value::Hex(page.checksum))
}

fn pages(
    image: &Image,
    table: &TableId,
    range: Range<u64>,
    show: &mut dyn FnMut(Record) -> bool,
) -> Result<(), Error> {
    let mut index = 0;
    image.check_table(table, |check| {
        let number = index;
        index += 1;
        if number < range.start {
            return true;
        }
        if number >= range.end {
            return false;
        }
        let visit = check.visit;
        let structure = match visit.level {
            0 => format!("{} page", table.schema.name),
            level => format!("{} index page of level {level}", table.schema.name),
        };
        let mut record = Record::new(structure)
            .index(number)
            .at(visit.page.offset, u64::from(visit.page.stored_len))
            .number("first_row", visit.first_row)
            .number("row_count", visit.row_count)
            .number("plain_len", visit.page.plain_len)
            .number("codec", visit.page.codec)
            .put("checksum", Value::Hex(visit.page.checksum));
        match check.page {
            Ok(page) => {
                for column in page.describe().columns {
                    let text = format!("{} bytes, {}", column.len, column.codec);
                    record = record.text(column.name, text);
                }
            }
            Err(error) => record = record.text("damaged", error.to_string()),
        }
        show(record)
    })?;
    Ok(())
}

fn rows(
    image: &Image,
    table: &TableId,
    range: Range<u64>,
    show: &mut dyn FnMut(Record) -> bool,
) -> Result<(), Error> {
    let pages = image.table_pages(table);
    let rows = Table::new(table.root, table.schema, &pages).map_err(ReadError::from)?;
    let mut cursor = rows.cursor();
    let structure = format!("{} row", table.schema.name);
    for row in range.start..range.end.min(rows.row_count()) {
        let mut record = Record::new(structure.clone()).index(row);
        for (column, spec) in table.schema.columns.iter().enumerate() {
            let value = match spec.kind {
                ColumnKind::U64 => meaning(spec.name, cursor.u64(column, row)?),
                ColumnKind::Bytes => Value::Bytes(cursor.bytes(column, row)?.to_vec()),
            };
            record = record.put(spec.name.to_ascii_lowercase(), value);
        }
        if !show(record) {
            break;
        }
    }
    Ok(())
}

/// Returns a column's number with its meaning.
fn meaning(column: &str, value: u64) -> Value {
    match column {
        "STORED_SUM" | "PLAIN_SUM" => Value::Hex(value),
        "CODEC" => match u16::try_from(value) {
            Ok(both) => Value::Text(codec_text(both as u8, (both >> 8) as u8)),
            Err(_) => Value::Hex(value),
        },
        "CATEGORY" => Value::Text(Category::from_id(value).name().to_owned()),
        "STREAM" if value == shale_format::schema::STREAM_HOLE => Value::Text("hole".into()),
        "STREAM" if value == shale_format::schema::STREAM_ZERO => Value::Text("zero run".into()),
        "MODE" => {
            let kind = u32::try_from(value).ok().and_then(InodeKind::from_mode);
            Value::Text(match kind {
                Some(kind) => format!("{value:06o} ({})", kind_word(kind)),
                None => format!("{value:o}"),
            })
        }
        name if name.ends_with("TIME_SEC") => Value::Signed((value ^ 1 << 63) as i64),
        _ => Value::Number(value),
    }
}

/// Returns the word for a kind of inode.
pub fn kind_word(kind: InodeKind) -> &'static str {
    match kind {
        InodeKind::File => "file",
        InodeKind::Directory => "directory",
        InodeKind::Symlink => "symlink",
        InodeKind::BlockDevice => "block device",
        InodeKind::CharDevice => "character device",
        InodeKind::Fifo => "fifo",
        InodeKind::Socket => "socket",
    }
}
