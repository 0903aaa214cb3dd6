//! From a request to who answers it: a file, an archive, a page or WebDAV.

use std::io;

use shale_extract::ExportFormat;
use shale_read::InodeKind;

use crate::answer::{Reply, refuse};
use crate::encoding::encode;
use crate::request::Request;
use crate::site::{Site, Target, archive, file};
use crate::{dav, page};

const ALLOW: &str = "GET, HEAD, OPTIONS, PROPFIND";

/// Answers a request. Returns whether the connection may serve another one.
pub(crate) fn answer(site: &Site, request: &Request, mut reply: Reply<'_>) -> io::Result<bool> {
    match request.method.as_str() {
        "GET" | "HEAD" => {}
        "PROPFIND" => return dav::answer(site, request, reply),
        "OPTIONS" => {
            reply.more.push(("allow", ALLOW.into()));
            reply.more.push(("dav", "1".into()));
            return reply.whole(200, "text/plain", b"");
        }
        _ => {
            reply.more.push(("allow", ALLOW.into()));
            return refuse(reply, 405);
        }
    }
    let (tree, path, attributes) = match site.find(&request.path) {
        Err(status) => return refuse(reply, status),
        Ok(Target::Shares) => return page::shares(site, reply),
        Ok(Target::Inode { tree, path, attributes }) => (tree, path, attributes),
    };
    match attributes.kind {
        InodeKind::File => file(tree, &attributes, request, reply),
        InodeKind::Directory => {
            for (name, format) in [("tar", ExportFormat::Tar), ("zip", ExportFormat::Zip)] {
                if request.parameter(name).is_some() {
                    return archive(tree, &path, (name, format), reply);
                }
            }
            if !request.path.ends_with(b"/") {
                // Links of a page are relative to it.
                let location = format!("{}/", encode(&request.path));
                reply.more.push(("location", location.replacen("//", "/", 1)));
                return reply.empty(301);
            }
            page::directory(tree, &attributes, request, reply)
        }
        _ => refuse(reply, 403),
    }
}
