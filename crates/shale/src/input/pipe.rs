//! What comes through a pipe, kept as it comes in a temporary file without a name.
//!
//! The identity of an image is made of all that went into it and stands at its beginning, so an
//! archive has to be known to its end before the image begins. It is not unpacked: a compressed one
//! takes as much as it has. Formats that are read at several places at a time can come through a
//! pipe for this, too.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::create::CreateOptions;
use crate::error::Error;
use crate::output::OutputFile;

/// Bytes read at a time, and pieces of them on their way.
const PIECE_LEN: usize = 1 << 20;
const PIECE_COUNT: usize = 4;

/// Standard input as a file that can be read at offsets. One that is a file is not copied.
pub(super) fn stdin(options: &CreateOptions) -> io::Result<Result<File, Error>> {
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    if stdin.metadata()?.is_file() && (&stdin).stream_position()? == 0 {
        return Ok(Ok(stdin));
    }
    keep(stdin, options)
}

/// Reads a pipe to its end. The inner error is not one of the pipe.
pub(super) fn keep(mut pipe: File, options: &CreateOptions) -> io::Result<Result<File, Error>> {
    let directory = options.build.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
    // Never committed: it goes when the last who has it open ends.
    let output = match OutputFile::create(&directory.join("archive")) {
        Ok(output) => output,
        Err(error) => return Ok(Err(error)),
    };
    let mut file = output.file().try_clone()?;
    let (to_writer, pieces) = sync_channel::<io::Result<Vec<u8>>>(PIECE_COUNT);
    // A pipe from which nothing comes cannot be left; the thread that waits for it can.
    std::thread::Builder::new().spawn(move || {
        loop {
            let mut piece = vec![0; PIECE_LEN];
            let piece = match pipe.read(&mut piece) {
                Ok(0) => return,
                Ok(len) => {
                    piece.truncate(len);
                    Ok(piece)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_over = piece.is_err();
            if to_writer.send(piece).is_err() || is_over {
                return;
            }
        }
    })?;
    loop {
        if let Err(error) = options.cancel.check() {
            return Ok(Err(error));
        }
        match pieces.recv_timeout(Duration::from_millis(100)) {
            Ok(piece) => {
                if let Err(error) = file.write_all(&piece?) {
                    return Ok(Err(Error::io("write a temporary file in", directory)(error)));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    file.rewind()?;
    Ok(Ok(file))
}
