//! Bytes of a terminal as keys.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// A letter with Ctrl.
    Ctrl(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
}

/// Parses keys. Sequences that are not known, and what follows a sequence that is cut, are left
/// out.
pub fn parse(bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let key = match first {
            0x1b => match sequence(rest) {
                None => Some(Key::Escape),
                Some((key, len)) => {
                    rest = &rest[len..];
                    key
                }
            },
            b'\r' | b'\n' => Some(Key::Enter),
            0x7f | 0x08 => Some(Key::Backspace),
            0x01..=0x1a => Some(Key::Ctrl(char::from(first - 1 + b'a'))),
            ..0x20 => None,
            _ => {
                let len = (1..=4).find(|&len| {
                    let all = bytes.len() - rest.len() - 1;
                    bytes.get(all..all + len).is_some_and(|part| str::from_utf8(part).is_ok())
                });
                let start = bytes.len() - rest.len() - 1;
                len.and_then(|len| {
                    rest = &bytes[start + len..];
                    str::from_utf8(&bytes[start..start + len]).ok()?.chars().next().map(Key::Char)
                })
            }
        };
        keys.extend(key);
    }
    keys
}

/// The key of a sequence after ESC, and its length; `None` if ESC is a key of its own.
fn sequence(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let is_function = match bytes.first()? {
        b'[' => false,
        b'O' => true,
        _ => return None,
    };
    let end = match is_function {
        true => 1,
        false => 1 + bytes[1..].iter().position(|byte| (0x40..=0x7e).contains(byte))?,
    };
    let last = *bytes.get(end)?;
    let number = str::from_utf8(&bytes[1..end]).unwrap_or_default();
    let number = number.split(';').next().unwrap_or_default();
    let key = match (last, number) {
        (b'A', _) => Some(Key::Up),
        (b'B', _) => Some(Key::Down),
        (b'C', _) => Some(Key::Right),
        (b'D', _) => Some(Key::Left),
        (b'H', _) | (b'~', "1" | "7") => Some(Key::Home),
        (b'F', _) | (b'~', "4" | "8") => Some(Key::End),
        (b'~', "5") => Some(Key::PageUp),
        (b'~', "6") => Some(Key::PageDown),
        (b'M', _) if is_function => Some(Key::Enter),
        _ => None,
    };
    Some((key, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_sequences_of_usual_terminals_are_parsed() {
        let expected = [
            (&b"a\xc3\xa9\xe6\xbc\xa2"[..], vec![Key::Char('a'), Key::Char('é'), Key::Char('漢')]),
            (b"\x1b[A\x1bOB\x1b[1;5C", vec![Key::Up, Key::Down, Key::Right]),
            (b"\x1b[5~\x1b[6~\x1b[1~\x1b[F", vec![Key::PageUp, Key::PageDown, Key::Home, Key::End]),
            (b"\x1b", vec![Key::Escape]),
            (b"\x1bq", vec![Key::Escape, Key::Char('q')]),
            (b"\r\x7f\x03", vec![Key::Enter, Key::Backspace, Key::Ctrl('c')]),
            // Not known, and not UTF-8.
            (b"\x1b[99~\x1b[<0;1;2M\x00\xffx", vec![Key::Char('x')]),
        ];
        for (bytes, keys) in expected {
            assert_eq!(parse(bytes), keys, "{}", bytes.escape_ascii());
        }
    }
}
