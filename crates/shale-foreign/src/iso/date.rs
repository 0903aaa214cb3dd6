//! Dates of directory records and of Rock Ridge.

use shale_format::Timestamp;

/// Days from 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March.
    let years = if month <= 2 { year - 1 } else { year };
    let months = (month + 9) % 12;
    365 * years + years.div_euclid(4) - years.div_euclid(100)
        + years.div_euclid(400)
        + (months * 306 + 5) / 10
        + day
        - 1
        - 719_468
}

/// A point in time, in a time zone given in quarters of an hour.
fn at(date: [i64; 3], time: [i64; 3], nsec: u32, zone: u8) -> Option<Timestamp> {
    let [year, month, day] = date;
    let [hour, minute, second] = time;
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let zone = i64::from(zone.cast_signed()) * 900;
    let sec = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone;
    Some(Timestamp { sec, nsec })
}

/// Reads the seven bytes of a directory record; `None` if they are no date.
pub(super) fn short(bytes: &[u8]) -> Option<Timestamp> {
    let &[year, month, day, hour, minute, second, zone] = bytes.first_chunk::<7>()?;
    let date = [1900 + i64::from(year), month.into(), day.into()];
    at(date, [hour.into(), minute.into(), second.into()], 0, zone)
}

/// Reads the 17 bytes of the long form; `None` if they are no date.
pub(super) fn long(bytes: &[u8]) -> Option<Timestamp> {
    let bytes = bytes.first_chunk::<17>()?;
    let number = |range: std::ops::Range<usize>| {
        bytes[range].iter().try_fold(0i64, |value, byte| {
            byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
        })
    };
    let date = [number(0..4)?, number(4..6)?, number(6..8)?];
    let time = [number(8..10)?, number(10..12)?, number(12..14)?];
    at(date, time, number(14..16)? as u32 * 10_000_000, bytes[16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let expected = Some(Timestamp { sec: 951_827_696, nsec: 0 });
        // 2000-02-29 13:34:56 at two hours east.
        assert_eq!(short(&[100, 2, 29, 14, 34, 56, 8]).map(|t| t.sec), Some(951_827_696));
        assert_eq!(long(b"2000022914345600\x08"), expected);
        assert_eq!(long(b"1969123123595950\0"), Some(Timestamp { sec: -1, nsec: 500_000_000 }));
        assert_eq!((short(&[0; 7]), long(&[b'0'; 17]), long(b"x")), (None, None, None));
    }
}
