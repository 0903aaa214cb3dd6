//! The process that serves the image, from the first start of a bundle to the end of the last.
//!
//! It watches the processes that it mounted for, and their end, however they end, is how it learns
//! that the mount may go. It stays for some seconds more, so that a next start finds it with all
//! that the kernel has cached of it. A mount that is still in use then, by a process that was
//! started in the background, stays until that ends too. The driver has a session of its own, so a
//! Ctrl-C for the program does not reach it, and it is not a child of the program.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shale_fuse::{Attached, LineSink, MountError, Mounted, Options, Unmounter, Way};
use shale_read::{Identity, SnapshotChoice};

use crate::bundle::{OWN, OwnBundle};
use crate::failure::{During, Failure};
use crate::link::{Answer, Link, Listener, Request};
use crate::namespace::Namespaces;
use crate::place::{Lock, MountPoint, UserDirectory};
use crate::system;

/// The name of the process that starts a driver and ends, so that the driver is nobody's child.
pub const STARTER: &str = "shale-runtime: starter";
/// The name of the driver.
pub const DRIVER: &str = "shale-runtime: driver";

/// How long to wait before a mount in use is looked at again: at first, and at most.
const PAUSE_MS: i64 = 20;
const PAUSE_MS_MAX: i64 = 1_000;

/// What a driver serves, as its words on the command line.
#[derive(Debug, Clone)]
pub struct Job {
    /// The directory of this user.
    pub place: UserDirectory,
    /// The key of the bundle; none if nobody else may use the mount.
    pub key: Option<String>,
    /// The identity that the image must have.
    pub expect: Option<Identity>,
    /// How long the mount stays for a next start when the last process that it was made for has
    /// ended.
    pub linger: Duration,
}

impl Job {
    fn words(&self) -> [OsString; 4] {
        let expect = self.expect.map_or_else(String::new, |identity| identity.to_string());
        let key = self.key.clone().unwrap_or_default();
        let linger = self.linger.as_secs().to_string();
        [self.place.path().into(), key.into(), expect.into(), linger.into()]
    }

    fn parse(words: &[OsString]) -> Result<Self, Failure> {
        let wrong = || Failure::new("this name is for processes that a bundle starts itself");
        let [place, key, expect, linger] = words else { return Err(wrong()) };
        let linger = linger.to_str().and_then(|it| it.parse().ok()).ok_or_else(wrong)?;
        let expect = expect.to_string_lossy();
        Ok(Self {
            place: UserDirectory::at(place.into()),
            key: Some(key.to_string_lossy().into_owned()).filter(|key| !key.is_empty()),
            expect: match expect.is_empty() {
                true => None,
                false => Some(expect.parse::<Identity>().map_err(Failure::new)?),
            },
            linger: Duration::from_secs(linger),
        })
    }

    /// Starts a driver, which waits for a request.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(&self) -> Result<Link, Failure> {
        let (link, end) = Link::pair().during("make a socket")?;
        let mut command = Command::new(OWN);
        command.arg0(STARTER).args(self.words()).stdin(Stdio::from(end));
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        match status.during("start a process")?.success() {
            true => Ok(link),
            false => Err(Failure::new("cannot start the driver")),
        }
    }
}

/// The process between a start and its driver.
///
/// # Errors
/// The driver cannot be started.
pub fn run_starter(words: &[OsString]) -> Result<(), Failure> {
    system::keep_inherited_handles();
    // The three standard ones are passed on.
    let driver = Command::new(OWN).arg0(DRIVER).args(words).spawn();
    driver.map(drop).during("start the driver")
}

/// The driver. Returns when the mount is gone.
///
/// # Errors
/// The image or the mount failed; the start that asked for it was told.
pub fn run(words: &[OsString]) -> Result<(), Failure> {
    let end = std::io::stdin().as_fd().try_clone_to_owned().during("take the socket")?;
    let link = Link::new(end);
    let job = Job::parse(words)?;
    let log = log();
    match Driver::begin(job, &link, log) {
        Ok(Some(driver)) => {
            drop(link);
            driver.serve();
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(failure) => {
            let _ = link.answer(&Answer::Failed(failure.message.clone()));
            Err(failure)
        }
    }
}

/// Where lines about failed reads go: to the file in `$SHALE_LOG`, or nowhere, as the terminal
/// belongs to the program.
fn log() -> LineSink {
    let file = std::env::var_os("SHALE_LOG").filter(|name| !name.is_empty());
    let file = file.and_then(|name| File::options().append(true).create(true).open(name).ok());
    let file = file.map(Mutex::new);
    Arc::new(move |line: &str| {
        if let Some(file) = &file {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    })
}

struct Driver {
    job: Job,
    way: Way,
    mount_point: MountPoint,
    unmounter: Unmounter,
    /// Readable when the mount has ended.
    ended: OwnedFd,
    /// The socket for further starts, and the numbers of its file.
    door: Option<(Listener, Option<(u64, u64)>)>,
    /// The processes that the mount is for.
    holders: Vec<OwnedFd>,
    /// Those of a mount elsewhere, which keep it while a next start may come.
    namespaces: Option<Namespaces>,
    log: LineSink,
    /// Kept from the unmounting until everything is removed: a start in between would take the same
    /// mount point, and what watches this driver would unmount it.
    lock: Option<Lock>,
}

impl Driver {
    /// Opens the image, mounts and answers. Returns none if the start is gone.
    fn begin(job: Job, link: &Link, log: LineSink) -> Result<Option<Self>, Failure> {
        detach()?;
        // Before the first byte of the image is read.
        shale_fuse::confine();
        let own = OwnBundle::open()?;
        let image = own.image(job.expect, Some(0))?;
        if let Some(recovery) = image.recovered() {
            log(&format!("the image in the bundle: {}", recovery.reason));
        }
        let tree = image.tree(&SnapshotChoice::Newest).during("read the image")?;
        let tree = Arc::new(tree);
        let options = Options {
            source_name: own.path.clone().into(),
            auto_unmount: true,
            // As after extracting: the files are the user's.
            uid: Some(rustix::process::geteuid().as_raw()),
            gid: Some(rustix::process::getegid().as_raw()),
            log: Arc::clone(&log),
            ..Options::default()
        };
        loop {
            let Some(request) = link.request().during("understand the start")? else {
                return Ok(None);
            };
            let (way, path, handle, attached) = match request {
                Request::Mount { way, path, handle } => {
                    (way, path.clone(), handle, shale_fuse::attach(&path, way, &options))
                }
                Request::Serve { path, handle, device } => {
                    let (way, mount_point) = (Way::Elsewhere, path.clone());
                    (way, path, handle, Ok(Attached { device, way, mount_point }))
                }
            };
            let view = Arc::clone(&tree);
            let mounted = attached.and_then(|attached| shale_fuse::serve(view, attached, &options));
            let mounted = match mounted {
                Ok(mounted) => mounted,
                Err(error) => {
                    let refused = Answer::Refused(error.to_string());
                    link.answer(&refused).during("answer the start")?;
                    continue;
                }
            };
            let mount_point = MountPoint::from_parts(path, handle);
            return Self::open_door(job, link, log, way, mount_point, mounted).map(Some);
        }
    }

    /// Lets further starts in and answers the first one.
    fn open_door(
        job: Job,
        link: &Link,
        log: LineSink,
        way: Way,
        mount_point: MountPoint,
        mounted: Mounted,
    ) -> Result<Self, Failure> {
        let unmounter = mounted.unmounter();
        let (ended, writer) = std::io::pipe().during("make a pipe")?;
        let wait = move || {
            let _ = mounted.wait();
            drop(writer);
        };
        std::thread::Builder::new().name("end".into()).spawn(wait).during("start a thread")?;
        let door = job.key.as_ref().and_then(|key| {
            let socket = job.place.socket(key);
            // Without it, other starts mount for themselves.
            Some((Listener::bind(&socket).ok()?, numbers(&socket)))
        });
        let peer = link.peer();
        let namespaces = match way {
            Way::Elsewhere => peer.as_ref().and_then(|peer| Namespaces::of(peer.number)),
            _ => None,
        };
        let holders = peer.map(|peer| peer.handle).into_iter().collect();
        let ended = ended.into();
        let driver = Self {
            job,
            way,
            mount_point,
            unmounter,
            ended,
            door,
            holders,
            namespaces,
            log,
            lock: None,
        };
        // If the start is gone, there is no holder, and the mount goes at once.
        let _ = link.answer(&driver.ready());
        Ok(driver)
    }

    fn ready(&self) -> Answer {
        let namespaces = self.namespaces.as_ref().and_then(Namespaces::duplicate);
        Answer::Ready { path: self.mount_point.path.clone(), namespaces }
    }

    /// Waits for starts and ends until the mount is gone.
    fn serve(mut self) {
        let mut pause = PAUSE_MS;
        // When the last holder ended.
        let mut since = None;
        loop {
            let mut wait = None;
            if !self.holders.is_empty() {
                (pause, since) = (PAUSE_MS, None);
            } else if let Some(left) = self.stay_left(*since.get_or_insert_with(Instant::now)) {
                wait = Timespec::try_from(left).ok();
            } else {
                if self.try_end() {
                    break;
                }
                // A mount elsewhere that nobody can join any more ends by itself.
                let is_open = self.door.is_some() || self.namespaces.is_some();
                if self.way != Way::Elsewhere || is_open {
                    wait = Some(Timespec { tv_sec: 0, tv_nsec: pause * 1_000_000 });
                    pause = (pause * 2).min(PAUSE_MS_MAX - 1);
                }
            }
            if self.wait(wait.as_ref()) {
                break;
            }
        }
        self.leave();
    }

    /// Returns how long the mount still waits for a next start, which must be able to join it, if
    /// the last holder ended at `since`.
    fn stay_left(&self, since: Instant) -> Option<Duration> {
        let can_join =
            self.door.is_some() && (self.way != Way::Elsewhere || self.namespaces.is_some());
        let left = self.job.linger.saturating_sub(since.elapsed());
        (can_join && !left.is_zero()).then_some(left)
    }

    /// Waits for the next event. Returns whether the mount has ended.
    fn wait(&mut self, wait: Option<&Timespec>) -> bool {
        let mut handles = vec![PollFd::new(&self.ended, PollFlags::IN)];
        if let Some((listener, _)) = &self.door {
            handles.push(PollFd::new(listener, PollFlags::IN));
        }
        let fixed = handles.len();
        handles.extend(self.holders.iter().map(|holder| PollFd::new(holder, PollFlags::IN)));
        if poll(&mut handles, wait).is_err() {
            return false;
        }
        let happened: Vec<bool> = handles.iter().map(|it| !it.revents().is_empty()).collect();
        drop(handles);
        let mut ends = happened.iter().skip(fixed);
        self.holders.retain(|_| !ends.next().copied().unwrap_or_default());
        if fixed == 2 && happened.get(1) == Some(&true) {
            self.let_in();
        }
        happened.first() == Some(&true)
    }

    /// Answers a further start.
    fn let_in(&mut self) {
        let Some((listener, _)) = &self.door else { return };
        let Ok(link) = listener.accept() else { return };
        // It waits for the answer, so its number is its own.
        if let Some(peer) = link.peer()
            && link.answer(&self.ready()).is_ok()
        {
            self.holders.push(peer.handle);
        }
    }

    /// Ends the mount if nobody uses it. Returns whether it was unmounted.
    fn try_end(&mut self) -> bool {
        let lock = match &self.job.key {
            None => None,
            Some(key) => match self.job.place.try_lock(key) {
                Ok(Some(lock)) => Some(lock),
                // Somebody is about to start.
                Ok(None) => return false,
                Err(failure) => {
                    (self.log)(&failure.message);
                    None
                }
            },
        };
        if self.way == Way::Elsewhere {
            // Processes in the namespace may still use it, but nobody can join them.
            self.close_door();
            self.namespaces = None;
            if let Some(lock) = lock {
                lock.remove();
            }
            return false;
        }
        match self.unmounter.unmount(false) {
            Err(MountError::Busy(_)) => return false,
            Err(error) => {
                (self.log)(&error.to_string());
                let _ = self.unmounter.unmount(true);
                // It may stay in use for long, and starts must not wait for that. The mount point
                // is locked until then.
                drop(lock);
            }
            Ok(()) => self.lock = lock,
        }
        true
    }

    /// Removes the socket, if it is still this driver's.
    fn close_door(&mut self) {
        if let (Some((listener, ours)), Some(key)) = (self.door.take(), &self.job.key) {
            let socket = self.job.place.socket(key);
            if ours.is_some() && numbers(&socket) == ours {
                let _ = std::fs::remove_file(socket);
            }
            drop(listener);
        }
    }

    /// Removes what the driver made, when the mount has ended.
    fn leave(mut self) {
        self.close_door();
        // Only then has the process that watches this one been told not to unmount.
        while poll(&mut [PollFd::new(&self.ended, PollFlags::IN)], None) == Err(Errno::INTR) {}
        self.mount_point.remove();
        // Somebody else may have unmounted.
        let lock = self.lock.or_else(|| self.job.place.try_lock(self.job.key.as_ref()?).ok()?);
        if let Some(lock) = lock {
            lock.remove();
        }
    }
}

/// Device and number of a file.
fn numbers(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Leaves the terminal, the session and the directory of the program.
fn detach() -> Result<(), Failure> {
    // Only the leader of a group cannot, and then it has a group of its own.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").during("leave the current directory")?;
    let null = File::open("/dev/null").during("open /dev/null")?;
    rustix::stdio::dup2_stdin(&null).during("close the standard input")?;
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    Ok(())
}
