//! Guesses what kind of data a content is from its bytes.
//!
//! Only statistics, the cut of frames and the effort spent on them depend on the category. A wrong
//! guess costs size or time, never correctness. A few KiB are looked at, whatever the length.

use shale_codec::looks_incompressible;
use shale_format::Category;

/// Bytes at the start that are tested for text.
const TEXT_SAMPLE_LEN: usize = 1024;
/// Shorter contents are not tested for compressibility, because they share a frame with others.
const INCOMPRESSIBLE_LEN_MIN: usize = 32 << 10;

/// First bytes of machine code: ELF, Windows executables, Mach-O of either width and byte order,
/// static libraries.
const CODE_MAGICS: [&[u8]; 7] = [
    b"\x7fELF",
    b"MZ\x90\0",
    b"\xfe\xed\xfa\xce",
    b"\xce\xfa\xed\xfe",
    b"\xfe\xed\xfa\xcf",
    b"\xcf\xfa\xed\xfe",
    b"!<arch>\n",
];

/// Returns the category of a content that starts with `bytes`, or is `bytes`.
pub(crate) fn category_of(bytes: &[u8]) -> Category {
    if CODE_MAGICS.iter().any(|magic| bytes.starts_with(magic)) {
        Category::Code
    } else if looks_like_text(&bytes[..bytes.len().min(TEXT_SAMPLE_LEN)]) {
        Category::Text
    } else if bytes.len() >= INCOMPRESSIBLE_LEN_MIN && looks_incompressible(bytes) {
        Category::Incompressible
    } else {
        Category::Generic
    }
}

/// Returns whether a sample has no zero byte and few control characters. Bytes above 127 may be
/// letters of any encoding, so up to a third of them are accepted.
fn looks_like_text(sample: &[u8]) -> bool {
    let (mut control, mut high) = (0, 0);
    for &byte in sample {
        match byte {
            0 => return false,
            b'\t' | b'\n' | b'\r' | 0x0c | 0x1b => {}
            ..0x20 | 0x7f => control += 1,
            0x80.. => high += 1,
            _ => {}
        }
    }
    !sample.is_empty() && control * 50 <= sample.len() && high * 3 <= sample.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_told_by_content() {
        let mut state = 7u64;
        let random: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .take(100_000)
        .collect();
        assert_eq!(category_of(&random), Category::Incompressible);
        assert_eq!(category_of(b"int main(void) { return 0; }\n"), Category::Text);
        assert_eq!(category_of(b"\x7fELF\x02\x01\x01\0\0"), Category::Code);
        assert_eq!(category_of(&[1, 0, 2, 0, 3, 0, 4, 0]), Category::Generic);
        assert_eq!(category_of(b""), Category::Generic);
    }
}
