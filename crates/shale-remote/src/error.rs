//! What went wrong elsewhere: to which object, why, and what to do.

use std::io;

/// An object could not be opened or read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{url}: {reason}")]
pub struct Error {
    /// The URL, without passwords and signatures.
    pub url: String,
    /// What happened.
    pub reason: Reason,
}

/// Why an object could not be opened or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The URL cannot be used.
    #[error("not a valid URL: {0}")]
    Url(String),
    /// The server has no such object.
    #[error("there is no such object (status {status}){detail}; check the URL")]
    NotFound {
        /// Status of the answer.
        status: u16,
        /// What the server said.
        detail: String,
    },
    /// The server refuses to give the object to this user.
    #[error("access denied (status {status}){detail}; {advice}")]
    Denied {
        /// Status of the answer.
        status: u16,
        /// What the server said.
        detail: String,
        /// Which credentials were used, and what to check.
        advice: &'static str,
        /// True if the request was not signed because the caller wanted that.
        is_anonymous: bool,
        /// True if the store also takes requests that are not signed.
        may_be_anonymous: bool,
    },
    /// The server sends whole files only.
    #[error(
        "the server sends the whole file only, not ranges of it; download the file first, or use a \
         server that supports range requests (most web servers and all object stores do)"
    )]
    NoRanges,
    /// The object is not the one that was opened.
    #[error("the object has changed since it was opened ({0}); open it again")]
    Changed(String),
    /// The server sent something else than it was asked for.
    #[error("the server sent a wrong answer: {0}")]
    Answer(String),
    /// The server failed, or refused for another reason.
    #[error("the server answered with status {status}{detail}; try again later")]
    Server {
        /// Status of the answer.
        status: u16,
        /// What the server said.
        detail: String,
    },
    /// The server cannot be reached.
    #[error("cannot reach the server: {0}; check the network, the URL and the proxy settings")]
    Unreachable(String),
    /// The server did not answer, or sent nothing for too long.
    #[error("no answer within {seconds} s ({what})")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The time limit.
        seconds: u64,
    },
    /// The connection broke while bytes arrived.
    #[error("the connection broke after {arrived} of {expected} bytes: {why}; try again")]
    Broken {
        /// Bytes that arrived.
        arrived: u64,
        /// Bytes that were asked for.
        expected: u64,
        /// Why it broke.
        why: String,
    },
    /// The server's certificate is not trusted, or there is no TLS.
    #[error(
        "no secure connection: {0}; check the certificate of the server (SSL_CERT_FILE adds one)"
    )]
    Tls(String),
    /// There are no credentials for a store that also takes requests that are not signed.
    #[error("credentials: none found for {0}")]
    NoCredentials(&'static str),
    /// Credentials cannot be read.
    #[error("credentials: {0}")]
    Credentials(String),
    /// The object is not in the cache, and the network must not be used.
    #[error("not in the cache, and the network must not be used")]
    Offline,
    /// Another object has the name.
    #[error("an object of this name exists; nothing was replaced")]
    Exists,
    /// The object that was to be replaced has been replaced by somebody else.
    #[error("the object was changed by somebody else meanwhile; it was left as it is, try again")]
    Replaced,
    /// Objects cannot be written there.
    #[error("only s3://, gs:// and az:// can be written to")]
    NotWritable,
    /// The store has not made an object of what was uploaded, and the name has no other one.
    #[error(
        "the store made no object of what was uploaded (status {status}{detail}); another upload \
         of this name may have ended meanwhile, try again"
    )]
    Gone {
        /// Status of the answer.
        status: u16,
        /// What the store said.
        detail: String,
    },
    /// The caller gave up.
    #[error("cancelled; nothing was written")]
    Cancelled,
    /// A file of this machine that was to be sent cannot be read.
    #[error("cannot read what is to be sent: {0}")]
    Local(String),
    /// An upload failed, and what the store has of it could not be removed.
    #[error("{reason}; {what}")]
    Left {
        /// Why the upload failed.
        reason: Box<Reason>,
        /// What is left in the store, and how to remove it.
        what: String,
    },
    /// The object was written, and something else that the upload needed could not be removed.
    #[error("the object was written, but {0} could not be removed; remove it, it is not needed")]
    Remains(String),
    /// The range is beyond the end of the object.
    #[error("the object ends at byte {len}; a read reaches byte {end}")]
    End {
        /// Length of the object.
        len: u64,
        /// End of the read.
        end: u64,
    },
}

impl Reason {
    /// True if asking again may help.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Reason::Server { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            Reason::Timeout { .. } | Reason::Broken { .. } | Reason::Unreachable(_) => true,
            _ => false,
        }
    }

    /// True if the server was not reached at all, so that cached bytes may take its place.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Reason::Unreachable(_) | Reason::Timeout { .. })
    }

    fn io_kind(&self) -> io::ErrorKind {
        match self {
            Reason::NotFound { .. } => io::ErrorKind::NotFound,
            Reason::Denied { .. } | Reason::NoCredentials(_) | Reason::Credentials(_) => {
                io::ErrorKind::PermissionDenied
            }
            Reason::NoRanges => io::ErrorKind::Unsupported,
            Reason::Changed(_) => io::ErrorKind::StaleNetworkFileHandle,
            Reason::Unreachable(_) | Reason::Offline => io::ErrorKind::HostUnreachable,
            Reason::Timeout { .. } => io::ErrorKind::TimedOut,
            Reason::Broken { .. } => io::ErrorKind::ConnectionAborted,
            Reason::Exists => io::ErrorKind::AlreadyExists,
            Reason::Replaced => io::ErrorKind::StaleNetworkFileHandle,
            Reason::NotWritable => io::ErrorKind::Unsupported,
            Reason::Cancelled => io::ErrorKind::Interrupted,
            Reason::Local(_) | Reason::Remains(_) | Reason::Gone { .. } => io::ErrorKind::Other,
            Reason::Left { reason, .. } => reason.io_kind(),
            Reason::End { .. } => io::ErrorKind::UnexpectedEof,
            Reason::Url(_) => io::ErrorKind::InvalidInput,
            Reason::Answer(_) | Reason::Server { .. } | Reason::Tls(_) => io::ErrorKind::Other,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.reason.io_kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_passing_troubles_are_tried_again() {
        let server = |status| Reason::Server { status, detail: String::new() };
        assert!(server(503).is_passing() && server(429).is_passing());
        assert!(!server(400).is_passing() && !Reason::NoRanges.is_passing());
        assert!(!Reason::Changed(String::new()).is_passing());
    }
}
