//! Entries and contents that a thread hands over.
//!
//! Some libraries push what they decompress into a function, in the order in which it is stored. A
//! source is asked for it instead. So the library runs in a thread of its own, and a source
//! receives from it. Memory is [`PIECES_MAX`] pieces on their way. The thread ends when the source
//! is dropped, at its next piece.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::ForeignError;

/// Contents up to this length are held in memory at once.
pub(crate) const SMALL_LEN_MAX: u64 = 1 << 20;
/// Bytes handed over at once, and pieces on their way.
pub(crate) const PIECE_LEN: usize = 256 << 10;
const PIECES_MAX: usize = 8;

/// What the thread hands over.
pub(crate) enum Message {
    /// An entry begins, of this number.
    Entry(usize),
    Bytes(Vec<u8>),
    /// The entry was whole, or not.
    End(Result<(), String>),
    /// The entries of these numbers cannot be read.
    Lost(Range<usize>, String),
}

/// What comes next between contents.
pub(crate) enum Next {
    /// The entry of this number; its content follows.
    Entry(usize),
    /// The entries of these numbers cannot be read.
    Lost(Range<usize>, String),
}

/// The end that the thread writes to, and the end that a source reads from. `format` is the name of
/// the format in errors.
pub(crate) fn channel(format: &'static str) -> (SyncSender<Message>, Handed) {
    let (sender, messages) = sync_channel(PIECES_MAX);
    let state = Arc::new(Mutex::new(State { messages, is_inside: false }));
    (sender, Handed { state, format })
}

/// Receives what the thread hands over.
#[derive(Clone)]
pub(crate) struct Handed {
    state: Arc<Mutex<State>>,
    format: &'static str,
}

struct State {
    messages: Receiver<Message>,
    /// The content at hand was not read to its end.
    is_inside: bool,
}

impl Handed {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the content at hand and returns what comes after it; `None` at the end.
    pub(crate) fn next(&self) -> Option<Next> {
        let mut state = self.lock();
        loop {
            match state.messages.recv().ok()? {
                Message::Entry(number) => {
                    state.is_inside = true;
                    return Some(Next::Entry(number));
                }
                Message::Bytes(_) => {}
                Message::End(_) => state.is_inside = false,
                Message::Lost(lost, what) => return Some(Next::Lost(lost, what)),
            }
        }
    }

    /// The content of the entry that came last, which is to have `len` bytes.
    pub(crate) fn contents(&self, len: u64) -> Contents {
        Contents { handed: self.clone(), piece: Vec::new(), at: 0, left: len }
    }
}

/// The content of the entry at hand. It ends with an error unless it is whole.
pub(crate) struct Contents {
    handed: Handed,
    piece: Vec<u8>,
    at: usize,
    left: u64,
}

impl Contents {
    /// All of it.
    ///
    /// # Errors
    /// It is not whole.
    pub(crate) fn whole(mut self) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }
}

impl Read for Contents {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let corrupt = |what: &str| io::Error::from(ForeignError::new(self.handed.format, what));
        loop {
            if self.at < self.piece.len() {
                let len = out.len().min(self.piece.len() - self.at);
                out[..len].copy_from_slice(&self.piece[self.at..self.at + len]);
                self.at += len;
                return Ok(len);
            }
            let mut state = self.handed.lock();
            if !state.is_inside || out.is_empty() {
                return Ok(0);
            }
            match state.messages.recv() {
                Ok(Message::Bytes(piece)) => {
                    let left = self.left.checked_sub(piece.len() as u64);
                    self.left = left.ok_or_else(|| corrupt("longer than its length: corrupt"))?;
                    (self.piece, self.at) = (piece, 0);
                }
                Ok(Message::End(result)) => {
                    state.is_inside = false;
                    result.map_err(|what| corrupt(&what))?;
                    if self.left > 0 {
                        return Err(corrupt("shorter than its length: corrupt"));
                    }
                }
                Ok(Message::Entry(_) | Message::Lost(..)) | Err(_) => {
                    state.is_inside = false;
                    return Err(corrupt("corrupt"));
                }
            }
        }
    }
}
