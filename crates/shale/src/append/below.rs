//! An image that is elsewhere, and the bytes that are added to it here.
//!
//! The file of such an append holds only what is added, at the offsets that it has in the image;
//! what is before is a hole that takes no space. The caller puts both together.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use shale_read::{ByteSource, FileSource};

/// An image that is elsewhere, and an empty file for what is added to it.
#[derive(Clone)]
pub struct Below {
    /// The image.
    pub image: Arc<dyn ByteSource>,
    /// The file.
    pub file: Arc<File>,
}

impl fmt::Debug for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Below").field("len", &self.image.len()).finish_non_exhaustive()
    }
}

/// The bytes of an image up to a point, and those of a file from there on.
pub(super) struct Continued {
    image: Arc<dyn ByteSource>,
    file: FileSource,
    /// Where the bytes of the file begin to count.
    from: u64,
}

impl Continued {
    /// The image, and from `from` on the file; only the image without that.
    pub(super) fn new(below: &Below, from: Option<u64>) -> io::Result<Self> {
        let file = FileSource::new(below.file.try_clone()?)?;
        let image = Arc::clone(&below.image);
        let from = from.unwrap_or(image.len());
        Ok(Self { image, file, from })
    }
}

impl ByteSource for Continued {
    fn len(&self) -> u64 {
        self.file.len().max(self.from)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let here = self.from.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (of_image, of_file) = buf.split_at_mut(here);
        if !of_image.is_empty() {
            self.image.read_at(offset, of_image)?;
        }
        match of_file.is_empty() {
            true => Ok(()),
            false => self.file.read_at(offset + here as u64, of_file),
        }
    }

    fn is_far(&self) -> bool {
        self.image.is_far()
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        let far: Vec<_> = ranges.iter().filter(|it| it.end <= self.from).cloned().collect();
        self.image.will_need(&far);
    }

    fn read_again(&self, offset: u64, buf: &mut [u8]) -> bool {
        let end = offset.saturating_add(buf.len() as u64);
        end <= self.from && self.image.read_again(offset, buf)
    }
}
