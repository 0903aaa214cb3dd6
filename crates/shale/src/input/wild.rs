//! Patterns of names as rsync and git read them, byte by byte: `*` stops at slashes, `?` is one
//! byte but a slash, `[a-z]` a set, also with classes such as `[[:digit:]]`, `\x` the byte x. They
//! differ in what `**` means.

/// What a pattern is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Byte(u8),
    /// `?`
    Any,
    /// `*`
    Run,
    /// `**`
    RunOverSlashes,
    /// So many tokens may be left out.
    Maybe(usize),
    Class {
        negated: bool,
        ranges: Vec<(u8, u8)>,
    },
}

/// What more than one star in a row means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stars {
    /// Any bytes, slashes as well.
    OverSlashes,
    /// That where they stand for whole names, with a slash behind them for none, too; else a `*`.
    /// git looks at a pattern only from its first special byte on, so there a name begins as well.
    WholeNames,
}

/// The bytes as they are.
pub(super) fn literal(bytes: &[u8]) -> Vec<Token> {
    bytes.iter().map(|&byte| Token::Byte(byte)).collect()
}

/// Reads a pattern.
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
            b'?' => tokens.push(Token::Any),
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

/// A set, from behind its bracket on, and what follows it.
fn class(mut rest: &[u8]) -> Result<(Token, &[u8]), &'static str> {
    const OPEN: &str = "its `[` is not closed";
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    if negated {
        rest = &rest[1..];
    }
    let mut ranges = Vec::new();
    // What a hyphen makes a range of.
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
            (b']', _) if !ranges.is_empty() => return Ok((Token::Class { negated, ranges }, rest)),
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

/// The bytes of a class, the same in every locale.
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

/// Whether the tokens match the path, or, with `anywhere`, its end from a slash on. Follows all
/// ways at once, so no pattern takes longer than its length times that of the path.
pub(super) fn matches(tokens: &[Token], path: &[u8], anywhere: bool) -> bool {
    // Most patterns begin or end with a few bytes that most names do not.
    let differs = |(token, byte): (&Token, &u8)| match token {
        Token::Byte(wanted) => Some(wanted != byte),
        _ => None,
    };
    let differ = |ends: &mut dyn Iterator<Item = (&Token, &u8)>| {
        ends.map_while(differs).any(|differs| differs)
    };
    if differ(&mut tokens.iter().rev().zip(path.iter().rev()))
        || (!anywhere && differ(&mut tokens.iter().zip(path)))
    {
        return false;
    }
    let mut ways = vec![false; tokens.len() + 1];
    let mut next = ways.clone();
    // Goes on over what may be empty, and gives the last way: most patterns get no further than
    // to their first tokens.
    let open = |ways: &mut [bool], mut last: usize| {
        for (at, token) in tokens.iter().enumerate() {
            if at > last {
                break;
            }
            let further = match token {
                _ if !ways[at] => continue,
                Token::Run | Token::RunOverSlashes => at + 1,
                Token::Maybe(count) => {
                    ways[at + 1] = true;
                    at + 1 + count
                }
                _ => continue,
            };
            ways[further] = true;
            last = last.max(further);
        }
        last
    };
    ways[0] = true;
    let mut last = open(&mut ways, 0);
    for (index, &byte) in path.iter().enumerate() {
        next.fill(false);
        let mut next_last = 0;
        for (at, token) in tokens.iter().enumerate().take(last + 1).filter(|(at, _)| ways[*at]) {
            let to = match token {
                Token::Byte(wanted) if *wanted == byte => at + 1,
                Token::Any if byte != b'/' => at + 1,
                Token::Run if byte != b'/' => at,
                Token::RunOverSlashes => at,
                Token::Class { negated, ranges } if byte != b'/' => {
                    let is_in = ranges.iter().any(|&(low, high)| (low..=high).contains(&byte));
                    match is_in != *negated {
                        true => at + 1,
                        false => continue,
                    }
                }
                _ => continue,
            };
            next[to] = true;
            next_last = to.max(next_last);
        }
        if anywhere && byte == b'/' && index + 1 < path.len() {
            next[0] = true;
        }
        std::mem::swap(&mut ways, &mut next);
        last = open(&mut ways, next_last);
    }
    ways[tokens.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_like(pattern: &str, path: &str, stars: Stars) -> bool {
        matches(&parse(pattern.as_bytes(), stars).unwrap(), path.as_bytes(), false)
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
