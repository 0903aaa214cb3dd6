//! What the caller of a build decides.

use std::sync::Arc;

use shale_host::Cancel;
use shale_source::SourceOptions;

use crate::envelope::{Delivery, Envelope};

/// How to create an image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Options of the build. Its cancel flag is set from `cancel`.
    pub build: shale_write::Options,
    /// Options of the inputs. Threads, times, the temporary directory and the cancel flag are those
    /// of the build.
    pub source: SourceOptions,
    /// Read the image back and compare it with the source before it gets its name.
    pub verify: bool,
    /// Parity for each million bytes of the image; 0 for none.
    pub parity_ppm: u32,
    /// Pad the image with zeroes to a multiple of 4 KiB, for loop devices and partitions. They
    /// follow the image and are not part of it.
    pub pad: bool,
    /// Replace an existing output.
    pub overwrite: bool,
    /// Writes the output in another form. Goes with neither parity nor padding.
    pub envelope: Option<Arc<dyn Envelope>>,
    /// Takes the output, which is a temporary file then. By default it gets its name.
    pub delivery: Option<Arc<dyn Delivery>>,
    /// Ends the run with [`shale_host::Error::Cancelled`].
    pub cancel: Cancel,
}

impl CreateOptions {
    shale_host::setters! {
        build: shale_write::Options,
        source: SourceOptions,
        verify: bool,
        parity_ppm: u32,
        pad: bool,
        overwrite: bool,
        envelope: Option<Arc<dyn Envelope>>,
        delivery: Option<Arc<dyn Delivery>>,
        cancel: Cancel,
    }

    /// Returns the options of the inputs, with what the build decides for them.
    pub fn to_source(&self) -> SourceOptions {
        self.source
            .clone()
            .threads(self.build.threads)
            .times_kept(self.build.times_kept)
            .temp_dir(self.build.temp_dir.clone())
            .cancel(self.cancel.clone())
    }
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            build: shale_write::Options::default(),
            source: SourceOptions::default(),
            verify: true,
            parity_ppm: 0,
            pad: false,
            overwrite: false,
            envelope: None,
            delivery: None,
            cancel: Cancel::new(),
        }
    }
}
