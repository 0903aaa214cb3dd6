//! Options for images that are elsewhere, and `cache`.

use std::path::PathBuf;

use clap::Args;

use crate::size;

const HEADING: &str = "Options for images that are elsewhere (https://, s3://, gs://, az://)";

/// How images that are elsewhere are reached, and what is kept of them.
#[derive(Debug, Clone, Default, Args)]
pub struct RemoteArgs {
    /// Address of the object store, such as https://minio.example:9000 (default: the public one).
    #[arg(long, global = true, value_name = "URL", help_heading = HEADING,
        hide_short_help = true)]
    pub endpoint: Option<String>,
    /// Region of the S3 bucket (default: from the environment, or as the store says).
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING,
        hide_short_help = true)]
    pub region: Option<String>,
    /// Send requests without credentials, for public objects.
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true)]
    pub no_sign_request: bool,
    /// Seconds to wait for a server (default: 30).
    #[arg(long, global = true, value_name = "SECONDS", help_heading = HEADING,
        value_parser = clap::value_parser!(u64).range(1..=86_400), hide_short_help = true)]
    pub timeout: Option<u64>,
    /// Directory of the cache (default: `shale` in XDG_CACHE_HOME or ~/.cache).
    #[arg(long, global = true, value_name = "DIR", help_heading = HEADING,
        hide_short_help = true)]
    pub cache_dir: Option<PathBuf>,
    /// Size of the cache on disk; 0 uses none (default: 2G).
    #[arg(long, global = true, value_name = "SIZE", value_parser = size::parse,
        help_heading = HEADING, hide_short_help = true)]
    pub cache_size: Option<u64>,
    /// Use what is cached and never the network.
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true)]
    pub offline: bool,
}

impl RemoteArgs {
    /// These options again, as words of a command line.
    pub fn words(&self) -> Vec<std::ffi::OsString> {
        let mut words = Vec::new();
        let mut add = |name: &str, value: std::ffi::OsString| words.extend([name.into(), value]);
        if let Some(endpoint) = &self.endpoint {
            add("--endpoint", endpoint.into());
        }
        if let Some(region) = &self.region {
            add("--region", region.into());
        }
        if let Some(timeout) = self.timeout {
            add("--timeout", timeout.to_string().into());
        }
        if let Some(dir) = &self.cache_dir {
            add("--cache-dir", dir.into());
        }
        if let Some(size) = self.cache_size {
            add("--cache-size", size.to_string().into());
        }
        let switches = [(self.no_sign_request, "--no-sign-request"), (self.offline, "--offline")];
        words.extend(switches.iter().filter(|(is_on, _)| *is_on).map(|(_, word)| word.into()));
        words
    }
}

/// `shale cache`.
#[cfg(feature = "remote")]
#[derive(Debug, clap::Subcommand)]
pub enum CacheCommand {
    /// List the images of which something is cached, used last first.
    List,
    /// Remove what is cached: of the images whose URL contains one of the words, or of all images.
    Clear {
        /// Words of URLs.
        #[arg(value_name = "WORD")]
        words: Vec<String>,
        /// Remove everything.
        #[arg(long, conflicts_with = "words", required_unless_present = "words")]
        all: bool,
    },
    /// Print the directory of the cache.
    Dir,
}
