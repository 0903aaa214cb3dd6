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

use crate::error::MountError;
use crate::mount::{Mounted, over};
use crate::options::Options;
use crate::view::View;
use std::path::Path;
use std::sync::Arc;

pub(crate) use image::{FILE_NAME, VirtualImage};

/// Mounts `view` at `mount_point` as the kernel's EROFS.
///
/// Like any file system of the kernel, it is visible to all users whom permissions allow.
///
/// Reads all metadata of the view and lays it out in memory, about 100 bytes an entry, before it
/// mounts: some microseconds an entry. Errors: [`MountError::KernelView`] where the view, the
/// kernel or the rights of this process do not allow it, and those of [`mount`](crate::mount()).
pub fn mount_kernel_view(
    view: Arc<dyn View>,
    mount_point: &Path,
    options: &Options,
) -> Result<Mounted, MountError> {
    if !rustix::process::geteuid().is_root() {
        return Err(MountError::KernelView("only root may mount it".into()));
    }
    if options.on_read.is_some() {
        let reason = "its reads do not tell files apart, so a list of what is read would be wrong";
        return Err(MountError::KernelView(reason.into()));
    }
    let layout = layout::layout(&*view, options).map_err(MountError::KernelView)?;
    over::mount(VirtualImage::new(view, layout), mount_point, options)
}
