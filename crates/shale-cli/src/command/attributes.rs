//! An inode for people and for machines: mode letters, times, one line of `ls -l`, JSON.

use serde_json::{Map, Value};
use shale::read::{Attributes, InodeKind, Timestamp};

use crate::text;

/// `drwxr-xr-x`.
pub fn mode_letters(attributes: &Attributes) -> String {
    let kind = match attributes.kind {
        InodeKind::File => '-',
        InodeKind::Directory => 'd',
        InodeKind::Symlink => 'l',
        InodeKind::BlockDevice => 'b',
        InodeKind::CharDevice => 'c',
        InodeKind::Fifo => 'p',
        InodeKind::Socket => 's',
    };
    let bits = attributes.permissions;
    let mut out = String::from(kind);
    for (shift, special, set, unset) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let three = bits >> shift & 7;
        out.push(if three & 4 != 0 { 'r' } else { '-' });
        out.push(if three & 2 != 0 { 'w' } else { '-' });
        out.push(match (three & 1 != 0, bits & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => set,
            (false, true) => unset,
        });
    }
    out
}

/// A word for the kind.
pub fn kind_name(kind: InodeKind) -> &'static str {
    shale::dump::kind_word(kind)
}

/// `2024-01-31 12:34:56.000000007`, UTC. Years beyond four digits are written out.
pub fn time(stamp: Timestamp) -> String {
    let days = stamp.sec.div_euclid(86_400);
    let second = stamp.sec.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:09}",
        second / 3600,
        second / 60 % 60,
        second % 60,
        stamp.nsec
    )
}

/// Year, month and day of a number of days since 1970-01-01, in the proleptic Gregorian calendar
/// (the algorithm `civil_from_days` of Howard Hinnant, "chrono-compatible low-level date
/// algorithms"). In 128 bits, as seconds may be any 64-bit number.
fn civil(days: i64) -> (i128, u32, u32) {
    let z = i128::from(days) + 719_468;
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

/// One line of `ls -l` up to the name.
pub fn long(attributes: &Attributes) -> String {
    let size = match attributes.kind {
        InodeKind::BlockDevice | InodeKind::CharDevice => {
            let (major, minor) = attributes.device();
            format!("{major},{minor}")
        }
        _ => attributes.size.to_string(),
    };
    let time = time(attributes.mtime);
    let minute = time.rfind(':').map_or(time.as_str(), |end| &time[..end]);
    format!(
        "{} {:>3} {:>5} {:>5} {:>11} {minute}",
        mode_letters(attributes),
        attributes.link_count,
        attributes.uid,
        attributes.gid,
        size
    )
}

/// Everything about an inode for machines.
pub fn as_json(attributes: &Attributes) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("inode", attributes.inode.into());
    put("kind", kind_name(attributes.kind).into());
    put("mode", format!("{:o}", attributes.mode()).into());
    put("uid", attributes.uid.into());
    put("gid", attributes.gid.into());
    put("links", attributes.link_count.into());
    put("size", attributes.size.into());
    put("mtime", text_time(attributes.mtime).into());
    if matches!(attributes.kind, InodeKind::BlockDevice | InodeKind::CharDevice) {
        let (major, minor) = attributes.device();
        put("device", format!("{major},{minor}").into());
    }
    object
}

/// Seconds and nanoseconds since 1970 as decimal text: exact, where a JSON number is not.
pub fn text_time(stamp: Timestamp) -> String {
    format!("{}.{:09}", stamp.sec, stamp.nsec)
}

/// The name of an inode, with what a symlink leads to.
pub fn with_target(name: &[u8], target: Option<&[u8]>, raw: bool) -> Vec<u8> {
    let mut out = text::shown(name, raw).into_owned();
    if let Some(target) = target {
        out.extend_from_slice(b" -> ");
        out.extend_from_slice(&text::shown(target, raw));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_date_does() {
        let at = |sec, nsec| time(Timestamp { sec, nsec });
        assert_eq!(at(0, 0), "1970-01-01 00:00:00.000000000");
        assert_eq!(at(951_782_400, 7), "2000-02-29 00:00:00.000000007");
        assert_eq!(at(-1, 999_999_999), "1969-12-31 23:59:59.999999999");
        assert_eq!(at(4_294_967_296, 0), "2106-02-07 06:28:16.000000000");
        assert_eq!(at(-2_208_988_800, 0), "1900-01-01 00:00:00.000000000");
        for sec in [i64::MIN, i64::MAX] {
            assert!(at(sec, 0).len() > 20);
        }
    }
}
