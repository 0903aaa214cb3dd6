//! Names of entries: in UTF-8, in the encoding of MS-DOS, with its backslashes.

use shale_codec::stream::Crc32;

use super::records::{FLAG_UTF8, HOST_DOS, HOST_OS2, HOST_VFAT, HOST_WINDOWS};

/// Code page 437, from byte 0x80 on.
const CODE_PAGE_437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»\
    ░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀\
    αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// Returns true for systems whose names are not Unix's.
pub(super) fn is_dos(host: u8) -> bool {
    matches!(host, HOST_DOS | HOST_OS2 | HOST_WINDOWS | HOST_VFAT)
}

/// The path of an entry. `unicode` is the body of the extra field that repeats the name in UTF-8.
pub(super) fn path(raw: &[u8], host: u8, flags: u16, unicode: Option<&[u8]>) -> Vec<u8> {
    let mut path = match unicode.and_then(|field| in_unicode(field, raw)) {
        Some(name) => name.to_vec(),
        None => {
            let is_known = flags & FLAG_UTF8 != 0 || std::str::from_utf8(raw).is_ok();
            // Names of Unix are bytes, in whatever encoding, and stay so.
            if is_known || !is_dos(host) { raw.to_vec() } else { from_code_page_437(raw) }
        }
    };
    // A backslash is a letter on Unix, and where there are slashes it is not what separates.
    if is_dos(host) && !path.contains(&b'/') {
        path.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
    }
    path
}

/// The name in an extra field, if it was made for the name at hand: programs that know nothing of
/// the field may have renamed the entry.
fn in_unicode<'f>(field: &'f [u8], raw: &[u8]) -> Option<&'f [u8]> {
    let (&version, rest) = field.split_first()?;
    let (sum, name) = rest.split_first_chunk::<4>()?;
    let mut crc = Crc32::new();
    crc.update(raw);
    let is_right = version == 1 && u32::from_le_bytes(*sum) == crc.sum();
    (is_right && !name.is_empty() && std::str::from_utf8(name).is_ok()).then_some(name)
}

pub(crate) fn from_code_page_437(raw: &[u8]) -> Vec<u8> {
    let letter = |byte: u8| match byte {
        0..0x80 => Some(char::from(byte)),
        _ => CODE_PAGE_437.chars().nth(usize::from(byte) - 0x80),
    };
    raw.iter().filter_map(|&byte| letter(byte)).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_their_writers_meant_them() {
        assert_eq!(CODE_PAGE_437.chars().count(), 128);
        let at = |raw: &[u8], host, flags| path(raw, host, flags, None);
        assert_eq!(at(b"\x81ber\\m\x94gen", HOST_DOS, 0), "über/mögen".as_bytes());
        assert_eq!(at("über".as_bytes(), HOST_DOS, 0), "über".as_bytes());
        assert_eq!(at("über\\x".as_bytes(), HOST_WINDOWS, FLAG_UTF8), "über/x".as_bytes());
        assert_eq!(at(b"\x81\\x", 3, 0), b"\x81\\x");
        assert_eq!(at(b"a/b\\c", HOST_DOS, 0), b"a/b\\c");
    }

    #[test]
    fn the_name_in_utf_8_holds_if_it_belongs_to_the_name() {
        let field = |sum: u32, name: &str| [&[1][..], &sum.to_le_bytes(), name.as_bytes()].concat();
        let mut crc = Crc32::new();
        crc.update(b"?.txt");
        let found = path(b"?.txt", HOST_DOS, 0, Some(&field(crc.sum(), "語.txt")));
        assert_eq!(found, "語.txt".as_bytes());
        assert_eq!(path(b"?.txt", HOST_DOS, 0, Some(&field(1, "語.txt"))), b"?.txt");
        assert_eq!(path(b"?.txt", HOST_DOS, 0, Some(b"\x01\0")), b"?.txt");
    }
}
