//! The root: bounds, shared tables and the snapshots with theirs.
//!
//! The payload of a root section is one `RootRaw`, then a `SnapshotRaw` and a name for each
//! snapshot. A root that an append wrote may name an earlier root of the image, which has the
//! records of older snapshots: [`Root::join`] puts them together. `decode` checks every length
//! against the limits and refuses trailing bytes. It checks only the form of table roots; pages are
//! checked when they are read.

use crate::error::FormatError;
use crate::limits::{
    FRAME_PLAIN_LEN_MAX, PAGE_PLAIN_LEN_MAX, PAGE_STORED_LEN_MAX, REFERENCE_COUNT_MAX,
    REFERENCE_DEPTH_MAX, ROOT_DEPTH_MAX, SNAPSHOT_COUNT_MAX, SNAPSHOT_NAME_LEN_MAX,
};
use shale_table::{PageRef, TableRoot};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const STRUCTURE: &str = "root";

/// On-disk layout of a reference to a table page.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct PageRefRaw {
    /// Offset of the stored page from the start of the image.
    pub offset: U64,
    /// XXH3-64 of the stored page.
    pub checksum: U64,
    /// Stored bytes.
    pub stored_len: U32,
    /// Plain bytes.
    pub plain_len: U32,
    /// 0 stored, 1 zstd, 2 zstd with the table's dictionary, 3 zstd with a page that it
    /// names, 4 a patch of a page that it names.
    pub codec: u8,
    /// Reserved, must be zero.
    pub reserved: [u8; 7],
}

const _: () = assert!(size_of::<PageRefRaw>() == 32);

/// On-disk layout of a table's root.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct TableRootRaw {
    /// Rows of the table.
    pub row_count: U64,
    /// Data pages of the table.
    pub page_count: U64,
    /// 0: empty; 1: `top` is the only data page; n: `top` is an index page of level n - 1.
    pub level_count: u8,
    /// Reserved, must be zero.
    pub reserved: [u8; 7],
    /// The top page.
    pub top: PageRefRaw,
    /// A page of bytes that serves as prefix for pages of codec 2; all zero if there is none.
    pub dictionary: PageRefRaw,
}

const _: () = assert!(size_of::<TableRootRaw>() == 88);

/// On-disk layout of the fixed part of a root.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct RootRaw {
    /// Snapshots that follow.
    pub snapshot_count: U32,
    /// Most references of any frame.
    pub reference_count_max: U16,
    /// Longest chain of references of any frame.
    pub depth_max: u8,
    /// What the image needs beyond version 0.4: see [`ROOT_HAS_CHUNKS`]. Other bits must be zero.
    pub needs: u8,
    /// Plain bytes of the largest frame.
    pub frame_plain_len_max: U64,
    /// Most plain bytes that reading one byte can decode: a frame and all it refers to.
    pub read_bytes_max: U64,
    /// Table `contents`.
    pub contents: TableRootRaw,
    /// Table `extents`.
    pub extents: TableRootRaw,
    /// Table `frames`.
    pub frames: TableRootRaw,
    /// Table `references`.
    pub references: TableRootRaw,
}

const _: () = assert!(size_of::<RootRaw>() == 376);

/// Bit of `RootRaw::needs`: the root of the table `chunks` follows the fixed part, and extents may
/// lie in rebuilt space.
pub const ROOT_HAS_CHUNKS: u8 = 1;

/// Bit of `RootRaw::needs`: older snapshots are those of an earlier root, which is named after the
/// table root of `chunks`.
pub const ROOT_CONTINUES: u8 = 2;

/// On-disk layout of what names an earlier root.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct EarlierRootRaw {
    /// Offset of its section header.
    pub offset: U64,
    /// Offset of the section header of the same root after the Merkle tree; 0 if there is none.
    pub copy_offset: U64,
    /// Bytes of its section, header and stored payload.
    pub section_len: U64,
    /// Sum of its stored payload.
    pub payload_sum: U64,
    /// Snapshots that are taken from it, the oldest ones.
    pub snapshot_count: U32,
    /// Records that follow: the root that the named one names, and so on. 0 in these.
    pub further_count: U32,
}

const _: () = assert!(size_of::<EarlierRootRaw>() == 40);

/// An earlier root, which has the records of older snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EarlierRoot {
    /// Offset of its section header.
    pub offset: u64,
    /// Offset of the section header of the same root after the Merkle tree; 0 if there is none.
    pub copy_offset: u64,
    /// Bytes of its section, header and stored payload.
    pub section_len: u64,
    /// Sum of its stored payload.
    pub payload_sum: u64,
    /// Snapshots that are taken from it, the oldest ones.
    pub snapshot_count: u32,
}

impl EarlierRoot {
    fn encode(&self, further_count: usize) -> EarlierRootRaw {
        EarlierRootRaw {
            offset: U64::new(self.offset),
            copy_offset: U64::new(self.copy_offset),
            section_len: U64::new(self.section_len),
            payload_sum: U64::new(self.payload_sum),
            snapshot_count: U32::new(self.snapshot_count),
            further_count: U32::new(further_count as u32),
        }
    }

    fn decode(raw: &EarlierRootRaw) -> Result<Self, FormatError> {
        let snapshot_count = raw.snapshot_count.get();
        if snapshot_count == 0 || snapshot_count >= SNAPSHOT_COUNT_MAX {
            return Err(field("snapshots of an earlier root", snapshot_count.into(), "1 to 65535"));
        }
        Ok(Self {
            offset: raw.offset.get(),
            copy_offset: raw.copy_offset.get(),
            section_len: raw.section_len.get(),
            payload_sum: raw.payload_sum.get(),
            snapshot_count,
        })
    }
}

/// On-disk layout of the fixed part of a snapshot's record; its name follows.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct SnapshotRaw {
    /// Bytes of the name that follows.
    pub name_len: U16,
    /// Which times are kept: 1 mtime, 2 atime, 4 ctime, 8 btime.
    pub times_kept: u8,
    /// Reserved, must be zero.
    pub reserved: [u8; 5],
    /// Sum of the sizes of all regular files, hard links counted once.
    pub file_bytes: U64,
    /// Table `inodes`.
    pub inodes: TableRootRaw,
    /// Table `directories`.
    pub directories: TableRootRaw,
    /// Table `entries`.
    pub entries: TableRootRaw,
    /// Table `symlinks`.
    pub symlinks: TableRootRaw,
    /// Table `xattr_sets`.
    pub xattr_sets: TableRootRaw,
    /// Table `xattr_items`.
    pub xattr_items: TableRootRaw,
}

const _: () = assert!(size_of::<SnapshotRaw>() == 544);

/// `Snapshot::times_kept`: mtime is kept.
pub const TIME_MTIME: u8 = 1;
/// `Snapshot::times_kept`: atime is kept.
pub const TIME_ATIME: u8 = 2;
/// `Snapshot::times_kept`: ctime is kept.
pub const TIME_CTIME: u8 = 4;
/// `Snapshot::times_kept`: btime is kept.
pub const TIME_BTIME: u8 = 8;

/// What a random read can cost at most, by construction of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadBounds {
    /// Most references of any frame.
    pub reference_count_max: u16,
    /// Longest chain of references of any frame.
    pub depth_max: u8,
    /// Plain bytes of the largest frame.
    pub frame_plain_len_max: u64,
    /// Most plain bytes that reading one byte can decode: a frame and all it refers to.
    pub read_bytes_max: u64,
}

/// A validated root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Root {
    /// Bounds of a random read.
    pub bounds: ReadBounds,
    /// Table `contents`.
    pub contents: TableRoot,
    /// Table `extents`.
    pub extents: TableRoot,
    /// Table `frames`.
    pub frames: TableRoot,
    /// Table `references`.
    pub references: TableRoot,
    /// Table `chunks`; empty if no stream is rebuilt.
    pub chunks: TableRoot,
    /// The roots that have the records of the first snapshots: the one that this root names, the
    /// one that it names, and so on. Of a root that was decoded and not joined, all but the first
    /// are hints: what will be read.
    pub earlier: Vec<EarlierRoot>,
    /// At least one, the newest last. Of a root that was decoded and not joined, only its own.
    pub snapshots: Vec<Snapshot>,
}

/// One tree of the image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Name given at build; may be empty.
    pub name: Vec<u8>,
    /// Which times are kept, see `TIME_MTIME` and its siblings.
    pub times_kept: u8,
    /// Sum of the sizes of all regular files, hard links counted once.
    pub file_bytes: u64,
    /// Table `inodes`.
    pub inodes: TableRoot,
    /// Table `directories`.
    pub directories: TableRoot,
    /// Table `entries`.
    pub entries: TableRoot,
    /// Table `symlinks`.
    pub symlinks: TableRoot,
    /// Table `xattr_sets`.
    pub xattr_sets: TableRoot,
    /// Table `xattr_items`.
    pub xattr_items: TableRoot,
}

impl Root {
    /// Returns whether streams are rebuilt.
    pub fn has_chunks(&self) -> bool {
        self.chunks.row_count > 0
    }

    /// Returns the payload of a root section: with the records of snapshots that no earlier root
    /// has.
    ///
    /// # Errors
    /// A name or the number of snapshots is beyond its limit.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let earlier = self.earlier.first();
        if self.snapshots.len() as u64 > u64::from(SNAPSHOT_COUNT_MAX) {
            return Err(field("snapshot count", self.snapshots.len() as u64, "1 to 65536"));
        }
        let own = earlier.map_or(0, |earlier| earlier.snapshot_count as usize);
        let own = self.snapshots.get(own..).unwrap_or_default();
        let snapshot_count = own.len() as u64;
        if snapshot_count == 0 {
            return Err(field("snapshot count", snapshot_count, "1 to 65536"));
        }
        let raw = RootRaw {
            snapshot_count: U32::new(snapshot_count as u32),
            reference_count_max: U16::new(self.bounds.reference_count_max),
            depth_max: self.bounds.depth_max,
            needs: if self.has_chunks() { ROOT_HAS_CHUNKS } else { 0 }
                | if earlier.is_some() { ROOT_CONTINUES } else { 0 },
            frame_plain_len_max: U64::new(self.bounds.frame_plain_len_max),
            read_bytes_max: U64::new(self.bounds.read_bytes_max),
            contents: encode_table(&self.contents),
            extents: encode_table(&self.extents),
            frames: encode_table(&self.frames),
            references: encode_table(&self.references),
        };
        let mut out = raw.as_bytes().to_vec();
        if self.has_chunks() {
            out.extend_from_slice(encode_table(&self.chunks).as_bytes());
        }
        for (nth, earlier) in self.earlier.iter().enumerate() {
            let further_count = if nth == 0 { self.earlier.len() - 1 } else { 0 };
            out.extend_from_slice(earlier.encode(further_count).as_bytes());
        }
        for snapshot in own {
            let name_len = snapshot.name.len();
            if name_len > SNAPSHOT_NAME_LEN_MAX {
                return Err(field("snapshot name length", name_len as u64, "at most 255"));
            }
            let raw = SnapshotRaw {
                name_len: U16::new(name_len as u16),
                times_kept: snapshot.times_kept,
                reserved: [0; 5],
                file_bytes: U64::new(snapshot.file_bytes),
                inodes: encode_table(&snapshot.inodes),
                directories: encode_table(&snapshot.directories),
                entries: encode_table(&snapshot.entries),
                symlinks: encode_table(&snapshot.symlinks),
                xattr_sets: encode_table(&snapshot.xattr_sets),
                xattr_items: encode_table(&snapshot.xattr_items),
            };
            out.extend_from_slice(raw.as_bytes());
            out.extend_from_slice(&snapshot.name);
        }
        Ok(out)
    }

    /// Reads and checks the payload of a root section. Allocates one record for each snapshot
    /// found. If the root names an earlier one, [`Root::join`] has to follow.
    ///
    /// # Errors
    /// The payload is too short or too long, a reserved byte is not zero, or a value is beyond its
    /// limit.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let (raw, mut rest) = RootRaw::read_from_prefix(bytes)
            .map_err(|_| short(size_of::<RootRaw>(), bytes.len()))?;
        let snapshot_count = raw.snapshot_count.get();
        if snapshot_count == 0 || snapshot_count > SNAPSHOT_COUNT_MAX {
            return Err(field("snapshot count", u64::from(snapshot_count), "1 to 65536"));
        }
        let unknown = raw.needs & !(ROOT_HAS_CHUNKS | ROOT_CONTINUES);
        if unknown != 0 {
            return Err(FormatError::Features { bits: u64::from(unknown) });
        }
        if u32::from(raw.reference_count_max.get()) > REFERENCE_COUNT_MAX {
            let found = u64::from(raw.reference_count_max.get());
            return Err(field("most references", found, "at most 16"));
        }
        if raw.depth_max > REFERENCE_DEPTH_MAX {
            return Err(field("depth", u64::from(raw.depth_max), "at most 8"));
        }
        if raw.frame_plain_len_max.get() > FRAME_PLAIN_LEN_MAX {
            let found = raw.frame_plain_len_max.get();
            return Err(field("largest frame", found, "at most 64 MiB"));
        }
        let mut root = Self {
            bounds: ReadBounds {
                reference_count_max: raw.reference_count_max.get(),
                depth_max: raw.depth_max,
                frame_plain_len_max: raw.frame_plain_len_max.get(),
                read_bytes_max: raw.read_bytes_max.get(),
            },
            contents: decode_table(&raw.contents)?,
            extents: decode_table(&raw.extents)?,
            frames: decode_table(&raw.frames)?,
            references: decode_table(&raw.references)?,
            chunks: TableRoot::default(),
            earlier: Vec::new(),
            snapshots: Vec::new(),
        };
        if raw.needs & ROOT_HAS_CHUNKS != 0 {
            let (raw, after) = TableRootRaw::read_from_prefix(rest)
                .map_err(|_| short(size_of::<TableRootRaw>(), rest.len()))?;
            root.chunks = decode_table(&raw)?;
            if !root.has_chunks() {
                return Err(field("rows of chunks", 0, "at least 1"));
            }
            rest = after;
        }
        if raw.needs & ROOT_CONTINUES != 0 {
            let mut left = 1;
            while left > 0 {
                let (raw, after) = EarlierRootRaw::read_from_prefix(rest)
                    .map_err(|_| short(size_of::<EarlierRootRaw>(), rest.len()))?;
                let further_count = raw.further_count.get() as usize;
                let further_max = if root.earlier.is_empty() { ROOT_DEPTH_MAX - 1 } else { 0 };
                if further_count > further_max {
                    let found = further_count as u64;
                    return Err(field("further earlier roots", found, "at most 11, once"));
                }
                root.earlier.push(EarlierRoot::decode(&raw)?);
                left += further_count;
                left -= 1;
                rest = after;
            }
        }
        for _ in 0..snapshot_count {
            let (raw, after) = SnapshotRaw::read_from_prefix(rest)
                .map_err(|_| short(size_of::<SnapshotRaw>(), rest.len()))?;
            let name_len = usize::from(raw.name_len.get());
            if name_len > SNAPSHOT_NAME_LEN_MAX {
                return Err(field("snapshot name length", name_len as u64, "at most 255"));
            }
            if raw.reserved != [0; 5] {
                return Err(field("reserved", 1, "0"));
            }
            let Some((name, after)) = after.split_at_checked(name_len) else {
                return Err(short(name_len, after.len()));
            };
            root.snapshots.push(Snapshot {
                name: name.to_vec(),
                times_kept: raw.times_kept,
                file_bytes: raw.file_bytes.get(),
                inodes: decode_table(&raw.inodes)?,
                directories: decode_table(&raw.directories)?,
                entries: decode_table(&raw.entries)?,
                symlinks: decode_table(&raw.symlinks)?,
                xattr_sets: decode_table(&raw.xattr_sets)?,
                xattr_items: decode_table(&raw.xattr_items)?,
            });
            rest = after;
        }
        if !rest.is_empty() {
            return Err(field("bytes after the last snapshot", rest.len() as u64, "0"));
        }
        Ok(root)
    }

    /// Puts the snapshots of earlier roots before those of this one, whose section is at `offset`.
    /// Calls `read` for each earlier root, at most [`ROOT_DEPTH_MAX`].
    ///
    /// # Errors
    /// Those of `read`; roots do not lie before each other, there are too many, or they do not have
    /// the snapshots.
    pub fn join<E: From<FormatError>>(
        mut self,
        offset: u64,
        mut read: impl FnMut(&EarlierRoot) -> Result<Self, E>,
    ) -> Result<Self, E> {
        let (mut before, mut found) = (offset, Vec::new());
        let mut count = self.snapshots.len();
        let mut next = self.earlier.first().copied();
        while let Some(earlier) = next {
            if found.len() == ROOT_DEPTH_MAX {
                let allowed = "at most 12";
                return Err(
                    field("roots that need each other", found.len() as u64 + 1, allowed).into()
                );
            }
            let ends =
                [earlier.offset, earlier.copy_offset].map(|at| at.checked_add(earlier.section_len));
            if ends.iter().any(|end| end.is_none_or(|end| end > before)) {
                let allowed = "before the root that names it";
                return Err(field("offset of an earlier root", earlier.offset, allowed).into());
            }
            let root = read(&earlier)?;
            count += root.snapshots.len();
            if count > SNAPSHOT_COUNT_MAX as usize {
                return Err(field("snapshot count", count as u64, "1 to 65536").into());
            }
            (before, next) = (earlier.offset, root.earlier.first().copied());
            found.push((earlier, root.snapshots));
        }
        let mut snapshots = Vec::with_capacity(count);
        for (earlier, own) in found.iter_mut().rev() {
            snapshots.append(own);
            let wanted = earlier.snapshot_count as usize;
            if snapshots.len() < wanted {
                let found = snapshots.len() as u64;
                return Err(
                    field("snapshots of an earlier root", found, "as many as are taken").into()
                );
            }
            snapshots.truncate(wanted);
        }
        snapshots.append(&mut self.snapshots);
        self.snapshots = snapshots;
        self.earlier = found.into_iter().map(|(earlier, _)| earlier).collect();
        Ok(self)
    }
}

fn field(field: &'static str, found: u64, allowed: &'static str) -> FormatError {
    FormatError::Field { structure: STRUCTURE, field, found, allowed }
}

fn short(expected: usize, found: usize) -> FormatError {
    FormatError::Short { structure: STRUCTURE, expected: expected as u64, found: found as u64 }
}

pub(crate) fn encode_page_ref(page: &PageRef) -> PageRefRaw {
    PageRefRaw {
        offset: U64::new(page.offset),
        checksum: U64::new(page.checksum),
        stored_len: U32::new(page.stored_len),
        plain_len: U32::new(page.plain_len),
        codec: page.codec,
        reserved: [0; 7],
    }
}

pub(crate) fn decode_page_ref(raw: &PageRefRaw) -> Result<PageRef, FormatError> {
    if raw.reserved != [0; 7] {
        return Err(field("reserved", 1, "0"));
    }
    let page = PageRef {
        offset: raw.offset.get(),
        checksum: raw.checksum.get(),
        stored_len: raw.stored_len.get(),
        plain_len: raw.plain_len.get(),
        codec: raw.codec,
        ..PageRef::default()
    };
    check_page_ref(&page)?;
    Ok(page)
}

/// Checks the form of a page reference of a root or an index page: lengths, codec, offset.
///
/// # Errors
/// A value is beyond its limit.
pub fn check_page_ref(page: &PageRef) -> Result<(), FormatError> {
    if page.codec > 4 {
        return Err(field("page codec", u64::from(page.codec), "0 to 4"));
    }
    if page.plain_len > PAGE_PLAIN_LEN_MAX {
        return Err(field("page plain length", u64::from(page.plain_len), "at most 4 MiB"));
    }
    if page.stored_len > PAGE_STORED_LEN_MAX
        || (page.codec == 0 && page.stored_len != page.plain_len)
    {
        let allowed = "at most 4 MiB, and the plain length if not compressed";
        return Err(field("page stored length", u64::from(page.stored_len), allowed));
    }
    if page.offset.checked_add(u64::from(page.stored_len)).is_none() {
        return Err(field("page offset", page.offset, "inside the image"));
    }
    Ok(())
}

fn encode_table(table: &TableRoot) -> TableRootRaw {
    TableRootRaw {
        row_count: U64::new(table.row_count),
        page_count: U64::new(table.page_count),
        level_count: table.level_count,
        reserved: [0; 7],
        top: encode_page_ref(&table.top),
        dictionary: encode_page_ref(&table.dictionary),
    }
}

fn decode_table(raw: &TableRootRaw) -> Result<TableRoot, FormatError> {
    if raw.reserved != [0; 7] {
        return Err(field("reserved", 1, "0"));
    }
    if (raw.level_count == 0) != (raw.row_count.get() == 0) {
        return Err(field(
            "table levels",
            u64::from(raw.level_count),
            "0 exactly when the table has no rows",
        ));
    }
    Ok(TableRoot {
        row_count: raw.row_count.get(),
        page_count: raw.page_count.get(),
        level_count: raw.level_count,
        top: decode_page_ref(&raw.top)?,
        dictionary: decode_page_ref(&raw.dictionary)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offset of the root of the state with `count` snapshots; each root has a copy 500 bytes on.
    fn place(count: u32) -> EarlierRoot {
        let offset = u64::from(count) * 1000;
        EarlierRoot {
            offset,
            copy_offset: offset + 500,
            section_len: 100,
            payload_sum: 7,
            snapshot_count: count,
        }
    }

    fn snapshots(names: std::ops::Range<u32>) -> Vec<Snapshot> {
        names.map(|n| Snapshot { name: vec![n as u8], ..Snapshot::default() }).collect()
    }

    /// The payload of a root with `count` snapshots that names the one with `of`, if that is not 0.
    fn payload(count: u32, of: u32) -> Vec<u8> {
        let earlier = (of > 0).then(|| place(of)).into_iter().collect();
        let snapshots = snapshots(0..count);
        Root { earlier, snapshots, ..Root::default() }.encode().unwrap()
    }

    fn joined(root: &[u8], of: &dyn Fn(u32) -> u32) -> Result<Root, FormatError> {
        Root::decode(root)?.join(100_000, |earlier| {
            let count = (earlier.offset / 1000) as u32;
            Root::decode(&payload(count, of(count)))
        })
    }

    #[test]
    fn snapshots_of_earlier_roots_come_first() {
        let of = |count: u32| count.saturating_sub(1);
        let root = joined(&payload(9, 8), &of).unwrap();
        assert_eq!(root.snapshots, snapshots(0..9));
        assert_eq!(root.earlier, (1..9).rev().map(place).collect::<Vec<_>>());
        // What a root does not have itself, it does not store.
        let whole = payload(9, 0).len();
        assert_eq!(payload(9, 8).len() + 8 * (544 + 1) - 40, whole);
        assert_eq!(joined(&payload(9, 0), &of).unwrap().snapshots, snapshots(0..9));
    }

    #[test]
    fn chains_of_roots_end() {
        let of = |count: u32| count.saturating_sub(1);
        assert!(joined(&payload(ROOT_DEPTH_MAX as u32 + 1, ROOT_DEPTH_MAX as u32), &of).is_ok());
        assert!(
            joined(&payload(ROOT_DEPTH_MAX as u32 + 2, ROOT_DEPTH_MAX as u32 + 1), &of).is_err()
        );
        // A root that does not lie before the one that names it, and one with too few snapshots.
        assert!(
            Root::decode(&payload(200, 199)).unwrap().join(100, |_| unreachable_root()).is_err()
        );
        let few = |_: &EarlierRoot| Root::decode(&payload(2, 0));
        assert!(Root::decode(&payload(5, 4)).unwrap().join(100_000, few).is_err());
    }

    fn unreachable_root() -> Result<Root, FormatError> {
        panic!("a root is read that does not lie before");
    }

    #[test]
    fn what_names_a_root_is_checked() {
        let good = payload(3, 2);
        let at = size_of::<RootRaw>();
        assert!(Root::decode(&good).is_ok());
        for (place, what) in [(at + 36, "further records"), (7, "needs")] {
            let mut wrong = good.clone();
            wrong[place] |= 0x80;
            assert!(Root::decode(&wrong).is_err(), "{what}");
        }
        let mut none = good.clone();
        none[at + 32..at + 36].fill(0);
        assert!(Root::decode(&none).is_err(), "no snapshot is taken");
        assert!(Root::decode(&good[..at + 39]).is_err());
        // What the named root names in turn may be named, too, and counts only as a hint.
        let earlier = vec![place(4), place(3), place(1)];
        let all = Root { earlier: earlier.clone(), snapshots: snapshots(0..5), ..Root::default() };
        let bytes = all.encode().unwrap();
        assert_eq!(Root::decode(&bytes).unwrap().earlier, earlier);
        let of = |count: u32| count.saturating_sub(1);
        let root = joined(&bytes, &of).unwrap();
        assert_eq!(root.snapshots, snapshots(0..5));
        assert_eq!(root.earlier, [4, 3, 2, 1].map(place));
        let mut wrong = bytes.clone();
        wrong[at + 36] = 3;
        assert!(Root::decode(&wrong).is_err(), "one more is promised");
        wrong[at + 36] = 12;
        assert!(Root::decode(&wrong).is_err(), "more than a chain has");
        wrong = bytes;
        wrong[at + 40 + 36] = 1;
        assert!(Root::decode(&wrong).is_err(), "further ones of a further one");
    }
}
