//! Mounting and unmounting for ordinary users, through `fusermount3`, the setuid helper of FUSE.
//!
//! The helper opens the device, mounts it, and passes the device handle through a socket, which is
//! its standard input here.

use crate::error::MountError;
use crate::options::Options;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::ffi::OsString;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "fusermount3";

/// Mounts at `mount_point` and returns the device handle to serve the mount through.
///
/// # Errors
/// The helper is not installed, or refuses; its own message is part of the error.
pub(super) fn mount(mount_point: &Path, options: &Options) -> Result<OwnedFd, MountError> {
    let failed =
        |what: &str, error: io::Error| MountError::system(format!("{what} {PROGRAM}"), error);
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| failed("make a socket for", errno.into()))?;
    let mut child = Command::new(PROGRAM)
        .arg("-o")
        .arg(option_text(options))
        .arg("--")
        .arg(mount_point)
        .env("_FUSE_COMMFD", "0")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => MountError::HelperMissing,
            _ => failed("start", error),
        })?;
    // Only the helper holds the other end now, so the stream ends when the helper ends.
    match receive(&ours) {
        Ok(Some(device)) => {
            child.wait().map_err(|error| failed("wait for", error))?;
            Ok(device)
        }
        Ok(None) => {
            drop(ours);
            Err(MountError::HelperFailed(last_words(child)))
        }
        Err(error) => {
            drop(ours);
            let _ = child.wait();
            Err(failed("get the device from", error))
        }
    }
}

/// Unmounts through the helper.
///
/// # Errors
/// The mount is in use; the helper is not installed, or refuses with a message of its own.
pub(crate) fn unmount(mount_point: &Path, lazy: bool) -> Result<(), MountError> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u");
    if lazy {
        command.arg("-z");
    }
    let child = command
        .arg("--")
        .arg(mount_point)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let output = child.and_then(Child::wait_with_output).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::HelperMissing,
        _ => MountError::system(format!("run {PROGRAM}"), error),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let message = cleaned(&output.stderr);
    if message.contains("busy") {
        return Err(MountError::Busy(mount_point.to_owned()));
    }
    Err(MountError::HelperFailed(message))
}

/// Receives the device handle; `None` if the helper ends without sending one.
fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8; 1];
    let message = loop {
        let mut buffers = [IoSliceMut::new(&mut byte)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(socket, &mut buffers, &mut control, flags) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    if message.bytes == 0 {
        return Ok(None);
    }
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut handles) = message
            && let Some(device) = handles.next()
        {
            return Ok(Some(device));
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "no device in the message"))
}

/// Returns the error message of a helper that gave up.
fn last_words(mut child: Child) -> String {
    /// Longer than any message of the helper.
    const LEN_MAX: u64 = 4096;
    let mut words = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(LEN_MAX).read_to_end(&mut words);
    }
    let status = child.wait();
    match (cleaned(&words), status) {
        (message, Ok(status)) if message.is_empty() => format!("ended with {status}"),
        (message, _) => message,
    }
}

/// Joins a message into one line and strips the name of the program from it.
fn cleaned(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix(PROGRAM).and_then(|l| l.strip_prefix(": ")).unwrap_or(line))
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines.join("; ")
}

fn option_text(options: &Options) -> OsString {
    let mut text = b"ro,noatime,default_permissions,subtype=shale,fsname=".to_vec();
    for &byte in options.source_name.as_bytes() {
        if matches!(byte, b',' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    let flags = [
        (!options.allow_setuid, "nosuid"),
        (!options.allow_devices, "nodev"),
        // The helper defaults to nosuid and nodev; root may ask for the opposite.
        (options.allow_setuid, "suid"),
        (options.allow_devices, "dev"),
        (options.forbid_exec, "noexec"),
        (options.allow_other, "allow_other"),
    ];
    for (_, word) in flags.iter().filter(|(wanted, _)| *wanted) {
        text.push(b',');
        text.extend_from_slice(word.as_bytes());
    }
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_the_image_path_stay_in_the_path() {
        let options = Options {
            source_name: OsString::from("/data/a,allow_other\\b.shale"),
            ..Options::default()
        };
        assert_eq!(
            option_text(&options).to_str().unwrap(),
            "ro,noatime,default_permissions,subtype=shale,\
             fsname=/data/a\\,allow_other\\\\b.shale,nosuid,nodev"
        );
    }

    #[test]
    fn the_name_of_the_helper_is_stripped() {
        assert_eq!(
            cleaned(b"fusermount3: user has no write access\n\n"),
            "user has no write access"
        );
    }
}
