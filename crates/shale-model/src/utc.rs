//! Times in UTC as text, which is how snapshots are named by default.

use std::fmt::Write;
use std::ops::RangeInclusive;

const DAY: i64 = 86_400;

/// Formats seconds since 1970 as `2026-11-22T10:00:00Z`.
pub fn utc_text(sec: i64) -> String {
    let (days, rest) = (sec.div_euclid(DAY), sec.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    let mut text = String::with_capacity(20);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    // Writing to a string does not fail.
    let _ = write!(text, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    text
}

/// Parses a time in UTC and returns the seconds since 1970 that it covers, first and last.
///
/// Accepts `2026-11`, `2026-11-22`, `2026-11-22T10`, `2026-11-22T10:00` and `2026-11-22T10:00:30`;
/// with a space instead of the `T`, a fraction of the seconds, which is ignored, and a `Z` at the
/// end. A day covers its 86,400 seconds. Returns `None` for anything else, such as an offset.
pub fn utc_period(text: &[u8]) -> Option<RangeInclusive<i64>> {
    let text = str::from_utf8(text).ok()?;
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time.strip_suffix(['Z', 'z']).unwrap_or(time))),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let year = number(parts.next()?, 4)?;
    let month = number(parts.next()?, 2).filter(|month| (1..=12).contains(month))?;
    let day = parts.next();
    if parts.next().is_some() {
        return None;
    }
    let Some(day) = day else {
        let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        let period = days_to(year, month, 1) * DAY..=days_to(next.0, next.1, 1) * DAY - 1;
        return time.is_none().then_some(period);
    };
    let day = number(day, 2)?;
    let days = days_to(year, month, day);
    // A day that the month does not have is a day of the next one.
    if day < 1 || date_of(days) != (year, month, day) {
        return None;
    }
    let (mut start, mut len) = (days * DAY, DAY);
    if let Some(time) = time {
        let mut parts = time.splitn(3, ':');
        start += number(parts.next()?, 2).filter(|hour| *hour < 24)? * 3600;
        len = 3600;
        if let Some(minute) = parts.next() {
            start += number(minute, 2).filter(|minute| *minute < 60)? * 60;
            len = 60;
        }
        if let Some(second) = parts.next() {
            let (second, fraction) = second.split_once('.').unwrap_or((second, "0"));
            if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            start += number(second, 2).filter(|second| *second < 60)?;
            len = 1;
        }
    }
    Some(start..=start + len - 1)
}

/// Parses exactly `digits` decimal digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let is_plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from
/// March, so that a leap day is the last day of its year.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// Returns year, month and day of a number of days since 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    // 400 years have 146,097 days. The estimate is at most one year too high.
    let days = days + 719_468;
    let mut year = (days * 400).div_euclid(146_097);
    let start =
        |year: i64| year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    while start(year) > days {
        year -= 1;
    }
    while start(year + 1) <= days {
        year += 1;
    }
    let rest = days - start(year);
    let month = (rest * 5 + 2) / 153;
    let day = rest - (month * 153 + 2) / 5 + 1;
    match month < 10 {
        true => (year, month + 3, day),
        false => (year + 1, month - 9, day),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_seconds_agree_on_every_day_of_four_centuries() {
        let mut expected = (1799, 12, 31);
        for days in days_to(1800, 1, 1)..days_to(2201, 1, 1) {
            let (year, month, day) = date_of(days);
            let next_day = (year, month, day) == (expected.0, expected.1, expected.2 + 1);
            let next_month = day == 1 && month == expected.1 % 12 + 1;
            assert!(next_day || next_month, "{expected:?} {year}-{month}-{day}");
            expected = (year, month, day);
            let text = utc_text(days * DAY + 3_661);
            assert_eq!(utc_period(text.as_bytes()), Some(days * DAY + 3_661..=days * DAY + 3_661));
        }
        assert_eq!(utc_text(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc_text(1_795_341_600), "2026-11-22T10:00:00Z");
        assert_eq!(utc_text(951_782_400), "2000-02-29T00:00:00Z");
    }

    #[test]
    fn a_time_covers_what_it_names() {
        let noon = 1_795_348_800;
        for (text, first, len) in [
            ("2026-11-22", noon - 43_200, 86_400),
            ("2026-11", noon - 43_200 - 21 * DAY, 30 * 86_400),
            ("2026-11-22T12", noon, 3_600),
            ("2026-11-22T12:00", noon, 60),
            ("2026-11-22 12:00", noon, 60),
            ("2026-11-22T12:00Z", noon, 60),
            ("2026-11-22T12:00:00Z", noon, 1),
            ("2026-11-22T12:00:00.999999Z", noon, 1),
        ] {
            assert_eq!(utc_period(text.as_bytes()), Some(first..=first + len - 1), "{text}");
        }
        for wrong in [
            "",
            "2026",
            "2026-13",
            "2026-00-01",
            "2026-02-29",
            "2026-11-31",
            "2026-11-00",
            "2026-1-1",
            "2026-11-22T",
            "2026-11-22T24:00",
            "2026-11-22T12:60",
            "2026-11-22T12:00:60",
            "2026-11-22T12:00:00.",
            "2026-11-22T12:00+01:00",
            "2026-11-22Z",
            "2026-11-22-01",
            "2026-11T10",
            "+026-11-22",
            "second",
        ] {
            assert_eq!(utc_period(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(utc_period(b"\xff"), None);
    }
}
