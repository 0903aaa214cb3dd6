//! Directories for file managers: WebDAV class 1, read-only (RFC 4918).
//!
//! Every property is sent that a file has, whatever was asked for. Links are shown as what they
//! lead to; dangling ones and special files are left out.

use std::io::{self, Write};

use shale_extract::listing::{each_entry, resolve};
use shale_read::{Attributes, InodeKind, Tree};

use crate::answer::{Reply, refuse};
use crate::encoding::{encode, escape, http_date};
use crate::request::Request;
use crate::site::{Site, Target, content_type, etag};

const KIND: &str = "application/xml; charset=utf-8";

/// Answers `PROPFIND`.
pub(crate) fn answer(site: &Site, request: &Request, reply: Reply<'_>) -> io::Result<bool> {
    let is_deep = match request.header("depth") {
        Some("0") => false,
        Some("1") => true,
        // The default is infinite, which a server may refuse.
        _ => {
            let body =
                b"<?xml version=\"1.0\"?><D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/>\
                         </D:error>";
            return reply.whole(403, KIND, body);
        }
    };
    let target = match site.find(&request.path) {
        Ok(target) => target,
        Err(status) => return refuse(reply, status),
    };
    let base = request.path.strip_suffix(b"/").unwrap_or(&request.path);
    reply.stream(207, KIND, None, |out| {
        write!(out, "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:multistatus xmlns:D=\"DAV:\">")?;
        match target {
            Target::Shares => {
                folder(base, 0, out)?;
                for share in site.shares.iter().filter(|_| is_deep) {
                    let path = [base, b"/", share.name.as_bytes()].concat();
                    folder(&path, 0, out)?;
                }
            }
            Target::Inode { tree, path, attributes } => {
                property(tree, base, &attributes, out)?;
                if is_deep && attributes.kind == InodeKind::Directory {
                    below(tree, &path, base, &attributes, out)?;
                }
            }
        }
        write!(out, "</D:multistatus>")
    })
}

fn below(
    tree: &Tree,
    path: &[u8],
    base: &[u8],
    directory: &Attributes,
    out: &mut dyn Write,
) -> io::Result<()> {
    each_entry(tree, directory.inode, |entry| -> Result<(), io::Error> {
        let mut attributes = entry.attributes;
        if attributes.kind == InodeKind::Symlink {
            let inside = [path.strip_suffix(b"/").unwrap_or(path), b"/", &entry.name].concat();
            match resolve(tree, &inside, true) {
                Ok(found) => attributes = found,
                Err(_) => return Ok(()),
            }
        }
        property(tree, &[base, b"/", &entry.name].concat(), &attributes, out)
    })
}

fn property(
    tree: &Tree,
    path: &[u8],
    attributes: &Attributes,
    out: &mut dyn Write,
) -> io::Result<()> {
    match attributes.kind {
        InodeKind::Directory => folder(path, attributes.mtime.sec, out),
        InodeKind::File => {
            let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            write!(
                out,
                "<D:response><D:href>{}</D:href><D:propstat><D:prop><D:displayname>{}\
                 </D:displayname><D:resourcetype/><D:getcontentlength>{}</D:getcontentlength>\
                 <D:getlastmodified>{}</D:getlastmodified><D:getetag>{}</D:getetag>\
                 <D:getcontenttype>{}</D:getcontenttype></D:prop><D:status>HTTP/1.1 200 OK\
                 </D:status></D:propstat></D:response>",
                encode(path),
                escape(name),
                attributes.size,
                http_date(attributes.mtime.sec),
                escape(etag(tree, attributes).as_bytes()),
                content_type(path)
            )
        }
        _ => Ok(()),
    }
}

fn folder(path: &[u8], seconds: i64, out: &mut dyn Write) -> io::Result<()> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    write!(
        out,
        "<D:response><D:href>{}/</D:href><D:propstat><D:prop><D:displayname>{}</D:displayname>\
         <D:resourcetype><D:collection/></D:resourcetype><D:getlastmodified>{}\
         </D:getlastmodified></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
         </D:response>",
        encode(path),
        escape(name),
        http_date(seconds)
    )
}
