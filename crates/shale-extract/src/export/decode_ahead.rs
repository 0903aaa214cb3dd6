//! Frames decoded ahead by several threads and delivered in order.
//!
//! One thread walks the tree and requests frames, workers decode them, and the writer takes them in
//! the order of the requests. A frame that is requested several times in a row is decoded once. The
//! number of frames that are decoded and not yet taken is bounded.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use shale_read::{FrameBytes, Image, ReadError, Unit};

/// A requested frame.
#[derive(Clone)]
pub(super) struct Ticket(Arc<Slot>);

struct Slot {
    unit: Unit,
    state: Mutex<Option<Result<FrameBytes, ReadError>>>,
    changed: Condvar,
    room: Arc<Room>,
}

impl Ticket {
    /// Waits for the frame. An error is returned once; the caller then stops.
    pub(super) fn wait(&self) -> Result<FrameBytes, ReadError> {
        let mut state = lock(&self.0.state);
        loop {
            match state.take() {
                Some(Ok(bytes)) => {
                    *state = Some(Ok(Arc::clone(&bytes)));
                    return Ok(bytes);
                }
                Some(Err(error)) => return Err(error),
                None => state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *lock(&self.room.left) += 1;
        self.room.changed.notify_one();
    }
}

/// How many more frames may be in flight.
struct Room {
    left: Mutex<usize>,
    changed: Condvar,
}

/// Requests frames.
pub(super) struct Asker {
    to_workers: SyncSender<Ticket>,
    room: Arc<Room>,
    last: Option<Ticket>,
}

/// The queue from which workers take frames.
pub(super) type Tickets = Arc<Mutex<Receiver<Ticket>>>;

/// Creates a requester, and the queue that its workers share.
pub(super) fn new(frames_max: usize) -> (Asker, Tickets) {
    let (to_workers, tickets) = sync_channel(frames_max);
    let room = Arc::new(Room { left: Mutex::new(frames_max), changed: Condvar::new() });
    (Asker { to_workers, room, last: None }, Arc::new(Mutex::new(tickets)))
}

impl Asker {
    /// Requests a frame or chunk; waits while too many are in flight. `None` when no worker is
    /// left.
    pub(super) fn ask(&mut self, unit: Unit) -> Option<Ticket> {
        if let Some(last) = self.last.as_ref().filter(|last| last.0.unit == unit) {
            return Some(last.clone());
        }
        // The requester holds the last ticket, which must not keep its place while it waits for
        // one.
        self.last = None;
        {
            let mut left = lock(&self.room.left);
            while *left == 0 {
                left = self.room.changed.wait(left).unwrap_or_else(PoisonError::into_inner);
            }
            *left -= 1;
        }
        let room = Arc::clone(&self.room);
        let slot = Slot { unit, state: Mutex::new(None), changed: Condvar::new(), room };
        let ticket = Ticket(Arc::new(slot));
        self.to_workers.send(ticket.clone()).ok()?;
        self.last = Some(ticket.clone());
        Some(ticket)
    }
}

/// Decodes frames until there are no more.
pub(super) fn work(image: &Image, tickets: &Tickets) {
    loop {
        let Ok(ticket) = lock(tickets).recv() else { return };
        let result = image.unit(ticket.0.unit);
        *lock(&ticket.0.state) = Some(result);
        ticket.0.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
