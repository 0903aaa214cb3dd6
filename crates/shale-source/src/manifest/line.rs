//! Parses one line of a manifest. `docs/manifest.md` is the specification.
//!
//! The parser knows nothing of files, and of other lines only the fields of the last entry, which
//! `=` repeats. Errors say what was expected and what was found; the caller adds the line number.

use shale_format::inode::device_number;
use shale_format::limits::FILE_LEN_MAX;
use shale_format::{InodeKind, Timestamp};

use crate::listed::{Given, check_path, check_target, number, octal, show};

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// A regular file of this length that is one hole.
    Len(u64),
    /// A regular file with the content of another file.
    ContentOf(Vec<u8>),
    /// A directory, fifo or socket.
    Kind(InodeKind),
    /// A symbolic link and its target.
    Symlink(Vec<u8>),
    /// A device and its number.
    Device(InodeKind, u64),
}

/// Parses the line of an entry, without its end. Fills `given` and the path; returns the other
/// fields and the number that the names of one inode share.
///
/// # Errors
/// What was expected, and what was found.
pub fn parse(
    line: &[u8],
    given: &mut Given,
    path: &mut Vec<u8>,
) -> Result<(Detail, Option<u64>), String> {
    let mut rest = line;
    let kind_and_link = field(&mut rest, "a type")?;
    let (kind, link) = match kind_and_link {
        [kind, b'#', digits @ ..] if *kind != b'd' => match number(digits) {
            None => return Err(format!("expected a number after `#`, found {}", show(digits))),
            link => (std::slice::from_ref(kind), link),
        },
        kind => (kind, None),
    };
    given.permissions = match field(&mut rest, "a mode")? {
        b"=" => given.permissions,
        field => mode(field)?,
    };
    given.uid = match field(&mut rest, "an owner")? {
        b"=" => given.uid,
        uid => id(uid, "an owner")?,
    };
    given.gid = match field(&mut rest, "a group")? {
        b"=" => given.gid,
        gid => id(gid, "a group")?,
    };
    given.mtime = match field(&mut rest, "a time")? {
        b"=" => given.mtime,
        time => timestamp(time)?,
    };
    let detail = field(&mut rest, "a size, target or `-`")?;
    take_path(rest, path)?;
    let none = |kind| match detail {
        b"-" => Ok(Detail::Kind(kind)),
        _ => {
            Err(format!("expected `-` as this type has no size or target, found {}", show(detail)))
        }
    };
    let detail = match kind {
        b"f" => match detail {
            [b'@', file @ ..] if !file.is_empty() => Ok(Detail::ContentOf(plain(file)?)),
            _ => match number(detail) {
                Some(len) if len <= FILE_LEN_MAX => Ok(Detail::Len(len)),
                _ => Err(format!("expected a size in bytes or @FILE, found {}", show(detail))),
            },
        },
        b"d" => none(InodeKind::Directory),
        b"p" => none(InodeKind::Fifo),
        b"s" => none(InodeKind::Socket),
        b"l" => {
            let target = plain(detail)?;
            check_target(&target)?;
            Ok(Detail::Symlink(target))
        }
        b"b" => device(detail).map(|number| Detail::Device(InodeKind::BlockDevice, number)),
        b"c" => device(detail).map(|number| Detail::Device(InodeKind::CharDevice, number)),
        _ => Err(format!(
            "expected a type: f, d, l, c, b, p or s (or x for an attribute), found {}",
            show(kind_and_link)
        )),
    };
    detail.map(|detail| (detail, link))
}

/// Parses the line of an extended attribute, without its `x `, into name and value.
///
/// # Errors
/// What was expected, and what was found.
pub fn parse_xattr(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let mut rest = line;
    let name = plain(field(&mut rest, "the name of an attribute")?)?;
    Ok((name, plain(rest)?))
}

/// Returns the bytes up to the next space, which must exist.
fn field<'l>(rest: &mut &'l [u8], what: &str) -> Result<&'l [u8], String> {
    let line = *rest;
    match line.iter().position(|&byte| byte == b' ') {
        Some(end) if end > 0 => {
            *rest = &line[end + 1..];
            Ok(&line[..end])
        }
        Some(_) => Err(format!("expected {what}, found a second space")),
        None if line.is_empty() => Err(format!("expected {what}, found the end of the line")),
        None => Err(format!("expected {what} and then more, found only {}", show(line))),
    }
}

/// Parses the path of an entry; `.` is the root.
fn take_path(field: &[u8], path: &mut Vec<u8>) -> Result<(), String> {
    path.clear();
    if field == b"." {
        return Ok(());
    }
    if memchr::memchr(b'\\', field).is_some() {
        path.extend_from_slice(&plain(field)?);
    } else {
        path.extend_from_slice(field);
    }
    check_path(path)
}

fn mode(field: &[u8]) -> Result<u32, String> {
    octal(field)
        .filter(|&mode| mode <= 0o7777)
        .ok_or_else(|| format!("expected an octal mode up to 7777 or `=`, found {}", show(field)))
}

fn id(field: &[u8], what: &str) -> Result<u32, String> {
    number(field).ok_or_else(|| {
        format!("expected {what} from 0 to 4294967295 or `=`, found {}", show(field))
    })
}

fn timestamp(field: &[u8]) -> Result<Timestamp, String> {
    let wrong = || {
        format!(
            "expected a time in seconds since 1970 with up to nine decimals or `=`, found {}",
            show(field)
        )
    };
    let (is_negative, digits) = match field {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let (seconds, fraction) = match digits.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&digits[..dot], &digits[dot + 1..]),
        None => (digits, &b"0"[..]),
    };
    let sec: i64 = number(seconds).ok_or_else(wrong)?;
    if fraction.is_empty() || fraction.len() > 9 {
        return Err(wrong());
    }
    let missing = 9 - fraction.len() as u32;
    let nsec = number::<u32>(fraction).ok_or_else(wrong)? * 10u32.pow(missing);
    // Seconds are rounded down: -0.25 is a quarter of a second before 1970.
    Ok(match (is_negative, nsec) {
        (false, _) => Timestamp { sec, nsec },
        (true, 0) => Timestamp { sec: -sec, nsec },
        (true, _) => Timestamp { sec: -sec - 1, nsec: 1_000_000_000 - nsec },
    })
}

fn device(field: &[u8]) -> Result<u64, String> {
    let colon = field.iter().position(|&byte| byte == b':');
    let parts = colon.and_then(|colon| number(&field[..colon]).zip(number(&field[colon + 1..])));
    parts
        .map(|(major, minor)| device_number(major, minor))
        .ok_or_else(|| format!("expected MAJOR:MINOR, found {}", show(field)))
}

/// Resolves the escapes `\\`, `\n`, `\t` and `\xHH`.
fn plain(field: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(field.len());
    let mut bytes = field.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next() {
            Some(b'\\') => b'\\',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'x') => {
                let mut digit = || bytes.next().and_then(|&digit| (digit as char).to_digit(16));
                match digit().zip(digit()) {
                    Some((high, low)) => (high << 4 | low) as u8,
                    None => return Err(r"expected two hexadecimal digits after \x".to_owned()),
                }
            }
            _ => return Err(r"expected \\, \n, \t or \xHH after a backslash".to_owned()),
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<(Detail, Given, String), String> {
        let mut given = Given::default();
        let mut path = Vec::new();
        let (detail, link) = parse(line.as_bytes(), &mut given, &mut path)?;
        assert_eq!(link, line.contains('#').then_some(7));
        Ok((detail, given, String::from_utf8(path).unwrap()))
    }

    #[test]
    fn every_type_is_understood() {
        let (detail, given, path) = parsed("f 4755 1000 100 1.5 12 a b/c").unwrap();
        assert_eq!((detail, path.as_str()), (Detail::Len(12), "a b/c"));
        let mtime = Timestamp { sec: 1, nsec: 500_000_000 };
        assert_eq!(given, Given { permissions: 0o4755, uid: 1000, gid: 100, mtime });
        let details = [
            ("f 0 0 0 0 @x\\x20y p", Detail::ContentOf(b"x y".to_vec())),
            ("d 0 0 0 0 - .", Detail::Kind(InodeKind::Directory)),
            ("p 0 0 0 0 - p", Detail::Kind(InodeKind::Fifo)),
            ("s 0 0 0 0 - p", Detail::Kind(InodeKind::Socket)),
            (r"l 0 0 0 0 to\n\\ p", Detail::Symlink(b"to\n\\".to_vec())),
            ("f#7 0 0 0 0 1 p", Detail::Len(1)),
            ("c 0 0 0 0 1:3 p", Detail::Device(InodeKind::CharDevice, 1 << 32 | 3)),
            ("b 0 0 0 0 8:1 p", Detail::Device(InodeKind::BlockDevice, 8 << 32 | 1)),
        ];
        for (line, detail) in details {
            assert_eq!(parsed(line).unwrap().0, detail, "{line}");
        }
        let times = [("-1", (-1, 0)), ("-0.25", (-1, 750_000_000)), ("7.000000001", (7, 1))];
        for (text, (sec, nsec)) in times {
            let mtime = parsed(&format!("d 0 0 0 {text} - p")).unwrap().1.mtime;
            assert_eq!(mtime, Timestamp { sec, nsec }, "{text}");
        }
    }

    #[test]
    fn an_equals_sign_repeats_the_line_before() {
        let mut given = Given { permissions: 0o600, uid: 3, gid: 4, ..Given::default() };
        let before = given;
        parse(b"f = = = = 0 x", &mut given, &mut Vec::new()).unwrap();
        assert_eq!(given, before);
    }

    #[test]
    fn wrong_lines_say_what_was_expected() {
        let long_name = format!("d 0 0 0 0 - {}", "n".repeat(256));
        let long_path = format!("d 0 0 0 0 - {}", ["d"; 2049].join("/"));
        let wrong = [
            ("", "expected a type"),
            ("f", "expected a type and then more"),
            ("q 0 0 0 0 - p", "expected a type: f, d"),
            ("f 8 0 0 0 0 p", "octal mode"),
            ("f 17777 0 0 0 0 p", "octal mode"),
            ("f 0 -1 0 0 0 p", "an owner from 0"),
            ("f 0 0 4294967296 0 0 p", "a group from 0"),
            ("f 0 0 0 1e9 0 p", "a time in seconds"),
            ("f 0 0 0 1.0000000001 0 p", "a time in seconds"),
            ("f 0 0 0 0 -1 p", "a size in bytes"),
            ("f 0 0 0 0 9223372036854775808 p", "a size in bytes"),
            ("f 0 0 0 0 @ p", "a size in bytes"),
            ("d#7 0 0 0 0 - p", "expected a type"),
            ("f# 0 0 0 0 0 p", "a number after"),
            ("d 0 0 0 0 0 p", "expected `-`"),
            ("c 0 0 0 0 1 p", "MAJOR:MINOR"),
            ("f  0 0 0 0 0 p", "found a second space"),
            ("f 0 0 0 0 0", "found only `0`"),
            ("f 0 0 0 0 0 ", "expected a path, found none"),
            ("f 0 0 0 0 0 /p", "without empty names"),
            ("f 0 0 0 0 0 p/", "without empty names"),
            ("f 0 0 0 0 0 p//q", "without empty names"),
            ("f 0 0 0 0 0 p/../q", "without `.` and `..`"),
            ("f 0 0 0 0 0 p\\x00", "without NUL"),
            ("f 0 0 0 0 0 p\\", "after a backslash"),
            ("f 0 0 0 0 0 p\\x0", "two hexadecimal digits"),
            (&long_name, "at most 255 bytes, found 256"),
            (&long_path, "at most 4095 bytes, found 4097"),
        ];
        for (line, expected) in wrong {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
