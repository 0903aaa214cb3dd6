//! The functions that C calls: pointers in, safe Rust called, codes out.
//!
//! The only module with `unsafe` code. Every function checks its pointers for null and catches
//! panics. It has to trust its caller that other pointers are valid, as every C library does.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use shale_read::Attributes;

use crate::code::{self, Code, Failure};
use crate::image::Image;

/// The attributes of an inode. New versions of the library may give a meaning to `reserved`, and
/// never change the rest.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryStat {
    /// Number of the inode, for `shale_read`, `shale_list` and `shale_readlink`. The root is 1.
    pub inode: u64,
    /// File: bytes of content. Directory: number of entries. Symbolic link: bytes of the target.
    pub size: u64,
    /// Number of hard links.
    pub link_count: u64,
    /// Modification time: seconds since 1970, which may be negative.
    pub mtime_sec: i64,
    /// Modification time: nanoseconds after `mtime_sec`.
    pub mtime_nsec: u32,
    /// Type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Major number of a device.
    pub device_major: u32,
    /// Minor number of a device.
    pub device_minor: u32,
    /// Zero.
    pub reserved: [u64; 4],
}

impl From<&Attributes> for EntryStat {
    fn from(found: &Attributes) -> Self {
        let (device_major, device_minor) = found.device();
        Self {
            inode: found.inode,
            size: found.size,
            link_count: found.link_count,
            mtime_sec: found.mtime.sec,
            mtime_nsec: found.mtime.nsec,
            mode: found.mode(),
            uid: found.uid,
            gid: found.gid,
            device_major,
            device_minor,
            reserved: [0; 4],
        }
    }
}

/// Receives one entry of a directory; `name` and `stat` are valid until it returns. Return 0 to go
/// on, anything else to stop. It may call any function of this library, and must not leave through
/// an exception or `longjmp`.
pub type ListCallback = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        name: *const c_char,
        stat: *const EntryStat,
    ) -> c_int,
>;

/// Returns the version of the library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn shale_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns the code of the last call that failed in this thread; `SHALE_CODE_OK` if none did.
#[unsafe(no_mangle)]
pub extern "C" fn shale_last_error_code() -> Code {
    code::last_code()
}

/// Returns the message of the last call that failed in this thread. It is valid until the next call
/// that fails in this thread; an empty text if none did. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn shale_last_error_text() -> *const c_char {
    code::with_last_text(CStr::as_ptr)
}

/// Opens the newest snapshot of an image.
///
/// `expected_identity` is null, or the identity that the image must have, in hexadecimal as
/// `shale info` prints it; then every read is verified against it. Stores a handle in `image`, for
/// `shale_close`; stores null if it fails.
///
/// # Safety
/// `path` and `expected_identity` are null or end with a zero byte; `image` is null or can be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shale_open(
    path: *const c_char,
    expected_identity: *const c_char,
    image: *mut *mut Image,
) -> Code {
    call(|| {
        // SAFETY: null, or valid for a write, as the caller promises.
        let image = unsafe { image.as_mut() }.ok_or_else(|| null("image"))?;
        *image = std::ptr::null_mut();
        // SAFETY: null, or with a zero byte at its end, as the caller promises.
        let path = unsafe { text(path) }.ok_or_else(|| null("path"))?;
        // SAFETY: as above.
        let expected = match unsafe { text(expected_identity) } {
            None => None,
            Some(text) => {
                let parsed = String::from_utf8_lossy(text.to_bytes()).parse();
                Some(parsed.map_err(|error: String| Failure::argument(error))?)
            }
        };
        let opened = Image::open(Path::new(OsStr::from_bytes(path.to_bytes())), expected)?;
        *image = Box::into_raw(Box::new(opened));
        Ok(())
    })
}

/// Closes an image and frees its handle. Null is allowed. No other call may use the handle during
/// or after this call.
///
/// # Safety
/// `image` is null or comes from `shale_open` and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shale_close(image: *mut Image) {
    let close = || {
        if !image.is_null() {
            // SAFETY: it comes from `Box::into_raw` in `shale_open`, and the caller promises that
            // nothing uses it any more.
            drop(unsafe { Box::from_raw(image) });
        }
        Ok(())
    };
    call(close);
}

/// Looks up a path and stores its attributes in `stat`.
///
/// The path is relative to the root of the image; slashes at its beginning are ignored, and an
/// empty path is the root. Symbolic links are not followed.
///
/// # Safety
/// `image` is null or open; `path` is null or ends with a zero byte; `stat` is null or can be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shale_stat(
    image: *const Image,
    path: *const c_char,
    stat: *mut EntryStat,
) -> Code {
    call(|| {
        // SAFETY: null or open, as the caller promises.
        let image = unsafe { image.as_ref() }.ok_or_else(|| null("image"))?;
        // SAFETY: null, or with a zero byte at its end, as the caller promises.
        let path = unsafe { text(path) }.ok_or_else(|| null("path"))?;
        if stat.is_null() {
            return Err(null("stat"));
        }
        let found = EntryStat::from(&image.stat(path.to_bytes())?);
        // SAFETY: not null, so it can be written, as the caller promises.
        unsafe { stat.write(found) };
        Ok(())
    })
}

/// Calls `each` with the entries of a directory, in the order of their names. The entries `.` and
/// `..` are not among them. `context` is passed on unchanged.
///
/// # Safety
/// `image` is null or open; `each` is null or a function that follows the rules of
/// `shale_list_callback`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shale_list(
    image: *const Image,
    directory: u64,
    each: ListCallback,
    context: *mut c_void,
) -> Code {
    call(|| {
        // SAFETY: null or open, as the caller promises.
        let image = unsafe { image.as_ref() }.ok_or_else(|| null("image"))?;
        let each = each.ok_or_else(|| null("each"))?;
        let mut bad_name = false;
        image.list(directory, |name, found| {
            let Ok(name) = CString::new(name) else {
                bad_name = true;
                return false;
            };
            let stat = EntryStat::from(found);
            // SAFETY: both pointers are valid during the call; the caller promises the rest.
            unsafe { each(context, name.as_ptr(), &stat) == 0 }
        })?;
        if bad_name {
            return Err(Failure::new(Code::Damaged, "an entry has a name with a zero byte"));
        }
        Ok(())
    })
}

/// Reads `len` bytes of a regular file from `offset` on into `buffer`, and stores the number of
/// bytes read in `read_len`: fewer than `len` only at the end of the file, 0 beyond it. Every byte
/// is verified before it is returned.
///
/// # Safety
/// `image` is null or open; `buffer` is null or has room for `len` bytes; `read_len` is null or can
/// be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shale_read(
    image: *const Image,
    inode: u64,
    offset: u64,
    buffer: *mut c_void,
    len: usize,
    read_len: *mut usize,
) -> Code {
    call(|| {
        // SAFETY: null or open, as the caller promises.
        let image = unsafe { image.as_ref() }.ok_or_else(|| null("image"))?;
        // SAFETY: null, or valid for a write, as the caller promises.
        let read_len = unsafe { read_len.as_mut() }.ok_or_else(|| null("read_len"))?;
        *read_len = 0;
        // SAFETY: null, or with room for `len` bytes, as the caller promises.
        let buffer = unsafe { slice(buffer.cast(), len) }?;
        *read_len = image.read(inode, offset, buffer)?;
        Ok(())
    })
}

/// Stores the target of a symbolic link in `buffer`, with a zero byte at its end, and its length
/// without the zero byte in `target_len`. If `size` is too small it fails with `SHALE_CODE_RANGE`,
/// stores the length all the same and leaves `buffer` alone. A target is at most 4095 bytes long.
///
/// # Safety
/// `image` is null or open; `buffer` is null or has room for `size` bytes; `target_len` is null or
/// can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shale_readlink(
    image: *const Image,
    inode: u64,
    buffer: *mut c_char,
    size: usize,
    target_len: *mut usize,
) -> Code {
    call(|| {
        // SAFETY: null or open, as the caller promises.
        let image = unsafe { image.as_ref() }.ok_or_else(|| null("image"))?;
        // SAFETY: null, or valid for a write, as the caller promises.
        let target_len = unsafe { target_len.as_mut() }.ok_or_else(|| null("target_len"))?;
        *target_len = 0;
        // SAFETY: null, or with room for `size` bytes, as the caller promises.
        let buffer = unsafe { slice(buffer.cast(), size) }?;
        let target = image.link_target(inode)?;
        *target_len = target.len();
        if buffer.len() <= target.len() {
            let text = format!("the target needs {} bytes, there are {size}", target.len() + 1);
            return Err(Failure::new(Code::Range, text));
        }
        buffer[..target.len()].copy_from_slice(&target);
        buffer[target.len()] = 0;
        Ok(())
    })
}

/// Extracts a path and everything below it into a directory, which is made if it does not exist.
///
/// A null or empty `path` is the whole image. Paths below the directory are those in the image.
/// Never replaces a file, and never writes outside of the directory, whatever links lie there or in
/// the image. Restores owners if the process is root.
///
/// # Safety
/// `image` is null or open; `path` and `directory` are null or end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shale_extract(
    image: *const Image,
    path: *const c_char,
    directory: *const c_char,
) -> Code {
    call(|| {
        // SAFETY: null or open, as the caller promises.
        let image = unsafe { image.as_ref() }.ok_or_else(|| null("image"))?;
        // SAFETY: null, or with a zero byte at its end, as the caller promises.
        let path = unsafe { text(path) }.unwrap_or_default();
        // SAFETY: as above.
        let directory = unsafe { text(directory) }.ok_or_else(|| null("directory"))?;
        let directory = Path::new(OsStr::from_bytes(directory.to_bytes()));
        image.extract(path.to_bytes(), directory)
    })
}

/// Runs one function: keeps its error, and turns a panic into one.
fn call(function: impl FnOnce() -> Result<(), Failure>) -> Code {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(Ok(())) => Code::Ok,
        Ok(Err(failure)) => code::keep(&failure),
        Err(_) => code::keep(&Failure::new(Code::Bug, "the library panicked; please report it")),
    }
}

fn null(name: &str) -> Failure {
    Failure::argument(format!("`{name}` is a null pointer"))
}

/// # Safety
/// `text` is null, or ends with a zero byte and stays unchanged during the call.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not null; the rest is what this function demands.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Returns the bytes of a buffer; a null pointer is allowed for a buffer of 0 bytes.
///
/// # Safety
/// `start` is null, or nothing else uses its `len` bytes during the call.
unsafe fn slice<'a>(start: *mut u8, len: usize) -> Result<&'a mut [u8], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    if start.is_null() {
        return Err(null("buffer"));
    }
    if isize::try_from(len).is_err() {
        return Err(Failure::argument("the buffer is longer than any memory"));
    }
    // SAFETY: not null, no longer than a slice may be; the rest is what this function demands.
    Ok(unsafe { std::slice::from_raw_parts_mut(start, len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_of_the_thread() {
        assert_eq!(call(|| panic!("a panic of the test")), Code::Bug);
        assert_eq!(shale_last_error_code(), Code::Bug);
        let code = std::thread::spawn(|| shale_last_error_code()).join().unwrap();
        assert_eq!(code, Code::Ok, "errors belong to a thread");
    }

    #[test]
    fn attributes_have_a_fixed_size() {
        // Changing it breaks every program that was compiled before.
        assert_eq!(std::mem::size_of::<EntryStat>(), 88);
    }
}
