//! Extended headers of PAX: records of a length, a name and a value.
//!
//! A record's length counts its own digits, so values may hold anything, line ends too. Records of
//! the same name replace each other, the last one wins; a global header is a base for all entries
//! after it.

use crate::base64;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use shale_format::Timestamp;

/// What extended headers say of an entry.
#[derive(Debug, Clone, Default)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link_path: Option<Vec<u8>>,
    pub(super) stored_len: Option<u64>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) mtime: Option<Timestamp>,
    pub(super) atime: Option<Timestamp>,
    pub(super) ctime: Option<Timestamp>,
    pub(super) btime: Option<Timestamp>,
    pub(super) device_major: Option<u32>,
    pub(super) device_minor: Option<u32>,
    /// By full name.
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) acl_access: Option<Vec<u8>>,
    pub(super) acl_default: Option<Vec<u8>>,
    /// A list of NFSv4, which Linux file systems cannot hold.
    pub(super) has_nfs4_acl: bool,
    pub(super) sparse: SparseRecords,
    /// It is a piece of a file that began in another volume.
    pub(super) is_continued: bool,
    /// Any local record was met.
    pub(super) is_local: bool,
}

/// What is said of holes, in the three ways of GNU and the one of star.
#[derive(Debug, Clone, Default)]
pub(super) struct SparseRecords {
    pub(super) major: Option<u64>,
    pub(super) minor: Option<u64>,
    pub(super) name: Option<Vec<u8>>,
    pub(super) real_len: Option<u64>,
    /// Offsets and lengths in turn.
    pub(super) numbers: Vec<u64>,
    /// A map was given, if an empty one.
    pub(super) has_map: bool,
}

/// Numbers of one map; more would be more memory than maps are worth.
pub(super) const MAP_NUMBERS_MAX: usize = 4 << 20;

impl Pax {
    /// Adds the list in a header of Solaris: a number in octal, which says the kind and how many
    /// entries there are, a zero, and the entries between commas.
    ///
    /// # Errors
    /// The header is corrupt.
    pub(super) fn add_solaris_acl(&mut self, bytes: &[u8]) -> Result<(), String> {
        const COUNT_MASK: u64 = 0o777_777;
        const POSIX: u64 = 0o1_000_000;
        const NFS4: u64 = 0o3_000_000;
        let corrupt = || "corrupt: an access control list of Solaris that is none".to_owned();
        let mut parts = bytes.split(|&byte| byte == 0);
        let number = parts.next().and_then(|number| std::str::from_utf8(number).ok());
        let number = number.and_then(|number| u64::from_str_radix(number.trim(), 8).ok());
        let number = number.ok_or_else(corrupt)?;
        let text = parts.next().ok_or_else(corrupt)?;
        match number & !COUNT_MASK {
            NFS4 => self.has_nfs4_acl = true,
            POSIX => {
                let (mut access, mut default) = (Vec::new(), Vec::new());
                for entry in text.split(|&byte| byte == b',') {
                    let (to, entry) = match entry.strip_prefix(b"default") {
                        Some(rest) => (&mut default, rest.strip_prefix(b":").unwrap_or(rest)),
                        None => (&mut access, entry),
                    };
                    if !to.is_empty() {
                        to.push(b',');
                    }
                    to.extend_from_slice(entry);
                }
                self.acl_access = Some(access).filter(|text| !text.is_empty());
                self.acl_default = Some(default).filter(|text| !text.is_empty());
            }
            _ => return Err(corrupt()),
        }
        Ok(())
    }

    /// Bytes that a copy takes, about.
    pub(super) fn kept_len(&self) -> usize {
        let texts = [&self.path, &self.link_path, &self.acl_access, &self.acl_default];
        let texts = texts.into_iter().chain([&self.sparse.name]).flatten().map(Vec::len);
        let xattrs = self.xattrs.iter().map(|(name, value)| name.len() + value.len());
        texts.sum::<usize>() + xattrs.sum::<usize>() + self.sparse.numbers.len() * 8
    }

    /// Adds the records of one extended header.
    pub(super) fn add(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        let mut own_numbers = false;
        while !bytes.is_empty() {
            // Some writers fill the block with zero bytes and count them.
            if bytes.iter().all(|&byte| byte == 0) {
                break;
            }
            let (name, value, rest) = record(bytes)?;
            bytes = rest;
            // Offsets and lengths come one record each; those of an earlier header are replaced.
            if name == b"GNU.sparse.offset" && !own_numbers {
                own_numbers = true;
                self.sparse.numbers.clear();
            }
            let set = self.set(name, value);
            set.map_err(|what| format!("extended header `{}` {what}", name.escape_ascii()))?;
        }
        Ok(())
    }

    fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        match name {
            b"path" => self.path = text(value),
            b"linkpath" => self.link_path = text(value),
            b"size" => self.stored_len = number(value)?,
            b"uid" => self.uid = id(value)?,
            b"gid" => self.gid = id(value)?,
            b"mtime" => self.mtime = time(value)?,
            b"atime" => self.atime = time(value)?,
            b"ctime" => self.ctime = time(value)?,
            b"LIBARCHIVE.creationtime" => self.btime = time(value)?,
            b"SCHILY.devmajor" => self.device_major = id(value)?,
            b"SCHILY.devminor" => self.device_minor = id(value)?,
            b"SCHILY.realsize" => self.sparse.real_len = number(value)?,
            b"SCHILY.acl.access" => self.acl_access = text(value),
            b"SCHILY.acl.default" => self.acl_default = text(value),
            b"SCHILY.acl.ace" => self.has_nfs4_acl = !value.is_empty(),
            b"RHT.security.selinux" => {
                self.xattrs.insert(b"security.selinux".to_vec(), selinux(value));
            }
            b"GNU.sparse.major" => self.sparse.major = number(value)?,
            b"GNU.sparse.minor" => self.sparse.minor = number(value)?,
            b"GNU.sparse.name" => self.sparse.name = text(value),
            b"GNU.sparse.realsize" | b"GNU.sparse.size" => self.sparse.real_len = number(value)?,
            b"GNU.sparse.numblocks" => self.sparse.has_map = true,
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => {
                self.sparse.has_map = true;
                self.push_number(number(value)?.unwrap_or(0))?;
            }
            b"GNU.sparse.map" => {
                self.sparse.has_map = true;
                self.sparse.numbers.clear();
                for part in value.split(|&byte| byte == b',').filter(|part| !part.is_empty()) {
                    self.push_number(number(part)?.unwrap_or(0))?;
                }
            }
            b"GNU.volume.offset" => self.is_continued = number(value)?.unwrap_or(0) > 0,
            _ => {
                if let Some(xattr) = name.strip_prefix(b"SCHILY.xattr.") {
                    let decoded = percent_decoded(xattr);
                    let name = match self.xattrs.contains_key(&decoded) {
                        true => decoded,
                        false => gnu_unquoted(xattr),
                    };
                    self.xattrs.insert(name, value.to_vec());
                } else if let Some(xattr) = name.strip_prefix(b"LIBARCHIVE.xattr.") {
                    // Where both ways were used, the other holds the bytes as they are, but
                    // libarchive quotes the names there, too.
                    let quoted = gnu_unquoted(xattr);
                    let xattr = percent_decoded(xattr);
                    if quoted != xattr
                        && let Some(value) = self.xattrs.remove(&quoted)
                    {
                        self.xattrs.insert(xattr.clone(), value);
                    }
                    if let Entry::Vacant(place) = self.xattrs.entry(xattr) {
                        place.insert(base64::decode(value).ok_or("is not base64")?);
                    }
                }
                // Names of owners, comments, flags of other systems and what is not known say
                // nothing that an image could keep.
            }
        }
        Ok(())
    }

    fn push_number(&mut self, number: u64) -> Result<(), &'static str> {
        if self.sparse.numbers.len() >= MAP_NUMBERS_MAX {
            return Err("has more than two million pieces of data");
        }
        self.sparse.numbers.push(number);
        Ok(())
    }
}

/// Name, value, and what follows.
type Record<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// The first record.
fn record(bytes: &[u8]) -> Result<Record<'_>, String> {
    let broken = || "an extended header has a record whose length is wrong".to_owned();
    let space = bytes.iter().take(20).position(|&byte| byte == b' ').ok_or_else(broken)?;
    let len = std::str::from_utf8(&bytes[..space]).ok().and_then(|text| text.parse().ok());
    let len: usize = len.ok_or_else(broken)?;
    if len <= space + 1 || len > bytes.len() || bytes[len - 1] != b'\n' {
        return Err(broken());
    }
    let body = &bytes[space + 1..len - 1];
    let equals = body.iter().position(|&byte| byte == b'=').ok_or_else(broken)?;
    Ok((&body[..equals], &body[equals + 1..], &bytes[len..]))
}

/// An empty value takes a record back.
fn text(value: &[u8]) -> Option<Vec<u8>> {
    (!value.is_empty()).then(|| value.to_vec())
}

fn number(value: &[u8]) -> Result<Option<u64>, &'static str> {
    let Some(value) = text(value) else { return Ok(None) };
    let number = std::str::from_utf8(&value).ok().and_then(|text| text.parse::<u64>().ok());
    number.filter(|&number| number <= i64::MAX as u64).map(Some).ok_or("is not a number of 63 bits")
}

fn id(value: &[u8]) -> Result<Option<u32>, &'static str> {
    let number = number(value)?;
    number.map(|number| u32::try_from(number).map_err(|_| "is a number beyond 32 bits")).transpose()
}

/// Decimal seconds with a fraction, perhaps negative; digits beyond nanoseconds are dropped. Python
/// writes the shortest and the longest numbers with a power of ten after an `e`.
fn time(value: &[u8]) -> Result<Option<Timestamp>, &'static str> {
    const WRONG: &str = "is not a time";
    const BEYOND: &str = "is a time beyond 63 bits of seconds";
    if value.is_empty() {
        return Ok(None);
    }
    let (negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let (digits, power) = match digits.iter().position(|&byte| byte == b'e') {
        Some(at) => (&digits[..at], power_of_ten(&digits[at + 1..]).ok_or(WRONG)?),
        None => (digits, 0),
    };
    let point = digits.iter().position(|&byte| byte == b'.' || byte == b',');
    let (whole, fraction) = match point {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &[][..]),
    };
    if whole.len() + fraction.len() == 0 || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return Err(WRONG);
    }
    // The digit at each place, counted from the point on.
    let digits = [whole, fraction].concat();
    let point = whole.len() as i64 + power;
    let digit = |place: i64| {
        let at = usize::try_from(point + place).ok();
        at.and_then(|at| digits.get(at)).map_or(0, |byte| byte - b'0')
    };
    let mut sec: i64 = 0;
    for place in -point.max(0)..0 {
        let digit = i64::from(digit(place));
        // Downwards, where there is one number more.
        sec = sec.checked_mul(10).and_then(|sec| sec.checked_sub(digit)).ok_or(BEYOND)?;
    }
    let nsec = (0..9).fold(0, |nsec, place| nsec * 10 + u32::from(digit(place)));
    Ok(Some(match (negative, nsec) {
        (false, nsec) => Timestamp { sec: sec.checked_neg().ok_or(BEYOND)?, nsec },
        (true, 0) => Timestamp { sec, nsec: 0 },
        (true, nsec) => {
            let sec = sec.checked_sub(1).ok_or(BEYOND)?;
            Timestamp { sec, nsec: 1_000_000_000 - nsec }
        }
    }))
}

/// What follows an `e`: more than any time needs is as good as wrong.
fn power_of_ten(value: &[u8]) -> Option<i64> {
    let power = std::str::from_utf8(value).ok()?.parse().ok()?;
    (-400..=400).contains(&power).then_some(power)
}

/// The kernel's labels end with a zero byte, the records without.
fn selinux(value: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    if value.last() != Some(&0) {
        value.push(0);
    }
    value
}

/// GNU tar writes `%3D` for `=` and `%25` for `%` in names, and nothing else so.
fn gnu_unquoted(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first() {
        (rest, _) = match (byte, after) {
            (b'%', [b'3', b'D', after @ ..]) => (after, out.push(b'=')),
            (b'%', [b'2', b'5', after @ ..]) => (after, out.push(b'%')),
            _ => (after, out.push(byte)),
        };
    }
    out
}

fn percent_decoded(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    let hex = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if let (b'%', [high, low, behind @ ..]) = (byte, after)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            out.push(high << 4 | low);
            rest = behind;
            continue;
        }
        out.push(byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(records: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in records {
            let body = [b" ", name.as_bytes(), b"=", value, b"\n"].concat();
            let mut len = body.len() + 1;
            while len != body.len() + len.to_string().len() {
                len = body.len() + len.to_string().len();
            }
            out.extend_from_slice(len.to_string().as_bytes());
            out.extend_from_slice(&body);
        }
        out
    }

    #[test]
    fn values_may_hold_line_ends_and_equals() {
        let mut pax = Pax::default();
        let acl = b"user::rw-\nuser:1:r--\ngroup::r--\nmask::r--\nother::r--\n";
        let bytes = of(&[
            ("path", b"a=b\nc"),
            ("SCHILY.acl.access", acl),
            ("SCHILY.xattr.user.%3D%25%20", b"\0=\n"),
            ("LIBARCHIVE.xattr.user.%c3%a4", b"AAH/"),
            ("comment", b"x"),
        ]);
        pax.add(&bytes).unwrap();
        assert_eq!(pax.path.unwrap(), b"a=b\nc");
        assert_eq!(pax.acl_access.unwrap(), acl);
        assert_eq!(pax.xattrs[&b"user.=%%20"[..]], b"\0=\n");
        assert_eq!(pax.xattrs[&[b'u', b's', b'e', b'r', b'.', 0xc3, 0xa4][..]], [0, 1, 255]);
    }

    #[test]
    fn times_are_rounded_down() {
        let at = |text: &str| time(text.as_bytes()).unwrap().unwrap();
        assert_eq!(at("1.5"), Timestamp { sec: 1, nsec: 500_000_000 });
        assert_eq!(at("-1.25"), Timestamp { sec: -2, nsec: 750_000_000 });
        assert_eq!(at("-3"), Timestamp { sec: -3, nsec: 0 });
        assert_eq!(at("7.1234567899"), Timestamp { sec: 7, nsec: 123_456_789 });
        let least = Timestamp { sec: i64::MIN, nsec: 0 };
        assert_eq!(at("-9223372036854775808"), least);
        for bad in ["x", "-", "1.x", "9223372036854775808", "-9223372036854775808.5"] {
            assert!(time(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_read_as_python_writes_them() {
        let at = |text: &str| time(text.as_bytes()).unwrap().unwrap();
        assert_eq!(at("1e-09"), Timestamp { sec: 0, nsec: 1 });
        assert_eq!(at("-1.5e-05"), Timestamp { sec: -1, nsec: 999_985_000 });
        assert_eq!(at("2.5e-10"), Timestamp { sec: 0, nsec: 0 });
        assert_eq!(at("1.2345678901e+17"), Timestamp { sec: 123_456_789_010_000_000, nsec: 0 });
        assert_eq!(at("12.75e1"), Timestamp { sec: 127, nsec: 500_000_000 });
        for bad in ["1e", "e5", "1e-", "1e1.5", "1e19", "1e-999", "1e99999999999999999999"] {
            assert!(time(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for bad in ["5 a=b", "99 a=b\n", "1 a=b\n", "x a=b\n", "6 ab=\n ", "7 abcd\n"] {
            assert!(Pax::default().add(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
