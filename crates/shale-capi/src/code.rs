//! Codes and texts of errors. Each thread has the error of its last failed call.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::fmt;

use shale_extract::Error as ExtractError;
use shale_read::{Fault, ReadError};

/// The result of a function.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// An argument is not valid: a null pointer, or a text that cannot be parsed.
    Argument = 1,
    /// The file, path or inode does not exist.
    NotFound = 2,
    /// The inode is not a directory.
    NotDirectory = 3,
    /// The function does not apply to this kind of inode.
    WrongKind = 4,
    /// The buffer is too small.
    Range = 5,
    /// The file is not a ShaleFS image, or its version is not supported.
    NotImage = 6,
    /// The image does not have the expected identity.
    Identity = 7,
    /// The image is damaged.
    Damaged = 8,
    /// A system call failed.
    System = 9,
    /// A limit was reached, for example of memory.
    Limit = 10,
    /// The library failed; please report it.
    Bug = 11,
    /// A file exists already where one would be extracted.
    Exists = 12,
    /// Some files could not be extracted as they are in the image; the text names the first.
    Partial = 13,
}

/// An error of a function.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    text: String,
}

impl Failure {
    /// Makes an error.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// Returns the code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Makes the error of an argument that is not valid.
    pub fn argument(text: impl Into<String>) -> Self {
        Self::new(Code::Argument, text)
    }

    /// Makes the error of a system call on the file or directory `path`.
    pub fn system(path: &std::path::Path, error: &std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => Code::NotFound,
            _ => Code::System,
        };
        Self::new(code, format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let code = match error.fault() {
            Fault::NoInode { .. } | Fault::NoSnapshot { .. } | Fault::NoIndex { .. } => {
                Code::NotFound
            }
            Fault::WrongKind { expected: shale_read::Kind::Directory, .. } => Code::NotDirectory,
            Fault::WrongKind { .. } => Code::WrongKind,
            Fault::Identity { .. } | Fault::NoIdentity { .. } => Code::Identity,
            Fault::Io { .. } => Code::System,
            Fault::ReadBound { .. } => Code::Limit,
            _ if error.is_corrupt() => Code::Damaged,
            Fault::Codec { .. } => Code::Limit,
            _ => Code::NotImage,
        };
        Self::new(code, error.to_string())
    }
}

impl From<ExtractError> for Failure {
    fn from(error: ExtractError) -> Self {
        let code = match error {
            ExtractError::Read(error) => return error.into(),
            ExtractError::TargetsExist { .. } => Code::Exists,
            ExtractError::NoMatch { .. } | ExtractError::Path { .. } => Code::NotFound,
            _ => Code::System,
        };
        Self::new(code, error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<(Code, CString)> = RefCell::new((Code::Ok, CString::default()));
}

/// Keeps an error as the last one of this thread.
pub fn keep(failure: &Failure) -> Code {
    let text: Vec<u8> = failure.text.bytes().filter(|&byte| byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    // A thread that is ending may have no place for it any more; the code is returned all the same.
    let _ = LAST.try_with(|last| last.replace((failure.code, text)));
    failure.code
}

/// Returns the code of the last error of this thread.
pub fn last_code() -> Code {
    LAST.try_with(|last| last.borrow().0).unwrap_or(Code::Ok)
}

/// Calls `use_text` with the text of the last error of this thread, which lives until the next
/// error.
pub fn with_last_text<T>(use_text: impl Fn(&CStr) -> T) -> T {
    LAST.try_with(|last| use_text(&last.borrow().1)).unwrap_or_else(|_| use_text(c""))
}
