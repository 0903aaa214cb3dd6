//! Names for terminals and for JSON.
//!
//! A name can be any bytes, including characters that move the cursor or change the reading
//! direction. On a terminal they are escaped (`\n`, `\x1b`, `\u{202e}`, and `\\` for the backslash
//! itself); in a pipe names are written unchanged. In JSON, a name that is not UTF-8 is written in
//! hexadecimal under a key of its own, so that no information is lost.

use serde_json::Value;
use shale::hex;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Escapes the characters of a name that a terminal would not show as themselves. Different names
/// give different texts.
pub fn escape(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                _ if is_plain(char) => out.push(char),
                _ if char.is_ascii() => out.push_str(&format!("\\x{:02x}", u32::from(char))),
                _ => out.push_str(&format!("\\u{{{:x}}}", u32::from(char))),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Escapes the control characters of a message. Backslashes stay, so existing escapes are not
/// escaped again. Error messages of other crates contain names unescaped.
pub fn safe(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for char in message.chars() {
        match char {
            _ if is_plain(char) => out.push(char),
            _ if char.is_ascii() => out.push_str(&format!("\\x{:02x}", u32::from(char))),
            _ => out.push_str(&format!("\\u{{{:x}}}", u32::from(char))),
        }
    }
    out
}

/// Like [`escape`], for a path in an image; the empty path is the root directory.
pub fn entry(path: &[u8]) -> String {
    match path.is_empty() {
        true => "the root directory".to_owned(),
        false => escape(path),
    }
}

/// Like [`escape`], for a path of the file system.
pub fn path(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

/// Quotes a path for a shell, so that it is not taken for an option either.
pub fn quoted(path: &Path) -> String {
    let mut name = escape(path.as_os_str().as_bytes());
    if name.starts_with('-') {
        name.insert_str(0, "./");
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(&byte);
    if name.bytes().all(is_plain) {
        return name;
    }
    // An escaped byte needs the quotes in which the shell resolves escapes.
    match name.contains('\\') {
        true => format!("$'{}'", name.replace('\'', "\\'")),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

/// The name as standard output shows it: unchanged or escaped.
pub fn shown(name: &[u8], raw: bool) -> Cow<'_, [u8]> {
    if raw { Cow::Borrowed(name) } else { Cow::Owned(escape(name).into_bytes()) }
}

/// Checks that a character only shows as itself and has no other effect.
fn is_plain(char: char) -> bool {
    let code = u32::from(char);
    !(char.is_control()
        // Zero-width and joining characters, marks and overrides of direction, line separators.
        || (0x200b..=0x200f).contains(&code)
        || (0x2028..=0x202e).contains(&code)
        || (0x2060..=0x206f).contains(&code)
        || code == 0xfeff
        // Private use, interlinear annotations, tags.
        || (0xe000..=0xf8ff).contains(&code)
        || (0xfff9..=0xfffb).contains(&code)
        || code >= 0xe0000)
}

/// Adds `name` to a JSON object: as text under `key`, or in hexadecimal under `key_hex` if it is
/// not UTF-8.
pub fn put_name(object: &mut serde_json::Map<String, Value>, key: &str, name: &[u8]) {
    match std::str::from_utf8(name) {
        Ok(text) => object.insert(key.to_owned(), Value::from(text)),
        Err(_) => object.insert(format!("{key}_hex"), Value::from(hex::encode(name))),
    };
}

/// Turns pairs of a path and a message into a list of JSON objects.
pub fn path_messages<'a>(paths: impl Iterator<Item = (&'a [u8], String)>) -> Value {
    let object = |(path, what): (&[u8], String)| {
        let mut object = serde_json::Map::new();
        put_name(&mut object, "path", path);
        object.insert("what".to_owned(), what.into());
        Value::Object(object)
    };
    paths.map(object).collect()
}

/// The bytes of an argument.
pub fn bytes(argument: &OsStr) -> &[u8] {
    argument.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_others_are_not() {
        assert_eq!(escape(b"plain name.txt"), "plain name.txt");
        assert_eq!(escape("\u{e9}\u{6f22}".as_bytes()), "\u{e9}\u{6f22}");
        assert_eq!(escape(b"a\nb\x1b[31m\x7f"), "a\\nb\\x1b[31m\\x7f");
        assert_eq!(escape(b"caf\xe9"), "caf\\xe9");
        assert_eq!(escape("x\u{202e}gpj".as_bytes()), "x\\u{202e}gpj");
        assert_eq!(escape("\u{9b}2J".as_bytes()), "\\u{9b}2J");
        assert_ne!(escape(b"\\n"), escape(b"\n"));
        assert_eq!(safe("cannot open a\x1b[2J: \\x1b\n"), "cannot open a\\x1b[2J: \\x1b\\x0a");
    }

    #[test]
    fn json_keeps_names_that_are_not_utf8() {
        let mut object = serde_json::Map::new();
        put_name(&mut object, "name", b"a");
        put_name(&mut object, "target", b"\xff\x00");
        assert_eq!(object["name"], "a");
        assert_eq!(object["target_hex"], "ff00");
    }
}
