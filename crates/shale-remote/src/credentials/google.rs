//! Tokens for Google Cloud Storage: of a service account, of a user who logged in with gcloud, or
//! of the machine.

use std::path::PathBuf;
use std::time::Duration;

use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::Value;

use super::access::Access;
use super::environment::{home, read_file, variable};
use super::keep::Keep;
use crate::error::Reason;
use crate::http::{Client, Request};
use crate::options::Options;
use crate::text;

const SCOPE_READ: &str = "https://www.googleapis.com/auth/devstorage.read_only";
const SCOPE_WRITE: &str = "https://www.googleapis.com/auth/devstorage.read_write";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const FORM: &str = "application/x-www-form-urlencoded";
const NONE_FOUND: &str = "Google Cloud Storage; set GOOGLE_APPLICATION_CREDENTIALS, or \
     run `gcloud auth application-default login`";

/// Signs requests to Google Cloud Storage.
#[derive(Debug)]
pub(crate) struct Google {
    endpoint: String,
    is_anonymous: bool,
    scope: &'static str,
    timeout: Duration,
    token: Keep<String>,
}

impl Google {
    pub(super) fn new(options: &Options, access: Access) -> Self {
        let emulator = variable("STORAGE_EMULATOR_HOST");
        // An emulator knows no credentials.
        let is_anonymous =
            options.is_anonymous || (options.endpoint.is_none() && emulator.is_some());
        let endpoint = options.endpoint.clone().or(emulator);
        let mut endpoint = endpoint.unwrap_or_else(|| "https://storage.googleapis.com".into());
        if !endpoint.contains("://") {
            endpoint = format!("http://{endpoint}");
        }
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let scope = match access {
            Access::Read => SCOPE_READ,
            Access::Write => SCOPE_WRITE,
        };
        Self { endpoint, is_anonymous, scope, timeout: options.timeout, token: Keep::default() }
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn address(&self, bucket: &str, key: &str) -> String {
        let bucket = text::encode(bucket.as_bytes(), false);
        format!("{}/{bucket}/{}", self.endpoint, text::encode(key.as_bytes(), true))
    }

    pub(super) fn refused(&self) -> bool {
        self.token.forget()
    }

    pub(super) fn sign(&self, request: &mut Request) -> Result<(), Reason> {
        if !self.is_anonymous {
            let token = self.token.get(|| self.find())?;
            request.headers.push(("authorization", format!("Bearer {token}")));
        }
        Ok(())
    }

    fn find(&self) -> Result<(String, Option<Duration>), Reason> {
        let named = variable("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
        let config = variable("CLOUDSDK_CONFIG")
            .map(PathBuf::from)
            .or_else(|| Some(home()?.join(".config/gcloud")));
        let default = config.map(|dir| dir.join("application_default_credentials.json"));
        let Some(path) = named.or(default.filter(|path| path.exists())) else {
            return from_machine().ok_or(Reason::NoCredentials(NONE_FOUND));
        };
        let bad = |what: &str| Reason::Credentials(format!("{}: {what}", path.display()));
        let json: Value =
            serde_json::from_str(&read_file(&path)?).map_err(|_| bad("it is not JSON"))?;
        let field = |name: &str| {
            let value = json.get(name).and_then(Value::as_str);
            value.ok_or_else(|| bad(&format!("{name} is missing")))
        };
        let encode = |text: &str| text::encode(text.as_bytes(), false);
        let url = json.get("token_uri").and_then(Value::as_str).unwrap_or(TOKEN_URL).to_owned();
        let body = match field("type")? {
            "service_account" => {
                let claim =
                    assertion(field("client_email")?, field("private_key")?, &url, self.scope)
                        .ok_or_else(|| bad("its private key is not valid"))?;
                let kind = encode("urn:ietf:params:oauth:grant-type:jwt-bearer");
                format!("grant_type={kind}&assertion={claim}")
            }
            "authorized_user" => format!(
                "grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
                encode(field("client_id")?),
                encode(field("client_secret")?),
                encode(field("refresh_token")?)
            ),
            other => {
                return Err(bad(&format!(
                    "credentials of the type {other} are not supported; use a service account, \
                     or `gcloud auth application-default login`"
                )));
            }
        };
        let client = Client::new(&url, self.timeout, 1)?;
        let answer = client.send(&Request::post(url, FORM, body.into()), 0)?;
        let status = answer.status();
        let answer = answer.text();
        token_in(&answer)
            .ok_or_else(|| bad(&format!("no token (status {status}): {}", refusal_in(&answer))))
    }
}

/// The token in an answer, and for how long it is valid.
pub(super) fn token_in(json: &str) -> Option<(String, Option<Duration>)> {
    let json: Value = serde_json::from_str(json).ok()?;
    let token = json.get("access_token")?.as_str()?.to_owned();
    // Azure's metadata service writes numbers as strings.
    let seconds = json.get("expires_in").and_then(|value| match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    });
    Some((token, Some(Duration::from_secs(seconds.unwrap_or(600)))))
}

/// Says why an answer has no token. The rest of the answer is not shown, because it may contain a
/// part of a token.
pub(super) fn refusal_in(json: &str) -> String {
    let json: Value = serde_json::from_str(json).unwrap_or_default();
    let field = |name: &str| json.get(name).and_then(Value::as_str);
    let why = field("error_description").or_else(|| field("error"));
    text::one_line(why.unwrap_or("no reason given"))
}

/// The statement of a service account that it is itself, signed (RFC 7523).
fn assertion(email: &str, key: &str, audience: &str, scope: &str) -> Option<String> {
    let pem: String = key.lines().filter(|line| !line.starts_with("-----")).collect();
    let pair = RsaKeyPair::from_pkcs8(&text::from_base64(&pem)?).ok()?;
    let now = jiff::Timestamp::now().as_second();
    let head = text::base64_url(br#"{"alg":"RS256","typ":"JWT"}"#);
    let claims = serde_json::json!({
        "iss": email, "scope": scope, "aud": audience, "iat": now, "exp": now + 3600,
    });
    let message = format!("{head}.{}", text::base64_url(claims.to_string().as_bytes()));
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature).ok()?;
    Some(format!("{message}.{}", text::base64_url(&signature)))
}

/// The token of the machine's service account.
fn from_machine() -> Option<(String, Option<Duration>)> {
    let host = variable("GCE_METADATA_HOST").unwrap_or_else(|| "metadata.google.internal".into());
    let url = format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token");
    let answer = Client::near().send(&Request::get(url).header("metadata-flavor", "Google"), 0);
    token_in(&answer.ok()?.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_shows_its_reason_and_no_token() {
        let refused = r#"{"error": "invalid_grant", "error_description": "Account\nnot found"}"#;
        assert_eq!(refusal_in(refused), "Account not found");
        assert_eq!(refusal_in(r#"{"error": "invalid_grant"}"#), "invalid_grant");
        for cut in [r#"{"access_token": "secret"#, r#"{"access_token": ["secret"]}"#] {
            assert!(token_in(cut).is_none() && !refusal_in(cut).contains("secret"));
        }
    }
}
