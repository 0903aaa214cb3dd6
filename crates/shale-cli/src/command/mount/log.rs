//! Messages of a driver: on standard error, in the system log, or in the file of `--log`.
//!
//! A background mount writes to standard error until its mounts work, since the process that the
//! user called shares it. From then on it never writes to a terminal: messages go to the file, or
//! to standard error if that is a file or a socket, such as the log of a service, or to the system
//! log, which is the journal under systemd.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::FileType;
use shale_fuse::LineSink;

use crate::report::to_stderr;
use crate::text;

/// The socket of the system log.
const SYSTEM_LOG: &str = "/dev/log";
/// Facility daemon, severity error, as syslog(3) numbers them.
const PRIORITY: u8 = 3 << 3 | 3;

/// Where messages go. Clones share it.
#[derive(Clone)]
pub struct DriverLog(Arc<Mutex<Destination>>);

enum Destination {
    Stderr,
    System,
    File(File),
}

impl DriverLog {
    /// Opens the file, if there is one, to append to it; it is for its owner and group to read.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn new(path: Option<&Path>) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let destination = match path {
            None => Destination::Stderr,
            Some(path) => {
                Destination::File(File::options().create(true).append(true).mode(0o640).open(path)?)
            }
        };
        Ok(Self(Arc::new(Mutex::new(destination))))
    }

    /// Writes one message. Failures are ignored: there is no other place to report them.
    pub fn line(&self, line: &str) {
        let line = text::safe(line);
        let process = std::process::id();
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Destination::Stderr => to_stderr(&format!("shale: {line}")),
            Destination::File(file) => {
                let time = utc(SystemTime::now());
                // One write, so that lines of several drivers do not mix.
                let _ = file.write_all(format!("{time} shale[{process}]: {line}\n").as_bytes());
            }
            Destination::System => {
                let message = format!("<{PRIORITY}>shale[{process}]: {line}");
                // A socket for each message: the log may have been restarted.
                let _ = UnixDatagram::unbound()
                    .and_then(|socket| socket.send_to(message.as_bytes(), SYSTEM_LOG));
            }
        }
    }

    /// Returns the function that writes messages.
    pub fn sink(&self) -> LineSink {
        let log = self.clone();
        Arc::new(move |line| log.line(line))
    }

    /// Leaves standard error if it is a terminal or a pipe. Returns whether standard error is still
    /// in use.
    pub fn leave_terminal(&self) -> bool {
        let kind = rustix::fs::fstat(io::stderr())
            .map(|found| FileType::from_raw_mode(found.st_mode))
            .unwrap_or(FileType::Unknown);
        let is_log = matches!(kind, FileType::RegularFile | FileType::Socket);
        let mut destination = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*destination, Destination::Stderr) && !is_log {
            *destination = Destination::System;
        }
        is_log
    }
}

/// Formats a time as RFC 3339 does, in UTC and whole seconds.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The civil calendar by its cycle of 400 years, counted from 1 March of year 0.
    let day = days + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_written_in_utc() {
        let of = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(of(0), "1970-01-01T00:00:00Z");
        assert_eq!(of(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(of(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(of(1_700_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(of(4_102_444_800), "2100-01-01T00:00:00Z");
    }

    #[test]
    fn lines_are_appended_and_made_safe() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "old\n").unwrap();
        let log = DriverLog::new(Some(&path)).unwrap();
        log.line("one\nline");
        (log.sink())("two");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, "old"));
        assert!(lines[1].ends_with("]: one\\x0aline") && lines[2].ends_with("]: two"), "{text}");
    }
}
