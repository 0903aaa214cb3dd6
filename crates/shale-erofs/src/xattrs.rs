//! Extended attributes that follow an inode.

/// A filter of names, which is not used; the number of shared attributes, none; reserved.
const HEADER_LEN: usize = 12;
const UNIT_LEN: usize = 4;
/// The count of units in an inode has 16 bits; the first one stands for the header.
const LEN_MAX: usize = HEADER_LEN + UNIT_LEN * (u16::MAX as usize - 1);

/// Why EROFS cannot hold an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unheld {
    /// Its name has none of the prefixes that EROFS knows.
    Prefix,
    /// Its name or value is too long: values have up to 65,535 bytes.
    Length,
    /// All attributes of the file would be longer than 256 KiB.
    Total,
}

/// The encoded attributes of one inode.
#[derive(Debug, Clone, Default)]
pub struct Xattrs(Vec<u8>);

impl Xattrs {
    /// Adds an attribute, or nothing if EROFS cannot hold it.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), Unheld> {
        let (prefix, suffix) = split(name).ok_or(Unheld::Prefix)?;
        let suffix_len = u8::try_from(suffix.len()).map_err(|_| Unheld::Length)?;
        let value_len = u16::try_from(value.len()).map_err(|_| Unheld::Length)?;
        let entry_len = (4 + suffix.len() + value.len()).next_multiple_of(UNIT_LEN);
        if self.0.len().max(HEADER_LEN) + entry_len > LEN_MAX {
            return Err(Unheld::Total);
        }
        if self.0.is_empty() {
            self.0.resize(HEADER_LEN, 0);
        }
        self.0.extend_from_slice(&[suffix_len, prefix]);
        self.0.extend_from_slice(&value_len.to_le_bytes());
        self.0.extend_from_slice(suffix);
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(UNIT_LEN), 0);
        Ok(())
    }

    /// Returns the bytes that follow the inode; none if it has no attributes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Returns the count that an inode with attributes of `len` bytes has: 0 means none, 1 the header
/// alone, and each further unit 4 bytes.
pub(crate) fn unit_count(len: usize) -> u16 {
    len.checked_sub(HEADER_LEN).map_or(0, |len| 1 + (len / UNIT_LEN) as u16)
}

/// Returns the number of the prefix of a name, and what follows it.
fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    const PREFIXES: [(u8, &[u8]); 3] = [(1, b"user."), (4, b"trusted."), (6, b"security.")];
    match name {
        b"system.posix_acl_access" => Some((2, b"")),
        b"system.posix_acl_default" => Some((3, b"")),
        _ => PREFIXES.iter().find_map(|(number, prefix)| {
            name.strip_prefix(*prefix).filter(|rest| !rest.is_empty()).map(|rest| (*number, rest))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_erofs_cannot_hold_are_refused_and_leave_no_bytes() {
        let mut set = Xattrs::default();
        assert_eq!(set.add(b"system.nfs4_acl", b""), Err(Unheld::Prefix));
        assert_eq!(set.add(b"user.", b""), Err(Unheld::Prefix));
        assert_eq!(set.add(b"user.x", &[1; 65536]), Err(Unheld::Length));
        assert_eq!(set.clone().into_bytes(), []);
        for name in ["user.a", "user.b", "user.c"] {
            set.add(name.as_bytes(), &[7; 65_535]).unwrap();
        }
        assert_eq!(set.add(b"user.d", &[7; 65_535]), Err(Unheld::Total));
        set.add(b"user.e", b"7").unwrap();
        let bytes = set.into_bytes();
        assert!(bytes.len() <= LEN_MAX && bytes.len().is_multiple_of(UNIT_LEN));
        assert_eq!(bytes[bytes.len() - 8..], [1, 1, 1, 0, b'e', b'7', 0, 0]);
    }

    #[test]
    fn an_attribute_has_the_bytes_of_the_format() {
        let mut set = Xattrs::default();
        set.add(b"user.ab", b"xyz").unwrap();
        let bytes = set.into_bytes();
        assert_eq!(bytes[12..], [2, 1, 3, 0, b'a', b'b', b'x', b'y', b'z', 0, 0, 0]);
        assert_eq!((unit_count(0), unit_count(bytes.len())), (0, 4));
    }
}
