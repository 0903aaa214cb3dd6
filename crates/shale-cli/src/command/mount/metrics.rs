//! `-o metrics=FILE`: counters in a file, in the text format of Prometheus, for the textfile
//! collector of the node exporter.
//!
//! The file is replaced as a whole at intervals, so a reader never sees a part of it, and removed
//! when the mounts end.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use shale_fuse::{Mounted, StatisticsSource, prometheus};

use super::atomic_file::AtomicFile;

/// How often the file is written.
const INTERVAL: Duration = Duration::from_secs(15);

/// The file and the thread that writes it.
pub struct Metrics {
    path: PathBuf,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Writes the file once, to check that this is possible, and then at intervals.
    ///
    /// # Errors
    /// The file cannot be written, or the thread cannot be started.
    pub fn start(path: &Path, mounts: &[Mounted]) -> anyhow::Result<Self> {
        let sources: Vec<StatisticsSource> =
            mounts.iter().map(Mounted::statistics_source).collect();
        let file = AtomicFile::new(path, 0o644).and_then(|file| {
            write(&file, &sources)?;
            Ok(file)
        });
        let file = file.with_context(|| format!("-o metrics={}", path.display()))?;
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(INTERVAL) {
                // The disk may be full now and have room later.
                let _ = write(&file, &sources);
            }
        })?;
        Ok(Self { path: path.to_owned(), end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn write(file: &AtomicFile, sources: &[StatisticsSource]) -> std::io::Result<()> {
    file.replace(prometheus(sources).as_bytes())
}
