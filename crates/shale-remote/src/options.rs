//! How objects are opened and read: time limits, retries, who asks, what is kept on disk.

use std::path::PathBuf;
use std::time::Duration;

/// How objects are opened and read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Address of the store, instead of the public one of its kind. Default: `None`.
    pub endpoint: Option<String>,
    /// Region of an S3 bucket. Default: the environment's, otherwise the one that the store names.
    pub region: Option<String>,
    /// Sends requests without credentials, for public objects. Default: false.
    pub is_anonymous: bool,
    /// Time limit for connecting, for the begin of an answer, and between two pieces of it.
    /// Default: 30 seconds.
    pub timeout: Duration,
    /// How often a request is tried again in a row. Default: 5.
    pub retries: u32,
    /// Requests in flight at once at most. Default: 8.
    pub in_flight_max: usize,
    /// Bytes that were fetched and not yet read, kept in memory at most. Default: 64 MiB.
    pub held_bytes_max: u64,
    /// Bytes at the end of an object that are fetched when it is opened. Default: 32 KiB.
    pub tail_len: u64,
    /// Bytes at the start of an object that are fetched when it is opened. Default: 4 KiB.
    pub head_len: u64,
    /// The cache on disk. Default: `None`.
    pub cache: Option<CacheOptions>,
    /// Uses the cache only and never the network. Default: false.
    pub is_offline: bool,
}

/// Where the cache on disk is, and how large it may grow.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheOptions {
    /// Its directory, which is made if it is missing.
    pub dir: PathBuf,
    /// Bytes of cached blocks at most.
    pub bytes_max: u64,
}

impl CacheOptions {
    /// A cache in `dir` that grows to `bytes_max` bytes at most.
    pub fn new(dir: PathBuf, bytes_max: u64) -> Self {
        Self { dir, bytes_max }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            is_anonymous: false,
            timeout: Duration::from_secs(30),
            retries: 5,
            in_flight_max: 8,
            held_bytes_max: 64 << 20,
            tail_len: 32 << 10,
            head_len: 4 << 10,
            cache: None,
            is_offline: false,
        }
    }
}
