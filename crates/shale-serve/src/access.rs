//! Decides who may ask: whoever has the token, and whoever means this server.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::request::Request;

/// Some clients leave the padding out.
const STANDARD_ANY: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a client has to show.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    token: Option<String>,
    /// Only names of this machine are accepted as host: a page of another site must not read what
    /// is served here through a name that it lets point to this machine.
    is_local: bool,
}

/// The decision on a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Granted,
    /// The token came in the URL: the browser keeps it as a cookie from now on.
    GrantedByUrl,
    TokenNeeded,
    WrongHost,
}

impl Access {
    pub(crate) fn new(token: Option<String>, is_local: bool) -> Self {
        Self { token, is_local }
    }

    pub(crate) fn decide(&self, request: &Request) -> Decision {
        let Some(token) = &self.token else {
            let host = request.header("host").unwrap_or_default();
            let name = match host.strip_prefix('[') {
                Some(v6) => v6.split(']').next().unwrap_or_default(),
                None => host.split(':').next().unwrap_or_default(),
            };
            let is_own = name.is_empty()
                || name.eq_ignore_ascii_case("localhost")
                || name == "::1"
                || name.starts_with("127.");
            return if is_own || !self.is_local { Decision::Granted } else { Decision::WrongHost };
        };
        let is_right = |given: &str| is_equal(given.as_bytes(), token.as_bytes());
        let authorization = request.header("authorization").unwrap_or_default();
        let (scheme, given) = authorization.split_once(' ').unwrap_or_default();
        let by_header = match scheme.to_ascii_lowercase().as_str() {
            "bearer" => is_right(given.trim()),
            // Any user; the token is the password.
            "basic" => STANDARD_ANY
                .decode(given.trim())
                .ok()
                .and_then(|pair| String::from_utf8(pair).ok())
                .and_then(|pair| pair.split_once(':').map(|(_, password)| is_right(password)))
                .unwrap_or(false),
            _ => false,
        };
        let cookies = request.header("cookie").unwrap_or_default();
        let by_cookie = cookies
            .split(';')
            .filter_map(|cookie| cookie.trim().strip_prefix("shale_token="))
            .any(is_right);
        if by_header || by_cookie {
            Decision::Granted
        } else if request.parameter("token").is_some_and(|given| is_right(&given)) {
            Decision::GrantedByUrl
        } else {
            Decision::TokenNeeded
        }
    }

    /// The cookie for a browser that had the token in its URL.
    pub(crate) fn cookie(&self) -> String {
        let token = self.token.as_deref().unwrap_or_default();
        format!("shale_token={token}; Path=/; HttpOnly; SameSite=Strict")
    }
}

/// Compares without telling by the time where the difference is.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Incoming;

    fn decide(access: &Access, head: &str) -> Decision {
        let bytes = format!("GET {head}\r\n\r\n").into_bytes();
        match Request::read(&mut &bytes[..], &mut Vec::new()).unwrap() {
            Incoming::Request(request) => access.decide(&request),
            _ => panic!("{head}"),
        }
    }

    #[test]
    fn a_token_is_accepted_in_each_of_its_places() {
        let access = Access::new(Some("open sesame".into()), false);
        // user:open sesame
        let basic = "/ HTTP/1.1\r\nAuthorization: Basic dXNlcjpvcGVuIHNlc2FtZQ==";
        assert_eq!(decide(&access, basic), Decision::Granted);
        let bearer = "/ HTTP/1.1\r\nAuthorization: Bearer open sesame";
        assert_eq!(decide(&access, bearer), Decision::Granted);
        let cookie = "/ HTTP/1.1\r\nCookie: a=b; shale_token=open sesame";
        assert_eq!(decide(&access, cookie), Decision::Granted);
        let url = "/?token=open%20sesame HTTP/1.1";
        assert_eq!(decide(&access, url), Decision::GrantedByUrl);
        for wrong in ["/ HTTP/1.1", "/?token=open HTTP/1.1", "/ HTTP/1.1\r\nCookie: shale_token="] {
            assert_eq!(decide(&access, wrong), Decision::TokenNeeded, "{wrong}");
        }
    }

    #[test]
    fn without_a_token_only_this_machine_is_served() {
        let access = Access::new(None, true);
        for host in ["localhost:8000", "127.0.0.1", "[::1]:8000"] {
            assert_eq!(decide(&access, &format!("/ HTTP/1.1\r\nHost: {host}")), Decision::Granted);
        }
        let other = "/ HTTP/1.1\r\nHost: evil.example";
        assert_eq!(decide(&access, other), Decision::WrongHost);
    }
}
