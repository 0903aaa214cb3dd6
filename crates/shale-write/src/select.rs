//! What is taken of a source, asked for every entry before anything of it is read; and what is
//! stored instead of what it says.

use shale_format::InodeKind;

use crate::source::Metadata;

/// Chooses entries by path and kind. Asked from several threads, in any order, at least once for
/// every entry whose directory was taken.
pub trait Select: Send + Sync {
    /// Whether an entry is packed. What is below a directory that is not is not asked for.
    fn takes(&self, path: &[u8], kind: InodeKind) -> bool;
}

/// Changes metadata before anything is made of them.
pub trait Amend: Send + Sync {
    /// Changes owners, permissions and times; never kind, length and device. The last change of
    /// the inode stays: by it one sees that a file changed while it was read.
    fn amend(&self, metadata: &mut Metadata);

    /// Whether an extended attribute of this name is kept.
    fn keeps_xattr(&self, name: &[u8]) -> bool;
}
