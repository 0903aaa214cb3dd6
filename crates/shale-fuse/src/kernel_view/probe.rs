//! Finds out whether the kernel's EROFS reports an error when it cannot read its backing file.
//!
//! Before Linux 7.0, and before the stable kernels with that change, EROFS over a file fills the
//! missing part of a short read with zeroes and caches them as the content of the file. This
//! happens if the image is damaged or if the reading program is killed. The kernel version does not
//! tell whether a kernel has the change. So the probe mounts a small image that cannot be read from
//! some block on, and reads it. Block devices are not affected, so a loop device avoids the
//! problem.

use super::layout::layout;
use super::one_file::{Bytes, OneFile};
use super::virtual_image::VirtualImage;
use crate::options::Options;
use crate::view::ViewError;
use shale_erofs::BLOCK_LEN;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The only file in the probe image.
const NAME: &str = "probe";
/// Few blocks, so that EROFS asks for all of them at once.
pub(super) const LEN: u64 = 8 * BLOCK_LEN;
/// Nothing can be read from here on. The blocks before it make the read short instead of failed.
const READABLE_LEN: u64 = 3 * BLOCK_LEN;

/// Lays out the probe image.
///
/// # Errors
/// A bug in the layout, in words.
pub(super) fn image() -> Result<VirtualImage, String> {
    let view = Arc::new(OneFile(Failing));
    let layout = layout(&*view, &Options::default(), &AtomicBool::new(false))?;
    Ok(VirtualImage::new(view, layout))
}

/// Returns whether reading the probe image that is mounted at `directory` reports an error.
///
/// # Errors
/// The file cannot be opened, and the question remains open.
pub(super) fn reports_error(directory: &Path) -> io::Result<bool> {
    let file = File::open(directory.join(NAME))?;
    Ok(file.read_exact_at(&mut [0; LEN as usize], 0).is_err())
}

/// A file whose end cannot be read.
struct Failing;

impl Bytes for Failing {
    const NAME: &'static str = NAME;

    fn len(&self) -> u64 {
        LEN
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError> {
        if offset.saturating_add(buf.len() as u64) > READABLE_LEN {
            // An error that the driver does not log.
            return Err(ViewError::WrongKind);
        }
        buf.fill(b'-');
        Ok(buf.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::one_file::FILE;
    use super::*;
    use crate::view::View;

    #[test]
    fn a_kernel_that_fills_with_zeroes_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(NAME);
        // What such a kernel shows, what other kernels show, and no file at all.
        std::fs::write(&file, [0; LEN as usize]).unwrap();
        assert!(!reports_error(directory.path()).unwrap());
        std::fs::write(&file, [b'-'; READABLE_LEN as usize]).unwrap();
        assert!(reports_error(directory.path()).unwrap());
        std::fs::remove_file(&file).unwrap();
        assert!(reports_error(directory.path()).is_err());
    }

    #[test]
    fn the_probe_image_can_be_read_up_to_a_block_and_no_further() {
        let image = image().unwrap();
        let read = |offset, len: u64| image.read(FILE, offset, &mut vec![0; len as usize]);
        let len = image.totals().len;
        // The contents lie at the end.
        let start = len - LEN;
        assert_eq!(read(start, READABLE_LEN).unwrap() as u64, READABLE_LEN);
        assert!(read(start, LEN).is_err());
        for at in (READABLE_LEN..LEN).step_by(BLOCK_LEN as usize) {
            assert!(read(start + at, BLOCK_LEN).is_err());
        }
    }
}
