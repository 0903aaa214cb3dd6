//! A handle to one regular file, for code that reads streams.

use std::io::{self, Read, Seek, SeekFrom};

use crate::error::{ErrorContext, ReadError};
use crate::tree::Tree;

/// A regular file of a tree: `Read`, `Seek` and positioned reads.
///
/// It finds the file's content once, so its reads are cheaper than [`Tree::read`]. It has no buffer
/// of its own: the frame cache is one. Keeps the image open.
///
/// ```
/// use shale_read::{Image, SnapshotChoice};
/// use std::io::{Read, Seek, SeekFrom};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/images/0.3-tiny.shale");
/// let tree = Image::open_path(path)?.tree(&SnapshotChoice::Newest)?;
/// let inode = tree.lookup_path(b"d/text")?.expect("the file exists");
/// let mut file = tree.open_file(inode)?;
/// file.seek(SeekFrom::End(-10))?;
/// let mut end = Vec::new();
/// file.read_to_end(&mut end)?;
/// assert_eq!(end.len(), 10);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FileReader {
    tree: Tree,
    inode: u64,
    content: u64,
    len: u64,
    position: u64,
}

impl Tree {
    /// Opens a regular file for reading. Touches a page of inodes and one or two of contents.
    ///
    /// # Errors
    /// The inode is not a regular file, or one of its rows is damaged.
    pub fn open_file(&self, inode: u64) -> Result<FileReader, ReadError> {
        let content = self.file_content(inode)?;
        let len = self.image().content_len(content).at(|| format!("file inode {inode}"))?;
        Ok(FileReader { tree: self.clone(), inode, content, len, position: 0 })
    }
}

impl FileReader {
    /// The tree that holds the file.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Inode of the file.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Length of the file in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads from `offset` into `buf`, without moving the position. Returns the number of bytes
    /// read, which is less than asked for only at the end of the file. After an error the bytes in
    /// `buf` are undefined.
    ///
    /// # Errors
    /// A page or frame that the range needs is damaged, or the source cannot be read.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, ReadError> {
        let read = self.tree.image().read_content(self.content, offset, buf);
        read.at(|| format!("file inode {}", self.inode))
    }
}

impl Read for FileReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.read_at(self.position, buf)?;
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for FileReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.len.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "a seek to before the start of the file")
        })?;
        Ok(self.position)
    }
}
