//! What the caller decides about inputs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shale_format::root::TIME_MTIME;
use shale_host::Cancel;
use shale_read::files::{Bases, Place};

use crate::adjust::Adjust;
use crate::choose::Choose;
use crate::labels::FileContexts;
use crate::pseudo::Pseudo;

/// How OCI image layouts and archives of `docker save` are packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Container {
    /// As the tree of one image in them.
    Tree {
        /// The tag of the image; needed if there are several.
        tag: Option<String>,
        /// Its platform, such as `linux/arm64`; needed if there are several.
        platform: Option<String>,
    },
    /// As the files that they consist of.
    Files,
}

impl Default for Container {
    fn default() -> Self {
        Self::Tree { tag: None, platform: None }
    }
}

/// A password, which no debug output shows.
#[derive(Clone)]
pub struct Password(Arc<[u8]>);

impl Password {
    /// Takes the bytes of a password.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> Arc<[u8]> {
        Arc::clone(&self.0)
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

/// What tells where an image is. It returns `None` for anything else.
type Find = dyn Fn(&Path) -> io::Result<Option<Arc<dyn Place>>> + Send + Sync;

/// Finds images that are no plain files of this machine: encrypted, or elsewhere. By default, there
/// are none.
#[derive(Clone, Default)]
pub struct OtherImages(Option<Arc<Find>>);

impl OtherImages {
    /// Finds images with a function of the caller.
    pub fn new(
        find: impl Fn(&Path) -> io::Result<Option<Arc<dyn Place>>> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(find)))
    }

    /// Returns the place of an image; `None` if `path` is anything else.
    ///
    /// # Errors
    /// Those of the caller.
    pub fn find(&self, path: &Path) -> io::Result<Option<Arc<dyn Place>>> {
        self.0.as_ref().map_or(Ok(None), |find| find(path))
    }
}

impl std::fmt::Debug for OtherImages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OtherImages").field(&self.0.is_some()).finish()
    }
}

/// How inputs are opened, and what of them is taken.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SourceOptions {
    /// Do not descend into other file systems.
    pub one_file_system: bool,
    /// Offset at which an archive begins in its file.
    pub archive_offset: u64,
    /// How images of containers are packed.
    pub container: Container,
    /// Password of encrypted entries in archives.
    pub password: Option<Password>,
    /// The most bytes of memory that an archive may name for its decompressor, at most 2 GiB.
    pub decoder_memory_len_max: Option<u64>,
    /// Pack the targets of symbolic links instead of the links, in directory trees.
    pub dereference: bool,
    /// Which entries of the inputs are packed.
    pub choose: Choose,
    /// Metadata that replace those of the inputs.
    pub adjust: Adjust,
    /// Entries that are added to the inputs, and metadata of single entries.
    pub pseudo: Option<Arc<Pseudo>>,
    /// SELinux labels, instead of those of the inputs.
    pub file_contexts: Option<Arc<FileContexts>>,
    /// Where the bases of thin images among the inputs are, besides the directories of these.
    pub bases: Bases,
    /// Finds the images among the inputs that are no plain files of this machine.
    pub images: OtherImages,
    /// Let later sources replace entries of earlier ones. Otherwise, a path in several sources is
    /// an error, unless it is a directory in all of them.
    pub replace: bool,
    /// Threads that list directories; 0 means as many as the machine offers.
    pub threads: usize,
    /// Times to keep, as bits (`shale_format::root`). Other times are not held in memory.
    pub times_kept: u8,
    /// Where input from pipes is kept; the system's temporary directory by default.
    pub temp_dir: Option<PathBuf>,
    /// Ends the work with [`shale_host::Error::Cancelled`].
    pub cancel: Cancel,
}

impl SourceOptions {
    shale_host::setters! {
        one_file_system: bool,
        archive_offset: u64,
        container: Container,
        password: Option<Password>,
        decoder_memory_len_max: Option<u64>,
        dereference: bool,
        choose: Choose,
        adjust: Adjust,
        pseudo: Option<Arc<Pseudo>>,
        file_contexts: Option<Arc<FileContexts>>,
        bases: Bases,
        images: OtherImages,
        replace: bool,
        threads: usize,
        times_kept: u8,
        temp_dir: Option<PathBuf>,
        cancel: Cancel,
    }
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            one_file_system: false,
            archive_offset: 0,
            container: Container::default(),
            password: None,
            decoder_memory_len_max: None,
            dereference: false,
            choose: Choose::default(),
            adjust: Adjust::default(),
            pseudo: None,
            file_contexts: None,
            bases: Bases::default(),
            images: OtherImages::default(),
            replace: false,
            threads: 0,
            times_kept: TIME_MTIME,
            temp_dir: None,
            cancel: Cancel::new(),
        }
    }
}
