//! What a cabinet says of its folders and files. Source: Microsoft's cabinet file format
//! (`[MS-CAB]`).

use crate::error::ForeignError;
use crate::tree::{ImageFile, le};

/// First bytes of a cabinet.
pub(crate) const MAGIC: &[u8] = b"MSCF\0\0\0\0";
pub(super) const FORMAT: &str = "cabinet archive";
const HEADER_LEN: u64 = 36;
const FLAG_PREVIOUS: u64 = 1;
const FLAG_NEXT: u64 = 2;
const FLAG_RESERVED: u64 = 4;
const FOLDER_LEN: u64 = 8;
const FILE_LEN: u64 = 16;
/// Bytes of a name, and of names of other cabinets, with the zero at the end.
const NAME_LEN_MAX: u64 = 1024;
/// A file goes on in another cabinet.
const FOLDER_ELSEWHERE: u64 = 0xfffd;

/// The compression of the blocks of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Mszip,
    /// Bits of the window.
    Lzx(u8),
}

/// A folder: blocks that are compressed one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Folder {
    /// Where its first block begins.
    pub(super) start: u64,
    pub(super) block_count: u64,
    pub(super) method: Method,
    /// Bytes between the head of a block and its data.
    pub(super) reserved_len: u64,
}

/// A file in a folder.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: Vec<u8>,
    pub(super) folder: usize,
    /// Where it begins in the plain bytes of its folder.
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) date: u64,
    pub(super) time: u64,
    pub(super) attributes: u64,
}

/// Folders and files, the latter in the order in which they are stored.
#[derive(Debug)]
pub(super) struct Headers {
    pub(super) folders: Vec<Folder>,
    pub(super) files: Vec<File>,
}

fn fault(what: impl Into<String>) -> ForeignError {
    ForeignError::new(FORMAT, what)
}

/// Reads fields one after the other.
struct Fields<'f> {
    file: &'f ImageFile,
    at: u64,
}

impl Fields<'_> {
    fn take(&mut self, len: u64) -> Result<Vec<u8>, ForeignError> {
        let bytes = self.file.read(self.at, len).map_err(|what| fault(what).at(self.at))?;
        self.at += len;
        Ok(bytes)
    }

    /// A text that ends with a zero.
    fn text(&mut self) -> Result<Vec<u8>, ForeignError> {
        let room = self.file.len().saturating_sub(self.at).min(NAME_LEN_MAX);
        let bytes = self.file.read(self.at, room).map_err(fault)?;
        let len = bytes.iter().position(|&byte| byte == 0);
        let len = len.ok_or_else(|| fault("corrupt: a name without an end").at(self.at))?;
        self.at += len as u64 + 1;
        Ok(bytes[..len].to_vec())
    }
}

/// Reads the headers of a cabinet.
///
/// # Errors
/// They are corrupt, or of a part of a set of cabinets.
pub(super) fn read(file: &ImageFile) -> Result<Headers, ForeignError> {
    let mut fields = Fields { file, at: 0 };
    let head = fields.take(HEADER_LEN)?;
    let number = |at: usize, len: usize| le(&head[at..at + len]);
    let (len, files_at, major) = (number(8, 4), number(16, 4), number(25, 1));
    let (folder_count, file_count, flags) = (number(26, 2), number(28, 2), number(30, 2));
    if major != 1 {
        return Err(fault(format!("version {major} is not supported")));
    }
    if len > file.len() {
        return Err(fault(format!(
            "it has {} of {len} bytes: it was cut or is corrupt",
            file.len()
        )));
    }
    if flags & (FLAG_PREVIOUS | FLAG_NEXT) != 0 {
        return Err(fault(
            "it is one of several cabinets that belong together, which are not supported; unpack \
             them with cabextract, and pack the files",
        ));
    }
    let (mut folder_reserved, mut block_reserved) = (0, 0);
    if flags & FLAG_RESERVED != 0 {
        let sizes = fields.take(4)?;
        (folder_reserved, block_reserved) = (le(&sizes[2..3]), le(&sizes[3..4]));
        fields.take(le(&sizes[..2]))?;
    }
    let mut folders = Vec::new();
    for _ in 0..folder_count {
        let at = fields.at;
        let bytes = fields.take(FOLDER_LEN + folder_reserved)?;
        let kind = le(&bytes[6..8]);
        let method = match kind & 15 {
            0 => Method::Stored,
            1 => Method::Mszip,
            3 => Method::Lzx((kind >> 8 & 31) as u8),
            2 => {
                return Err(fault(
                    "it is compressed with Quantum, which is not supported; unpack it with \
                     cabextract, and pack the files",
                ));
            }
            other => return Err(fault(format!("the method {other} is not known")).at(at)),
        };
        folders.push(Folder {
            start: le(&bytes[..4]),
            block_count: le(&bytes[4..6]),
            method,
            reserved_len: block_reserved,
        });
    }
    fields.at = files_at;
    let mut files = Vec::new();
    for _ in 0..file_count {
        let at = fields.at;
        let bytes = fields.take(FILE_LEN)?;
        let number = |at: usize, len: usize| le(&bytes[at..at + len]);
        let folder = number(8, 2);
        if folder >= FOLDER_ELSEWHERE {
            return Err(fault("a file is in several cabinets, which are not supported").at(at));
        }
        if folder >= folder_count {
            return Err(fault(format!("corrupt: there is no folder {folder}")).at(at));
        }
        files.push(File {
            len: number(0, 4),
            start: number(4, 4),
            folder: folder as usize,
            date: number(10, 2),
            time: number(12, 2),
            attributes: number(14, 2),
            name: fields.text()?,
        });
    }
    // A folder is read once from front to back.
    files.sort_by_key(|file| (file.folder, file.start));
    Ok(Headers { folders, files })
}
