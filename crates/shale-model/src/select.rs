//! Which entries of a source are taken, and with which metadata.
//!
//! Both traits are asked for every entry before anything of it is read.

use crate::kind::InodeKind;
use crate::metadata::Metadata;

/// Selects entries by path and kind. Asked from several threads, in any order, at least once for
/// every entry whose directory was taken.
pub trait Select: Send + Sync {
    /// True if an entry is packed. Entries below a directory that is not packed are not asked for.
    fn takes(&self, path: &[u8], kind: InodeKind) -> bool;

    /// True if an entry with these metadata is packed. Asked only for entries that [`Self::takes`]
    /// takes. All are by default.
    fn takes_metadata(&self, path: &[u8], metadata: &Metadata) -> bool {
        let _ = (path, metadata);
        true
    }
}

/// Changes metadata before they are used.
pub trait Amend: Send + Sync {
    /// Changes owners, permissions and times; never kind, length and device. Does not change the
    /// ctime: it shows whether a file changed while it was read.
    fn amend(&self, metadata: &mut Metadata);

    /// True if an extended attribute of this name is kept.
    fn keeps_xattr(&self, name: &[u8]) -> bool;
}
