//! Elements, attributes and text of an XML document, one after the other.
//!
//! As much of XML as tables of contents have: elements, attributes, text, CDATA, comments,
//! instructions, and the references that need no declaration. Document types are refused, so that
//! nothing can be declared that stands for more than itself.

/// What comes next in a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'x> {
    /// An element begins, with its attributes. An element without content ends right after it.
    Start(&'x [u8], Vec<(&'x [u8], Vec<u8>)>),
    /// Text; one text may come in parts.
    Text(Vec<u8>),
    /// The element that began last ends.
    End,
}

/// A document that is read.
#[derive(Debug)]
pub(super) struct Xml<'x> {
    rest: &'x [u8],
    /// The elements that did not end yet.
    open: Vec<&'x [u8]>,
    /// The last element has no content.
    ends: bool,
}

const CORRUPT: &str = "its table of contents is no valid XML";

impl<'x> Xml<'x> {
    pub(super) fn new(document: &'x [u8]) -> Self {
        Self { rest: document, open: Vec::new(), ends: false }
    }

    /// What comes next; `None` at the end, when all elements have ended.
    ///
    /// # Errors
    /// The document is not well-formed, or has a document type.
    pub(super) fn next(&mut self) -> Result<Option<Event<'x>>, String> {
        if std::mem::take(&mut self.ends) {
            self.open.pop();
            return Ok(Some(Event::End));
        }
        loop {
            let Some(first) = self.rest.first() else {
                return if self.open.is_empty() { Ok(None) } else { Err(CORRUPT.to_owned()) };
            };
            if *first != b'<' {
                let len = self.rest.iter().position(|&byte| byte == b'<');
                let (text, rest) = self.rest.split_at(len.unwrap_or(self.rest.len()));
                self.rest = rest;
                return unescaped(text).map(|text| Some(Event::Text(text)));
            }
            if let Some(rest) = self.rest.strip_prefix(b"<?") {
                self.rest = after(rest, b"?>")?.1;
            } else if let Some(rest) = self.rest.strip_prefix(b"<!--") {
                self.rest = after(rest, b"-->")?.1;
            } else if let Some(rest) = self.rest.strip_prefix(b"<![CDATA[") {
                let (text, rest) = after(rest, b"]]>")?;
                self.rest = rest;
                return Ok(Some(Event::Text(text.to_vec())));
            } else if self.rest.starts_with(b"<!") {
                return Err("its table of contents has a document type".to_owned());
            } else if let Some(rest) = self.rest.strip_prefix(b"</") {
                let (name, rest) = after(rest, b">")?;
                self.rest = rest;
                return match self.open.pop() {
                    Some(open) if open == name.trim_ascii_end() => Ok(Some(Event::End)),
                    _ => Err(CORRUPT.to_owned()),
                };
            } else {
                return self.start().map(Some);
            }
        }
    }

    fn start(&mut self) -> Result<Event<'x>, String> {
        let mut rest = &self.rest[1..];
        let name = word(&mut rest);
        if name.is_empty() {
            return Err(CORRUPT.to_owned());
        }
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_ascii_start();
            if let Some(after) = rest.strip_prefix(b"/>") {
                (self.rest, self.ends) = (after, true);
                break;
            }
            if let Some(after) = rest.strip_prefix(b">") {
                self.rest = after;
                break;
            }
            let key = word(&mut rest);
            rest = rest.trim_ascii_start().strip_prefix(b"=").ok_or(CORRUPT)?.trim_ascii_start();
            let quote =
                *rest.first().filter(|quote| matches!(quote, b'"' | b'\'')).ok_or(CORRUPT)?;
            let (value, after) = after(&rest[1..], &[quote])?;
            rest = after;
            attributes.push((key, unescaped(value)?));
        }
        self.open.push(name);
        Ok(Event::Start(name, attributes))
    }
}

/// What precedes `mark`, and what follows it.
fn after<'x>(bytes: &'x [u8], mark: &[u8]) -> Result<(&'x [u8], &'x [u8]), String> {
    let at = bytes.windows(mark.len()).position(|window| window == mark).ok_or(CORRUPT)?;
    Ok((&bytes[..at], &bytes[at + mark.len()..]))
}

/// Takes a name.
fn word<'x>(rest: &mut &'x [u8]) -> &'x [u8] {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'=' | b'/' | b'>' | b'<');
    let len = rest.iter().position(ends).unwrap_or(rest.len());
    let (name, after) = rest.split_at(len);
    *rest = after;
    name
}

/// Text with its references replaced.
fn unescaped(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'&') {
        out.extend_from_slice(&rest[..at]);
        // A reference is short; a longer one is none.
        let tail = &rest[at + 1..];
        let end = tail.iter().take(12).position(|&byte| byte == b';').ok_or(CORRUPT)?;
        match &tail[..end] {
            b"lt" => out.push(b'<'),
            b"gt" => out.push(b'>'),
            b"amp" => out.push(b'&'),
            b"quot" => out.push(b'"'),
            b"apos" => out.push(b'\''),
            reference => {
                let sign = std::str::from_utf8(reference).ok().and_then(|reference| {
                    let digits = reference.strip_prefix('#')?;
                    let number = match digits.strip_prefix('x') {
                        Some(digits) => u32::from_str_radix(digits, 16),
                        None => digits.parse(),
                    };
                    char::from_u32(number.ok()?)
                });
                let sign = sign.ok_or(CORRUPT)?;
                out.extend_from_slice(sign.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        rest = &tail[end + 1..];
    }
    out.extend_from_slice(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<String>, String> {
        let mut xml = Xml::new(text.as_bytes());
        let mut found = Vec::new();
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        while let Some(event) = xml.next()? {
            found.push(match event {
                Event::Start(name, attributes) => {
                    let pairs =
                        attributes.iter().map(|(k, v)| format!(" {}={}", shown(k), shown(v)));
                    format!("<{}{}>", shown(name), pairs.collect::<String>())
                }
                Event::Text(text) => shown(&text),
                Event::End => "</>".to_owned(),
            });
        }
        Ok(found)
    }

    #[test]
    fn a_document_is_read_piece_by_piece() {
        let text = "<?xml version=\"1.0\"?><a b = 'c&lt;' d=\"\"><!-- <x> -->t&#x21;&amp;<e/>\
                    <![CDATA[<&]]></a >";
        let expected = ["<a b=c< d=>", "t!&", "<e>", "</>", "<&", "</>"];
        assert_eq!(all(text).unwrap(), expected);
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        for bad in [
            "<a>",
            "</a>",
            "<a></b>",
            "<a b></a>",
            "<a b=c></a>",
            "<a b='c></a>",
            "<a>&x;</a>",
            "<a>&#xd800;</a>",
            "<a>& </a>",
            "< a/>",
            "<!DOCTYPE a []><a/>",
            "<!-- ",
            "<a",
            "<![CDATA[",
        ] {
            assert!(all(bad).is_err(), "{bad}");
        }
    }
}
