//! Times of MS-DOS, Windows and Unix in zip archives. Times of MS-DOS have no zone and are read as
//! UTC.

use shale_format::Timestamp;

/// What a time of 32 bits may be off by: a time of MS-DOS is of an unknown zone.
const ZONE_SECONDS_MAX: i64 = 2 * 86_400;
/// Seconds from 1601 to 1970.
const WINDOWS_EPOCH: i64 = 11_644_473_600;

/// Seconds since 1970 in 32 bits, which some writers mean with a sign and others without. The time
/// of MS-DOS tells, as it can say 2038 to 2107 but nothing before 1980.
pub(super) fn from_unix(seconds: u32, dos: Timestamp) -> Timestamp {
    let unsigned = i64::from(seconds);
    let is_late = dos.sec >= (1 << 31) - ZONE_SECONDS_MAX;
    let sec = if is_late { unsigned } else { i64::from(seconds.cast_signed()) };
    Timestamp { sec, nsec: 0 }
}

/// Steps of 100 ns since 1601.
pub(crate) fn from_windows(ticks: u64) -> Timestamp {
    Timestamp {
        sec: (ticks / 10_000_000) as i64 - WINDOWS_EPOCH,
        nsec: (ticks % 10_000_000 * 100) as u32,
    }
}

/// `None` before 1601 and after the year 60,000.
pub(crate) fn to_windows(time: Timestamp) -> Option<u64> {
    let sec = u64::try_from(time.sec.checked_add(WINDOWS_EPOCH)?).ok()?;
    sec.checked_mul(10_000_000)?.checked_add(u64::from(time.nsec / 100))
}

/// A date and a time of MS-DOS; 1970 for a date that is none.
pub(crate) fn from_dos(date: u64, time: u64) -> Timestamp {
    let (year, month, day) =
        (1980 + (date >> 9) as i64, (date >> 5 & 15) as i64, (date & 31) as i64);
    if month == 0 || day == 0 {
        return Timestamp::default();
    }
    // Days since 1970 of a date of the Gregorian calendar, years beginning in March.
    let years = if month <= 2 { year - 1 } else { year };
    let months = (month + 9) % 12;
    let days = 365 * years + years / 4 - years / 100 + years / 400 + (months * 306 + 5) / 10 + day
        - 1
        - 719_468;
    let seconds = (time >> 11) * 3600 + (time >> 5 & 63) * 60 + (time & 31) * 2;
    Timestamp { sec: days * 86_400 + seconds as i64, nsec: 0 }
}

/// A date and a time of MS-DOS; the nearest one outside of 1980 to 2107.
pub(super) fn to_dos(time: Timestamp) -> (u16, u16) {
    const FIRST: i64 = 315_532_800;
    const LAST: i64 = 4_354_819_199;
    let sec = time.sec.clamp(FIRST, LAST);
    let (day, second) = (sec.div_euclid(86_400), sec.rem_euclid(86_400));
    // Years begin in March here, four centuries have 146,097 days, and none of these days is
    // before the first of them.
    let day = day + 719_468;
    let (century4, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * century4 + year + next_year;
    let date = (year - 1980) << 9 | month << 5 | day;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let time = hour << 11 | minute << 5 | (second / 2);
    (date as u16, time as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_dos_are_days_of_the_calendar_both_ways() {
        assert_eq!(from_dos(1 << 5 | 1, 0).sec, 315_532_800);
        // 2024-02-29 12:30:58
        let date = (44 << 9) | (2 << 5) | 29;
        let time = (12 << 11) | (30 << 5) | 29;
        assert_eq!(from_dos(date, time).sec, 1_709_209_858);
        for sec in (315_532_800..4_354_819_199).step_by(86_400 * 13 + 3601).chain([4_354_819_198]) {
            let (date, time) = to_dos(Timestamp { sec, nsec: 0 });
            assert_eq!(from_dos(u64::from(date), u64::from(time)).sec, sec - sec % 2);
        }
        assert_eq!(to_dos(Timestamp { sec: -5, nsec: 0 }), (1 << 5 | 1, 0));
    }

    #[test]
    fn times_of_32_bits_are_before_1970_or_after_2038_as_dos_says() {
        let dos = |sec| Timestamp { sec, nsec: 0 };
        assert_eq!(from_unix(5, dos(315_532_800)).sec, 5);
        assert_eq!(from_unix(u32::MAX, dos(315_532_800)).sec, -1);
        assert_eq!(from_unix(4_000_000_000, dos(4_000_003_600)).sec, 4_000_000_000);
        assert_eq!(from_unix(1 << 31, dos((1 << 31) - 40_000)).sec, 1 << 31);
    }

    #[test]
    fn ticks_of_windows_are_times_both_ways() {
        for (sec, nsec) in [(0, 0), (-5_000_000_000, 100), (1_700_000_000, 999_999_900)] {
            let time = Timestamp { sec, nsec };
            assert_eq!(from_windows(to_windows(time).unwrap()), time);
        }
        assert_eq!(to_windows(Timestamp { sec: -11_644_473_601, nsec: 0 }), None);
        assert_eq!(to_windows(Timestamp { sec: i64::MAX, nsec: 0 }), None);
    }
}
