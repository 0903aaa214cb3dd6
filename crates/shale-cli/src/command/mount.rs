//! `shale mount`.
//!
//! In the background, the program starts itself once more in a session of its own; that process
//! mounts and serves, and tells through a pipe that the mount is ready or why not. So whoever
//! calls `shale mount` gets the error and the exit code, and a mount that works when it returns.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, bail};
use rustix::fs::FileType;
use shale::read::{Options as ReadOptions, Tree};
use shale_fuse::{Options, Subtree, View};

use crate::args::{ImageArgs, Mount, Offset};
use crate::exit::Exit;
use crate::report::{Say, to_stderr};
use crate::{open, signal, size, text};

/// What the background process writes when the mount is ready.
const READY: &[u8] = b"ready\n";

/// Mounts an image.
pub fn run(args: &Mount, say: &Say) -> anyhow::Result<Exit> {
    let wishes = Wishes::new(args, say)?;
    if !args.foreground && !args.ready {
        return background(args, say);
    }
    let mut read = ReadOptions::default();
    if let Some(cache) = wishes.cache {
        read.cache_bytes_max = cache;
    }
    let tree = open::tree(&wishes.image, read, say)?;
    let view = match &wishes.subdir {
        None => Arc::new(tree) as Arc<dyn View>,
        Some(path) => subtree(tree, path)?,
    };
    let mounted = shale_fuse::mount(view, &args.dir, &wishes.driver)?;
    say.detail(mounted.negotiated().to_string());
    let unmounter = mounted.unmounter();
    // A busy mount is detached at once, so that a signal always ends the process.
    signal::on_end(move || {
        if unmounter.unmount(false).is_err() {
            let _ = unmounter.unmount(true);
        }
    })?;
    if args.ready {
        let mut out = std::io::stdout().lock();
        // The caller may be gone; the mount serves all the same.
        let _ = out.write_all(READY).and_then(|()| out.flush());
        drop(out);
        detach()?;
    } else {
        say.line(format!("{} is mounted on {}", text::path(&args.image), text::path(&args.dir)));
    }
    mounted.wait()?;
    Ok(Exit::Done)
}

fn subtree(tree: Tree, path: &[u8]) -> anyhow::Result<Arc<dyn View>> {
    let below = Subtree::open(Arc::new(tree), path)
        .with_context(|| format!("subdir={}", text::escape(path)))?;
    Ok(Arc::new(below))
}

/// Starts this program again to mount and serve, and waits until it says that it does.
fn background(args: &Mount, say: &Say) -> anyhow::Result<Exit> {
    // Not by its path: another program may lie there by now, such as a newer version.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("shale").args(["mount", "--ready"]);
    command.args(std::iter::repeat_n("-v", usize::from(say.verbose)));
    command.args(say.quiet.then_some("-q"));
    command.args(["--threads", &args.threads.to_string()]);
    if let Some(cache) = args.cache {
        command.args(["--cache", &cache.to_string()]);
    }
    if let Offset::At(offset) = args.offset {
        command.args(["--offset", &offset.to_string()]);
    }
    if let Some(snapshot) = &args.snapshot {
        command.arg("--snapshot").arg(snapshot);
    }
    for option in &args.options {
        command.arg("-o").arg(option);
    }
    command.arg("--").arg(&args.image).arg(&args.dir);
    // A process group of its own: Ctrl-C for the caller is not for the mount.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start the background process")?;
    let mut answer = Vec::new();
    if let Some(mut out) = child.stdout.take() {
        let mut block = [0; 64];
        while !answer.ends_with(READY) {
            match out.read(&mut block).context("waiting for the mount")? {
                0 => break,
                len => answer.extend_from_slice(&block[..len]),
            }
        }
    }
    if answer.ends_with(READY) {
        return Ok(Exit::Done);
    }
    // It has said why on standard error, which is ours.
    let status = child.wait().context("waiting for the background process")?;
    match status.code() {
        Some(code) if code == i32::from(Exit::Usage.code()) => Ok(Exit::Usage),
        Some(_) => Ok(Exit::Failed),
        None => bail!("the background process was ended: {status}"),
    }
}

/// Lets go of the caller's session, directory, output and terminal. Standard error stays if it is
/// a file or a socket, as of a service's log; a terminal or a pipe, whose reader would wait for its
/// end, is let go of as well.
fn detach() -> anyhow::Result<()> {
    // The group leader cannot make a session; it is one of its own group all the same.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").context("cannot leave the current directory")?;
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.context("cannot open /dev/null")?;
    rustix::stdio::dup2_stdout(&null).context("cannot let go of standard output")?;
    let kind = rustix::fs::fstat(std::io::stderr())
        .map(|found| FileType::from_raw_mode(found.st_mode))
        .unwrap_or(FileType::Unknown);
    if !matches!(kind, FileType::RegularFile | FileType::Socket) {
        rustix::stdio::dup2_stderr(&null).context("cannot let go of standard error")?;
    }
    Ok(())
}

/// Options from `-o` and their long forms together.
struct Wishes {
    image: ImageArgs,
    driver: Options,
    cache: Option<u64>,
    subdir: Option<Vec<u8>>,
}

impl Wishes {
    fn new(args: &Mount, say: &Say) -> anyhow::Result<Self> {
        let image = absolute(&args.image)?;
        let mut wishes = Self {
            driver: Options {
                source_name: image.clone().into_os_string(),
                thread_count: args.threads,
                log: Arc::new(|line| to_stderr(&format!("shale: {line}"))),
                ..Options::default()
            },
            image: ImageArgs { image, offset: args.offset, snapshot: args.snapshot.clone() },
            cache: args.cache,
            subdir: None,
        };
        let options = args.options.iter().flat_map(|o| o.as_bytes().split(|&byte| byte == b','));
        for option in options {
            wishes.take(option, say)?;
        }
        Ok(wishes)
    }

    fn take(&mut self, option: &[u8], say: &Say) -> anyhow::Result<()> {
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
            "uid" => self.driver.uid = Some(number(value)?),
            "gid" => self.driver.gid = Some(number(value)?),
            "threads" => self.driver.thread_count = number(value)? as usize,
            "cache" => self.cache = Some(bytes(value)?),
            "offset" => match value {
                Some("auto") => self.image.offset = Offset::Auto,
                value => self.image.offset = Offset::At(bytes(value)?),
            },
            "snapshot" => {
                let value = raw.context("-o snapshot needs a name: snapshot=NAME")?;
                self.image.snapshot = Some(OsString::from_vec(value.to_vec()));
            }
            "subdir" => {
                let value = raw.context("-o subdir needs a path: subdir=usr/share")?;
                self.subdir = Some(value.to_vec());
            }
            // What fstab(5) says of every file system, and what is always so here.
            "" | "defaults" | "ro" | "auto" | "noauto" | "user" | "nouser" | "users" | "nofail"
            | "_netdev" | "noatime" | "relatime" | "nodiratime" | "async" | "loop" => {}
            "rw" => say.warn("an image is read-only; mounted read-only"),
            name if name.starts_with("x-") || name.starts_with("comment") => {}
            _ => bail!(
                "-o {option} is not known; there are allow_other, auto_unmount, dev, suid, noexec, \
                 uid=, gid=, threads=, cache=, offset=, snapshot=, subdir="
            ),
        }
        Ok(())
    }
}

/// What the mount shows as its source, whatever directory the driver is in later.
fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::fs::canonicalize(path).with_context(|| format!("cannot open {}", text::path(path)))
}
