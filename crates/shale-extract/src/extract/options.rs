//! What the caller of an extraction decides.

use shale_host::Cancel;
use shale_model::pattern::Patterns;

/// What happens to files that exist already. Directories are always merged, and files that are only
/// in the target are left alone. An existing file is never written into: it is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// If any file exists, nothing is extracted.
    #[default]
    Refuse,
    /// Existing files are kept.
    Never,
    /// Existing files are replaced if their mtime is before the one in the image.
    Older,
    /// Existing files are replaced.
    Always,
}

/// Owner of the extracted files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owner {
    /// The stored owner for root, else the user.
    #[default]
    Auto,
    /// The stored owner; if the system refuses, a problem is reported.
    Stored,
    /// The user.
    Own,
}

/// Where files get holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sparse {
    /// Where the image has holes.
    #[default]
    Stored,
    /// Where the image has holes or zeroes.
    Zeroes,
    /// Nowhere: zeroes are written.
    Never,
}

/// How to extract.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExtractOptions {
    /// Which entries to extract; an empty set means all.
    pub patterns: Patterns,
    /// Threads that decode and write; 0 for one per processor.
    pub threads: usize,
    /// What happens to files that exist already.
    pub overwrite: Overwrite,
    /// Owner of the extracted files.
    pub owner: Owner,
    /// Restore extended attributes.
    pub xattrs: bool,
    /// Create device nodes, if the system allows it.
    pub devices: bool,
    /// Where files get holes.
    pub sparse: Sparse,
    /// Leading components to strip from each path. An entry with no more components than that is
    /// not extracted, but the entries in it are.
    pub strip_components: usize,
    /// Continue after damage and after files that cannot be created, and report them. Damaged
    /// ranges become holes.
    pub keep_going: bool,
    /// Ends the run with [`shale_host::Error::Cancelled`]. Incomplete files are removed.
    pub cancel: Cancel,
}

impl ExtractOptions {
    shale_host::setters! {
        patterns: Patterns,
        threads: usize,
        overwrite: Overwrite,
        owner: Owner,
        xattrs: bool,
        devices: bool,
        sparse: Sparse,
        strip_components: usize,
        keep_going: bool,
        cancel: Cancel,
    }
}

impl Default for ExtractOptions {
    fn default() -> Self {
        Self {
            patterns: Patterns::default(),
            threads: 0,
            overwrite: Overwrite::Refuse,
            owner: Owner::Auto,
            xattrs: true,
            devices: true,
            sparse: Sparse::Stored,
            strip_components: 0,
            keep_going: false,
            cancel: Cancel::new(),
        }
    }
}
