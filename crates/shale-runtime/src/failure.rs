//! Why a bundle does not start: a message and the exit code.
//!
//! The codes are those of env(1), so that they differ from most codes of the program itself.

use std::fmt::Display;

/// The runtime failed.
pub const FAILED: u8 = 125;
/// The program is there and cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The program is not in the image.
pub const NOT_FOUND: u8 = 127;
/// An option of the runtime is wrong.
pub const USAGE: u8 = 2;

/// An error with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What failed, why, and what to do.
    pub message: String,
}

impl Failure {
    /// An error with the exit code [`FAILED`].
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Adds what was tried to an error of a library or of the system.
pub trait During<T> {
    /// Turns an error into `cannot WHAT: ERROR`.
    ///
    /// # Errors
    /// That of `self`.
    fn during(self, what: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display> During<T> for Result<T, E> {
    fn during(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(format!("cannot {what}: {error}")))
    }
}
