//! Becomes the program: same process, so exit code, signals, terminal and parent are its own.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::bundle::OwnBundle;
use crate::failure::{FAILED, Failure, NOT_EXECUTABLE, NOT_FOUND};

/// Executes the program of the bundle, whose files are in `directory`. Returns only if that fails.
pub fn become_program(
    own: &OwnBundle,
    directory: &Path,
    called_as: OsString,
    arguments: Vec<OsString>,
) -> Failure {
    let program = directory.join(std::ffi::OsStr::from_bytes(&own.header.run));
    let mut command = Command::new(&program);
    command.args(arguments);
    command.env("APPDIR", directory).env("APPIMAGE", &own.path).env("ARGV0", called_as);
    if let Ok(here) = std::env::current_dir() {
        command.env("OWD", here);
    }
    let error = command.exec();
    let code = match error.kind() {
        ErrorKind::NotFound if !program.exists() => NOT_FOUND,
        ErrorKind::NotFound | ErrorKind::PermissionDenied => NOT_EXECUTABLE,
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            NOT_EXECUTABLE
        }
        _ => FAILED,
    };
    let shown = String::from_utf8_lossy(&own.header.run);
    let hint = match (code, error.kind()) {
        (NOT_FOUND, _) => ": it is not in the image",
        (_, ErrorKind::NotFound) => ": its interpreter or loader is not on this machine",
        _ => "",
    };
    Failure { code, message: format!("cannot execute {shown}: {error}{hint}") }
}
