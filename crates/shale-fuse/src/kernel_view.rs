//! The kernel view: the kernel's own EROFS over a virtual image that the driver serves as one file.
//!
//! The kernel then handles lookups, listings, attributes and the page cache by itself; the driver
//! only gets reads of metadata pages and of data. Only root can mount a kernel view, and only of a
//! tree that EROFS can show unchanged. For any other tree the error names the reason, and the FUSE
//! view remains available.

/// Bytes as a view with one file.
mod one_file;
/// Where everything lies in the virtual image.
mod layout;
/// The virtual image as a view.
mod virtual_image;
/// What the kernel does if the virtual image cannot be read.
mod probe;
/// Directories for inner mounts.
mod run_dir;
/// Mounting the two file systems.
mod mounting;

use crate::error::MountError;
use crate::mount::Mounted;
use crate::options::Options;
use crate::view::{Totals, View};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use virtual_image::VirtualImage;

/// Inode count below which a tree is fast in either view.
const WORTH_INODE_COUNT_MIN: u64 = 2_000;
/// Inode count above which the layout, 5 µs for each inode, delays the mount by seconds, which a
/// mount that is used once does not gain back.
const WORTH_INODE_COUNT_MAX: u64 = 400_000;
/// Bytes of data for each inode above which the kernel view is no faster than FUSE: most of the
/// time then goes into decoding, which is the same in both. Measured faster at 32 KiB, equal at 128
/// KiB.
const WORTH_LEN_PER_INODE_MAX: u64 = 64 << 10;

/// Checks that the kernel view of a tree of this size is likely to be faster than the FUSE view,
/// and does not widen who can see the files. Mounting it may still turn out to be impossible.
///
/// Costs nothing.
///
/// # Errors
/// The reason why FUSE is the better choice.
pub fn suits_kernel_view(totals: Totals, options: &Options) -> Result<(), String> {
    let Totals { len, inode_count } = totals;
    if !options.allow_other {
        return Err("all users would see it, and allow_other is not set".into());
    }
    if inode_count < WORTH_INODE_COUNT_MIN {
        return Err(format!("a tree of {inode_count} inodes is fast in either view"));
    }
    if inode_count > WORTH_INODE_COUNT_MAX {
        return Err(format!("the layout of {inode_count} inodes would delay the mount"));
    }
    let len_per_inode = len / inode_count;
    if len_per_inode > WORTH_LEN_PER_INODE_MAX {
        let kib = len_per_inode >> 10;
        return Err(format!("with {kib} KiB of data for each inode, FUSE is as fast"));
    }
    Ok(())
}

/// A tree laid out for the kernel's EROFS and not mounted yet.
pub struct KernelView(VirtualImage);

impl KernelView {
    /// Lays out `view`. Ends soon, with an error, when `cancel` becomes true.
    ///
    /// Reads all metadata of the view and builds the virtual image in memory: some microseconds and
    /// about 100 bytes for each entry, which is most of the time that mounting takes.
    ///
    /// # Errors
    /// [`MountError::KernelView`] if the view, the options or the rights of this process do not
    /// allow a kernel view, or if it was cancelled.
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
                "its reads do not tell files apart, so a list of first reads would be wrong";
            return Err(MountError::KernelView(reason.into()));
        }
        let layout = layout::layout(&*view, options, cancel).map_err(MountError::KernelView)?;
        Ok(Self(VirtualImage::new(view, layout)))
    }

    /// Mounts it at `mount_point`, with the options of its layout.
    ///
    /// Like any file system of the kernel, it is visible to all users that permissions allow.
    ///
    /// # Errors
    /// [`MountError::KernelView`] if the kernel refuses the mount, and those of
    /// [`mount`](crate::mount::mount()).
    pub fn mount(self, mount_point: &Path, options: &Options) -> Result<Mounted, MountError> {
        mounting::mount_image(self.0, mount_point, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_files_visible_to_all_suit_the_kernel_view() {
        let all = Options { allow_other: true, ..Options::default() };
        let suits = |len, inode_count, options: &Options| {
            suits_kernel_view(Totals { len, inode_count }, options)
        };
        // Measured trees, on both sides of the bounds.
        assert_eq!(suits(595 << 20, 168_610, &all), Ok(()));
        assert_eq!(suits(489 << 20, 15_814, &all), Ok(()));
        assert!(suits(512 << 20, 4_096, &all).unwrap_err().contains("128 KiB"));
        assert!(suits(0, 1_000_000_000, &all).unwrap_err().contains("delay"));
        assert!(
            suits(595 << 20, 168_610, &Options::default()).unwrap_err().contains("allow_other")
        );
        for (len, inode_count) in [(0, 0), (0, 1_999), (u64::MAX, 1), (u64::MAX, u64::MAX - 1)] {
            assert!(suits(len, inode_count, &all).is_err());
        }
    }
}
