//! Text in columns of a terminal: escaped, cut and padded to an exact width.

use unicode_width::UnicodeWidthChar;

use crate::text;

/// Returns text of exactly `width` columns: cut with `…` if it is longer, else padded with spaces.
/// The text must hold no control characters.
pub fn fit(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len().min(width * 4) + 3);
    let mut used = 0;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let wide = char.width().unwrap_or(0);
        // The last column is for the mark, unless everything fits.
        let rest: usize = chars.clone().take(width).map(|c| c.width().unwrap_or(0)).sum();
        let fits = used + wide + rest <= width;
        if !fits && used + wide + 1 > width {
            if used < width {
                out.push('…');
                used += 1;
            }
            break;
        }
        out.push(char);
        used += wide;
        if fits {
            out.extend(chars);
            used += rest;
            break;
        }
    }
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
    out
}

/// Text without its first `count` columns.
pub fn skip(text: &str, count: usize) -> &str {
    let mut used = 0;
    for (at, char) in text.char_indices() {
        if used >= count {
            return &text[at..];
        }
        used += char.width().unwrap_or(0);
    }
    if count == 0 { text } else { "" }
}

/// A line of a file: tabs as spaces, control characters and bytes that are not UTF-8 escaped.
pub fn line(bytes: &[u8]) -> String {
    const TAB_LEN: usize = 8;
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for (index, part) in chunk.valid().split('\t').enumerate() {
            if index > 0 {
                let at = out.chars().count() % TAB_LEN;
                out.extend(std::iter::repeat_n(' ', TAB_LEN - at));
            }
            out.push_str(&text::safe(part));
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_and_padded_to_columns() {
        assert_eq!(fit("abc", 5), "abc  ");
        assert_eq!(fit("abcde", 5), "abcde");
        assert_eq!(fit("abcdef", 5), "abcd…");
        assert_eq!(fit("漢字漢字", 5), "漢字…");
        assert_eq!(fit("漢字漢字", 6), "漢字… ");
        assert_eq!(fit("漢字", 4), "漢字");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(skip("abcdef", 2), "cdef");
        assert_eq!(skip("ab", 5), "");
    }

    #[test]
    fn lines_hold_no_control_characters() {
        assert_eq!(line(b"a\tb\x1b[2J\xff"), "a       b\\x1b[2J\\xff");
    }
}
