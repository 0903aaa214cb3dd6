//! Names and times as text for people, and names as values for machines.
//!
//! A name may be any bytes, also such as move the cursor or turn the reading direction. On a
//! terminal these are escaped (`\n`, `\x1b`, `\u{202e}`, and `\\` for the backslash itself), in a
//! pipe names are written as they are. In JSON a name that is not UTF-8 is given in hexadecimal
//! under a key of its own, so that nothing is lost.

use serde_json::Value;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The name with everything escaped that a terminal would not show as itself. Different names
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

/// A message with everything escaped that a terminal would obey; what is escaped already stays as
/// it is. Error texts of other crates carry names as they are.
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

/// As [`escape`], for a path in an image, whose root has no name.
pub fn entry(path: &[u8]) -> String {
    match path.is_empty() {
        true => "the root directory".to_owned(),
        false => escape(path),
    }
}

/// As [`escape`], for a path of the command line or of an error.
pub fn path(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

/// The name as it goes to standard output.
pub fn shown(name: &[u8], raw: bool) -> Cow<'_, [u8]> {
    if raw { Cow::Borrowed(name) } else { Cow::Owned(escape(name).into_bytes()) }
}

/// Characters that show as themselves and do nothing else.
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

/// Puts `name` into a JSON object: as text under `key`, or as hexadecimal under `key_hex` if it is
/// not UTF-8.
pub fn put_name(object: &mut serde_json::Map<String, Value>, key: &str, name: &[u8]) {
    match std::str::from_utf8(name) {
        Ok(text) => object.insert(key.to_owned(), Value::from(text)),
        Err(_) => object.insert(format!("{key}_hex"), Value::from(hex(name))),
    };
}

/// What there is to say of each path, as a list of objects.
pub fn said_of<'a>(paths: impl Iterator<Item = (&'a [u8], String)>) -> Value {
    let object = |(path, what): (&[u8], String)| {
        let mut object = serde_json::Map::new();
        put_name(&mut object, "path", path);
        object.insert("what".to_owned(), what.into());
        Value::Object(object)
    };
    paths.map(object).collect()
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of an argument.
pub fn bytes(argument: &OsStr) -> &[u8] {
    argument.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_the_rest_is_not() {
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
