//! What the caller of a build decides.

use std::sync::Arc;

use shale_host::Cancel;
use shale_read::files::Bases;

use crate::input::{Adjust, Choose, Pseudo};

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

/// How to create an image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Options of the build. Its cancel flag is set from `cancel`.
    pub build: shale_write::Options,
    /// Do not descend into other file systems.
    pub one_file_system: bool,
    /// Offset at which an archive begins in its file.
    pub archive_offset: u64,
    /// How images of containers are packed.
    pub container: Container,
    /// Password of encrypted entries in archives.
    pub password: Option<Password>,
    /// Pack the targets of symbolic links instead of the links, in directory trees.
    pub dereference: bool,
    /// Which entries of the inputs are packed.
    pub choose: Choose,
    /// Metadata that replace those of the inputs.
    pub adjust: Adjust,
    /// Entries that are added to the inputs, and metadata of single entries.
    pub pseudo: Option<Arc<Pseudo>>,
    /// Where the bases of thin images among the inputs are, besides the directories of these.
    pub bases: Bases,
    /// Read the image back and compare it with the source before it gets its name.
    pub verify: bool,
    /// Parity for each million bytes of the image; 0 for none.
    pub parity_ppm: u32,
    /// Let later sources replace entries of earlier ones. Otherwise, a path in several sources is
    /// an error, unless it is a directory in all of them.
    pub replace: bool,
    /// Pad the image with zeroes to a multiple of 4 KiB, for loop devices and partitions. They
    /// follow the image and are not part of it.
    pub pad: bool,
    /// Replace an existing output.
    pub overwrite: bool,
    /// Ends the run with [`shale_host::Error::Cancelled`].
    pub cancel: Cancel,
}

impl CreateOptions {
    shale_host::setters! {
        build: shale_write::Options,
        one_file_system: bool,
        archive_offset: u64,
        container: Container,
        password: Option<Password>,
        dereference: bool,
        choose: Choose,
        adjust: Adjust,
        pseudo: Option<Arc<Pseudo>>,
        bases: Bases,
        verify: bool,
        parity_ppm: u32,
        replace: bool,
        pad: bool,
        overwrite: bool,
        cancel: Cancel,
    }
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            build: shale_write::Options::default(),
            one_file_system: false,
            archive_offset: 0,
            container: Container::default(),
            password: None,
            dereference: false,
            choose: Choose::default(),
            adjust: Adjust::default(),
            pseudo: None,
            bases: Bases::default(),
            verify: true,
            parity_ppm: 0,
            replace: false,
            pad: false,
            overwrite: false,
            cancel: Cancel::new(),
        }
    }
}
