//! What becomes of an image between the writer and its file, and of the file at the end.
//!
//! An [`Envelope`] changes the bytes on their way to the file, for example by encrypting them: the
//! plain image is never in the file. A [`Delivery`] takes the verified file instead of giving it a
//! name, for example to send it elsewhere. Both belong to the caller.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use shale_host::Progress;
use shale_read::ByteSource;

/// Writes images into files in another form.
pub trait Envelope: Send + Sync + fmt::Debug {
    /// Begins a file in which an image is written from front to back.
    ///
    /// # Errors
    /// The file cannot be written.
    fn begin(&self, file: File) -> io::Result<Box<dyn Enclosing>>;
}

/// An image on its way into its file.
pub trait Enclosing: Write + Send {
    /// Completes the file, and returns the image as its readers will see it.
    ///
    /// # Errors
    /// The file cannot be written or read.
    fn finish(self: Box<Self>) -> io::Result<Arc<dyn ByteSource>>;
}

/// Takes a file that is complete and was verified. The file has no name and is gone afterwards.
pub trait Delivery: Send + Sync + fmt::Debug {
    /// Takes the file. What it left elsewhere on an error or a cancel, it removes.
    ///
    /// # Errors
    /// It could not be delivered. Nothing was replaced.
    fn deliver(&self, file: &File, progress: &dyn Progress) -> Result<(), shale_host::Error>;
}
