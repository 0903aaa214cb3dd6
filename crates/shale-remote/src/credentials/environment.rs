//! Where credentials are looked for: variables, the user's directory, files.

use std::path::{Path, PathBuf};

use crate::error::Reason;

/// A variable of the environment that is not empty.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The user's directory.
pub(super) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(Into::into)
}

/// The text of a file with credentials.
pub(super) fn read_file(path: &Path) -> Result<String, Reason> {
    std::fs::read_to_string(path)
        .map_err(|error| Reason::Credentials(format!("cannot read {}: {error}", path.display())))
}
