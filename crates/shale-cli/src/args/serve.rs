//! Arguments of `serve`.

use std::ffi::OsString;
use std::net::SocketAddr;

use clap::Args;

/// `shale serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// The images: IMAGE or NAME=IMAGE. One image is served at `/`, several at `/NAME/`.
    #[arg(required = true, value_name = "IMAGE")]
    pub images: Vec<OsString>,
    /// The address and port to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8000", value_name = "ADDRESS:PORT")]
    pub http: SocketAddr,
    /// Serve only clients that have this token: as password, as bearer token, or in the URL.
    #[arg(long, value_name = "TEXT")]
    pub token: Option<String>,
    /// Serve everyone who reaches the address, although it is not one of this machine alone.
    #[arg(long, conflicts_with = "token")]
    pub no_token: bool,
    /// Memory for decoded frames, such as 512M (default: 256M).
    #[arg(long, value_parser = crate::size::parse, value_name = "SIZE")]
    pub cache: Option<u64>,
}
