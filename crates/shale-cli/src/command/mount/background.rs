//! The background process, which mounts and serves: this program, started again.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use shale::HostError as Error;

use super::launcher::Launcher;
use super::log::DriverLog;
use crate::args::{Mount, Offset};
use crate::exit::Exit;
use crate::report::Say;
use crate::{elsewhere, open, sealed};

/// The background process writes this when the mounts are ready.
const READY: &[u8] = b"ready\n";

/// An environment variable of the C library that makes it return freed memory to the system. By
/// default the library learns to keep memory that is freed and allocated again, and an idle mount
/// would keep the memory of its busiest hour. The library reads the variable once, at the start.
const TRIM: (&str, &str) = ("MALLOC_TRIM_THRESHOLD_", "4194304");

/// Executes this program again, in this process, so that freed memory returns to the system. Does
/// nothing if it was started that way or if it cannot be executed.
pub fn return_memory_when_freed() {
    if std::env::var_os(TRIM.0).is_none() {
        let mut words = std::env::args_os();
        let mut command = Command::new("/proc/self/exe");
        command.arg0(words.next().unwrap_or_else(|| "shale".into())).args(words);
        // Returns only if it fails. The mount then works, but uses more memory.
        let _ = command.env(TRIM.0, TRIM.1).exec();
    }
}

/// Reports to the launcher that the mounts work, and detaches from its session, directory, output
/// and terminal. Standard error is kept if it is a file or a socket, such as the log of a service.
/// A terminal or a pipe is released, since the reader of a pipe would wait for its end.
///
/// # Errors
/// The launcher got no report, and nothing may stay mounted.
pub fn report_ready(log: &DriverLog) -> anyhow::Result<()> {
    // Everything that may fail, for example for lack of file handles, comes before the report.
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.context("cannot open /dev/null")?;
    std::env::set_current_dir("/").context("cannot leave the current directory")?;
    // Fails for a group leader, which then remains in a process group of its own.
    let _ = rustix::process::setsid();
    let keeps_stderr = log.leave_terminal();
    let mut out = std::io::stdout().lock();
    // The mount is served even if the launcher is gone.
    let _ = out.write_all(READY).and_then(|()| out.flush());
    drop(out);
    // These replace an open handle, so they cannot fail.
    let _ = rustix::stdio::dup2_stdout(&null);
    if !keeps_stderr {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    Ok(())
}

/// Starts the background process and waits until it reports that the mounts work.
///
/// # Errors
/// The process cannot be started, died, or was interrupted. Other errors were reported by the
/// process itself, and are returned as an exit code.
pub fn start(args: &Mount, launcher: &Launcher, say: &Say) -> anyhow::Result<Exit> {
    // Not by its path, where another version of the program may lie by now.
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
    command.args(args.snapshots.then_some("--snapshots"));
    command.args(args.follow.then_some("--follow"));
    if let Some(dir) = &args.union {
        command.arg("--union").arg(dir);
    }
    if let Some(expect) = &args.expect {
        command.args(["--expect", &expect.to_string()]);
    }
    if let Some(log) = &args.log {
        command.arg("--log").arg(log);
    }
    command.args(args.mkdir.then_some("--mkdir"));
    for option in &args.options {
        command.arg("-o").arg(option);
    }
    command.args(open::base_words());
    command.args(sealed::words());
    command.args(elsewhere::words()).arg("--").args(&args.what);
    // A process group of its own, so that a later Ctrl-C in the terminal does not end the mount.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = launcher.start(&mut command)?;
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
    if answer.ends_with(READY) && launcher.let_go() {
        return Ok(Exit::Done);
    }
    // It has reported the reason on standard error, which it shares with this process.
    let status = launcher.wait(&mut child)?;
    match status.code() {
        Some(code) if code == i32::from(Exit::Interrupted.code()) => Ok(Exit::Interrupted),
        // It died of the signal, or became ready just before the signal.
        _ if launcher.cancel().is_cancelled() => Err(Error::Cancelled.into()),
        Some(code) if code == i32::from(Exit::Usage.code()) => Ok(Exit::Usage),
        Some(_) => Ok(Exit::Failed),
        None => bail!("the background process was killed: {status}"),
    }
}
