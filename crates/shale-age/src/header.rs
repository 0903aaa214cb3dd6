//! The header: for each recipient a stanza with the key of the file, encrypted, and a code that
//! authenticates all of them.
//!
//! Reading costs one read of 4 KiB, and more only if the header is longer. Nothing is decrypted
//! here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use shale_read::ByteSource;

use crate::error::Error;
use crate::limits::HEADER_LEN_MAX;
use crate::secret::FileKey;

/// The first line, without its end.
const VERSION_LINE: &[u8] = b"age-encryption.org/v1";
/// What the first line of every version begins with.
pub(crate) const MAGIC: &[u8] = b"age-encryption.org/";
/// The start of the text form.
pub(crate) const ARMOR: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE-----";
/// Characters of a full line of a body.
const COLUMNS: usize = 64;
/// Bytes of the authentication code.
const CODE_LEN: usize = 32;
/// Bytes of the first read.
const FIRST_READ_LEN: usize = 4 << 10;

/// The key of the file, encrypted to one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stanza {
    /// The kind of the recipient, and what belongs to it. Never empty.
    pub(crate) words: Vec<String>,
    pub(crate) body: Vec<u8>,
}

/// A header as it was read. Only [`Header::check`] tells whether it is as it was written.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) stanzas: Vec<Stanza>,
    /// The bytes that the code authenticates.
    authenticated: Vec<u8>,
    code: [u8; CODE_LEN],
    /// Bytes of the header.
    pub(crate) len: u64,
}

impl Header {
    /// Reads the header of a file.
    pub(crate) fn read(source: &dyn ByteSource) -> Result<Self, Error> {
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let want = (bytes.len() * 2).max(FIRST_READ_LEN);
            let want = want.min(usize::try_from(source.len()).unwrap_or(usize::MAX));
            if want == bytes.len() {
                return Err(if bytes.starts_with(MAGIC) {
                    Error::HeaderCut
                } else {
                    Error::NotAge
                });
            }
            let had = bytes.len();
            bytes.resize(want, 0);
            source.read_at(had as u64, &mut bytes[had..])?;
            match Self::parse(&bytes)? {
                Some(header) => return Ok(header),
                None if bytes.len() >= HEADER_LEN_MAX => {
                    return Err(Error::Header("it is longer than 1 MiB"));
                }
                None => {}
            }
        }
    }

    /// Parses the header at the start of `bytes`. Returns `None` if they end before it does.
    fn parse(bytes: &[u8]) -> Result<Option<Self>, Error> {
        let mut lines = Lines { bytes, at: 0 };
        let first = match lines.next() {
            Some(line) => line,
            None if bytes.len() < 100 && bytes.starts_with(MAGIC) => return Ok(None),
            None => return Err(Error::NotAge),
        };
        if first.starts_with(ARMOR) {
            return Err(Error::Armored);
        }
        let Some(version) = first.strip_prefix(MAGIC) else { return Err(Error::NotAge) };
        if first != VERSION_LINE {
            return Err(Error::Version(version.escape_ascii().to_string()));
        }
        let mut stanzas = Vec::new();
        loop {
            let start = lines.at;
            let Some(line) = lines.next() else { return Ok(None) };
            if let Some(code) = line.strip_prefix(b"--- ") {
                let code = STANDARD_NO_PAD.decode(code).ok();
                let code = code.and_then(|code| code.try_into().ok());
                let code = code.ok_or(Error::Header("its authentication code is not valid"))?;
                if stanzas.is_empty() {
                    return Err(Error::Header("it names no recipient"));
                }
                let authenticated = bytes[..start + 3].to_vec();
                return Ok(Some(Self { stanzas, authenticated, code, len: lines.at as u64 }));
            }
            let Some(words) = line.strip_prefix(b"-> ") else {
                return Err(Error::Header("a line is neither a recipient nor the last one"));
            };
            let Some(words) = words_of(words) else {
                return Err(Error::Header("a line of a recipient is not valid"));
            };
            let mut text = Vec::new();
            loop {
                let Some(line) = lines.next() else { return Ok(None) };
                if line.len() > COLUMNS {
                    return Err(Error::Header("a line is too long"));
                }
                text.extend_from_slice(line);
                if line.len() < COLUMNS {
                    break;
                }
            }
            let body = STANDARD_NO_PAD.decode(&text);
            let body = body.map_err(|_| Error::Header("the key of a recipient is not valid"))?;
            stanzas.push(Stanza { words, body });
        }
    }

    /// Checks that the header is as it was written by somebody who had the key of the file.
    pub(crate) fn check(&self, key: &FileKey) -> Result<(), Error> {
        let mut code = coder(key);
        code.update(&self.authenticated);
        code.verify_slice(&self.code).map_err(|_| Error::HeaderCode)
    }
}

/// Returns the header of a new file.
pub(crate) fn write(stanzas: &[Stanza], key: &FileKey) -> Vec<u8> {
    let mut out = [VERSION_LINE, b"\n"].concat();
    for stanza in stanzas {
        out.extend_from_slice(format!("-> {}\n", stanza.words.join(" ")).as_bytes());
        let body = STANDARD_NO_PAD.encode(&stanza.body);
        for line in body.as_bytes().chunks(COLUMNS) {
            out.extend_from_slice(line);
            out.push(b'\n');
        }
        // The last line is shorter than the others, and may be empty.
        if body.len().is_multiple_of(COLUMNS) {
            out.push(b'\n');
        }
    }
    out.extend_from_slice(b"---");
    let mut code = coder(key);
    code.update(&out);
    let code = STANDARD_NO_PAD.encode(code.finalize().into_bytes());
    out.extend_from_slice(format!(" {code}\n").as_bytes());
    out
}

fn coder(key: &FileKey) -> Hmac<Sha256> {
    let key = key.derive(&[], b"header");
    Hmac::new_from_slice(&*key).expect("HMAC takes keys of any length")
}

/// Splits a line into words of visible ASCII characters, with one space between them.
fn words_of(line: &[u8]) -> Option<Vec<String>> {
    let words = line.split(|&byte| byte == b' ').map(|word| {
        let is_valid = !word.is_empty() && word.iter().all(u8::is_ascii_graphic);
        is_valid.then(|| String::from_utf8_lossy(word).into_owned())
    });
    words.collect()
}

/// Whole lines of a text, without their ends.
struct Lines<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Lines<'b> {
    fn next(&mut self) -> Option<&'b [u8]> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|&byte| byte == b'\n')?;
        self.at += len + 1;
        Some(&rest[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shale_read::MemorySource;

    fn stanza(len: usize) -> Stanza {
        Stanza { words: vec!["kind".into(), "word".into()], body: vec![7; len] }
    }

    #[test]
    fn a_header_is_read_as_it_was_written_whatever_its_length() {
        let key = FileKey::generate().unwrap();
        for stanzas in [
            vec![stanza(0)],
            vec![stanza(32), stanza(47), stanza(48), stanza(49), stanza(96)],
            (0..200).map(stanza).collect(),
        ] {
            let mut bytes = write(&stanzas, &key);
            let len = bytes.len();
            bytes.extend_from_slice(&[0; 40]);
            let header = Header::read(&MemorySource::new(bytes.clone())).unwrap();
            assert_eq!((&header.stanzas, header.len), (&stanzas, len as u64));
            header.check(&key).unwrap();
            let other = header.check(&FileKey::generate().unwrap());
            assert!(matches!(other, Err(Error::HeaderCode)));
            // Cut anywhere, it is cut.
            for cut in (30..len.min(600)).chain([len - 1]) {
                let cut = Header::read(&MemorySource::new(&bytes[..cut]));
                assert!(matches!(cut, Err(Error::HeaderCut)), "{cut:?}");
            }
        }
    }

    #[test]
    fn what_is_no_header_is_refused_with_the_reason() {
        let read = |text: &str| Header::read(&MemorySource::new(text.as_bytes())).unwrap_err();
        assert!(matches!(read(""), Error::NotAge));
        assert!(matches!(read("age-encryption.net/v1\n"), Error::NotAge));
        assert!(matches!(read(&"x".repeat(10_000)), Error::NotAge));
        assert!(matches!(read("-----BEGIN AGE ENCRYPTED FILE-----\n"), Error::Armored));
        assert!(matches!(read("age-encryption.org/v2\n"), Error::Version(_)));
        let first = "age-encryption.org/v1\n";
        for bad in [
            "--- AAAA\n",
            "--- AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n",
            "-> a  b\n\n",
            "-> \n\n",
            "->\n\n",
            "x\n",
            "-> a\nAB\n",
            "-> a\nAA==\n",
        ] {
            let found = read(&format!("{first}{bad}"));
            assert!(matches!(found, Error::Header(_)), "{bad}: {found:?}");
        }
        // A header without an end does not fill memory.
        let endless = format!("{first}{}", "-> a b\n\n".repeat(1 << 18));
        assert!(matches!(read(&endless), Error::Header(_)));
    }
}
