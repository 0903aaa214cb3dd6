//! All bytes of a file, for digests of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes read at a time.
const BUFFER_LEN: usize = 1 << 20;

/// Passes all bytes of a file to `take`, in order. Costs one pass over the file.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read_whole(file: &File, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_LEN];
    let mut at = 0;
    loop {
        match file.read_at(&mut buffer, at) {
            Ok(0) => return Ok(()),
            Ok(len) => {
                take(&buffer[..len]);
                at += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
