//! Applying patches: plain bytes of a page and patches in, plain bytes of the patched page out.
//!
//! Columns that no patch touches stay as they are, undecoded. The others are stored in a form that
//! is quick to make: constant, or packed.

use std::ops::Range;

use super::{
    ALL_DIFFERENCES, ALL_VALUES, DIFFERENCES, FORM_MASK, INSERTED_ROWS, LAST_ROWS, OWN_ROWS,
    ROWS_SHIFT, SAME, VALUES,
};
use crate::{
    TableError,
    byte_strings::{self, ByteStrings, StringBuffer},
    error::Damage,
    integers::{self, Integers, TIER_COLUMN},
    limits::{COLUMNS_MAX, PAGE_PLAIN_LEN_MAX, PAGE_ROWS_MAX},
    page::PAGE_VERSION,
    varint::{self, Reader, unzigzag},
    write::ColumnBuffer,
};

/// A page whose rows are being patched.
#[derive(Debug)]
pub struct Patched {
    plain: Vec<u8>,
    row_count: usize,
    columns: Vec<PatchedColumn>,
}

#[derive(Debug)]
struct PatchedColumn {
    section: Section,
    /// Bytes of the page that the section takes.
    span: Range<usize>,
    /// The values, once a patch needed them.
    values: Option<ColumnBuffer>,
}

#[derive(Debug)]
enum Section {
    U64(Integers),
    Bytes(ByteStrings),
}

/// What a patch does to the rows.
struct Segment {
    kept: usize,
    dropped: usize,
    inserted: usize,
}

impl Patched {
    /// Begins with the plain bytes of a page. Which columns hold integers is known by their tags.
    /// Decodes nothing.
    ///
    /// # Errors
    /// The bytes are not a page.
    pub fn new(plain: Vec<u8>) -> Result<Self, TableError> {
        let (row_count, columns) = parse(&plain).map_err(damaged)?;
        Ok(Self { plain, row_count, columns })
    }

    /// Applies a patch. Decodes the columns that it changes, all of them if rows come or go.
    ///
    /// # Errors
    /// The patch does not fit the page, or the page is damaged.
    pub fn apply(&mut self, patch: &[u8]) -> Result<(), TableError> {
        self.apply_checked(patch).map_err(damaged)
    }

    /// Returns the plain bytes of the patched page. Its columns may have other forms than they had.
    ///
    /// # Errors
    /// The page is damaged or longer than a page may be.
    pub fn into_plain(self) -> Result<Vec<u8>, TableError> {
        let mut plain = vec![PAGE_VERSION, self.columns.len() as u8];
        varint::write(self.row_count as u64, &mut plain);
        for column in &self.columns {
            match &column.values {
                None => plain.extend_from_slice(&self.plain[column.span.clone()]),
                Some(ColumnBuffer::U64(values)) => integers::encode_quickly(values, &mut plain),
                Some(ColumnBuffer::Bytes(strings)) => {
                    byte_strings::encode_quickly(strings, &mut plain);
                }
            }
            if plain.len() > PAGE_PLAIN_LEN_MAX {
                return Err(damaged(Damage("a patched page is longer than a page may be")));
            }
        }
        Ok(plain)
    }

    /// The number of rows, and the values of all columns.
    pub(crate) fn into_columns(mut self) -> Result<(usize, Vec<ColumnBuffer>), TableError> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            column.decode(&self.plain, self.row_count).map_err(damaged)?;
            columns.extend(column.values.take());
        }
        Ok((self.row_count, columns))
    }

    fn apply_checked(&mut self, patch: &[u8]) -> Result<(), Damage> {
        if patch.len() > PAGE_PLAIN_LEN_MAX {
            return Err(Damage("a patch is longer than a page may be"));
        }
        let mut reader = Reader::new(patch);
        let row_count = reader.varint_max(PAGE_ROWS_MAX, "it claims too many rows")?;
        if row_count == 0 {
            return Err(Damage("it has no rows"));
        }
        let segments = self.segments(&mut reader, row_count)?;
        let mut inserted_rows = Vec::new();
        if segments.is_empty() {
            if row_count != self.row_count {
                return Err(Damage("a patch is for a page with another number of rows"));
            }
        } else {
            inserted_rows = inserted(&segments);
            for column in &mut self.columns {
                column.decode(&self.plain, self.row_count)?;
                column.move_rows(&segments)?;
            }
            self.row_count = row_count;
        }
        let mut last_rows = Vec::new();
        for column in &mut self.columns {
            column.patch(
                (&self.plain, self.row_count),
                &mut reader,
                (&mut last_rows, &inserted_rows),
            )?;
        }
        if reader.is_at_end() { Ok(()) } else { Err(Damage("bytes follow the last column")) }
    }

    /// Reads the segments, which cover both pages.
    fn segments(&self, reader: &mut Reader, row_count: usize) -> Result<Vec<Segment>, Damage> {
        let count = reader.varint_max(PAGE_ROWS_MAX, "a patch has too many segments")?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut numbers = [const { Vec::new() }; 3];
        for numbers in &mut numbers {
            *numbers = read_integers(reader, count)?;
        }
        let [kept, dropped, inserted] = numbers;
        let (mut left, mut free) = (self.row_count as u64, row_count as u64);
        let mut segments = Vec::with_capacity(count);
        for ((&kept, &dropped), &inserted) in kept.iter().zip(&dropped).zip(&inserted) {
            let rest = left.checked_sub(kept).and_then(|left| left.checked_sub(dropped));
            let room = free.checked_sub(kept).and_then(|free| free.checked_sub(inserted));
            let (Some(rest), Some(room)) = (rest, room) else {
                return Err(Damage("a patch keeps or inserts more rows than there are"));
            };
            (left, free) = (rest, room);
            let [kept, dropped, inserted] = [kept, dropped, inserted].map(|count| count as usize);
            segments.push(Segment { kept, dropped, inserted });
        }
        if left > 0 || free > 0 {
            return Err(Damage("the segments of a patch do not cover its pages"));
        }
        Ok(segments)
    }
}

impl PatchedColumn {
    fn decode(&mut self, plain: &[u8], row_count: usize) -> Result<(), Damage> {
        if self.values.is_some() {
            return Ok(());
        }
        self.values = Some(match &self.section {
            Section::U64(section) => {
                let mut values = vec![0; row_count];
                section.read(plain, 0, &mut values)?;
                ColumnBuffer::U64(values)
            }
            Section::Bytes(section) => {
                ColumnBuffer::Bytes(read_strings(section, plain, row_count)?)
            }
        });
        Ok(())
    }

    fn move_rows(&mut self, segments: &[Segment]) -> Result<(), Damage> {
        match &mut self.values {
            Some(ColumnBuffer::U64(values)) => {
                let (mut moved, mut at) = (Vec::new(), 0);
                for segment in segments {
                    moved.extend_from_slice(&values[at..at + segment.kept]);
                    at += segment.kept + segment.dropped;
                    let last = moved.last().copied().unwrap_or(0);
                    moved.resize(moved.len() + segment.inserted, last);
                }
                *values = moved;
            }
            Some(ColumnBuffer::Bytes(strings)) => {
                let (mut moved, mut at, mut len) = (StringBuffer::default(), 0, 0);
                for segment in segments {
                    let last = (at + segment.kept).checked_sub(1);
                    for row in at..at + segment.kept {
                        len += strings.get(row).len();
                        check_len(len)?;
                        moved.push(strings.get(row));
                    }
                    at += segment.kept + segment.dropped;
                    let last = match (segment.kept, last, moved.len().checked_sub(1)) {
                        (1.., Some(last), _) => strings.get(last).to_vec(),
                        (_, _, Some(last)) => moved.get(last).to_vec(),
                        _ => Vec::new(),
                    };
                    for _ in 0..segment.inserted {
                        len += last.len();
                        check_len(len)?;
                        moved.push(&last);
                    }
                }
                *strings = moved;
            }
            None => {}
        }
        Ok(())
    }

    fn patch(
        &mut self,
        (plain, row_count): (&[u8], usize),
        reader: &mut Reader,
        (last_rows, inserted): (&mut Vec<usize>, &[usize]),
    ) -> Result<(), Damage> {
        let kind = reader.byte()?;
        let (form, list) = (kind & FORM_MASK, kind >> ROWS_SHIFT);
        if form == SAME && list == 0 {
            return Ok(());
        }
        let rows = match (form, list) {
            (VALUES | DIFFERENCES, OWN_ROWS) => {
                *last_rows = read_rows(reader, row_count)?;
                Some(last_rows.as_slice())
            }
            // A list of a column before has rows of this page only.
            (VALUES | DIFFERENCES, LAST_ROWS) => Some(last_rows.as_slice()),
            (VALUES | DIFFERENCES, INSERTED_ROWS) => Some(inserted),
            (ALL_VALUES | ALL_DIFFERENCES, OWN_ROWS) => None,
            _ => return Err(Damage("a patch of a column has an unknown form")),
        };
        if rows.is_some_and(<[usize]>::is_empty) {
            return Err(Damage("a patch of a column has no rows"));
        }
        let count = rows.map_or(row_count, <[usize]>::len);
        if form != ALL_VALUES {
            self.decode(plain, row_count)?;
        }
        match (&self.section, form) {
            (Section::U64(_), _) => {
                let new = read_integers(reader, count)?;
                if form == ALL_VALUES {
                    self.values = Some(ColumnBuffer::U64(new));
                    return Ok(());
                }
                let Some(ColumnBuffer::U64(values)) = &mut self.values else { return Ok(()) };
                let mut each = |row: usize, new: u64| {
                    values[row] =
                        if form == VALUES { new } else { values[row].wrapping_add(unzigzag(new)) };
                };
                match rows {
                    Some(rows) => rows.iter().zip(new).for_each(|(&row, new)| each(row, new)),
                    None => new.into_iter().enumerate().for_each(|(row, new)| each(row, new)),
                }
            }
            (Section::Bytes(_), VALUES | ALL_VALUES) => {
                let section = ByteStrings::parse(reader, count)?;
                let new = read_strings(&section, reader.page(), count)?;
                let (Some(rows), Some(ColumnBuffer::Bytes(old))) = (rows, &self.values) else {
                    self.values = Some(ColumnBuffer::Bytes(new));
                    return Ok(());
                };
                let (mut strings, mut len) = (StringBuffer::default(), 0);
                let mut next = rows.iter().enumerate().peekable();
                for row in 0..row_count {
                    let string = match next.next_if(|next| *next.1 == row) {
                        Some((at, _)) => new.get(at),
                        None => old.get(row),
                    };
                    len += string.len();
                    check_len(len)?;
                    strings.push(string);
                }
                self.values = Some(ColumnBuffer::Bytes(strings));
            }
            (Section::Bytes(_), _) => return Err(Damage("byte strings have no differences")),
        }
        Ok(())
    }
}

/// Finds the sections of a page, by their tags.
fn parse(plain: &[u8]) -> Result<(usize, Vec<PatchedColumn>), Damage> {
    if plain.len() > PAGE_PLAIN_LEN_MAX {
        return Err(Damage("it is longer than a page may be"));
    }
    let mut reader = Reader::new(plain);
    if reader.byte()? != PAGE_VERSION {
        return Err(Damage("it is not of page format version 1"));
    }
    let column_count = usize::from(reader.byte()?);
    if !(1..=COLUMNS_MAX).contains(&column_count) {
        return Err(Damage("it has no columns, or more than a page may have"));
    }
    let row_count = reader.varint_max(PAGE_ROWS_MAX, "it claims too many rows")?;
    if row_count == 0 {
        return Err(Damage("it has no rows"));
    }
    let mut columns = Vec::with_capacity(column_count);
    for _ in 0..column_count {
        let start = reader.at();
        let section = if plain.get(start).is_some_and(|&tag| byte_strings::is_tag(tag)) {
            Section::Bytes(ByteStrings::parse(&mut reader, row_count)?)
        } else {
            Section::U64(Integers::parse(&mut reader, row_count, TIER_COLUMN)?)
        };
        columns.push(PatchedColumn { section, span: start..reader.at(), values: None });
    }
    if !reader.is_at_end() {
        return Err(Damage("bytes follow its last column"));
    }
    Ok((row_count, columns))
}

/// The numbers of rows that were inserted, in the new page.
fn inserted(segments: &[Segment]) -> Vec<usize> {
    let (mut rows, mut at) = (Vec::new(), 0);
    for segment in segments {
        at += segment.kept;
        rows.extend(at..at + segment.inserted);
        at += segment.inserted;
    }
    rows
}

fn read_integers(reader: &mut Reader, count: usize) -> Result<Vec<u64>, Damage> {
    let section = Integers::parse(reader, count, TIER_COLUMN)?;
    let mut values = vec![0; count];
    section.read(reader.page(), 0, &mut values)?;
    Ok(values)
}

/// Reads a list of rows that ascend.
fn read_rows(reader: &mut Reader, row_count: usize) -> Result<Vec<usize>, Damage> {
    let count = reader.varint_max(row_count, "a patch names more rows than there are")?;
    if count == 0 {
        return Err(Damage("a patch of a column has no rows"));
    }
    let mut next = 0u64;
    let mut rows = Vec::with_capacity(count);
    for gap in read_integers(reader, count)? {
        let row = next.checked_add(gap).filter(|&row| row < row_count as u64);
        let row = row.ok_or(Damage("a patch names a row that does not exist"))?;
        rows.push(row as usize);
        next = row + 1;
    }
    Ok(rows)
}

fn read_strings(section: &ByteStrings, page: &[u8], count: usize) -> Result<StringBuffer, Damage> {
    let (mut strings, mut len) = (StringBuffer::default(), 0);
    section.scan(page, 0..count, &mut |_, string| {
        len += string.len();
        let fits = check_len(len).is_ok();
        if fits {
            strings.push(string);
        }
        fits
    })?;
    check_len(len)?;
    Ok(strings)
}

/// Checks that the strings of a column fit a page.
fn check_len(len: usize) -> Result<(), Damage> {
    if len <= PAGE_PLAIN_LEN_MAX { Ok(()) } else { Err(Damage("strings are longer than a page")) }
}

fn damaged(Damage(what): Damage) -> TableError {
    TableError::PageDamaged { table: "patched page", what }
}
