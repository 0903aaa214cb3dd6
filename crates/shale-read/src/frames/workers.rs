//! Threads that decode beside the readers.
//!
//! A reader that needs several frames leaves all but the first to the workers. When it gets to a
//! frame, it finds it decoded or being decoded; otherwise it decodes the frame itself. So nothing
//! depends on a job ever running, and a job that cannot be queued is dropped. Guesses about what
//! will be read next run only when no requested job waits and a processor is free.
//!
//! Threads start with the first jobs and then wait for more. They end when the last owner of the
//! [`Workers`] is dropped. They keep no image open: a job whose image is closed does nothing.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Requested jobs that wait at most. Readers decode the other frames themselves.
const WANTED_MAX: usize = 128;
/// Guesses that wait at most. An older guess has been overtaken by its reader.
const GUESSES_MAX: usize = 4;
/// Threads at most. More would decode faster than any source delivers.
const THREADS_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of decoding threads, shared by the images of a process.
pub struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Notified when the last thread has become idle.
    idle: Condvar,
    /// Threads that are decoding, the readers' own included.
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
    /// A pool of `thread_count` threads; 0 means one less than the number of processors, but at
    /// least one. Threads start with the first job.
    pub fn new(thread_count: usize) -> Arc<Self> {
        let thread_count = match thread_count {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get() - 1).max(1),
            n => n,
        };
        let shared = Shared {
            queue: Mutex::default(),
            wake: Condvar::new(),
            idle: Condvar::new(),
            decoding_count: AtomicUsize::new(0),
            thread_count: thread_count.min(THREADS_MAX),
        };
        Arc::new(Self { shared: Arc::new(shared) })
    }

    /// Number of threads of the pool.
    pub fn thread_count(&self) -> usize {
        self.shared.thread_count
    }

    /// Queues a requested job. Drops it if too many wait.
    pub(crate) fn want(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.lock();
        if queue.wanted.len() < WANTED_MAX {
            queue.wanted.push_back(Box::new(job));
            self.wake_or_start(queue);
        }
    }

    /// Queues a job that runs only if no requested job waits. Returns whether it was queued.
    pub(crate) fn guess(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let mut queue = self.shared.lock();
        if queue.guesses.len() >= GUESSES_MAX || !self.shared.has_free_processor() {
            return false;
        }
        queue.guesses.push_back(Box::new(job));
        self.wake_or_start(queue);
        true
    }

    /// Wakes an idle thread, or starts a new one.
    fn wake_or_start(&self, mut queue: MutexGuard<'_, Queue>) {
        if queue.idle_count > 0 {
            drop(queue);
            self.shared.wake.notify_one();
        } else if queue.started_count < self.shared.thread_count {
            queue.started_count += 1;
            drop(queue);
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("shale-decode".into());
            if thread.spawn(move || shared.work()).is_err() {
                // Readers decode without help.
                self.shared.lock().started_count -= 1;
                self.shared.idle.notify_all();
            }
        }
    }

    /// Waits until no job is queued or running. For tests that count what the jobs did; a thread
    /// that runs a job must not call it.
    #[doc(hidden)]
    pub fn wait_idle(&self) {
        let queue = self.shared.lock();
        let busy = self.shared.idle.wait_while(queue, |queue| !queue.is_idle());
        drop(busy.unwrap_or_else(PoisonError::into_inner));
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
        // The threads are not joined: the last owner may be one of them.
        self.shared.wake.notify_all();
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("thread_count", &self.thread_count()).finish()
    }
}

/// Counts a thread as decoding until it is dropped.
pub(crate) struct Decoding<'a>(&'a AtomicUsize);

impl Drop for Decoding<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Queue {
    /// Returns whether no job waits and every thread is idle. Jobs that no thread could be started
    /// for do not count.
    fn is_idle(&self) -> bool {
        let empty = self.wanted.is_empty() && self.guesses.is_empty();
        self.started_count == 0 || empty && self.idle_count == self.started_count
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Jobs run without the lock, so no panic leaves the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a guess would find a free processor. One reader and all workers may decode
    /// at once.
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
                // A panic is a bug, but must not cost a thread. The reader will meet it too.
                let _ = catch_unwind(AssertUnwindSafe(job));
                queue = self.lock();
                continue;
            }
            if queue.closed {
                return;
            }
            queue.idle_count += 1;
            if queue.is_idle() {
                self.idle.notify_all();
            }
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
    fn jobs_run_and_a_panic_costs_no_thread() {
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
    fn requested_jobs_run_before_guesses() {
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
    fn no_guess_is_queued_while_all_threads_decode() {
        let workers = Workers::new(1);
        let (_one, _two) = (workers.decoding(), workers.decoding());
        assert!(!workers.guess(|| ()));
    }

    #[test]
    fn the_queue_is_bounded() {
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
        // After all others, as soon as one of them has made room.
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
