//! Progress: a bar on a terminal, otherwise a line every few seconds.
//!
//! A phase counts bytes if their total is known, otherwise items, otherwise only what was found so
//! far. Counting costs a few relaxed additions and an occasional look at the clock.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shale::{Phase, Progress};

use crate::args::ProgressChoice;
use crate::report::{Say, to_stderr};
use crate::size;
use crate::text;

/// How often a plain line is written.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// When the first plain line of a phase is written.
const FIRST_LINE_INTERVAL: Duration = Duration::from_secs(1);
/// How often the bar is brought up to date.
const BAR_INTERVAL: Duration = Duration::from_millis(100);
/// Steps of the bar, whatever it counts.
const BAR_STEPS: u64 = 1000;

/// Shows progress until it is dropped.
pub struct Bar {
    shape: Shape,
    say: Say,
    counts: Counts,
    /// True if compressed bytes count as done in this phase.
    is_compressing: AtomicBool,
    state: Mutex<State>,
}

enum Shape {
    None,
    Lines,
    Bar(ProgressBar),
}

#[derive(Default)]
struct Counts {
    found_items: AtomicU64,
    found_bytes: AtomicU64,
    done_items: AtomicU64,
    done_bytes: AtomicU64,
    plain_bytes: AtomicU64,
    stored_bytes: AtomicU64,
    /// Items that were done in earlier phases.
    earlier_items: AtomicU64,
}

struct State {
    phase: Phase,
    phase_start: Instant,
    last: Instant,
    /// Nothing was shown of this phase yet.
    is_first: bool,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Look {
    found_items: u64,
    found_bytes: u64,
    done_items: u64,
    done_bytes: u64,
    plain_bytes: u64,
    stored_bytes: u64,
}

impl Counts {
    fn look(&self) -> Look {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Look {
            found_items: get(&self.found_items),
            found_bytes: get(&self.found_bytes),
            done_items: get(&self.done_items),
            done_bytes: get(&self.done_bytes),
            plain_bytes: get(&self.plain_bytes),
            stored_bytes: get(&self.stored_bytes),
        }
    }
}

impl Look {
    /// The position of the bar, if the total is known.
    fn steps(&self, phase: Phase) -> Option<u64> {
        let (done, found) = match phase {
            Phase::Scan => return None,
            _ if self.found_bytes > 0 => (self.done_bytes, self.found_bytes),
            _ => (self.done_items, self.found_items),
        };
        let steps = u128::from(done) * u128::from(BAR_STEPS);
        steps.checked_div(u128::from(found)).map(|steps| steps.min(u128::from(BAR_STEPS)) as u64)
    }

    /// Formats the counts of a phase: `27%, 12.3 MiB of 45.6 MiB, 7.8 MiB/s, ratio 3.21, 2 s
    /// elapsed, 5 s left`.
    fn text(&self, phase: Phase, seconds: f64) -> String {
        let seconds = seconds.max(0.001);
        let rate = |done: u64| done as f64 / seconds;
        let mut text = match phase {
            Phase::Scan => {
                let bytes = size::show(self.found_bytes);
                format!("{} entries, {bytes}", size::count(self.found_items))
            }
            _ if self.found_bytes > 0 || self.done_bytes > 0 => {
                let of = match self.found_bytes {
                    0 => String::new(),
                    found => format!(" of {}", size::show(found)),
                };
                let per_second = size::show(rate(self.done_bytes) as u64);
                format!("{}{of}, {per_second}/s", size::show(self.done_bytes))
            }
            _ => match self.found_items {
                0 => String::new(),
                found => format!("{} of {}", size::count(self.done_items), size::count(found)),
            },
        };
        if self.stored_bytes > 0 {
            text += &format!(", ratio {}", size::ratio(self.plain_bytes, self.stored_bytes));
        }
        let elapsed = format!("{} elapsed", time(seconds as u64));
        text = if text.is_empty() { elapsed } else { format!("{text}, {elapsed}") };
        let Some(steps) = self.steps(phase) else { return text };
        text = format!("{}%, {text}", steps * 100 / BAR_STEPS);
        if steps > 0 {
            let left = seconds * (BAR_STEPS - steps) as f64 / steps as f64;
            text += &format!(", {} left", time(left.ceil() as u64));
        }
        text
    }
}

/// The phases of a build in their order. A build without parity or similarity skips some.
const CREATE_PHASES: [Phase; 9] = [
    Phase::Scan,
    Phase::Read,
    Phase::Order,
    Phase::Refer,
    Phase::Compress,
    Phase::Tables,
    Phase::Parity,
    Phase::Sync,
    Phase::Verify,
];

/// The name of a phase, with its number among the phases of a build: `read 2/9`.
fn label(phase: Phase) -> String {
    match CREATE_PHASES.iter().position(|known| *known == phase) {
        // Other commands make parity, too.
        Some(at) if phase != Phase::Parity => {
            format!("{} {}/{}", phase.name(), at + 1, CREATE_PHASES.len())
        }
        _ => phase.name().to_owned(),
    }
}

/// `45 s`, `3 min 20 s`, `2 h 15 min`.
fn time(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

impl Bar {
    /// Selects how to show progress.
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
            say: *say,
            counts: Counts::default(),
            is_compressing: AtomicBool::new(false),
            state: Mutex::new(State {
                phase: Phase::Scan,
                phase_start: now,
                last: now,
                is_first: true,
            }),
        }
    }

    /// Number of items that were done in all phases.
    pub fn items_done(&self) -> u64 {
        let counts = &self.counts;
        counts.earlier_items.load(Ordering::Relaxed) + counts.done_items.load(Ordering::Relaxed)
    }

    fn tick(&self) {
        // If the lock is held, another thread is showing progress already.
        let Ok(mut state) = self.state.try_lock() else { return };
        let interval = match &self.shape {
            Shape::None => return,
            Shape::Bar(_) => BAR_INTERVAL,
            Shape::Lines if state.is_first => FIRST_LINE_INTERVAL,
            Shape::Lines => LINE_INTERVAL,
        };
        if state.last.elapsed() >= interval {
            state.last = Instant::now();
            state.is_first = false;
            self.show(&state);
        }
    }

    fn show(&self, state: &State) {
        let look = self.counts.look();
        let text = look.text(state.phase, state.phase_start.elapsed().as_secs_f64());
        match &self.shape {
            Shape::None => {}
            Shape::Lines => to_stderr(&format!("{}: {text}", label(state.phase))),
            Shape::Bar(bar) => {
                bar.set_position(look.steps(state.phase).unwrap_or(0));
                bar.set_prefix(label(state.phase));
                bar.set_message(text);
            }
        }
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
        let Ok(mut state) = self.state.lock() else { return };
        // The items found by the scan are the total of the next phase.
        let goes_on = matches!((state.phase, phase), (Phase::Scan, Phase::Read));
        let counts = &self.counts;
        if !goes_on {
            counts.found_items.store(0, Ordering::Relaxed);
            counts.found_bytes.store(0, Ordering::Relaxed);
        }
        let done = counts.done_items.swap(0, Ordering::Relaxed);
        counts.earlier_items.fetch_add(done, Ordering::Relaxed);
        counts.done_bytes.store(0, Ordering::Relaxed);
        if matches!(phase, Phase::Sync | Phase::Verify) {
            counts.plain_bytes.store(0, Ordering::Relaxed);
            counts.stored_bytes.store(0, Ordering::Relaxed);
        }
        self.is_compressing.store(phase == Phase::Compress, Ordering::Relaxed);
        state.phase = phase;
        state.phase_start = Instant::now();
        state.last = state.phase_start;
        state.is_first = true;
        if let Shape::Bar(_) = &self.shape {
            self.show(&state);
        }
    }

    fn found(&self, items: u64, bytes: u64) {
        self.counts.found_items.fetch_add(items, Ordering::Relaxed);
        self.counts.found_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tick();
    }

    fn done(&self, items: u64, bytes: u64) {
        self.counts.done_items.fetch_add(items, Ordering::Relaxed);
        self.counts.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tick();
    }

    fn temporary(&self, bytes_max: Option<u64>, directory: &Path) {
        let most = match bytes_max {
            Some(0) => return,
            Some(bytes) => format!("up to {}", size::show(bytes)),
            None => "as many bytes as the source holds".to_owned(),
        };
        let tell = || {
            self.say.detail(format!(
                "  temporary files may take {most} in {} (--temp-dir)",
                text::path(directory)
            ));
        };
        match &self.shape {
            Shape::Bar(bar) => bar.suspend(tell),
            _ => tell(),
        }
    }

    fn compressed(&self, plain_bytes: u64, stored_bytes: u64) {
        self.counts.plain_bytes.fetch_add(plain_bytes, Ordering::Relaxed);
        self.counts.stored_bytes.fetch_add(stored_bytes, Ordering::Relaxed);
        if self.is_compressing.load(Ordering::Relaxed) {
            self.counts.done_bytes.fetch_add(plain_bytes, Ordering::Relaxed);
        }
        self.tick();
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(BAR_STEPS), ProgressDrawTarget::stderr());
    // If the constant template were ever wrong, the default bar is better than no bar.
    if let Ok(style) = ProgressStyle::with_template("{prefix:>12} {wide_bar} {msg}") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_what_is_known() {
        let scan = Look { found_items: 12_345, found_bytes: 1 << 30, ..Look::default() };
        assert_eq!(scan.text(Phase::Scan, 1.0), "12,345 entries, 1.00 GiB, 1 s elapsed");
        assert_eq!(scan.steps(Phase::Scan), None);
        let read = Look {
            done_bytes: 1 << 28,
            plain_bytes: 300,
            stored_bytes: 100,
            done_items: 5,
            ..scan
        };
        assert_eq!(
            read.text(Phase::Read, 4.0),
            "25%, 256 MiB of 1.00 GiB, 64.0 MiB/s, ratio 3.00, 4 s elapsed, 12 s left"
        );
        assert_eq!(read.steps(Phase::Read), Some(250));
        let rows = Look { found_items: 1000, done_items: 500, ..Look::default() };
        assert_eq!(rows.text(Phase::Rows, 2.0), "50%, 500 of 1,000, 2 s elapsed, 2 s left");
        let unknown = Look { done_bytes: 1 << 20, ..Look::default() };
        assert_eq!(unknown.text(Phase::Compress, 1.0), "1.00 MiB, 1.00 MiB/s, 1 s elapsed");
        assert_eq!(Look::default().text(Phase::Sync, 0.0), "0 s elapsed");
        assert_eq!(label(Phase::Verify), "verify 9/9");
        assert_eq!(label(Phase::Files), "files");
        // The bar must not go beyond its end.
        let over = Look { found_bytes: 10, done_bytes: 20, ..Look::default() };
        assert_eq!(over.steps(Phase::Verify), Some(BAR_STEPS));
        assert_eq!(
            (time(59), time(200), time(8100)),
            ("59 s".into(), "3 min 20 s".into(), "2 h 15 min".into())
        );
    }
}
