//! Tables over many pages and levels: every row is found, few pages are touched, a table that grew
//! is the table that was built at once, and a damaged one does no harm.

use crate::common::{EVENTS, Event, Store, build, push};
use proptest::{collection::vec, prelude::*};
use shale_table::{
    ColumnKind, ColumnSpec, INDEX_SCHEMA, PAGE_ROWS_DEFAULT, PageRef, PageSink, PageSource, Schema,
    Table, TableBuilder, TableError, TableRoot, Value, limits,
};

/// Rows whose base ascends with ties and whose names ascend.
fn events(count: u64) -> Vec<Event> {
    let row = |i: u64| {
        let base = i / 3 * 10;
        (base, format!("name-{i:07}").into_bytes(), i.wrapping_mul(0x9e37_79b9) % 1000)
    };
    (0..count).map(row).collect()
}

fn small() -> TableBuilder {
    TableBuilder::new(&EVENTS).with_page_rows(7).with_index_rows(4)
}

fn open<'s>(root: TableRoot, store: &'s Store) -> Table<'s, Store> {
    Table::new(root, &EVENTS, store).unwrap()
}

#[test]
fn every_row_of_a_deep_table_is_read_with_one_page_a_level() {
    let store = Store::default();
    let rows = events(1000);
    let root = build(small(), &rows, &store);
    assert_eq!((root.row_count, root.page_count), (1000, 1000u64.div_ceil(7)));
    assert_eq!(root.level_count, 5, "143 data pages under 36, 9, 3 and 1 index pages");
    let table = open(root, &store);
    for (i, (base, name, size)) in rows.iter().enumerate() {
        let i = i as u64;
        let (found, touched) = store.counted(|| table.u64(0, i));
        assert_eq!((found.unwrap(), touched), (*base, 5));
        assert_eq!(&table.bytes(1, i).unwrap(), name);
        assert_eq!(table.u64(2, i).unwrap(), *size);
    }
    assert!(matches!(table.u64(0, 1000), Err(TableError::RowRange { .. })));
}

#[test]
fn keys_are_found_with_one_page_a_level() {
    let store = Store::default();
    let rows = events(1000);
    let root = build(small(), &rows, &store);
    let table = open(root, &store);
    let mut cursor = table.cursor();
    for value in 0..3400 {
        let expected = rows.partition_point(|row| row.0 <= value) as u64 - 1;
        let (found, touched) = store.counted(|| table.search_u64(value));
        assert_eq!(found.unwrap(), Some(expected));
        assert_eq!(touched, u64::from(root.level_count));
        assert_eq!(cursor.search_u64(value).unwrap(), Some(expected));
    }
    let shifted: Vec<Event> = rows.iter().map(|(b, n, s)| (b + 5, n.clone(), *s)).collect();
    for count in [1, 500] {
        let root = build(small(), &shifted[..count], &store);
        assert_eq!(open(root, &store).search_u64(4).unwrap(), None);
        assert_eq!(open(root, &store).search_u64(5).unwrap(), Some(2.min(count as u64 - 1)));
    }
}

#[test]
fn names_are_found_in_any_range_with_a_logarithm_of_pages() {
    let store = Store::default();
    let rows = events(1000);
    let root = build(small(), &rows, &store);
    let table = open(root, &store);
    let names: Vec<&[u8]> = rows.iter().map(|row| row.1.as_slice()).collect();
    for (start, end) in [(0, 1000), (0, 0), (13, 14), (7, 14), (5, 700), (993, 1000), (1000, 1000)]
    {
        for key in names.iter().step_by(11).copied().chain([&b""[..], b"name-0000500x", b"z"]) {
            let expected = match names[start as usize..end as usize].binary_search(&key) {
                Ok(i) => Ok(start + i as u64),
                Err(i) => Err(start + i as u64),
            };
            let (found, touched) = store.counted(|| table.search_bytes(1, start..end, key));
            assert_eq!(found.unwrap(), expected, "{start}..{end} {}", key.escape_ascii());
            let pages = (end - start).div_ceil(7) + 1;
            let probes = u64::from(pages.ilog2()) + 2;
            assert!(touched <= probes * u64::from(root.level_count), "{touched} for {pages} pages");
        }
    }
    let within_one_page = store.counted(|| table.search_bytes(1, 14..21, names[17]));
    assert_eq!(within_one_page, (Ok(Ok(17)), u64::from(root.level_count)));
    assert!(table.search_bytes(1, 5..1001, b"").is_err());
    #[expect(clippy::reversed_empty_ranges)]
    let reversed = table.search_bytes(1, 6..5, b"");
    assert!(reversed.is_err());
}

#[test]
fn ranges_and_scans_touch_each_page_once() {
    let store = Store::default();
    let rows = events(300);
    let root = build(small(), &rows, &store);
    let table = open(root, &store);
    let levels = u64::from(root.level_count);
    for (start, end) in [(0, 300), (6, 8), (7, 14), (299, 300), (10, 10)] {
        let pages = if start == end { 0 } else { (end - 1) / 7 - start / 7 + 1 };
        let mut sizes = vec![99];
        let (result, touched) = store.counted(|| table.u64_range(2, start..end, &mut sizes));
        assert_eq!((result, touched), (Ok(()), pages * levels));
        assert!(sizes.iter().eq(rows[start as usize..end as usize].iter().map(|row| &row.2)));
        let mut next = start;
        let (result, touched) = store.counted(|| {
            table.scan_bytes(1, start..end, |row, name| {
                assert_eq!((row, name), (next, rows[row as usize].1.as_slice()));
                next += 1;
                true
            })
        });
        assert_eq!((result, touched, next), (Ok(()), pages * levels, end));
    }
    let mut seen = 0;
    let (_, touched) = store.counted(|| {
        table.scan_bytes(1, 0..300, |_, _| {
            seen += 1;
            seen < 7
        })
    });
    assert_eq!((seen, touched), (7, levels), "a scan that was stopped goes to no other page");
}

#[test]
fn a_cursor_asks_once_for_each_page() {
    let store = Store::default();
    let rows = events(300);
    let root = build(small(), &rows, &store);
    let mut cursor = open(root, &store).cursor();
    let ((), touched) = store.counted(|| {
        for (i, (base, name, size)) in rows.iter().enumerate() {
            assert_eq!(cursor.u64(0, i as u64).unwrap(), *base);
            assert_eq!(cursor.bytes(1, i as u64).unwrap(), name);
            assert_eq!(cursor.u64(2, i as u64).unwrap(), *size);
        }
    });
    assert_eq!(touched, root.page_count * u64::from(root.level_count));
    assert!(cursor.u64(0, 300).is_err());
    assert_eq!(cursor.u64(0, 299).unwrap(), rows[299].0, "a cursor survives a wrong row");
}

#[test]
fn a_column_gives_what_the_table_gives_in_any_order() {
    let store = Store::default();
    let rows = events(3000);
    let root = build(TableBuilder::new(&EVENTS).with_page_rows(700), &rows, &store);
    let table = open(root, &store);
    let mut column = table.column(2);
    let ((), touched) = store.counted(|| {
        for (row, (_, _, size)) in rows.iter().enumerate() {
            assert_eq!(column.u64(row as u64).unwrap(), *size);
        }
    });
    assert_eq!(touched, root.page_count * u64::from(root.level_count));

    // Small steps, jumps, and back to where it was; over the ends of pages.
    let mut column = table.column(0);
    let mut x = 1u64;
    let mut row = 0;
    for _ in 0..5000 {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(7);
        row = match x >> 61 {
            0 => x >> 8,
            1 => row + 65,
            step => row + step - 2,
        } % 3000;
        assert_eq!(column.u64(row).unwrap(), rows[row as usize].0);
    }
    assert!(column.u64(3000).is_err());
    assert_eq!(column.u64(2999).unwrap(), rows[2999].0, "a column survives a wrong row");
}

#[test]
fn tables_of_no_row_and_one_row_work() {
    let store = Store::default();
    let root = build(small(), &[], &store);
    assert_eq!((root, store.page_count()), (TableRoot::default(), 0));
    let table = open(root, &store);
    assert_eq!(table.search_u64(7), Ok(None));
    assert_eq!(table.search_bytes(1, 0..0, b"a"), Ok(Err(0)));
    assert!(table.page_of(0).is_err());
    table.visit_pages(|_| panic!("there are no pages")).unwrap();

    let root = build(small(), &events(1), &store);
    assert_eq!((root.level_count, root.page_count, store.page_count()), (1, 1, 1));
    assert_eq!(open(root, &store).bytes(1, 0).unwrap(), b"name-0000000");
}

#[test]
fn every_page_is_visited_once_and_accounts_for_all_rows() {
    let store = Store::default();
    let root = build(small(), &events(1000), &store);
    let (mut data_rows, mut pages) = (0, 0);
    open(root, &store)
        .visit_pages(|visit| {
            if visit.level == 0 {
                assert_eq!(visit.first_row, data_rows);
                data_rows += visit.row_count;
            }
            pages += 1;
            Ok(true)
        })
        .unwrap();
    assert_eq!((data_rows, pages), (1000, store.page_count()));
}

#[test]
fn pages_are_cut_by_bytes_too_and_one_row_always_fits() {
    let store = Store::default();
    let long = vec![b'x'; 65_536];
    let rows: Vec<Event> = (0..9u64).map(|i| (i, [&[i as u8], &long[..]].concat(), i)).collect();
    let root = build(TableBuilder::new(&EVENTS), &rows, &store);
    assert_eq!(root.page_count, 5, "two such rows fill a page");
    let table = open(root, &store);
    for row in &rows {
        assert_eq!(table.bytes(1, row.0).unwrap(), row.1);
    }

    static WIDE: Schema = Schema {
        name: "wide",
        columns: &[ColumnSpec { name: "value", kind: ColumnKind::Bytes }; 2],
        shifts: &[],
    };
    let value: Vec<u8> = (0..limits::VALUE_LEN_MAX).map(|i| ((i * i) >> 8) as u8).collect();
    let mut builder = TableBuilder::new(&WIDE).with_page_bytes(usize::MAX);
    for _ in 0..3 {
        builder.push(&[Value::Bytes(&value); 2], &mut &store).unwrap();
    }
    let root = builder.finish(&mut &store).unwrap();
    assert_eq!(root.page_count, 3);
    assert!(Table::new(root, &WIDE, &store).unwrap().bytes(1, 2).unwrap() == value);
}

#[test]
fn a_table_cut_by_bytes_grows_as_if_built_at_once() {
    let rows: Vec<Event> =
        (0..40u64).map(|i| (i, vec![b'a' + i as u8; 30 * i as usize], i)).collect();
    let builder = || TableBuilder::new(&EVENTS).with_page_bytes(500).with_index_rows(3);
    let once = Store::default();
    build(builder(), &rows, &once);
    for cut in 0..rows.len() {
        let store = Store::default();
        let root = build(builder(), &rows[..cut], &store);
        let resumed = TableBuilder::resume(&EVENTS, &root, &store).unwrap();
        let resumed = resumed.with_page_bytes(500).with_index_rows(3);
        let grown = build(resumed, &rows[cut..], &store);
        assert_eq!(content(grown, &store), rows);
        let mut cuts = Vec::new();
        for (root, store) in [(grown, &store), (build(builder(), &rows, &once), &once)] {
            let mut starts = Vec::new();
            let visit = open(root, store).visit_pages(|visit| {
                starts.push((visit.level, visit.first_row, visit.row_count));
                Ok(true)
            });
            visit.unwrap();
            cuts.push(starts);
        }
        assert_eq!(cuts[0], cuts[1], "grown after {cut} rows");
    }
}

#[test]
fn random_integers_never_make_a_page_too_long() {
    static FULL: Schema =
        Schema { name: "full", columns: &[ColumnSpec::u64("x"); limits::COLUMNS_MAX], shifts: &[] };
    let store = Store::default();
    let mut builder = TableBuilder::new(&FULL).with_page_rows(usize::MAX);
    let mut x = 1u64;
    for _ in 0..10_000 {
        let row: Vec<Value> = (0..limits::COLUMNS_MAX)
            .map(|_| {
                x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(7);
                Value::U64(x)
            })
            .collect();
        builder.push(&row, &mut &store).unwrap();
    }
    builder.finish(&mut &store).unwrap();
    assert!(store.pages.borrow().iter().all(|page| page.len() < limits::PAGE_PLAIN_LEN_MAX / 2));
}

#[test]
fn a_page_of_the_widest_table_has_the_usual_number_of_rows() {
    static INODES: Schema =
        Schema { name: "inodes", columns: &[ColumnSpec::u64("x"); 14], shifts: &[] };
    let store = Store::default();
    let mut builder = TableBuilder::new(&INODES);
    for row in 0..=PAGE_ROWS_DEFAULT as u64 {
        builder.push(&[Value::U64(row); 14], &mut &store).unwrap();
    }
    assert_eq!(builder.finish(&mut &store).unwrap().page_count, 2);
}

#[test]
fn wrong_rows_are_refused_and_change_nothing() {
    let store = Store::default();
    let mut builder = small();
    let long = vec![0; limits::VALUE_LEN_MAX + 1];
    let wrong: [&[Value]; 4] = [
        &[],
        &[Value::U64(1), Value::Bytes(b"a")],
        &[Value::Bytes(b"a"), Value::Bytes(b"a"), Value::U64(1)],
        &[Value::U64(1), Value::Bytes(&long), Value::U64(1)],
    ];
    push(&mut builder, &events(10), &store);
    for row in wrong {
        builder.push(row, &mut &store).unwrap_err();
    }
    let root = builder.finish(&mut &store).unwrap();
    assert_eq!(open(root, &store).bytes(1, 9).unwrap(), b"name-0000009");
    assert_eq!(root.row_count, 10);
    let table = open(root, &store);
    assert!(matches!(table.u64(1, 0), Err(TableError::ColumnKind { column: 1, .. })));
    assert!(matches!(table.bytes(0, 0), Err(TableError::ColumnKind { .. })));
    assert!(matches!(table.u64(9, 0), Err(TableError::ColumnKind { .. })));
}

#[test]
fn levels_are_limited() {
    let store = Store::default();
    let mut builder = TableBuilder::new(&EVENTS).with_page_rows(1).with_index_rows(2);
    let rows = events(600);
    let failed = rows.iter().any(|(base, name, size)| {
        let row = [Value::U64(*base), Value::Bytes(name), Value::U64(*size)];
        let result = builder.push(&row, &mut &store);
        matches!(result, Err(TableError::Limit { what: "levels of pages", .. }))
    });
    assert!(failed);
}

#[test]
fn a_dictionary_is_carried() {
    let store = Store::default();
    let dictionary = PageRef { offset: 77, stored_len: 5, ..PageRef::default() };
    let mut builder = small();
    builder.set_dictionary(dictionary);
    let root = build(builder, &events(20), &store);
    assert_eq!(root.dictionary, dictionary);
    let resumed = TableBuilder::resume(&EVENTS, &root, &store).unwrap();
    assert_eq!(resumed.finish(&mut &store).unwrap().dictionary, dictionary);
}

/// A sink that must not be used.
struct Refusing;

impl PageSink for Refusing {
    type Error = TableError;

    fn put(&mut self, _: &[u8]) -> Result<PageRef, TableError> {
        panic!("nothing has changed")
    }
}

#[test]
fn resuming_and_adding_nothing_stores_nothing() {
    for count in [0, 1, 7, 8, 28, 29, 112, 500] {
        let store = Store::default();
        let root = build(small(), &events(count), &store);
        let resumed = TableBuilder::resume(&EVENTS, &root, &store).unwrap();
        let resumed = resumed.with_page_rows(7).with_index_rows(4);
        assert_eq!(resumed.finish(&mut Refusing), Ok(root), "{count} rows");
    }
}

#[test]
fn a_table_cut_off_anywhere_is_the_table_of_the_rows_left() {
    let store = Store::default();
    let rows = events(150);
    let root = build(small(), &rows, &store);
    for kept in 0..=150 {
        let resumed = TableBuilder::resume_at(&EVENTS, &root, kept, &store).unwrap();
        let cut = build(resumed.with_page_rows(7).with_index_rows(4), &[], &store);
        let once = build(small(), &rows[..kept as usize], &Store::default());
        assert_eq!(content(cut, &store), rows[..kept as usize], "{kept} rows");
        assert_eq!((cut.page_count, cut.level_count), (once.page_count, once.level_count));
    }
    assert!(TableBuilder::resume_at(&EVENTS, &root, 151, &store).is_err());
}

#[test]
fn an_index_that_miscounts_is_noticed() {
    let store = Store::default();
    let root = build(small(), &events(20), &store);
    assert_eq!((root.level_count, root.page_count), (2, 3));
    let index = store.page(&root.top, &INDEX_SCHEMA).unwrap();
    // After version, column count and row count come first_row and first_page, both linear.
    let first_page = 3 + index.describe().columns[0].len;
    let (base, step) = (1, 2);
    for at in [3 + base, 3 + step, first_page + base, first_page + step] {
        store.pages.borrow_mut()[root.top.offset as usize - 1][at] += 2;
        let visited = open(root, &store).visit_pages(|_| Ok(true));
        // Only the data pages themselves can tell that they have not the rows the index gives them.
        let is_seen_without_data_pages = at != 3 + step;
        assert_eq!(visited.is_err(), is_seen_without_data_pages, "byte {at}");
        assert!(TableBuilder::resume(&EVENTS, &root, &store).is_err());
        let is_about_rows = at < first_page;
        assert_eq!(open(root, &store).u64(0, 19).is_err(), is_about_rows, "byte {at}");
        store.pages.borrow_mut()[root.top.offset as usize - 1][at] -= 2;
    }
    assert_eq!(content(root, &store), events(20));
}

fn content(root: TableRoot, store: &Store) -> Vec<Event> {
    let table = open(root, store);
    table.visit_pages(|_| Ok(true)).unwrap();
    let mut cursor = table.cursor();
    let row = |i| {
        let name = cursor.bytes(1, i).unwrap().to_vec();
        (cursor.u64(0, i).unwrap(), name, cursor.u64(2, i).unwrap())
    };
    (0..root.row_count).map(row).collect()
}

proptest! {
    #[test]
    fn a_table_that_grew_is_the_table_built_at_once(
        first in 0u64..300, kept in 0u64..300, added in 0u64..200,
    ) {
        let kept = kept.min(first);
        let rows = events(first + added);
        let (old, new) = rows.split_at(first as usize);
        let expected = [&old[..kept as usize], new].concat();

        let store = Store::default();
        let root = build(small(), old, &store);
        let resumed = TableBuilder::resume_at(&EVENTS, &root, kept, &store).unwrap();
        prop_assert_eq!(resumed.row_count(), kept);
        let before = store.page_count();
        let grown = build(resumed.with_page_rows(7).with_index_rows(4), new, &store);
        let written = store.page_count() - before;

        let other = Store::default();
        let once = build(small(), &expected, &other);
        prop_assert_eq!(content(grown, &store), &expected[..]);
        prop_assert_eq!(content(root, &store), old, "the old root stays valid");
        let shape = |root: TableRoot| (root.row_count, root.page_count, root.level_count);
        prop_assert_eq!(shape(grown), shape(once));
        // What is written again is one page a level at most.
        let new_pages = (added as usize).div_ceil(7) * 4 / 3 + 1;
        prop_assert!(written <= new_pages + 2 * usize::from(grown.level_count), "{written}");
    }

    #[test]
    fn a_table_may_grow_with_pages_of_other_sizes(
        first in 0u64..200, kept in 0u64..200, added in 0u64..100,
        page_rows in 1usize..20, index_rows in 2usize..9,
    ) {
        let kept = kept.min(first);
        let rows = events(first + added);
        let (old, new) = rows.split_at(first as usize);
        let store = Store::default();
        let root = build(small(), old, &store);
        let resumed = TableBuilder::resume_at(&EVENTS, &root, kept, &store).unwrap();
        let resumed = resumed.with_page_rows(page_rows).with_index_rows(index_rows);
        let grown = build(resumed, new, &store);
        prop_assert_eq!(content(grown, &store), [&old[..kept as usize], new].concat());
    }

    #[test]
    fn a_damaged_table_does_no_harm(
        damage in vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..4,
        ),
        row_count in prop_oneof![Just(300u64), 1u64..400, Just(u64::MAX)],
        level_count in prop_oneof![3 => Just(4u8), 1 => 1u8..9],
    ) {
        let store = Store::default();
        let root = build(small(), &events(300), &store);
        prop_assert_eq!(root.level_count, 4);
        for (page, byte, value) in damage {
            let mut pages = store.pages.borrow_mut();
            let page = page.index(pages.len());
            let byte = byte.index(pages[page].len());
            pages[page][byte] = value;
        }
        let root = TableRoot { row_count, level_count, ..root };
        let table = open(root, &store);
        let mut cursor = table.cursor();
        for row in (0..320).step_by(3).chain([u64::MAX - 1]) {
            let _ = table.u64(0, row);
            let _ = cursor.bytes(1, row);
            let _ = table.search_u64(row.saturating_mul(3));
            let _ = cursor.search_u64(row.saturating_mul(3));
            let _ = table.search_bytes(1, 0..row_count, format!("name-{row:07}").as_bytes());
        }
        let mut out = Vec::new();
        let _ = table.u64_range(2, 0..row_count.min(1000), &mut out);
        let _ = table.scan_bytes(1, 0..row_count, |row, _| row < 1000);
        let mut visits = 0;
        let _ = table.visit_pages(|_| {
            visits += 1;
            Ok(visits < 1000)
        });
        for kept in [1, 150, row_count] {
            if let Ok(builder) = TableBuilder::resume_at(&EVENTS, &root, kept, &store) {
                let _ = builder.finish(&mut &store);
            }
        }
    }
}

#[test]
fn roots_that_contradict_themselves_are_refused() {
    let store = Store::default();
    let root = build(small(), &events(300), &store);
    let wrong = [
        TableRoot { level_count: 0, ..root },
        TableRoot { level_count: limits::LEVELS_MAX + 1, ..root },
        TableRoot { row_count: 0, ..root },
        TableRoot { page_count: 0, ..root },
    ];
    for root in wrong {
        assert!(Table::new(root, &EVENTS, &store).is_err());
        assert!(TableBuilder::resume(&EVENTS, &root, &store).is_err());
    }
    let wrong = TableRoot { page_count: root.page_count + 1, ..root };
    assert!(open(wrong, &store).visit_pages(|_| Ok(true)).is_err());
}
