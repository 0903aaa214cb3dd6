//! What a `PROPFIND` asks for: the properties that its body names (RFC 4918, section 14.20).

use roxmltree::{Document, Node};

/// The namespace of WebDAV.
pub(crate) const DAV: &str = "DAV:";
/// The namespace of the property `executable`, which Apache has and davfs2 asks for.
pub(crate) const APACHE: &str = "http://apache.org/dav/props/";

/// The name of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Property {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Which properties are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All that there are.
    All,
    /// The names of all, without values.
    Names,
    /// These.
    Only(Vec<Property>),
}

/// Reads the body of a request. `None` if it is not what the specification says.
pub(crate) fn asked(body: &[u8]) -> Option<Asked> {
    let text = str::from_utf8(body).ok()?;
    if text.trim().is_empty() {
        return Some(Asked::All);
    }
    let document = Document::parse(text.trim_start_matches('\u{feff}')).ok()?;
    // A prefix must not stand for no namespace (Namespaces in XML 1.0, section 5).
    let declared = document.descendants().flat_map(|node| node.namespaces());
    if { declared }.any(|space| space.name().is_some() && space.uri().is_empty()) {
        return None;
    }
    let root = document.root_element();
    if !root.has_tag_name((DAV, "propfind")) {
        return None;
    }
    let child = |name: &str| root.children().find(|node| node.has_tag_name((DAV, name)));
    if child("allprop").is_some() {
        return Some(Asked::All);
    }
    if child("propname").is_some() {
        return Some(Asked::Names);
    }
    let property = |node: Node<'_, '_>| Property {
        namespace: node.tag_name().namespace().unwrap_or_default().to_owned(),
        name: node.tag_name().name().to_owned(),
    };
    let named = child("prop")?.children().filter(Node::is_element);
    Some(Asked::Only(named.map(property).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_name_properties() {
        let only = |body: &str| match asked(body.as_bytes()) {
            Some(Asked::Only(properties)) => properties
                .iter()
                .map(|one| format!("{{{}}}{}", one.namespace, one.name))
                .collect::<Vec<_>>(),
            other => panic!("{body}: {other:?}"),
        };
        let body = "<?xml version=\"1.0\"?>\n<propfind xmlns=\"DAV:\"><prop><getetag/>\
                    <x:executable xmlns:x=\"http://apache.org/dav/props/\"/><n xmlns=\"\"/></prop>\
                    </propfind>";
        let expected = ["{DAV:}getetag", "{http://apache.org/dav/props/}executable", "{}n"];
        assert_eq!(only(body), expected);
        assert_eq!(asked(b" \r\n"), Some(Asked::All));
        let all = b"<a:propfind xmlns:a='DAV:'><a:allprop/></a:propfind>";
        assert_eq!(asked(all), Some(Asked::All));
        let names = b"<a:propfind xmlns:a='DAV:'><a:propname/></a:propfind>";
        assert_eq!(asked(names), Some(Asked::Names));
    }

    #[test]
    fn what_is_no_propfind_is_refused() {
        for body in [
            "<foo>",
            "<D:propfind xmlns:D=\"DAV:\"><D:prop><bar:foo xmlns:bar=\"\"/></D:prop></D:propfind>",
            "<D:propfind xmlns:D=\"DAV:\"/>",
            "<propfind><allprop/></propfind>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
            "\u{1}",
        ] {
            assert_eq!(asked(body.as_bytes()), None, "{body}");
        }
        assert_eq!(asked(b"<D:propfind xmlns:D='DAV:'>\xff</D:propfind>"), None);
    }
}
