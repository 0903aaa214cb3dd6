//! Every codec alone and the choice among them: what goes in comes out, searches agree with a plain
//! search, and whatever the bytes, nothing panics.

use proptest::{collection::vec, prelude::*};

use super::{
    simple::{TAG_FRONT, TAG_PLAIN},
    *,
};
use crate::limits::VALUE_LEN_MAX;

/// Directories of names, each sorted and without doubles, as an entry table holds them.
fn directories() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let name = prop_oneof![
        vec(any::<u8>(), 0..12),
        vec(any::<u8>(), 255..=255),
        "[ab]{0,6}".prop_map(String::into_bytes),
        "(file|img_)[0-9]{1,5}\\.(txt|mp3)".prop_map(String::into_bytes),
        "lib(ssl|crypto|z)\\.so\\.[0-9]{1,2}".prop_map(String::into_bytes),
    ];
    let mixed = vec(name, 0..60);
    let counted = (1usize..200, "[a-z]{0,4}", prop_oneof![Just(0usize), 1usize..6]).prop_map(
        |(count, prefix, width)| {
            (0..count).map(|n| format!("{prefix}{n:0width$}.txt").into_bytes()).collect()
        },
    );
    let directory = prop_oneof![mixed, counted].prop_map(|mut names: Vec<Vec<u8>>| {
        names.sort();
        names.dedup();
        names
    });
    let repeated = (directory.clone(), 1usize..6).prop_map(|(names, times)| vec![names; times]);
    prop_oneof![vec(directory, 1..8), repeated]
}

/// A tag and an encoder for it, whatever it costs; false if it cannot hold the strings.
type Forced = (u8, fn(&StringBuffer, &mut Vec<u8>) -> bool);

const FORCED: [Forced; 4] = [
    (TAG_PLAIN, |strings, out| {
        plain::encode(strings, out);
        true
    }),
    (TAG_FRONT, |strings, out| {
        front::encode(strings, out);
        true
    }),
    (TAG_DICTIONARY, dictionary::encode),
    (TAG_NUMBERED, numbered::encode),
];

fn parse(section: &[u8], count: usize) -> Result<ByteStrings, Damage> {
    ByteStrings::parse(&mut Reader::new(section), count)
}

fn check(section: &[u8], directories: &[Vec<Vec<u8>>], keys: &[Vec<u8>]) {
    let all: Vec<&[u8]> = directories.iter().flatten().map(Vec::as_slice).collect();
    let mut reader = Reader::new(section);
    let strings = ByteStrings::parse(&mut reader, all.len()).unwrap();
    assert!(reader.is_at_end());
    let mut scratch = Vec::new();
    for (i, &string) in all.iter().enumerate() {
        assert_eq!(strings.view(section, i, &mut scratch), Ok(string), "{i} of {strings}");
    }
    let mut start = 0;
    for names in directories {
        let range = start..start + names.len();
        start = range.end;
        let mut seen = range.start;
        let scan = strings.scan(section, range.clone(), &mut |index, string| {
            assert_eq!((index, string), (seen, all[index]));
            seen += 1;
            seen < range.end || index % 2 == 0
        });
        assert_eq!((scan, seen), (Ok(()), range.end));
        for key in keys.iter().chain(names) {
            let expected = match names.binary_search(key) {
                Ok(i) => Ok(range.start + i),
                Err(i) => Err(range.start + i),
            };
            let found = strings.search(section, range.clone(), key);
            assert_eq!(found, Ok(expected), "{key:?} in {names:?} by {strings}");
        }
    }
}

/// Reads everything there is to read.
fn exhaust(section: &[u8], count: usize, key: &[u8]) {
    let Ok(strings) = parse(section, count) else { return };
    assert!(strings.heap_len() < 8192, "{} bytes for {strings}", strings.heap_len());
    let mut scratch = Vec::new();
    for i in 0..count {
        let _ = strings.view(section, i, &mut scratch).map(|string| {
            assert!(string.len() <= VALUE_LEN_MAX);
        });
        let _ = strings.search(section, i..count, key);
    }
    let mut seen = 0;
    let _ = strings.scan(section, 0..count, &mut |_, _| {
        seen += 1;
        true
    });
    assert!(seen <= count);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_chosen_codec_gives_every_string_back_and_finds_it(
        directories in directories(), keys in vec(vec(any::<u8>(), 0..4), 4),
    ) {
        let all: StringBuffer = directories.iter().flatten().map(Vec::as_slice).collect();
        prop_assume!(all.len() > 0);
        let mut section = Vec::new();
        encode(&all, &mut section);
        check(&section, &directories, &keys);
    }

    #[test]
    fn every_codec_gives_every_string_back_and_finds_it(
        directories in directories(), keys in vec("[ab]{0,6}|file[0-9]{1,3}\\.txt", 4),
    ) {
        let all: StringBuffer = directories.iter().flatten().map(Vec::as_slice).collect();
        prop_assume!(all.len() > 0);
        let keys: Vec<Vec<u8>> = keys.into_iter().map(String::into_bytes).collect();
        for (tag, encode) in FORCED {
            let mut section = vec![tag];
            if encode(&all, &mut section) {
                check(&section, &directories, &keys);
            }
        }
    }

    #[test]
    fn damage_never_panics(
        directories in directories(), which in 0..FORCED.len(), at: prop::sample::Index, to: u8,
        key in vec(any::<u8>(), 0..4), count in 1usize..500,
    ) {
        let all: StringBuffer = directories.iter().flatten().map(Vec::as_slice).collect();
        prop_assume!(all.len() > 0);
        let (tag, encode) = FORCED[which];
        let mut section = vec![tag];
        if !encode(&all, &mut section) {
            return Ok(());
        }
        // Most bytes are text; headers are at the front and matter more.
        let at = at.index(if to & 1 == 0 { section.len().min(48) } else { section.len() });
        exhaust(&section[..at], all.len(), &key);
        exhaust(&section, count, &key);
        section[at] = to;
        exhaust(&section, all.len(), &key);
    }

    #[test]
    fn noise_never_panics(
        tag in 0x20u8..0x25,
        noise in vec(prop_oneof![any::<u8>(), 0x10u8..0x25, 0x80u8..0x90], 0..64),
        count in 1usize..200,
    ) {
        exhaust(&[&[tag], &noise[..]].concat(), count, b"a");
    }
}

fn codec_of(names: &[String]) -> (String, usize) {
    let mut section = Vec::new();
    let strings: StringBuffer = names.iter().map(String::as_bytes).collect();
    encode(&strings, &mut section);
    (parse(&section, names.len()).unwrap().to_string(), section.len())
}

#[test]
fn names_get_the_codec_they_should() {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let counted = sorted((0..1000).map(|n| format!("file-{n}.txt")).collect());
    let padded: Vec<String> = (0..1000).map(|n| format!("2026-img_{n:06}.fits")).collect();
    let tens = sorted((0..4000).map(|n| format!("part{n}.mp3")).collect());
    let every_directory = ["COPYING", "Kconfig", "Makefile", "main.c"].map(String::from);
    let words = sorted((0..1000u64).map(|n| format!("{:x}", n * n * 7_777_777_777)).collect());
    let cases = [
        ("counted", vec![counted; 4].concat(), "numbered of 1(", 64),
        ("padded", padded, "numbered of 1(", 48),
        ("beyond a power of ten", tens, "numbered of 1(", 256),
        ("the same names", vec![every_directory.to_vec(); 1000].concat(), "dictionary of 4(", 600),
        ("no order to find", words, "front(", 10_500),
        ("one name", vec![String::from("a"); 9], "constant", 3),
    ];
    for (what, names, codec, len_max) in cases {
        let (found, len) = codec_of(&names);
        assert!(found.starts_with(codec), "{what}: {found}");
        assert!(len <= len_max, "{what}: {len} bytes as {found}");
    }
}

#[test]
fn the_tail_of_a_group_is_searched_without_the_directory_before_it() {
    // A directory that starts inside a restart group whose restart sorts after all of it.
    let before: Vec<Vec<u8>> = (0..19).map(|n| format!("zz{n:02}").into_bytes()).collect();
    let names: Vec<Vec<u8>> = (0..40).map(|n| format!("ab{n:02}x").into_bytes()).collect();
    let strings: StringBuffer = before.iter().chain(&names).map(Vec::as_slice).collect();
    let mut section = vec![TAG_FRONT];
    front::encode(&strings, &mut section);
    check(&section, &[before, names], &[b"".to_vec(), b"ab".to_vec(), b"zz".to_vec()]);
}

/// The format, written by hand: what these bytes mean must never change.
#[test]
fn the_format_is_pinned() {
    let cases: [(&[u8], &[&str]); 8] = [
        (b"\x20\x02hi", &["hi", "hi"]),
        (b"\x21\x10\x01\x04\x03abc", &["a", "bc"]),
        (b"\x22\x02\x11\x00\x01\x02\x08\x10\x03\x02\x05abcdz", &["abc", "abd", "z"]),
        (b"\x23\x02\x21\x10\x01\x04\x03abc\x11\x00\x01\x01\x05", &["bc", "a", "bc"]),
        // No number; two digits; up to two digits by place; up to two digits in base 11.
        (b"\x24\x01\x20\x01f\x20\x01x\x80\x80\x80", &["fx", "fx"]),
        (b"\x24\x01\x20\x01f\x20\x00\x82\x80\x10\x07\x02", &["f07", "f08"]),
        (b"\x24\x01\x20\x01f\x20\x00\x94\x80\x10\x09\x02", &["f08", "f09", "f1", "f10"]),
        (b"\x24\x01\x20\x01f\x20\x00\xa6\x80\x10\x15\x02", &["f09", "f1", "f10", "f11"]),
    ];
    for (section, strings) in cases {
        let strings = strings.iter().map(|string| string.as_bytes().to_vec());
        // Each a directory of its own: they need not ascend.
        let directories: Vec<_> = strings.map(|string| vec![string]).collect();
        check(section, &directories, &[]);
    }
}
