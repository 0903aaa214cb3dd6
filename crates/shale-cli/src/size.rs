//! Sizes, shares and durations, parsed from text and formatted as text.
//!
//! In sizes, `K`, `M`, `G`, `T`, `P` and `E` are powers of 1024, also written `KiB` and so on; `KB`
//! and so on are powers of 1000. Fractions are not accepted: `1536K`, not `1.5M`.

use std::time::Duration;

use shale::write::THREADS_MAX;

/// Parses a size such as `65536`, `64K`, `1M`, `4GiB`, `500MB`.
///
/// # Errors
/// The text is not a size, or is 2^64 bytes or more.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let fail = || format!("`{text}` is not a size; use 65536, 64K, 1MiB or 500MB");
    let number: u64 = number.parse().map_err(|_| fail())?;
    let unit = unit.trim_start().to_ascii_uppercase();
    let (letter, rest) = match unit.chars().next() {
        None => ("", ""),
        Some(letter) => unit.split_at(letter.len_utf8()),
    };
    let power = match (letter, rest) {
        ("" | "B", "") => 0,
        ("K", _) => 1,
        ("M", _) => 2,
        ("G", _) => 3,
        ("T", _) => 4,
        ("P", _) => 5,
        ("E", _) => 6,
        _ => return Err(fail()),
    };
    let base: u64 = match rest {
        "" | "IB" | "I" => 1024,
        "B" => 1000,
        _ => return Err(fail()),
    };
    base.checked_pow(power)
        .and_then(|unit| number.checked_mul(unit))
        .ok_or_else(|| format!("`{text}` is 2^64 bytes or more"))
}

/// Parses an amount of memory: a size, in which a small number needs a unit.
///
/// # Errors
/// The text is not a size, or a number below 1 MiB without a unit.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse(text)?;
    let has_unit = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    if bytes > 0 && bytes < 1 << 20 && !has_unit {
        return Err(format!("`{text}` means {text} bytes; add a unit, such as {text}G or {text}M"));
    }
    Ok(bytes)
}

/// Parses a number of threads; 0 means all processors.
///
/// # Errors
/// The text is not a number in the range.
pub fn parse_threads(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number <= THREADS_MAX);
    number
        .ok_or_else(|| format!("`{text}` is not a valid number of threads; use 0 to {THREADS_MAX}"))
}

/// Parses a share from 0.0001% to 100%, such as `5%` or `0.5%`, into parts per million.
///
/// # Errors
/// The text is not such a share.
pub fn parse_share(text: &str) -> Result<u32, String> {
    let fail = || format!("`{text}` is not a percentage; use 5% or 0.5%, at most 100%");
    let number = text.trim().strip_suffix('%').ok_or_else(fail)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 4 {
        return Err(fail());
    }
    let digits = |text: &str| -> Result<u32, String> {
        match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse().map_err(|_| fail()),
            false => Err(fail()),
        }
    };
    let fraction = digits(fraction)? * 10_u32.pow(4 - fraction.len() as u32);
    match digits(whole)?.checked_mul(10_000).and_then(|whole| whole.checked_add(fraction)) {
        Some(share @ 1..=1_000_000) => Ok(share),
        _ => Err(fail()),
    }
}

/// Parses a share of parity: `none`, or as [`parse_share`].
///
/// # Errors
/// The text is neither.
pub fn parse_parity(text: &str) -> Result<u32, String> {
    match text {
        "none" | "0" | "0%" => Ok(0),
        text => parse_share(text),
    }
}

/// Parses a duration such as `90s`, `10m`, `2h` or `1d`; a number alone is in seconds.
///
/// # Errors
/// The text is not a duration.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let fail = || format!("`{text}` is not a duration; use 90s, 10m, 2h or 1d");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err(fail()),
    };
    let number: u64 = number.parse().map_err(|_| fail())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(fail)
}

/// Formats a size with three digits and a binary unit: `1.46 MiB`.
pub fn show(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// Formats a size in few characters, as `ls -h` does: `999`, `1.5K`, `64M`. Rounds up.
pub fn brief(bytes: u64) -> String {
    let mut unit = 1u128;
    for letter in ["", "K", "M", "G", "T", "P", "E"] {
        let tenths = (u128::from(bytes) * 10).div_ceil(unit);
        if letter.is_empty() && bytes < 1024 {
            return bytes.to_string();
        }
        if !letter.is_empty() && tenths < 100 {
            return format!("{}.{}{letter}", tenths / 10, tenths % 10);
        }
        let whole = u128::from(bytes).div_ceil(unit);
        if !letter.is_empty() && (whole < 1024 || letter == "E") {
            return format!("{whole}{letter}");
        }
        unit *= 1024;
    }
    bytes.to_string()
}

/// Formats a count with separators: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats the ratio of `plain` to `stored`: `4.31`, or `-` if nothing is stored.
pub fn ratio(plain: u64, stored: u64) -> String {
    match stored {
        0 => "-".to_owned(),
        _ => format!("{:.2}", plain as f64 / stored as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parsed() {
        for (text, share) in [
            ("5%", 50_000),
            ("0.5%", 5_000),
            ("100%", 1_000_000),
            ("0.0001%", 1),
            ("12.34%", 123_400),
        ] {
            assert_eq!(parse_share(text), Ok(share));
        }
        for wrong in ["5", "%", "0%", "101%", "100.0001%", "-5%", ".5%", "5.%", "1.00001%", "+5%"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_parsed_with_and_without_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65536),
            ("12B", 12),
            ("64K", 65536),
            ("64k", 65536),
            ("1M", 1 << 20),
            ("4GiB", 4 << 30),
            ("4 gib", 4 << 30),
            ("500MB", 500_000_000),
            ("15E", 15 << 60),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "K", "1.5M", "-1", "1X", "1KX", "16E", "1MiBs", "0x10", "1\u{e9}"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn small_amounts_of_memory_need_a_unit() {
        assert_eq!(parse_memory("1G"), Ok(1 << 30));
        assert_eq!(parse_memory("1048576"), Ok(1 << 20));
        assert_eq!(parse_memory("0"), Ok(0));
        assert_eq!(parse_memory("512 B"), Ok(512));
        assert!(parse_memory("1").unwrap_err().contains("1G"));
        assert!(parse_memory("1X").is_err());
    }

    #[test]
    fn sizes_have_three_digits() {
        assert_eq!(show(0), "0 B");
        assert_eq!(show(1023), "1023 B");
        assert_eq!(show(1024), "1.00 KiB");
        assert_eq!(show(1_531_000), "1.46 MiB");
        assert_eq!(show(1023 * 1024), "1.00 MiB");
        assert_eq!(show(u64::MAX), "16.0 EiB");
        let brief = [0, 1023, 1024, 1025, 10_240, 1_047_553, 1_048_576, u64::MAX].map(brief);
        assert_eq!(brief, ["0", "1023", "1.0K", "1.1K", "10K", "1.0M", "1.0M", "16E"]);
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
        assert_eq!(ratio(10, 0), "-");
        assert_eq!(ratio(10, 4), "2.50");
    }
}
