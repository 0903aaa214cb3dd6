//! A pipe as an output, which never outlives a cancel.
//!
//! Opening a pipe blocks until somebody reads it, and writing blocks while nobody reads on. Both
//! happen in a thread that can be abandoned. The caller waits for it and sees a cancel at once.
//! Costs one copy of the bytes and at most [`PIECES_MAX`] pieces of memory.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::progress::Cancel;

/// Bytes given to the thread at once, at most.
const PIECE_LEN_MAX: usize = 1 << 20;
/// Pieces on their way.
const PIECES_MAX: usize = 2;
/// How long a wait lasts before the switch is looked at.
const WAIT: Duration = Duration::from_millis(50);

/// A pipe that is written by a thread of its own.
#[derive(Debug)]
pub struct PatientOutput {
    pieces: Sender<Vec<u8>>,
    written: Receiver<io::Result<()>>,
    on_their_way: usize,
    cancel: Cancel,
}

impl PatientOutput {
    /// Writes to the file that `open` opens. `open` may block.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn new(
        open: impl FnOnce() -> io::Result<File> + Send + 'static,
        cancel: &Cancel,
    ) -> io::Result<Self> {
        let (pieces, to_write) = channel::<Vec<u8>>();
        let (done, written) = channel();
        std::thread::Builder::new().name("shale-output".to_owned()).spawn(move || {
            // Nobody receives after a cancel.
            let mut file = match open() {
                Ok(file) => file,
                Err(error) => return drop(done.send(Err(error))),
            };
            for piece in to_write {
                let result = file.write_all(&piece);
                let failed = result.is_err();
                if done.send(result).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self { pieces, written, on_their_way: 0, cancel: cancel.clone() })
    }

    /// Waits until at most `count_max` pieces are on their way.
    fn wait(&mut self, count_max: usize) -> io::Result<()> {
        while self.on_their_way > count_max {
            if self.cancel.is_cancelled() {
                return Err(io::Error::other("cancelled"));
            }
            match self.written.recv_timeout(WAIT) {
                Ok(result) => {
                    self.on_their_way -= 1;
                    result?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
            }
        }
        Ok(())
    }
}

fn ended() -> io::Error {
    io::Error::other("the thread that writes has ended")
}

impl Write for PatientOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(PIECE_LEN_MAX);
        if len == 0 {
            return Ok(0);
        }
        self.wait(PIECES_MAX - 1)?;
        if self.pieces.send(bytes[..len].to_vec()).is_err() {
            // It ended with an error, which says why.
            self.on_their_way = self.on_their_way.max(1);
            self.wait(0)?;
            return Err(ended());
        }
        self.on_their_way += 1;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.wait(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode};
    use std::io::Read;

    fn fifo() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        (folder, path)
    }

    #[test]
    fn every_byte_arrives_in_order() {
        let (_folder, path) = fifo();
        let opened = path.clone();
        let cancel = Cancel::new();
        let open = move || File::options().write(true).open(opened);
        let mut output = PatientOutput::new(open, &cancel).unwrap();
        let reader = std::thread::spawn(move || {
            let mut found = Vec::new();
            File::open(path).unwrap().read_to_end(&mut found).unwrap();
            found
        });
        let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        output.write_all(&bytes).unwrap();
        output.flush().unwrap();
        drop(output);
        assert_eq!(reader.join().unwrap(), bytes);
    }

    #[test]
    fn a_cancel_ends_the_wait_for_a_reader() {
        let (_folder, path) = fifo();
        let cancel = Cancel::new();
        let open = move || File::options().write(true).open(path);
        let mut output = PatientOutput::new(open, &cancel).unwrap();
        output.write_all(b"x").unwrap();
        cancel.cancel();
        assert_eq!(output.flush().unwrap_err().to_string(), "cancelled");
    }

    #[test]
    fn the_error_of_the_system_is_the_error_of_the_write() {
        let cancel = Cancel::new();
        let open = || Err(io::ErrorKind::PermissionDenied.into());
        let mut output = PatientOutput::new(open, &cancel).unwrap();
        let result = output.write_all(b"x").and_then(|()| output.flush());
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
