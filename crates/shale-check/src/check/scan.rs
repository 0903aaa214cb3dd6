//! Reads every page and row of one table, in order. Damaged pages are reported and skipped.
//!
//! Index pages are compared with the pages below them: first rows and keys, counts, and that no
//! page is used twice. Otherwise a small image could claim an endless table.

use std::collections::HashSet;
use std::sync::Arc;

use shale_format::SectionType;
use shale_table::{Bases, ColumnKind, INDEX_SCHEMA, Page, PageRef, PageSource, Schema, TableRoot};

use super::context::Context;
use super::findings::{RowScope, Scope};
use super::report::Checked;
use super::sections::Layout;
use super::store::{PageFault, TablePages};
use crate::error::Error;

/// One data page with its integer columns decoded.
pub(super) struct Rows<'p> {
    /// Row of the table that is row 0 here.
    pub(super) first_row: u64,
    /// The page, for its byte strings.
    pub(super) page: &'p Page,
    /// Values by column; empty for columns of byte strings.
    pub(super) integers: &'p [Vec<u64>],
}

/// A page that is still to be visited, and what its index page says about it.
struct Ahead {
    page: PageRef,
    level: u8,
    first_row: u64,
    end_row: u64,
    first_page: u64,
    first_key: Option<u64>,
    /// First key of the next page, if an index page of the same level gives it.
    end_key: Option<u64>,
}

impl Ahead {
    /// Offset and length of the page.
    fn range(&self) -> Option<(u64, Option<u64>)> {
        Some((self.page.offset, Some(u64::from(self.page.stored_len))))
    }

    /// The rows that cannot be read if the page is damaged.
    fn scope(&self, root: &TableRoot, schema: &'static Schema) -> Scope {
        Scope::Rows(RowScope {
            table: schema.name,
            top: root.top.offset,
            first: self.first_row,
            end: self.end_row,
            keys: (self.first_key.unwrap_or_default(), self.end_key),
        })
    }
}

/// Visits all rows of a table. Returns true if every page was read, so that rows which could not be
/// read are not reported as missing. The visitor returns what is wrong with the rows of a page.
pub(super) fn scan(
    context: &Context<'_>,
    place: &str,
    root: &TableRoot,
    schema: &'static Schema,
    layout: &Layout,
    checked: &mut Checked,
    mut visit: impl FnMut(Rows<'_>) -> Result<(), PageFault>,
) -> Result<bool, Error> {
    let findings = context.findings;
    if root.row_count == 0 && root.page_count == 0 && root.level_count == 0 {
        return Ok(true);
    }
    if let Err(error) = shale_table::Table::new(*root, schema, &NoPages) {
        findings.add_about(place, None, error.to_string(), Scope::Everything);
        return Ok(false);
    }
    let top = Ahead {
        page: root.top,
        level: root.level_count - 1,
        first_row: 0,
        end_row: root.row_count,
        first_page: 0,
        first_key: None,
        end_key: None,
    };
    let pages = match TablePages::new(context.store, root) {
        Ok(pages) => pages,
        Err(fault) => {
            let range = (root.dictionary.offset, Some(u64::from(root.dictionary.stored_len)));
            let what = format!("dictionary: {}", fault.0);
            findings.add_about(place, Some(range), what, top.scope(root, schema));
            return Ok(false);
        }
    };
    context.progress.found(root.row_count, 0);
    let mut complete = true;
    let mut seen = HashSet::new();
    let mut data_pages = 0u64;
    let mut integers: Vec<Vec<u64>> = vec![Vec::new(); schema.columns.len()];
    let mut ahead = vec![top];
    while let Some(at) = ahead.pop() {
        context.check_cancel()?;
        if findings.is_full() {
            return Ok(false);
        }
        let add = |what: String| {
            findings.add_about(place, at.range(), what, at.scope(root, schema));
        };
        if !seen.insert(at.page.offset) {
            add("a page is used twice".to_owned());
            complete = false;
            continue;
        }
        let stored_len = u64::from(at.page.stored_len);
        if !layout.may_hold(SectionType::Pages, at.page.offset, stored_len) {
            add("a page does not lie in a section of pages".to_owned());
        }
        if at.level == 0 {
            if at.first_page != data_pages {
                add(format!("data page {data_pages} is counted as {}", at.first_page));
            }
            data_pages += 1;
            let fault = match pages.page(&at.page, schema) {
                Ok(page) => data_page(&at, &page, &mut integers, &mut visit).err(),
                Err(fault) => Some(fault),
            };
            match fault {
                None => checked.rows += at.end_row - at.first_row,
                Some(fault) => {
                    add(format!("rows {} to {}: {}", at.first_row, at.end_row - 1, fault.0));
                    complete = false;
                }
            }
            context.progress.done(at.end_row - at.first_row, 0);
        } else {
            match pages.page(&at.page, &INDEX_SCHEMA).and_then(|page| children(&at, &page)) {
                Ok(children) => ahead.extend(children.into_iter().rev()),
                Err(fault) => {
                    add(format!(
                        "index of rows {} to {}: {}; they are not checked",
                        at.first_row,
                        at.end_row - 1,
                        fault.0
                    ));
                    complete = false;
                }
            }
        }
    }
    if complete && data_pages != root.page_count {
        findings.add(
            place,
            None,
            format!("it has {data_pages} data pages, the root says {}", root.page_count),
        );
    }
    Ok(complete)
}

fn data_page(
    at: &Ahead,
    page: &Arc<Page>,
    integers: &mut [Vec<u64>],
    visit: &mut impl FnMut(Rows<'_>) -> Result<(), PageFault>,
) -> Result<(), PageFault> {
    let row_count = page.row_count();
    if row_count as u64 != at.end_row - at.first_row {
        return Err(PageFault(format!("the page has {row_count} rows")));
    }
    let mut first_key = 0;
    for (column, spec) in page.schema().columns.iter().enumerate() {
        if spec.kind == ColumnKind::U64 {
            page.u64_range(column, 0..row_count, &mut integers[column])?;
            if column == 0 {
                first_key = integers[0].first().copied().unwrap_or_default();
            }
        }
    }
    if let Some(claimed) = at.first_key
        && claimed != first_key
    {
        return Err(PageFault(format!(
            "the index says its first key is {claimed}, it is {first_key}"
        )));
    }
    visit(Rows { first_row: at.first_row, page, integers })
}

/// Reads what an index page says about the pages below it, and checks that it does not contradict
/// itself.
fn children(at: &Ahead, page: &Page) -> Result<Vec<Ahead>, PageFault> {
    let rows = page.row_count();
    let mut columns: Vec<Vec<u64>> = vec![Vec::new(); page.schema().columns.len()];
    for (column, values) in columns.iter_mut().enumerate() {
        page.u64_range(column, 0..rows, values)?;
    }
    let [
        first_row,
        first_page,
        first_key,
        offset,
        checksum,
        stored_len,
        plain_len,
        codec,
        bases @ ..,
    ] = columns.as_slice()
    else {
        return Err(PageFault("an index page has not the columns of one".to_owned()));
    };
    let mut children = Vec::with_capacity(rows);
    for row in 0..rows {
        let end_row = first_row.get(row + 1).copied().unwrap_or(at.end_row);
        let starts_right = row > 0 || first_row[0] == at.first_row;
        if !starts_right || end_row <= first_row[row] || end_row > at.end_row {
            return Err(PageFault("its rows do not ascend without gaps".to_owned()));
        }
        let narrow = |value: u64| {
            u32::try_from(value)
                .map_err(|_| PageFault(format!("a page's length is {value}, allowed is 4 MiB")))
        };
        children.push(Ahead {
            page: PageRef {
                offset: offset[row],
                checksum: checksum[row],
                stored_len: narrow(stored_len[row])?,
                plain_len: narrow(plain_len[row])?,
                codec: u8::try_from(codec[row])
                    .map_err(|_| PageFault(format!("a page's codec is {}", codec[row])))?,
                bases: match bases {
                    [a, b, c] => [a[row], b[row], c[row]],
                    _ => Bases::default(),
                },
            },
            level: at.level - 1,
            first_row: first_row[row],
            end_row,
            first_page: first_page[row],
            first_key: Some(first_key[row]),
            end_key: first_key.get(row + 1).copied().or(at.end_key),
        });
    }
    Ok(children)
}

/// A page source for code that needs only the root of a table.
struct NoPages;

impl PageSource for NoPages {
    type Error = PageFault;

    fn page(&self, _: &PageRef, _: &'static Schema) -> Result<Arc<Page>, PageFault> {
        Err(PageFault("no page is read here".to_owned()))
    }
}
