//! Lines about failed requests, at a bounded rate. Without a bound, a backup program that reads a
//! damaged image would cause millions of lines.

use crate::options::LineSink;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time over which lines are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// Lines that pass in one window.
const WINDOW_LINES_MAX: u32 = 20;

/// A rate-limited line sink.
pub(crate) struct Log {
    sink: LineSink,
    window: Mutex<Window>,
}

struct Window {
    start: Option<Instant>,
    line_count: u32,
    dropped_count: u64,
}

impl Log {
    pub(crate) fn new(sink: LineSink) -> Self {
        let window = Window { start: None, line_count: 0, dropped_count: 0 };
        Self { sink, window: Mutex::new(window) }
    }

    /// Passes a line on, or only counts it if there were too many in this window. The first line of
    /// the next window is preceded by the number of dropped lines. `line` is called only for a line
    /// that is passed on.
    pub(crate) fn line(&self, line: impl FnOnce() -> String) {
        self.line_at(line, Instant::now());
    }

    fn line_at(&self, line: impl FnOnce() -> String, now: Instant) {
        let dropped_count = {
            let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
            let mut dropped_count = 0;
            if window.start.is_none_or(|start| now.saturating_duration_since(start) >= WINDOW) {
                dropped_count = window.dropped_count;
                *window = Window { start: Some(now), line_count: 0, dropped_count: 0 };
            }
            if window.line_count >= WINDOW_LINES_MAX {
                window.dropped_count += 1;
                return;
            }
            window.line_count += 1;
            dropped_count
        };
        if dropped_count > 0 {
            (self.sink)(&format!("({dropped_count} more lines like these were dropped)"));
        }
        (self.sink)(&line());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_flood_of_lines_is_cut_and_counted() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = {
            let lines = Arc::clone(&lines);
            Log::new(Arc::new(move |line| lines.lock().unwrap().push(line.to_owned())))
        };
        let start = Instant::now();
        for n in 0..1000 {
            log.line_at(|| format!("error {n}"), start);
        }
        assert_eq!(lines.lock().unwrap().len(), WINDOW_LINES_MAX as usize);
        log.line_at(|| "later".to_owned(), start + WINDOW);
        let lines = lines.lock().unwrap();
        assert_eq!(
            lines[WINDOW_LINES_MAX as usize..],
            ["(980 more lines like these were dropped)", "later"]
        );
    }
}
