//! Messages between the process that the user started and the driver that serves the image.
//!
//! They go over sockets that keep messages apart. Only processes of the same user get at such a
//! socket, so a message is trusted; one that makes no sense is an error all the same.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::{Pid, PidfdFlags};
use shale_fuse::Way;

use crate::namespace::Namespaces;

/// Longest message: a path and a little more.
const MESSAGE_LEN_MAX: usize = 8192;
/// Handles in one message.
const HANDLE_COUNT_MAX: usize = 2;
/// How long a driver that was stopped, or that hangs, may let a start wait.
const PATIENCE: Duration = Duration::from_secs(20);
/// Starts that wait for their answer.
const BACKLOG: i32 = 64;

/// What a start asks of its driver.
#[derive(Debug)]
pub enum Request {
    /// Mount and serve.
    Mount {
        /// The way to mount.
        way: Way,
        /// The mount point.
        path: PathBuf,
        /// The handle that holds the lock of the mount point.
        handle: OwnedFd,
    },
    /// Serve what the start has mounted in its own namespace.
    Serve {
        /// The mount point.
        path: PathBuf,
        /// The handle that holds the lock of the mount point.
        handle: OwnedFd,
        /// The device of the mount.
        device: OwnedFd,
    },
}

/// What the driver answers.
#[derive(Debug)]
pub enum Answer {
    /// The image is mounted.
    Ready {
        /// The mount point.
        path: PathBuf,
        /// The namespaces of the mount; none if every process sees the mount.
        namespaces: Option<Namespaces>,
    },
    /// The way to mount does not work; another one may.
    Refused(String),
    /// The image cannot be used.
    Failed(String),
}

/// The process at the other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Its number, which is its own while it waits for an answer.
    pub number: Pid,
    /// Its handle.
    pub handle: OwnedFd,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Takes one end that was passed to this process.
    pub fn new(end: OwnedFd) -> Self {
        Self(end)
    }

    /// Makes both ends of a connection.
    ///
    /// # Errors
    /// There are no file handles left.
    pub fn pair() -> rustix::io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE))?;
        Ok((Self(ours), theirs))
    }

    /// Connects to the driver that listens at `path`; none if there is no driver.
    ///
    /// # Errors
    /// The driver cannot be reached.
    pub fn connect(path: &Path) -> rustix::io::Result<Option<Self>> {
        let socket = socket()?;
        let (_directory, address) = address(path)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            Err(error) => return Err(error),
        }
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Some(Self(socket)))
    }

    /// Returns the process at the other end; none if it is gone or cannot be seen.
    pub fn peer(&self) -> Option<Peer> {
        let number = rustix::net::sockopt::socket_peercred(&self.0).ok()?.pid;
        let handle = rustix::process::pidfd_open(number, PidfdFlags::empty()).ok()?;
        Some(Peer { number, handle })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn ask(&self, request: &Request) -> rustix::io::Result<()> {
        match request {
            Request::Mount { way, path, handle } => {
                let kind = if *way == Way::Direct { b'd' } else { b'h' };
                self.send(kind, path.as_os_str().as_bytes(), &[handle.as_fd()])
            }
            Request::Serve { path, handle, device } => {
                let handles = [handle.as_fd(), device.as_fd()];
                self.send(b's', path.as_os_str().as_bytes(), &handles)
            }
        }
    }

    /// Receives a request; none if the other end is closed.
    ///
    /// # Errors
    /// The message is not a request.
    pub fn request(&self) -> rustix::io::Result<Option<Request>> {
        let Some((kind, bytes, mut handles)) = self.receive()? else { return Ok(None) };
        let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
        let mut next = || handles.pop_front().ok_or(Errno::PROTO);
        Ok(Some(match kind {
            b'd' => Request::Mount { way: Way::Direct, path, handle: next()? },
            b'h' => Request::Mount { way: Way::Helper, path, handle: next()? },
            b's' => Request::Serve { path, handle: next()?, device: next()? },
            _ => return Err(Errno::PROTO),
        }))
    }

    /// Sends an answer.
    ///
    /// # Errors
    /// The other end is closed.
    pub fn answer(&self, answer: &Answer) -> rustix::io::Result<()> {
        match answer {
            Answer::Ready { path, namespaces } => {
                let both = namespaces.as_ref().map(|it| [it.user.as_fd(), it.mount.as_fd()]);
                self.send(b'R', path.as_os_str().as_bytes(), both.as_ref().map_or(&[], |it| it))
            }
            Answer::Refused(reason) => self.send(b'N', reason.as_bytes(), &[]),
            Answer::Failed(reason) => self.send(b'E', reason.as_bytes(), &[]),
        }
    }

    /// Receives an answer; none if the other end is closed.
    ///
    /// # Errors
    /// The message is not an answer, or none came in time.
    pub fn answered(&self) -> rustix::io::Result<Option<Answer>> {
        let Some((kind, bytes, mut handles)) = self.receive()? else { return Ok(None) };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Some(match kind {
            b'R' => {
                let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
                let namespaces = match (handles.pop_front(), handles.pop_front()) {
                    (None, _) => None,
                    (Some(user), Some(mount)) => Some(Namespaces { user, mount }),
                    (Some(_), None) => return Err(Errno::PROTO),
                };
                Answer::Ready { path, namespaces }
            }
            b'N' => Answer::Refused(text(&bytes)),
            b'E' => Answer::Failed(text(&bytes)),
            _ => return Err(Errno::PROTO),
        }))
    }

    fn send(&self, kind: u8, bytes: &[u8], handles: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDLE_COUNT_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !handles.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(handles));
        }
        let bytes = bytes.get(..MESSAGE_LEN_MAX - 1).unwrap_or(bytes);
        let parts = [IoSlice::new(std::slice::from_ref(&kind)), IoSlice::new(bytes)];
        rustix::net::sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL).map(drop)
    }

    #[allow(clippy::type_complexity)] // Used in two lines above.
    fn receive(
        &self,
    ) -> rustix::io::Result<Option<(u8, Vec<u8>, std::collections::VecDeque<OwnedFd>)>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDLE_COUNT_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut buffer = vec![0; MESSAGE_LEN_MAX];
        let mut was_reset = false;
        let message = loop {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match rustix::net::recvmsg(&self.0, &mut parts, &mut control, flags) {
                Err(Errno::INTR) => {}
                // The other end did not read all before it closed. What it sent comes after that.
                Err(Errno::CONNRESET) if !was_reset => was_reset = true,
                Err(Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        let handles = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(handles) => Some(handles),
            _ => None,
        });
        let handles = handles.flatten().collect();
        let parts = buffer.get(..message.bytes).and_then(<[u8]>::split_first);
        Ok(parts.map(|(kind, bytes)| (*kind, bytes.to_vec(), handles)))
    }
}

/// A socket that other starts connect to.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Listens at `path`, where nobody listens; what a killed driver left there is removed.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn bind(path: &Path) -> rustix::io::Result<Self> {
        let _ = std::fs::remove_file(path);
        let socket = socket()?;
        let (_directory, address) = address(path)?;
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Self(socket))
    }

    /// Accepts a connection that waits.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn accept(&self) -> rustix::io::Result<Link> {
        rustix::net::accept_with(&self.0, SocketFlags::CLOEXEC).map(Link)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Returns the address of a socket, and the directory that it goes through, which must stay open
/// while it is used: the kernel takes about a hundred bytes, and paths can be longer.
fn address(path: &Path) -> rustix::io::Result<(std::fs::File, SocketAddrUnix)> {
    use std::os::fd::AsRawFd;
    let parent = path.parent().unwrap_or(Path::new("."));
    let directory = std::fs::File::open(parent)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let mut short = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    short.extend_from_slice(path.file_name().unwrap_or_default().as_bytes());
    let address = SocketAddrUnix::new(std::ffi::OsString::from_vec(short))?;
    Ok((directory, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_arrive_with_their_handles() {
        let folder = tempfile::tempdir().unwrap();
        // Longer than the address of a socket can be.
        let deep = folder.path().join("d".repeat(200));
        std::fs::create_dir(&deep).unwrap();
        let path = deep.join("socket");
        assert!(Link::connect(&path).unwrap().is_none(), "nobody listens");
        let listener = Listener::bind(&path).unwrap();
        let ours = Link::connect(&path).unwrap().unwrap();
        let theirs = listener.accept().unwrap();
        assert!(theirs.peer().is_some());

        let handle = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let place = PathBuf::from("/a mount point");
        let request = Request::Serve { path: place.clone(), handle: handle(), device: handle() };
        ours.ask(&request).unwrap();
        let found = theirs.request().unwrap().unwrap();
        assert!(matches!(found, Request::Serve { path, .. } if path == place));
        let request = Request::Mount { way: Way::Direct, path: place.clone(), handle: handle() };
        ours.ask(&request).unwrap();
        let found = theirs.request().unwrap().unwrap();
        assert!(matches!(found, Request::Mount { way: Way::Direct, path, .. } if path == place));

        theirs.answer(&Answer::Refused("no device".into())).unwrap();
        theirs.answer(&Answer::Ready { path: place.clone(), namespaces: None }).unwrap();
        let both = Some(Namespaces { user: handle(), mount: handle() });
        theirs.answer(&Answer::Ready { path: place.clone(), namespaces: both }).unwrap();
        drop(theirs);
        let found = ours.answered().unwrap().unwrap();
        assert!(matches!(found, Answer::Refused(reason) if reason == "no device"));
        let found = ours.answered().unwrap().unwrap();
        assert!(matches!(found, Answer::Ready { path, namespaces: None } if path == place));
        let found = ours.answered().unwrap().unwrap();
        assert!(matches!(found, Answer::Ready { path, namespaces: Some(_) } if path == place));
        assert!(ours.answered().unwrap().is_none(), "the other end is closed");
        drop(listener);
        assert!(Link::connect(&path).unwrap().is_none(), "nobody listens any more");
    }

    #[test]
    fn other_messages_are_errors() {
        let (ours, theirs) = Link::pair().unwrap();
        let theirs = Link::new(theirs);
        ours.send(b'?', b"", &[]).unwrap();
        ours.send(b's', b"/without handles", &[]).unwrap();
        assert_eq!(theirs.request().unwrap_err(), Errno::PROTO);
        assert_eq!(theirs.request().unwrap_err(), Errno::PROTO);
        ours.send(b'h', b"/not an answer", &[]).unwrap();
        assert_eq!(theirs.answered().unwrap_err(), Errno::PROTO);
    }
}
