//! `shale mount`.
//!
//! In the background, the program starts itself once more in a session of its own; that process
//! mounts and serves, and tells through a pipe that the mount is ready or why not. So whoever
//! calls `shale mount` gets the error and the exit code, and a mount that works when it returns.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, bail};
use shale::read::{Options as ReadOptions, Tree};
use shale_fuse::{Options, Subtree, View};

use crate::args::{ImageArgs, Mount, Offset};
use crate::exit::Exit;
use crate::report::Say;
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

fn subtree(tree: Tree, path: &str) -> anyhow::Result<Arc<dyn View>> {
    let below = Subtree::open(Arc::new(tree), path.as_bytes())
        .with_context(|| format!("subdir={}", text::escape(path.as_bytes())))?;
    Ok(Arc::new(below))
}

/// Starts this program again to mount and serve, and waits until it says that it does.
fn background(args: &Mount, say: &Say) -> anyhow::Result<Exit> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
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
        command.args(["-o", option]);
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

/// Lets go of the caller's terminal and directory. Standard error stays where it is: in a
/// service that is the log, and on a terminal the place where errors are seen.
fn detach() -> anyhow::Result<()> {
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").context("cannot leave the current directory")?;
    Ok(())
}

/// Options from `-o` and their long forms together.
struct Wishes {
    image: ImageArgs,
    driver: Options,
    cache: Option<u64>,
    subdir: Option<String>,
}

impl Wishes {
    fn new(args: &Mount, say: &Say) -> anyhow::Result<Self> {
        let image = absolute(&args.image)?;
        let mut wishes = Self {
            driver: Options {
                source_name: image.clone().into_os_string(),
                thread_count: args.threads,
                ..Options::default()
            },
            image: ImageArgs { image, offset: args.offset, snapshot: args.snapshot.clone() },
            cache: args.cache,
            subdir: None,
        };
        for option in &args.options {
            wishes.take(option, say)?;
        }
        Ok(wishes)
    }

    fn take(&mut self, option: &str, say: &Say) -> anyhow::Result<()> {
        let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
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
                let value = value.context("-o snapshot needs a name: snapshot=NAME")?;
                self.image.snapshot = Some(value.into());
            }
            "subdir" => {
                let value = value.context("-o subdir needs a path: subdir=usr/share")?;
                self.subdir = Some(value.to_owned());
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
