//! What a `PROPFIND` asks for: the properties that its body names (RFC 4918, section 14.20).

use roxmltree::{Document, Node};

/// The namespace of WebDAV.
pub(crate) const DAV: &str = "DAV:";
/// The namespace of the property `executable`, which Apache has and davfs2 asks for.
pub(crate) const APACHE: &str = "http://apache.org/dav/props/";

/// Bytes of all names together, with their namespaces. The answer repeats them for each file, and a
/// short body can name a long namespace thousands of times.
const NAMES_LEN_MAX: usize = 64 << 10;

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

/// Reads the body of a request. `None` if it is not what the specification says, or asks for too
/// much.
pub(crate) fn asked(body: &[u8]) -> Option<Asked> {
    let text = str::from_utf8(body).ok()?;
    if text.trim().is_empty() {
        return Some(Asked::All);
    }
    let document = Document::parse(text.trim_start_matches('\u{feff}')).ok()?;
    // A prefix must not stand for no namespace (Namespaces in XML 1.0, section 5).
    let mut declared = document.descendants().flat_map(|node| node.namespaces());
    if declared.any(|space| space.name().is_some() && space.uri().is_empty()) {
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
    let mut room = NAMES_LEN_MAX;
    let mut properties = Vec::new();
    for property in named.map(property) {
        room = room.checked_sub(property.namespace.len() + property.name.len())?;
        properties.push(property);
    }
    Some(Asked::Only(properties))
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
            "<D:propfind xmlns:D=\"DAV:\"><D:prop><D:a:b/></D:prop></D:propfind>",
            "<propfind><allprop/></propfind>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
            "\u{1}",
        ] {
            assert_eq!(asked(body.as_bytes()), None, "{body}");
        }
        assert_eq!(asked(b"<D:propfind xmlns:D='DAV:'>\xff</D:propfind>"), None);
    }

    #[test]
    fn a_body_asks_for_no_more_than_an_answer_can_repeat() {
        let body = |count| {
            let (space, names) = ("x".repeat(1000), "<n:a/>".repeat(count));
            format!("<propfind xmlns='DAV:' xmlns:n='{space}'><prop>{names}</prop></propfind>")
        };
        assert!(
            matches!(asked(body(60).as_bytes()), Some(Asked::Only(found)) if found.len() == 60)
        );
        assert_eq!(asked(body(70).as_bytes()), None);
        // As deep as a body can be.
        let deep = format!("<propfind xmlns='DAV:'><prop>{}", "<a>".repeat(20_000));
        assert_eq!(asked(deep.as_bytes()), None);
        let closed = "</a>".repeat(9_000);
        let deep = format!(
            "<propfind xmlns='DAV:'><prop>{}{closed}</prop></propfind>",
            "<a>".repeat(9_000)
        );
        assert!(matches!(asked(deep.as_bytes()), Some(Asked::Only(found)) if found.len() == 1));
    }
}
