//! Promise: tables share a page whose rows only moved, and each reads its own values from it.

use shale_table::{
    Bases, ColumnSpec, INDEX_SCHEMA, Only, Page, PageRef, PageSink, PageSource,
    SHIFTED_INDEX_SCHEMA, Schema, Shift, Table, TableBuilder, TableRoot, Value,
};

use crate::common::Store;

/// Column 0 ascends, column 2 is a number of a row where column 1 is odd.
static NODES: Schema = Schema {
    name: "nodes",
    columns: &[ColumnSpec::u64("first"), ColumnSpec::u64("kind"), ColumnSpec::u64("payload")],
    shifts: &[Shift::all(0), Shift { column: 2, only: Some(Only { column: 1, mask: 1, bits: 1 }) }],
};

/// Rows of a table in which `moved` rows come before those that stay the same.
fn rows(moved: u64) -> Vec<[u64; 3]> {
    let row = |n: u64| {
        let kind = n % 3;
        [3 * (n + moved), kind, if kind == 1 { 1000 + n / 3 + moved } else { 7 * n }]
    };
    (0..moved).map(|n| [3 * n, 0, n]).chain((0..600).map(row)).collect()
}

/// Writes a table whose pages end where the first rows end, and then every 200 rows. Pages with
/// bases that `known` has are not stored again.
fn write(rows: &[[u64; 3]], known: &mut Vec<(Vec<u8>, PageRef)>, store: &Store) -> TableRoot {
    let mut builder = TableBuilder::new(&NODES);
    let moved = rows.len() % 200;
    for (number, row) in rows.iter().enumerate() {
        if number > 0 && number % 200 == moved {
            attach(&mut builder, known, store);
        }
        assert!(builder.push_apart(&row.map(Value::U64)).unwrap().is_none());
    }
    attach(&mut builder, known, store);
    builder.finish(&mut &*store).unwrap()
}

fn attach(builder: &mut TableBuilder, known: &mut Vec<(Vec<u8>, PageRef)>, store: &Store) {
    let Some(mut rows) = builder.cut() else { return };
    let first_key = rows.first_key();
    let bases = rows.bases();
    assert_eq!(rows.shift(), bases);
    assert_eq!(rows.bases(), Bases::default());
    let plain = rows.encode(&mut |section| section.len()).unwrap();
    let page = match known.iter().find(|(bytes, _)| *bytes == plain) {
        Some((_, page)) => *page,
        None => {
            let page = (&mut &*store).put(&plain).unwrap();
            known.push((plain, page));
            page
        }
    };
    let page = PageRef { bases, ..page };
    builder.attach(rows.row_count(), first_key, page, &mut &*store).unwrap();
}

#[test]
fn rows_that_moved_are_read_from_the_pages_of_before() {
    let store = Store::default();
    let mut known = Vec::new();
    for moved in [0, 10, 137] {
        let rows = rows(moved);
        let before = store.page_count();
        let root = write(&rows, &mut known, &store);
        let written = store.page_count() - before;
        assert_eq!(written, if moved == 0 { 4 } else { 2 }, "the new rows and the index");
        let index = store.page(&root.top, &INDEX_SCHEMA).unwrap();
        assert!(std::ptr::eq(index.schema(), &SHIFTED_INDEX_SCHEMA));

        let table = Table::new(root, &NODES, &store).unwrap();
        let mut cursor = table.cursor();
        for (number, row) in (0..).zip(&rows) {
            for (column, &value) in row.iter().enumerate() {
                assert_eq!(table.u64(column, number).unwrap(), value, "row {number}");
                assert_eq!(cursor.u64(column, number).unwrap(), value, "row {number}");
            }
            assert_eq!(table.search_u64(row[0] + 1).unwrap(), Some(number));
            assert_eq!(cursor.search_u64(row[0]).unwrap(), Some(number));
        }
        for column in 0..3 {
            let mut values = Vec::new();
            table.u64_range(column, 0..root.row_count, &mut values).unwrap();
            assert!(values.iter().eq(rows.iter().map(|row| &row[column])), "column {column}");
        }
    }
}

#[test]
fn the_only_page_of_a_table_keeps_its_bases() {
    let store = Store::default();
    let all = rows(150);
    let rows = &all[150..300];
    let mut builder = TableBuilder::new(&NODES);
    for row in rows {
        assert!(builder.push_apart(&row.map(Value::U64)).unwrap().is_none());
    }
    attach(&mut builder, &mut Vec::new(), &store);
    let root = builder.finish(&mut &store).unwrap();
    assert_eq!((root.level_count, root.page_count), (2, 1));
    let table = Table::new(root, &NODES, &store).unwrap();
    for (number, row) in (0..).zip(rows) {
        assert_eq!(table.u64(2, number).unwrap(), row[2]);
    }
    assert_eq!(table.search_u64(449).unwrap(), None, "less than the first key");
}

#[test]
fn rows_are_compared_split_and_put_back() {
    let store = Store::default();
    let rows = rows(0);
    let mut builder = TableBuilder::new(&NODES);
    rows.iter().for_each(|row| {
        assert!(builder.push_apart(&row.map(Value::U64)).unwrap().is_none());
    });
    let (first, rest) = builder.cut().unwrap().split(250);
    builder.put_back(rest);
    assert_eq!((first.row_count(), builder.held_rows()), (250, 350));
    let plain = first.encode(&mut |section| section.len()).unwrap();
    let page = |bases| Page::parse(plain.clone(), &NODES).unwrap().with_bases(bases);
    assert!(first.is_equal(&page([0; 3])).unwrap());
    assert!(!first.is_equal(&page([0, 1, 0])).unwrap());
    assert!(!builder.cut().unwrap().is_equal(&page([0; 3])).unwrap());
    drop(store);
}

#[test]
fn bases_beyond_all_numbers_are_no_panic() {
    let mut builder = TableBuilder::new(&NODES);
    for row in rows(0) {
        assert!(builder.push_apart(&row.map(Value::U64)).unwrap().is_none());
    }
    let plain = builder.cut().unwrap().encode(&mut |section| section.len()).unwrap();
    let page = Page::parse(plain, &NODES).unwrap().with_bases([u64::MAX, u64::MAX, u64::MAX]);
    assert_eq!(page.u64(0, 1).unwrap(), 2);
    assert_eq!(page.search_u64(0, 0..page.row_count(), 5).unwrap(), 0);
    let mut values = Vec::new();
    page.u64_range(2, 0..page.row_count(), &mut values).unwrap();
    assert_eq!(values[1], 999);
}
