//! Images that Python holds or reads: bytes in memory, and objects with `size` and `read_at`.
//!
//! A local file is read without Python. Any other source is asked with the interpreter's lock held;
//! what it raises reaches the caller as it was raised.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shale::read::{ByteSource, Fault, FileSource, MemorySource, ReadError};

use crate::failure::{Raised, read_failure};

/// An open source.
pub(crate) struct Opened {
    pub(crate) source: Arc<dyn ByteSource>,
    /// Its bytes come from Python: reading needs the interpreter.
    pub(crate) is_python: bool,
}

/// Opens what the package calls a source: its path if it has one, its bytes, or itself.
pub(crate) fn open(source: &Bound<'_, PyAny>) -> PyResult<Opened> {
    let py = source.py();
    if let Ok(bytes) = source.cast::<PyBytes>() {
        let source = Arc::new(MemorySource::new(bytes.as_bytes()));
        return Ok(Opened { source, is_python: false });
    }
    if let Ok(path) = source.extract::<PathBuf>() {
        let opened = py.detach(|| FileSource::open(&path));
        let opened = opened.map_err(|error| ReadError::from(Fault::Open { path, error }));
        let source = Arc::new(opened.map_err(|error| read_failure(py, error))?);
        return Ok(Opened { source, is_python: false });
    }
    let len = source.getattr("size")?.extract()?;
    let is_far = match source.getattr_opt("is_far")? {
        Some(is_far) => is_far.is_truthy()?,
        None => false,
    };
    let base_len = match source.getattr_opt("base_len")? {
        Some(base_len) => base_len.extract()?,
        None => 0,
    };
    let source = PythonSource { object: source.clone().unbind(), len, is_far, base_len };
    Ok(Opened { source: Arc::new(source), is_python: true })
}

/// An object with `read_at(offset, length)`.
struct PythonSource {
    object: Py<PyAny>,
    len: u64,
    is_far: bool,
    base_len: u64,
}

impl ByteSource for PythonSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        Python::attach(|py| {
            let read = || {
                let bytes = self.object.bind(py).call_method1("read_at", (offset, buf.len()))?;
                bytes.cast_into::<PyBytes>().map_err(PyErr::from)
            };
            let bytes = read().map_err(|error: PyErr| io::Error::other(Raised(error)))?;
            let bytes = bytes.as_bytes();
            if bytes.len() != buf.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buf.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn is_far(&self) -> bool {
        self.is_far
    }

    fn base_len(&self) -> u64 {
        self.base_len
    }

    /// Asks for the ranges together, where the object can. What fails there fails again, and is
    /// reported, when it is read.
    fn will_need(&self, ranges: &[Range<u64>]) {
        Python::attach(|py| {
            let ranges: Vec<(u64, u64)> =
                ranges.iter().map(|range| (range.start, range.end - range.start)).collect();
            let _ = self.object.bind(py).call_method1("will_need", (ranges,));
        });
    }
}
