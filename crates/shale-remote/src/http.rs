//! One request and its answer, over HTTP/1.1 with or without TLS.
//!
//! Certificates are checked against those that the system trusts, and against Mozilla's list where
//! the system has none. Proxies are those of the environment. Nothing is tried again here.

use std::io::{self, Read};
use std::time::Duration;

use ureq::http;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Proxy, Timeout};

use crate::error::Reason;

/// Bytes of an answer that is no object: an error message, a token.
const SMALL_ANSWER_LEN_MAX: u64 = 256 << 10;
/// The least rate at which bytes have to arrive, in bytes a second.
const RATE_MIN: u64 = 16 << 10;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) url: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// It goes to an address that is secret and proof enough: it is not signed, and a status that
    /// elsewhere is a redirection is an answer.
    pub(crate) is_to_session: bool,
}

impl Request {
    pub(crate) fn new(method: &'static str, url: String, body: Vec<u8>) -> Self {
        Self { method, url, headers: Vec::new(), body, is_to_session: false }
    }

    pub(crate) fn get(url: String) -> Self {
        Self::new("GET", url, Vec::new())
    }

    pub(crate) fn post(url: String, content_type: &'static str, body: Vec<u8>) -> Self {
        Self::new("POST", url, body).header("content-type", content_type)
    }

    /// A request to the address of an upload session.
    pub(crate) fn to_session(method: &'static str, url: String, body: Vec<u8>) -> Self {
        Self { is_to_session: true, ..Self::new(method, url, body) }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// An answer, whose body is still to be read.
pub(crate) struct Answer {
    response: http::Response<ureq::Body>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The body, of at most `len_max` bytes.
    pub(crate) fn reader(self, len_max: u64) -> impl Read {
        self.response.into_body().into_with_config().limit(len_max).reader()
    }

    /// All headers.
    pub(crate) fn headers(&self) -> &http::HeaderMap {
        self.response.headers()
    }

    /// The body of an answer that is short. Bytes that are not UTF-8 are replaced.
    pub(crate) fn text(self) -> String {
        let mut bytes = Vec::new();
        // What arrived before an error is good enough for a message, and no JSON.
        let _ = self.reader(SMALL_ANSWER_LEN_MAX).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The whole body, of at most `len_max` bytes. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// The connection broke, or the body is longer.
    pub(crate) fn whole_text(self, len_max: u64) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.reader(len_max).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Sends requests.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    agent: Agent,
    timeout: Duration,
}

impl Client {
    /// A client for URLs that begin like `url`, by the proxy that the environment names for them.
    pub(crate) fn new(
        url: &str,
        timeout: Duration,
        connections_max: usize,
    ) -> Result<Self, Reason> {
        let proxy = proxy_for(url)?;
        Ok(Self::with_proxy(url, timeout, connections_max, proxy))
    }

    /// A client for the metadata service of the machine, which is near or absent.
    pub(crate) fn near() -> Self {
        Self::with_proxy("http://", Duration::from_secs(2), 1, None)
    }

    fn with_proxy(
        url: &str,
        timeout: Duration,
        connections_max: usize,
        proxy: Option<Proxy>,
    ) -> Self {
        let limit = Some(timeout);
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .user_agent(concat!("shale/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .proxy(proxy)
            .no_delay(true)
            .max_idle_connections(connections_max)
            .max_idle_connections_per_host(connections_max)
            .timeout_resolve(limit)
            .timeout_connect(limit)
            .timeout_send_request(limit)
            .timeout_recv_response(limit)
            .timeout_per_read(limit)
            .timeout_per_write(limit);
        if url.starts_with("https:") {
            config = config.tls_config(TlsConfig::builder().root_certs(roots()).build());
        }
        Self { agent: Agent::new_with_config(config.build()), timeout }
    }

    /// Sends a request and waits for the head of the answer. `len` is how long the answer may be.
    pub(crate) fn send(&self, request: &Request, len: u64) -> Result<Answer, Reason> {
        let mut builder = http::Request::builder().method(request.method).uri(&request.url);
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        let has_body =
            !(request.body.is_empty() && matches!(request.method, "GET" | "HEAD" | "DELETE"));
        let bad = |error: http::Error| Reason::Url(error.to_string());
        let response = match has_body {
            true => self.run(builder.body(request.body.as_slice()).map_err(bad)?, request, len),
            false => self.run(builder.body(()).map_err(bad)?, request, len),
        };
        response.map(|response| Answer { response }).map_err(|error| self.reason(error))
    }

    fn run(
        &self,
        built: http::Request<impl ureq::AsSendBody>,
        request: &Request,
        len: u64,
    ) -> Result<http::Response<ureq::Body>, ureq::Error> {
        let body_limit = self.timeout + Duration::from_secs(len / RATE_MIN);
        let mut built = self.agent.configure_request(built).timeout_recv_body(Some(body_limit));
        if request.is_to_session {
            built = built.max_redirects(0).max_redirects_will_error(false);
        }
        self.agent.run(built.build())
    }

    /// Why a request failed, in the words of this crate.
    pub(crate) fn reason(&self, error: ureq::Error) -> Reason {
        use ureq::Error as E;
        match error {
            E::Timeout(limit) => {
                let what = match limit {
                    Timeout::Resolve => "looking up the name of the server",
                    Timeout::Connect => "connecting",
                    Timeout::RecvBody | Timeout::PerRead => "receiving",
                    _ => "waiting for an answer",
                };
                Reason::Timeout { what, seconds: self.timeout.as_secs() }
            }
            E::HostNotFound => Reason::Unreachable("its name is not known".into()),
            E::ConnectionFailed => Reason::Unreachable("the connection failed".into()),
            E::BadUri(what) => Reason::Url(what),
            E::Http(error) => Reason::Url(error.to_string()),
            E::InvalidProxyUrl => Reason::Url("the proxy of the environment is not valid".into()),
            E::TooManyRedirects | E::RedirectFailed => {
                Reason::Answer("too many redirections".into())
            }
            E::Io(error) if is_tls(&error) => Reason::Tls(error.to_string()),
            E::Io(error) => Reason::Unreachable(error.to_string()),
            E::Rustls(error) => Reason::Tls(error.to_string()),
            E::Tls(what) => Reason::Tls(what.into()),
            error => Reason::Answer(error.to_string()),
        }
    }
}

fn is_tls(error: &std::io::Error) -> bool {
    let text = error.to_string();
    error.kind() == std::io::ErrorKind::InvalidData
        || text.contains("certificate")
        || text.contains("handshake")
}

/// The certificates that the system trusts; Mozilla's if it has none.
fn roots() -> RootCerts {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        return RootCerts::WebPki;
    }
    let certs: Vec<_> =
        found.iter().map(|cert| Certificate::from_der(cert.as_ref()).to_owned()).collect();
    RootCerts::new_with_certs(&certs)
}

/// The proxy that the environment names for a URL, as curl finds it.
fn proxy_for(url: &str) -> Result<Option<Proxy>, Reason> {
    let names: &[&str] = match url.starts_with("https:") {
        true => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        false => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let variable = |names: &[&str]| {
        names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    };
    let Some(proxy) = variable(names) else { return Ok(None) };
    let hosts = variable(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
    let host = host_of(url);
    let is_direct =
        hosts.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty()).any(|word| {
            let word = word.strip_prefix('*').unwrap_or(word);
            let name = word.strip_prefix('.').unwrap_or(word);
            name.is_empty() || host == name || host.ends_with(&format!(".{name}"))
        });
    if is_direct {
        return Ok(None);
    }
    let invalid =
        |_| Reason::Url(format!("the proxy of the environment ({}) is not valid", names[0]));
    Proxy::new(&proxy).map(Some).map_err(invalid)
}

/// The host of a URL, without its port.
pub(crate) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?']).next().unwrap_or_default();
    let place = place.rsplit_once('@').map_or(place, |(_, host)| host);
    match place.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => place.rsplit_once(':').map_or(place, |(host, _)| host),
    }
}

/// Host and port of a URL as they are sent in the header `host`: without a default port.
pub(crate) fn host_header(url: &str) -> &str {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let place = rest.split(['/', '?']).next().unwrap_or_default();
    let default = if scheme == "https" { ":443" } else { ":80" };
    place.strip_suffix(default).unwrap_or(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_urls() {
        assert_eq!(host_of("http://u@h.example:80/x"), "h.example");
        assert_eq!(host_of("https://[::1]:9000/x"), "::1");
        assert_eq!(host_header("https://h:443/x"), "h");
        assert_eq!(host_header("http://h:9000/x"), "h:9000");
    }
}
