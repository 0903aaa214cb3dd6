//! The kernel view: the kernel's own EROFS over a virtual image that the driver serves as one file.
//!
//! Lookups, listings, attributes and the page cache are then the kernel's business; what comes to
//! the driver is reads of metadata pages and of data. For root only, and for trees that EROFS can
//! show as they are; where it cannot, the reason is told and the FUSE view is as good as before.

/// The on-disk format.
mod erofs;
/// The virtual image as a view.
mod image;
/// Where everything lies in it.
mod layout;
/// Bytes as a view.
mod one_file;
/// What the kernel does where the virtual image cannot be read.
pub(crate) mod trial;

use crate::error::MountError;
use crate::mount::{Mounted, over};
use crate::options::Options;
use crate::view::{Totals, View};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) use image::{FILE_NAME, VirtualImage};

/// Inodes below which a tree is quick either way.
const WORTH_INODE_COUNT_MIN: u64 = 2_000;
/// Inodes beyond which laying out, 5 µs each, takes seconds before the mount is ready, which a
/// mount used once does not get back.
const WORTH_INODE_COUNT_MAX: u64 = 400_000;
/// Bytes of data for each inode beyond which a tree is read no faster than through FUSE: what costs
/// is then decoding, which is the same. Measured faster at 32 KiB, equal at 128 KiB.
const WORTH_LEN_PER_INODE_MAX: u64 = 64 << 10;

/// Whether the kernel view of a tree of this size can be expected to be faster than the FUSE view,
/// and nobody sees it who would not see that. It may still turn out to be impossible.
///
/// Costs nothing. Errors: why FUSE is the better choice.
pub fn suits_kernel_view(totals: Totals, options: &Options) -> Result<(), String> {
    let Totals { len, inode_count } = totals;
    if !options.allow_other {
        return Err("all users would see it, and allow_other was not asked for".into());
    }
    if inode_count < WORTH_INODE_COUNT_MIN {
        return Err(format!("a tree of {inode_count} inodes is quick either way"));
    }
    if inode_count > WORTH_INODE_COUNT_MAX {
        return Err(format!("laying out {inode_count} inodes would keep the mount waiting"));
    }
    let len_per_inode = len / inode_count;
    if len_per_inode > WORTH_LEN_PER_INODE_MAX {
        let kib = len_per_inode >> 10;
        return Err(format!("{kib} KiB of data for each inode are read as fast through FUSE"));
    }
    Ok(())
}

/// A tree laid out for the kernel's EROFS and not mounted yet.
pub struct KernelView(VirtualImage);

impl KernelView {
    /// Lays out `view`, unless `cancel` becomes true meanwhile: then it ends soon, with an error.
    ///
    /// Reads all metadata of the view and lays it out in memory, about 100 bytes an entry: some
    /// microseconds an entry, which is what takes long of mounting it. Errors:
    /// [`MountError::KernelView`] where the view, the options or the rights of this process do not
    /// allow it.
    pub fn lay_out(
        view: Arc<dyn View>,
        options: &Options,
        cancel: &AtomicBool,
    ) -> Result<Self, MountError> {
        if !rustix::process::geteuid().is_root() {
            return Err(MountError::KernelView("only root may mount it".into()));
        }
        if options.on_read.is_some() {
            let reason =
                "its reads do not tell files apart, so a list of what is read would be wrong";
            return Err(MountError::KernelView(reason.into()));
        }
        let layout = layout::layout(&*view, options, cancel).map_err(MountError::KernelView)?;
        Ok(Self(VirtualImage::new(view, layout)))
    }

    /// Mounts it at `mount_point`, with the options that it was laid out with.
    ///
    /// Like any file system of the kernel, it is visible to all users whom permissions allow.
    ///
    /// Errors: [`MountError::KernelView`] where the kernel does not allow it, and those of
    /// [`mount`](crate::mount()).
    pub fn mount(self, mount_point: &Path, options: &Options) -> Result<Mounted, MountError> {
        over::mount(self.0, mount_point, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_files_that_all_may_see_suit_the_kernel_view() {
        let all = Options { allow_other: true, ..Options::default() };
        let suits = |len, inode_count, options: &Options| {
            suits_kernel_view(Totals { len, inode_count }, options)
        };
        // Trees that were measured, on both sides.
        assert_eq!(suits(595 << 20, 168_610, &all), Ok(()));
        assert_eq!(suits(489 << 20, 15_814, &all), Ok(()));
        assert!(suits(512 << 20, 4_096, &all).unwrap_err().contains("128 KiB"));
        assert!(suits(0, 1_000_000_000, &all).unwrap_err().contains("waiting"));
        assert!(
            suits(595 << 20, 168_610, &Options::default()).unwrap_err().contains("allow_other")
        );
        for (len, inode_count) in [(0, 0), (0, 1_999), (u64::MAX, 1), (u64::MAX, u64::MAX - 1)] {
            assert!(suits(len, inode_count, &all).is_err());
        }
    }
}
