//! URLs: which object is meant, and where.

use std::fmt;
use std::path::PathBuf;

use crate::error::{Error, Reason};
use crate::text;

/// How an object is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http://`: a web server.
    Http,
    /// `https://`: a web server over TLS.
    Https,
    /// `s3://BUCKET/KEY`: Amazon S3, and stores that speak its protocol.
    S3,
    /// `gs://BUCKET/KEY`: Google Cloud Storage.
    Gs,
    /// `az://CONTAINER/KEY`: Azure Blob Storage, in the account of `AZURE_STORAGE_ACCOUNT`.
    Az,
}

impl Scheme {
    const ALL: [(&'static str, Scheme); 9] = [
        ("http", Scheme::Http),
        ("https", Scheme::Https),
        ("s3", Scheme::S3),
        ("s3a", Scheme::S3),
        ("gs", Scheme::Gs),
        ("gcs", Scheme::Gs),
        ("az", Scheme::Az),
        ("azure", Scheme::Az),
        ("abfs", Scheme::Az),
    ];
}

/// An object elsewhere, or a file named by a URL.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// `file:///PATH`: a file of this machine.
    File(PathBuf),
    /// An object of a server.
    Object(ObjectUrl),
}

/// A URL of an object.
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectUrl {
    /// How it is reached.
    pub scheme: Scheme,
    /// Host and port of a web server; bucket or container of a store.
    pub(crate) place: String,
    /// For web servers the path as it is sent, with its query. For stores the key, not encoded.
    pub(crate) key: String,
    /// User and password for a web server.
    pub(crate) user: Option<String>,
}

impl Location {
    /// Reads `text` as a URL. `None` if it is a path: without `SCHEME://` at its start.
    ///
    /// # Errors
    /// The scheme is not supported, or the URL names no object.
    pub fn parse(text: &str) -> Option<Result<Self, Error>> {
        let (scheme, rest) = text.split_once("://")?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        if !is_scheme {
            return None;
        }
        let fail = |what: &str| {
            let url = redacted(text);
            Some(Err(Error { url, reason: Reason::Url(what.to_owned()) }))
        };
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "file" {
            let path = rest.strip_prefix("localhost").unwrap_or(rest);
            if !path.starts_with('/') {
                return fail("file:// must be followed by an absolute path");
            }
            let path = text::decode(path);
            use std::os::unix::ffi::OsStringExt;
            return Some(Ok(Self::File(std::ffi::OsString::from_vec(path).into())));
        }
        let Some((_, scheme)) = Scheme::ALL.iter().find(|(name, _)| *name == scheme) else {
            return fail("this scheme is not supported; use http, https, s3, gs, az or file");
        };
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return fail("it has control characters");
        }
        let is_web = matches!(scheme, Scheme::Http | Scheme::Https);
        let rest = if is_web { rest.split('#').next().unwrap_or_default() } else { rest };
        let end = rest.find(['/', '?']).filter(|_| is_web).or_else(|| rest.find('/'));
        let (place, key) = rest.split_at(end.unwrap_or(rest.len()));
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) if is_web => (Some(user.to_owned()), place),
            _ => (None, place),
        };
        if place.is_empty() {
            return fail(if is_web { "it names no host" } else { "it names no bucket" });
        }
        let key = match is_web {
            true if key.starts_with('/') => encode_path(key),
            true => encode_path(&format!("/{key}")),
            false => key.trim_start_matches('/').to_owned(),
        };
        if key.is_empty() {
            return fail("it names a bucket, and no object in it");
        }
        Some(Ok(Self::Object(ObjectUrl { scheme: *scheme, place: place.to_owned(), key, user })))
    }
}

/// Encodes what must not be in the path of a URL, and leaves what is encoded.
fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if c.is_ascii_graphic() && !"\"<>\\^`{|}".contains(c) {
            out.push(c);
        } else {
            out += &text::encode(c.to_string().as_bytes(), false);
        }
    }
    out
}

/// A URL without its password and without the query, which may hold a signature.
fn redacted(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let place = place.rsplit_once('@').map_or(place, |(_, host)| host);
    format!("{scheme}://{place}{path}")
}

impl fmt::Display for ObjectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, key) = (&self.place, &self.key);
        match self.scheme {
            Scheme::Http => f.write_str(&redacted(&format!("http://{place}{key}"))),
            Scheme::Https => f.write_str(&redacted(&format!("https://{place}{key}"))),
            Scheme::S3 => write!(f, "s3://{place}/{key}"),
            Scheme::Gs => write!(f, "gs://{place}/{key}"),
            Scheme::Az => write!(f, "az://{place}/{key}"),
        }
    }
}

impl fmt::Debug for ObjectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            Self::Object(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> ObjectUrl {
        match Location::parse(text) {
            Some(Ok(Location::Object(url))) => url,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn paths_are_not_urls() {
        for path in ["a.shale", "/a/b", "./s3://a/b", "C:\\x", "a:b", "://x", "1a://b", "a b://c"] {
            assert!(Location::parse(path).is_none(), "{path}");
        }
    }

    #[test]
    fn urls_name_a_place_and_a_key() {
        let url = object("HTTPS://u:p@host:8080/a b/ä.shale?X-Amz-Signature=secret#x");
        assert_eq!((url.place.as_str(), url.user.as_deref()), ("host:8080", Some("u:p")));
        assert_eq!(url.key, "/a%20b/%C3%A4.shale?X-Amz-Signature=secret");
        assert_eq!(object("https://host/a%20b").key, "/a%20b");
        let url = object("s3://bucket/a b?c#d%20");
        assert_eq!((url.place.as_str(), url.key.as_str()), ("bucket", "a b?c#d%20"));
        let file = Location::parse("file:///a%20b").unwrap().unwrap();
        assert_eq!(file, Location::File("/a b".into()));
    }

    #[test]
    fn bad_urls_are_refused_with_the_reason() {
        let cases = [
            ("ftp://h/x", "scheme"),
            ("s3://bucket", "no object"),
            ("s3:///x", "no bucket"),
            ("http:///x", "no host"),
            ("http://h/\n", "control"),
            ("file://relative", "absolute"),
        ];
        for (url, why) in cases {
            let error = Location::parse(url).unwrap().unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
    }

    #[test]
    fn messages_show_neither_passwords_nor_signatures() {
        let shown = object("https://me:geheim@host/a?X-Amz-Signature=geheim").to_string();
        assert_eq!(shown, "https://host/a");
        let error = Location::parse("ftp://me:geheim@host/a?s=geheim").unwrap().unwrap_err();
        assert!(!error.to_string().contains("geheim"), "{error}");
    }
}
