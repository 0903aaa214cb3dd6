//! Work done by several threads whose results come back in the order in which it was given.
//!
//! What is on its way is bounded by a number of jobs: whoever gives takes results before there are
//! too many.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Jobs on their way, for each thread.
const JOBS_PER_THREAD: usize = 4;

/// Threads that turn a `J` into an `R`.
pub(crate) struct Ordered<J, R> {
    to_workers: Option<Sender<(J, Sender<R>)>>,
    /// Where the results come from, the oldest first.
    results: VecDeque<Receiver<R>>,
    jobs_max: usize,
    workers: Vec<JoinHandle<()>>,
    /// Runs a job in the calling thread if no worker could be started.
    work: Arc<dyn Fn(J) -> R + Send + Sync>,
}

impl<J: Send + 'static, R: Send + 'static> Ordered<J, R> {
    /// Starts the threads, or as many of them as the system allows. If there are none, the calling
    /// thread runs the jobs.
    pub(crate) fn new(threads: usize, work: impl Fn(J) -> R + Send + Sync + 'static) -> Self {
        let (to_workers, jobs) = channel::<(J, Sender<R>)>();
        let jobs = Arc::new(Mutex::new(jobs));
        let work: Arc<dyn Fn(J) -> R + Send + Sync> = Arc::new(work);
        let threads = threads.max(1);
        let workers = (0..threads).map_while(|_| {
            let (jobs, work) = (Arc::clone(&jobs), Arc::clone(&work));
            let worker = move || {
                loop {
                    let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((job, to_giver)) = job else { return };
                    // Nobody waits for it any more after an error.
                    let _ = to_giver.send(work(job));
                }
            };
            std::thread::Builder::new().spawn(worker).ok()
        });
        Self {
            to_workers: Some(to_workers),
            results: VecDeque::new(),
            jobs_max: JOBS_PER_THREAD * threads,
            workers: workers.collect(),
            work,
        }
    }

    /// Whether results should be taken before more is given.
    pub(crate) fn is_full(&self) -> bool {
        self.results.len() >= self.jobs_max
    }

    /// Gives a job.
    pub(crate) fn give(&mut self, job: J) -> io::Result<()> {
        let (to_giver, result) = channel();
        if self.workers.is_empty() {
            to_giver.send((self.work)(job)).map_err(|_| gone())?;
        } else {
            let workers = self.to_workers.as_ref().ok_or_else(gone)?;
            workers.send((job, to_giver)).map_err(|_| gone())?;
        }
        self.results.push_back(result);
        Ok(())
    }

    /// The oldest result: waits for it if `waits`, else only if it is there. `None` if there is
    /// none.
    pub(crate) fn take(&mut self, waits: bool) -> io::Result<Option<R>> {
        let Some(oldest) = self.results.front() else { return Ok(None) };
        let result = match waits {
            true => oldest.recv().map_err(|_| gone())?,
            false => match oldest.try_recv() {
                Ok(result) => result,
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => return Err(gone()),
            },
        };
        self.results.pop_front();
        Ok(Some(result))
    }
}

fn gone() -> io::Error {
    io::Error::other("a thread has ended before its work")
}

impl<J, R> Drop for Ordered<J, R> {
    fn drop(&mut self) {
        self.to_workers = None;
        for worker in self.workers.drain(..) {
            // One that panicked was noticed when its result did not come.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whoever_is_faster() {
        let mut pool = Ordered::new(3, |n: u64| {
            // Earlier jobs are the longer ones.
            (0..(1000 - n) * 20).fold(n, |sum, x| std::hint::black_box(sum ^ x ^ x))
        });
        let mut found = Vec::new();
        for n in 0..1000 {
            while pool.is_full() {
                found.extend(pool.take(true).unwrap());
            }
            pool.give(n).unwrap();
        }
        while let Some(n) = pool.take(true).unwrap() {
            found.push(n);
        }
        assert_eq!(found, (0..1000).collect::<Vec<u64>>());
        assert!(pool.take(false).unwrap().is_none());
    }
}
