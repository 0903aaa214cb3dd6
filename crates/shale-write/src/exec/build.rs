//! What all stages of a build share: options, plan and progress, and the threads.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::image::Base;
use crate::content::read::{Patience, SMALL_LEN_MAX};
use crate::exec::pool::{Pool, Ticket, Urgency, with_pool};
use crate::exec::scratch::EncoderScratch;
use crate::exec::stages::StageTimes;
use crate::plan::budget::Plan;
use crate::plan::digest::ContentDigest;
use crate::plan::error::WriteError;
use crate::plan::options::Options;
use crate::plan::report::Stage;
use crate::recompress::gate::Gate;
use crate::recompress::take_apart::FILE_LEN_MAX;
use shale_host::{Phase, Progress};

/// What does not change during a build. Tasks on any thread may look at it.
pub(crate) struct Env<'a> {
    pub(crate) options: &'a Options,
    pub(crate) plan: Plan,
    pub(crate) progress: &'a dyn Progress,
    /// The image that the build continues.
    base: Option<Arc<dyn Base>>,
    /// Set when the build ends: tasks that wait are not run any more.
    leave: AtomicBool,
    /// Memory for taking files apart.
    pub(crate) gate: Arc<Gate>,
    /// Files with streams that were met.
    met: Mutex<HashSet<ContentDigest>>,
    /// Complete when all threads have ended.
    pub(crate) times: StageTimes,
}

impl<'a> Env<'a> {
    /// Plans a build.
    ///
    /// # Errors
    /// [`WriteError::Option`] where the options are wrong.
    pub(crate) fn new(
        options: &'a Options,
        content_bytes_max: Option<u64>,
        base: Option<Arc<dyn Base>>,
        progress: &'a dyn Progress,
    ) -> Result<Self, WriteError> {
        let plan = Plan::new(options, content_bytes_max)?;
        let leave = AtomicBool::new(false);
        let gate = Gate::new(plan.recompress_bytes_max);
        let (met, times) = (Mutex::default(), StageTimes::default());
        Ok(Self { options, plan, progress, base, leave, gate, met, times })
    }

    /// Length up to which files may be read whole. It is more where streams in them are looked for.
    pub(crate) fn whole_len_max(&self, recompress: bool) -> u64 {
        if recompress { FILE_LEN_MAX } else { SMALL_LEN_MAX }
    }

    /// Notes a file with streams. Returns whether it is the first one with these bytes.
    pub(crate) fn meet(&self, digest: ContentDigest) -> bool {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).insert(digest)
    }

    /// Tells the caller how much contents of `content_bytes` may take in temporary files.
    pub(crate) fn tell_temporary(&self, content_bytes: Option<u64>) {
        let directory = self.options.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
        let bytes_max = content_bytes.and_then(|bytes| self.plan.temporary_bytes_max(bytes));
        self.progress.temporary(bytes_max, &directory);
    }

    /// What to do about files that change while they are read.
    pub(crate) fn patience(&self) -> Patience {
        Patience { strict: self.options.strict }
    }

    /// Returns whether tasks should give up.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.leave.load(Ordering::Relaxed) || self.options.check_cancel().is_err()
    }
}

/// The context of the deciding thread: the environment and the pool. Each stage holds a clone.
#[derive(Clone)]
pub(crate) struct Build<'env> {
    pub(crate) env: &'env Env<'env>,
    pool: Rc<Pool<'env>>,
}

impl<'env> Build<'env> {
    /// Runs `decide` on this thread, with as many others as the plan says to help it.
    pub(crate) fn run<T>(env: &'env Env<'env>, decide: impl FnOnce(Self) -> T) -> T {
        let how = (env.plan.threads, env.plan.keeps_encoders);
        with_pool(how, &env.leave, &env.times, |pool| decide(Self { env, pool }))
    }

    /// What was decided before anything is read.
    pub(crate) fn plan(&self) -> &'env Plan {
        &self.env.plan
    }

    /// What the caller decided.
    pub(crate) fn options(&self) -> &'env Options {
        self.env.options
    }

    /// The image that the build continues.
    pub(crate) fn base(&self) -> Option<&'env Arc<dyn Base>> {
        self.env.base.as_ref()
    }

    /// Receiver of progress reports.
    pub(crate) fn progress(&self) -> &'env dyn Progress {
        self.env.progress
    }

    /// What to do about files that change while they are read.
    pub(crate) fn patience(&self) -> Patience {
        self.env.patience()
    }

    /// Begins a phase: tells the caller, and counts this thread's time for `stage` from now on.
    pub(crate) fn phase(&self, phase: Phase, stage: Stage) {
        self.pool.enter(stage);
        self.env.progress.phase(phase);
    }

    /// Counts this thread's time for `stage` from now on: as that of the deciding thread, or as
    /// work that others do at the same time.
    pub(crate) fn decide(&self, stage: Stage, is_deciding: bool) {
        self.pool.decide(stage, is_deciding);
    }

    /// Counts this thread's time for `stage` from now on.
    pub(crate) fn enter(&self, stage: Stage) {
        self.pool.enter(stage);
    }

    /// Fails if the build was cancelled.
    ///
    /// # Errors
    /// [`WriteError::Cancelled`].
    pub(crate) fn check_cancel(&self) -> Result<(), WriteError> {
        self.env.options.check_cancel()
    }

    /// Queues a task. It is run unless the build ends first.
    pub(crate) fn submit<T: Send + 'env>(
        &self,
        urgency: Urgency,
        stage: Stage,
        task: impl FnOnce(&mut EncoderScratch) -> T + Send + 'env,
    ) -> Ticket<T> {
        self.pool.submit((urgency, stage), &self.env.leave, task)
    }

    /// Waits for the result of a task and runs others meanwhile. A panic of the task continues
    /// here.
    pub(crate) fn wait<T>(&self, ticket: &Ticket<T>) -> T {
        self.pool.wait(ticket)
    }
}
