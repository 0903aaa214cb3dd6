//! Parses the words of a line of an mtree list: `keyword` or `keyword=value`, as in mtree(5) of the
//! BSDs and of libarchive.
//!
//! Errors say what was expected and what was found; the caller adds the line number.

use shale_format::inode::device_number;
use shale_format::limits::FILE_LEN_MAX;
use shale_format::{InodeKind, Timestamp};

use crate::listed::{check_target, number, octal, show};

/// Keywords that say nothing of an image, or whose value is not compared.
const PASSED_OVER: &[&[u8]] = &[
    b"cksum",
    b"ignore",
    b"md5",
    b"md5digest",
    b"nochange",
    b"rmd160",
    b"rmd160digest",
    b"ripemd160digest",
    b"sha1",
    b"sha1digest",
    b"sha384",
    b"sha384digest",
    b"sha512",
    b"sha512digest",
    b"tags",
];

/// An owner or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Who {
    Id(u32),
    Name(String),
}

/// What the words of an entry say, and those of `/set` before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Keywords {
    pub(super) kind: Option<InodeKind>,
    pub(super) permissions: Option<u32>,
    pub(super) owner: Option<Who>,
    pub(super) group: Option<Who>,
    pub(super) mtime: Option<Timestamp>,
    pub(super) len: Option<u64>,
    /// Target of a symbolic link.
    pub(super) target: Option<Vec<u8>>,
    /// The file that has the content, or other metadata that are not given.
    pub(super) contents: Option<Vec<u8>>,
    pub(super) device: Option<u64>,
    pub(super) sha256: Option<[u8; 32]>,
    /// Inode number, and the device that it is on.
    pub(super) inode: Option<u64>,
    pub(super) inode_device: Option<u64>,
    pub(super) name_count: Option<u64>,
    /// The entry is left out if its file does not exist.
    pub(super) is_optional: bool,
    /// It has BSD file flags.
    pub(super) has_flags: bool,
}

impl Keywords {
    /// Applies one word. Returns false if the keyword is not known.
    ///
    /// # Errors
    /// The value is wrong.
    pub(super) fn set(&mut self, word: &[u8]) -> Result<bool, String> {
        let (keyword, value) = match memchr::memchr(b'=', word) {
            Some(at) => (&word[..at], Some(&word[at + 1..])),
            None => (word, None),
        };
        let given = || value.ok_or_else(|| format!("expected a value, found only {}", show(word)));
        match keyword {
            b"type" => self.kind = Some(kind(given()?)?),
            b"mode" => self.permissions = Some(mode(given()?)?),
            b"uid" => self.owner = Some(Who::Id(id(given()?)?)),
            b"gid" => self.group = Some(Who::Id(id(given()?)?)),
            b"uname" => self.owner = Some(Who::Name(name(given()?)?)),
            b"gname" => self.group = Some(Who::Name(name(given()?)?)),
            b"time" => self.mtime = Some(time(given()?)?),
            b"size" => self.len = Some(len(given()?)?),
            b"link" => self.target = Some(target(given()?)?),
            b"contents" | b"content" => self.contents = Some(plain(given()?)?),
            b"device" => self.device = Some(device(given()?)?),
            b"sha256" | b"sha256digest" => self.sha256 = Some(digest(given()?)?),
            b"inode" => self.inode = Some(count(given()?)?),
            b"resdevice" => self.inode_device = Some(device(given()?)?),
            b"nlink" => self.name_count = Some(count(given()?)?),
            b"optional" => self.is_optional = true,
            b"flags" => self.has_flags = !matches!(given()?, b"none" | b"-" | b""),
            _ => return Ok(PASSED_OVER.contains(&keyword)),
        }
        Ok(true)
    }

    /// Forgets what a word of `/set` said.
    pub(super) fn unset(&mut self, keyword: &[u8]) {
        match keyword {
            b"all" => *self = Self::default(),
            b"type" => self.kind = None,
            b"mode" => self.permissions = None,
            b"uid" | b"uname" => self.owner = None,
            b"gid" | b"gname" => self.group = None,
            b"time" => self.mtime = None,
            b"size" => self.len = None,
            b"link" => self.target = None,
            b"contents" | b"content" => self.contents = None,
            b"device" => self.device = None,
            b"sha256" | b"sha256digest" => self.sha256 = None,
            b"inode" => self.inode = None,
            b"resdevice" => self.inode_device = None,
            b"nlink" => self.name_count = None,
            b"optional" => self.is_optional = false,
            b"flags" => self.has_flags = false,
            _ => {}
        }
    }
}

fn kind(value: &[u8]) -> Result<InodeKind, String> {
    Ok(match value {
        b"file" => InodeKind::File,
        b"dir" => InodeKind::Directory,
        b"link" => InodeKind::Symlink,
        b"block" => InodeKind::BlockDevice,
        b"char" => InodeKind::CharDevice,
        b"fifo" => InodeKind::Fifo,
        b"socket" => InodeKind::Socket,
        _ => {
            let found = show(value);
            return Err(format!(
                "expected type file, dir, link, block, char, fifo or socket, found {found}"
            ));
        }
    })
}

fn mode(value: &[u8]) -> Result<u32, String> {
    // It may have the bits of the type, too.
    octal(value)
        .map(|mode| mode & 0o7777)
        .ok_or_else(|| format!("expected an octal mode, found {}", show(value)))
}

fn id(value: &[u8]) -> Result<u32, String> {
    number(value)
        .ok_or_else(|| format!("expected a number from 0 to 4294967295, found {}", show(value)))
}

fn count(value: &[u8]) -> Result<u64, String> {
    number(value).ok_or_else(|| format!("expected a number, found {}", show(value)))
}

fn len(value: &[u8]) -> Result<u64, String> {
    number(value)
        .filter(|&len| len <= FILE_LEN_MAX)
        .ok_or_else(|| format!("expected a size in bytes, found {}", show(value)))
}

fn name(value: &[u8]) -> Result<String, String> {
    String::from_utf8(plain(value)?).map_err(|_| format!("expected a name, found {}", show(value)))
}

fn target(value: &[u8]) -> Result<Vec<u8>, String> {
    let target = plain(value)?;
    check_target(&target)?;
    Ok(target)
}

/// Seconds since 1970. After a dot come nanoseconds, as a number and not as decimals: mtree(8) pads
/// them with zeroes, libarchive does not.
fn time(value: &[u8]) -> Result<Timestamp, String> {
    let wrong = || {
        let found = show(value);
        format!("expected a time as SECONDS.NANOSECONDS since 1970, found {found}")
    };
    let (is_negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let (seconds, nanoseconds) = match memchr::memchr(b'.', digits) {
        Some(dot) => (&digits[..dot], &digits[dot + 1..]),
        None => (digits, &b"0"[..]),
    };
    let sec: i64 = number(seconds).ok_or_else(wrong)?;
    let nsec = number(nanoseconds).filter(|&nsec| nsec < 1_000_000_000).ok_or_else(wrong)?;
    Ok(Timestamp { sec: if is_negative { -sec } else { sec }, nsec })
}

/// `FORMAT,MAJOR,MINOR`. The format says how a system packs both into one number, which does not
/// matter as they are given.
fn device(value: &[u8]) -> Result<u64, String> {
    let mut parts = value.split(|&byte| byte == b',').skip(1);
    let mut part = || parts.next().and_then(number);
    match (part(), part(), parts.next()) {
        (Some(major), Some(minor), None) => Ok(device_number(major, minor)),
        _ => Err(format!("expected a device as FORMAT,MAJOR,MINOR, found {}", show(value))),
    }
}

fn digest(value: &[u8]) -> Result<[u8; 32], String> {
    let digits = value.strip_prefix(b"0x").unwrap_or(value);
    std::str::from_utf8(digits)
        .ok()
        .and_then(shale_format::hex::decode)
        .ok_or_else(|| format!("expected 64 hexadecimal digits, found {}", show(value)))
}

/// The byte that `^` and a sign stand for in vis(3).
fn control(sign: u8) -> u8 {
    if sign == b'?' { 0x7f } else { sign & 0x1f }
}

/// Resolves the escapes of vis(3) that mtree(8) and libarchive write: octal, those of C, `\s`, and
/// `\^C`, `\M-C` and `\M^C` for control characters and bytes from 128 on.
///
/// # Errors
/// What was expected, and what was found.
pub(super) fn plain(value: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let (resolved, len) = match rest {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), 3)
            }
            [b'M', b'-', sign, ..] => (sign | 0x80, 3),
            [b'M', b'^', sign, ..] => (control(*sign) | 0x80, 3),
            [b'^', sign, ..] => (control(*sign), 2),
            [b'0', ..] => (0, 1),
            [b'a', ..] => (7, 1),
            [b'b', ..] => (8, 1),
            [b'f', ..] => (12, 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b's', ..] => (b' ', 1),
            [b't', ..] => (b'\t', 1),
            [b'v', ..] => (11, 1),
            [sign, ..] if sign.is_ascii_punctuation() => (*sign, 1),
            _ => {
                let found = show(value);
                return Err(format!("expected an escape such as \\040 or \\\\, found {found}"));
            }
        };
        out.push(resolved);
        rest = &rest[len..];
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keywords(words: &str) -> Result<Keywords, String> {
        let mut keywords = Keywords::default();
        for word in words.split(' ') {
            assert!(keywords.set(word.as_bytes())?, "{word}");
        }
        Ok(keywords)
    }

    #[test]
    fn values_are_those_of_mtree_and_of_libarchive() {
        let found = keywords("type=file mode=0104755 uname=root gid=5 time=7.5 size=12").unwrap();
        assert_eq!(found.kind, Some(InodeKind::File));
        assert_eq!(found.permissions, Some(0o4755));
        assert_eq!(found.owner, Some(Who::Name("root".to_owned())));
        assert_eq!(found.group, Some(Who::Id(5)));
        assert_eq!(found.mtime, Some(Timestamp { sec: 7, nsec: 5 }));
        assert_eq!(found.len, Some(12));
        let nanoseconds = keywords("time=-7.000000500").unwrap().mtime;
        assert_eq!(nanoseconds, Some(Timestamp { sec: -7, nsec: 500 }));
        assert_eq!(keywords("device=linux,8,1").unwrap().device, Some(8 << 32 | 1));
        assert_eq!(keywords("link=a\\040\\\\b\\#").unwrap().target.unwrap(), b"a \\b#");
        let odd = keywords("link=\\^[\\M^?\\M-C\\M^A\\^?\\s").unwrap().target.unwrap();
        assert_eq!(odd, b"\x1b\xff\xc3\x81\x7f ");
        // A later word counts, also if it names the owner in another way.
        assert_eq!(keywords("uname=x uid=7").unwrap().owner, Some(Who::Id(7)));
        assert!(!keywords("flags=none").unwrap().has_flags);
        assert!(keywords("flags=uchg nochange tags=a md5=0").unwrap().has_flags);
        assert!(!Keywords::default().set(b"colour=red").unwrap());
    }

    #[test]
    fn what_is_set_can_be_unset() {
        let all = "type=dir mode=0 uid=1 gid=1 time=1 size=1 link=x contents=x device=n,1,1 \
                   inode=1 resdevice=n,1,1 nlink=1 optional flags=x";
        let mut found = keywords(all).unwrap();
        for word in all.split(' ') {
            found.unset(word.split('=').next().unwrap().as_bytes());
        }
        assert_eq!(found, Keywords::default());
        let mut found = keywords(all).unwrap();
        found.unset(b"all");
        assert_eq!(found, Keywords::default());
    }

    #[test]
    fn wrong_values_say_what_was_expected() {
        for (word, expected) in [
            ("type=door", "expected type file, dir"),
            ("type", "expected a value"),
            ("mode=u+x", "an octal mode"),
            ("mode=", "an octal mode"),
            ("uid=-1", "a number from 0"),
            ("gid=4294967296", "a number from 0"),
            ("time=1e9", "SECONDS.NANOSECONDS"),
            ("time=1.1000000000", "SECONDS.NANOSECONDS"),
            ("size=9223372036854775808", "a size in bytes"),
            ("link=", "1 to 4095 bytes"),
            ("link=a\\000", "without NUL"),
            ("device=5", "FORMAT,MAJOR,MINOR"),
            ("device=linux,5,1,2", "FORMAT,MAJOR,MINOR"),
            ("sha256=12", "64 hexadecimal digits"),
            ("contents=a\\q", "an escape such as"),
            ("contents=a\\", "an escape such as"),
            ("uname=\\377", "a name"),
        ] {
            let error = keywords(word).unwrap_err();
            assert!(error.contains(expected), "{word}: {error}");
        }
    }
}
