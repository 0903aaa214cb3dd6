//! Numbers and paths in a line of a list. Errors say what was expected and what was found; the
//! caller adds the line number.

use shale_format::limits::NAME_LEN_MAX;

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

/// Parses a decimal number; `None` if it is none, or too large.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// The beginning of a field, printable.
pub(crate) fn show(field: &[u8]) -> String {
    let shown = &field[..field.len().min(SHOWN_LEN_MAX)];
    let more = if shown.len() < field.len() { "…" } else { "" };
    format!("`{}`{more}", shown.escape_ascii())
}
