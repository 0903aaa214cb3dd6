//! Which snapshots of an image are kept, as restic's `forget` decides it.

use shale_read::Snapshot;

use crate::states::time_of;

/// How many snapshots are kept.
///
/// A snapshot is kept if any rule keeps it. The rules of days, weeks, months and years keep the
/// newest snapshot of each of the last N periods that have one. The time of a snapshot is its name,
/// if that is a time in UTC; a snapshot with another name has no time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// The last N snapshots.
    pub last: u32,
    /// The newest of each of N days.
    pub daily: u32,
    /// The newest of each of N weeks, from Monday to Sunday.
    pub weekly: u32,
    /// The newest of each of N months.
    pub monthly: u32,
    /// The newest of each of N years.
    pub yearly: u32,
    /// Snapshots with these numbers.
    pub numbers: Vec<usize>,
}

/// What becomes of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fate {
    /// Number of the snapshot.
    pub number: usize,
    /// The rules that keep it; if there are none, it goes.
    pub reasons: Vec<&'static str>,
    /// Its name is not a time, so no rule by time can keep it.
    pub has_no_time: bool,
}

impl Fate {
    /// Returns whether it is kept.
    pub fn is_kept(&self) -> bool {
        !self.reasons.is_empty()
    }
}

/// Maps a day since 1970-01-01 to the period that it belongs to.
type PeriodOf = fn(i64) -> i64;

impl Retention {
    shale_host::setters! {
        last: u32,
        daily: u32,
        weekly: u32,
        monthly: u32,
        yearly: u32,
        numbers: Vec<usize>,
    }

    /// Returns whether it would keep nothing of any image.
    pub fn keeps_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Decides about the snapshots of an image, oldest first.
    pub fn decide(&self, snapshots: &[Snapshot]) -> Vec<Fate> {
        let times: Vec<Option<i64>> = snapshots.iter().map(time_of).collect();
        let fates = (0..).zip(&times).map(|(number, time)| Fate {
            number,
            has_no_time: time.is_none(),
            ..Fate::default()
        });
        let mut fates: Vec<Fate> = fates.collect();
        let count = fates.len();
        for fate in &mut fates {
            if count - fate.number <= self.last as usize {
                fate.reasons.push("last");
            }
            if self.numbers.contains(&fate.number) {
                fate.reasons.push("named");
            }
        }
        let mut by_time: Vec<(i64, usize)> = times
            .iter()
            .enumerate()
            .filter_map(|(number, time)| Some(((*time)?, number)))
            .collect();
        by_time.sort_unstable();
        let rules: [(u32, &'static str, PeriodOf); 4] = [
            (self.daily, "daily", |day| day),
            // 1970-01-01 was a Thursday.
            (self.weekly, "weekly", |day| (day + 3).div_euclid(7)),
            (self.monthly, "monthly", month_of),
            (self.yearly, "yearly", |day| month_of(day).div_euclid(12)),
        ];
        for (periods, name, period_of) in rules {
            let mut left = periods;
            let mut last = None;
            for &(time, number) in by_time.iter().rev() {
                let period = period_of(time.div_euclid(86_400));
                if left == 0 {
                    break;
                }
                if last != Some(period) {
                    last = Some(period);
                    left -= 1;
                    fates[number].reasons.push(name);
                }
            }
        }
        fates
    }
}

/// Months since the year 0, of a day since 1970-01-01, in the Gregorian calendar (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn month_of(day: i64) -> i64 {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Counted from March.
    let month = (5 * of_year + 2) / 153;
    (era * 400 + year) * 12 + month + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(retention: &Retention, names: &[&str]) -> Vec<usize> {
        let snapshots = names
            .iter()
            .map(|name| Snapshot { name: name.as_bytes().to_vec(), ..Snapshot::default() });
        let snapshots: Vec<Snapshot> = snapshots.collect();
        let fates = retention.decide(&snapshots);
        fates.iter().filter(|fate| fate.is_kept()).map(|fate| fate.number).collect()
    }

    #[test]
    fn months_and_years_follow_the_calendar() {
        // Year 1970 is months 23640 to 23651.
        assert_eq!(month_of(0), 1970 * 12);
        assert_eq!(month_of(30), 1970 * 12);
        assert_eq!(month_of(31), 1970 * 12 + 1);
        assert_eq!(month_of(-1), 1969 * 12 + 11);
        // 2024-02-29 and 2024-03-01.
        assert_eq!(month_of(19_782), 2024 * 12 + 1);
        assert_eq!(month_of(19_783), 2024 * 12 + 2);
        assert_eq!(month_of(19_783).div_euclid(12), 2024);
    }

    #[test]
    fn the_newest_of_each_period_stays() {
        let names = [
            "2025-12-30T08:00:00Z", // Tuesday of the week of 2025-12-29
            "2025-12-31T08:00:00Z",
            "2026-01-01T08:00:00Z", // Thursday of the same week
            "2026-01-01T20:00:00Z",
            "2026-01-05T08:00:00Z", // Monday
            "release",
        ];
        let with = Retention::default();
        assert_eq!(kept(&with, &names), [] as [usize; 0]);
        assert!(with.keeps_nothing());
        assert_eq!(kept(&with.clone().last(2), &names), [4, 5]);
        assert_eq!(kept(&with.clone().daily(3), &names), [1, 3, 4]);
        assert_eq!(kept(&with.clone().weekly(2), &names), [3, 4]);
        assert_eq!(kept(&with.clone().monthly(9), &names), [1, 4]);
        assert_eq!(kept(&with.clone().yearly(1), &names), [4]);
        assert_eq!(kept(&with.clone().yearly(1).numbers(vec![0, 5]), &names), [0, 4, 5]);
        let fates = with.clone().daily(1).decide(&[Snapshot::default()]);
        assert!(fates[0].has_no_time && !fates[0].is_kept());
    }

    #[test]
    fn times_count_and_not_positions() {
        let names = ["2026-03-02", "2026-03-01"];
        assert_eq!(kept(&Retention::default().daily(1), &names), [0]);
        assert_eq!(kept(&Retention::default().last(1), &names), [1]);
    }
}
