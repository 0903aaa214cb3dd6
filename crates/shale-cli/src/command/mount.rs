//! `shale mount`.
//!
//! For a background mount, the program starts itself again in a session of its own. That process
//! mounts and serves, and reports through a pipe that the mount is ready or why it failed. So the
//! process that the user called returns the error and the exit code, and the mount works when it
//! returns.
//!
//! One process can mount several images. They share one cache and one set of decoding threads. A
//! signal ends all of them; each can be unmounted alone.

mod atomic_file; // a file that is replaced as a whole
mod log; // where messages of the driver go
mod options; // -o and its long forms
mod launcher; // signals to the process that waits
mod shutdown; // signals to the process that serves
mod background; // the process that serves
mod verify; // checks before mounting
mod made_dir; // mount points made and removed
mod layers; // images and snapshots as what is mounted
mod hot_log; // the list of first reads
mod metrics; // counters in a file, for monitoring

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shale::read::{FrameCache, Options as ReadOptions, Workers};
use shale_fuse::{KernelView, MountError, Mounted, Subtree, View, ViewError};

use crate::args::{Mount, ViewChoice};
use crate::exit::Exit;
use crate::report::Say;
use crate::text;
pub use hot_log::HotLog;
use launcher::Launcher;
use made_dir::MadeDir;
use metrics::Metrics;
use options::{MountOptions, ShownSource, Target};
use shutdown::Shutdown;

/// Memory for pages of all images that is not counted against the requested cache.
const PAGE_BYTES_MIN: u64 = 32 << 20;
/// Limit of memory for pages, however large the cache is: the pages of a billion files are 250 MB.
const PAGE_BYTES_MAX: u64 = 256 << 20;

/// Mounts one image or several.
///
/// # Errors
/// An option is invalid, an image cannot be opened or verified, or mounting fails.
pub fn run(args: &Mount, say: &Say) -> anyhow::Result<Exit> {
    let options = MountOptions::new(args)?;
    if !args.foreground && !args.ready {
        if options.verify.is_some() {
            // The check reads the image.
            shale_fuse::confine();
        }
        let launcher = Launcher::new()?;
        verify::images(&options, launcher.cancel().clone(), say)?;
        options.warn(say);
        return background::start(args, &launcher, say);
    }
    background::return_memory_when_freed();
    // Before there are threads, and before the first byte of an image is read.
    for line in shale_fuse::confine() {
        say.detail(line);
    }
    raise_file_limit();
    // Before anything is mounted: a signal that is not handled leaves a mount without its driver.
    let shutdown = Shutdown::new(options.log.clone()).context("cannot wait for signals")?;
    if args.foreground {
        options.warn(say);
        verify::images(&options, shutdown.cancel().clone(), say)?;
    }
    let (frame_bytes_max, page_bytes_max) = split_cache(options.cache, options.image_count());
    let read = ReadOptions::default()
        .cache(FrameCache::new(frame_bytes_max))
        .page_cache_bytes_max(page_bytes_max)
        .workers(Workers::new(match options.driver.thread_count {
            0 => 0,
            // The thread that answers a read decodes as well.
            n => (n - 1).max(1),
        }))
        .prefetch_bytes_max(options.prefetch);
    // Declared before the mounts, so that an error unmounts first and removes the directories then.
    let mut made = Vec::new();
    let mut mounts = Vec::new();
    let mut hot_log = None;
    for target in &options.targets {
        if options.mkdir {
            let dir = MadeDir::new(&target.dir);
            made.push(dir.with_context(|| format!("cannot make {}", text::path(&target.dir)))?);
        }
        // If one fails, those already mounted are dropped, which unmounts them.
        mounts.push(mount(target, &options, read.clone(), &mut hot_log, &shutdown, say)?);
    }
    shutdown.serve()?;
    let metrics = match &options.metrics {
        Some(path) => Some(Metrics::start(path, &mounts)?),
        None => None,
    };
    if args.ready {
        background::report_ready(&options.log)?;
    } else {
        for target in &options.targets {
            let (image, dir) = (text::escape(text::bytes(&target.name())), text::path(&target.dir));
            say.line(format!("{image} is mounted on {dir}"));
        }
    }
    remove_dirs_at_end(&mounts, made);
    let ends: Vec<_> = mounts.into_iter().map(Mounted::wait).collect();
    drop(metrics);
    drop(hot_log);
    for end in ends {
        if let (Err(error), true) = (&end, args.ready) {
            // Nobody sees what `main` prints any more.
            options.log.line(&error.to_string());
        }
        end?;
    }
    Ok(Exit::Done)
}

/// Removes each made mount point as soon as its mount has ended. Returns when all mounts with such
/// a mount point have ended.
fn remove_dirs_at_end(mounts: &[Mounted], made: Vec<MadeDir>) {
    const PATIENCE: Duration = Duration::from_millis(500);
    let mut waiting: Vec<_> = mounts.iter().map(Mounted::unmounter).zip(made).collect();
    while let Some((first, _)) = waiting.first() {
        // The others are looked at from time to time.
        first.wait_for_end(PATIENCE);
        waiting.retain(|(unmounter, _)| !unmounter.has_ended());
    }
}

/// Raises the limit of open files as far as the system allows: each thread of each mount has a
/// device handle. The usual limit only protects programs that use select(2).
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, threads share a handle, which is slower but works.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Splits the cache into the bytes for frames of all images and the bytes for pages of each image.
/// In an image of a billion files, most requests need pages.
fn split_cache(cache: u64, image_count: u64) -> (u64, u64) {
    let pages = (cache / 4).clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX);
    (cache.saturating_sub(pages - PAGE_BYTES_MIN), pages / image_count.max(1))
}

/// Mounts one target. Puts its list of first reads into `hot_log`, if the options ask for one.
/// Fails if `shutdown` has received a signal.
fn mount(
    target: &Target,
    options: &MountOptions,
    read: ReadOptions,
    hot_log: &mut Option<HotLog>,
    shutdown: &Shutdown,
    say: &Say,
) -> anyhow::Result<Mounted> {
    shutdown.open()?;
    let dir = &target.dir;
    let view = layers::open(target, options, &read, say);
    // A signal takes precedence over an error that came at the same time.
    shutdown.check()?;
    let layers::Opened { view, tree, label } = view?;
    let (mut on_read, mut on_flush) = (None, None);
    if let (Some(path), Some(tree)) = (&options.hot_log, tree) {
        let log = HotLog::start(path, tree, Arc::clone(&options.driver.log))?;
        (on_read, on_flush) = (Some(log.watch()), Some(log.flush()));
        *hot_log = Some(log);
    }
    let view = match &options.subdir {
        None => view,
        Some(path) => subtree(view, path)?,
    };
    let driver = shale_fuse::Options {
        source_name: source_name(target, &options.source, label, say),
        on_read,
        on_flush,
        ..options.driver.clone()
    };
    let kernel_view = lay_out(&view, options.view, &driver, shutdown, say)?;
    let mounted = shutdown.mount(|| {
        match kernel_view.map(|kernel_view| kernel_view.mount(dir, &driver)) {
            Some(Err(MountError::KernelView(reason))) if options.view == ViewChoice::Auto => {
                report_fallback(say, &reason);
                shale_fuse::mount(view, dir, &driver)
            }
            Some(result) => result,
            None => shale_fuse::mount(view, dir, &driver),
        }
    })?;
    for line in mounted.negotiated().to_string().lines() {
        say.detail(line);
    }
    Ok(mounted)
}

/// Returns what the list of mounts shows as source.
fn source_name(
    target: &Target,
    source: &ShownSource,
    label: Option<String>,
    say: &Say,
) -> OsString {
    match (source, label) {
        (ShownSource::Name(name), _) => name.clone(),
        (ShownSource::Label, Some(label)) => label.into(),
        (ShownSource::Label, None) => {
            let name = target.name();
            say.warn(format!("{}: the image has no label", text::escape(text::bytes(&name))));
            name
        }
        (ShownSource::Path, _) => target.name(),
    }
}

/// Lays out `view` for the kernel, if `choice` asks for it. Returns `None` for FUSE: also if the
/// choice is `auto` and a kernel view is not possible or not expected to be faster. Fails if
/// `shutdown` has received a signal.
fn lay_out(
    view: &Arc<dyn View>,
    choice: ViewChoice,
    options: &shale_fuse::Options,
    shutdown: &Shutdown,
    say: &Say,
) -> anyhow::Result<Option<KernelView>> {
    let is_auto = match choice {
        // A kernel view is laid out once.
        _ if view.root_changes() => return Ok(None),
        ViewChoice::Fuse => return Ok(None),
        ViewChoice::Kernel => false,
        ViewChoice::Auto => true,
    };
    let totals = view.totals();
    if is_auto && let Err(reason) = shale_fuse::suits_kernel_view(totals, options) {
        report_fallback(say, &reason);
        return Ok(None);
    }
    shutdown.prepare()?;
    say.detail(format!("laying out {} inodes for the kernel", totals.inode_count));
    let laid_out = KernelView::lay_out(Arc::clone(view), options, &shutdown.cancel().flag());
    // A signal takes precedence over an error that came at the same time.
    shutdown.check()?;
    match laid_out {
        Err(MountError::KernelView(reason)) if is_auto => {
            report_fallback(say, &reason);
            Ok(None)
        }
        laid_out => Ok(Some(laid_out?)),
    }
}

/// Reports why `--view auto` falls back to FUSE.
fn report_fallback(say: &Say, reason: &str) {
    say.detail(format!("not the kernel view: {reason}"));
}

fn subtree(view: Arc<dyn View>, path: &[u8]) -> anyhow::Result<Arc<dyn View>> {
    match Subtree::open(view, path) {
        Ok(below) => Ok(Arc::new(below)),
        Err(ViewError::NotFound) => {
            bail!("subdir={}: no such directory in the image", text::escape(path))
        }
        Err(error) => Err(error).with_context(|| format!("subdir={}", text::escape(path))),
    }
}
