//! Proof of who asks: the address of an object in its store, and requests signed for it.
//!
//! Credentials come from where the tools of each store look for them: environment, files, the
//! metadata service of the machine. They are looked for once, kept while they are valid, and never
//! written anywhere.

mod access; // what credentials must allow
mod environment; // variables, the user's directory, files
mod keep; // credentials kept while they are valid
mod sigv4; // AWS Signature Version 4
mod aws; // where credentials for S3 come from
mod aws_profile; // the files of the AWS tools
mod google; // tokens for Google Cloud Storage
mod azure; // keys, signatures and tokens for Azure

pub(crate) use access::Access;

use crate::error::Reason;
use crate::http::Request;
use crate::location::{ObjectUrl, Scheme};
use crate::options::Options;
use crate::text;

/// Signs requests for one object.
#[derive(Debug)]
pub(crate) enum Signer {
    /// Requests are sent as they are.
    Nobody,
    /// User and password, encoded.
    Basic(String),
    Aws(aws::Aws),
    Google(google::Google),
    Azure(azure::Azure),
}

impl Signer {
    /// Finds out who asks for `url`.
    pub(crate) fn new(url: &ObjectUrl, options: &Options, access: Access) -> Result<Self, Reason> {
        Ok(match url.scheme {
            Scheme::Http | Scheme::Https => match &url.user {
                Some(user) => Self::Basic(text::base64(&text::decode(user))),
                None => Self::Nobody,
            },
            Scheme::S3 => Self::Aws(aws::Aws::new(options)),
            Scheme::Gs => Self::Google(google::Google::new(options, access)),
            Scheme::Az => Self::Azure(azure::Azure::new(options)?),
        })
    }

    /// The address of the object.
    pub(crate) fn address(&self, url: &ObjectUrl) -> String {
        let (place, key) = (&url.place, &url.key);
        match self {
            Self::Aws(aws) => aws.address(place, key),
            Self::Google(google) => google.address(place, key),
            Self::Azure(azure) => azure.address(place, key),
            Self::Nobody | Self::Basic(_) => match url.scheme {
                Scheme::Http => format!("http://{place}{key}"),
                _ => format!("https://{place}{key}"),
            },
        }
    }

    /// The address of the store itself, of Google's store.
    pub(crate) fn endpoint(&self) -> Option<&str> {
        match self {
            Self::Google(google) => Some(google.endpoint()),
            _ => None,
        }
    }

    /// Adds what the store needs to know who asks.
    pub(crate) fn sign(&self, request: &mut Request) -> Result<(), Reason> {
        match self {
            Self::Nobody => Ok(()),
            Self::Basic(user) => {
                request.headers.push(("authorization", format!("Basic {user}")));
                Ok(())
            }
            Self::Aws(aws) => aws.sign(request),
            Self::Google(google) => google.sign(request),
            Self::Azure(azure) => azure.sign(request),
        }
    }

    /// Takes the hint of a store that a bucket is in another region. Returns true if that is news.
    pub(crate) fn moved_to(&self, region: &str) -> bool {
        matches!(self, Self::Aws(aws) if aws.moved_to(region))
    }

    /// Forgets credentials that the store refused. Returns true if there may be newer ones.
    pub(crate) fn refused(&self) -> bool {
        match self {
            Self::Aws(aws) => aws.refused(),
            Self::Google(google) => google.refused(),
            Self::Azure(azure) => azure.refused(),
            Self::Nobody | Self::Basic(_) => false,
        }
    }

    /// True if the store also takes requests that are not signed.
    pub(crate) fn may_be_anonymous(&self) -> bool {
        matches!(self, Self::Aws(_) | Self::Google(_) | Self::Azure(_))
    }

    /// What to check when access is denied.
    pub(crate) fn advice(&self, is_anonymous: bool) -> &'static str {
        match self {
            _ if is_anonymous => "the request was not signed",
            Self::Nobody => "put user and password into the URL (https://USER:PASSWORD@HOST/...)",
            Self::Basic(_) => "check user and password in the URL",
            Self::Aws(_) => "check the credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID)",
            Self::Google(_) => {
                "check the credentials (GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth \
                 application-default login`)"
            }
            Self::Azure(_) => "check AZURE_STORAGE_ACCOUNT and the key or token",
        }
    }

    /// True if the store answers requests for the end of an object (`bytes=-N`).
    pub(crate) fn knows_suffixes(&self) -> bool {
        !matches!(self, Self::Azure(_))
    }
}
