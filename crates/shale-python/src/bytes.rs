//! Bytes objects that are filled after they were made, so that the contents of files are copied
//! once.
//!
//! pyo3 makes a bytes object from bytes that are somewhere else, or zeroed. For a file that means a
//! second copy, or writing it twice. A [`Blank`] is a bytes object with undefined contents that no
//! code of Python has seen. It gives out [`Room`]s, which threads fill without the interpreter's
//! lock, and becomes an object of Python when all of it was written.

#![allow(unsafe_code)] // Memory of Python that is written to before it is shown to anyone.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::named;

/// A bytes object that is not yet filled.
pub(crate) struct Blank {
    held: Arc<Held>,
    start: NonNull<u8>,
    len: usize,
    /// Where the next room begins.
    given: usize,
}

/// What keeps the memory while there are rooms in it.
struct Held {
    object: Py<PyBytes>,
    /// Bytes that were written, in all rooms together.
    written: AtomicUsize,
}

/// A part of a [`Blank`], to be filled from its start to its end. Keeps the object.
pub(crate) struct Room {
    held: Arc<Held>,
    at: NonNull<u8>,
    left: usize,
}

// SAFETY: a room is the only one with access to its part of the object, and the object stays where
// it is as long as the room holds it. A reference to Python may be dropped by any thread.
unsafe impl Send for Room {}

// SAFETY: as above; what a blank shares with its rooms is atomic.
unsafe impl Send for Blank {}

impl Blank {
    /// Makes a bytes object of `len` bytes.
    ///
    /// # Errors
    /// `MemoryError`.
    pub(crate) fn new(py: Python<'_>, len: u64) -> PyResult<Self> {
        let size = ffi::Py_ssize_t::try_from(len)
            .map_err(|_| PyMemoryError::new_err("a range that no memory holds"))?;
        // SAFETY: without bytes to copy this returns a new object whose contents are undefined, or
        // the empty object, or null with an exception set.
        let object = unsafe {
            let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size);
            Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>()
        };
        // SAFETY: the object is a bytes object, so this is the address of its contents. Writing to
        // them is allowed while nobody else knows the object.
        let start = unsafe { ffi::PyBytes_AsString(object.as_ptr()) };
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| PyErr::fetch(py))?;
        let held = Held { object: object.unbind(), written: AtomicUsize::new(0) };
        Ok(Self { held: Arc::new(held), start, len: size as usize, given: 0 })
    }

    /// Gives out the next `len` bytes, or what there is left.
    pub(crate) fn room(&mut self, len: usize) -> Room {
        let len = len.min(self.len - self.given);
        // SAFETY: `given` is at most `len`, so this is in the object or right after it.
        let at = unsafe { self.start.add(self.given) };
        self.given += len;
        Room { held: Arc::clone(&self.held), at, left: len }
    }

    /// Returns the object.
    ///
    /// # Errors
    /// `DamagedError` if less than all of it was written, since the file is shorter than it says.
    pub(crate) fn finish<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        // Rooms do not overlap, and each counts what it wrote; so the sum tells.
        match self.held.written.load(Ordering::Acquire) == self.len {
            true => Ok(self.held.object.bind(py).clone()),
            false => Err(named(py, "DamagedError", "a file is shorter than it says".to_owned())),
        }
    }
}

impl Room {
    /// Bytes that are left.
    pub(crate) fn len(&self) -> usize {
        self.left
    }

    /// Writes the next bytes. Returns false, and writes nothing, if they are more than are left.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > self.left {
            return false;
        }
        // SAFETY: the room has these bytes to itself, as many as `left`; `bytes` cannot be among
        // them, as nobody reads an object that is not finished.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.as_ptr(), bytes.len());
            self.at = self.at.add(bytes.len());
        }
        self.left -= bytes.len();
        self.held.written.fetch_add(bytes.len(), Ordering::Release);
        true
    }
}
