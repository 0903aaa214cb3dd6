//! From a bundle to a directory with its files: a mount that runs already, a new one, or a copy.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use shale_fuse::Way;
use shale_read::{Identity, Image};

use crate::bundle::OwnBundle;
use crate::cache;
use crate::driver::Job;
use crate::failure::{During, Failure, USAGE};
use crate::link::{Answer, Link, Request};
use crate::namespace;
use crate::place::{MountPoint, UserDirectory};
use crate::trust;

/// The variable that names the only way to use.
const WAY_VARIABLE: &str = "SHALE_MOUNT";
/// The variable of AppImage that asks for no mount.
const EXTRACT_VARIABLE: &str = "APPIMAGE_EXTRACT_AND_RUN";
/// The variable that names the key which must have signed the image.
const KEY_VARIABLE: &str = "SHALE_VERIFY";

/// The variable that names how many seconds a mount stays when its last program has ended.
const LINGER_VARIABLE: &str = "SHALE_LINGER";
/// How long it stays by default: enough for the next command of a script and for a person who
/// starts a program again, and short enough for a person who waits to unmount the disk below.
const LINGER_SECONDS: u64 = 10;
/// The longest stay that can be asked for, a day.
const LINGER_SECONDS_MAX: u64 = 86_400;

/// A way to give the files of the image a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Mounted where every process of the user sees them.
    Mount(Way),
    /// Mounted in namespaces of the program.
    Namespace,
    /// Extracted to the cache.
    Extract,
}

/// Returns the ways to try, in order.
fn ways() -> Result<Vec<How>, Failure> {
    let mount = match rustix::process::geteuid().is_root() {
        true => How::Mount(Way::Direct),
        false => How::Mount(Way::Helper),
    };
    if std::env::var_os(EXTRACT_VARIABLE).is_some_and(|it| !it.is_empty() && it != "0") {
        return Ok(vec![How::Extract]);
    }
    let word = std::env::var_os(WAY_VARIABLE).unwrap_or_default();
    Ok(match word.to_str().unwrap_or("?") {
        "" => vec![mount, How::Namespace, How::Extract],
        "fuse" => vec![mount],
        "namespace" => vec![How::Namespace],
        "extract" => vec![How::Extract],
        _ => {
            let message = format!(
                "{WAY_VARIABLE} is `{}`: use fuse, namespace or extract",
                word.to_string_lossy()
            );
            return Err(Failure { code: USAGE, message });
        }
    })
}

/// Returns how long a mount stays when its last program has ended.
fn linger() -> Result<Duration, Failure> {
    let Some(word) = std::env::var_os(LINGER_VARIABLE).filter(|word| !word.is_empty()) else {
        return Ok(Duration::from_secs(LINGER_SECONDS));
    };
    let seconds = word.to_str().and_then(|word| word.parse().ok());
    match seconds {
        Some(seconds @ 0..=LINGER_SECONDS_MAX) => Ok(Duration::from_secs(seconds)),
        _ => {
            let message = format!(
                "{LINGER_VARIABLE} is `{}`: use a number of seconds from 0 to {LINGER_SECONDS_MAX}",
                word.to_string_lossy()
            );
            Err(Failure { code: USAGE, message })
        }
    }
}

/// Returns the identity that the image must have, if `$SHALE_VERIFY` names a key: the one that this
/// key signed. Every byte that is used is then verified against it.
///
/// # Errors
/// The key cannot be read, or did not sign the image.
pub fn expected(own: &OwnBundle) -> Result<Option<Identity>, Failure> {
    let key = std::env::var_os(KEY_VARIABLE).filter(|key| !key.is_empty());
    key.map(|key| trusted(own, &key)).transpose()
}

fn trusted(own: &OwnBundle, key: &OsStr) -> Result<Identity, Failure> {
    let image: std::sync::Arc<Image> = own.image(None, None)?;
    trust::signed_identity(&image, &[trust::public_key(key)?])
}

/// Makes the files of the bundle available and returns their directory. A mount lasts as long as
/// this process, whatever it executes, and as long as somebody uses it. With `is_shown`, other
/// processes of the user must see the directory, so namespaces and copies do not do.
///
/// # Errors
/// The image is damaged or not the one with the identity `expect`, or no way works.
pub fn directory(
    own: &OwnBundle,
    expect: Option<Identity>,
    is_shown: bool,
) -> Result<PathBuf, Failure> {
    let (mut ways, mut linger) = (ways()?, linger()?);
    if is_shown {
        ways.retain(|how| matches!(how, How::Mount(_)));
        // Whoever interrupts it expects that to unmount.
        linger = Duration::ZERO;
    }
    let (mut reasons, mut left) = (Vec::new(), ways.as_slice());
    while let Some((how, rest)) = left.split_first() {
        if *how == How::Extract {
            return cache::directory(own, expect)
                .map_err(|failure| with_reasons(failure, &reasons));
        }
        let mounts = left.split(|how| *how == How::Extract).next().unwrap_or_default();
        match mount(own, expect, linger, mounts, &mut reasons)? {
            Some(path) => return Ok(path),
            None => left = left.get(mounts.len()..).unwrap_or(rest),
        }
    }
    let failure = Failure::new("the image cannot be mounted");
    Err(with_reasons(failure, &reasons))
}

fn with_reasons(failure: Failure, reasons: &[String]) -> Failure {
    match reasons {
        [] => failure,
        _ => Failure { message: format!("{failure}; {}", reasons.join("; ")), ..failure },
    }
}

/// Joins a mount or makes one, in the first of `ways` that works. Returns none, and adds why, if
/// none does.
fn mount(
    own: &OwnBundle,
    expect: Option<Identity>,
    linger: Duration,
    ways: &[How],
    reasons: &mut Vec<String>,
) -> Result<Option<PathBuf>, Failure> {
    let place = match UserDirectory::open() {
        Ok(place) => place,
        Err(failure) => {
            reasons.push(failure.message);
            return Ok(None);
        }
    };
    let key = own.key(expect)?;
    let lock = place.lock(&key)?;
    let mut job = Job { place: place.clone(), key: Some(key.clone()), expect, linger };
    match join(&place, &key, ways) {
        Joined::Path(path) => return Ok(Some(path)),
        Joined::Nobody => {}
        // Its driver keeps the socket, so this mount is for this start alone.
        Joined::Impossible => job.key = None,
    }
    own.warm();
    let link = job.start()?;
    let mount_point = place.mount_point(&own.path, &key)?;
    let mut failure = None;
    for how in ways {
        match new_mount(*how, &link, &mount_point) {
            Ok(NewMount::At(path)) => return Ok(Some(path)),
            Ok(NewMount::NotThisWay(reason)) => reasons.push(reason),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    mount_point.remove();
    if job.key.is_some() {
        lock.remove();
    }
    failure.map_or(Ok(None), Err)
}

/// How a running driver answered.
enum Joined {
    /// Its mount is at this path.
    Path(PathBuf),
    /// There is no driver.
    Nobody,
    /// Its mount cannot be used by this process.
    Impossible,
}

/// Asks the driver of the bundle, if it runs, for its mount.
fn join(place: &UserDirectory, key: &str, ways: &[How]) -> Joined {
    let link = match Link::connect(&place.socket(key)) {
        Ok(Some(link)) => link,
        Ok(None) => return Joined::Nobody,
        Err(_) => return Joined::Impossible,
    };
    match link.answered() {
        Ok(Some(Answer::Ready { path, namespaces: None })) => {
            if ways.iter().any(|how| matches!(how, How::Mount(_))) {
                return Joined::Path(path);
            }
        }
        Ok(Some(Answer::Ready { path, namespaces: Some(namespaces) })) => {
            if ways.contains(&How::Namespace) && namespaces.join().is_ok() {
                return Joined::Path(path);
            }
        }
        // It ends.
        Ok(None) => return Joined::Nobody,
        Ok(Some(_)) | Err(_) => {}
    }
    Joined::Impossible
}

/// What became of a new mount.
enum NewMount {
    /// It is at this path.
    At(PathBuf),
    /// This way does not work here, and why.
    NotThisWay(String),
}

/// Makes a mount in one way.
fn new_mount(how: How, link: &Link, mount_point: &MountPoint) -> Result<NewMount, Failure> {
    let path = mount_point.path.clone();
    let handle = mount_point.duplicate()?;
    let request = match how {
        How::Mount(way) => Request::Mount { way, path, handle },
        How::Namespace => {
            if let Err(reason) = namespace::probe(&path) {
                return Ok(NewMount::NotThisWay(reason.message));
            }
            namespace::enter()?;
            let device = namespace::attach(&path)?;
            Request::Serve { path, handle, device }
        }
        How::Extract => return Ok(NewMount::NotThisWay(String::new())),
    };
    // A driver that cannot open the image says so without being asked.
    let _ = link.ask(&request);
    match link.answered().during("wait for the driver")? {
        Some(Answer::Ready { path, .. }) => Ok(NewMount::At(path)),
        Some(Answer::Refused(reason)) => Ok(NewMount::NotThisWay(reason)),
        Some(Answer::Failed(message)) => Err(Failure::new(message)),
        None => Err(Failure::new("the driver ended unexpectedly")),
    }
}
