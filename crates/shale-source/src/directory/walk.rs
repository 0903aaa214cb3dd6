//! Walks a tree: every directory is listed once, by any thread that is free.
//!
//! Waiting directories lie on one stack, the deepest on top, so that few wait at a time in a deep
//! tree. Each is opened by its path when its turn comes and closed before the next one: a thread
//! holds one descriptor. The result does not depend on which thread lists which directory.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::AtFlags;
use shale_codec::Hasher;
use shale_model::{Metadata, Problem, ProblemKind, SourceError, Xattr};

use crate::directory::list::{self, ListOptions, Lister, Listing, NONE, STATX_MASK, hash_metadata};
use crate::directory::options::ScanOptions;
use crate::directory::xattrs::{XattrSets, hash_xattrs, of_open};
use shale_host::Beneath;
use shale_host::Progress;
use shale_host::beneath::retry;
use shale_host::thread_count;

/// A tree whose directories were all listed.
pub(super) struct Walked {
    pub(super) beneath: Beneath,
    /// Metadata of the root.
    pub(super) metadata: Metadata,
    /// Extended attributes of the root.
    pub(super) xattrs: Arc<[Xattr]>,
    /// The root's first; `None` for a directory that could not be listed.
    pub(super) listings: Vec<Option<Listing>>,
    pub(super) xattr_sets: XattrSets,
    /// By path.
    pub(super) problems: Vec<Problem>,
    /// Digest of names and metadata, in the order of the walk by names.
    pub(super) seed: [u8; 32],
}

/// A directory that waits to be listed.
struct Task {
    listing_index: u32,
    path: Box<[u8]>,
}

/// State that the threads share.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    listings: Mutex<Vec<Option<Digested>>>,
    xattr_sets: Mutex<XattrSets>,
    problems: Mutex<Vec<Problem>>,
}

/// A listing and its digest.
type Digested = (Listing, [u8; 32]);

#[derive(Default)]
struct Queue {
    tasks: Vec<Task>,
    /// Threads that may still add tasks.
    busy: usize,
    cancelled: bool,
}

pub(super) fn walk(
    root: &Path,
    options: &ScanOptions,
    progress: &dyn Progress,
) -> Result<Walked, SourceError> {
    let root_error = |error| {
        let path = std::os::unix::ffi::OsStrExt::as_bytes(root.as_os_str()).to_vec();
        SourceError::Unreadable { path, error }
    };
    let beneath = Beneath::open(root).map_err(root_error)?;
    let statx = retry(|| rustix::fs::statx(beneath.root(), "", AtFlags::EMPTY_PATH, STATX_MASK))
        .map_err(|errno| root_error(errno.into()))?;
    let mut metadata = list::metadata(&statx)
        .ok_or_else(|| root_error(std::io::ErrorKind::NotADirectory.into()))?;
    let device = list::link_id(&statx).device;
    let mut xattrs = of_open(beneath.root()).map_err(root_error)?;
    if let Some(amend) = &options.amend {
        amend.amend(&mut metadata);
        xattrs.retain(|xattr| amend.keeps_xattr(&xattr.name));
    }
    let xattrs: Arc<[_]> = xattrs.into();

    let shared = Shared::default();
    lock(&shared.listings).push(None);
    lock(&shared.queue).tasks.push(Task { listing_index: 0, path: Box::default() });
    let cancelled = || options.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed));
    let worker = || {
        let options = ListOptions {
            excluded: &options.excluded,
            cancelled: &cancelled,
            device: options.one_file_system.then_some(device),
            times_kept: options.times_kept,
            no_nodump: options.no_nodump,
            select: options.select.as_deref(),
            amend: options.amend.as_deref(),
        };
        shared.work(Lister::new(&beneath, options), progress, &cancelled);
    };
    std::thread::scope(|scope| {
        for _ in 1..thread_count(options.threads) {
            // If the system refuses more threads, those that exist walk the tree.
            if std::thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        worker();
    });
    if lock(&shared.queue).cancelled {
        return Err(SourceError::Cancelled);
    }
    shared.finish(beneath, metadata, xattrs, options)
}

/// A thread that may still add tasks. If it panics, the other threads end too, and the panic is
/// reported when all have ended.
struct Busy<'s>(&'s Shared);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0.queue);
        queue.busy -= 1;
        queue.cancelled |= std::thread::panicking();
        drop(queue);
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// Lists directories until none waits and no thread can add one.
    fn work(&self, mut lister: Lister, progress: &dyn Progress, cancelled: &dyn Fn() -> bool) {
        while let Some(task) = self.next(cancelled) {
            let _busy = Busy(self);
            self.list(&mut lister, &task, progress);
        }
    }

    fn next(&self, cancelled: &dyn Fn() -> bool) -> Option<Task> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.cancelled || cancelled() {
                queue.cancelled = true;
                self.changed.notify_all();
                return None;
            }
            if let Some(task) = queue.tasks.pop() {
                queue.busy += 1;
                return Some(task);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn list(&self, lister: &mut Lister, task: &Task, progress: &dyn Progress) {
        let listed = lister.list(&task.path, |xattrs| lock(&self.xattr_sets).intern(xattrs));
        let mut listed = match listed {
            Ok(listed) => listed,
            Err(error) => {
                let kind = ProblemKind::of(&error);
                lock(&self.problems).push(Problem { path: task.path.to_vec(), kind });
                return;
            }
        };
        let digest = listed.listing.digest(&lock(&self.xattr_sets), lister.times_kept());
        progress.found(listed.listing.nodes.len() as u64, listed.file_bytes);
        let mut tasks = Vec::with_capacity(listed.directories.len());
        {
            let mut listings = lock(&self.listings);
            for &index in &listed.directories {
                let path =
                    list::join(&task.path, listed.listing.name(&listed.listing.nodes[index]));
                if listings.len() >= NONE as usize {
                    let kind = ProblemKind::Limit("more than 2^32 directories".to_owned());
                    listed.problems.push(Problem { path, kind });
                    continue;
                }
                listed.listing.nodes[index].body = listings.len() as u32;
                listings.push(None);
                let listing_index = listed.listing.nodes[index].body;
                tasks.push(Task { listing_index, path: path.into() });
            }
            listings[task.listing_index as usize] = Some((listed.listing, digest));
        }
        if !listed.problems.is_empty() {
            lock(&self.problems).append(&mut listed.problems);
        }
        // The first by name is on top, so contents are read in nearly the order of listing.
        tasks.reverse();
        lock(&self.queue).tasks.append(&mut tasks);
    }

    fn finish(
        self,
        beneath: Beneath,
        metadata: Metadata,
        xattrs: Arc<[Xattr]>,
        options: &ScanOptions,
    ) -> Result<Walked, SourceError> {
        let listings = self.listings.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut xattr_sets = self.xattr_sets.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut problems = self.problems.into_inner().unwrap_or_else(PoisonError::into_inner);
        problems.sort_by(|a, b| a.path.cmp(&b.path));
        xattr_sets.seal();

        // The seed covers the listings in the order of names, not of threads.
        let mut hasher = Hasher::new();
        hash_metadata(&mut hasher, &metadata, options.times_kept);
        hash_xattrs(&mut hasher, &xattrs);
        let mut waiting = vec![0u32];
        while let Some(index) = waiting.pop() {
            let Some(Some((listing, digest))) = listings.get(index as usize) else {
                hasher.update(b"unreadable");
                continue;
            };
            hasher.update(digest);
            let directories =
                listing.nodes.iter().rev().filter(|n| n.is_walked_directory()).map(|n| n.body);
            waiting.extend(directories);
        }
        Ok(Walked {
            beneath,
            metadata,
            xattrs,
            listings: listings.into_iter().map(|l| l.map(|(listing, _)| listing)).collect(),
            xattr_sets,
            problems,
            seed: *hasher.finalize().as_bytes(),
        })
    }
}

/// A thread that panicked ends the program with its own message; the data are still usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
