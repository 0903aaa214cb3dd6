//! Numbers, paths and targets in a line of a list. Errors say what was expected and what was found;
//! the caller adds the line number.

use shale_format::limits::{LINK_TARGET_LEN_MAX, NAME_LEN_MAX};

/// Longest path: `PATH_MAX` of Linux without the final zero.
pub const PATH_LEN_MAX: usize = 4095;
/// Most bytes of a line that an error shows.
const SHOWN_LEN_MAX: usize = 60;

/// Checks that this is a path from the root in its shortest form.
///
/// # Errors
/// What was expected, and what was found.
pub(crate) fn check_path(path: &[u8]) -> Result<(), String> {
    if path.len() > PATH_LEN_MAX {
        let len = path.len();
        return Err(format!("expected a path of at most {PATH_LEN_MAX} bytes, found {len}"));
    }
    if path.is_empty() {
        return Err("expected a path, found none".to_owned());
    }
    if memchr::memchr(0, path).is_some() {
        return Err("expected a path without NUL, found one".to_owned());
    }
    let mut name_start = 0;
    let slashes = memchr::memchr_iter(b'/', path);
    for end in slashes.chain([path.len()]) {
        let name = &path[name_start..end];
        name_start = end + 1;
        if name.len() > NAME_LEN_MAX {
            let len = name.len();
            return Err(format!("expected names of at most {NAME_LEN_MAX} bytes, found {len}"));
        }
        match name {
            b"" => {
                return Err(format!(
                    "expected a path below the root without empty names, found {}",
                    show(path)
                ));
            }
            b"." | b".." => {
                let path = show(path);
                return Err(format!("expected a path without `.` and `..`, found {path}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that this is a target of a symbolic link.
///
/// # Errors
/// What was expected, and what was found.
pub(crate) fn check_target(target: &[u8]) -> Result<(), String> {
    if target.is_empty() || target.len() > LINK_TARGET_LEN_MAX || target.contains(&0) {
        let len = target.len();
        return Err(format!(
            "expected a link target of 1 to {LINK_TARGET_LEN_MAX} bytes without NUL, found {len} \
             bytes"
        ));
    }
    Ok(())
}

/// Parses a decimal number without a sign. Returns `None` for any other text, and for a number that
/// does not fit.
pub(crate) fn number<T: TryFrom<u64>>(digits: &[u8]) -> Option<T> {
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    T::try_from(number).ok()
}

/// Parses an octal number of one to eight digits. Returns `None` for any other text.
pub(crate) fn octal(digits: &[u8]) -> Option<u32> {
    if !(1..=8).contains(&digits.len()) {
        return None;
    }
    digits.iter().try_fold(0, |number, byte| {
        (b'0'..=b'7').contains(byte).then(|| number << 3 | u32::from(byte - b'0'))
    })
}

/// Returns the beginning of a field, printable.
pub(crate) fn show(field: &[u8]) -> String {
    let shown = &field[..field.len().min(SHOWN_LEN_MAX)];
    let more = if shown.len() < field.len() { "…" } else { "" };
    format!("`{}`{more}", shown.escape_ascii())
}
