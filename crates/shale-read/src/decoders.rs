//! Decoder contexts and their buffers, kept for the next decode: making one costs more than
//! decoding a small page. A context is taken out while it is used, so no lock is held meanwhile.

use std::sync::{Mutex, PoisonError};

use shale_codec::Decoder;

/// Contexts kept idle; more than this many readers decoding at once make their own.
const IDLE_MAX: usize = 16;
/// Larger buffers are freed after use: one huge frame must not stay in memory for good.
const BUFFER_KEPT_LEN_MAX: usize = 4 << 20;

/// A pool of contexts.
#[derive(Default)]
pub(crate) struct Decoders {
    idle: Mutex<Vec<Context>>,
}

/// A decoder with the buffers that a decode needs beside its result.
pub(crate) struct Context {
    pub(crate) decoder: Decoder,
    /// For stored bytes; holds leftovers of the last use.
    pub(crate) stored: Vec<u8>,
    /// For a prefix put together from several references; holds leftovers too.
    pub(crate) prefix: Vec<u8>,
}

impl Decoders {
    /// Runs `work` with a context of its own.
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
        // A panic elsewhere cannot leave a list of idle contexts half changed.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Decoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoders").field("idle", &self.lock().len()).finish()
    }
}
