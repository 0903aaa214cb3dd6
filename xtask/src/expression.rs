//! Constant expressions of Rust and numbers of the specification, evaluated to compare them.
//!
//! Knows integers, names of other constants, `T::MAX`, `*`, `/`, `+`, `-`, `<<` and `as`; anything
//! else is an error, so that a constant that tidy cannot read is seen and not skipped.

use std::collections::BTreeMap;

/// Constants by name, as source text.
pub type Constants = BTreeMap<String, String>;

/// Evaluates a constant expression of Rust.
///
/// # Errors
///
/// A word that is no constant, or an operator that is not read here.
pub fn rust_value(text: &str, constants: &Constants) -> Result<u128, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, constants, depth: 0 };
    let value = parser.shift()?;
    match parser.tokens.get(parser.at) {
        None => Ok(value),
        Some(rest) => Err(format!("cannot read `{rest}` in `{text}`")),
    }
}

/// The bytes of a byte string literal such as `*b"\x8bAB\r\n"`, if `text` is one.
pub fn rust_bytes(text: &str) -> Option<Vec<u8>> {
    let inner = text.trim().trim_start_matches('*').strip_prefix("b\"")?.strip_suffix('"')?;
    let mut bytes = Vec::new();
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        bytes.push(match c {
            '\\' => match rest.next()? {
                'n' => b'\n',
                'r' => b'\r',
                't' => b'\t',
                '0' => 0,
                '\\' => b'\\',
                'x' => {
                    let digits: String = rest.by_ref().take(2).collect();
                    u8::from_str_radix(&digits, 16).ok()?
                }
                _ => return None,
            },
            c if c.is_ascii() => c as u8,
            _ => return None,
        });
    }
    Some(bytes)
}

/// A number of the specification: `4,194,304`, `2^63`, `2^63 - 1`, `2^64 − 17`.
pub fn written_value(text: &str) -> Option<u128> {
    let text = text.trim().trim_matches('`').replace('−', "-");
    let (left, less) = match text.split_once(" - ") {
        Some((left, right)) => (left.to_owned(), right.trim().parse::<u128>().ok()?),
        None => (text, 0),
    };
    let value = match left.trim().split_once('^') {
        Some((base, exponent)) => base.parse::<u128>().ok()?.checked_pow(exponent.parse().ok()?)?,
        None => left.trim().replace(',', "").parse().ok()?,
    };
    value.checked_sub(less)
}

fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        if chars[at].is_whitespace() {
            at += 1;
        } else if word(chars[at]) {
            let end = (at..chars.len()).find(|&i| !word(chars[i])).unwrap_or(chars.len());
            found.push(chars[at..end].iter().collect());
            at = end;
        } else if text[..].chars().skip(at).take(2).collect::<String>() == "<<" {
            found.push("<<".to_owned());
            at += 2;
        } else if matches!(chars[at], '+' | '-' | '*' | '/' | '(' | ')') {
            found.push(chars[at].to_string());
            at += 1;
        } else {
            return Err(format!("cannot read `{}` in `{text}`", chars[at]));
        }
    }
    Ok(found)
}

struct Parser<'a> {
    tokens: Vec<String>,
    at: usize,
    constants: &'a Constants,
    depth: usize,
}

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        let there = self.tokens.get(self.at).is_some_and(|t| t == token);
        self.at += usize::from(there);
        there
    }

    fn shift(&mut self) -> Result<u128, String> {
        let mut value = self.sum()?;
        while self.take("<<") {
            let by = self.sum()?;
            let by = u32::try_from(by).ok().filter(|by| *by < 64).ok_or("shift too wide")?;
            value = value.checked_shl(by).ok_or("shift too wide")?;
        }
        Ok(value)
    }

    fn sum(&mut self) -> Result<u128, String> {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value = value.checked_add(self.product()?).ok_or("sum too large")?;
            } else if self.take("-") {
                value = value.checked_sub(self.product()?).ok_or("difference below zero")?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<u128, String> {
        let mut value = self.atom()?;
        loop {
            if self.take("*") {
                value = value.checked_mul(self.atom()?).ok_or("product too large")?;
            } else if self.take("/") {
                value = value.checked_div(self.atom()?).ok_or("division by zero")?;
            } else if self.take("as") {
                // A cast between unsigned types does not change the constants of the format.
                self.at += 1;
            } else {
                return Ok(value);
            }
        }
    }

    fn atom(&mut self) -> Result<u128, String> {
        if self.take("(") {
            let value = self.shift()?;
            return if self.take(")") { Ok(value) } else { Err("`)` is missing".to_owned()) };
        }
        let token = self.tokens.get(self.at).ok_or("the expression ends early")?.clone();
        self.at += 1;
        if token.starts_with(|c: char| c.is_ascii_digit()) {
            let digits = token.replace('_', "");
            let digits = ["u8", "u16", "u32", "u64", "usize"]
                .iter()
                .find_map(|suffix| digits.strip_suffix(suffix))
                .unwrap_or(&digits);
            return match digits.strip_prefix("0x") {
                Some(hex) => u128::from_str_radix(hex, 16),
                None => digits.parse(),
            }
            .map_err(|_| format!("`{token}` is not a number"));
        }
        let max = match token.as_str() {
            "u8::MAX" => Some(u128::from(u8::MAX)),
            "u16::MAX" => Some(u128::from(u16::MAX)),
            "u32::MAX" => Some(u128::from(u32::MAX)),
            "u64::MAX" => Some(u128::from(u64::MAX)),
            "i64::MAX" => Some(i64::MAX as u128),
            _ => None,
        };
        if let Some(max) = max {
            return Ok(max);
        }
        let name = token.rsplit("::").next().unwrap_or(&token);
        let text = self.constants.get(name).ok_or(format!("no constant is named `{token}`"))?;
        if self.depth > 8 {
            return Err(format!("`{token}` is defined by itself"));
        }
        let tokens = tokens(text)?;
        let mut inner = Parser { tokens, at: 0, constants: self.constants, depth: self.depth + 1 };
        inner.shift()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_expressions_have_rust_values() {
        let constants: Constants = [("A", "64 << 20"), ("B", "A + 1"), ("LOOP", "LOOP")]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into();
        let value = |text| rust_value(text, &constants);
        assert_eq!(value("1 << 40"), Ok(1 << 40));
        assert_eq!(value("1 << 2 + 3"), Ok(32));
        assert_eq!(value("B * 2 - 1"), Ok((64 << 20) * 2 + 1));
        assert_eq!(value("(768 << 10) / 8"), Ok(98_304));
        assert_eq!(value("i64::MAX as u64"), Ok(i64::MAX as u128));
        assert_eq!(value("u64::MAX - 16"), Ok(u128::from(u64::MAX) - 16));
        assert_eq!(value("crate::x::A as usize"), Ok(64 << 20));
        assert_eq!(value("0xff_u8"), Ok(255));
        for wrong in ["C", "1 +", "1 2", "LOOP", "f(1)", "0 - 1", "1 << 70", "1 / 0"] {
            assert!(value(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn byte_strings_and_written_numbers() {
        assert_eq!(rust_bytes(r#"*b"\x8bA\r\n""#), Some(vec![0x8b, b'A', 13, 10]));
        assert_eq!(rust_bytes("12"), None);
        assert_eq!(written_value("4,194,304"), Some(4 << 20));
        assert_eq!(written_value("`2^63 − 1`"), Some(i64::MAX as u128));
        assert_eq!(written_value("a few"), None);
    }
}
