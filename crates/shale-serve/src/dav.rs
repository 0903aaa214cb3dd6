//! Directories for file managers: WebDAV class 1, read-only (RFC 4918).
//!
//! Links are shown as what they lead to; dangling ones and special files are left out.

use std::io::{self, Write};

use shale_extract::listing::{each_entry, resolve};
use shale_read::{Attributes, InodeKind, Tree};

use crate::answer::{Reply, refuse};
use crate::asked::{APACHE, Asked, DAV, Property, asked};
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
    let Some(asked) = asked(&request.body) else { return refuse(reply, 400) };
    let base = request.path.strip_suffix(b"/").unwrap_or(&request.path);
    reply.stream(207, KIND, None, |out| {
        write!(out, "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:multistatus xmlns:D=\"DAV:\">")?;
        let mut list = List { asked, out };
        match target {
            Target::Shares => {
                list.add(base, true, &folder(base, 0))?;
                for share in site.shares.iter().filter(|_| is_deep) {
                    let path = [base, b"/", share.name.as_bytes()].concat();
                    list.add(&path, true, &folder(&path, 0))?;
                }
            }
            Target::Inode { tree, path, attributes } => {
                list.add_inode(tree, base, &attributes)?;
                if is_deep && attributes.kind == InodeKind::Directory {
                    below(tree, &path, base, &attributes, &mut list)?;
                }
            }
        }
        write!(list.out, "</D:multistatus>")
    })
}

fn below(
    tree: &Tree,
    path: &[u8],
    base: &[u8],
    directory: &Attributes,
    list: &mut List<'_>,
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
        list.add_inode(tree, &[base, b"/", &entry.name].concat(), &attributes)
    })
}

/// A property that a file has: its namespace, its name, and its value as XML.
type Value = (&'static str, &'static str, String);

/// The answer, as it is written.
struct List<'o> {
    asked: Asked,
    out: &'o mut (dyn Write + Send),
}

impl List<'_> {
    fn add_inode(&mut self, tree: &Tree, path: &[u8], attributes: &Attributes) -> io::Result<()> {
        match attributes.kind {
            InodeKind::Directory => self.add(path, true, &folder(path, attributes.mtime.sec)),
            InodeKind::File => self.add(path, false, &file(tree, path, attributes)),
            _ => Ok(()),
        }
    }

    /// Adds what is asked for of a file or directory.
    fn add(&mut self, path: &[u8], is_folder: bool, values: &[Value]) -> io::Result<()> {
        let slash = if is_folder { "/" } else { "" };
        write!(self.out, "<D:response><D:href>{}{slash}</D:href>", encode(path))?;
        match &self.asked {
            Asked::All => status(self.out, 200, values.iter().map(with_value))?,
            Asked::Names => {
                let names = values.iter().map(|(space, name, _)| element(space, name, ""));
                status(self.out, 200, names)?;
            }
            Asked::Only(asked) => {
                let find = |wanted: &Property| {
                    let is_it = |(space, name, _): &&Value| {
                        *space == wanted.namespace && *name == wanted.name
                    };
                    values.iter().find(is_it)
                };
                let found: Vec<_> = asked.iter().filter_map(find).collect();
                if !found.is_empty() || asked.is_empty() {
                    status(self.out, 200, found.into_iter().map(with_value))?;
                }
                let mut absent = asked.iter().filter(|one| find(one).is_none()).peekable();
                if absent.peek().is_some() {
                    status(
                        self.out,
                        404,
                        absent.map(|one| element(&one.namespace, &one.name, "")),
                    )?;
                }
            }
        }
        write!(self.out, "</D:response>")
    }
}

fn status(
    out: &mut dyn Write,
    status: u16,
    elements: impl Iterator<Item = String>,
) -> io::Result<()> {
    write!(out, "<D:propstat><D:prop>")?;
    for element in elements {
        out.write_all(element.as_bytes())?;
    }
    let reason = if status == 200 { "OK" } else { "Not Found" };
    write!(out, "</D:prop><D:status>HTTP/1.1 {status} {reason}</D:status></D:propstat>")
}

fn with_value((namespace, name, value): &Value) -> String {
    element(namespace, name, value)
}

fn element(namespace: &str, name: &str, value: &str) -> String {
    match (namespace, value) {
        (DAV, "") => format!("<D:{name}/>"),
        (DAV, value) => format!("<D:{name}>{value}</D:{name}>"),
        (space, value) => {
            format!("<{name} xmlns=\"{}\">{value}</{name}>", escape(space.as_bytes()))
        }
    }
}

fn folder(path: &[u8], seconds: i64) -> Vec<Value> {
    vec![
        (DAV, "displayname", name_of(path)),
        (DAV, "resourcetype", "<D:collection/>".into()),
        (DAV, "getlastmodified", http_date(seconds)),
    ]
}

fn file(tree: &Tree, path: &[u8], attributes: &Attributes) -> Vec<Value> {
    let is_executable = attributes.permissions & 0o111 != 0;
    vec![
        (DAV, "displayname", name_of(path)),
        (DAV, "resourcetype", String::new()),
        (DAV, "getcontentlength", attributes.size.to_string()),
        (DAV, "getlastmodified", http_date(attributes.mtime.sec)),
        (DAV, "getetag", escape(etag(tree, attributes).as_bytes())),
        (DAV, "getcontenttype", content_type(path).into()),
        (APACHE, "executable", if is_executable { "T" } else { "F" }.into()),
    ]
}

fn name_of(path: &[u8]) -> String {
    escape(path.rsplit(|&byte| byte == b'/').next().unwrap_or_default())
}
