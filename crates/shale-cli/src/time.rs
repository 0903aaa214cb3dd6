//! Dates and times: parsed from the forms that people write, and formatted for listings.
//!
//! A date without a time zone is local time, as with date(1) and touch(1). The local zone is that
//! of the `TZ` variable or of the machine.

use anyhow::Context;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp as Instant, Zoned};
use shale::read::Timestamp;

/// Seconds since 1970 and nanoseconds.
type Seconds = (i64, u32);

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Parses a point in time: `2024-01-31`, `2024-01-31 12:00`, `2024-01-31T12:00:00Z`, `31 Jan 2024
/// 12:00 +0100`, the output of date(1), `now`, `yesterday`, `2 days ago`, or seconds since 1970
/// with or without a leading `@`.
///
/// # Errors
/// The text is not a valid time, or could be either a date or a number of seconds.
pub fn parse(text: &str) -> Result<Seconds, String> {
    parse_at(text, &Zoned::now())
}

/// Returns the default name of a snapshot: the time now, in UTC, or that of `SOURCE_DATE_EPOCH`.
///
/// # Errors
/// `SOURCE_DATE_EPOCH` is not a valid time.
pub fn snapshot_name() -> anyhow::Result<String> {
    let now = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(epoch) => {
            let sec = epoch.parse().ok().and_then(|sec| Instant::from_second(sec).ok());
            sec.with_context(|| {
                format!("SOURCE_DATE_EPOCH is `{epoch}`; it must be a number of seconds since 1970")
            })?
        }
        Err(_) => Instant::now(),
    };
    Ok(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn parse_at(text: &str, now: &Zoned) -> Result<Seconds, String> {
    let text = text.trim();
    let wrong = || {
        format!(
            "`{text}` is not a valid time; use 2024-01-31, '2024-01-31 12:00 +0100', '2 days ago', \
             or @SECONDS since 1970"
        )
    };
    if let Some(number) = text.strip_prefix('@') {
        return seconds(number).ok_or_else(wrong);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) && matches!(text.len(), 4 | 8) {
        let (month, day) = if text.len() == 8 { (&text[4..6], &text[6..]) } else { ("01", "01") };
        let date = format!("{}-{month}-{day}", &text[..4]);
        if Date::strptime("%Y-%m-%d", &date).is_ok() {
            return Err(format!(
                "`{text}` can be a date or a number of seconds; use {date} or @{text}"
            ));
        }
    }
    if let Some(seconds) = seconds(text) {
        return Ok(seconds);
    }
    let day = |days: i64| now.checked_add(Span::new().days(days)).ok();
    let relative = match text.to_ascii_lowercase().as_str() {
        "now" | "today" => day(0),
        "yesterday" => day(-1),
        "tomorrow" => day(1),
        words if words.ends_with(" ago") => {
            words.parse::<Span>().ok().and_then(|span| now.checked_add(span).ok())
        }
        words => Words::parse(words).and_then(|words| words.resolve(now)),
    };
    relative.map(|zoned| split(zoned.timestamp())).ok_or_else(wrong)
}

/// Parses seconds since 1970, with an optional fraction.
fn seconds(text: &str) -> Option<Seconds> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let sec: i64 = whole.parse().ok()?;
    let nsec: u32 = format!("{fraction:0<9}").parse().ok()?;
    match (whole.starts_with('-'), nsec) {
        (false, _) | (true, 0) => Some((sec, nsec)),
        (true, nsec) => Some((sec.checked_sub(1)?, 1_000_000_000 - nsec)),
    }
}

/// Splits an instant into seconds, rounded down, and nanoseconds.
fn split(instant: Instant) -> Seconds {
    let nanos = instant.as_nanosecond();
    (nanos.div_euclid(1_000_000_000) as i64, nanos.rem_euclid(1_000_000_000) as u32)
}

/// The parts of a date, in whatever order they were written.
#[derive(Debug, Default)]
struct Words {
    date: Option<Date>,
    day: Option<i8>,
    month: Option<i8>,
    year: Option<i16>,
    time: Option<Time>,
    offset: Option<Offset>,
}

impl Words {
    /// Sorts the words by what they look like. Returns none if a word is unknown or repeated.
    fn parse(text: &str) -> Option<Self> {
        let mut words = Self::default();
        for word in text.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
            words.add(word)?;
        }
        Some(words)
    }

    fn add(&mut self, word: &str) -> Option<()> {
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && word.len() <= 2 {
            return set(&mut self.day, word.parse().ok()?);
        }
        if is_number && word.len() == 4 {
            return set(&mut self.year, word.parse().ok()?);
        }
        if let Some(offset) = offset(word) {
            return set(&mut self.offset, offset);
        }
        if word.len() >= 3 {
            if let Some(at) = MONTHS.iter().position(|month| month.starts_with(word)) {
                return set(&mut self.month, at as i8 + 1);
            }
            if WEEKDAYS.iter().any(|day| day.starts_with(word)) {
                return Some(());
            }
        }
        if word.contains(':') {
            return self.add_time(word);
        }
        let (date, time) = word.split_once('t').unwrap_or((word, ""));
        let date = date.replace('/', "-");
        set(&mut self.date, Date::strptime("%Y-%m-%d", &date).ok()?)?;
        if time.is_empty() { (!word.ends_with('t')).then_some(()) } else { self.add_time(time) }
    }

    /// Adds a time, which can follow a date and precede an offset: `12:00`, `12:00:30.5+01:00`.
    fn add_time(&mut self, word: &str) -> Option<()> {
        if let Some((date, time)) = word.split_once('t') {
            self.add(date)?;
            return self.add_time(time);
        }
        let end = word.find(['z', '+', '-']).unwrap_or(word.len());
        let (time, zone) = word.split_at(end);
        if !zone.is_empty() {
            set(&mut self.offset, offset(zone)?)?;
        }
        let time = match time.matches(':').count() {
            1 => Time::strptime("%H:%M", time),
            _ => Time::strptime("%H:%M:%S%.f", time),
        };
        set(&mut self.time, time.ok()?)
    }

    /// Turns the parts into a point in time. The year defaults to this year, the time to midnight
    /// and, without a date, the date to today.
    fn resolve(self, now: &Zoned) -> Option<Zoned> {
        let date = match (self.date, self.day, self.month, self.year) {
            (Some(date), None, None, None) => date,
            (None, Some(day), Some(month), year) => {
                Date::new(year.unwrap_or(now.year()), month, day).ok()?
            }
            (None, None, None, None) if self.time.is_some() => now.date(),
            _ => return None,
        };
        let date_time = DateTime::from_parts(date, self.time.unwrap_or(Time::midnight()));
        match self.offset {
            Some(offset) => date_time.to_zoned(TimeZone::fixed(offset)).ok(),
            None => date_time.to_zoned(now.time_zone().clone()).ok(),
        }
    }
}

/// Sets a part that is not set yet.
fn set<T>(part: &mut Option<T>, value: T) -> Option<()> {
    part.is_none().then(|| *part = Some(value))
}

/// Parses `utc`, `gmt`, `z`, `+01`, `+0100` or `+01:00`.
fn offset(word: &str) -> Option<Offset> {
    if matches!(word, "utc" | "gmt" | "z") {
        return Some(Offset::UTC);
    }
    let digits = word.strip_prefix(['+', '-'])?.replace(':', "");
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i32 = digits.parse().ok()?;
    let seconds = match digits.len() {
        2 => number * 3600,
        4 if number % 100 < 60 => number / 100 * 3600 + number % 100 * 60,
        _ => return None,
    };
    // No zone is further from UTC than 14 hours.
    if seconds > 14 * 3600 {
        return None;
    }
    Offset::from_seconds(if word.starts_with('-') { -seconds } else { seconds }).ok()
}

/// Formats times in the local zone.
#[derive(Debug)]
pub struct LocalTime(TimeZone);

impl LocalTime {
    /// Takes the zone of the environment.
    pub fn new() -> Self {
        Self(TimeZone::system())
    }

    /// Formats a time to the minute: `2024-01-31 12:34 +0100`.
    pub fn minute(&self, stamp: Timestamp) -> String {
        let (civil, zone) = self.civil(stamp);
        format!("{} {zone}", &civil[..civil.len() - 13])
    }

    /// Formats a time to the minute without the zone, as tar(1) does: `2024-01-31 12:34`.
    pub fn short(&self, stamp: Timestamp) -> String {
        let (civil, _) = self.civil(stamp);
        civil[..civil.len() - 13].to_owned()
    }

    /// Formats a time in full: `2024-01-31 12:34:56.000000007 +0100`.
    pub fn full(&self, stamp: Timestamp) -> String {
        let (civil, zone) = self.civil(stamp);
        format!("{civil} {zone}")
    }

    /// The local date and time, and the offset of the zone at that time. Times beyond the years
    /// that zones are defined for are in UTC.
    fn civil(&self, stamp: Timestamp) -> (String, String) {
        let instant = Instant::from_second(stamp.sec);
        let offset = instant.map_or(0, |instant| self.0.to_offset(instant).seconds());
        let sign = if offset < 0 { '-' } else { '+' };
        let minutes = offset.unsigned_abs() / 60;
        let zone = format!("{sign}{:02}{:02}", minutes / 60, minutes % 60);
        (civil(i128::from(stamp.sec) + i128::from(offset), stamp.nsec), zone)
    }
}

/// Formats seconds since 1970: `2024-01-31 12:34:56.000000007`. Years can have more than four
/// digits.
fn civil(sec: i128, nsec: u32) -> String {
    let (year, month, day) = civil_date(sec.div_euclid(86_400));
    let second = sec.rem_euclid(86_400);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{nsec:09}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Converts days since 1970-01-01 to year, month and day of the proleptic Gregorian calendar
/// (the algorithm `civil_from_days` of Howard Hinnant, "chrono-compatible low-level date
/// algorithms"). It computes in 128 bits, as seconds can be any 64-bit number.
fn civil_date(days: i128) -> (i128, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-06-15 12:00 in a zone one hour east of Greenwich.
    fn now() -> Zoned {
        let noon = jiff::civil::date(2024, 6, 15).at(12, 0, 0, 0);
        noon.to_zoned(TimeZone::fixed(jiff::tz::offset(1))).unwrap()
    }

    #[test]
    fn seconds_are_parsed() {
        let at = |text| parse_at(text, &now());
        assert_eq!(at("@17"), Ok((17, 0)));
        assert_eq!(at("1.25"), Ok((1, 250_000_000)));
        assert_eq!(at("-1.25"), Ok((-2, 750_000_000)));
        assert_eq!(at("1700000000"), Ok((1_700_000_000, 0)));
        assert_eq!(at("@20240101"), Ok((20_240_101, 0)));
        assert!(at("20240101").unwrap_err().contains("2024-01-01 or @20240101"));
    }

    #[test]
    fn dates_are_parsed_as_people_write_them() {
        let noon = 1_706_698_800; // 2024-01-31 11:00 UTC, 12:00 local
        for text in [
            "2024-01-31 12:00",
            "2024-01-31T12:00:00",
            "2024-01-31T11:00:00Z",
            "2024-01-31 11:00 UTC",
            "2024-01-31 13:00:00 +0200",
            "2024-01-31T06:00:00.000-05:00",
            "2024/01/31 12:00",
            "31 Jan 2024 12:00",
            "January 31, 2024 12:00",
            "Wed, 31 Jan 2024 11:00:00 +0000",
            "Wed Jan 31 11:00:00 UTC 2024",
        ] {
            assert_eq!(parse_at(text, &now()), Ok((noon, 0)), "{text}");
        }
        assert_eq!(parse_at("2024-01-31", &now()), Ok((noon - 43_200, 0)));
        assert_eq!(parse_at("31 january", &now()), Ok((noon - 43_200, 0)));
        assert_eq!(parse_at("2024-01-31T12:00:00.5", &now()), Ok((noon, 500_000_000)));
        let at = split(now().timestamp()).0;
        for (text, sec) in [
            ("now", at),
            ("yesterday", at - 86_400),
            ("tomorrow", at + 86_400),
            ("2 days ago", at - 2 * 86_400),
            ("3 hours ago", at - 3 * 3600),
            ("11:00", at - 3600),
        ] {
            assert_eq!(parse_at(text, &now()), Ok((sec, 0)), "{text}");
        }
        for wrong in [
            "",
            "soon",
            "1.x",
            "2024-02-30",
            "2024-01-31T",
            "2024",
            "31 31 Jan",
            "25:00",
            "2024-01-31 2024-01-31",
            "ago",
            "x ago",
            "2024-01-31 12:00 +2500",
        ] {
            assert!(parse_at(wrong, &now()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_formatted_with_their_zone() {
        let utc = LocalTime(TimeZone::UTC);
        let at = |sec, nsec| utc.full(Timestamp { sec, nsec });
        assert_eq!(at(0, 0), "1970-01-01 00:00:00.000000000 +0000");
        assert_eq!(at(951_782_400, 7), "2000-02-29 00:00:00.000000007 +0000");
        assert_eq!(at(-1, 999_999_999), "1969-12-31 23:59:59.999999999 +0000");
        assert_eq!(at(-2_208_988_800, 0), "1900-01-01 00:00:00.000000000 +0000");
        for sec in [i64::MIN, i64::MAX] {
            assert!(at(sec, 0).len() > 20);
        }
        let west = LocalTime(TimeZone::fixed(Offset::from_seconds(-5 * 3600 - 1800).unwrap()));
        assert_eq!(west.minute(Timestamp { sec: 0, nsec: 0 }), "1969-12-31 18:30 -0530");
        assert_eq!(west.short(Timestamp { sec: 0, nsec: 0 }), "1969-12-31 18:30");
    }
}
