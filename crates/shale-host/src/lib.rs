//! What long work needs from its host: a way to report and to be cancelled, threads, directories
//! that cannot be left, and output files that are complete or absent.
//!
//! This crate does not know images, the terminal or the environment.

mod setters; // builders of options
mod error; // why the host refused
mod progress; // what a caller is told, and how it cancels
pub mod threads; // how many threads work, and how they start
pub mod beneath; // a directory that nothing opened through it can leave
mod output; // an output file that is complete or absent
mod patient; // a pipe as an output, which never outlives a cancel
mod growing; // a file that grows completely or not at all
pub mod owners; // users and groups by name

pub use beneath::{Beneath, check_name, remove_file};
pub use error::{Error, ErrorKind};
pub use growing::{GrowingFile, grower};
pub use output::{Existing, Output, OutputFile, existing, sync_directory};
pub use patient::PatientOutput;
pub use progress::{Cancel, NoProgress, Phase, Progress};
pub use threads::{THREADS_MAX, thread_count};
