//! Single pages: what a page costs, what it holds, and that no damaged byte does harm.

use crate::common::{EVENTS, Event, Store, build};
use proptest::{collection::vec, prelude::*};
use shale_table::{ColumnSpec, INDEX_SCHEMA, Page, Schema, Table, TableBuilder, TableError, Value};

static ENTRIES: Schema = Schema {
    name: "entries",
    columns: &[ColumnSpec::bytes("name"), ColumnSpec::u64("inode")],
    shifts: &[],
};

static INODES: Schema =
    Schema { name: "inodes", columns: &[ColumnSpec::u64("field"); 14], shifts: &[] };

fn page_of(rows: &[Event]) -> Vec<u8> {
    let store = Store::default();
    build(TableBuilder::new(&EVENTS).with_page_rows(rows.len()), rows, &store);
    assert_eq!(store.page_count(), 1);
    store.pages.take().remove(0)
}

/// Calls everything a page has to offer.
fn exhaust(plain: Vec<u8>) {
    let len = plain.capacity();
    let Ok(page) = Page::parse(plain, &EVENTS) else { return };
    assert!(page.memory_len() <= len + 16 * 1024);
    let rows = page.row_count();
    let mut integers = Vec::new();
    let mut string = Vec::new();
    for column in 0..4 {
        for row in [0, 1, 15, 16, 63, 64, rows / 2, rows - 1, rows] {
            let _ = page.u64(column, row);
            let _ = page.bytes_into(column, row, &mut string);
            let _ = page.bytes_cmp(column, row, b"file");
            let _ = page.search_u64(column, row.min(rows)..rows, row as u64);
            let _ = page.search_bytes(column, row.min(rows)..rows, b"file-5");
        }
        let _ = page.u64_range(column, 0..rows, &mut integers);
        let _ = page.scan_bytes(column, 0..rows, |_, _| true);
    }
    assert!(integers.capacity() <= shale_table::limits::PAGE_ROWS_MAX);
    assert_eq!(page.describe().columns.len(), 3);
}

fn rows() -> impl Strategy<Value = Vec<Event>> {
    let name = prop_oneof![
        vec(any::<u8>(), 0..20),
        "[a-c]{1,3}/[a-z]{1,9}".prop_map(String::into_bytes),
        (0u32..2000).prop_map(|n| format!("file-{n}.txt").into_bytes()),
    ];
    let number = prop_oneof![Just(7u64), 0u64..100, any::<u64>(), Just(1 << 40)];
    vec((number.clone(), name, number), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_page_holds_what_was_pushed(mut rows in rows(), sorted: bool) {
        if sorted {
            rows.sort_by(|a, b| a.1.cmp(&b.1));
        }
        let page = Page::parse(page_of(&rows), &EVENTS).unwrap();
        prop_assert_eq!(page.row_count(), rows.len());
        for (i, (base, name, size)) in rows.iter().enumerate() {
            prop_assert_eq!(page.u64(0, i).unwrap(), *base);
            prop_assert_eq!(page.bytes(1, i).unwrap(), &name[..]);
            prop_assert_eq!(page.u64(2, i).unwrap(), *size);
            prop_assert_eq!(page.bytes_cmp(1, i, b"file").unwrap(), name.as_slice().cmp(b"file"));
        }
        let mut bases = Vec::new();
        page.u64_range(0, 0..rows.len(), &mut bases).unwrap();
        prop_assert!(bases.iter().eq(rows.iter().map(|row| &row.0)));
    }

    #[test]
    fn integers_are_searched_as_a_slice_is(
        mut values in vec(any::<u16>(), 1..300), cut: (u16, u16), key: u16,
    ) {
        values.sort();
        let rows: Vec<Event> = values.iter().map(|v| (u64::from(*v), vec![], 0)).collect();
        let page = Page::parse(page_of(&rows), &EVENTS).unwrap();
        let count = values.len() + 1;
        let (a, b) = (usize::from(cut.0) % count, usize::from(cut.1) % count);
        let range = a.min(b)..a.max(b);
        let keys = values.iter().flat_map(|v| [v.saturating_sub(1), *v]).chain([key]);
        for key in keys {
            let expected = range.start + values[range.clone()].partition_point(|v| *v <= key);
            prop_assert_eq!(page.search_u64(0, range.clone(), u64::from(key)).unwrap(), expected);
        }
    }

    #[test]
    fn any_damage_to_a_page_does_no_harm(rows in rows(), at: prop::sample::Index, value: u8) {
        let plain = page_of(&rows);
        let at = at.index(plain.len());
        prop_assert!(Page::parse(plain[..at].to_vec(), &EVENTS).is_err(), "a page was cut at {at}");
        let mut damaged = plain.clone();
        damaged[at] = value;
        exhaust(damaged);
        let mut longer = plain;
        longer.push(value);
        prop_assert!(Page::parse(longer, &EVENTS).is_err());
    }
}

/// Every byte of some pages set to every value that a header may mean something by, and every
/// truncation.
#[test]
fn every_byte_of_a_page_may_be_damaged() {
    let counted = |i: u64| (i * 3, format!("file-{i}.txt").into_bytes(), i % 5 * 1_000_000_007);
    let worded = |i: u64| (i * i, format!("{:x}", i * i * 7_777_777).into_bytes(), i / 9);
    let repeated = |i: u64| (7, [&b"COPYING"[..], b"Makefile", b"src"][i as usize % 3].to_vec(), i);
    let kinds: [fn(u64) -> Event; 3] = [counted, worded, repeated];
    for kind in kinds {
        let rows: Vec<Event> = (0..70).map(kind).collect();
        let plain = page_of(&rows);
        for at in 0..plain.len() {
            assert!(Page::parse(plain[..at].to_vec(), &EVENTS).is_err());
            for value in (0..=0x25).chain([0x7f, 0x80, 0x81, 0xfe, 0xff, plain[at] ^ 1]) {
                let mut damaged = plain.clone();
                damaged[at] = value;
                exhaust(damaged);
            }
        }
    }
}

#[test]
fn a_page_of_another_table_or_version_is_refused() {
    let plain = page_of(&[(1, b"a".to_vec(), 2)]);
    assert!(matches!(Page::parse(plain.clone(), &ENTRIES), Err(TableError::PageDamaged { .. })));
    assert!(Page::parse(plain.clone(), &INDEX_SCHEMA).is_err());
    let mut newer = plain.clone();
    newer[0] += 1;
    assert!(Page::parse(newer, &EVENTS).is_err());
    let mut empty = plain;
    empty[2] = 0;
    assert!(Page::parse(empty, &EVENTS).is_err());
    assert!(Page::parse(vec![0; shale_table::limits::PAGE_PLAIN_LEN_MAX + 1], &EVENTS).is_err());
}

#[test]
fn a_page_of_one_row_is_tiny() {
    let store = Store::default();
    let mut builder = TableBuilder::new(&INODES);
    let time = (1 << 63) + 1_700_000_000;
    let inode = [0o100644, 1000, 1000, 1, time, 123_456_789, 0, 0, 0, 0, 0, 0, 0, 1];
    builder.push(&inode.map(Value::U64), &mut &store).unwrap();
    builder.finish(&mut &store).unwrap();
    assert!(store.bytes() <= 40, "{} bytes", store.bytes());
}

#[test]
fn a_page_describes_itself() {
    let rows: Vec<Event> =
        (0..1000u64).map(|i| (i, format!("file-{i:04}.txt").into_bytes(), 7)).collect();
    let page = Page::parse(page_of(&rows), &EVENTS).unwrap();
    let summary = page.describe();
    assert_eq!(summary.columns.iter().map(|column| column.len).sum::<usize>() + 4, summary.len);
    let text = summary.to_string();
    for part in ["events: 1000 rows", "base", "linear +1", "name", "numbered of 1", "constant 7"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// The scale target: a billion rows below 0.3 bytes each, index pages included and before any
/// compression. A million rows are 245 pages, as like as two peas with any other million.
#[test]
fn a_million_counted_names_take_a_twentieth_of_a_byte_each() {
    let mut names: Vec<String> = (0..1000).map(|n| format!("file-{n}.txt")).collect();
    names.sort();
    let entries = Store::default();
    let mut builder = TableBuilder::new(&ENTRIES);
    for row in 0..1_000_000u64 {
        let name = names[row as usize % 1000].as_bytes();
        builder.push(&[Value::Bytes(name), Value::U64(1001 + row)], &mut &entries).unwrap();
    }
    let entry_root = builder.finish(&mut &entries).unwrap();
    let inodes = Store::default();
    let mut builder = TableBuilder::new(&INODES);
    let time = (1 << 63) + 1_700_000_000;
    for row in 0..1_000_000u64 {
        let inode = [0o100644, 1000, 1000, 1, time, 0, 0, 0, 0, 0, 0, 0, 0, row];
        builder.push(&inode.map(Value::U64), &mut &inodes).unwrap();
    }
    builder.finish(&mut &inodes).unwrap();
    println!("entries {} bytes, inodes {} bytes", entries.bytes(), inodes.bytes());
    assert!(entries.bytes() <= 50_000, "entries: {} bytes for 10^6 rows", entries.bytes());
    assert!(inodes.bytes() <= 20_000, "inodes: {} bytes for 10^6 rows", inodes.bytes());

    let table = Table::new(entry_root, &ENTRIES, &entries).unwrap();
    for directory in [0, 4, 500, 999] {
        let rows = directory * 1000..(directory + 1) * 1000;
        for (i, name) in names.iter().enumerate().step_by(37) {
            let row = directory * 1000 + i as u64;
            let (found, touched) =
                entries.counted(|| table.search_bytes(0, rows.clone(), name.as_bytes()));
            assert_eq!(found, Ok(Ok(row)));
            assert!(touched <= 4, "a directory of 1000 lies in two pages at most");
            assert_eq!(table.u64(1, row), Ok(1001 + row));
        }
    }
}
