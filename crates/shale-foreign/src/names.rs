//! Paths of archives as paths of a tree: relative, without empty names and dots.

/// Most bytes of a path; deeper trees than any system makes.
const PATH_LEN_MAX: usize = 1 << 20;

/// Makes a path relative to the root of the tree: slashes at its ends, doubled ones and `.` go;
/// the root itself is empty. `Err` says why it is none.
pub(crate) fn relative(path: &[u8]) -> Result<Vec<u8>, &'static str> {
    if path.len() > PATH_LEN_MAX {
        return Err("its path is longer than 1 MiB");
    }
    let mut out = Vec::with_capacity(path.len());
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return Err("`..` in its path could lead out of the tree"),
            name if name.contains(&0) => return Err("a zero byte in its path"),
            name => {
                if !out.is_empty() {
                    out.push(b'/');
                }
                out.extend_from_slice(name);
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::relative;

    #[test]
    fn paths_become_relative_and_never_climb() {
        for (given, expected) in [
            ("./", ""),
            ("/", ""),
            ("a/./b//c/", "a/b/c"),
            ("/etc/x", "etc/x"),
            ("..a/b.", "..a/b."),
        ] {
            assert_eq!(relative(given.as_bytes()).unwrap(), expected.as_bytes());
        }
        for bad in ["..", "a/../b", "/..", "a/\0"] {
            assert!(relative(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
