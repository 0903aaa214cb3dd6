//! Extra fields, of the directory and of local headers: times, owners, lengths of 64 bits.
//!
//! Several fields may say the same. Times of Windows are taken before those of Unix, as they are
//! finer, and newer fields of Unix before older ones.

use shale_format::Timestamp;

use super::crypt::AesField;
use super::records::{
    EXTRA_AES, EXTRA_LARGE, EXTRA_OWNER, EXTRA_UNICODE_PATH, EXTRA_UNIX_1, EXTRA_UNIX_2,
    EXTRA_UNIX_TIME, EXTRA_WINDOWS,
};
use super::time;
use crate::tree::le;

/// What the extra fields of an entry say. Those of the local header add what the directory's do not
/// have.
#[derive(Debug, Default, Clone)]
pub(super) struct Extra {
    /// Numbers of 64 bits in the order of the fields that they replace.
    pub(super) large: Vec<u64>,
    /// Body of the field with the name in UTF-8.
    pub(super) unicode_path: Option<Vec<u8>>,
    pub(super) aes: Option<AesField>,
    /// Modification, access and creation.
    windows: Option<[u64; 3]>,
    unix_mtime: Option<u32>,
    unix_atime: Option<u32>,
    /// Of the first version for Unix.
    old_mtime: Option<u32>,
    old_atime: Option<u32>,
    owner: Option<(u32, u32)>,
    old_owner: Option<(u32, u32)>,
}

impl Extra {
    /// Adds the fields of one header. What is there already stays, as the directory comes first.
    ///
    /// # Errors
    /// Says which field is wrong.
    pub(super) fn add(&mut self, mut extra: &[u8]) -> Result<(), String> {
        self.large.clear();
        while let Some((head, rest)) = extra.split_first_chunk::<4>() {
            let len = (le(&head[2..]) as usize).min(rest.len());
            let (body, after) = rest.split_at(len);
            extra = after;
            self.add_field(le(&head[..2]) as u16, body)?;
        }
        Ok(())
    }

    fn add_field(&mut self, kind: u16, body: &[u8]) -> Result<(), String> {
        let number = |at: usize, len: usize| body.get(at..at + len).map(|bytes| le(bytes) as u32);
        match kind {
            EXTRA_LARGE => self.large = body.chunks_exact(8).map(le).collect(),
            EXTRA_AES => self.aes = self.aes.or(AesField::parse(body)),
            EXTRA_UNICODE_PATH => {
                self.unicode_path.get_or_insert_with(|| body.to_vec());
            }
            EXTRA_WINDOWS if body.len() >= 32 && le(&body[4..6]) == 1 => {
                let times = [8, 16, 24].map(|at| le(&body[at..at + 8]));
                self.windows = self.windows.or(Some(times).filter(|times| times[0] != 0));
            }
            EXTRA_UNIX_TIME => {
                // The flags of the directory are those of the local header, which has all times.
                let flags = body.first().copied().unwrap_or(0);
                let mut at = 1;
                for (bit, time) in [(1, &mut self.unix_mtime), (2, &mut self.unix_atime)] {
                    if flags & bit != 0 {
                        *time = time.or(number(at, 4));
                        at += 4;
                    }
                }
            }
            EXTRA_UNIX_1 => {
                self.old_atime = self.old_atime.or(number(0, 4));
                self.old_mtime = self.old_mtime.or(number(4, 4));
                self.old_owner = self.old_owner.or(number(8, 2).zip(number(10, 2)));
            }
            EXTRA_UNIX_2 => self.old_owner = number(0, 2).zip(number(2, 2)).or(self.old_owner),
            EXTRA_OWNER if body.len() >= 2 => {
                let uid_len = usize::from(body[1]);
                let uid = body.get(2..2 + uid_len);
                let gid_len = body.get(2 + uid_len).copied().map_or(0, usize::from);
                let gid = body.get(3 + uid_len..3 + uid_len + gid_len);
                if let (Some(uid), Some(gid)) = (uid, gid)
                    && self.owner.is_none()
                {
                    let is_large = |id: &[u8]| id.iter().skip(4).any(|&byte| byte != 0);
                    if is_large(uid) || is_large(gid) {
                        return Err("its owner is a number beyond 32 bits".to_owned());
                    }
                    self.owner = Some((le(uid) as u32, le(gid) as u32));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Owner and group; 0 where no field says them.
    pub(super) fn owner(&self) -> (u32, u32) {
        self.owner.or(self.old_owner).unwrap_or_default()
    }

    /// Modification, access and creation; the last two are 1970 where no field says them.
    pub(super) fn times(&self, dos: Timestamp) -> [Timestamp; 3] {
        if let Some(times) = self.windows {
            let or_none = |ticks| match ticks {
                0 => Timestamp::default(),
                ticks => time::from_windows(ticks),
            };
            return times.map(or_none);
        }
        let mtime = self.unix_mtime.or(self.old_mtime);
        let mtime = mtime.map_or(dos, |seconds| time::from_unix(seconds, dos));
        // A file that was modified after 1970 was not read before.
        let atime = self.unix_atime.or(self.old_atime).map_or(Timestamp::default(), |seconds| {
            let sec = match mtime.sec {
                ..0 => i64::from(seconds.cast_signed()),
                0.. => i64::from(seconds),
            };
            Timestamp { sec, nsec: 0 }
        });
        [mtime, atime, Timestamp::default()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(kind: u16, body: &[u8]) -> Vec<u8> {
        [&kind.to_le_bytes()[..], &(body.len() as u16).to_le_bytes(), body].concat()
    }

    const DOS: Timestamp = Timestamp { sec: 1_000_000_000, nsec: 0 };

    #[test]
    fn old_fields_of_unix_are_read() {
        let mut extra = Extra::default();
        let times = [7u32.to_le_bytes(), 9u32.to_le_bytes()].concat();
        extra.add(&field(EXTRA_UNIX_1, &times)).unwrap();
        let local = [&times[..], &[0xe8, 3, 100, 0]].concat();
        extra.add(&field(EXTRA_UNIX_1, &local)).unwrap();
        assert_eq!(extra.times(DOS).map(|time| time.sec), [9, 7, 0]);
        assert_eq!(extra.owner(), (1000, 100));

        let mut extra = Extra::default();
        extra.add(&field(EXTRA_UNIX_2, &[])).unwrap();
        extra.add(&field(EXTRA_UNIX_2, &[0xff, 0xff, 5, 0])).unwrap();
        assert_eq!(extra.owner(), (65_535, 5));
        extra.add(&field(EXTRA_OWNER, &[1, 4, 1, 0, 1, 0, 4, 2, 0, 0, 0])).unwrap();
        assert_eq!(extra.owner(), (65_537, 2));
        let large = field(EXTRA_OWNER, &[1, 8, 0, 0, 0, 0, 1, 0, 0, 0, 4, 2, 0, 0, 0]);
        assert!(Extra::default().add(&large).is_err());
    }

    #[test]
    fn the_directory_has_one_time_and_the_local_header_all() {
        let mut extra = Extra::default();
        extra.add(&field(EXTRA_UNIX_TIME, &[3, 1, 0, 0, 0])).unwrap();
        extra.add(&field(EXTRA_UNIX_TIME, &[3, 1, 0, 0, 0, 2, 0, 0, 0])).unwrap();
        assert_eq!(extra.times(DOS).map(|time| time.sec), [1, 2, 0]);
        // Cut fields say nothing.
        let mut extra = Extra::default();
        extra.add(&field(EXTRA_UNIX_TIME, &[1, 1])).unwrap();
        extra.add(&field(EXTRA_UNIX_1, &[1, 1])).unwrap();
        extra.add(&[1, 2, 3]).unwrap();
        assert_eq!(extra.times(DOS)[0], DOS);
    }
}
