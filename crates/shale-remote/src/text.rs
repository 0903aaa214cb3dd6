//! Text as protocols want it: percent-encoding, hexadecimal digits, base64, dates.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Everything but unreserved characters (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same without the slash, for paths.
const RESERVED_IN_PATHS: &AsciiSet = &RESERVED.remove(b'/');

/// Percent-encodes everything but unreserved characters, and `/` if `slash` allows it.
pub(crate) fn encode(bytes: &[u8], slash: bool) -> String {
    percent_encode(bytes, if slash { RESERVED_IN_PATHS } else { RESERVED }).to_string()
}

/// Decodes percent-encoding. Bytes that are not encoded stay.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// Hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Standard base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Base64 for URLs, without padding.
pub(crate) fn base64_url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of standard base64, if it is valid. White space is ignored.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let packed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(packed).ok()
}

/// The text between the first `<tag>` and its end. For the flat answers of stores, not for XML in
/// general.
pub(crate) fn xml_field<'a>(xml: &'a str, tag: &str) -> Option<&'a str> {
    let from = xml.find(&format!("<{tag}>"))? + tag.len() + 2;
    let len = xml[from..].find(&format!("</{tag}>"))?;
    Some(xml[from..from + len].trim())
}

/// Text as it stands between tags of XML.
pub(crate) fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Undoes [`escape_xml`], also as stores write it.
pub(crate) fn unescape_xml(text: &str) -> String {
    let text = text.replace("&quot;", "\"").replace("&#34;", "\"").replace("&lt;", "<");
    text.replace("&gt;", ">").replace("&amp;", "&")
}

/// One line of text for a message: no control characters, at most 200 characters.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_is_undone_by_decoding() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&bytes, false)), bytes);
        assert_eq!(encode("a b/ä".as_bytes(), true), "a%20b/%C3%A4");
        assert_eq!(decode("%zz%4"), b"%zz%4");
    }

    #[test]
    fn fields_of_answers_are_found() {
        assert_eq!(xml_field("<Error><Code> X </Code></Error>", "Code"), Some("X"));
        assert_eq!(xml_field("<Code>", "Code"), None);
    }
}
