//! `--train`: runs the program on a mount of its image and returns the files that it read, in the
//! order of their first reads.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use shale::read::Tree;

use super::workshop::Workshop;
use crate::args::Bundle;
use crate::command::mount::HotLog;
use crate::report::Say;
use crate::{input, signal, text};

/// How often the program is looked at while it runs.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the program may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the program `run` of `tree` with the arguments for the training.
///
/// # Errors
/// The image cannot be mounted, the program cannot be started, or the user interrupts it.
pub fn first_reads(
    tree: &Tree,
    run: &[u8],
    args: &Bundle,
    workshop: &Workshop,
    say: &Say,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let (dir, list) = (workshop.path("mount"), workshop.path("hot"));
    std::fs::create_dir(&dir).with_context(|| format!("cannot make {}", text::path(&dir)))?;
    let dir = dir.canonicalize().context("cannot find the mount point")?;
    let again = tree.image().tree(&shale::read::SnapshotChoice::Newest)?;
    let options = shale_fuse::Options::default();
    let log = HotLog::start(&list, again, Arc::clone(&options.log))?;
    let options = shale_fuse::Options {
        source_name: args.output.clone().into(),
        auto_unmount: true,
        on_read: Some(log.watch()),
        on_flush: Some(log.flush()),
        ..options
    };
    let view = tree.image().tree(&shale::read::SnapshotChoice::Newest)?;
    let mut mounted = shale_fuse::mount(Arc::new(view), &dir, &options)
        .context("--train mounts the image; without it, --hot FILE names a list of files")?;
    let program = dir.join(std::path::Path::new(
        <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(run),
    ));
    let mut command = Command::new(&program);
    command.args(&args.arguments).env("APPDIR", &dir).env("ARGV0", &args.run);
    command
        .env("APPIMAGE", std::path::absolute(&args.output)?)
        .env("OWD", std::env::current_dir()?);
    command.process_group(0).stdin(Stdio::null());
    if say.json || say.quiet {
        command.stdout(Stdio::null());
    }
    let child = command.spawn();
    let child = child.with_context(|| format!("cannot run {}", text::escape(run)))?;
    let ended = wait(child, args.train_for.map(Duration::from_secs));
    // Processes that the program left behind use the mount.
    mounted.unmount(true).context("cannot unmount the training")?;
    drop(log);
    match ended? {
        End::Itself(status) if !status.success() => {
            say.warn(format!("the program ended with {status} in the training"));
        }
        _ => {}
    }
    let paths = if list.exists() { input::path_list(&list)? } else { Vec::new() };
    if paths.is_empty() {
        bail!("the program read no file in the training");
    }
    Ok(paths)
}

/// The end of the program.
enum End {
    /// By itself.
    Itself(ExitStatus),
    /// After the time that it had.
    Asked,
}

/// Waits for the program, and ends it after `time` or when the user interrupts this one.
fn wait(mut child: Child, time: Option<Duration>) -> anyhow::Result<End> {
    let cancel = signal::cancel()?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(End::Itself(status));
        }
        let is_cancelled = cancel.is_cancelled();
        if is_cancelled || time.is_some_and(|time| start.elapsed() >= time) {
            end(&mut child)?;
            cancel.check()?;
            return Ok(End::Asked);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Asks the program to end, and kills it if it does not.
fn end(child: &mut Child) -> anyhow::Result<()> {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}
