//! Encodes what an ISO 9660 image is made of: descriptors, directory records with the fields of
//! Rock Ridge, and path tables. Source: ECMA-119, IEEE P1281 (SUSP), IEEE P1282 (Rock Ridge) and
//! Microsoft's Joliet specification.
//!
//! Knows neither where a structure lies nor where its values come from.

use std::collections::{HashMap, HashSet};

use shale_format::Timestamp;
use shale_model::utc_text;

use super::volume::SECTOR_LEN;

/// Bytes of a directory record; the field of its length has 8 bits, and lengths are even.
const RECORD_LEN_MAX: usize = 254;
const RECORD_HEAD_LEN: usize = 33;
/// Bytes of the field that says where fields go on.
const CONTINUATION_LEN: usize = 28;
/// Bytes of a field of Rock Ridge.
const FIELD_LEN_MAX: usize = 250;
pub(super) const FLAG_DIRECTORY: u8 = 2;
pub(super) const FLAG_CONTINUES: u8 = 0x80;
/// Seconds from 1900-01-01 to 1970, and of 2155-12-31 23:59:59.
const TIME_MIN: i64 = -2_208_988_800;
const TIME_MAX: i64 = 5_869_583_999;

/// A number in both byte orders.
fn both(number: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&number.to_le_bytes());
    out[4..].copy_from_slice(&number.to_be_bytes());
    out
}

fn both_16(number: u16) -> [u8; 4] {
    let mut out = [0; 4];
    out[..2].copy_from_slice(&number.to_le_bytes());
    out[2..].copy_from_slice(&number.to_be_bytes());
    out
}

/// The time that ISO 9660 can say, from 1900 to 2155, nearest to this one.
pub(super) fn nearest(time: Timestamp) -> i64 {
    time.sec.clamp(TIME_MIN, TIME_MAX)
}

/// The seven bytes of a date.
pub(super) fn date(sec: i64) -> [u8; 7] {
    let text = utc_text(sec.clamp(TIME_MIN, TIME_MAX));
    let mut parts = text.split(|sign: char| !sign.is_ascii_digit());
    let mut next = || parts.next().and_then(|part| part.parse::<u32>().ok()).unwrap_or_default();
    let year = next().saturating_sub(1900) as u8;
    let [month, day, hour, minute, second] = std::array::from_fn(|_| next() as u8);
    [year, month, day, hour, minute, second, 0]
}

/// What a directory record says beside its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) date: [u8; 7],
    pub(super) flags: u8,
}

impl Record {
    /// Encodes the record without fields.
    pub(super) fn encode(&self, name: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 2];
        out.extend_from_slice(&both(self.start));
        out.extend_from_slice(&both(self.len));
        out.extend_from_slice(&self.date);
        out.extend_from_slice(&[self.flags, 0, 0]);
        out.extend_from_slice(&both_16(1));
        out.push(name.len() as u8);
        out.extend_from_slice(name);
        out.resize(out.len().next_multiple_of(2), 0);
        out[0] = out.len() as u8;
        out
    }
}

/// A directory that is being encoded: its records, and the areas in which their fields go on.
#[derive(Debug, Default)]
pub(super) struct Records {
    records: Vec<u8>,
    continued: Vec<u8>,
    /// Where sectors of the latter are named, counted from its first: in the records or in itself.
    places: Vec<(bool, usize, u32)>,
}

impl Records {
    /// Adds a record.
    pub(super) fn add(&mut self, record: Record, name: &[u8], fields: &[Vec<u8>]) {
        let mut bytes = record.encode(name);
        let (now, rest) = split(fields, RECORD_LEN_MAX - bytes.len());
        now.iter().for_each(|field| bytes.extend_from_slice(field));
        let mut place = None;
        if !rest.is_empty() {
            let (sector, field) = self.go_on(rest);
            place = Some((bytes.len() + 4, sector));
            bytes.extend_from_slice(&field);
        }
        bytes.resize(bytes.len().next_multiple_of(2), 0);
        bytes[0] = bytes.len() as u8;
        let sector_len = SECTOR_LEN as usize;
        if self.records.len() % sector_len + bytes.len() > sector_len {
            self.records.resize(self.records.len().next_multiple_of(sector_len), 0);
        }
        if let Some((at, sector)) = place {
            self.places.push((false, self.records.len() + at, sector));
        }
        self.records.extend_from_slice(&bytes);
    }

    /// Puts fields into an area of their own. Returns its sector and the field that names it.
    fn go_on(&mut self, fields: &[Vec<u8>]) -> (u32, [u8; CONTINUATION_LEN]) {
        let sector_len = SECTOR_LEN as usize;
        let used = self.continued.len() % sector_len;
        let all_len: usize = fields.iter().map(Vec::len).sum();
        if used + all_len > sector_len {
            self.continued.resize(self.continued.len().next_multiple_of(sector_len), 0);
        }
        let start = self.continued.len();
        let (now, rest) = split(fields, sector_len - start % sector_len);
        now.iter().for_each(|field| self.continued.extend_from_slice(field));
        if !rest.is_empty() {
            let at = self.continued.len();
            self.continued.extend_from_slice(&[0; CONTINUATION_LEN]);
            let end = self.continued.len();
            let (sector, field) = self.go_on(rest);
            self.continued[at..end].copy_from_slice(&field);
            self.places.push((true, at + 4, sector));
            return continuation(start, end);
        }
        continuation(start, self.continued.len())
    }

    /// Sectors of the records and of the areas.
    pub(super) fn sector_counts(&self) -> (u32, u32) {
        let count = |len: usize| (len as u64).div_ceil(SECTOR_LEN) as u32;
        (count(self.records.len()), count(self.continued.len()))
    }

    /// All bytes, in whole sectors, for a directory that begins in the sector `start`.
    pub(super) fn finish(mut self, start: u32) -> Vec<u8> {
        let (record_count, _) = self.sector_counts();
        let base = start + record_count;
        for (is_continued, at, sector) in self.places {
            let bytes = if is_continued { &mut self.continued } else { &mut self.records };
            bytes[at..at + 8].copy_from_slice(&both(base + sector));
        }
        let sector_len = SECTOR_LEN as usize;
        self.records.resize(self.records.len().next_multiple_of(sector_len), 0);
        self.records.extend_from_slice(&self.continued);
        self.records.resize(self.records.len().next_multiple_of(sector_len), 0);
        self.records
    }
}

/// The sector of an area, and a field that says how much of that sector it is.
fn continuation(start: usize, end: usize) -> (u32, [u8; CONTINUATION_LEN]) {
    let sector_len = SECTOR_LEN as usize;
    let mut field = [0; CONTINUATION_LEN];
    field[..4].copy_from_slice(b"CE\x1c\x01");
    field[12..20].copy_from_slice(&both((start % sector_len) as u32));
    field[20..28].copy_from_slice(&both((end - start) as u32));
    ((start / sector_len) as u32, field)
}

/// Splits fields into those that fit into `room` bytes, with a continuation unless all do, and the
/// rest.
fn split(fields: &[Vec<u8>], room: usize) -> (&[Vec<u8>], &[Vec<u8>]) {
    let all_len: usize = fields.iter().map(Vec::len).sum();
    if all_len <= room {
        return (fields, &[]);
    }
    let mut left = room.saturating_sub(CONTINUATION_LEN);
    let fits = |field: &Vec<u8>| left.checked_sub(field.len()).map(|rest| left = rest).is_some();
    let mut fits = fits;
    let count = fields.iter().take_while(|field| fits(field)).count();
    fields.split_at(count)
}

fn field(signature: &[u8; 2], bytes: &[u8]) -> Vec<u8> {
    let mut out = signature.to_vec();
    out.extend_from_slice(&[(bytes.len() + 4) as u8, 1]);
    out.extend_from_slice(bytes);
    out
}

/// The fields that say that the fields of Rock Ridge follow; for the first record of the root.
pub(super) fn announcement() -> [Vec<u8>; 2] {
    const ID: &[u8] = b"IEEE_P1282";
    const TEXT: &[u8] =
        b"THE IEEE P1282 PROTOCOL PROVIDES SUPPORT FOR POSIX FILE SYSTEM SEMANTICS.";
    const SOURCE: &[u8] = b"PLEASE CONTACT THE IEEE STANDARDS DEPARTMENT, PISCATAWAY, NJ, USA.";
    let mut reference = vec![ID.len() as u8, TEXT.len() as u8, SOURCE.len() as u8, 1];
    [ID, TEXT, SOURCE].iter().for_each(|part| reference.extend_from_slice(part));
    [field(b"SP", &[0xbe, 0xef, 0]), field(b"ER", &reference)]
}

/// Mode, links, owners and number of an inode.
pub(super) fn posix(mode: u32, link_count: u32, owner: (u32, u32), serial: u32) -> Vec<u8> {
    let numbers = [mode, link_count, owner.0, owner.1, serial];
    field(b"PX", &numbers.map(both).concat())
}

/// The time of the last change.
pub(super) fn times(date: [u8; 7]) -> Vec<u8> {
    field(b"TF", &[&[2], &date[..]].concat())
}

/// A device. Small numbers are packed as all programs read them, others as Linux does.
pub(super) fn device((major, minor): (u32, u32)) -> Vec<u8> {
    let numbers = match (major, minor) {
        (1..0x1000, 0..0x100) => [0, major << 8 | minor],
        _ => [major, minor],
    };
    field(b"PN", &numbers.map(both).concat())
}

/// A name, in one field or two.
pub(super) fn name(name: &[u8]) -> Vec<Vec<u8>> {
    let parts: Vec<&[u8]> = name.chunks(FIELD_LEN_MAX - 5).collect();
    let last = parts.len().saturating_sub(1);
    let part = |(number, part): (usize, &&[u8])| {
        field(b"NM", &[&[u8::from(number < last)], *part].concat())
    };
    parts.iter().enumerate().map(part).collect()
}

/// Returns a target as Rock Ridge says it, which has no empty components.
pub(super) fn plain_target(target: &[u8]) -> Vec<u8> {
    let parts = target.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
    let joined = parts.collect::<Vec<_>>().join(&b'/');
    if target.starts_with(b"/") { [b"/", &joined[..]].concat() } else { joined }
}

/// The target of a symbolic link, in components.
pub(super) fn target(target: &[u8]) -> Vec<Vec<u8>> {
    let mut components: Vec<Vec<u8>> = Vec::new();
    if target.starts_with(b"/") {
        components.push(vec![8, 0]);
    }
    for part in target.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
        match part {
            b"." => components.push(vec![2, 0]),
            b".." => components.push(vec![4, 0]),
            part => {
                let pieces: Vec<&[u8]> = part.chunks(FIELD_LEN_MAX - 7).collect();
                for (number, piece) in pieces.iter().enumerate() {
                    let goes_on = u8::from(number + 1 < pieces.len());
                    components.push([&[goes_on, piece.len() as u8], *piece].concat());
                }
            }
        }
    }
    // As many components in a field as fit; all but the last field say that there is more.
    let mut bodies: Vec<Vec<u8>> = vec![vec![0]];
    for component in components {
        match bodies.last_mut() {
            Some(body) if body.len() + component.len() + 4 <= FIELD_LEN_MAX => {
                body.extend_from_slice(&component);
            }
            _ => bodies.push([&[0], &component[..]].concat()),
        }
    }
    let last = bodies.len() - 1;
    for body in &mut bodies[..last] {
        body[0] = 1;
    }
    bodies.iter().map(|body| field(b"SL", body)).collect()
}

/// Makes names that are valid in one directory, and no two of them equal.
#[derive(Debug, Default)]
pub(super) struct Identifiers {
    taken: HashSet<Vec<u8>>,
    /// For names that were taken, the last number that was tried.
    numbers: HashMap<Vec<u8>, u32>,
}

impl Identifiers {
    /// A name of letters, digits and underscores, as every image has.
    pub(super) fn plain(&mut self, name: &[u8], is_directory: bool) -> Vec<u8> {
        let point = match is_directory {
            true => None,
            false => name.iter().rposition(|&byte| byte == b'.').filter(|at| *at > 0),
        };
        let (stem, ending) = match point {
            Some(at) => (&name[..at], &name[at + 1..]),
            None => (name, &b""[..]),
        };
        let valid = |part: &[u8], len: usize| -> Vec<u8> {
            let plain = |byte: u8| match byte.to_ascii_uppercase() {
                byte @ (b'A'..=b'Z' | b'0'..=b'9' | b'_') => byte,
                _ => b'_',
            };
            part.iter().take(len).map(|&byte| plain(byte)).collect()
        };
        let (stem, ending) = (valid(stem, 24), valid(ending, 3));
        let whole = |stem: &[u8]| match is_directory {
            true => stem.to_vec(),
            false => [stem, b".", &ending, b";1"].concat(),
        };
        self.unique(whole(&stem), |number| {
            let number = format!("_{number}");
            whole(&[&stem[..stem.len().min(24 - number.len())], number.as_bytes()].concat())
        })
    }

    /// A name of Joliet: up to 64 units of UTF-16, some signs replaced.
    pub(super) fn joliet(&mut self, name: &[u8], is_directory: bool) -> Vec<u8> {
        const UNITS_MAX: usize = 64;
        let text = String::from_utf8_lossy(name);
        let valid = |sign: char| match sign {
            '*' | '/' | ':' | ';' | '?' | '\\' | '\0'..'\x20' => '_',
            sign => sign,
        };
        let cut = |units_max: usize| -> String {
            let mut units = 0;
            let fits = |sign: &char| {
                units += sign.len_utf16();
                units <= units_max
            };
            text.chars().map(valid).take_while(fits).collect()
        };
        let end = if is_directory { "" } else { ";1" };
        let whole = |text: String| -> Vec<u8> {
            (text + end).encode_utf16().flat_map(u16::to_be_bytes).collect()
        };
        self.unique(whole(cut(UNITS_MAX)), |number| {
            let number = format!("~{number}");
            whole(cut(UNITS_MAX - number.len()) + &number)
        })
    }

    fn unique(&mut self, name: Vec<u8>, numbered: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
        if self.taken.insert(name.clone()) {
            return name;
        }
        let mut number = self.numbers.get(&name).copied().unwrap_or(0);
        loop {
            number += 1;
            let other = numbered(number);
            if self.taken.insert(other.clone()) {
                self.numbers.insert(name, number);
                return other;
            }
        }
    }
}

/// What a descriptor says.
#[derive(Debug)]
pub(super) struct Volume<'a> {
    pub(super) is_joliet: bool,
    pub(super) sector_count: u32,
    pub(super) path_table_len: u32,
    /// Sectors of the path tables in little-endian and big-endian order.
    pub(super) path_tables: (u32, u32),
    pub(super) root: &'a [u8],
}

impl Volume<'_> {
    /// Encodes the descriptor.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; SECTOR_LEN as usize];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        // Text that says nothing is spaces.
        let space = |len: usize| match self.is_joliet {
            false => vec![b' '; len],
            true => [0, b' '].repeat(len / 2 + 1)[..len].to_vec(),
        };
        put(0, &[if self.is_joliet { 2 } else { 1 }]);
        put(1, b"CD001\x01");
        for (at, len) in [(8, 32), (40, 32), (190, 512), (702, 111)] {
            put(at, &space(len));
        }
        let volume = "SHALE";
        match self.is_joliet {
            false => put(40, volume.as_bytes()),
            true => put(40, &volume.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>()),
        }
        put(80, &both(self.sector_count));
        if self.is_joliet {
            put(88, b"%/E");
        }
        put(120, &both_16(1));
        put(124, &both_16(1));
        put(128, &both_16(SECTOR_LEN as u16));
        put(132, &both(self.path_table_len));
        put(140, &self.path_tables.0.to_le_bytes());
        put(148, &self.path_tables.1.to_be_bytes());
        put(156, self.root);
        for at in [813, 830, 847, 864] {
            put(at, b"0000000000000000\0");
        }
        put(881, &[1]);
        out
    }
}

/// The descriptor after the last.
pub(super) fn terminator() -> Vec<u8> {
    let mut out = vec![0; SECTOR_LEN as usize];
    out[..7].copy_from_slice(b"\xffCD001\x01");
    out
}

/// A directory in a path table.
#[derive(Debug)]
pub(super) struct PathTableEntry {
    pub(super) name: Vec<u8>,
    pub(super) start: u32,
    /// The number of its parent, from 1.
    pub(super) parent: u16,
}

/// Encodes a path table.
pub(super) fn path_table(entries: &[PathTableEntry], is_big_endian: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        out.extend_from_slice(&[entry.name.len() as u8, 0]);
        match is_big_endian {
            true => out.extend_from_slice(&entry.start.to_be_bytes()),
            false => out.extend_from_slice(&entry.start.to_le_bytes()),
        }
        match is_big_endian {
            true => out.extend_from_slice(&entry.parent.to_be_bytes()),
            false => out.extend_from_slice(&entry.parent.to_le_bytes()),
        }
        out.extend_from_slice(&entry.name);
        out.resize(out.len().next_multiple_of(2), 0);
    }
    out
}

/// What names are sorted by: stem and ending, shorter ones first; or as they are.
pub(super) fn order(name: &[u8], is_joliet: bool) -> (&[u8], &[u8]) {
    let point = name.iter().position(|&byte| byte == b'.').filter(|_| !is_joliet);
    name.split_at(point.unwrap_or(name.len()))
}

/// Bytes of a record head, which a name follows.
const _: () = assert!(RECORD_HEAD_LEN + 132 < RECORD_LEN_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_that_are_read() {
        for sec in [TIME_MIN, -1, 0, 951_827_696, TIME_MAX] {
            let expected = Some(Timestamp { sec, nsec: 0 });
            assert_eq!(super::super::date::short(&date(sec)), expected);
        }
        assert_eq!(nearest(Timestamp { sec: i64::MAX, nsec: 0 }), TIME_MAX);
    }

    #[test]
    fn names_are_valid_and_never_equal() {
        let mut names = Identifiers::default();
        assert_eq!(names.plain(b"read me.text", false), b"READ_ME.TEX;1");
        assert_eq!(names.plain(b"read-me.tex", false), b"READ_ME_1.TEX;1");
        assert_eq!(names.plain(b"read~me.tex", false), b"READ_ME_2.TEX;1");
        assert_eq!(names.plain(b".profile", false), b"_PROFILE.;1");
        assert_eq!(names.plain(&[b'x'; 255], true), [b'X'; 24]);
        assert_eq!(names.plain(&[b'x'; 254], true), [&[b'X'; 22][..], b"_1"].concat());
        let mut names = Identifiers::default();
        let long = "ü".repeat(70);
        let first = names.joliet(long.as_bytes(), true);
        assert_eq!(super::super::record::joliet_name(&first).unwrap(), "ü".repeat(64).as_bytes());
        let second = names.joliet((long + "x").as_bytes(), true);
        let second = super::super::record::joliet_name(&second).unwrap();
        assert_eq!(second, ("ü".repeat(62) + "~1").as_bytes());
    }

    #[test]
    fn many_names_that_become_equal_cost_a_step_each() {
        let mut names = Identifiers::default();
        for n in 0..70_000 {
            names.plain(format!("{}{n}", "same".repeat(10)).as_bytes(), false);
        }
        assert_eq!(names.numbers.values().copied().max(), Some(69_999));
    }

    #[test]
    fn fields_go_on_in_sectors_and_never_across_them() {
        let mut records = Records::default();
        let record = Record { start: 0, len: 0, date: [0; 7], flags: 0 };
        let long: Vec<u8> = [b"t".repeat(400), b"..".to_vec(), b"u".repeat(3600)].join(&b'/');
        for n in 0..20 {
            let mut fields = vec![posix(0, 1, (0, 0), n)];
            fields.extend(name(&[b'n'; 255]));
            fields.extend(target(&long));
            records.add(record, b"X.;1", &fields);
        }
        let places = records.places.clone();
        let (record_count, continued_count) = records.sector_counts();
        let bytes = records.finish(100);
        assert_eq!(bytes.len(), (record_count + continued_count) as usize * 2048);
        for (is_continued, at, sector) in places {
            let base = if is_continued { record_count as usize * 2048 } else { 0 };
            let number = |at: usize| u32::from_le_bytes(*bytes[base + at..].first_chunk().unwrap());
            assert_eq!(number(at), 100 + record_count + sector);
            assert!(number(at + 8) + number(at + 16) <= 2048);
        }
    }
}
