//! Whether the kernel's EROFS says so when it cannot read a part of the file that it is in.
//!
//! Until Linux 7.0, and until the stable kernels that took the change over, EROFS over a file fills
//! up with zeroes what a read did not bring, and keeps that as what the file holds: where the image
//! is damaged, and where the program that reads is killed meanwhile. No version tells, so a small
//! image is mounted that cannot be read from some block on, and read. Block devices are not
//! affected, so a loop device is the way around it.

use super::VirtualImage;
use super::erofs::BLOCK_LEN;
use super::layout::layout;
use super::one_file::{Bytes, OneFile};
use crate::options::Options;
use crate::view::ViewError;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The one file in the trial image.
const NAME: &str = "trial";
/// Few blocks, so that EROFS asks for all of them at once.
pub(crate) const LEN: u64 = 8 * BLOCK_LEN;
/// From here on nothing can be read; blocks before make the read a short one, and no failed one.
const READABLE_LEN: u64 = 3 * BLOCK_LEN;

/// The trial image.
pub(crate) fn image() -> Result<VirtualImage, String> {
    let view = Arc::new(OneFile(Trial));
    let layout = layout(&*view, &Options::default(), &AtomicBool::new(false))?;
    Ok(VirtualImage::new(view, layout))
}

/// Whether the trial image mounted at `directory` shows that it cannot be read.
///
/// Errors: its file cannot be opened, which tells nothing.
pub(crate) fn is_error_told(directory: &Path) -> io::Result<bool> {
    let file = File::open(directory.join(NAME))?;
    Ok(file.read_exact_at(&mut [0; LEN as usize], 0).is_err())
}

/// A file that ends in a failure.
struct Trial;

impl Bytes for Trial {
    const NAME: &'static str = NAME;

    fn len(&self) -> u64 {
        LEN
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError> {
        if offset.saturating_add(buf.len() as u64) > READABLE_LEN {
            // Any error does, and this one is nothing to tell people about.
            return Err(ViewError::WrongKind);
        }
        buf.fill(b'-');
        Ok(buf.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_view::one_file::FILE;
    use crate::view::View;

    #[test]
    fn a_kernel_that_fills_up_with_zeroes_is_found_out() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(NAME);
        // What one of them shows, what others show, and where nothing can be found out.
        std::fs::write(&file, [0; LEN as usize]).unwrap();
        assert!(!is_error_told(directory.path()).unwrap());
        std::fs::write(&file, [b'-'; READABLE_LEN as usize]).unwrap();
        assert!(is_error_told(directory.path()).unwrap());
        std::fs::remove_file(&file).unwrap();
        assert!(is_error_told(directory.path()).is_err());
    }

    #[test]
    fn the_trial_image_can_be_read_up_to_a_block_and_no_further() {
        let image = image().unwrap();
        let read = |offset, len: u64| image.read(FILE, offset, &mut vec![0; len as usize]);
        let len = image.totals().len;
        // All contents lie at the end.
        let start = len - LEN;
        assert_eq!(read(start, READABLE_LEN).unwrap() as u64, READABLE_LEN);
        assert!(read(start, LEN).is_err());
        for at in (READABLE_LEN..LEN).step_by(BLOCK_LEN as usize) {
            assert!(read(start + at, BLOCK_LEN).is_err());
        }
    }
}
