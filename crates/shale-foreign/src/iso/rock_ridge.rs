//! What Rock Ridge adds to a directory record: names, permissions, owners, times, links, devices,
//! and directories that were moved because they were too deep.

use shale_format::Timestamp;
use shale_format::limits::{LINK_TARGET_LEN_MAX, NAME_LEN_MAX};

use super::date;
use super::record::differ;
use super::volume::SECTOR_LEN;
use crate::tree::{ImageFile, le};

/// The version of all fields.
const VERSION: u8 = 1;
/// Continuation areas of one record.
const CONTINUED_MAX: usize = 64;

/// Fields of one record.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) name: Option<Vec<u8>>,
    pub(super) posix: Option<Posix>,
    pub(super) target: Option<Vec<u8>>,
    /// Major and minor number.
    pub(super) device: Option<(u32, u32)>,
    pub(super) mtime: Option<Timestamp>,
    pub(super) atime: Option<Timestamp>,
    pub(super) btime: Option<Timestamp>,
    /// It stands for the directory in this sector.
    pub(super) child: Option<u64>,
    /// It is a directory that was moved; its place has a record with `child`.
    pub(super) is_moved: bool,
    /// Its bytes are compressed (zisofs), or it has holes.
    pub(super) is_special: Option<&'static str>,
    /// Bytes before the fields of other records, from the first record of the root.
    pub(super) skip: Option<usize>,
}

/// Mode, owners and identity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posix {
    pub(super) mode: u32,
    pub(super) link_count: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) serial: Option<u32>,
}

impl Fields {
    /// Reads the fields in `system` and in the areas that it continues in.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(super) fn read(file: &ImageFile, system: &[u8]) -> Result<Self, String> {
        let mut fields = Self::default();
        let mut names = Parts::default();
        let mut target = Target::default();
        let mut area = system.to_vec();
        for _ in 0..CONTINUED_MAX {
            let next = fields.add(&area, &mut names, &mut target)?;
            let Some((sector, offset, len)) = next else {
                fields.name = names.whole("name", NAME_LEN_MAX)?;
                fields.target = target.whole()?;
                return Ok(fields);
            };
            if offset.saturating_add(len) > SECTOR_LEN {
                return Err(format!("a continuation of {len} bytes at byte {offset} of a sector"));
            }
            area = file.read(sector * SECTOR_LEN + offset, len)?;
        }
        Err("its fields are continued too often: corrupt".to_owned())
    }

    /// Adds the fields of one area, and returns where they go on.
    fn add(
        &mut self,
        mut area: &[u8],
        names: &mut Parts,
        target: &mut Target,
    ) -> Result<Option<(u64, u64, u64)>, String> {
        let mut next = None;
        while let Some(head) = area.first_chunk::<4>() {
            let len = usize::from(head[2]);
            if len < 4 || len > area.len() {
                break;
            }
            let (field, rest) = area.split_at(len);
            area = rest;
            const KNOWN: [&[u8]; 8] = [b"NM", b"PX", b"SL", b"PN", b"TF", b"CL", b"RE", b"CE"];
            if head[3] != VERSION && KNOWN.contains(&&head[..2]) {
                let name = head[..2].escape_ascii();
                return Err(format!("its field {name} has the version {}: corrupt", head[3]));
            }
            let number = |at: usize| field.get(at..at + 4).map(|bytes| le(bytes) as u32);
            match &head[..2] {
                b"SP" if len >= 7 && field[4..6] == [0xbe, 0xef] => {
                    self.skip = Some(usize::from(field[6]));
                }
                b"CE" if len >= 28 => {
                    next = Some((le(&field[4..8]), le(&field[12..16]), le(&field[20..24])));
                }
                b"ST" => break,
                b"PX" => {
                    let numbers = field.get(4..36).ok_or("its mode is cut: corrupt")?;
                    if differ(&numbers.chunks(8).collect::<Vec<_>>()) {
                        let what = "its mode or owner differs between the two byte orders: corrupt";
                        return Err(what.to_owned());
                    }
                    let of = |at: usize| le(&numbers[at..at + 4]) as u32;
                    let (mode, link_count, uid, gid) = (of(0), of(8), of(16), of(24));
                    let serial = number(36);
                    self.posix = Some(Posix { mode, link_count, uid, gid, serial });
                }
                // The names `.` and `..` have flags of their own; those records are not read.
                b"NM" if len >= 5 && field[4] & 6 == 0 => names.add(&field[5..], field[4] & 1 != 0),
                b"SL" if len >= 5 => target.add(&field[5..])?,
                b"PN" if len >= 20 => {
                    self.device = number(4).zip(number(12));
                }
                b"TF" if len >= 5 => self.times(field[4], &field[5..]),
                b"CL" => self.child = number(4).map(u64::from),
                b"RE" => self.is_moved = true,
                b"ZF" => {
                    self.is_special =
                        Some("compressed (zisofs), which is not supported; mount the image");
                }
                b"SF" => {
                    self.is_special =
                        Some("stored with holes, which is not supported; mount the image");
                }
                _ => {}
            }
        }
        Ok(next)
    }

    fn times(&mut self, flags: u8, mut bytes: &[u8]) {
        let is_long = flags & 0x80 != 0;
        let len = if is_long { 17 } else { 7 };
        for bit in 0..7 {
            if flags & 1 << bit == 0 {
                continue;
            }
            let Some((field, rest)) = bytes.split_at_checked(len) else { return };
            bytes = rest;
            let time = if is_long { date::long(field) } else { date::short(field) };
            match bit {
                0 => self.btime = time,
                1 => self.mtime = time,
                2 => self.atime = time,
                _ => {}
            }
        }
    }
}

/// A name in several fields.
#[derive(Debug, Default)]
struct Parts {
    bytes: Option<Vec<u8>>,
    is_whole: bool,
}

impl Parts {
    fn add(&mut self, part: &[u8], continues: bool) {
        if !self.is_whole {
            self.bytes.get_or_insert_default().extend_from_slice(part);
            self.is_whole = !continues;
        }
    }

    fn whole(self, what: &str, len_max: usize) -> Result<Option<Vec<u8>>, String> {
        match self.bytes {
            Some(bytes) if bytes.len() > len_max => {
                Err(format!("its {what} has {} bytes, {len_max} are allowed", bytes.len()))
            }
            bytes => Ok(bytes),
        }
    }
}

/// The target of a link, in components.
#[derive(Debug, Default)]
struct Target {
    bytes: Option<Vec<u8>>,
    /// The last component goes on in the next one.
    continues: bool,
}

impl Target {
    fn add(&mut self, mut parts: &[u8]) -> Result<(), String> {
        let bytes = self.bytes.get_or_insert_default();
        while let [flags, len, rest @ ..] = parts {
            let Some((text, rest)) = rest.split_at_checked(usize::from(*len)) else {
                return Err("its link target is cut: corrupt".to_owned());
            };
            parts = rest;
            let text = match flags & 0xe {
                0 => text,
                2 => b".",
                4 => b"..",
                8 => b"/",
                other => return Err(format!("a component of its link target has flags {other}")),
            };
            if !self.continues && !bytes.is_empty() && bytes.last() != Some(&b'/') {
                bytes.push(b'/');
            }
            bytes.extend_from_slice(text);
            self.continues = flags & 1 != 0;
        }
        Ok(())
    }

    fn whole(self) -> Result<Option<Vec<u8>>, String> {
        Parts { bytes: self.bytes, is_whole: true }.whole("link target", LINK_TARGET_LEN_MAX)
    }
}
