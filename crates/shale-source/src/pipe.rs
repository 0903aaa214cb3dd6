//! Copies input from a pipe to a temporary file without a name.
//!
//! The identity of an image covers all of its input and is written at its beginning, so an archive
//! must be complete before the image begins. The archive is not unpacked: a compressed one takes
//! its compressed size. This also allows formats that need random access to come through a pipe.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::error::Error;
use crate::options::SourceOptions;
use shale_host::OutputFile;

/// Bytes read at a time, and most pieces in flight.
const PIECE_LEN: usize = 1 << 20;
const PIECE_COUNT: usize = 4;

/// Returns standard input, called `name` in errors, as a file that can be read at offsets. A
/// regular file at its beginning is not copied.
///
/// # Errors
/// Fails if standard input cannot be read or the temporary file cannot be written.
pub(crate) fn stdin(name: &Path, options: &SourceOptions) -> Result<File, Error> {
    let open = || -> io::Result<(File, bool)> {
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let is_file = stdin.metadata()?.is_file() && (&stdin).stream_position()? == 0;
        Ok((stdin, is_file))
    };
    match open().map_err(Error::io("read", name))? {
        (stdin, true) => Ok(stdin),
        (stdin, false) => keep(move || Ok(stdin), name, options),
    }
}

/// Copies the pipe at `path` to a temporary file without a name.
///
/// # Errors
/// Fails if the pipe cannot be read, the temporary file cannot be written, or the run is cancelled.
pub(crate) fn named(path: &Path, options: &SourceOptions) -> Result<File, Error> {
    let owned = path.to_owned();
    keep(move || File::open(owned), path, options)
}

/// The directory of temporary files.
pub(crate) fn temp_dir(options: &SourceOptions) -> PathBuf {
    options.temp_dir.clone().unwrap_or_else(std::env::temp_dir)
}

/// Makes a temporary file without a name.
///
/// # Errors
/// The system reports an error.
pub(crate) fn unnamed(directory: &Path) -> io::Result<File> {
    // Never committed: the system removes it when its last handle is closed.
    let output = OutputFile::create(&directory.join("archive")).map_err(io::Error::other)?;
    output.file().try_clone()
}

/// Copies a pipe, called `name` in errors, to a temporary file without a name. `open` may block
/// until another process writes to the pipe.
///
/// # Errors
/// Fails if the pipe cannot be read, the temporary file cannot be written, or the run is cancelled.
fn keep(
    open: impl FnOnce() -> io::Result<File> + Send + 'static,
    name: &Path,
    options: &SourceOptions,
) -> Result<File, Error> {
    let directory = temp_dir(options);
    let unwritten = |error| Error::io("write a temporary file in", &directory)(error);
    // Never committed: the system removes it when its last handle is closed.
    let output = OutputFile::create(&directory.join("archive"))?;
    let mut file = output.file().try_clone().map_err(unwritten)?;
    let (to_writer, pieces) = sync_channel::<io::Result<Vec<u8>>>(PIECE_COUNT);
    // A thread that is blocked on a silent pipe can be abandoned; this one must notice a cancel.
    let reader = std::thread::Builder::new().spawn(move || {
        let mut pipe = match open() {
            Ok(pipe) => pipe,
            Err(error) => {
                // After a cancel nobody receives it.
                let _ = to_writer.send(Err(error));
                return;
            }
        };
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
    });
    reader.map_err(Error::io("start a thread to read", name))?;
    loop {
        options.cancel.check()?;
        match pieces.recv_timeout(Duration::from_millis(100)) {
            Ok(piece) => {
                let piece = piece.map_err(Error::io("read", name))?;
                file.write_all(&piece).map_err(unwritten)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    file.rewind().map_err(unwritten)?;
    Ok(file)
}
