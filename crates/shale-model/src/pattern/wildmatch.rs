//! The wildcards of rsync and git, byte by byte: `*` stops at slashes, `?` is one byte except a
//! slash, `[a-z]` is a set, also with classes such as `[[:digit:]]`, `\x` is the byte x. The two
//! differ in the meaning of `**`.

use super::matcher::{Token, Unit};

/// What several stars in a row mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stars {
    /// Any bytes, slashes included: rsync.
    OverSlashes,
    /// Any number of whole names, if the stars are between slashes or at an end of the pattern;
    /// else as a single `*`: git. As git compares the bytes before the first special one for
    /// themselves, a name also begins at that special byte.
    WholeNames,
}

/// Parses a pattern into tokens.
pub(super) fn parse(pattern: &[u8], stars: Stars) -> Result<Vec<Token>, &'static str> {
    let is_special = |byte: &u8| b"*?[\\".contains(byte);
    let special = pattern.iter().position(is_special).unwrap_or(pattern.len());
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let Some((&byte, after)) = rest.split_first() {
        let at = pattern.len() - rest.len();
        rest = after;
        match byte {
            b'\\' => {
                let (&escaped, after) = rest.split_first().ok_or("it ends with a backslash")?;
                rest = after;
                tokens.push(Token::Byte(escaped));
            }
            b'?' => tokens.push(Token::Any(Unit::Byte)),
            b'*' => {
                let more = rest.iter().take_while(|&&byte| byte == b'*').count();
                rest = &rest[more..];
                let begins = at == special || pattern[at - 1] == b'/';
                let is_names = begins && matches!(rest.first(), None | Some(b'/'));
                if stars == Stars::WholeNames && more > 0 && is_names && !rest.is_empty() {
                    tokens.push(Token::Maybe(2));
                }
                let goes_over = more > 0 && (stars == Stars::OverSlashes || is_names);
                tokens.push(if goes_over { Token::RunOverSlashes } else { Token::Run });
            }
            b'[' => {
                let (class, after) = class(rest)?;
                rest = after;
                tokens.push(class);
            }
            byte => tokens.push(Token::Byte(byte)),
        }
    }
    Ok(tokens)
}

/// Parses a set, after its opening bracket. Returns the token and the rest of the pattern.
fn class(mut rest: &[u8]) -> Result<(Token, &[u8]), &'static str> {
    const OPEN: &str = "its `[` is not closed";
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    if negated {
        rest = &rest[1..];
    }
    let mut ranges: Vec<(u8, u8)> = Vec::new();
    // The byte before, of which a hyphen makes a range.
    let mut before = None;
    let take = |rest: &mut &[u8]| -> Result<u8, &'static str> {
        let (&byte, after) = rest.split_first().ok_or(OPEN)?;
        *rest = after;
        Ok(byte)
    };
    loop {
        let byte = take(&mut rest)?;
        let is_range = byte == b'-' && matches!(rest.first(), Some(next) if *next != b']');
        match (byte, before) {
            (b']', _) if !ranges.is_empty() => {
                let ranges = ranges.iter().map(|&(low, high)| (u32::from(low), u32::from(high)));
                let ranges = ranges.collect();
                return Ok((Token::Class { unit: Unit::Byte, negated, ranges }, rest));
            }
            (_, Some(low)) if is_range => {
                let mut high = take(&mut rest)?;
                if high == b'\\' {
                    high = take(&mut rest)?;
                }
                ranges.push((low, high));
                before = None;
                continue;
            }
            (b'[', _) if rest.first() == Some(&b':') => {
                let end = rest.iter().position(|&byte| byte == b']').ok_or(OPEN)?;
                if let Some(name) = rest[1..end].strip_suffix(b":") {
                    ranges.extend(named(name).ok_or("it has a class that there is not")?);
                    rest = &rest[end + 1..];
                    before = None;
                    continue;
                }
            }
            _ => {}
        }
        let byte = if byte == b'\\' { take(&mut rest)? } else { byte };
        ranges.push((byte, byte));
        before = Some(byte);
    }
}

/// Returns the byte ranges of a class, the same in every locale.
fn named(name: &[u8]) -> Option<&'static [(u8, u8)]> {
    Some(match name {
        b"alnum" => &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')],
        b"alpha" => &[(b'A', b'Z'), (b'a', b'z')],
        b"blank" => &[(b' ', b' '), (b'\t', b'\t')],
        b"cntrl" => &[(0, 0x1f), (0x7f, 0x7f)],
        b"digit" => &[(b'0', b'9')],
        b"graph" => &[(b'!', b'~')],
        b"lower" => &[(b'a', b'z')],
        b"print" => &[(b' ', b'~')],
        b"punct" => &[(b'!', b'/'), (b':', b'@'), (b'[', b'`'), (b'{', b'~')],
        b"space" => &[(b'\t', b'\r'), (b' ', b' ')],
        b"upper" => &[(b'A', b'Z')],
        b"xdigit" => &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::matcher::{Extent, matches};
    use super::*;

    fn is_like(pattern: &str, path: &str, stars: Stars) -> bool {
        matches(&parse(pattern.as_bytes(), stars).unwrap(), path.as_bytes(), Extent::Whole)
    }

    #[test]
    fn sets_are_those_of_rsync_and_git() {
        let like = |pattern, path| is_like(pattern, path, Stars::OverSlashes);
        assert!(like("[[:alpha:]]", "q") && !like("[[:alpha:]]", "7"));
        assert!(like("[![:digit:]_]", "q") && !like("[![:digit:]_]", "_"));
        assert!(like("[[:x]", "[") && like("[[:x]", ":") && !like("[[:x]", "y"));
        assert!(like("[]a]", "]") && like("[!]a]", "b") && !like("[^]a]", "]"));
        assert!(like("[a-]", "-") && like("[a\\-c]", "-") && !like("[a\\-c]", "b"));
        assert!(like("[--0]", "/") == like("[!a]", "/") && like("[--0]", "."));
        assert!(like("[z-a]", "z") && !like("[z-a]", "a"));
        assert!(like("[a-\\]]", "]") == like("[a-\\]]", "b") && like("[\\]-a]", "_"));
        for bad in ["[", "[]", "[a", "[a-", "[[:alpha:]", "[[:no:]]", "[\\", "a\\"] {
            assert!(parse(bad.as_bytes(), Stars::OverSlashes).is_err(), "{bad}");
        }
    }

    #[test]
    fn two_stars_of_git_are_whole_names() {
        let like = |pattern, path| is_like(pattern, path, Stars::WholeNames);
        assert!(like("a/**/b", "a/b") && like("a/**/b", "a/x/y/b") && !like("a/**/b", "a/xb"));
        assert!(like("**/b", "b") && like("**/b", "a/b") && !like("**/b", "ab"));
        assert!(like("a/**", "a/x/y") && !like("a/**", "a"));
        assert!(like("?**b", "ab") && !like("?**b", "a/b"), "no whole names");
        assert!(!is_like("a/**/b", "a/b", Stars::OverSlashes), "as rsync has it");
    }
}
