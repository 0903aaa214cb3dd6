//! Threads that take tasks from one queue, and a caller that helps while it waits.
//!
//! A build has one thread that decides (what is where, in which order) and tasks that only
//! compute: read and hash a file, compress a frame. The deciding thread submits tasks, keeps
//! their [`Ticket`]s in order and waits for the oldest; while that is not ready it runs waiting
//! tasks itself. So `threads` threads work and no more, results are taken in the order of
//! submission whatever the order of completion, and one thread is enough: where the system refuses
//! to make more, those that there are do all.
//!
//! How much is in flight is the caller's business: it waits before it submits too much. Nothing
//! can hang: a task that panics hands its panic to whoever waits for it, and when the deciding
//! thread leaves, by an error too, tasks that wait are dropped unrun.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, never, select_biased, unbounded};

use crate::compress::Bench;

type Task<'env> = Box<dyn FnOnce(&mut Bench) + Send + 'env>;

/// The queue and the deciding thread's own tools.
pub(crate) struct Pool<'env> {
    urgent: (Sender<Task<'env>>, Receiver<Task<'env>>),
    normal: (Sender<Task<'env>>, Receiver<Task<'env>>),
    bench: Bench,
}

/// Which tasks come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The deciding thread will soon wait for it.
    Urgent,
    /// Whenever there is nothing urgent.
    Normal,
}

/// The result of a task, sooner or later.
pub(crate) struct Ticket<T>(Receiver<thread::Result<T>>);

/// Runs `decide` with a pool of `threads` threads, itself one of them. `leave` tells tasks that
/// wait when `decide` has returned to end without being run.
pub(crate) fn with_pool<'env, T>(
    threads: usize,
    leave: &'env AtomicBool,
    decide: impl FnOnce(&mut Pool<'env>) -> T,
) -> T {
    thread::scope(|scope| {
        let mut pool = Pool { urgent: unbounded(), normal: unbounded(), bench: Bench::default() };
        for _ in 1..threads {
            if pool.spawn_worker(scope).is_err() {
                break;
            }
        }
        let _leave = LeaveOnDrop(leave);
        decide(&mut pool)
    })
}

/// Also sets the flag when the deciding thread panics: the workers must end then too.
struct LeaveOnDrop<'env>(&'env AtomicBool);

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'env> Pool<'env> {
    fn spawn_worker<'scope>(&self, scope: &'scope Scope<'scope, 'env>) -> io::Result<()> {
        let (urgent, normal) = (self.urgent.1.clone(), self.normal.1.clone());
        let worker = move || {
            let mut bench = Bench::default();
            let (mut urgent, mut normal) = (urgent, normal);
            let mut open = 2;
            // Both queues close when the deciding thread drops the pool.
            while open > 0 {
                let (task, queue) = select_biased! {
                    recv(urgent) -> task => (task, &mut urgent),
                    recv(normal) -> task => (task, &mut normal),
                };
                match task {
                    Ok(task) => task(&mut bench),
                    Err(_) => {
                        *queue = never();
                        open -= 1;
                    }
                }
            }
        };
        thread::Builder::new().spawn_scoped(scope, worker).map(drop)
    }

    /// Queues a task. Unless `leave` of [`with_pool`] is set first, it will be run.
    pub(crate) fn submit<T: Send + 'env>(
        &self,
        urgency: Urgency,
        leave: &'env AtomicBool,
        task: impl FnOnce(&mut Bench) -> T + Send + 'env,
    ) -> Ticket<T> {
        let (sender, receiver) = bounded(1);
        let task: Task<'env> = Box::new(move |bench| {
            if !leave.load(Ordering::Relaxed) {
                let result = catch_unwind(AssertUnwindSafe(|| task(bench)));
                // Nobody waits for it any more if the deciding thread has left.
                let _ = sender.send(result);
            }
        });
        let queue = match urgency {
            Urgency::Urgent => &self.urgent.0,
            Urgency::Normal => &self.normal.0,
        };
        // The pool holds a receiver of its own, so the queue is open.
        let _ = queue.send(task);
        Ticket(receiver)
    }

    /// The result of a task; runs others while it is not there. A panic of the task goes on here.
    pub(crate) fn wait<T>(&mut self, ticket: &Ticket<T>) -> T {
        loop {
            let result = match ticket.0.try_recv() {
                Ok(result) => result,
                Err(TryRecvError::Disconnected) => panic!("a task ended without a result"),
                Err(TryRecvError::Empty) => {
                    if self.help() {
                        continue;
                    }
                    // Only this thread submits: the task is being run elsewhere.
                    match ticket.0.recv() {
                        Ok(result) => result,
                        Err(_) => panic!("a task ended without a result"),
                    }
                }
            };
            return result.unwrap_or_else(|panic| resume_unwind(panic));
        }
    }

    /// Whether the result is there already.
    pub(crate) fn is_ready<T>(&self, ticket: &Ticket<T>) -> bool {
        !ticket.0.is_empty()
    }

    /// Runs one waiting task, if there is one.
    fn help(&mut self) -> bool {
        let task = self.urgent.1.try_recv().or_else(|_| self.normal.1.try_recv());
        match task {
            Ok(task) => {
                task(&mut self.bench);
                true
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_at_any_number_of_threads() {
        for threads in [1, 2, 5] {
            let leave = AtomicBool::new(false);
            let sum = with_pool(threads, &leave, |pool| {
                let tickets: Vec<_> = (0..200u64)
                    .map(|n| pool.submit(Urgency::Normal, &leave, move |_| n * n))
                    .collect();
                tickets.iter().map(|ticket| pool.wait(ticket)).collect::<Vec<_>>()
            });
            assert_eq!(sum, (0..200).map(|n| n * n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_waiting_thread() {
        for threads in [1, 3] {
            let leave = AtomicBool::new(false);
            let result = catch_unwind(AssertUnwindSafe(|| {
                with_pool(threads, &leave, |pool| {
                    let ticket = pool.submit(Urgency::Urgent, &leave, |_| panic!("on purpose"));
                    pool.wait::<()>(&ticket);
                })
            }));
            assert!(result.is_err());
        }
    }

    #[test]
    fn tasks_that_wait_are_dropped_when_the_deciding_thread_leaves() {
        let run = std::sync::atomic::AtomicU64::new(0);
        let leave = AtomicBool::new(false);
        with_pool(1, &leave, |pool| {
            for _ in 0..10 {
                pool.submit(Urgency::Normal, &leave, |_| run.fetch_add(1, Ordering::Relaxed));
            }
        });
        assert_eq!(run.into_inner(), 0);
    }
}
