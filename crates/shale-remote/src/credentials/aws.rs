//! Where credentials for S3 come from, in the order of the AWS tools: environment, web identity,
//! profile files, container, the metadata service of the machine.

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::aws_profile::Profile;
use super::environment::{read_file, variable};
use super::keep::{Keep, until};
use super::sigv4::{self, KeyPair};
use crate::error::Reason;
use crate::http::{Client, Request};
use crate::options::Options;
use crate::text;

const NONE_FOUND: &str = "S3; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";

/// Signs requests to S3, and to stores that speak its protocol.
#[derive(Debug)]
pub(crate) struct Aws {
    endpoint: Option<String>,
    region: Mutex<String>,
    is_anonymous: bool,
    timeout: Duration,
    keys: Keep<KeyPair>,
}

type Lookup = Result<Option<(KeyPair, Option<Duration>)>, Reason>;

impl Aws {
    pub(super) fn new(options: &Options) -> Self {
        let profile = Profile::load().unwrap_or_default();
        let from_profile = |name: &str| profile.get(name).map(str::to_owned);
        let endpoint = options
            .endpoint
            .clone()
            .or_else(|| variable("AWS_ENDPOINT_URL_S3"))
            .or_else(|| variable("AWS_ENDPOINT_URL"))
            .or_else(|| from_profile("endpoint_url"));
        let region = options
            .region
            .clone()
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .or_else(|| from_profile("region"))
            .unwrap_or_else(|| "us-east-1".into());
        Self {
            endpoint: endpoint.map(|endpoint| endpoint.trim_end_matches('/').to_owned()),
            region: Mutex::new(region),
            is_anonymous: options.is_anonymous,
            timeout: options.timeout,
            keys: Keep::default(),
        }
    }

    fn region(&self) -> String {
        self.region.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn address(&self, bucket: &str, key: &str) -> String {
        let key = text::encode(key.as_bytes(), true);
        let place = text::encode(bucket.as_bytes(), false);
        match &self.endpoint {
            Some(endpoint) => format!("{endpoint}/{place}/{key}"),
            // A certificate for all buckets does not cover names with dots.
            None if bucket.contains('.') => {
                format!("https://s3.{}.amazonaws.com/{place}/{key}", self.region())
            }
            None => format!("https://{place}.s3.{}.amazonaws.com/{key}", self.region()),
        }
    }

    pub(super) fn moved_to(&self, region: &str) -> bool {
        let is_name = region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let mut known = self.region.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = is_name && !region.is_empty() && *known != region;
        if is_news {
            *known = region.to_owned();
        }
        is_news
    }

    pub(super) fn refused(&self) -> bool {
        self.keys.forget()
    }

    pub(super) fn sign(&self, request: &mut Request) -> Result<(), Reason> {
        if self.is_anonymous {
            return Ok(());
        }
        let keys = self.keys.get(|| self.find())?;
        sigv4::sign(request, &keys, &self.region(), "s3", jiff::Timestamp::now());
        Ok(())
    }

    fn find(&self) -> Result<(KeyPair, Option<Duration>), Reason> {
        let places: [&dyn Fn() -> Lookup; 5] = [
            &|| Ok(from_environment()),
            &|| self.of_web_identity(),
            &|| from_profile(),
            &|| from_container(),
            &|| Ok(from_machine()),
        ];
        for place in places {
            if let Some(found) = place()? {
                return Ok(found);
            }
        }
        Err(Reason::NoCredentials(NONE_FOUND))
    }

    /// A role taken on with a token that the cluster keeps in a file.
    fn of_web_identity(&self) -> Lookup {
        let (Some(file), Some(role)) =
            (variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN"))
        else {
            return Ok(None);
        };
        let token = read_file(file.as_ref())?;
        let name = variable("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "shale".into());
        let field = |text: &str| text::encode(text.trim().as_bytes(), false);
        let body = format!(
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName={}\
             &WebIdentityToken={}",
            field(&role),
            field(&name),
            field(&token)
        );
        let url = variable("AWS_ENDPOINT_URL_STS")
            .unwrap_or_else(|| format!("https://sts.{}.amazonaws.com/", self.region()));
        let client = Client::new(&url, self.timeout, 1)?;
        let request = Request::post(url, "application/x-www-form-urlencoded", body.into());
        let answer = client.send(&request, 0)?;
        let status = answer.status();
        let xml = answer.text();
        let field = |tag| text::xml_field(&xml, tag).map(str::to_owned);
        let keys = (field("AccessKeyId"), field("SecretAccessKey"), field("SessionToken"));
        let (Some(id), Some(secret), session) = keys else {
            let why = field("Message").unwrap_or_default();
            let what = format!("the role {role} was refused (status {status}) {why}");
            return Err(Reason::Credentials(text::one_line(&what)));
        };
        let valid = field("Expiration").and_then(|instant| until(&instant));
        Ok(Some((KeyPair { id, secret, session }, valid)))
    }
}

fn from_environment() -> Option<(KeyPair, Option<Duration>)> {
    let keys = KeyPair {
        id: variable("AWS_ACCESS_KEY_ID")?,
        secret: variable("AWS_SECRET_ACCESS_KEY")?,
        session: variable("AWS_SESSION_TOKEN"),
    };
    Some((keys, None))
}

fn from_profile() -> Lookup {
    let profile = Profile::load()?;
    if let (Some(id), Some(secret)) =
        (profile.get("aws_access_key_id"), profile.get("aws_secret_access_key"))
    {
        let session = profile.get("aws_session_token").map(str::to_owned);
        return Ok(Some((KeyPair { id: id.into(), secret: secret.into(), session }, None)));
    }
    if let Some(program) = profile.get("credential_process") {
        let out = Command::new("/bin/sh").args(["-c", program]).output();
        let fail = |why: String| Reason::Credentials(format!("credential_process: {why}"));
        let out = out.map_err(|error| fail(error.to_string()))?;
        if !out.status.success() {
            let why = text::one_line(&String::from_utf8_lossy(&out.stderr));
            return Err(fail(format!("{} {why}", out.status)));
        }
        let found = from_json(&String::from_utf8_lossy(&out.stdout));
        return found.map(Some).ok_or_else(|| fail("its output has no keys".into()));
    }
    if profile.get("sso_session").or(profile.get("sso_start_url")).is_some()
        || profile.get("role_arn").is_some()
    {
        return Err(Reason::Credentials(format!(
            "the profile {} needs a login or a role, which are not supported here; run `eval \
             \"$(aws configure export-credentials --profile {0} --format env)\"` first",
            profile.name()
        )));
    }
    Ok(None)
}

/// Keys as containers, machines and programs write them.
fn from_json(json: &str) -> Option<(KeyPair, Option<Duration>)> {
    let json: Value = serde_json::from_str(json).ok()?;
    let field = |name: &str| json.get(name)?.as_str().map(str::to_owned);
    let session = field("Token").or_else(|| field("SessionToken"));
    let keys = KeyPair { id: field("AccessKeyId")?, secret: field("SecretAccessKey")?, session };
    Some((keys, field("Expiration").and_then(|instant| until(&instant))))
}

fn from_container() -> Lookup {
    let url = match variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        Some(path) => format!("http://169.254.170.2{path}"),
        None => match variable("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
            Some(url) => url,
            None => return Ok(None),
        },
    };
    let mut request = Request::get(url);
    let token = match variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(file) => Some(read_file(file.as_ref())?),
        None => variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    if let Some(token) = token {
        request = request.header("authorization", token.trim());
    }
    let answer = Client::near().send(&request, 0)?;
    let status = answer.status();
    let found = from_json(&answer.text());
    let what = || Reason::Credentials(format!("the container has none (status {status})"));
    found.map(Some).ok_or_else(what)
}

/// The role of the machine. A machine without a metadata service has none.
fn from_machine() -> Option<(KeyPair, Option<Duration>)> {
    if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|word| word.eq_ignore_ascii_case("true")) {
        return None;
    }
    let client = Client::near();
    let base = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT")
        .unwrap_or_else(|| "http://169.254.169.254".into());
    let base = base.trim_end_matches('/').to_owned();
    let mut request = Request::get(format!("{base}/latest/api/token"))
        .header("x-aws-ec2-metadata-token-ttl-seconds", "21600");
    request.method = "PUT";
    let ok = |request: &Request| {
        let answer = client.send(request, 0).ok()?;
        (answer.status() == 200).then(|| answer.text())
    };
    let token = ok(&request)?;
    let get = |path: &str| {
        let url = format!("{base}/latest/meta-data/iam/security-credentials/{path}");
        ok(&Request::get(url).header("x-aws-ec2-metadata-token", token.as_str()))
    };
    let roles = get("")?;
    from_json(&get(roles.lines().next()?.trim())?)
}
