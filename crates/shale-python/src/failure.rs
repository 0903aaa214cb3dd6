//! Errors as the exceptions of the package: `shalefs.errors` defines them, this file chooses.

use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;
use shale::ErrorKind;
use shale::read::{Fault, ReadError};

/// Returns the exception for an error of the reader.
pub(crate) fn read_failure(py: Python<'_>, error: ReadError) -> PyErr {
    let text = error.to_string();
    let class = match error.fault() {
        Fault::Io { error: system, .. } | Fault::Open { error: system, .. } => {
            return system_failure(py, system, text);
        }
        Fault::NotImage { .. } => "NotAnImageError",
        Fault::Identity { .. } | Fault::NoIdentity { .. } => "IdentityError",
        Fault::TooLong { .. } => return pyo3::exceptions::PyMemoryError::new_err(text),
        Fault::NoSnapshot { .. } => return PyValueError::new_err(text),
        _ if error.is_corrupt() => "DamagedError",
        _ => "UnsupportedError",
    };
    named(py, class, text)
}

/// Returns the exception for an error of a source.
pub(crate) fn io_failure(py: Python<'_>, error: std::io::Error) -> PyErr {
    system_failure(py, &error, error.to_string())
}

/// Returns the exception for an error of the system or of a source, described by `text`.
fn system_failure(py: Python<'_>, system: &std::io::Error, text: String) -> PyErr {
    let inner = system.get_ref();
    // What the source raised says it best: a lost connection, a wrong key.
    if let Some(raised) = inner.and_then(|inner| inner.downcast_ref::<Raised>()) {
        return raised.0.clone_ref(py);
    }
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<shale_age::Error>()) {
        return sealed_failure(py, error, text);
    }
    // Bytes that do not belong to the expected identity are an error of their source.
    if system.kind() == std::io::ErrorKind::InvalidData {
        return named(py, "IdentityError", text);
    }
    match system.raw_os_error() {
        Some(number) => PyOSError::new_err((number, text)),
        None => PyOSError::new_err(text),
    }
}

/// Returns the exception for an error of an encrypted file.
pub(crate) fn age_failure(py: Python<'_>, error: shale_age::Error) -> PyErr {
    let text = error.to_string();
    match error {
        shale_age::Error::Io(error) => io_failure(py, error),
        error => sealed_failure(py, &error, text),
    }
}

fn sealed_failure(py: Python<'_>, error: &shale_age::Error, text: String) -> PyErr {
    use shale_age::Error::{NoKey, NoPassphrase, WrongKey, WrongPassphrase};
    let class = match error {
        NoKey | WrongKey { .. } | NoPassphrase | WrongPassphrase => "EncryptedError",
        error if error.is_damage() => "DamagedError",
        _ => "UnsupportedError",
    };
    named(py, class, text)
}

/// Returns the exception for an error of the facade.
pub(crate) fn failure(py: Python<'_>, error: shale::Error) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Cancelled => PyKeyboardInterrupt::new_err(()),
        ErrorKind::Misuse => PyValueError::new_err(text),
        ErrorKind::Damage => named(py, "DamagedError", text),
        _ => match error {
            shale::Error::Read(error)
            | shale::Error::Check(shale::CheckError::Read(error))
            | shale::Error::Extract(shale::ExtractError::Read(error)) => read_failure(py, error),
            shale::Error::Check(shale::CheckError::NotImage) => named(py, "NotAnImageError", text),
            shale::Error::Host(shale::HostError::Io { error: system, .. }) => {
                match system.raw_os_error() {
                    Some(number) => PyOSError::new_err((number, text)),
                    None => PyOSError::new_err(text),
                }
            }
            shale::Error::Host(shale::HostError::Exists { path }) => {
                pyo3::exceptions::PyFileExistsError::new_err((
                    EEXIST,
                    "exists already; overwrite=True replaces it",
                    path,
                ))
            }
            _ => named(py, "ShaleError", text),
        },
    }
}

/// "File exists", on every system that this module is built for.
const EEXIST: i32 = 17;

/// Returns an exception of the class that `shalefs.errors` has under this name.
pub(crate) fn named(py: Python<'_>, class: &str, text: String) -> PyErr {
    let raise = || py.import("shalefs.errors")?.getattr(class)?.call1((text.as_str(),));
    match raise() {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// An exception of Python on its way through the reader.
#[derive(Debug)]
pub(crate) struct Raised(pub(crate) PyErr);

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Raised {}
