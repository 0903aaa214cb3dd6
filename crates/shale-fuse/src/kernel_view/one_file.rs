//! Bytes as a view: a directory with one file that holds them.

use crate::view::{
    Attributes, Entry, MODE_DIRECTORY, MODE_FILE, ROOT, Seek, Totals, View, ViewError, XattrUse,
};

/// The inode number of the file.
pub(super) const FILE: u64 = 2;

/// The bytes of the file.
pub(super) trait Bytes: Send + Sync + 'static {
    /// The name of the file.
    const NAME: &'static str;

    /// Length of the file.
    fn len(&self) -> u64;

    /// As [`View::read`], for the file.
    ///
    /// # Errors
    /// The bytes cannot be read.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError>;

    /// As [`View::rest`].
    fn rest(&self) {}

    /// As [`View::counters`].
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The view.
pub(super) struct OneFile<B>(pub(super) B);

impl<B: Bytes> View for OneFile<B> {
    fn attributes(&self, inode: u64) -> Result<Attributes, ViewError> {
        let (mode, len) = match inode {
            ROOT => (MODE_DIRECTORY | 0o500, 0),
            FILE => (MODE_FILE | 0o400, self.0.len()),
            _ => return Err(ViewError::NotFound),
        };
        Ok(Attributes {
            inode,
            mode,
            link_count: 1 + u64::from(inode == ROOT),
            uid: 0,
            gid: 0,
            device: (0, 0),
            len,
            data_len: len,
            atime: Default::default(),
            mtime: Default::default(),
            ctime: Default::default(),
        })
    }

    fn lookup(&self, directory: u64, name: &[u8]) -> Result<Option<Attributes>, ViewError> {
        match directory {
            ROOT if name == B::NAME.as_bytes() => self.attributes(FILE).map(Some),
            ROOT => Ok(None),
            _ => Err(ViewError::NotDirectory),
        }
    }

    fn parent(&self, _directory: u64) -> Result<u64, ViewError> {
        Ok(ROOT)
    }

    fn list(
        &self,
        directory: u64,
        first: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), ViewError> {
        if directory != ROOT {
            return Err(ViewError::NotDirectory);
        }
        if first == 0 {
            each(Entry { name: B::NAME.as_bytes(), attributes: self.attributes(FILE)? });
        }
        Ok(())
    }

    fn link_target(&self, _inode: u64) -> Result<Vec<u8>, ViewError> {
        Err(ViewError::WrongKind)
    }

    fn xattr_names(&self, _inode: u64, _each: &mut dyn FnMut(&[u8])) -> Result<(), ViewError> {
        Ok(())
    }

    fn xattr(&self, _inode: u64, _name: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        Ok(None)
    }

    fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError> {
        if inode != FILE {
            return Err(ViewError::WrongKind);
        }
        self.0.read(offset, buf)
    }

    fn seek(&self, _inode: u64, offset: u64, what: Seek) -> Result<Option<u64>, ViewError> {
        let len = self.0.len();
        Ok((offset < len).then_some(if what == Seek::Data { offset } else { len }))
    }

    fn totals(&self) -> Totals {
        Totals { len: self.0.len(), inode_count: 2 }
    }

    fn xattr_use(&self) -> XattrUse {
        XattrUse { any: false, acl: false, trusted: false }
    }

    fn rest(&self) {
        self.0.rest();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.0.counters()
    }
}
