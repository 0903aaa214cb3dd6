//! Inodes that may have several names, in bounded memory.
//!
//! [`Rows`] hold what further names need to know of the first, the sum over all names, and the
//! number that the inode gets at the end. A [`Heap`] holds targets of symbolic links, which few of
//! them have. The pages that fit into the budget are in memory. For inodes that could not be read
//! the reason stays in memory, because it is reported at the end anyway.

use std::collections::HashMap;
use std::path::Path;

use shale_codec::xxh3_64;
use shale_format::Timestamp;
use shale_model::{LinkId, ProblemKind};

use crate::tree::paged::{Heap, Index, Rows};
use crate::tree::record::{Attributes, NONE, Record, slot};

use crate::plan::digest::{ContentDigest, LinkGroup, PathDigest, TreeDigest};
use crate::plan::error::WriteError;

/// Identifies a file whose content is being read.
pub(crate) type InodeSlot = u64;

/// The inodes, numbered by slot.
#[derive(Debug)]
pub(crate) struct Links {
    rows: Rows<ROW_LEN>,
    targets: Heap,
    index: Index,
    count: u32,
    left_out: HashMap<u32, ProblemKind>,
}

/// What is known of an inode before its further names come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) state: LinkState,
    /// The sequence number belongs to no name.
    pub(crate) record: Record,
    pub(crate) content: Option<ContentDigest>,
}

/// State of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkState {
    Ready,
    Pending(InodeSlot),
    LeftOut(ProblemKind),
}

const ROW_LEN: usize = 192;
const STATE_READY: u8 = 0;
const STATE_PENDING: u8 = 1;
const STATE_LEFT_OUT: u8 = 2;

/// An inode as it is stored.
#[derive(Debug, Default, Clone, Copy)]
struct Row {
    id: [u64; 2],
    /// Slot of a pending inode; later the number of the inode in the image, 0 if it has none yet.
    slot_or_number: u64,
    state: u8,
    has_content: u8,
    is_hidden: u8,
    mode: u16,
    owner: [u32; 2],
    xattrs: u32,
    times: [Timestamp; 4],
    payload: u64,
    content: [u8; 32],
    target_start: u64,
    target_len: u32,
    group: LinkGroup,
}

impl Links {
    /// Starts empty. Uses at most `memory_bytes_max` bytes, but at least a few pages.
    pub(crate) fn new(memory_bytes_max: u64, temp_dir: Option<&Path>) -> Self {
        let temp_dir = || temp_dir.map(Path::to_path_buf);
        Self {
            // An index that doubles holds both its old and new pages.
            rows: Rows::new(memory_bytes_max / 2, temp_dir()),
            targets: Heap::new(memory_bytes_max / 16, temp_dir()),
            index: Index::new(memory_bytes_max * 3 / 16, temp_dir()),
            count: 0,
            left_out: HashMap::new(),
        }
    }

    /// Returns whether there are no inodes.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the temporary files.
    pub(crate) fn file_len(&self) -> u64 {
        self.rows.file_len() + self.targets.file_len() + self.index.file_len()
    }

    /// Finds the slot of an inode by its id.
    pub(crate) fn find(&mut self, id: LinkId) -> Result<Option<u32>, WriteError> {
        let wanted = [id.device, id.inode];
        let rows = &mut self.rows;
        let found = self.index.find(hash(wanted), |slot| {
            let row = read(rows.get(slot)?);
            Ok(row.id == wanted && row.is_hidden == 0)
        });
        found.map_err(WriteError::TemporaryFile)
    }

    /// Adds an inode. It replaces the one in the slot `found`, which has the same id and another
    /// kind. Its group is empty.
    pub(crate) fn push(
        &mut self,
        id: LinkId,
        found: Option<u32>,
        state: &LinkState,
        record: &Record,
        target: &[u8],
        path: &[u8],
    ) -> Result<u32, WriteError> {
        let slot = slot(self.count as usize, "inodes with several names", path)?;
        let target_start = self.targets.push(target).map_err(WriteError::TemporaryFile)?;
        let row = Row {
            id: [id.device, id.inode],
            target_start,
            target_len: target.len() as u32,
            ..Row::default()
        };
        self.count = slot + 1;
        self.put(slot, &row)?;
        self.set(slot, &Link { state: state.clone(), record: *record, content: None })?;
        if let Some(found) = found {
            // It is not found any more, but the names counted for it stay.
            let mut row = self.row(found)?;
            row.is_hidden = 1;
            self.put(found, &row)?;
        }
        self.index.insert(hash(row.id), slot).map_err(WriteError::TemporaryFile)?;
        Ok(slot)
    }

    /// Returns what is known of an inode.
    pub(crate) fn get(&mut self, slot: u32) -> Result<Link, WriteError> {
        let row = self.row(slot)?;
        let state = match row.state {
            STATE_PENDING => LinkState::Pending(row.slot_or_number),
            STATE_LEFT_OUT => match self.left_out.get(&slot) {
                Some(kind) => LinkState::LeftOut(kind.clone()),
                None => return Err(WriteError::TemporaryFileDamaged),
            },
            _ => LinkState::Ready,
        };
        let attributes = Attributes {
            mode: row.mode,
            implied: false,
            uid: row.owner[0],
            gid: row.owner[1],
            xattrs: row.xattrs,
            times: row.times,
        };
        let record = Record { sequence: 0, payload: row.payload, link: slot, attributes };
        let content = (row.has_content != 0).then_some(ContentDigest(row.content));
        Ok(Link { state, record, content })
    }

    /// Changes what is known of an inode.
    pub(crate) fn set(&mut self, slot: u32, link: &Link) -> Result<(), WriteError> {
        let mut row = self.row(slot)?;
        (row.state, row.slot_or_number) = match &link.state {
            LinkState::Ready => (STATE_READY, 0),
            LinkState::Pending(inode) => (STATE_PENDING, *inode),
            LinkState::LeftOut(kind) => {
                self.left_out.insert(slot, kind.clone());
                (STATE_LEFT_OUT, 0)
            }
        };
        let Attributes { mode, implied: _, uid, gid, xattrs, times } = link.record.attributes;
        (row.mode, row.owner, row.xattrs, row.times) = (mode, [uid, gid], xattrs, times);
        row.payload = link.record.payload;
        row.has_content = u8::from(link.content.is_some());
        row.content = link.content.unwrap_or_default().0;
        self.put(slot, &row)
    }

    /// Reads the target of a symbolic link.
    pub(crate) fn target(&mut self, slot: u32, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let row = self.row(slot)?;
        let got = self.targets.get(row.target_start, row.target_len as usize, out);
        got.map_err(WriteError::TemporaryFile)
    }

    /// Adds a name.
    pub(crate) fn add_path(&mut self, slot: u32, path: &PathDigest) -> Result<(), WriteError> {
        let mut row = self.row(slot)?;
        row.group.add_path(path);
        self.put(slot, &row)
    }

    /// Removes a name that was added before.
    pub(crate) fn remove_path(&mut self, slot: u32, path: &PathDigest) -> Result<(), WriteError> {
        let mut row = self.row(slot)?;
        row.group.remove_path(path);
        self.put(slot, &row)
    }

    /// Returns the number of names, and the number in the image if [`Links::set_number`] set it, or
    /// 0. [`NONE`] stands for an inode with one name that is no link.
    pub(crate) fn names_and_number(&mut self, slot: u32) -> Result<(u64, u64), WriteError> {
        if slot == NONE {
            return Ok((1, 0));
        }
        let row = self.row(slot)?;
        Ok((row.group.name_count, row.slot_or_number))
    }

    /// Sets the number of the inode in the image.
    pub(crate) fn set_number(&mut self, slot: u32, number: u64) -> Result<(), WriteError> {
        if slot == NONE {
            return Ok(());
        }
        let mut row = self.row(slot)?;
        row.slot_or_number = number;
        self.put(slot, &row)
    }

    /// Adds the names of all inodes to the digest of a tree.
    pub(crate) fn add_to(&mut self, digest: &mut TreeDigest) -> Result<(), WriteError> {
        for slot in 0..self.count {
            digest.add_links(&self.row(slot)?.group);
        }
        Ok(())
    }

    fn row(&mut self, slot: u32) -> Result<Row, WriteError> {
        if slot >= self.count {
            return Err(WriteError::TemporaryFileDamaged);
        }
        self.rows.get(slot).map(read).map_err(WriteError::TemporaryFile)
    }

    fn put(&mut self, slot: u32, row: &Row) -> Result<(), WriteError> {
        write(row, self.rows.get_mut(slot).map_err(WriteError::TemporaryFile)?);
        Ok(())
    }
}

fn hash(id: [u64; 2]) -> u32 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&id[0].to_le_bytes());
    bytes[8..].copy_from_slice(&id[1].to_le_bytes());
    (xxh3_64(&bytes) >> 32) as u32
}

/// Reads the fields of a row from front to back.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((field, rest)) = self.0.split_first_chunk() else { return [0; N] };
        self.0 = rest;
        *field
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
}

fn read(bytes: &[u8; ROW_LEN]) -> Row {
    let mut fields = Fields(bytes);
    Row {
        id: [fields.u64(), fields.u64()],
        slot_or_number: fields.u64(),
        state: fields.take::<1>()[0],
        has_content: fields.take::<1>()[0],
        is_hidden: fields.take::<1>()[0],
        mode: u16::from_le_bytes(fields.take()),
        owner: [fields.u32(), fields.u32()],
        xattrs: fields.u32(),
        times: std::array::from_fn(|_| Timestamp {
            sec: fields.u64().cast_signed(),
            nsec: fields.u32(),
        }),
        payload: fields.u64(),
        content: fields.take(),
        target_start: fields.u64(),
        target_len: fields.u32(),
        group: LinkGroup::from_bytes(&fields.take()),
    }
}

fn write(row: &Row, bytes: &mut [u8; ROW_LEN]) {
    let mut at = 0;
    let mut put = |field: &[u8]| {
        // The fields of a row fit into its length; a test checks it.
        if let Some(room) = bytes.get_mut(at..at + field.len()) {
            room.copy_from_slice(field);
        }
        at += field.len();
    };
    row.id.iter().for_each(|half| put(&half.to_le_bytes()));
    put(&row.slot_or_number.to_le_bytes());
    put(&[row.state, row.has_content, row.is_hidden]);
    put(&row.mode.to_le_bytes());
    row.owner.iter().for_each(|id| put(&id.to_le_bytes()));
    put(&row.xattrs.to_le_bytes());
    for time in row.times {
        put(&time.sec.to_le_bytes());
        put(&time.nsec.to_le_bytes());
    }
    put(&row.payload.to_le_bytes());
    put(&row.content);
    put(&row.target_start.to_le_bytes());
    put(&row.target_len.to_le_bytes());
    put(&row.group.to_bytes());
    debug_assert!(at <= ROW_LEN);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_inodes_comes_back_from_little_memory() {
        let mut links = Links::new(0, None);
        const COUNT: u64 = 3000;
        let id = |n: u64| LinkId { device: n % 3, inode: n / 3 };
        let time = |n: u64| Timestamp { sec: -(n as i64), nsec: 999_999_999 };
        let record = |n: u64| Record {
            sequence: 0,
            payload: u64::MAX - n,
            link: n as u32,
            attributes: Attributes {
                mode: 0o100644 + n as u16 % 8,
                implied: false,
                uid: u32::MAX - n as u32,
                gid: n as u32,
                xattrs: NONE,
                times: [time(n), time(0), time(n * n), time(1)],
            },
        };
        for n in 0..COUNT {
            assert_eq!(links.find(id(n)).unwrap(), None);
            let state = if n % 2 == 0 { LinkState::Ready } else { LinkState::Pending(n << 33) };
            let target = vec![b't'; n as usize % 70];
            let slot = links.push(id(n), None, &state, &record(n), &target, b"path").unwrap();
            assert_eq!(u64::from(slot), n);
        }
        let mut path = PathDigest::ROOT;
        let mut groups = vec![LinkGroup::default(); COUNT as usize];
        for n in (0..COUNT).chain(0..COUNT / 2) {
            path = path.child(b"x");
            links.add_path(n as u32, &path).unwrap();
            groups[n as usize].add_path(&path);
            if n % 100 == 7 {
                links.remove_path(n as u32, &path).unwrap();
                groups[n as usize].remove_path(&path);
            }
        }
        for n in (1..COUNT).step_by(2) {
            let kind = ProblemKind::Changed;
            let state = if n % 3 == 0 { LinkState::LeftOut(kind) } else { LinkState::Ready };
            let content = Some(ContentDigest([n as u8; 32]));
            links.set(n as u32, &Link { state, record: record(n), content }).unwrap();
        }
        let mut target = Vec::new();
        for n in (0..COUNT).rev() {
            assert_eq!(links.find(id(n)).unwrap(), Some(n as u32));
            let is_left_out = n % 2 == 1 && n % 3 == 0;
            let expected = Link {
                state: match is_left_out {
                    true => LinkState::LeftOut(ProblemKind::Changed),
                    false => LinkState::Ready,
                },
                record: record(n),
                content: (n % 2 == 1).then_some(ContentDigest([n as u8; 32])),
            };
            assert_eq!(links.get(n as u32).unwrap(), expected);
            links.target(n as u32, &mut target).unwrap();
            assert_eq!(target.len() as u64, n % 70);
            links.set_number(n as u32, n + 1).unwrap();
        }
        let (mut digest, mut expected) = (TreeDigest::default(), TreeDigest::default());
        for n in 0..COUNT {
            let names = groups[n as usize].name_count;
            assert_eq!(links.names_and_number(n as u32).unwrap(), (names, n + 1));
            expected.add_links(&groups[n as usize]);
        }
        links.add_to(&mut digest).unwrap();
        assert_eq!(digest, expected);
        assert!(links.file_len() > 0);
        assert!(links.get(COUNT as u32).is_err());
    }

    #[test]
    fn an_id_that_comes_with_another_kind_is_another_inode() {
        let mut links = Links::new(0, None);
        let id = LinkId { device: 1, inode: 2 };
        let add = |links: &mut Links, found| {
            links.push(id, found, &LinkState::Ready, &Record::default(), b"", b"").unwrap()
        };
        let first = add(&mut links, None);
        let second = add(&mut links, Some(first));
        assert_ne!(first, second);
        assert_eq!(links.find(id).unwrap(), Some(second));
        assert_eq!(links.names_and_number(first).unwrap(), (0, 0));
    }
}
