//! The options of `shale mount`: `-o` together with its long forms, and what to mount where.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use shale::CheckLevel;
use shale::read::Identity;
use shale_fuse::Options;

use super::log::DriverLog;
use crate::args::{Mount, Offset, ViewChoice};
use crate::exit::Misuse;
use crate::memory::{is_limited, memory};
use crate::report::Say;
use crate::{elsewhere, open, size, text};

/// Options that fstab(5) and mount(8) pass to every file system, and that change nothing here.
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
/// The default cache is this fraction of the memory.
const CACHE_PART: u64 = 8;
/// Bounds of the default cache.
const CACHE_MIN: u64 = 64 << 20;
const CACHE_MAX: u64 = 1 << 30;
/// Files up to this size are pushed by default. Larger ones cost few requests for their size.
const PUSH_LEN: u64 = 16 << 10;

/// An image, and the snapshot of it that its word names.
pub struct Layer {
    /// Absolute, since the driver changes its directory.
    pub image: PathBuf,
    pub snapshot: Option<OsString>,
}

/// What to mount where.
pub struct Target {
    /// One image; with `--union` several, the topmost last.
    pub layers: Vec<Layer>,
    pub dir: PathBuf,
}

impl Target {
    /// Returns the name of what is mounted, for messages and for the list of mounts.
    pub fn name(&self) -> OsString {
        let top = self.layers.last().map(|layer| elsewhere::shown(&layer.image));
        let mut name = top.unwrap_or_default();
        if self.layers.len() > 1 {
            name.push(format!(" over {} more", self.layers.len() - 1));
        }
        name
    }
}

/// What the list of mounts shows as source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShownSource {
    /// The path of the image.
    Path,
    /// The label of the image.
    Label,
    /// This name.
    Name(OsString),
}

/// All options of a mount.
pub struct MountOptions {
    /// At least one.
    pub targets: Vec<Target>,
    pub driver: Options,
    pub offset: Offset,
    pub snapshot: Option<OsString>,
    /// Every snapshot is a directory.
    pub snapshots: bool,
    /// Snapshots that are appended later appear, too.
    pub follow: bool,
    pub expect: Option<Identity>,
    /// Bytes of decoded frames, of all images together.
    pub cache: u64,
    /// Bytes to decode ahead of a sequential reader.
    pub prefetch: u64,
    pub subdir: Option<Vec<u8>>,
    pub view: ViewChoice,
    /// What the list of mounts shows as source, instead of the path.
    pub source: ShownSource,
    /// The file for counters.
    pub metrics: Option<PathBuf>,
    /// The file for the list of first reads.
    pub hot_log: Option<PathBuf>,
    /// The level at which to check images before mounting; `None` for no check.
    pub verify: Option<CheckLevel>,
    /// Where messages of the driver go.
    pub log: DriverLog,
    /// Make missing mount points, and remove them after unmounting.
    pub mkdir: bool,
    /// `rw` was given, though an image is read-only.
    has_rw: bool,
}

impl MountOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// An option is unknown, has an invalid value, or does not go with several images or with
    /// another option; an image cannot be found.
    pub fn new(args: &Mount) -> anyhow::Result<Self> {
        let mut log_path = args.log.clone();
        let log = DriverLog::new(None)?;
        let mut options = Self {
            targets: match &args.union {
                Some(dir) => vec![union(&args.what, dir)?],
                None => targets(&args.what)?,
            },
            driver: Options {
                thread_count: args.threads,
                push_len_max: if is_limited() { 0 } else { PUSH_LEN },
                log: log.sink(),
                ..Options::default()
            },
            offset: args.offset,
            snapshot: args.snapshot.clone(),
            snapshots: args.snapshots,
            follow: args.follow,
            expect: args.expect,
            cache: args.cache.unwrap_or_else(default_cache),
            prefetch: 4 << 20,
            subdir: None,
            view: args.view.unwrap_or(ViewChoice::Fuse),
            source: ShownSource::Path,
            metrics: None,
            hot_log: None,
            verify: None,
            log,
            mkdir: args.mkdir,
            has_rw: false,
        };
        let words = args.options.iter().flat_map(|o| o.as_bytes().split(|&byte| byte == b','));
        for word in words {
            options.take(word, &mut log_path).map_err(Misuse::of)?;
        }
        options.check_snapshots()?;
        if let (Some(path), true) = (&options.subdir, options.targets.len() > 1) {
            let path = text::escape(path);
            bail!(Misuse(format!("subdir={path} works for one image, not for several")));
        }
        if let (Some(path), true) = (&options.hot_log, options.targets.len() > 1) {
            let path = path.display();
            bail!(Misuse(format!("hotlog={path} works for one image, not for several")));
        }
        if let Some(path) = log_path {
            let path = std::path::absolute(path)?;
            options.log = DriverLog::new(Some(&path))
                .with_context(|| format!("cannot open the log {}", text::path(&path)))?;
            options.driver.log = options.log.sink();
        }
        Ok(options)
    }

    /// Number of images that are opened.
    pub fn image_count(&self) -> u64 {
        self.targets.iter().map(|target| target.layers.len() as u64).sum()
    }

    /// Checks the options that select snapshots against each other and against the others.
    fn check_snapshots(&self) -> anyhow::Result<()> {
        let layers = || self.targets.iter().flat_map(|target| &target.layers);
        let is_named = layers().any(|layer| layer.snapshot.is_some());
        let is_union = self.targets.iter().any(|target| target.layers.len() > 1);
        let what = if self.follow && !self.snapshots {
            "--follow shows new snapshots as new directories; it needs --snapshots"
        } else if self.snapshots && (self.snapshot.is_some() || is_named) {
            "--snapshots mounts all snapshots; --snapshot and IMAGE@SNAPSHOT mount one"
        } else if self.snapshots && is_union {
            "--snapshots shows the snapshots of one image; --union takes one snapshot of each image"
        } else if self.snapshot.is_some() && is_named {
            "IMAGE@SNAPSHOT names a snapshot already; use it without --snapshot"
        } else if self.snapshot.is_some() && is_union {
            "--union takes several images; name their snapshots as IMAGE@SNAPSHOT"
        } else if self.expect.is_some() && (is_union || self.follow) {
            "--expect names the identity of one image as it is now; it does not go with --union \
             and --follow"
        } else if self.follow && layers().any(|layer| elsewhere::is_url(&layer.image)) {
            "--follow needs a file of this machine, which says when it changes"
        } else if self.follow && self.view == ViewChoice::Kernel {
            "--follow needs --view fuse: a kernel view is laid out once"
        } else if self.hot_log.is_some() && (is_union || self.snapshots) {
            "hotlog= lists the files of one snapshot; it does not go with --union and --snapshots"
        } else {
            return Ok(());
        };
        bail!(Misuse(what.to_owned()))
    }

    /// Warns about an option that is granted in another way. Launcher and background process both
    /// read the options; only one of them may warn.
    pub fn warn(&self, say: &Say) {
        if self.has_rw {
            say.warn("an image is read-only; mounted read-only");
        }
    }

    /// Takes one option of `-o`; `log` is the file that `log=` names.
    fn take(&mut self, option: &[u8], log: &mut Option<PathBuf>) -> anyhow::Result<()> {
        let mut parts = option.splitn(2, |&byte| byte == b'=');
        let name = String::from_utf8_lossy(parts.next().unwrap_or_default());
        let name = name.as_ref();
        let raw = parts.next();
        // Paths and names of snapshots may be any bytes; all other values are text.
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
            "push" => match value {
                Some("off") => self.driver.push_len_max = 0,
                value => self.driver.push_len_max = bytes(value)?,
            },
            "idle" => self.driver.idle_after = Duration::from_secs(number(value)?.max(1).into()),
            "mkdir" => self.mkdir = true,
            "log" => {
                let value = raw.filter(|value| !value.is_empty());
                let value = value.context("-o log needs a path: log=/var/log/shale.log")?;
                *log = Some(PathBuf::from(OsStr::from_bytes(value)));
            }
            "label" => self.source = ShownSource::Label,
            "fsname" => {
                let value = raw.filter(|value| !value.is_empty());
                let value = value.context("-o fsname needs a name: fsname=data")?;
                self.source = ShownSource::Name(OsString::from_vec(value.to_vec()));
            }
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
                self.verify = verify_level(value).with_context(|| format!("-o {option}"))?;
            }
            "view" => match value.and_then(ViewChoice::from_name) {
                Some(view) => self.view = view,
                None => bail!("-o {option}: the views are fuse, kernel and auto"),
            },
            "offset" => match value {
                Some("auto") => self.offset = Offset::Auto,
                value => self.offset = Offset::At(bytes(value)?),
            },
            "snapshot" => {
                let value = raw.context("-o snapshot needs a name: snapshot=NAME")?;
                self.snapshot = Some(OsString::from_vec(value.to_vec()));
            }
            "base" => {
                let value = raw.filter(|value| !value.is_empty());
                let value = value.context("-o base needs a path: base=/images/week.shale")?;
                open::set_bases(&[PathBuf::from(OsStr::from_bytes(value))])?;
            }
            "snapshots" => self.snapshots = true,
            "follow" => self.follow = true,
            "expect" => {
                let value = value.context("-o expect needs an identity: expect=HASH")?;
                let expect = value.parse().map_err(|e: String| anyhow::anyhow!("-o expect: {e}"));
                self.expect = Some(expect?);
            }
            "subdir" => {
                let value = raw.context("-o subdir needs a path: subdir=usr/share")?;
                self.subdir = Some(value.to_vec());
            }
            "rw" => self.has_rw = true,
            "remount" => bail!(
                "a mount of an image cannot be changed: unmount it (`shale umount DIR`), then mount \
                 it again with the new options"
            ),
            name if WITHOUT_EFFECT.contains(&name) => {}
            name if name.starts_with("x-") || name.starts_with("comment") => {}
            _ => bail!(
                "-o {option}: no such option; the options are allow_other, auto_unmount, dev, suid, \
                 noexec, loop, uid=, gid=, threads=, cache=, prefetch=, push=, idle=, metrics=, \
                 hotlog=, log=, mkdir, offset=, snapshot=, snapshots, follow, subdir=, view=, \
                 verify=, expect=, base=, label, fsname="
            ),
        }
        Ok(())
    }
}

/// Returns the level of `verify=`; `None` is no check before mounting.
fn verify_level(word: &str) -> anyhow::Result<Option<CheckLevel>> {
    let levels =
        [CheckLevel::Structure, CheckLevel::Tables, CheckLevel::Frames, CheckLevel::Content];
    match word {
        "read" => Ok(None),
        "off" | "no" | "none" => {
            bail!("every read is always verified; verify=read checks nothing before mounting")
        }
        _ => match levels.into_iter().find(|level| level.name() == word) {
            Some(level) => Ok(Some(level)),
            None => bail!(
                "the levels are read, structure, tables, frames and content; for an identity use \
                 expect="
            ),
        },
    }
}

/// Reads `IMAGE DIR`, or any number of `IMAGE=DIR`.
fn targets(words: &[OsString]) -> anyhow::Result<Vec<Target>> {
    let target = |image: &Path, dir: &Path| -> anyhow::Result<Target> {
        Ok(Target { layers: vec![layer(image.as_os_str())?], dir: dir.to_owned() })
    };
    if let [image, dir] = words
        && (split(image).is_none()
            || Path::new(image).exists()
            || (elsewhere::is_url(Path::new(image)) && split(dir).is_none()))
    {
        return Ok(vec![target(Path::new(image), Path::new(dir))?]);
    }
    words
        .iter()
        .map(|word| match split(word) {
            Some((image, dir)) => target(image, dir),
            None => bail!(Misuse(format!(
                "{} is not IMAGE=DIR; write `shale mount IMAGE DIR`, or `shale mount IMAGE=DIR...` \
                 for several images",
                text::escape(word.as_bytes())
            ))),
        })
        .collect()
}

/// Reads the images of `--union DIR`, the topmost last.
fn union(words: &[OsString], dir: &Path) -> anyhow::Result<Target> {
    let layers = words.iter().map(|word| layer(word)).collect::<anyhow::Result<_>>()?;
    Ok(Target { layers, dir: dir.to_owned() })
}

/// Reads `IMAGE` or `IMAGE@SNAPSHOT`.
fn layer(word: &OsStr) -> anyhow::Result<Layer> {
    let (path, snapshot) = open::split_snapshot(word);
    if elsewhere::is_url(&path) {
        return Ok(Layer { image: path, snapshot });
    }
    let found = std::fs::canonicalize(&path);
    let image = found.with_context(|| format!("cannot open {}", text::path(&path)))?;
    Ok(Layer { image, snapshot })
}

/// Splits a word at its last `=`.
fn split(word: &OsStr) -> Option<(&Path, &Path)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().rposition(|&byte| byte == b'=')?;
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    (at > 0 && at + 1 < bytes.len()).then(|| (path(&bytes[..at]), path(&bytes[at + 1..])))
}

/// Returns a fraction of the usable memory, within bounds.
fn default_cache() -> u64 {
    memory().map_or(256 << 20, |bytes| (bytes / CACHE_PART).clamp(CACHE_MIN, CACHE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_split_at_its_last_equals_sign() {
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
