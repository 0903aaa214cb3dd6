//! Pages to browse: a directory as a table, and the list of the trees.

use std::io::{self, Write};

use shale_extract::listing::each_entry;
use shale_read::{Attributes, InodeKind, Tree};

use crate::answer::Reply;
use crate::encoding::{encode, escape, plain_date};
use crate::request::Request;
use crate::site::Site;

const KIND: &str = "text/html; charset=utf-8";
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;\
     padding:0 1em}table{border-collapse:collapse;width:100%}td,th{padding:.15em .6em;\
     text-align:left}tr:hover{background:#8882}td.n,th.n{text-align:right;\
     font-variant-numeric:tabular-nums;white-space:nowrap}a{text-decoration:none}\
     nav{display:flex;gap:1em;margin-bottom:1em}@media(prefers-color-scheme:dark){\
     body{background:#111;color:#ddd}a{color:#8bf}}";

fn begin(out: &mut dyn Write, title: &str) -> io::Result<()> {
    write!(
        out,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head>\
         <body><h1>{title}</h1>"
    )
}

/// The list of the trees.
pub(crate) fn shares(site: &Site, reply: Reply<'_>) -> io::Result<bool> {
    reply.stream(200, KIND, None, |out| {
        begin(out, "Images")?;
        write!(out, "<table><tr><th>name</th><th class=\"n\">entries</th></tr>")?;
        for share in &site.shares {
            let (link, name) = (encode(share.name.as_bytes()), escape(share.name.as_bytes()));
            let entries = share.tree.entry_count();
            write!(
                out,
                "<tr><td><a href=\"{link}/\">{name}/</a></td><td class=\"n\">{entries}</td></tr>"
            )?;
        }
        write!(out, "</table></body></html>")
    })
}

/// A directory.
pub(crate) fn directory(
    tree: &Tree,
    attributes: &Attributes,
    request: &Request,
    reply: Reply<'_>,
) -> io::Result<bool> {
    let inode = attributes.inode;
    reply.stream(200, KIND, None, |out| {
        begin(out, &escape(&request.path))?;
        write!(out, "<nav>")?;
        if request.path != b"/" {
            write!(out, "<a href=\"../\">up</a>")?;
        }
        write!(out, "<a href=\"?tar\">download as tar</a><a href=\"?zip\">as zip</a></nav>")?;
        write!(
            out,
            "<table><tr><th>name</th><th class=\"n\">size</th><th class=\"n\">changed (UTC)</th>\
             </tr>"
        )?;
        let listed = each_entry(tree, inode, |entry| -> Result<(), io::Error> {
            row(tree, &entry.name, &entry.attributes, out)
        });
        if let Err(error) = listed {
            // Part of the page is out already.
            write!(out, "</table><p><b>{}</b></p>", escape(error.to_string().as_bytes()))?;
            return Err(error);
        }
        write!(out, "</table></body></html>")
    })
}

fn row(tree: &Tree, name: &[u8], attributes: &Attributes, out: &mut dyn Write) -> io::Result<()> {
    // Relative links; a name with a colon must not become a scheme.
    let (link, shown) = (format!("./{}", encode(name)), escape(name));
    let time = plain_date(attributes.mtime.sec);
    let (cell, size) = match attributes.kind {
        InodeKind::Directory => (format!("<a href=\"{link}/\">{shown}/</a>"), String::new()),
        InodeKind::File => (format!("<a href=\"{link}\">{shown}</a>"), human(attributes.size)),
        InodeKind::Symlink => {
            let target = escape(&tree.link_target(attributes.inode)?);
            (format!("<a href=\"{link}\">{shown}</a> → {target}"), String::new())
        }
        _ => (shown, "special".to_owned()),
    };
    write!(out, "<tr><td>{cell}</td><td class=\"n\">{size}</td><td class=\"n\">{time}</td></tr>")
}

fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1000.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}
