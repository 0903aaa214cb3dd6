//! Threads that decode beside the readers.
//!
//! A reader that needs several frames at once leaves all but the first here and finds them decoded,
//! or being decoded, when it gets to them; what it gets to first it decodes itself. So nothing
//! depends on a job ever being run, and a job that cannot be queued is dropped. Guesses about what
//! will be read next are run only when nothing that was asked for waits and a processor is free.
//!
//! Threads are started with the first job and wait for the next one; they end when the last owner
//! of the [`Workers`] is gone. They hold no image: a job finds its image gone and does nothing.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Jobs that wait at most; readers do what does not fit themselves.
const WANTED_MAX: usize = 128;
/// Guesses that wait at most: what was guessed long ago has been read by now.
const GUESSES_MAX: usize = 4;
/// More threads than this decode faster than any source delivers.
const THREADS_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// A small crew of decoding threads, shared by the images of a process.
pub struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Threads that decode at this moment, the readers' own included.
    decoding_count: AtomicUsize,
    thread_count: usize,
}

#[derive(Default)]
struct Queue {
    wanted: VecDeque<Job>,
    guesses: VecDeque<Job>,
    started_count: usize,
    idle_count: usize,
    closed: bool,
}

impl Workers {
    /// A crew of `thread_count` threads beside those that read; 0 is one less than there are
    /// processors, and at least one. Starts none yet.
    pub fn new(thread_count: usize) -> Arc<Self> {
        let thread_count = match thread_count {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get() - 1).max(1),
            n => n,
        };
        let shared = Shared {
            queue: Mutex::default(),
            wake: Condvar::new(),
            decoding_count: AtomicUsize::new(0),
            thread_count: thread_count.min(THREADS_MAX),
        };
        Arc::new(Self { shared: Arc::new(shared) })
    }

    /// Threads of the crew.
    pub fn thread_count(&self) -> usize {
        self.shared.thread_count
    }

    /// Leaves a job for the next free thread. Dropped where too many wait.
    pub(crate) fn want(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.lock();
        if queue.wanted.len() < WANTED_MAX {
            queue.wanted.push_back(Box::new(job));
            self.hire(queue);
        }
    }

    /// Leaves a job to be done if there is nothing better to do. Says whether it was taken.
    pub(crate) fn guess(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let mut queue = self.shared.lock();
        if queue.guesses.len() >= GUESSES_MAX || !self.shared.has_free_processor() {
            return false;
        }
        queue.guesses.push_back(Box::new(job));
        self.hire(queue);
        true
    }

    /// Wakes a thread, or starts one where none is idle.
    fn hire(&self, mut queue: MutexGuard<'_, Queue>) {
        if queue.idle_count > 0 {
            drop(queue);
            self.shared.wake.notify_one();
        } else if queue.started_count < self.shared.thread_count {
            queue.started_count += 1;
            drop(queue);
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("shale-decode".into());
            if thread.spawn(move || shared.work()).is_err() {
                // No thread, no help: readers decode for themselves.
                self.shared.lock().started_count -= 1;
            }
        }
    }

    /// Counts this thread as decoding until the guard is dropped.
    pub(crate) fn decoding(&self) -> Decoding<'_> {
        self.shared.decoding_count.fetch_add(1, Relaxed);
        Decoding(&self.shared.decoding_count)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        let left = (std::mem::take(&mut queue.wanted), std::mem::take(&mut queue.guesses));
        drop(queue);
        drop(left);
        // Nobody waits for them: the last owner may be one of the threads.
        self.shared.wake.notify_all();
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("thread_count", &self.thread_count()).finish()
    }
}

/// A thread counted as decoding.
pub(crate) struct Decoding<'a>(&'a AtomicUsize);

impl Drop for Decoding<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Jobs run outside of the lock, so no panic leaves the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a guess would take nobody's processor: one reader and its helpers may decode.
    fn has_free_processor(&self) -> bool {
        self.decoding_count.load(Relaxed) <= self.thread_count
    }

    fn work(&self) {
        let mut queue = self.lock();
        loop {
            let job = match queue.wanted.pop_front() {
                Some(job) => Some(job),
                None => queue.guesses.pop_front(),
            };
            if let Some(job) = job {
                drop(queue);
                // A panic is a bug, but not a reason to lose a thread; the reader will meet it.
                let _ = catch_unwind(AssertUnwindSafe(job));
                queue = self.lock();
                continue;
            }
            if queue.closed {
                return;
            }
            queue.idle_count += 1;
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle_count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_are_done_and_a_panic_costs_no_thread() {
        let workers = Workers::new(2);
        let (done, results) = mpsc::channel();
        for n in 0..50 {
            let done = done.clone();
            workers.want(move || {
                done.send(n).unwrap();
                assert!(n % 7 != 0, "on purpose");
            });
        }
        let mut found: Vec<i32> = results.iter().take(50).collect();
        found.sort_unstable();
        assert_eq!(found, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn guesses_give_way_to_what_was_asked_for() {
        let workers = Workers::new(1);
        let (done, results) = mpsc::channel();
        let (start, hold) = mpsc::channel::<()>();
        workers.want(move || hold.recv().unwrap());
        let (a, b) = (done.clone(), done);
        assert!(workers.guess(move || a.send("guess").unwrap()));
        workers.want(move || b.send("wanted").unwrap());
        start.send(()).unwrap();
        assert_eq!(results.iter().take(2).collect::<Vec<_>>(), ["wanted", "guess"]);
    }

    #[test]
    fn no_guess_is_made_while_all_decode() {
        let workers = Workers::new(1);
        let (_one, _two) = (workers.decoding(), workers.decoding());
        assert!(!workers.guess(|| ()));
    }

    #[test]
    fn what_waits_is_bounded() {
        let workers = Workers::new(1);
        let (start, hold) = mpsc::channel::<()>();
        let ran = Arc::new(AtomicUsize::new(0));
        workers.want(move || hold.recv().unwrap());
        for _ in 0..10 * WANTED_MAX {
            let ran = Arc::clone(&ran);
            workers.want(move || _ = ran.fetch_add(1, Relaxed));
        }
        start.send(()).unwrap();
        let (done, results) = mpsc::channel();
        // Behind all others, as soon as one of them has made room.
        loop {
            let done = done.clone();
            workers.want(move || _ = done.send(()));
            if results.try_recv().is_ok() {
                break;
            }
            std::thread::yield_now();
        }
        assert!(ran.load(Relaxed) <= WANTED_MAX + 1);
    }
}
