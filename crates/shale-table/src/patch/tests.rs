//! Patches give back the rows that they were made of, stay short, and never panic.

use proptest::prelude::*;

use super::*;
use crate::{ColumnSpec, Page, PageRows, Schema, Shift, TableBuilder, Value};

static SCHEMA: Schema = Schema {
    name: "patched",
    columns: &[ColumnSpec::u64("number"), ColumnSpec::u64("time"), ColumnSpec::bytes("name")],
    shifts: &[Shift::all(0)],
};

type Row = (u64, u64, Vec<u8>);

fn rows_of(rows: &[Row]) -> PageRows {
    let mut builder = TableBuilder::new(&SCHEMA).with_page_rows(usize::MAX);
    for (number, time, name) in rows {
        let row = [Value::U64(*number), Value::U64(*time), Value::Bytes(name)];
        assert!(builder.push_apart(&row).unwrap().is_none());
    }
    builder.cut().unwrap()
}

fn plain_of(rows: &[Row]) -> Vec<u8> {
    rows_of(rows).encode(&mut |bytes| bytes.len()).unwrap()
}

fn read(plain: Vec<u8>) -> Vec<Row> {
    let page = Page::parse(plain, &SCHEMA).unwrap();
    let row =
        |row| (page.u64(0, row).unwrap(), page.u64(1, row).unwrap(), page.bytes(2, row).unwrap());
    (0..page.row_count()).map(row).collect()
}

fn patch_of(before: &[Row], after: &[Row]) -> Vec<u8> {
    let (earlier, rows) = (Earlier::new(plain_of(before)).unwrap(), rows_of(after));
    let aligned = earlier.align(&rows).unwrap();
    patch(&earlier, &rows, &aligned)
}

fn patched(before: &[Row], patches: &[&[u8]]) -> Vec<Row> {
    let mut page = Patched::new(plain_of(before)).unwrap();
    patches.iter().for_each(|patch| page.apply(patch).unwrap());
    read(page.into_plain().unwrap())
}

/// A tree of 2,000 files.
fn many() -> Vec<Row> {
    let name = |n: u64| format!("name-{:x}", n.wrapping_mul(0x9E37_79B9)).into_bytes();
    (0..2000).map(|n| (n, 1_700_000_000 + n % 7, name(n))).collect()
}

#[test]
fn a_patch_costs_what_changed() {
    let before = many();
    assert!(patch_of(&before, &before).len() <= 6);
    let mut after = before.clone();
    (0..20).for_each(|n| after[n * 97 + 3].1 = 1_800_000_000 + n as u64);
    let touched = patch_of(&before, &after);
    assert!(touched.len() < 60, "{}", touched.len());
    assert_eq!(patched(&before, &[&touched]), after);

    // A row in front moves the numbers of all rows after it.
    let mut later = after.clone();
    later.insert(1, (1, 1, b"new".to_vec()));
    later[2..].iter_mut().for_each(|row| row.0 += 1);
    later.remove(1500);
    later[1500..].iter_mut().for_each(|row| row.0 -= 1);
    let moved = patch_of(&after, &later);
    assert!(moved.len() < 60, "{}", moved.len());
    assert_eq!(patched(&before, &[&touched, &moved]), later);
}

#[test]
fn a_table_that_grows_costs_its_new_rows() {
    let all = many();
    let grown = patch_of(&all[..1990], &all);
    assert!(grown.len() < 200, "{}", grown.len());
    assert_eq!(patched(&all[..1990], &[&grown]), all);
}

#[test]
fn damaged_patches_are_errors_or_other_rows() {
    let before = many();
    let mut after = before.clone();
    after.drain(40..60);
    after.insert(900, (7, 7, b"seven".to_vec()));
    (0..20).for_each(|n| after[n * 97 + 3].1 = n as u64);
    let patch = patch_of(&before, &after);
    let plain = plain_of(&before);
    for at in 0..patch.len() {
        let mut page = Patched::new(plain.clone()).unwrap();
        assert!(page.apply(&patch[..at]).is_err(), "cut at {at}");
        for bit in 0..8 {
            let mut wrong = patch.clone();
            wrong[at] ^= 1 << bit;
            let mut page = Patched::new(plain.clone()).unwrap();
            if page.apply(&wrong).is_ok() {
                read(page.into_plain().unwrap());
            }
        }
    }
    let long = [&patch[..], &[0]].concat();
    assert!(Patched::new(plain).unwrap().apply(&long).is_err());
}

fn some_rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (0u64..20, any::<u64>().prop_map(|n| n >> (n % 64)), "[ab]{0,3}");
    prop::collection::vec(row.prop_map(|(a, b, c)| (a, b, c.into_bytes())), 1..60)
}

proptest! {
    #[test]
    fn patches_give_back_any_rows(before in some_rows(), after in some_rows()) {
        let patch = patch_of(&before, &after);
        prop_assert_eq!(patched(&before, &[&patch]), after);
    }

    #[test]
    fn patches_give_back_edited_rows(
        before in some_rows(),
        edits in prop::collection::vec((0usize..60, 0u8..3, any::<u64>()), 0..6),
    ) {
        let mut after = before.clone();
        for (at, what, value) in edits {
            let at = at % after.len();
            match what {
                0 => after[at].1 = value,
                1 => after.insert(at, (value, value, value.to_string().into_bytes())),
                _ if after.len() > 1 => { after.remove(at); }
                _ => {}
            }
        }
        let patch = patch_of(&before, &after);
        prop_assert_eq!(patched(&before, &[&patch]), after);
    }

    #[test]
    fn any_bytes_as_a_patch(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut page = Patched::new(plain_of(&many()[..50])).unwrap();
        if page.apply(&bytes).is_ok() {
            read(page.into_plain().unwrap());
        }
    }
}
