//! Progress: a bar with rate, ratio and remaining time on a terminal, a line now and then
//! elsewhere, nothing where nobody wants it.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use shale::{Phase, Progress};

use crate::args::ProgressChoice;
use crate::report::{Say, to_stderr};
use crate::size;

/// How often a plain line is written.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// How often the bar is brought up to date.
const BAR_INTERVAL: Duration = Duration::from_millis(100);

/// Shows progress; dropping it removes the bar.
pub struct Bar {
    shape: Shape,
    found_bytes: AtomicU64,
    done_bytes: AtomicU64,
    done_items: AtomicU64,
    plain_bytes: AtomicU64,
    stored_bytes: AtomicU64,
    state: Mutex<State>,
}

enum Shape {
    None,
    Lines,
    Bar(ProgressBar),
}

struct State {
    phase: Phase,
    phase_start: Instant,
    last: Instant,
}

impl Bar {
    /// Decides how to show progress.
    pub fn new(say: &Say) -> Self {
        let choice = match say.progress {
            _ if say.quiet => ProgressChoice::None,
            ProgressChoice::Auto if std::io::stderr().is_terminal() => ProgressChoice::Bar,
            ProgressChoice::Auto => ProgressChoice::Plain,
            other => other,
        };
        let shape = match choice {
            ProgressChoice::None => Shape::None,
            ProgressChoice::Bar => Shape::Bar(bar()),
            _ => Shape::Lines,
        };
        let now = Instant::now();
        Self {
            shape,
            found_bytes: AtomicU64::new(0),
            done_bytes: AtomicU64::new(0),
            done_items: AtomicU64::new(0),
            plain_bytes: AtomicU64::new(0),
            stored_bytes: AtomicU64::new(0),
            state: Mutex::new(State { phase: Phase::Scan, phase_start: now, last: now }),
        }
    }

    fn tick(&self) {
        // Whoever finds it taken has someone else to show it.
        let Ok(mut state) = self.state.try_lock() else { return };
        match &self.shape {
            Shape::None => {}
            Shape::Bar(bar) => {
                if state.last.elapsed() >= BAR_INTERVAL {
                    state.last = Instant::now();
                    bar.set_length(self.found_bytes.load(Ordering::Relaxed));
                    bar.set_position(self.done_bytes.load(Ordering::Relaxed));
                    bar.set_message(self.message(&state));
                }
            }
            Shape::Lines => {
                if state.last.elapsed() >= LINE_INTERVAL {
                    state.last = Instant::now();
                    to_stderr(&self.text(&state));
                }
            }
        }
    }

    fn message(&self, state: &State) -> String {
        let mut message = state.phase.name().to_owned();
        let (plain, stored) =
            (self.plain_bytes.load(Ordering::Relaxed), self.stored_bytes.load(Ordering::Relaxed));
        if stored > 0 {
            message += &format!(", ratio {}", size::ratio(plain, stored));
        }
        message
    }

    fn text(&self, state: &State) -> String {
        let (done, found) =
            (self.done_bytes.load(Ordering::Relaxed), self.found_bytes.load(Ordering::Relaxed));
        let seconds = state.phase_start.elapsed().as_secs_f64();
        let mut text = format!(
            "{}: {} of {}, {} items, {}/s",
            self.message(state),
            size::show(done),
            size::show(found),
            self.done_items.load(Ordering::Relaxed),
            size::show((done as f64 / seconds.max(0.001)) as u64),
        );
        if done > 0 && found > done {
            let left = seconds * (found - done) as f64 / done as f64;
            text += &format!(", {} s left", left.ceil() as u64);
        }
        text
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Shape::Bar(bar) = &self.shape {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn phase(&self, phase: Phase) {
        if let Ok(mut state) = self.state.lock() {
            state.phase = phase;
            state.phase_start = Instant::now();
            // Entries found while scanning are what is read next; all else starts anew.
            if phase != Phase::Read {
                self.found_bytes.store(0, Ordering::Relaxed);
            }
            self.done_bytes.store(0, Ordering::Relaxed);
            self.done_items.store(0, Ordering::Relaxed);
        }
        self.tick();
    }

    fn found(&self, _items: u64, bytes: u64) {
        self.found_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tick();
    }

    fn done(&self, items: u64, bytes: u64) {
        self.done_items.fetch_add(items, Ordering::Relaxed);
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tick();
    }

    fn compressed(&self, plain_bytes: u64, stored_bytes: u64) {
        self.plain_bytes.fetch_add(plain_bytes, Ordering::Relaxed);
        self.stored_bytes.fetch_add(stored_bytes, Ordering::Relaxed);
        self.tick();
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    // The template is a constant; should it ever be wrong, a plain bar is better than none.
    if let Ok(style) = ProgressStyle::with_template(
        "{wide_bar} {percent:>3}% {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} \
         {eta} left, {msg}",
    ) {
        bar.set_style(style);
    }
    bar
}
