//! Mounting without any right: in a user namespace and a mount namespace of the program's own.
//!
//! In its user namespace a process may mount, and only processes in its mount namespace see what it
//! mounts. User and group keep their numbers, so the program notices little: other users' files
//! belong to nobody, and programs with setuid bits do not work. The kernel unmounts when the last
//! process in the namespace has ended and nobody keeps its [`Namespaces`].

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mount::MountPropagationFlags;
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use shale_fuse::{Options, Way};

use crate::bundle::OWN;
use crate::failure::{During, Failure};
use crate::system;

/// The name of the process that tries it. A refused attempt cannot be undone, so it is made by
/// another process.
pub const PROBE: &str = "shale-runtime: probe";

/// Returns whether this process could mount at `mount_point` in new namespaces.
///
/// # Errors
/// It could not; the reason.
pub fn probe(mount_point: &Path) -> Result<(), Failure> {
    let mut command = Command::new(OWN);
    command.arg0(PROBE).arg(mount_point).stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.stderr(Stdio::piped()).output().during("start a process")?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Failure::new(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// The process that [`probe`] starts: its exit code is the answer.
///
/// # Errors
/// Mounting is not possible.
pub fn run_probe(words: &[OsString]) -> Result<(), Failure> {
    let mount_point = words.first().map(PathBuf::from).unwrap_or_default();
    enter()?;
    attach(&mount_point).map(drop)
}

/// Enters new namespaces, in which this process may mount.
///
/// # Errors
/// The system does not allow it.
pub fn enter() -> Result<(), Failure> {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    system::enter_new_namespaces().during("make a user namespace")?;
    match std::fs::write("/proc/self/setgroups", "deny") {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).during("give up the right to change groups");
        }
        _ => {}
    }
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).during("map the user")?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).during("map the group")?;
    // What is mounted outside appears here, and not the other way round.
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", flags).during("make a mount namespace")
}

/// Mounts in the namespaces that [`enter`] made, and returns the device to serve the mount through.
///
/// # Errors
/// The kernel refuses it.
pub fn attach(mount_point: &Path) -> Result<OwnedFd, Failure> {
    // What mount(8) shows inside of the namespace.
    let name = std::fs::read_link(OWN).map_or_else(|_| "shale".into(), PathBuf::into_os_string);
    let name = OsString::from_vec(name.as_bytes().to_vec());
    let options = Options { source_name: name, ..Options::default() };
    let attached = shale_fuse::attach(mount_point, Way::Direct, &options);
    Ok(attached.during("mount in a user namespace")?.device)
}

/// Handles of the two namespaces of a mount. They stay as long as somebody has one.
#[derive(Debug)]
pub struct Namespaces {
    /// The user namespace.
    pub user: OwnedFd,
    /// The mount namespace.
    pub mount: OwnedFd,
}

impl Namespaces {
    /// Returns those of the process with this number; none if they cannot be opened.
    pub fn of(process: Pid) -> Option<Self> {
        let open = |name: &str| {
            let path = format!("/proc/{}/ns/{name}", process.as_raw_nonzero());
            std::fs::File::open(path).ok().map(OwnedFd::from)
        };
        Some(Self { user: open("user")?, mount: open("mnt")? })
    }

    /// Returns further handles of the same namespaces; none if there are no file handles left.
    pub fn duplicate(&self) -> Option<Self> {
        let (user, mount) = (self.user.try_clone().ok()?, self.mount.try_clone().ok()?);
        Some(Self { user, mount })
    }

    /// Joins the namespaces, and keeps the current directory.
    ///
    /// # Errors
    /// The system does not allow it. This process may be in the user namespace then, which does not
    /// keep it from entering new ones.
    pub fn join(&self) -> Result<(), Failure> {
        let here = std::env::current_dir();
        let joined = move_into_link_name_space(self.user.as_fd(), Some(LinkNameSpaceType::User))
            .and_then(|()| {
                move_into_link_name_space(self.mount.as_fd(), Some(LinkNameSpaceType::Mount))
            });
        joined.during("join the namespaces of the running bundle")?;
        if let Ok(here) = here {
            let back = std::env::set_current_dir(&here);
            back.during(format_args!("return to {}", here.display()))?;
        }
        Ok(())
    }
}
