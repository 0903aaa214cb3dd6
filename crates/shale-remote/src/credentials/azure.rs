//! Keys, shared access signatures and tokens for Azure Blob Storage.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ring::hmac::{HMAC_SHA256, Key, sign as hmac};

use super::environment::{read_file, variable};
use super::google::{refusal_in, token_in};
use super::keep::Keep;
use crate::error::Reason;
use crate::http::{Client, Request};
use crate::options::Options;
use crate::text;

const VERSION: &str = "2023-11-03";
const RESOURCE: &str = "https://storage.azure.com/";
const FORM: &str = "application/x-www-form-urlencoded";
const NONE_FOUND: &str = "Azure; set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or \
     AZURE_STORAGE_CONNECTION_STRING";

/// Signs requests to Azure Blob Storage.
#[derive(Debug)]
pub(crate) struct Azure {
    endpoint: String,
    account: String,
    timeout: Duration,
    how: How,
    token: Keep<String>,
}

enum How {
    Nobody,
    /// The key of the account.
    Key(Vec<u8>),
    /// A shared access signature: a query.
    Signature(String),
    /// A token of a service principal, a workload or the machine.
    Token,
}

impl std::fmt::Debug for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            How::Nobody => "Nobody",
            How::Key(_) => "Key",
            How::Signature(_) => "Signature",
            How::Token => "Token",
        })
    }
}

impl Azure {
    pub(super) fn new(options: &Options) -> Result<Self, Reason> {
        let connection = variable("AZURE_STORAGE_CONNECTION_STRING").unwrap_or_default();
        let setting = |name: &str| {
            let mut pairs = connection.split(';').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        let account = variable("AZURE_STORAGE_ACCOUNT")
            .or_else(|| variable("AZURE_STORAGE_ACCOUNT_NAME"))
            .or_else(|| setting("AccountName"));
        let Some(account) = account else {
            let what = "the storage account is not known; set AZURE_STORAGE_ACCOUNT";
            return Err(Reason::Credentials(what.into()));
        };
        let endpoint = options
            .endpoint
            .clone()
            .or_else(|| variable("AZURE_STORAGE_SERVICE_ENDPOINT"))
            .or_else(|| setting("BlobEndpoint"))
            .unwrap_or_else(|| {
                let suffix = setting("EndpointSuffix").unwrap_or_else(|| "core.windows.net".into());
                format!("https://{account}.blob.{suffix}")
            });
        let key = variable("AZURE_STORAGE_KEY")
            .or_else(|| variable("AZURE_STORAGE_ACCOUNT_KEY"))
            .or_else(|| setting("AccountKey"));
        let signature =
            variable("AZURE_STORAGE_SAS_TOKEN").or_else(|| setting("SharedAccessSignature"));
        let how = match (key, signature) {
            _ if options.is_anonymous => How::Nobody,
            (Some(key), _) => How::Key(text::from_base64(&key).ok_or_else(|| {
                Reason::Credentials("the key of the Azure account is not valid base64".into())
            })?),
            (None, Some(signature)) => How::Signature(signature.trim_start_matches('?').to_owned()),
            (None, None) => How::Token,
        };
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Ok(Self { endpoint, account, timeout: options.timeout, how, token: Keep::default() })
    }

    pub(super) fn address(&self, container: &str, key: &str) -> String {
        let container = text::encode(container.as_bytes(), false);
        format!("{}/{container}/{}", self.endpoint, text::encode(key.as_bytes(), true))
    }

    pub(super) fn refused(&self) -> bool {
        self.token.forget()
    }

    pub(super) fn sign(&self, request: &mut Request) -> Result<(), Reason> {
        request.headers.push(("x-ms-version", VERSION.into()));
        match &self.how {
            How::Nobody => {}
            How::Signature(query) => {
                let join = if request.url.contains('?') { '&' } else { '?' };
                request.url = format!("{}{join}{query}", request.url);
            }
            How::Key(key) => {
                let now = Timestamp::now().to_zoned(TimeZone::UTC);
                let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
                request.headers.push(("x-ms-date", date));
                let to_sign = string_to_sign(request, &self.account);
                let signature = hmac(&Key::new(HMAC_SHA256, key), to_sign.as_bytes());
                let signature = text::base64(signature.as_ref());
                let value = format!("SharedKey {}:{signature}", self.account);
                request.headers.push(("authorization", value));
            }
            How::Token => {
                let token = self.token.get(|| self.find())?;
                request.headers.push(("authorization", format!("Bearer {token}")));
            }
        }
        Ok(())
    }

    fn find(&self) -> Result<(String, Option<Duration>), Reason> {
        let client = variable("AZURE_CLIENT_ID");
        let Some((client, tenant)) = client.clone().zip(variable("AZURE_TENANT_ID")) else {
            return from_machine(client).ok_or(Reason::NoCredentials(NONE_FOUND));
        };
        let encode = |text: &str| text::encode(text.trim().as_bytes(), false);
        let proof = match (variable("AZURE_CLIENT_SECRET"), variable("AZURE_FEDERATED_TOKEN_FILE"))
        {
            (Some(secret), _) => format!("client_secret={}", encode(&secret)),
            (None, Some(file)) => format!(
                "client_assertion_type={}&client_assertion={}",
                encode("urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
                encode(&read_file(file.as_ref())?)
            ),
            (None, None) => return Err(Reason::NoCredentials(NONE_FOUND)),
        };
        let host = variable("AZURE_AUTHORITY_HOST")
            .unwrap_or_else(|| "https://login.microsoftonline.com".into());
        let url = format!("{}/{tenant}/oauth2/v2.0/token", host.trim_end_matches('/'));
        let scope = encode(&format!("{RESOURCE}.default"));
        let body = format!(
            "grant_type=client_credentials&client_id={}&scope={scope}&{proof}",
            encode(&client)
        );
        let http = Client::new(&url, self.timeout, 1)?;
        let answer = http.send(&Request::post(url, FORM, body.into()), 0)?;
        let status = answer.status();
        let answer = answer.text();
        token_in(&answer).ok_or_else(|| {
            let why = refusal_in(&answer);
            Reason::Credentials(format!("no token for Azure (status {status}): {why}"))
        })
    }
}

/// What the key of an account signs ("Authorize with Shared Key", version 2015-02-21 and later).
fn string_to_sign(request: &Request, account: &str) -> String {
    let header = |name: &str| {
        let found = request.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    let mut own: Vec<_> =
        request.headers.iter().filter(|(name, _)| name.starts_with("x-ms-")).collect();
    own.sort();
    let own: String = own.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let path = request.url.split_once("://").map_or("", |(_, rest)| rest);
    let path = &path[path.find('/').unwrap_or(path.len())..];
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(&text::decode(value)).into_owned();
            (name.to_ascii_lowercase(), value)
        })
        .collect();
    pairs.sort();
    let query: String = pairs.iter().map(|(name, value)| format!("\n{name}:{value}")).collect();
    let len = match request.body.len() {
        0 => String::new(),
        len => len.to_string(),
    };
    let fields = [
        request.method,
        "", // encoding
        "", // language
        &len,
        header("content-md5"),
        header("content-type"),
        "", // date
        "", // if-modified-since
        header("if-match"),
        header("if-none-match"),
        "", // if-unmodified-since
        header("range"),
    ];
    format!("{}\n{own}/{account}{path}{query}", fields.join("\n"))
}

/// The token of the machine's identity.
fn from_machine(client: Option<String>) -> Option<(String, Option<Duration>)> {
    let resource = text::encode(RESOURCE.as_bytes(), false);
    let client = client.map_or(String::new(), |client| format!("&client_id={client}"));
    let (endpoint, name, value) = match (variable("IDENTITY_ENDPOINT"), variable("IDENTITY_HEADER"))
    {
        (Some(endpoint), Some(secret)) => {
            (format!("{endpoint}?api-version=2019-08-01"), "x-identity-header", secret)
        }
        _ => {
            let url =
                "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01";
            (url.to_owned(), "metadata", "true".to_owned())
        }
    };
    let request = Request::get(format!("{endpoint}&resource={resource}{client}"));
    token_in(&Client::near().send(&request.header(name, value), 0).ok()?.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_string_to_sign_has_every_field_in_its_place() {
        let request = Request::get("http://127.0.0.1:10000/acc/box/a%20b".into())
            .header("range", "bytes=0-9")
            .header("x-ms-version", VERSION)
            .header("x-ms-date", "now");
        let expected = "GET\n\n\n\n\n\n\n\n\n\n\nbytes=0-9\nx-ms-date:now\nx-ms-version:2023-11-03\n\
                        /acc/acc/box/a%20b";
        assert_eq!(string_to_sign(&request, "acc"), expected);
        let url = "http://127.0.0.1:10000/acc/box/a?comp=block&blockid=QUI%3D".into();
        let request = Request::new("PUT", url, b"12345".to_vec())
            .header("content-md5", "sum")
            .header("content-type", "kind")
            .header("if-none-match", "*")
            .header("x-ms-date", "now");
        let expected = "PUT\n\n\n5\nsum\nkind\n\n\n\n*\n\n\nx-ms-date:now\n/acc/acc/box/a\n\
                        blockid:QUI=\ncomp:block";
        assert_eq!(string_to_sign(&request, "acc"), expected);
    }
}
