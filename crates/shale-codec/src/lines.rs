//! The filter of lines: lines that resemble each other, as columns.
//!
//! Lines of logs and tables are equal except for a few numbers and words. A *template* is such a
//! line with *slots* for these; a line is then the number of its template and the values of its
//! slots. The values of one slot lie together, as *codes* that say how a value differs from an
//! earlier one: mostly not at all, or by the same step each time. A codec compresses that far
//! better than the lines. (Templates of log lines: Christensen and Li, "Adaptive log compression
//! for massive log data", SIGMOD 2013.)
//!
//! The encoder chooses which parts of a line are slots (`tokens.rs`, `encode.rs`, `columns.rs`).
//! The decoder (`decode.rs`) does not tell numbers from words. The layout is in `docs/format.md`,
//! chapter 9.1.

mod tokens; // what a line is made of
mod columns; // the values of slots, as codes
mod encode; // from lines to columns
mod decode; // from columns to lines

pub(crate) use decode::{decode, split_len};
pub use encode::{lines_form, lines_memory_len};

/// A slot in the text of a template. Plain bytes that contain this byte have no lines form.
const SLOT: u8 = 0;
/// Most slots of all templates of a frame. Bounds the decoder's memory.
const SLOT_COUNT_MAX: usize = 1 << 16;
/// Most digits of a number that may be stored as a difference; these fit 64 bits with a sign.
const DIGIT_COUNT_MAX: usize = 18;

/// In the mode of a slot: the known value is the last one in any slot of the same place, and not
/// the last one in this slot.
const MODE_PLACE: u8 = 1;
/// In the mode of a slot: a difference makes a number without leading zeroes, and not one of as
/// many digits as the known value.
const MODE_NATURAL: u8 = 2;

/// The value is the known value.
const CODE_SAME: u64 = 0;
/// Length and bytes of the value follow. Greater codes are a difference in zigzag, plus one.
const CODE_LITERAL: u64 = 1;

/// Parses digits, unless there are other bytes or too many.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > DIGIT_COUNT_MAX {
        return None;
    }
    digits.iter().try_fold(0, |value, digit| {
        digit.is_ascii_digit().then(|| value * 10 + u64::from(digit - b'0'))
    })
}

/// A number as LEB128: seven bits a byte, the lowest first; all but the last have the eighth set.
pub(crate) fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::encode::form_of;
    use super::tokens::Grain;
    use super::*;

    /// Lengths of the forms of both grains, whether they are worth it or not.
    fn round_trips(plain: &[u8]) -> Vec<usize> {
        let grains = [Grain::Fine, Grain::Coarse].into_iter();
        let forms: Vec<_> = grains.filter_map(|grain| form_of(plain, grain)).collect();
        for form in &forms {
            let mut back = b"before".to_vec();
            decode(form, plain.len(), &mut back).unwrap();
            assert_eq!(&back[6..], plain);
        }
        forms.iter().map(Vec::len).collect()
    }

    fn round_trip(plain: &[u8]) -> Option<usize> {
        round_trips(plain);
        lines_form(plain).map(|form| form.len())
    }

    #[test]
    fn a_table_becomes_its_changes() {
        let mut plain = Vec::new();
        for second in 0..2000 {
            let (minute, second) = (second / 60 + 7, second % 60);
            let state = if second == 31 { "failed" } else { "ok" };
            let line = format!("2024-02-29T09:{minute:02}:{second:02}Z;21.5;{state};98;99;100\n");
            plain.extend_from_slice(line.as_bytes());
        }
        let len = round_trip(&plain).unwrap();
        // A byte a line for each of template, minute and second; nothing for what never changes.
        assert!(len < 2000 * 3 + 200, "{len}");
    }

    #[test]
    fn numbers_that_grow_longer_are_differences_too() {
        let plain: String = (95..2000).map(|i| format!("event {} of {i:07}\n", i * 3)).collect();
        let len = round_trip(plain.as_bytes()).unwrap();
        assert!(len < 1905 * 3 + 100, "{len}");
    }

    #[test]
    fn words_that_vary_are_a_column() {
        let plain: String = (0..3000u64)
            .map(|i| format!("user=u{} did {:x} at home\n", i % 7, i.wrapping_mul(0x9E37_79B9)))
            .collect();
        assert!(round_trip(plain.as_bytes()).unwrap() < plain.len() / 2);
    }

    #[test]
    fn names_of_all_shapes_are_words_where_nothing_else_is_alike() {
        let names = ["lib-a", "perl", "x11.conf-2", "a_b", "g++:amd64", "ld.so", "k/m", "z~rc1"];
        let plain: String = (0..4000usize)
            .map(|i| {
                let (one, two) = (names[i * 7 % 8], names[i * i % 8]);
                format!("12:{:02} unpack {one}-{two} {}.{two}\n", i / 99, i % 31)
            })
            .collect();
        assert!(round_trip(plain.as_bytes()).unwrap() < plain.len() * 3 / 4);
    }

    #[test]
    fn what_has_no_lines_alike_is_left_as_it_is() {
        let prose =
            "The slate lies in thin layers, and each\nlayer (of 7) keeps what fell upon it;\n";
        for plain in [&b""[..], &[b'\n'; 1000], &[b'a'; 1000], &[0; 1000], prose.as_bytes()] {
            assert!(lines_form(plain).is_none());
        }
    }

    #[test]
    fn a_line_of_very_many_words_takes_no_longer_than_many_lines() {
        // A table of genotypes; a search of all words for each word would take minutes.
        let line = "A G 1 ".repeat(60_000) + "\n";
        assert!(round_trips(line.repeat(9).as_bytes()).iter().all(|&len| len < 4 * line.len()));
        // More slots than a form may have.
        let line: String = (0..90_000).map(|i| format!("{} ", i % 10)).collect();
        let next: String = (0..90_000).map(|i| format!("{} ", i % 7)).collect();
        let plain = [line, next].map(|line| line + "\n").concat().repeat(20);
        assert!(round_trips(plain.as_bytes()).is_empty());
    }

    #[test]
    fn wrong_forms_are_refused() {
        let plain: String = (0..300).map(|i| format!("first={i} next={}\n", i % 3)).collect();
        let form = lines_form(plain.as_bytes()).unwrap();
        let len = plain.len();
        let mut out = Vec::with_capacity(len);
        assert!(decode(&form, len - 1, &mut out).is_err());
        assert!(decode(&form, len + 1, &mut out).is_err());
        for cut in 0..form.len() {
            assert!(decode(&form[..cut], len, &mut out).is_err(), "{cut}");
        }
        let mut longer = form.clone();
        longer.push(0);
        assert!(decode(&longer, len, &mut out).is_err());
        // Other bytes are another text or an error, never more than was asked for.
        for at in 0..form.len() {
            for change in [1, 0x7F, 0x80, 0xFF] {
                let mut wrong = form.clone();
                wrong[at] ^= change;
                out.clear();
                if decode(&wrong, len, &mut out).is_ok() {
                    assert_eq!(out.len(), len);
                }
                assert!(out.len() <= len);
            }
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(
            lines in prop::collection::vec("[ab]{0,2}=[0-9]{0,3};[x-z]{0,1}[0-9]{1,20}(T0[0-9])?", 1..200),
            times in 1usize..4,
            end in "(\n|\r|é)?",
        ) {
            let plain = lines.join("\n").repeat(times) + &end;
            round_trips(plain.as_bytes());
        }

        #[test]
        fn all_bytes_come_back(pieces in prop::collection::vec("\\PC{0,12}|[0-9]+\n", 0..60)) {
            let plain = (pieces.concat() + "a line that is long enough 1\n").repeat(8);
            prop_assert!(!plain.contains('\0') || round_trips(plain.as_bytes()).is_empty());
        }
    }
}
