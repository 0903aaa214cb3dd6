//! The process that serves: the program itself, started once more.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use rustix::fs::FileType;
use shale::Error;

use super::caller::Caller;
use crate::args::{Mount, Offset};
use crate::exit::Exit;
use crate::report::Say;

/// What the background process writes when the mounts are ready.
const READY: &[u8] = b"ready\n";

/// The C library's setting that makes it give freed memory back to the system: by default it learns
/// to keep what is freed and asked for again, and a mount at rest would keep the memory of its
/// busiest hour. It is read once, when a program starts.
const TRIM: (&str, &str) = ("MALLOC_TRIM_THRESHOLD_", "4194304");

/// Starts this program over, in this process, with memory given back when it is freed; nothing if
/// it was started so, or cannot be.
pub fn return_memory_when_freed() {
    if std::env::var_os(TRIM.0).is_none() {
        let mut words = std::env::args_os();
        let mut command = Command::new("/proc/self/exe");
        command.arg0(words.next().unwrap_or_else(|| "shale".into())).args(words);
        // Returns only where it fails; then it is the memory that is missed, not the mount.
        let _ = command.env(TRIM.0, TRIM.1).exec();
    }
}

/// Tells the caller that the mounts work, and lets go of its session, directory, output and
/// terminal. Standard error stays if it is a file or a socket, as of a service's log; a terminal or
/// a pipe, whose reader would wait for its end, is let go of as well.
///
/// # Errors
/// The caller was not told, and nothing may stay mounted.
pub fn tell_ready() -> anyhow::Result<()> {
    // All that may fail comes before the caller is told, also for want of file handles.
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.context("cannot open /dev/null")?;
    std::env::set_current_dir("/").context("cannot leave the current directory")?;
    // The group leader cannot make a session; it is one of its own group all the same.
    let _ = rustix::process::setsid();
    let kind = rustix::fs::fstat(std::io::stderr())
        .map(|found| FileType::from_raw_mode(found.st_mode))
        .unwrap_or(FileType::Unknown);
    let mut out = std::io::stdout().lock();
    // The caller may be gone; the mount serves all the same.
    let _ = out.write_all(READY).and_then(|()| out.flush());
    drop(out);
    // These take the place of an open handle, and cannot fail.
    let _ = rustix::stdio::dup2_stdout(&null);
    if !matches!(kind, FileType::RegularFile | FileType::Socket) {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    Ok(())
}

/// Starts this program again to mount and serve, and waits until it says that it does.
pub fn start(args: &Mount, caller: &Caller, say: &Say) -> anyhow::Result<Exit> {
    // Not by its path: another program may lie there by now, such as a newer version.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("shale").args(["mount", "--ready"]).env(TRIM.0, TRIM.1);
    command.args(std::iter::repeat_n("-v", usize::from(say.verbose)));
    command.args(say.quiet.then_some("-q"));
    command.args(["--threads", &args.threads.to_string()]);
    if let Some(view) = args.view {
        command.args(["--view", view.name()]);
    }
    if let Some(cache) = args.cache {
        command.args(["--cache", &cache.to_string()]);
    }
    if let Offset::At(offset) = args.offset {
        command.args(["--offset", &offset.to_string()]);
    }
    if let Some(snapshot) = &args.snapshot {
        command.arg("--snapshot").arg(snapshot);
    }
    if let Some(expect) = &args.expect {
        command.args(["--expect", &expect.to_string()]);
    }
    for option in &args.options {
        command.arg("-o").arg(option);
    }
    command.arg("--").args(&args.what);
    // A process group of its own: Ctrl-C, once the caller has returned, is not for the mount.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = caller.start(&mut command)?;
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
    if answer.ends_with(READY) && caller.let_go() {
        return Ok(Exit::Done);
    }
    // It has said why on standard error, which is ours.
    let status = caller.wait(&mut child)?;
    match status.code() {
        Some(code) if code == i32::from(Exit::Interrupted.code()) => Ok(Exit::Interrupted),
        // It died of the signal, or was ready just before.
        _ if caller.cancel().is_cancelled() => Err(Error::Cancelled.into()),
        Some(code) if code == i32::from(Exit::Usage.code()) => Ok(Exit::Usage),
        Some(_) => Ok(Exit::Failed),
        None => bail!("the background process was ended: {status}"),
    }
}
