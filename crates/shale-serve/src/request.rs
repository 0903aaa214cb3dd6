//! A request: read from a connection within limits, and checked.

use std::io::{self, Read};
use std::ops::Range;

use crate::encoding::decode;

/// Bytes of a request without its body.
const HEAD_LEN_MAX: usize = 16 << 10;
/// Header lines of a request.
const HEADER_COUNT_MAX: usize = 64;
/// Bytes of a body that are read; a longer one ends the connection.
const BODY_LEN_MAX: u64 = 64 << 10;

/// A request.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path, decoded, with a leading slash.
    pub(crate) path: Vec<u8>,
    pub(crate) query: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The client understands answers in chunks.
    pub(crate) is_http_1_1: bool,
    /// The connection may serve another request.
    pub(crate) keeps_alive: bool,
}

/// What came of reading a request.
pub(crate) enum Incoming {
    Request(Request),
    /// The client is gone.
    Closed,
    /// It is not a request: the status to answer with.
    Bad(u16),
}

impl Request {
    /// Reads the next request. `rest` holds bytes that came after the one before.
    pub(crate) fn read(stream: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<Incoming> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADER_COUNT_MAX];
            let mut parsed = httparse::Request::new(&mut headers);
            match parsed.parse(rest) {
                Ok(httparse::Status::Complete(len)) => {
                    let Some(request) = Self::checked(&parsed) else {
                        return Ok(Incoming::Bad(400));
                    };
                    rest.drain(..len);
                    return request.with_body(stream, rest);
                }
                Ok(httparse::Status::Partial) if rest.len() >= HEAD_LEN_MAX => {
                    return Ok(Incoming::Bad(431));
                }
                Ok(httparse::Status::Partial) => {}
                Err(httparse::Error::TooManyHeaders) => return Ok(Incoming::Bad(431)),
                Err(_) => return Ok(Incoming::Bad(400)),
            }
            let mut block = [0; 4096];
            match stream.read(&mut block)? {
                0 => return Ok(Incoming::Closed),
                len => rest.extend_from_slice(&block[..len]),
            }
        }
    }

    fn checked(parsed: &httparse::Request<'_, '_>) -> Option<Self> {
        let target = parsed.path?;
        // A proxy's form of a target names the host as well.
        let target = match target.split_once("://") {
            Some((_, rest)) => &rest[rest.find('/')?..],
            None => target,
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = parsed.headers.iter().map(|header| {
            let value = String::from_utf8_lossy(header.value).trim().to_owned();
            (header.name.to_ascii_lowercase(), value)
        });
        let mut request = Self {
            method: parsed.method?.to_owned(),
            path: decode(path),
            query: query.to_owned(),
            headers: headers.collect(),
            body: Vec::new(),
            is_http_1_1: parsed.version? == 1,
            keeps_alive: false,
        };
        let connection = request.header("connection").unwrap_or_default().to_ascii_lowercase();
        request.keeps_alive = request.is_http_1_1 && !connection.contains("close");
        (request.path.starts_with(b"/") && !request.path.contains(&0)).then_some(request)
    }

    /// Reads the body.
    fn with_body(mut self, stream: &mut impl Read, rest: &mut Vec<u8>) -> io::Result<Incoming> {
        if self.header("transfer-encoding").is_some() {
            // Not worth a second parser: the answer is the last one of its connection.
            self.keeps_alive = false;
            return Ok(Incoming::Request(self));
        }
        let len = match self.header("content-length").map(str::parse::<u64>) {
            None => 0,
            Some(Ok(len)) if len <= BODY_LEN_MAX => len,
            Some(Ok(_)) => return Ok(Incoming::Bad(413)),
            Some(Err(_)) => return Ok(Incoming::Bad(400)),
        };
        let here = (rest.len() as u64).min(len);
        self.body = rest.drain(..here as usize).collect();
        let missing = len - here;
        match stream.take(missing).read_to_end(&mut self.body)? as u64 {
            read if read < missing => Ok(Incoming::Closed),
            _ => Ok(Incoming::Request(self)),
        }
    }

    /// The value of a header, whose name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a parameter of the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs =
            self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        Some(String::from_utf8_lossy(&decode(value)).into_owned())
    }
}

/// The part of a file that a header `range` asks for. `None` means all of it: without a range, with
/// several, or with one that is not understood.
///
/// # Errors
/// The range is beyond the end.
pub(crate) fn range(header: Option<&str>, len: u64) -> Result<Option<Range<u64>>, ()> {
    let parse = || -> Option<(Option<u64>, Option<u64>)> {
        let (start, end) = header?.trim().strip_prefix("bytes=")?.split_once('-')?;
        let number = |text: &str| match text.trim() {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        };
        Some((number(start)?, number(end)?))
    };
    match parse() {
        Some((Some(start), _)) if start >= len => Err(()),
        Some((Some(start), Some(last))) if last >= start => {
            Ok(Some(start..last.saturating_add(1).min(len)))
        }
        Some((Some(start), None)) => Ok(Some(start..len)),
        Some((None, Some(0))) => Err(()),
        Some((None, Some(count))) if len > 0 => Ok(Some(len.saturating_sub(count)..len)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Request, u16> {
        match Request::read(&mut &bytes[..], &mut Vec::new()).unwrap() {
            Incoming::Request(request) => Ok(request),
            Incoming::Bad(status) => Err(status),
            Incoming::Closed => Err(0),
        }
    }

    #[test]
    fn ranges_are_those_of_the_specification() {
        let of = |header| range(Some(header), 100);
        assert_eq!(of("bytes=0-9"), Ok(Some(0..10)));
        assert_eq!(of("bytes=90-"), Ok(Some(90..100)));
        assert_eq!(of("bytes=-7"), Ok(Some(93..100)));
        assert_eq!(of("bytes=50-500"), Ok(Some(50..100)));
        assert_eq!(of("bytes=100-"), Err(()));
        for whole in ["bytes=0-1,5-6", "lines=1-2", "bytes=9-3", "bytes=x-"] {
            assert_eq!(of(whole), Ok(None), "{whole}");
        }
        assert_eq!(range(None, 5), Ok(None));
    }

    #[test]
    fn requests_are_read_and_nonsense_is_refused() {
        let request = read(b"GET /a%20b/?tar&x=%41 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!((request.path.as_slice(), request.keeps_alive), (&b"/a b/"[..], true));
        assert_eq!(request.parameter("x").as_deref(), Some("A"));
        assert!(request.parameter("tar").is_some());
        assert_eq!(read(b"GET a HTTP/1.1\r\n\r\n").unwrap_err(), 400);
        assert_eq!(read(b"GET /%00 HTTP/1.1\r\n\r\n").unwrap_err(), 400);
        assert_eq!(read(b"\x16\x03\x01").unwrap_err(), 400);
        assert_eq!(read(&[b"GET /", &[b'a'; 20_000][..]].concat()).unwrap_err(), 431);
        assert_eq!(read(b"PUT / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n").unwrap_err(), 413);
        assert_eq!(read(b"").unwrap_err(), 0);
        let request = read(b"PROPFIND / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc").unwrap();
        assert_eq!(request.body, b"abc");
        assert_eq!(read(b"PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab").unwrap_err(), 0);
    }
}
