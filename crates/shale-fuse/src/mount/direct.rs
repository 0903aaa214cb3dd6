//! Mounting by the system call, which root may do, also root of a user namespace.

use crate::error::MountError;
use crate::mount_table::FILE_SYSTEM;
use crate::options::Options;
use crate::transport::device;
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Mounts at `mount_point` and returns the device handle to serve the mount through.
///
/// # Errors
/// The device cannot be opened, or the kernel refuses the mount.
pub(super) fn mount(mount_point: &Path, options: &Options) -> Result<OwnedFd, MountError> {
    let device = device::open()?;
    // `rootmode` is the file type of the root, in octal.
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw()
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).map_err(|e| MountError::system("mount", e))?;
    let flag = |wanted: bool, flag| if wanted { flag } else { MountFlags::empty() };
    let flags = MountFlags::RDONLY
        | MountFlags::NOATIME
        | flag(!options.allow_setuid, MountFlags::NOSUID)
        | flag(!options.allow_devices, MountFlags::NODEV)
        | flag(options.forbid_exec, MountFlags::NOEXEC);
    let source = options.source_name.as_os_str();
    rustix::mount::mount(source, mount_point, FILE_SYSTEM, flags, data.as_c_str()).map_err(
        |errno| match errno {
            Errno::PERM | Errno::ACCESS => MountError::NotPermitted {
                what: format!("mount at {}", mount_point.display()),
                hint: "in a container, start it with `--cap-add SYS_ADMIN --device /dev/fuse`",
            },
            Errno::NODEV => MountError::NoDevice(errno.into()),
            Errno::BUSY => MountError::Busy(mount_point.to_owned()),
            other => MountError::system(format!("mount at {}", mount_point.display()), other),
        },
    )?;
    Ok(device)
}
