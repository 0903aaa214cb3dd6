//! A thread that reads ahead, so that a stream is decompressed while its plain bytes are packed.
//!
//! Memory is [`BUFFER_COUNT`] buffers and the one being read. The thread ends at the end of the
//! stream, at its first error, or soon after the reader is dropped.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const BUFFER_LEN: usize = 1 << 20;
const BUFFER_COUNT: usize = 4;

/// A stream that is read ahead.
pub(crate) struct Ahead {
    buffers: Receiver<io::Result<Vec<u8>>>,
    current: Vec<u8>,
    at: usize,
    is_done: bool,
}

impl Ahead {
    /// Reads `stream` in a thread of its own.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn new(stream: Box<dyn Read + Send>) -> io::Result<Self> {
        let (sender, buffers) = sync_channel(BUFFER_COUNT);
        std::thread::Builder::new()
            .name("shale-read-ahead".to_owned())
            .spawn(move || run(stream, &sender))?;
        Ok(Self { buffers, current: Vec::new(), at: 0, is_done: false })
    }
}

fn run(mut stream: Box<dyn Read + Send>, sender: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut buffer = vec![0; BUFFER_LEN];
        let mut len = 0;
        let mut failed = None;
        while len < buffer.len() && failed.is_none() {
            match stream.read(&mut buffer[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => failed = Some(error),
            }
        }
        let is_last = len < buffer.len();
        buffer.truncate(len);
        // An empty buffer is the end, so none may precede an error.
        if len > 0 && sender.send(Ok(buffer)).is_err() {
            return;
        }
        if is_last {
            let _ = sender.send(failed.map_or_else(|| Ok(Vec::new()), Err));
            return;
        }
    }
}

impl BufRead for Ahead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.current.len() && !self.is_done {
            match self.buffers.recv() {
                Ok(Ok(buffer)) => {
                    self.is_done = buffer.is_empty();
                    self.current = buffer;
                    self.at = 0;
                }
                Ok(Err(error)) => {
                    self.is_done = true;
                    return Err(error);
                }
                // Only a thread that panicked ends without a last word.
                Err(_) => return Err(io::Error::other("the thread that reads ahead has ended")),
            }
        }
        Ok(&self.current[self.at..])
    }

    fn consume(&mut self, len: usize) {
        self.at = self.current.len().min(self.at + len);
    }
}

impl Read for Ahead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let len = out.len().min(bytes.len());
        out[..len].copy_from_slice(&bytes[..len]);
        self.consume(len);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives this many bytes, then fails.
    struct Failing(usize);

    impl Read for Failing {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::Error::other("failed"));
            }
            let len = out.len().min(self.0);
            self.0 -= len;
            Ok(len)
        }
    }

    #[test]
    fn an_error_comes_after_all_bytes_before_it() {
        for len in [0, 1, BUFFER_LEN - 1, BUFFER_LEN, BUFFER_LEN + 1, 7 * BUFFER_LEN] {
            let mut ahead = Ahead::new(Box::new(Failing(len))).unwrap();
            let mut found = Vec::new();
            let error = ahead.read_to_end(&mut found).unwrap_err();
            assert_eq!((found.len(), error.to_string()), (len, "failed".to_owned()));
        }
    }
}
