//! Making patches: the rows of a new page and an earlier page in, the shortest patch out.

use super::{
    ALL_DIFFERENCES, ALL_VALUES, Alignment, DIFFERENCES, INSERTED_ROWS, LAST_ROWS, OWN_ROWS,
    Patched, ROWS_SHIFT, SAME, VALUES, align::keys,
};
use crate::{
    PageRows, TableError,
    byte_strings::{self, StringBuffer},
    integers::{self, TIER_COLUMN},
    varint::{self, zigzag},
    write::ColumnBuffer,
};

/// A page that new ones may be compared with.
#[derive(Debug)]
pub struct Earlier {
    row_count: usize,
    columns: Vec<ColumnBuffer>,
}

impl Earlier {
    /// Decodes the plain bytes of a page: eight bytes of memory for each integer.
    ///
    /// # Errors
    /// The bytes are not a page.
    pub fn new(plain: Vec<u8>) -> Result<Self, TableError> {
        let (row_count, columns) = Patched::new(plain)?.into_columns()?;
        Ok(Self { row_count, columns })
    }

    /// Rows of the page.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// Finds out which rows of the new page belong to rows of this one. `None` if the pages do not
    /// have the same columns.
    pub fn align(&self, rows: &PageRows) -> Option<Alignment> {
        let (schema, columns, row_count) = rows.parts();
        self.has_columns(columns).then(|| {
            let earlier = keys(schema, &self.columns, self.row_count);
            Alignment::new(&earlier, &keys(schema, columns, row_count))
        })
    }

    fn has_columns(&self, columns: &[ColumnBuffer]) -> bool {
        let same = |(a, b): (&ColumnBuffer, &ColumnBuffer)| {
            matches!(a, ColumnBuffer::U64(_)) == matches!(b, ColumnBuffer::U64(_))
        };
        self.columns.len() == columns.len() && self.columns.iter().zip(columns).all(same)
    }
}

/// Returns the patch that makes the rows of a page out of `earlier`. `aligned` is what
/// [`Earlier::align`] returned for them.
pub fn patch(earlier: &Earlier, rows: &PageRows, aligned: &Alignment) -> Vec<u8> {
    let (_, columns, row_count) = rows.parts();
    let mut out = Vec::new();
    varint::write(row_count as u64, &mut out);
    put_segments(aligned, &mut out);
    let rows = &aligned.rows;
    let inserted: Vec<usize> = (0..row_count).filter(|&row| rows[row].is_none()).collect();
    let mut lists = Lists { last: Vec::new(), inserted };
    // The row before an inserted one, or none if there is none in front.
    let mut of = Vec::with_capacity(row_count);
    for row in rows {
        of.push(row.or_else(|| of.last().copied().flatten()));
    }
    for (earlier, new) in earlier.columns.iter().zip(columns) {
        match (earlier, new) {
            (ColumnBuffer::U64(earlier), ColumnBuffer::U64(new)) => {
                let old: Vec<u64> = of.iter().map(|of| of.map_or(0, |of| earlier[of])).collect();
                put_integers(&old, new, &mut lists, &mut out);
            }
            (ColumnBuffer::Bytes(earlier), ColumnBuffer::Bytes(new)) => {
                let old = |row: usize| of[row].map_or(&[][..], |of| earlier.get(of));
                put_strings(&old, new, &mut lists, &mut out);
            }
            _ => debug_assert!(false, "an alignment of pages with other columns"),
        }
    }
    out
}

/// Lists of rows that a column may refer to.
struct Lists {
    last: Vec<usize>,
    inserted: Vec<usize>,
}

impl Lists {
    /// Puts the form of a column and a list of rows.
    fn put(&mut self, form: u8, rows: Vec<usize>, out: &mut Vec<u8>) {
        let list = match &rows {
            rows if *rows == self.inserted => INSERTED_ROWS,
            rows if *rows == self.last => LAST_ROWS,
            _ => OWN_ROWS,
        };
        out.push(form | list << ROWS_SHIFT);
        if list == OWN_ROWS {
            varint::write(rows.len() as u64, out);
            let mut next = 0;
            let gaps = rows.iter().map(|&row| {
                let gap = row - next;
                next = row + 1;
                gap as u64
            });
            integers::encode(&gaps.collect::<Vec<_>>(), TIER_COLUMN, out);
            self.last = rows;
        }
    }
}

fn put_segments(aligned: &Alignment, out: &mut Vec<u8>) {
    if !aligned.moves() {
        return varint::write(0, out);
    }
    let mut segments: Vec<[u64; 3]> = vec![[0; 3]];
    // Ends one segment and begins another where rows are kept after some were dropped or inserted.
    let mut add = |what: usize, count: u64| {
        let last = segments.last_mut().filter(|last| what > 0 || last[1..] == [0, 0]);
        match last {
            Some(last) => last[what] += count,
            None => segments.push([count, 0, 0]),
        }
    };
    let mut next = 0;
    for row in &aligned.rows {
        match row {
            Some(row) => {
                if *row > next {
                    add(1, (row - next) as u64);
                }
                add(0, 1);
                next = row + 1;
            }
            None => add(2, 1),
        }
    }
    if aligned.earlier_rows > next {
        add(1, (aligned.earlier_rows - next) as u64);
    }
    varint::write(segments.len() as u64, out);
    for what in 0..3 {
        let numbers: Vec<u64> = segments.iter().map(|segment| segment[what]).collect();
        integers::encode(&numbers, TIER_COLUMN, out);
    }
}

fn put_integers(old: &[u64], new: &[u64], lists: &mut Lists, out: &mut Vec<u8>) {
    let changed: Vec<usize> = (0..new.len()).filter(|&row| old[row] != new[row]).collect();
    if changed.is_empty() {
        return out.push(SAME);
    }
    let difference = |row: &usize| zigzag(new[*row].wrapping_sub(old[*row]));
    let section = |values: Vec<u64>| {
        let mut section = Vec::new();
        integers::encode(&values, TIER_COLUMN, &mut section);
        section
    };
    // Few values and many: a list of rows costs about a byte a row.
    let values = section(changed.iter().map(|&row| new[row]).collect());
    let differences = section(changed.iter().map(difference).collect());
    let (form, some) = match differences.len() < values.len() {
        true => (DIFFERENCES, differences),
        false => (VALUES, values),
    };
    let mut best = Vec::new();
    let last = lists.last.clone();
    let is_many = changed.len() * 4 > new.len();
    lists.put(form, changed, &mut best);
    best.extend(some);
    let mut all = Vec::new();
    // A long list may hold steps that are the same over many rows, such as of numbers after an
    // inserted row.
    if is_many || best.len() > 64 {
        let differences = (0..new.len()).map(|row| difference(&row)).collect();
        all.push((ALL_DIFFERENCES, section(differences)));
    }
    if is_many {
        all.push((ALL_VALUES, section(new.to_vec())));
    }
    for (form, section) in all {
        if section.len() + 1 < best.len() {
            best = [&[form][..], &section].concat();
            lists.last.clone_from(&last);
        }
    }
    out.extend(best);
}

fn put_strings<'s>(
    old: &dyn Fn(usize) -> &'s [u8],
    new: &StringBuffer,
    lists: &mut Lists,
    out: &mut Vec<u8>,
) {
    let changed: Vec<usize> = (0..new.len()).filter(|&row| old(row) != new.get(row)).collect();
    if changed.is_empty() {
        return out.push(SAME);
    }
    if changed.len() * 2 > new.len() {
        out.push(ALL_VALUES);
        return byte_strings::encode(new, out);
    }
    let strings = changed.iter().map(|&row| new.get(row)).collect();
    lists.put(VALUES, changed, out);
    byte_strings::encode(&strings, out);
}
