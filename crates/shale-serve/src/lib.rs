//! Images over HTTP and WebDAV, read-only.
//!
//! Every connection has a thread; their number, the length of requests and every wait are bounded.
//! Paths are looked up in the image only, links included, so no request leaves it. What is damaged
//! ends an answer early: its length is announced first, so no client takes it for complete.

mod request; // what a client asks
mod answer; // what it gets
mod encoding; // names in URLs, HTML and XML; dates
mod access; // who may ask
mod site; // paths to trees and files
mod page; // directories for browsers
mod asked; // properties that file managers ask for
mod dav; // directories for file managers
mod route; // from a request to who answers it
mod server; // connections

pub use server::{Limits, Server};
pub use site::Share;
