//! Names in URLs, HTML and XML; dates of HTTP.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Everything but unreserved characters (RFC 3986, section 2.3) and the slash.
const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Percent-encodes a path for a URL; slashes stay.
pub(crate) fn encode(path: &[u8]) -> String {
    percent_encode(path, RESERVED).to_string()
}

/// Undoes percent-encoding. What is not valid stays as it is.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// A name as text of HTML or XML. Bytes that are not UTF-8 and control characters are replaced.
pub(crate) fn escape(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for c in String::from_utf8_lossy(name).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A time as HTTP writes it; the nearest that it can write.
pub(crate) fn http_date(seconds: i64) -> String {
    format(seconds, "%a, %d %b %Y %H:%M:%S GMT")
}

/// A time as people write it, in UTC.
pub(crate) fn plain_date(seconds: i64) -> String {
    format(seconds, "%Y-%m-%d %H:%M")
}

fn format(seconds: i64, how: &str) -> String {
    // Years with four digits.
    let seconds = seconds.clamp(-62_135_596_800, 253_402_207_200);
    let at = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_zoned(TimeZone::UTC).strftime(how).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_urls_and_do_no_harm_in_pages() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&bytes)), bytes);
        assert_eq!(
            escape(b"<a href=\"x\">\x1b&'"),
            "&lt;a href=&quot;x&quot;&gt;\u{fffd}&amp;&#39;"
        );
    }

    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert!(http_date(i64::MAX).ends_with("GMT") && http_date(i64::MIN).ends_with("GMT"));
    }
}
