//! AWS Signature Version 4, as "Authenticating Requests" of the S3
//! reference specifies it.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ring::digest::{SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, sign as hmac};

use crate::http::{Request, host_header};
use crate::text;

/// The key pair of a signature.
#[derive(Clone)]
pub(super) struct KeyPair {
    pub(super) id: String,
    pub(super) secret: String,
    /// Token of credentials that expire.
    pub(super) session: Option<String>,
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Signs a request to `service` in `region` at `now`.
pub(super) fn sign(
    request: &mut Request,
    keys: &KeyPair,
    region: &str,
    service: &str,
    now: Timestamp,
) {
    let time = now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = &time[..8];
    let body_hash = text::hex(digest(&SHA256, &request.body).as_ref());
    let added = [("x-amz-content-sha256", body_hash.clone()), ("x-amz-date", time.clone())];
    request.headers.extend(added);
    if let Some(session) = &keys.session {
        request.headers.push(("x-amz-security-token", session.clone()));
    }
    // All headers of this name have to be signed.
    let own = request.headers.iter().filter(|(name, _)| name.starts_with("x-amz-"));
    let mut signed: Vec<(&str, String)> = own.cloned().collect();
    signed.push(("host", host_header(&request.url).to_owned()));
    signed.sort();
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let headers: String =
        signed.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let path = request.url.split_once("://").map_or("", |(_, rest)| rest);
    let path = &path[path.find('/').unwrap_or(path.len())..];
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = if path.is_empty() { "/" } else { path };
    let mut query: Vec<String> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| if pair.contains('=') { pair.to_owned() } else { format!("{pair}=") })
        .collect();
    query.sort();
    let canonical =
        format!("{}\n{path}\n{}\n{headers}\n{names}\n{body_hash}", request.method, query.join("&"));
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let hash = text::hex(digest(&SHA256, canonical.as_bytes()).as_ref());
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
    let mut key = format!("AWS4{}", keys.secret).into_bytes();
    for part in [date, region, service, "aws4_request"] {
        key = hmac(&Key::new(HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec();
    }
    let signature = hmac(&Key::new(HMAC_SHA256, &key), to_sign.as_bytes());
    let signature = text::hex(signature.as_ref());
    let credential = format!("{}/{scope}", keys.id);
    request.headers.push((
        "authorization",
        format!(
            "AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={names},Signature={signature}"
        ),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the S3 reference, "GET bucket lifecycle", whose request signs no further
    /// header.
    #[test]
    fn the_signature_is_that_of_the_reference() {
        let keys = KeyPair {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session: None,
        };
        let mut request = Request::get("https://examplebucket.s3.amazonaws.com/?lifecycle".into());
        let now = "2013-05-24T00:00:00Z".parse().unwrap();
        sign(&mut request, &keys, "us-east-1", "s3", now);
        let (_, found) = request.headers.last().unwrap();
        assert!(
            found.ends_with("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            "{found}"
        );
    }
}
