//! What the tests of importers share: taking everything from a source, and archives made byte by
//! byte.

#![allow(dead_code, reason = "every test program uses its own part")]

use shale_foreign::ImageFile;
use shale_model::{Content, EntrySource, InodeKind, Metadata, SourceError};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

/// What the archive is called.
pub fn name() -> &'static Path {
    Path::new("archive")
}

/// An entry that was taken.
#[derive(Debug)]
pub struct Entry {
    pub metadata: Metadata,
    pub content: Vec<u8>,
    pub target: Vec<u8>,
    pub xattrs: Vec<(String, Vec<u8>)>,
    /// Which entries are one inode.
    pub link: Option<u64>,
}

/// All that a source gave.
#[derive(Debug, Default)]
pub struct Taken {
    pub entries: BTreeMap<String, Entry>,
    /// Their paths as they came.
    pub order: Vec<String>,
    /// Path and problem, as messages say them.
    pub problems: Vec<String>,
    pub warnings: Vec<String>,
    /// What ended it.
    pub error: Option<String>,
}

impl Taken {
    /// Takes everything.
    pub fn of<S: EntrySource + ?Sized>(source: Result<Box<S>, SourceError>) -> Self {
        let mut taken = Self::default();
        let mut source = match source {
            Ok(source) => source,
            Err(error) => {
                taken.error = Some(error.to_string());
                return taken;
            }
        };
        loop {
            let entry = match source.next_entry() {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(error) => {
                    taken.error = Some(error.to_string());
                    break;
                }
            };
            let mut content = Vec::new();
            match entry.content {
                Content::Bytes(bytes) => content = bytes,
                Content::Reader { mut reader, .. } => {
                    if let Err(error) = reader.read_to_end(&mut content) {
                        let path = String::from_utf8_lossy(&entry.path).into_owned();
                        taken.problems.push(format!("{path}: {error}"));
                        continue;
                    }
                }
                Content::None | Content::File(_) | Content::Held(_) => {}
            }
            let xattrs = entry.xattrs.iter();
            let xattrs = xattrs.map(|xattr| {
                (String::from_utf8_lossy(&xattr.name).into_owned(), xattr.value.clone())
            });
            let taken_entry = Entry {
                metadata: entry.metadata,
                content,
                target: entry.target,
                xattrs: xattrs.collect(),
                link: entry.link.map(|link| link.inode),
            };
            let path = String::from_utf8_lossy(&entry.path).into_owned();
            taken.order.push(path.clone());
            taken.entries.insert(path, taken_entry);
        }
        taken.problems.extend(source.take_problems().iter().map(ToString::to_string));
        taken.warnings = source.take_warnings();
        taken
    }

    /// The paths, one after the other.
    pub fn paths(&self) -> Vec<&str> {
        self.entries.keys().map(String::as_str).collect()
    }

    /// Checks that nothing is wrong.
    #[track_caller]
    pub fn expect_whole(&self) -> &Self {
        assert_eq!(self.error, None);
        assert_eq!(self.problems, [""; 0]);
        self
    }

    /// Checks that the archive is refused with these words.
    #[track_caller]
    pub fn expect_error(&self, words: &[&str]) {
        let error = self.error.as_deref().unwrap_or("no error");
        for word in words {
            assert!(error.contains(word), "`{word}` is not in: {error}");
        }
    }

    /// Checks that there is one problem, with these words.
    #[track_caller]
    pub fn expect_problem(&self, words: &[&str]) {
        assert_eq!(self.error, None);
        let [problem] = &self.problems[..] else { panic!("problems: {:?}", self.problems) };
        for word in words {
            assert!(problem.contains(word), "`{word}` is not in: {problem}");
        }
    }

    #[track_caller]
    pub fn entry(&self, path: &str) -> &Entry {
        let entry = self.entries.get(path);
        entry.unwrap_or_else(|| {
            panic!("{path} is missing of {:?}: {:?}", self.paths(), self.problems)
        })
    }

    pub fn kind(&self, path: &str) -> InodeKind {
        self.entry(path).metadata.kind
    }
}

/// The bytes as a file.
pub fn file(bytes: &[u8]) -> ImageFile {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    ImageFile::new(file, 0).unwrap()
}

/// CRC-32 of ISO 3309.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = shale_codec::stream::Crc32::new();
    crc.update(bytes);
    crc.sum()
}

/// Header of a ustar entry, with its checksum.
pub fn tar_header(name: &[u8], type_flag: u8, len: u64, link: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
    header[100..107].copy_from_slice(b"0000644");
    header[108..115].copy_from_slice(b"0000000");
    header[116..123].copy_from_slice(b"0000000");
    header[124..135].copy_from_slice(format!("{len:011o}").as_bytes());
    header[136..147].copy_from_slice(b"00000000001");
    header[148..156].fill(b' ');
    header[156] = type_flag;
    header[157..157 + link.len()].copy_from_slice(link);
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// An entry of a tar archive with its data.
pub fn tar_entry(name: &[u8], type_flag: u8, data: &[u8], link: &[u8]) -> Vec<u8> {
    let mut out = tar_header(name, type_flag, data.len() as u64, link);
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

/// A record of an extended header.
pub fn pax_record(name: &str, value: &[u8]) -> Vec<u8> {
    let body = [b" ", name.as_bytes(), b"=", value, b"\n"].concat();
    let mut len = body.len() + 1;
    while len != body.len() + len.to_string().len() {
        len = body.len() + len.to_string().len();
    }
    [len.to_string().as_bytes(), &body].concat()
}
