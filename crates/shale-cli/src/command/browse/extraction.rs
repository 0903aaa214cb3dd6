//! One entry out of the image, with everything below it, by a thread of its own.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use shale::read::Tree;
use shale::write::NoProgress;
use shale::{Cancel, ExtractOptions, Overwrite};

use crate::{size, text};

/// An extraction that runs.
pub struct Extraction {
    thread: Option<JoinHandle<String>>,
    cancel: Cancel,
}

impl Extraction {
    /// Begins to extract `path` into `directory`, under its last name. What is there already is not
    /// replaced.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(tree: &Tree, path: &[u8], directory: &Path) -> std::io::Result<Self> {
        let cancel = Cancel::new();
        let (tree, path, directory) = (tree.clone(), path.to_vec(), directory.to_owned());
        let thread = {
            let cancel = cancel.clone();
            let extract = move || extract(&tree, &path, &directory, cancel);
            std::thread::Builder::new().name("extract".to_owned()).spawn(extract)?
        };
        Ok(Self { thread: Some(thread), cancel })
    }

    /// What became of it, if it has ended.
    pub fn result(&mut self) -> Option<String> {
        if !self.thread.as_ref()?.is_finished() {
            return None;
        }
        self.join()
    }

    /// Ends it, and waits until it has removed incomplete files.
    pub fn cancel(&mut self) -> Option<String> {
        self.cancel.flag().store(true, Ordering::Relaxed);
        self.join()
    }

    fn join(&mut self) -> Option<String> {
        let result = self.thread.take()?.join();
        Some(result.unwrap_or_else(|_| "the extraction failed: a bug in this program".to_owned()))
    }
}

/// Extracts, and says what came of it.
fn extract(tree: &Tree, path: &[u8], directory: &Path, cancel: Cancel) -> String {
    let leading = path.iter().filter(|&&byte| byte == b'/').count();
    let patterns = match shale::patterns_in_tree(&[pattern(path)], tree) {
        Ok(patterns) => patterns,
        Err(error) => return text::safe(&error.to_string()),
    };
    let options = ExtractOptions::default()
        .patterns(patterns)
        .overwrite(Overwrite::Refuse)
        .strip_components(leading)
        .cancel(cancel);
    let target = directory.join(name(path));
    match shale::extract(tree, directory, &options, &NoProgress) {
        Ok(report) if report.problem_count == 0 => format!(
            "extracted {}: {} files, {}",
            text::path(&target),
            size::count(report.files),
            size::show(report.file_bytes)
        ),
        Ok(report) => {
            let first = report.problems.first();
            let first = first.map_or(String::new(), |problem| {
                format!("; first: {}: {}", text::entry(&problem.path), problem.kind)
            });
            format!("{} entries could not be extracted{first}", report.problem_count)
        }
        Err(error) => {
            let mut what = format!("nothing extracted: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                what += &format!(": {error}");
                cause = error.source();
            }
            text::safe(&what)
        }
    }
}

fn name(path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    PathBuf::from(std::ffi::OsStr::from_bytes(name))
}

/// A pattern that matches this path only.
fn pattern(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len() + 8);
    for &byte in path {
        if b"*?[]{}\\!".contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}
