//! Every codec alone and the choice among them: what goes in comes out, value by value, in parts
//! and as a whole; and whatever the bytes, nothing panics.

use proptest::{collection::vec, prelude::*};

use super::*;

/// Columns as tables have them, and some that no codec likes.
fn columns() -> impl Strategy<Value = Vec<u64>> {
    let len = 1..400usize;
    prop_oneof![
        vec(any::<u64>(), len.clone()),
        (0u32..64, vec(any::<u64>(), len.clone()))
            .prop_map(|(shift, values)| values.iter().map(|v| v >> shift).collect()),
        // Pieces of lines.
        vec((any::<u64>(), 0u64..4, 1usize..100), 1..12).prop_map(|pieces| {
            let piece = |(base, step, len): &(u64, u64, usize)| {
                let (base, step) = (*base, *step);
                (0..*len as u64).map(move |i| base.wrapping_add(i.wrapping_mul(step)))
            };
            pieces.iter().flat_map(piece).collect()
        }),
        // Ranks and offsets: running sums of small steps.
        (any::<u64>(), 0u64..5000, vec(any::<u64>(), len.clone())).prop_map(
            |(base, max, steps)| {
                let mut sum = base >> 1;
                let step = |step: &u64| {
                    sum = sum.wrapping_add(step % (max + 1));
                    sum
                };
                steps.iter().map(step).collect()
            }
        ),
        // Few distinct values, far apart.
        (vec(any::<u64>(), 1..8), vec(any::<prop::sample::Index>(), len.clone()))
            .prop_map(|(values, picks)| picks.iter().map(|pick| *pick.get(&values)).collect()),
        // Small values with outliers.
        vec(prop_oneof![20 => 0u64..16, 1 => any::<u64>()], len.clone()),
        // Multiples.
        (1u64..1 << 20, vec(0u64..1000, len))
            .prop_map(|(scale, values)| values.iter().map(|v| v * scale).collect()),
    ]
}

/// A tag and an encoder for it, whatever it costs; false if it cannot hold the values.
type Forced = (u8, fn(&[u64], &mut Vec<u8>) -> bool);

const FORCED: [Forced; 9] = [
    (TAG_PACKED, |values, out| {
        packed::encode(values, out);
        true
    }),
    (TAG_BLOCKS, |values, out| blocks::encode::<Integers>(values, usize::MAX, out)),
    (TAG_RUNS, |values, out| runs::encode::<Integers>(values, TIER_COLUMN, usize::MAX / 8, out)),
    (TAG_DICTIONARY, |values, out| {
        dictionary::encode::<Integers>(values, TIER_COLUMN, usize::MAX, out)
    }),
    (TAG_DELTA_RISING, |values, out| {
        values.len() > 1
            && delta::encode::<Integers>(values, Sign::Rising, TIER_COLUMN, usize::MAX, out)
    }),
    (TAG_DELTA_ZIGZAG, |values, out| {
        values.len() > 1
            && delta::encode::<Integers>(values, Sign::Zigzag, TIER_COLUMN, usize::MAX, out)
    }),
    (TAG_PACKED, |values, out| {
        packed::encode_in_bytes(values, out);
        true
    }),
    (TAG_DELTA_RISING, |values, out| {
        values.len() > 1 && {
            delta::encode_in_bytes::<Integers>(values, Sign::Rising, out);
            true
        }
    }),
    (TAG_DELTA_ZIGZAG, |values, out| {
        values.len() > 1 && {
            delta::encode_in_bytes::<Integers>(values, Sign::Zigzag, out);
            true
        }
    }),
];

fn check(section: &[u8], values: &[u64], tier: Tier, cut: (usize, usize)) {
    let mut reader = Reader::new(section);
    let integers = Integers::parse(&mut reader, values.len(), tier).unwrap();
    assert!(reader.is_at_end());
    for (i, &value) in values.iter().enumerate() {
        assert_eq!(integers.get(section, i), Ok(value), "value {i} of {integers}");
    }
    let (a, b) = (cut.0 % (values.len() + 1), cut.1 % (values.len() + 1));
    for range in [0..values.len(), a.min(b)..a.max(b)] {
        let mut out = vec![0; range.len()];
        integers.read(section, range.start, &mut out).unwrap();
        assert_eq!(out, values[range], "{integers}");
    }
}

/// Reads everything there is to read.
fn exhaust(section: &[u8], count: usize, tier: Tier) {
    let Ok(integers) = Integers::parse(&mut Reader::new(section), count, tier) else { return };
    assert!(integers.heap_len() < 2048, "{} bytes for {integers}", integers.heap_len());
    for i in 0..count {
        let _ = integers.get(section, i);
    }
    let _ = integers.read(section, 0, &mut vec![0; count]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_chosen_codec_gives_every_value_back(
        values in columns(), tier in 0..=TIER_COLUMN, cut: (usize, usize),
    ) {
        let mut section = Vec::new();
        encode(&values, tier, &mut section);
        check(&section, &values, tier, cut);
    }

    #[test]
    fn every_codec_gives_every_value_back(values in columns(), cut: (usize, usize)) {
        for (tag, encode) in FORCED {
            let mut section = vec![tag];
            if encode(&values, &mut section) {
                check(&section, &values, TIER_COLUMN, cut);
            }
        }
    }

    #[test]
    fn whatever_a_compressor_says_every_value_comes_back(
        values in columns(), times in 1usize..9, taste: u32, cut: (usize, usize),
    ) {
        let values = values.repeat(times);
        let mut section = Vec::new();
        // Any section may seem the best.
        let mut left = |bytes: &[u8]| bytes.iter().fold(taste, |sum, &b| {
            sum.wrapping_mul(0x9e37_79b1).wrapping_add(u32::from(b))
        }) as usize;
        encode_compressed(&values, &mut left, &mut section);
        check(&section, &values, TIER_COLUMN, cut);
    }

    #[test]
    fn the_choice_is_never_longer_than_packed(values in columns(), tier in 0..=TIER_COLUMN) {
        let (mut chosen, mut packed) = (Vec::new(), vec![TAG_PACKED]);
        encode(&values, tier, &mut chosen);
        packed::encode(&values, &mut packed);
        // A line of two values or a constant may cost a header more, never more than that.
        prop_assert!(chosen.len() <= packed.len() + 12);
        if values.len() > 8 {
            prop_assert!(chosen.len() <= packed.len());
        }
    }

    #[test]
    fn damage_never_panics(
        values in columns(), which in 0..FORCED.len(), at: prop::sample::Index, to: u8,
        count in 1usize..500,
    ) {
        let (tag, encode) = FORCED[which];
        let mut section = vec![tag];
        if !encode(&values, &mut section) {
            return Ok(());
        }
        exhaust(&section[..at.index(section.len())], values.len(), TIER_COLUMN);
        exhaust(&section, count, TIER_COLUMN);
        let at = at.index(section.len());
        section[at] = to;
        exhaust(&section, values.len(), TIER_COLUMN);
    }

    #[test]
    fn noise_never_panics(
        tags in vec(prop_oneof![0x10u8..0x17, 0x80u8..0x90], 1..12),
        noise in vec(any::<u8>(), 0..64),
        count in 1usize..200,
    ) {
        // Tags first, so that nesting gets deep.
        exhaust(&[&tags[..], &noise].concat(), count, TIER_COLUMN);
    }
}

fn section_of(values: &[u64]) -> (String, usize) {
    let mut section = Vec::new();
    encode(values, TIER_COLUMN, &mut section);
    let mut reader = Reader::new(&section);
    let integers = Integers::parse(&mut reader, values.len(), TIER_COLUMN).unwrap();
    check(&section, values, TIER_COLUMN, (1, values.len() - 1));
    (integers.to_string(), section.len())
}

/// A cheap stand-in for randomness, the same everywhere.
fn noise(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        Some(state >> 33)
    })
}

#[test]
fn what_tables_hold_gets_the_codec_it_should() {
    let cases: [(&str, Vec<u64>, &str, usize); 9] = [
        ("small constant", vec![5; 4096], "constant 5", 1),
        ("time", vec![(1 << 63) + 1_700_000_000; 4096], "constant", 9),
        ("line", (1..4097).collect(), "linear +1", 3),
        ("level order with jumps", (0..4096).map(|i| i + i / 1000 * 7000).collect(), "5 runs(", 32),
        (
            "ranks",
            noise(1)
                .take(4096)
                .scan(7, |sum, n| {
                    *sum += n & 1;
                    Some(*sum)
                })
                .collect(),
            "rising delta(",
            512 + 120,
        ),
        (
            "sizes with outliers",
            noise(2).take(4096).map(|n| if n % 500 == 0 { n } else { n % 20_000 }).collect(),
            "blocks(",
            10_500,
        ),
        (
            "few times",
            noise(3).take(4096).map(|n| (1 << 63) + (n % 5).pow(9) * 1_003).collect(),
            "dictionary of 5(",
            4096 * 3 / 8 + 64,
        ),
        (
            "whole blocks",
            noise(4).take(4096).map(|n| n % 256 * 4096).collect(),
            "packed 8 bits x 4096",
            4096 + 8,
        ),
        (
            "the same directory again and again",
            (0..4096).map(|i| [5, 900_000, 17, 3, 44_444, 17, 8][i % 7]).collect(),
            "",
            2048,
        ),
    ];
    for (name, values, codec, len_max) in cases {
        let (found, len) = section_of(&values);
        assert!(found.starts_with(codec), "{name}: {found}");
        assert!(len <= len_max, "{name}: {len} bytes as {found}");
    }
}

#[test]
fn codecs_do_not_nest_above_their_tier() {
    for tag in [TAG_BLOCKS, TAG_RUNS, TAG_DICTIONARY, TAG_DELTA_RISING, TAG_DELTA_ZIGZAG] {
        let section = [tag, 0x01, 0x80, 0x80, 0x80, 0x80];
        assert!(Integers::parse(&mut Reader::new(&section), 1, TIER_FLAT).is_err());
        assert!(Integers::parse(&mut Reader::new(&section), 1, TIER_COLUMN).is_ok());
    }
}

#[test]
fn starts_that_do_not_ascend_are_damage() {
    let parse = |section: &[u8]| Integers::parse(&mut Reader::new(section), 9, TIER_COLUMN);
    // Two runs that start at 5.
    assert!(parse(&[TAG_RUNS, 2, 0x85, 0x81, 0x80]).is_err());
    // Runs that start at 0, 3 and 2: a search would not see what a walk sees.
    assert!(parse(&[TAG_RUNS, 3, TAG_PACKED, 0, 1, 2, 0b10_11_00, 0x81, 0x80]).is_err());
    assert!(parse(&[TAG_RUNS, 3, TAG_PACKED, 0, 1, 2, 0b11_10_00, 0x81, 0x80]).is_ok());
}

/// The format, written by hand: what these bytes mean must never change.
#[test]
fn the_format_is_pinned() {
    let cases: [(&[u8], &[u64]); 9] = [
        (&[0x85], &[5, 5, 5]),
        (&[0x02, 0xa4, 0x81], &[0o100644, 0o100644]),
        (&[0x10, 10, 3], &[10, 8, 6]),
        (&[0x11, 100, 10, 4, 0x21, 0x03], &[110, 120, 130]),
        (&[0x12, 0x87, 0x84, 0x21, 0x03], &[8, 9, 10]),
        (&[0x13, 2, 0x10, 0, 6, 0x10, 50, 100, 0x81], &[50, 51, 52, 100, 101]),
        (&[0x14, 2, 0x10, 5, 4, 0x11, 0, 1, 1, 0b101], &[7, 5, 7]),
        (&[0x15, 0x8a, 0x83], &[10, 13, 16]),
        (&[0x16, 0x8a, 0x81], &[10, 9, 8]),
    ];
    for (section, values) in cases {
        check(section, values, TIER_COLUMN, (1, 2));
    }
}
