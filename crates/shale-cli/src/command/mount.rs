//! `shale mount`.
//!
//! In the background, the program starts itself once more in a session of its own; that process
//! mounts and serves, and tells through a pipe that the mount is ready or why not. So whoever
//! calls `shale mount` gets the error and the exit code, and a mount that works when it returns.
//!
//! Several images can be mounted by one process; they share one cache and one crew of decoding
//! threads, and end together with a signal or each by its own unmount.

mod background; // the process that serves
mod caller; // signals to the one that waits for it
mod ending; // signals to it
mod hot_log; // what is read first
mod memory; // how much there is
mod metrics; // counters in a file, for monitoring
mod verify; // images checked before they are mounted
mod whole_file; // a file that is replaced as a whole
mod wishes; // -o and its long forms

use std::sync::Arc;

use anyhow::{Context, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shale::read::{FrameCache, Options as ReadOptions, Tree, Workers};
use shale_fuse::{KernelView, MountError, Mounted, Subtree, View, ViewError};

use crate::args::{ImageArgs, Mount, ViewChoice};
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, text};
use caller::Caller;
use ending::Ending;
use hot_log::HotLog;
use metrics::Metrics;
use wishes::{Place, Wishes};

/// Pages of all images may take this much beside the cache that was asked for.
const PAGE_BYTES_MIN: u64 = 32 << 20;
/// All that pages may take, however large the cache: those of a billion files are 250 MB.
const PAGE_BYTES_MAX: u64 = 256 << 20;

/// Mounts one image or several.
pub fn run(args: &Mount, say: &Say) -> anyhow::Result<Exit> {
    let wishes = Wishes::new(args)?;
    if !args.foreground && !args.ready {
        if wishes.verify.is_some() {
            // Checking reads the image as well.
            shale_fuse::confine();
        }
        let caller = Caller::new()?;
        verify::images(&wishes, caller.cancel().clone(), say)?;
        wishes.warn(say);
        return background::start(args, &caller, say);
    }
    background::return_memory_when_freed();
    // Before there are threads, and before the first byte of an image is read.
    for line in shale_fuse::confine() {
        say.detail(line);
    }
    allow_files();
    // Before anything is mounted: a signal that nobody catches leaves a mount without its driver.
    let ending = Ending::new().context("cannot wait for signals")?;
    if args.foreground {
        wishes.warn(say);
        verify::images(&wishes, ending.cancel().clone(), say)?;
    }
    let (frame_bytes_max, page_bytes_max) = shares(wishes.cache, wishes.places.len() as u64);
    let read = ReadOptions {
        cache: Some(FrameCache::new(frame_bytes_max)),
        page_cache_bytes_max: page_bytes_max,
        workers: Some(Workers::new(match wishes.driver.thread_count {
            0 => 0,
            // Readers decode for themselves as well.
            n => (n - 1).max(1),
        })),
        prefetch_bytes_max: wishes.prefetch,
        ..ReadOptions::default()
    };
    let mut mounts = Vec::new();
    let mut hot_log = None;
    for place in &wishes.places {
        // Those that are mounted already are unmounted again when one fails.
        mounts.push(mount(place, &wishes, read.clone(), &mut hot_log, &ending, say)?);
    }
    ending.serve()?;
    let metrics = match &wishes.metrics {
        Some(path) => Some(Metrics::start(path, &mounts)?),
        None => None,
    };
    if args.ready {
        background::tell_ready()?;
    } else {
        for place in &wishes.places {
            let (image, dir) = (text::path(&place.image), text::path(&place.dir));
            say.line(format!("{image} is mounted on {dir}"));
        }
    }
    let ends: Vec<_> = mounts.into_iter().map(Mounted::wait).collect();
    drop(metrics);
    drop(hot_log);
    for end in ends {
        end?;
    }
    Ok(Exit::Done)
}

/// Has as many files open as the system lets it: each thread of each mount has a handle of its own.
/// The usual limit is for programs that use select(2).
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused threads share a handle, which is slower and no less right.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Of memory for what is decoded: all that frames may take, and what each image's pages may. In
/// an image of a billion files most of what is asked for lies in pages.
fn shares(cache: u64, image_count: u64) -> (u64, u64) {
    let pages = (cache / 4).clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX);
    (cache.saturating_sub(pages - PAGE_BYTES_MIN), pages / image_count.max(1))
}

/// Mounts one image; `hot_log` takes the list of what is read from it, if one is wanted. Fails if
/// `ending` says that the process is to end.
fn mount(
    place: &Place,
    wishes: &Wishes,
    read: ReadOptions,
    hot_log: &mut Option<HotLog>,
    ending: &Ending,
    say: &Say,
) -> anyhow::Result<Mounted> {
    ending.open()?;
    let dir = &place.dir;
    let image = ImageArgs {
        image: place.image.clone(),
        offset: wishes.offset,
        snapshot: wishes.snapshot.clone(),
        expect: wishes.expect,
    };
    let tree = open::tree(&image, read, say);
    // What went wrong meanwhile is not what it ends for.
    ending.check()?;
    let tree = tree?;
    let (mut on_read, mut on_flush) = (None, None);
    if let Some(path) = &wishes.hot_log {
        let log = HotLog::start(path, tree.clone(), Arc::clone(&wishes.driver.log))?;
        (on_read, on_flush) = (Some(log.watch()), Some(log.flush()));
        *hot_log = Some(log);
    }
    let view = match &wishes.subdir {
        None => Arc::new(tree) as Arc<dyn View>,
        Some(path) => subtree(tree, path)?,
    };
    let driver = shale_fuse::Options {
        source_name: image.image.into_os_string(),
        on_read,
        on_flush,
        ..wishes.driver.clone()
    };
    let laid_out = lay_out(&view, wishes.view, &driver, ending, say)?;
    let mounted = ending.mount(|| match laid_out.map(|laid_out| laid_out.mount(dir, &driver)) {
        Some(Err(MountError::KernelView(reason))) if wishes.view == ViewChoice::Auto => {
            say_not_kernel(say, &reason);
            shale_fuse::mount(view, dir, &driver)
        }
        Some(result) => result,
        None => shale_fuse::mount(view, dir, &driver),
    })?;
    for line in mounted.negotiated().to_string().lines() {
        say.detail(line);
    }
    Ok(mounted)
}

/// `view` laid out for the kernel, if that is wanted; or nothing if whatever is faster is wanted
/// and that is not possible or not expected to be. Fails if `ending` says that the process is to
/// end.
fn lay_out(
    view: &Arc<dyn View>,
    choice: ViewChoice,
    options: &shale_fuse::Options,
    ending: &Ending,
    say: &Say,
) -> anyhow::Result<Option<KernelView>> {
    let is_auto = match choice {
        ViewChoice::Fuse => return Ok(None),
        ViewChoice::Kernel => false,
        ViewChoice::Auto => true,
    };
    let totals = view.totals();
    if is_auto && let Err(reason) = shale_fuse::suits_kernel_view(totals, options) {
        say_not_kernel(say, &reason);
        return Ok(None);
    }
    ending.prepare()?;
    say.detail(format!("laying out {} inodes for the kernel", totals.inode_count));
    let laid_out = KernelView::lay_out(Arc::clone(view), options, &ending.cancel().flag());
    // What went wrong meanwhile is not what it ends for.
    ending.check()?;
    match laid_out {
        Err(MountError::KernelView(reason)) if is_auto => {
            say_not_kernel(say, &reason);
            Ok(None)
        }
        laid_out => Ok(Some(laid_out?)),
    }
}

/// Says why FUSE serves what would rather be the kernel's.
fn say_not_kernel(say: &Say, reason: &str) {
    say.detail(format!("not the kernel view: {reason}"));
}

fn subtree(tree: Tree, path: &[u8]) -> anyhow::Result<Arc<dyn View>> {
    match Subtree::open(Arc::new(tree), path) {
        Ok(below) => Ok(Arc::new(below)),
        Err(ViewError::NotFound) => {
            bail!("subdir={}: there is no such directory in the image", text::escape(path))
        }
        Err(error) => Err(error).with_context(|| format!("subdir={}", text::escape(path))),
    }
}
