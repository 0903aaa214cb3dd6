//! Arguments that name a file, by its path or as `file://` and its path.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use percent_encoding::percent_decode;

/// Takes a path or a URL. A URL that names a file of this machine becomes its path.
pub fn local_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(without_scheme)
}

fn without_scheme(path: PathBuf) -> Result<PathBuf, String> {
    let bytes = path.as_os_str().as_bytes();
    let Some((scheme, rest)) = bytes.split_at_checked("file://".len()) else { return Ok(path) };
    if !scheme.eq_ignore_ascii_case(b"file://") {
        return Ok(path);
    }
    let rest = rest.strip_prefix(b"localhost").unwrap_or(rest);
    match rest.starts_with(b"/") {
        true => Ok(OsString::from_vec(percent_decode(rest).collect()).into()),
        false => Err("file:// must be followed by an absolute path".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_this_machine_have_a_path() {
        for (given, path) in [
            ("file:///a%20b%2", "/a b%2"),
            ("FILE://localhost/x", "/x"),
            ("file:/x", "file:/x"),
            ("s3://bucket/x", "s3://bucket/x"),
            ("x", "x"),
            ("./file:///x", "./file:///x"),
        ] {
            assert_eq!(without_scheme(given.into()), Ok(path.into()), "{given}");
        }
        assert!(without_scheme("file://host/x".into()).is_err());
    }
}
