//! Threads that take tasks from a queue, and a caller that helps while it waits.
//!
//! A build has one deciding thread, which fixes what goes where and in which order, and tasks that
//! only compute: read and hash a file, compress a frame. The deciding thread submits tasks, keeps
//! their [`Ticket`]s in order and waits for the oldest. While that is not ready it runs waiting
//! tasks itself. So exactly `threads` threads work, results are taken in the order of submission,
//! and one thread is enough: if the system refuses more threads, those that exist do all the work.
//!
//! The caller decides how much is in flight: it waits before it submits too much. Nothing can hang.
//! A task that panics passes its panic to the thread that waits for it. When the deciding thread
//! ends, also with an error, waiting tasks are dropped without being run.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, never, select_biased, unbounded};

use crate::exec::scratch::EncoderScratch;
use crate::exec::stages::{StageClock, StageTimes, Work};
use crate::plan::report::Stage;

/// A task and the stage that its time counts for.
type Task<'env> = (Stage, Box<dyn FnOnce(&mut EncoderScratch) + Send + 'env>);

/// The queues, and the scratch of the deciding thread.
pub(crate) struct Pool<'env> {
    urgent: (Sender<Task<'env>>, Receiver<Task<'env>>),
    normal: (Sender<Task<'env>>, Receiver<Task<'env>>),
    /// For the tasks that the deciding thread runs itself.
    scratch: RefCell<EncoderScratch>,
    /// Of the deciding thread.
    clock: StageClock<'env>,
    keeps_encoders: bool,
}

/// Priority of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The deciding thread will soon wait for it.
    Urgent,
    /// Run when nothing urgent waits.
    Normal,
}

/// The result of a task, now or later.
pub(crate) struct Ticket<T>(Receiver<thread::Result<T>>);

/// Runs `decide` with a pool of `threads` threads, this one included; `keeps_encoders` is for
/// [`EncoderScratch::new`]. When `decide` has returned,
/// `leave` is set, and waiting tasks end without being run.
pub(crate) fn with_pool<'env, T>(
    (threads, keeps_encoders): (usize, bool),
    leave: &'env AtomicBool,
    times: &'env StageTimes,
    decide: impl FnOnce(Rc<Pool<'env>>) -> T,
) -> T {
    thread::scope(|scope| {
        let first = Work { stage: Stage::Read, is_deciding: true };
        let pool = Rc::new(Pool {
            urgent: unbounded(),
            normal: unbounded(),
            scratch: RefCell::new(EncoderScratch::new(keeps_encoders)),
            keeps_encoders,
            clock: StageClock::new(times, first),
        });
        for _ in 1..threads {
            if pool.spawn_worker(scope, times).is_err() {
                break;
            }
        }
        let _leave = LeaveOnDrop(leave);
        decide(Rc::clone(&pool))
    })
}

/// Sets the flag also when the deciding thread panics, because the workers must end then too.
struct LeaveOnDrop<'env>(&'env AtomicBool);

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<T> Ticket<T> {
    /// Returns whether the result is there.
    pub(crate) fn is_ready(&self) -> bool {
        !self.0.is_empty()
    }
}

impl<'env> Pool<'env> {
    /// Counts what this thread decides from now on for `stage`.
    pub(crate) fn enter(&self, stage: Stage) {
        self.clock.change(Work { stage, is_deciding: true });
    }

    /// Counts this thread's time for `stage` from now on, as that of the deciding thread or of any.
    pub(crate) fn decide(&self, stage: Stage, is_deciding: bool) {
        self.clock.change(Work { stage, is_deciding });
    }

    fn spawn_worker<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'env>,
        times: &'env StageTimes,
    ) -> io::Result<()> {
        let (urgent, normal) = (self.urgent.1.clone(), self.normal.1.clone());
        let keeps_encoders = self.keeps_encoders;
        let worker = move || {
            let mut scratch = EncoderScratch::new(keeps_encoders);
            let first = Work { stage: Stage::Read, is_deciding: false };
            let clock = StageClock::new(times, first);
            let (mut urgent, mut normal) = (urgent, normal);
            let mut open = 2;
            // Both queues close when the pool is dropped.
            while open > 0 {
                let (task, queue) = select_biased! {
                    recv(urgent) -> task => (task, &mut urgent),
                    recv(normal) -> task => (task, &mut normal),
                };
                match task {
                    Ok((stage, task)) => {
                        clock.change(Work { stage, is_deciding: false });
                        task(&mut scratch);
                    }
                    Err(_) => {
                        *queue = never();
                        open -= 1;
                    }
                }
            }
        };
        thread::Builder::new().spawn_scoped(scope, worker).map(drop)
    }

    /// Queues a task. It runs unless `leave` of [`with_pool`] is set first.
    pub(crate) fn submit<T: Send + 'env>(
        &self,
        (urgency, stage): (Urgency, Stage),
        leave: &'env AtomicBool,
        task: impl FnOnce(&mut EncoderScratch) -> T + Send + 'env,
    ) -> Ticket<T> {
        let (sender, receiver) = bounded(1);
        let task: Box<dyn FnOnce(&mut EncoderScratch) + Send + 'env> = Box::new(move |scratch| {
            if !leave.load(Ordering::Relaxed) {
                let result = catch_unwind(AssertUnwindSafe(|| task(scratch)));
                // No one waits for it if the deciding thread has ended.
                let _ = sender.send(result);
            }
        });
        let queue = match urgency {
            Urgency::Urgent => &self.urgent.0,
            Urgency::Normal => &self.normal.0,
        };
        // The pool holds a receiver of its own, so the queue is open.
        let _ = queue.send((stage, task));
        Ticket(receiver)
    }

    /// Returns the result of a task, and runs others while it is not ready. Passes its panic on.
    pub(crate) fn wait<T>(&self, ticket: &Ticket<T>) -> T {
        loop {
            let result = match ticket.0.try_recv() {
                Ok(result) => result,
                Err(TryRecvError::Disconnected) => panic!("a task ended without a result"),
                Err(TryRecvError::Empty) => {
                    if self.help() {
                        continue;
                    }
                    // Only this thread submits, so another thread is running the task.
                    match ticket.0.recv() {
                        Ok(result) => result,
                        Err(_) => panic!("a task ended without a result"),
                    }
                }
            };
            return result.unwrap_or_else(|panic| resume_unwind(panic));
        }
    }

    /// Runs one waiting task. Returns false if there is none.
    fn help(&self) -> bool {
        let task = self.urgent.1.try_recv().or_else(|_| self.normal.1.try_recv());
        match task {
            Ok((stage, task)) => {
                let deciding = self.clock.change(Work { stage, is_deciding: false });
                // A task has no pool, so it cannot come back here and ask for the scratch again.
                task(&mut self.scratch.borrow_mut());
                self.clock.change(deciding);
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
            let (leave, times) = (AtomicBool::new(false), StageTimes::default());
            let sum = with_pool((threads, true), &leave, &times, |pool| {
                let tickets: Vec<_> = (0..200u64)
                    .map(|n| pool.submit((Urgency::Normal, Stage::Read), &leave, move |_| n * n))
                    .collect();
                tickets.iter().map(|ticket| pool.wait(ticket)).collect::<Vec<_>>()
            });
            assert_eq!(sum, (0..200).map(|n| n * n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn time_counts_for_the_stage_of_a_task_whoever_runs_it() {
        let work = || (0..3_000_000u64).fold(1, |sum, n| std::hint::black_box(sum ^ n));
        for threads in [1, 3] {
            let (leave, times) = (AtomicBool::new(false), StageTimes::default());
            with_pool((threads, true), &leave, &times, |pool| {
                let how = (Urgency::Normal, Stage::Compress);
                let ticket = pool.submit(how, &leave, move |_| work());
                pool.wait(&ticket);
                pool.enter(Stage::Tables);
                work();
            });
            let times = times.report();
            let of = |stage| times.iter().find(|time| time.stage == stage).unwrap();
            assert!(!of(Stage::Compress).helping.is_zero());
            assert!(of(Stage::Compress).deciding.is_zero());
            assert!(!of(Stage::Tables).deciding.is_zero());
            assert!(of(Stage::Tables).helping.is_zero());
        }
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_waiting_thread() {
        for threads in [1, 3] {
            let (leave, times) = (AtomicBool::new(false), StageTimes::default());
            let result = catch_unwind(AssertUnwindSafe(|| {
                with_pool((threads, true), &leave, &times, |pool| {
                    let how = (Urgency::Urgent, Stage::Read);
                    let ticket = pool.submit(how, &leave, |_| panic!("on purpose"));
                    pool.wait::<()>(&ticket);
                })
            }));
            assert!(result.is_err());
        }
    }

    #[test]
    fn tasks_that_wait_are_dropped_when_the_deciding_thread_leaves() {
        let run = std::sync::atomic::AtomicU64::new(0);
        let (leave, times) = (AtomicBool::new(false), StageTimes::default());
        with_pool((1, true), &leave, &times, |pool| {
            for _ in 0..10 {
                let how = (Urgency::Normal, Stage::Read);
                pool.submit(how, &leave, |_| run.fetch_add(1, Ordering::Relaxed));
            }
        });
        assert_eq!(run.into_inner(), 0);
    }
}
