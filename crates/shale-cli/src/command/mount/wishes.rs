//! What was asked for: `-o` and its long forms together, and what is mounted where.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use shale::CheckLevel;
use shale::read::Identity;
use shale_fuse::Options;

use super::memory::memory;
use super::verify;
use crate::args::{Mount, Offset, ViewChoice};
use crate::exit::Misuse;
use crate::report::{Say, to_stderr};
use crate::{size, text};

/// What fstab(5) and mount(8) say of every file system, and what changes nothing here.
const WITHOUT_EFFECT: [&str; 30] = [
    "",
    "defaults",
    "ro",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "diratime",
    "nodiratime",
    "lazytime",
    "nolazytime",
    "async",
    "sync",
    "dirsync",
    "iversion",
    "noiversion",
    "silent",
    "loud",
    "nomand",
];
/// The part of the memory that decoded frames may take if nothing else is asked for.
const CACHE_PART: u64 = 8;
/// And its bounds.
const CACHE_MIN: u64 = 64 << 20;
const CACHE_MAX: u64 = 1 << 30;

/// An image and where to mount it.
pub struct Place {
    /// Absolute, as the mount shows it, whatever directory the driver is in later.
    pub image: PathBuf,
    pub dir: PathBuf,
}

/// Options from `-o` and their long forms together.
pub struct Wishes {
    /// At least one.
    pub places: Vec<Place>,
    pub driver: Options,
    pub offset: Offset,
    pub snapshot: Option<OsString>,
    pub expect: Option<Identity>,
    /// Bytes of decoded frames, of all images together.
    pub cache: u64,
    /// Bytes decoded ahead of a reader.
    pub prefetch: u64,
    pub subdir: Option<Vec<u8>>,
    pub view: ViewChoice,
    /// Where counters are written to.
    pub metrics: Option<PathBuf>,
    /// Where a list of what is read first is written to.
    pub hot_log: Option<PathBuf>,
    /// How deep images are checked before they are mounted; not at all without.
    pub verify: Option<CheckLevel>,
    /// `rw`, which no mount of an image is.
    is_writing_asked: bool,
}

impl Wishes {
    pub fn new(args: &Mount) -> anyhow::Result<Self> {
        let mut wishes = Self {
            places: places(&args.what)?,
            driver: Options {
                thread_count: args.threads,
                log: Arc::new(|line| to_stderr(&format!("shale: {line}"))),
                ..Options::default()
            },
            offset: args.offset,
            snapshot: args.snapshot.clone(),
            expect: args.expect,
            cache: args.cache.unwrap_or_else(default_cache),
            prefetch: 4 << 20,
            subdir: None,
            view: args.view.unwrap_or(ViewChoice::Fuse),
            metrics: None,
            hot_log: None,
            verify: None,
            is_writing_asked: false,
        };
        let options = args.options.iter().flat_map(|o| o.as_bytes().split(|&byte| byte == b','));
        for option in options {
            wishes.take(option).map_err(Misuse::of)?;
        }
        if let (Some(path), true) = (&wishes.subdir, wishes.places.len() > 1) {
            let path = text::escape(path);
            bail!(Misuse(format!("subdir={path} is for one image; there are several")));
        }
        if let (Some(path), true) = (&wishes.hot_log, wishes.places.len() > 1) {
            let path = path.display();
            bail!(Misuse(format!("hotlog={path} is for one image; there are several")));
        }
        Ok(wishes)
    }

    /// What is granted in another way than it was asked for. Said by one of the processes that read
    /// the options one after the other.
    pub fn warn(&self, say: &Say) {
        if self.is_writing_asked {
            say.warn("an image is read-only; mounted read-only");
        }
    }

    fn take(&mut self, option: &[u8]) -> anyhow::Result<()> {
        let mut parts = option.splitn(2, |&byte| byte == b'=');
        let name = String::from_utf8_lossy(parts.next().unwrap_or_default());
        let name = name.as_ref();
        let raw = parts.next();
        // Paths and snapshots may be any bytes; all else is text.
        let value = raw.map(|raw| str::from_utf8(raw).unwrap_or("?"));
        let option = String::from_utf8_lossy(option);
        let number = |value: Option<&str>| -> anyhow::Result<u32> {
            let value = value.with_context(|| format!("-o {name} needs a number: {name}=1000"))?;
            value.parse().with_context(|| format!("-o {option}: not a number"))
        };
        let bytes = |value: Option<&str>| -> anyhow::Result<u64> {
            let value = value.with_context(|| format!("-o {name} needs a size: {name}=512M"))?;
            size::parse(value).map_err(|error| anyhow::anyhow!("-o {option}: {error}"))
        };
        match name {
            "allow_other" => self.driver.allow_other = true,
            "auto_unmount" => self.driver.auto_unmount = true,
            "dev" => self.driver.allow_devices = true,
            "nodev" => self.driver.allow_devices = false,
            "suid" => self.driver.allow_setuid = true,
            "nosuid" => self.driver.allow_setuid = false,
            "noexec" => self.driver.forbid_exec = true,
            "exec" => self.driver.forbid_exec = false,
            "loop" => self.driver.loop_device = true,
            "uid" => self.driver.uid = Some(number(value)?),
            "gid" => self.driver.gid = Some(number(value)?),
            "threads" => {
                let threads = size::parse_threads(value.unwrap_or_default());
                self.driver.thread_count =
                    threads.map_err(|error| anyhow::anyhow!("-o {option}: {error}"))?;
            }
            "cache" => self.cache = bytes(value)?,
            "prefetch" => match value {
                Some("off") => self.prefetch = 0,
                value => self.prefetch = bytes(value)?,
            },
            "idle" => self.driver.idle_after = Duration::from_secs(number(value)?.max(1).into()),
            "metrics" => {
                let value = raw.context("-o metrics needs a path: metrics=/run/shale.prom")?;
                self.metrics = Some(std::path::absolute(OsStr::from_bytes(value))?);
            }
            "hotlog" => {
                let value = raw.filter(|value| !value.is_empty());
                let value = value.context("-o hotlog needs a path: hotlog=image.hot")?;
                self.hot_log = Some(std::path::absolute(OsStr::from_bytes(value))?);
            }
            "verify" => {
                let value = value.context("-o verify needs a level: verify=content")?;
                self.verify = verify::parse(value).with_context(|| format!("-o {option}"))?;
            }
            "view" => match value.and_then(ViewChoice::from_name) {
                Some(view) => self.view = view,
                None => bail!("-o {option}: a view is one of fuse, kernel, auto"),
            },
            "offset" => match value {
                Some("auto") => self.offset = Offset::Auto,
                value => self.offset = Offset::At(bytes(value)?),
            },
            "snapshot" => {
                let value = raw.context("-o snapshot needs a name: snapshot=NAME")?;
                self.snapshot = Some(OsString::from_vec(value.to_vec()));
            }
            "expect" => {
                let value = value.context("-o expect needs an identity: expect=HASH")?;
                let expect = value.parse().map_err(|e: String| anyhow::anyhow!("-o expect: {e}"));
                self.expect = Some(expect?);
            }
            "subdir" => {
                let value = raw.context("-o subdir needs a path: subdir=usr/share")?;
                self.subdir = Some(value.to_vec());
            }
            "rw" => self.is_writing_asked = true,
            "remount" => bail!(
                "a mount of an image cannot be changed: unmount it (`shale umount DIR`), then mount \
                 it with the options it should have"
            ),
            name if WITHOUT_EFFECT.contains(&name) => {}
            name if name.starts_with("x-") || name.starts_with("comment") => {}
            _ => bail!(
                "-o {option} is not known; there are allow_other, auto_unmount, dev, suid, noexec, loop, \
                 uid=, gid=, threads=, cache=, prefetch=, idle=, metrics=, hotlog=, offset=, \
                 snapshot=, subdir=, view=, verify=, expect="
            ),
        }
        Ok(())
    }
}

/// `IMAGE DIR`, or any number of `IMAGE=DIR`.
fn places(words: &[OsString]) -> anyhow::Result<Vec<Place>> {
    let place = |image: &Path, dir: &Path| -> anyhow::Result<Place> {
        let found = std::fs::canonicalize(image);
        let image = found.with_context(|| format!("cannot open {}", text::path(image)))?;
        Ok(Place { image, dir: dir.to_owned() })
    };
    if let [image, dir] = words
        && (split(image).is_none() || Path::new(image).exists())
    {
        return Ok(vec![place(Path::new(image), Path::new(dir))?]);
    }
    words
        .iter()
        .map(|word| match split(word) {
            Some((image, dir)) => place(image, dir),
            None => bail!(Misuse(format!(
                "{} is not IMAGE=DIR; write `shale mount IMAGE DIR`, or `shale mount IMAGE=DIR...` \
                 for several images",
                text::escape(word.as_bytes())
            ))),
        })
        .collect()
}

/// A word at its last `=`.
fn split(word: &OsStr) -> Option<(&Path, &Path)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().rposition(|&byte| byte == b'=')?;
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    (at > 0 && at + 1 < bytes.len()).then(|| (path(&bytes[..at]), path(&bytes[at + 1..])))
}

/// A part of the memory that there is.
fn default_cache() -> u64 {
    memory().map_or(256 << 20, |bytes| (bytes / CACHE_PART).clamp(CACHE_MIN, CACHE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_split_at_its_last_sign() {
        let found = split(OsStr::new("a=b.shale=/mnt")).unwrap();
        assert_eq!(found, (Path::new("a=b.shale"), Path::new("/mnt")));
        for word in ["a", "=a", "a="] {
            assert!(split(OsStr::new(word)).is_none(), "{word}");
        }
    }

    #[test]
    fn the_default_cache_is_within_its_bounds() {
        assert!((CACHE_MIN..=CACHE_MAX).contains(&default_cache()));
    }
}
