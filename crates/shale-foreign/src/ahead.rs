//! A thread that reads ahead, so that a stream is decompressed while what came of it is packed.
//!
//! Memory is [`BUFFER_COUNT`] buffers and the one being read. The thread ends with the stream, at
//! its first error, or soon after nobody reads any more.

use std::io::{self, Read};
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
    /// Reads `stream` in a thread of its own; as it is where no thread can be had.
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
        if sender.send(Ok(buffer)).is_err() {
            return;
        }
        if let Some(error) = failed {
            let _ = sender.send(Err(error));
            return;
        }
        if is_last {
            let _ = sender.send(Ok(Vec::new()));
            return;
        }
    }
}

impl Read for Ahead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
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
                // Only a thread that panicked leaves without a word.
                Err(_) => return Err(io::Error::other("the thread that reads has gone")),
            }
        }
        let len = out.len().min(self.current.len() - self.at);
        out[..len].copy_from_slice(&self.current[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}
