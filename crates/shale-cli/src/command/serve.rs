//! `shale serve`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::json;
use shale::read::{FrameCache, Options, SnapshotChoice, Workers};
use shale_serve::{Limits, Server, Share};

use crate::args::Serve;
use crate::exit::{Exit, Misuse};
use crate::report::Say;
use crate::{elsewhere, open, text};

/// Memory for decoded frames of all images.
const CACHE_BYTES: u64 = 256 << 20;

/// Serves images over HTTP and WebDAV until the process ends.
///
/// # Errors
/// An image cannot be opened, or the address cannot be listened on.
pub fn run(args: &Serve, say: &Say) -> anyhow::Result<Exit> {
    if args.token.is_none() && !args.no_token && !args.http.ip().is_loopback() {
        bail!(Misuse(format!(
            "{}: everyone who reaches this address could read the images; use --token TEXT, or \
             --no-token if they may",
            args.http
        )));
    }
    let is_valid =
        |token: &str| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic() && b != b';');
    if args.token.as_deref().is_some_and(|token| !is_valid(token)) {
        let what = "--token: use letters, digits and signs other than `;`, without spaces";
        bail!(Misuse(what.to_owned()));
    }
    let read = Options::default()
        .cache(FrameCache::new(args.cache.unwrap_or(CACHE_BYTES)))
        .workers(Workers::new(0));
    let mut shares: Vec<Share> = Vec::new();
    for word in &args.images {
        let (name, path) = named(word);
        let image = open::image(path, read.clone(), say)?;
        let count = image.snapshots().len();
        let mut add = |name: String, choice: &SnapshotChoice| -> anyhow::Result<()> {
            if shares.iter().any(|share| share.name == name) {
                bail!(Misuse(format!("two images have the name {name}; write NAME=IMAGE")));
            }
            let tree = image.tree(choice).with_context(|| text::path(path))?;
            shares.push(Share { name, tree });
            Ok(())
        };
        add(name.clone(), &SnapshotChoice::Newest)?;
        for (index, snapshot) in image.snapshots().iter().enumerate().filter(|_| count > 1) {
            let label = String::from_utf8_lossy(&snapshot.name).replace('/', "_");
            let label = if label.is_empty() { index.to_string() } else { label };
            add(format!("{name}@{label}"), &SnapshotChoice::Index(index))?;
        }
    }
    let server = Server::listen(args.http, shares, args.token.clone(), Limits::default())
        .with_context(|| format!("cannot listen on {}", args.http))?;
    let url = format!("http://{}/", server.address()?);
    let shown = match &args.token {
        Some(token) => format!("{url}?token={token}"),
        None => url.clone(),
    };
    if say.json {
        say.value(&json!({ "url": url }))?;
    } else {
        say.raw(format!("{shown}\n").as_bytes())?;
    }
    say.line("serving; Ctrl-C ends it");
    server.serve();
    Ok(Exit::Done)
}

/// The name of an argument and its image: `NAME=IMAGE`, or the name of the file without its ending.
fn named(word: &OsStr) -> (String, &Path) {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|&byte| byte == b'=');
    if let Some(at) = at.filter(|at| *at > 0 && !bytes[..*at].contains(&b'/'))
        && !Path::new(word).exists()
        && let Ok(name) = std::str::from_utf8(&bytes[..at])
    {
        return (name.to_owned(), Path::new(OsStr::from_bytes(&bytes[at + 1..])));
    }
    let path = Path::new(word);
    let shown = elsewhere::shown(path);
    let stem = Path::new(&shown).file_stem().unwrap_or(&shown);
    (stem.to_string_lossy().into_owned(), path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_names_an_image() {
        let of = |word: &'static str| {
            let (name, path) = named(OsStr::new(word));
            (name, path.to_str().unwrap().to_owned())
        };
        assert_eq!(of("dir/a.shale"), ("a".into(), "dir/a.shale".into()));
        assert_eq!(of("x=dir/a.shale"), ("x".into(), "dir/a.shale".into()));
        assert_eq!(of("https://h/a.shale?sig=1"), ("a".into(), "https://h/a.shale?sig=1".into()));
    }
}
