//! What is served: paths to trees, and files of trees with ranges and validators.

use std::io::{self, Write};
use std::ops::Range;

use shale_extract::listing::resolve;
use shale_extract::{ExportFormat, ExportOptions, export, patterns_in_tree};
use shale_host::{NoProgress, Output};
use shale_read::{Attributes, Tree};

use crate::answer::{Reply, refuse};
use crate::encoding::{encode, http_date};
use crate::request::{Request, range};

/// Bytes read from an image at a time.
const BLOCK_LEN: usize = 256 << 10;

/// A tree and the name under which it is served.
#[derive(Debug)]
pub struct Share {
    /// The first component of its paths, if there are several trees.
    pub name: String,
    /// The tree.
    pub tree: Tree,
}

/// The trees that are served. One alone is the root; several are directories of it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) shares: Vec<Share>,
}

/// What a path leads to.
pub(crate) enum Target<'s> {
    /// The list of the trees.
    Shares,
    /// An inode of a tree, and its path in that tree.
    Inode { tree: &'s Tree, path: Vec<u8>, attributes: Attributes },
}

impl Site {
    /// Finds what a path of a URL leads to. Links are followed inside their tree.
    pub(crate) fn find(&self, path: &[u8]) -> Result<Target<'_>, u16> {
        let inside = path.strip_prefix(b"/").unwrap_or(path);
        let (tree, path) = match &self.shares[..] {
            [one] => (&one.tree, inside),
            _ if inside.is_empty() => return Ok(Target::Shares),
            shares => {
                let end = inside.iter().position(|&byte| byte == b'/').unwrap_or(inside.len());
                let share = shares.iter().find(|share| share.name.as_bytes() == &inside[..end]);
                (&share.ok_or(404u16)?.tree, inside.get(end + 1..).unwrap_or_default())
            }
        };
        match resolve(tree, path, true) {
            Ok(attributes) => Ok(Target::Inode { tree, path: path.to_vec(), attributes }),
            Err(shale_extract::Error::Read(_)) => Err(500),
            Err(_) => Err(404),
        }
    }
}

/// The validator of a file: the image, its table of inodes, and the inode.
pub(crate) fn etag(tree: &Tree, attributes: &Attributes) -> String {
    let id = tree.image().superblock().image_id;
    let id: String = id[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let table = tree.snapshot().inodes.top.checksum;
    format!("\"{id}-{table:x}-{:x}\"", attributes.inode)
}

/// Sends a file, or the part of it that is asked for.
pub(crate) fn file(
    tree: &Tree,
    attributes: &Attributes,
    request: &Request,
    mut reply: Reply<'_>,
) -> io::Result<bool> {
    let (etag, modified) = (etag(tree, attributes), http_date(attributes.mtime.sec));
    reply.more.push(("etag", etag.clone()));
    reply.more.push(("last-modified", modified.clone()));
    reply.more.push(("accept-ranges", "bytes".into()));
    reply.more.push(("cache-control", "private, max-age=60".into()));
    let is_known = match request.header("if-none-match") {
        Some(known) => known.split(',').any(|one| one.trim() == etag || one.trim() == "*"),
        None => request.header("if-modified-since") == Some(&modified),
    };
    if is_known {
        return reply.empty(304);
    }
    if request
        .header("if-match")
        .is_some_and(|known| !known.split(',').any(|one| one.trim() == etag || one.trim() == "*"))
    {
        return reply.empty(412);
    }
    let is_same = request.header("if-range").is_none_or(|known| known == etag || known == modified);
    let wanted = request.header("range").filter(|_| is_same);
    let kind = content_type(&request.path);
    let part = match range(wanted, attributes.size) {
        Ok(part) => part,
        Err(()) => {
            reply.more.push(("content-range", format!("bytes */{}", attributes.size)));
            return refuse(reply, 416);
        }
    };
    let status = if part.is_some() { 206 } else { 200 };
    let part = part.unwrap_or(0..attributes.size);
    if status == 206 {
        let (start, last) = (part.start, part.end - 1);
        reply.more.push(("content-range", format!("bytes {start}-{last}/{}", attributes.size)));
    }
    let inode = attributes.inode;
    // Before the head: a file that cannot be read at all is an error, and not a broken answer.
    let mut block = vec![0; BLOCK_LEN.min((part.end - part.start) as usize)];
    if !reply.is_head() && tree.read(inode, part.start, &mut block).is_err() {
        reply.more.clear();
        return refuse(reply, 500);
    }
    let len = part.end - part.start;
    reply.stream(status, kind, Some(len), |out| copy(tree, inode, part, block, out))
}

/// Writes a part of a file, of which `block` holds the first bytes.
fn copy(
    tree: &Tree,
    inode: u64,
    part: Range<u64>,
    mut block: Vec<u8>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut at = part.start;
    while at < part.end {
        let len = ((part.end - at) as usize).min(block.len());
        if at > part.start && tree.read(inode, at, &mut block[..len])? != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.write_all(&block[..len])?;
        at += len as u64;
    }
    Ok(())
}

/// Sends a directory as an archive that is made on the way.
pub(crate) fn archive(
    tree: &Tree,
    path: &[u8],
    (ending, format): (&'static str, ExportFormat),
    mut reply: Reply<'_>,
) -> io::Result<bool> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let name = path.rsplit(|&byte| byte == b'/').next().filter(|name| !name.is_empty());
    let name = encode(name.unwrap_or(b"image")).replace('/', "_");
    let value = format!("attachment; filename*=UTF-8''{name}.{ending}");
    reply.more.push(("content-disposition", value));
    let mut patterns: Vec<Vec<u8>> = Vec::new();
    if !path.is_empty() {
        // Its characters mean themselves.
        let mut pattern = Vec::new();
        for &byte in path {
            if b"*?".contains(&byte) {
                pattern.push(b'\\');
            }
            pattern.push(byte);
        }
        patterns.push(pattern);
    }
    let Ok(patterns) = patterns_in_tree(&patterns, tree) else { return refuse(reply, 404) };
    let compression = if ending == "zip" { format.usual_compression() } else { None };
    let options = ExportOptions::default()
        .format(format)
        .compression(compression)
        .patterns(patterns)
        .threads(2);
    let kind = if ending == "zip" { "application/zip" } else { "application/x-tar" };
    reply.stream(200, kind, None, |out| {
        // Damage ends the archive early, and the connection with it.
        export(tree, Output::Stream(out), &options, &NoProgress)
            .map(|_| ())
            .map_err(io::Error::other)
    })
}

/// The type of a file by the end of its name. Text of every kind is shown, and never run.
pub(crate) fn content_type(path: &[u8]) -> &'static str {
    let ending = path.rsplit(|&byte| byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
    match &ending[..] {
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"gif" => "image/gif",
        b"webp" => "image/webp",
        b"avif" => "image/avif",
        b"svg" => "image/svg+xml",
        b"ico" => "image/x-icon",
        b"pdf" => "application/pdf",
        b"json" => "application/json",
        b"mp4" => "video/mp4",
        b"webm" => "video/webm",
        b"mp3" => "audio/mpeg",
        b"ogg" => "audio/ogg",
        b"flac" => "audio/flac",
        b"wav" => "audio/wav",
        b"txt" | b"md" | b"log" | b"csv" | b"tsv" | b"xml" | b"yaml" | b"yml" | b"toml"
        | b"ini" | b"conf" | b"rs" | b"c" | b"h" | b"cc" | b"cpp" | b"hpp" | b"py" | b"js"
        | b"ts" | b"sh" | b"go" | b"java" | b"pl" | b"rb" | b"css" | b"html" | b"htm" | b"diff"
        | b"patch" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
