//! Streams of PDF documents (ISO 32000): where those that zlib made begin.

use memchr::memmem;

/// First bytes of a document.
pub(crate) const MAGIC: [u8; 5] = *b"%PDF-";

/// How far before its stream a dictionary is looked for.
const DICTIONARY_LEN_MAX: usize = 1024;

/// Returns where the bytes of the next stream begin that names zlib as its filter, from `at` on.
pub(crate) fn next_stream(bytes: &[u8], at: usize) -> Option<usize> {
    let mut from = at;
    loop {
        let found = from + memmem::find(bytes.get(from..)?, b"stream")?;
        let after = found + b"stream".len();
        from = after;
        let start = match bytes.get(after..)? {
            [b'\r', b'\n', ..] => after + 2,
            [b'\n', ..] => after + 1,
            _ => continue,
        };
        let before = bytes[found.saturating_sub(DICTIONARY_LEN_MAX)..found].trim_ascii_end();
        // The dictionary of this object, and not the one of the object before.
        let object = memmem::rfind(before, b" obj").map_or(before, |object| &before[object..]);
        if before.ends_with(b">>") && memmem::find(object, b"/FlateDecode").is_some() {
            return Some(start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_found_by_their_dictionaries() {
        let document = b"%PDF-1.5\n1 0 obj << /Filter /FlateDecode /Length 3 >>\nstream\r\nabc\n\
            endstream\nendobj\n2 0 obj << /Length 3 >> stream\nxyz\nendstream endobj\n\
            3 0 obj <</Filter[/FlateDecode]>>stream\nq";
        let first = next_stream(document, 0).unwrap();
        assert!(document[first..].starts_with(b"abc"));
        let second = next_stream(document, first).unwrap();
        assert_eq!(&document[second..], b"q");
        assert_eq!(next_stream(document, second), None);
        for cut in 0..document.len() {
            let _ = next_stream(&document[..cut], 0);
        }
    }
}
