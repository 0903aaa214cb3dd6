//! Where the bytes of an image come from: local files, bytes in memory, objects of Python with
//! `size` and `read_at`, and any of these encrypted with age.
//!
//! A local file is read without Python. An object is asked with the interpreter's lock held; what
//! it raises reaches the caller as it was raised. The package asks for a file to be decrypted that
//! begins as such files do.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shale::read::{ByteSource, Fault, FileSource, MemorySource, ReadError};
use shale_age::{Identities, Passphrase};

use crate::failure::{Raised, age_failure, io_failure, read_failure};

/// An open source.
pub(crate) struct Opened {
    pub(crate) source: Arc<dyn ByteSource>,
    /// Its bytes come from Python: reading needs the interpreter.
    pub(crate) is_python: bool,
}

/// Opens what the package calls a source: its path if it has one, its bytes, a file that this
/// module decrypts, or itself.
pub(crate) fn open(source: &Bound<'_, PyAny>) -> PyResult<Opened> {
    let py = source.py();
    if let Ok(bytes) = source.cast::<PyBytes>() {
        let source = Arc::new(MemorySource::new(bytes.as_bytes()));
        return Ok(Opened { source, is_python: false });
    }
    if let Ok(decrypted) = source.cast::<Decrypted>() {
        let Decrypted { source, is_python } = decrypted.get();
        return Ok(Opened { source: Arc::clone(source), is_python: *is_python });
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

/// An encrypted file that was opened with a key. Its bytes are the plain ones.
#[pyclass(frozen)]
pub(crate) struct Decrypted {
    source: Arc<dyn ByteSource>,
    is_python: bool,
}

#[pymethods]
impl Decrypted {
    /// Opens the file in a file, in bytes, or behind an object with `size` and `read_at`, with the
    /// keys in `keys`, each as a file of them, and with a passphrase.
    #[new]
    fn new(
        source: &Bound<'_, PyAny>,
        keys: Vec<Vec<u8>>,
        passphrase: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        let py = source.py();
        let mut identities = Identities::default();
        for bytes in &keys {
            identities
                .add_file(bytes)
                .map_err(|error| PyValueError::new_err(format!("identity: {error}")))?;
        }
        if let Some(bytes) = &passphrase {
            identities.add_passphrase(Passphrase::new(bytes));
        }
        let Opened { source, is_python } = open(source)?;
        let opened = py.detach(|| shale_age::Decrypted::open(source, &identities));
        let source = Arc::new(opened.map_err(|error| age_failure(py, error))?);
        Ok(Self { source, is_python })
    }

    /// Bytes of the plain file.
    #[getter]
    fn size(&self) -> u64 {
        self.source.len()
    }

    /// Whether it pays to read little, in few steps.
    #[getter]
    fn is_far(&self) -> bool {
        self.source.is_far()
    }

    /// Plain bytes of a range, which must lie inside the file.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let end = offset.saturating_add(length as u64);
        if end > self.source.len() {
            return Err(io_failure(py, io::ErrorKind::UnexpectedEof.into()));
        }
        PyBytes::new_with(py, length, |buf| {
            let read = py.detach(|| self.source.read_at(offset, buf));
            read.map_err(|error| io_failure(py, error))
        })
    }
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
