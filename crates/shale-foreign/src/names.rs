//! Paths of archives as paths of a tree, and paths as text for messages.

use shale_format::limits::PATH_LEN_MAX;

/// Bytes of a path that a message shows.
const SHOWN_LEN_MAX: usize = 256;

/// Makes a path relative to the root of the tree: removes leading and trailing slashes, empty
/// components and `.`. The root itself becomes the empty path.
///
/// # Errors
/// Says why the path cannot be used.
pub(crate) fn relative(path: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(path.len().min(PATH_LEN_MAX));
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return Err("`..` in its path could lead out of the tree".to_owned()),
            name if name.contains(&0) => return Err("its path contains a zero byte".to_owned()),
            name => {
                if !out.is_empty() {
                    out.push(b'/');
                }
                out.extend_from_slice(name);
                if out.len() > PATH_LEN_MAX {
                    return Err(format!("its path is longer than {PATH_LEN_MAX} bytes"));
                }
            }
        }
    }
    Ok(out)
}

/// A path for a message, escaped; a long one is cut.
pub(crate) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(&cut(path).escape_ascii().collect::<Vec<u8>>()).into_owned()
}

/// The path itself if it is short; else its beginning, an ellipsis and its length.
pub(crate) fn cut(path: &[u8]) -> Vec<u8> {
    if path.len() <= SHOWN_LEN_MAX {
        return path.to_vec();
    }
    let tail = format!("... ({} bytes)", path.len());
    [&path[..SHOWN_LEN_MAX], tail.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::{PATH_LEN_MAX, relative, shown};

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

    #[test]
    fn long_paths_are_refused_and_cut_in_messages() {
        let longest = vec![b'x'; PATH_LEN_MAX];
        assert!(relative(&longest).is_ok());
        assert!(relative(&[&longest[..], b"x"].concat()).is_err());
        assert_eq!(shown(b"a\n"), "a\\n");
        assert!(shown(&longest).ends_with("xxx... (16384 bytes)"));
    }
}
