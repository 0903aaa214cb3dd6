//! Decoder contexts and their buffers, kept for the next decode.
//!
//! Creating a context costs more than decoding a small page. A context is taken out of the pool
//! while it is used, so no lock is held meanwhile.

use std::sync::{Mutex, PoisonError};

use shale_codec::Decoder;

/// Contexts kept idle. If more threads decode at once, the others create their own.
const IDLE_MAX: usize = 16;
/// Larger buffers are freed after use, so that one huge frame does not occupy memory for ever.
const BUFFER_KEPT_LEN_MAX: usize = 4 << 20;

/// A pool of decoder contexts.
#[derive(Default)]
pub(crate) struct Decoders {
    idle: Mutex<Vec<Context>>,
}

/// A decoder, with the buffers that a decode needs beside its result.
pub(crate) struct Context {
    pub(crate) decoder: Decoder,
    /// For stored bytes. Its contents are those of the last use.
    pub(crate) stored: Vec<u8>,
    /// For a prefix joined from several references. Its contents are those of the last use.
    pub(crate) prefix: Vec<u8>,
}

impl Decoders {
    /// Calls `work` with a context that no other thread uses.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Context) -> T) -> T {
        let idle = self.lock().pop();
        let mut context = idle.unwrap_or_else(|| Context {
            decoder: Decoder::new(),
            stored: Vec::new(),
            prefix: Vec::new(),
        });
        let result = work(&mut context);
        for buffer in [&mut context.stored, &mut context.prefix] {
            if buffer.capacity() > BUFFER_KEPT_LEN_MAX {
                *buffer = Vec::new();
            }
        }
        let mut idle = self.lock();
        if idle.len() < IDLE_MAX {
            idle.push(context);
        }
        result
    }

    /// Frees all idle contexts.
    pub(crate) fn clear(&self) {
        let idle = std::mem::take(&mut *self.lock());
        drop(idle); // After the lock.
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Context>> {
        // A panic cannot leave the list of idle contexts half changed.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Decoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoders").field("idle", &self.lock().len()).finish()
    }
}
