//! What the metadata say, typed and unpacked: names, inodes, directories, chunks.
//!
//! Numbers of fields are those of the format's schema. All lists are unpacked at once: about a
//! hundred bytes an inode.

use std::ops::Range;
use std::sync::Arc;

use shale_format::{InodeKind, Timestamp};

use super::frozen::{Frozen, View};

/// An inode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inode {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: Timestamp,
    pub(super) atime: Timestamp,
    pub(super) ctime: Timestamp,
    pub(super) btime: Timestamp,
}

impl Inode {
    /// Its kind.
    pub(super) fn kind(&self) -> Result<InodeKind, String> {
        InodeKind::from_mode(self.mode).ok_or_else(|| format!("an inode of mode {:o}", self.mode))
    }
}

/// A piece of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub(super) block: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) is_hole: bool,
}

/// The metadata, unpacked.
pub(super) struct Tables {
    root: View,
    /// Entries: number of the name, number of the inode.
    entries: Vec<(u32, u32)>,
    /// First entry of each directory, and one more.
    first_entries: Vec<u64>,
    inodes: Vec<Inode>,
    /// Before 2.3 each entry has metadata of its own.
    is_old: bool,
    names: Strings,
    symlinks: Strings,
    symlink_table: Vec<u64>,
    chunk_table: Vec<u64>,
    shared_files: Vec<u64>,
    devices: Vec<u64>,
    symlink_first: u64,
    file_first: u64,
    unique_count: u64,
    device_first: u64,
    hole_block: Option<u64>,
    large_holes: Vec<u64>,
    large_hole_marker: u64,
    /// What separates names in link targets.
    separator: Option<u64>,
    pub(super) block_len: u64,
    /// Numbers of inodes that hard links can be told by.
    pub(super) tells_links: bool,
}

/// Features of images that are understood.
const FEATURES: [&[u8]; 2] = [b"sparsefiles", b"sparsefiles_new_lhm"];

impl Tables {
    pub(super) fn read(frozen: Frozen) -> Result<Self, String> {
        let root = View::root(Arc::new(frozen));
        let mut new_marker = false;
        if let Some(features) = root.field(27).optional()? {
            for index in 0..features.checked_count()? {
                let feature = features.item(index)?;
                let feature = feature.bytes()?;
                if !FEATURES.contains(&feature) {
                    return Err(format!("feature `{}` is not known", feature.escape_ascii()));
                }
                new_marker |= feature == FEATURES[1];
            }
        }
        let options = root.field(18).optional()?;
        let flag = |id: i64| options.as_ref().map_or(Ok(0), |options| options.field(id).int());
        let optional = |id: i64| match &options {
            None => Ok(None),
            Some(options) => options.field(id).optional()?.map(|view| view.int()).transpose(),
        };
        let resolution = optional(2)?.unwrap_or(1);
        let nsec_step: Option<u64> = optional(6)?;
        let (mtime_only, has_btime) = (flag(1)? != 0, flag(7)? != 0);
        let base = root.field(12).int()?;
        let time =
            |view: &View, offset_id: i64, subsec_id: i64| -> Result<Timestamp, &'static str> {
                let units = base.wrapping_add(view.field(offset_id).int()?) as i64;
                let nsec = match nsec_step {
                    Some(step) => view.field(subsec_id).int()?.saturating_mul(step),
                    None => 0,
                };
                Ok(Timestamp {
                    sec: units.checked_mul(resolution as i64).ok_or("a time beyond 64 bits")?,
                    nsec: u32::try_from(nsec)
                        .ok()
                        .filter(|n| *n < 1_000_000_000)
                        .ok_or("nanoseconds")?,
                })
            };
        let (uids, gids) = (root.field(7).ints()?, root.field(8).ints()?);
        let modes = root.field(9).ints()?;
        let list = root.field(3);
        let count = list.checked_count()?;
        let dir_entries = root.field(19).optional()?;
        let is_old = dir_entries.is_none();
        let mut inodes = Vec::new();
        let mut entries = Vec::new();
        for index in 0..count {
            let view = list.item(index)?;
            let mtime = time(&view, 7, 11)?;
            inodes.push(Inode {
                mode: pick(&modes, view.field(2).int()?).ok_or("a mode is beyond their table")?,
                uid: owner(&uids, view.field(4).int()?).ok_or("an owner is beyond their table")?,
                gid: owner(&gids, view.field(5).int()?).ok_or("a group is beyond their table")?,
                mtime,
                atime: if mtime_only { mtime } else { time(&view, 6, 10)? },
                ctime: if mtime_only { mtime } else { time(&view, 8, 12)? },
                btime: if has_btime { time(&view, 9, 13)? } else { Timestamp::default() },
            });
            if is_old {
                entries.push((small(view.field(1).int()?)?, small(view.field(3).int()?)?));
            }
        }
        if let Some(list) = &dir_entries {
            for index in 0..list.checked_count()? {
                let view = list.item(index)?;
                entries.push((small(view.field(1).int()?)?, small(view.field(2).int()?)?));
            }
        }
        let list = root.field(2);
        let mut first_entries = Vec::new();
        for index in 0..list.checked_count()? {
            first_entries.push(list.item(index)?.field(2).int()?);
        }
        if flag(4)? != 0 {
            sum_up(&mut first_entries)?;
        }
        let mut chunk_table = root.field(4).ints()?;
        if flag(3)? != 0 {
            sum_up(&mut chunk_table)?;
        }
        let mut shared_files = match root.field(20).optional()? {
            Some(list) => list.ints()?,
            None => Vec::new(),
        };
        if flag(5)? != 0 {
            shared_files = unpacked(&shared_files, count)?;
        }
        let large_holes = match root.field(35).optional()? {
            Some(list) => list.ints()?,
            None => Vec::new(),
        };
        let block_len = root.field(15).int()?;
        let mut tables = Self {
            names: Strings::read(&root.field(10), root.field(24).optional()?)?,
            symlinks: Strings::read(&root.field(11), root.field(25).optional()?)?,
            symlink_table: root.field(6).ints()?,
            devices: root.field(17).optional()?.map_or(Ok(Vec::new()), |list| list.ints())?,
            hole_block: root.field(34).optional()?.map(|view| view.int()).transpose()?,
            large_hole_marker: match new_marker {
                true => block_len.wrapping_sub(1),
                false => u64::from(u32::MAX),
            },
            separator: root.field(26).optional()?.map(|view| view.int()).transpose()?,
            tells_links: !is_old,
            symlink_first: 0,
            file_first: 0,
            unique_count: 0,
            device_first: 0,
            root,
            entries,
            first_entries,
            inodes,
            is_old,
            chunk_table,
            shared_files,
            large_holes,
            block_len,
        };
        tables.find_ranks()?;
        Ok(tables)
    }

    /// Where each kind begins among the inodes.
    fn find_ranks(&mut self) -> Result<(), String> {
        let kinds: Vec<InodeKind> = if self.is_old {
            let table = self.root.field(5).ints()?;
            let inode = |&entry: &u64| self.inodes.get(usize::try_from(entry).ok()?);
            let kinds = table.iter().map(|entry| match inode(entry) {
                Some(inode) => inode.kind(),
                None => Err("an entry is beyond their table".to_owned()),
            });
            kinds.collect::<Result<_, _>>()?
        } else {
            self.inodes.iter().map(Inode::kind).collect::<Result<_, _>>()?
        };
        let rank = |kind: &InodeKind| match kind {
            InodeKind::Directory => 0,
            InodeKind::Symlink => 1,
            InodeKind::File => 2,
            InodeKind::BlockDevice | InodeKind::CharDevice => 3,
            InodeKind::Fifo | InodeKind::Socket => 4,
        };
        if !kinds.is_sorted_by_key(rank) {
            return Err("its inodes are not ordered by kind".to_owned());
        }
        let first = |wanted: i32| kinds.partition_point(|kind| rank(kind) < wanted) as u64;
        (self.symlink_first, self.file_first, self.device_first) = (first(1), first(2), first(3));
        let files = self.device_first - self.file_first;
        self.unique_count = files
            .checked_sub(self.shared_files.len() as u64)
            .ok_or("it has more shared files than files")?;
        Ok(())
    }

    /// Entries of all directories.
    pub(super) fn entry_count(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Metadata of the root.
    pub(super) fn root_inode(&self) -> Result<Inode, String> {
        self.inodes.first().copied().ok_or_else(|| "it has no root".to_owned())
    }

    /// Entries of a directory by its number.
    pub(super) fn entries(&self, directory: u64) -> Result<Range<u64>, String> {
        let at = usize::try_from(directory).map_err(|_| "a directory beyond 64 bits")?;
        match self.first_entries.get(at..at.saturating_add(2)) {
            Some(&[first, end]) if first <= end && end <= self.entries.len() as u64 => {
                Ok(first..end)
            }
            _ => Err("a directory has entries beyond their table".to_owned()),
        }
    }

    /// Name, number and metadata of an entry.
    pub(super) fn entry(&self, entry: u64) -> Result<(Vec<u8>, u64, Inode), String> {
        let at = usize::try_from(entry).map_err(|_| "an entry beyond 64 bits")?;
        let &(name, number) = self.entries.get(at).ok_or("an entry is beyond their table")?;
        let at = if self.is_old { at } else { number as usize };
        let inode = *self.inodes.get(at).ok_or("an inode is beyond their table")?;
        Ok((self.names.get(u64::from(name))?, u64::from(number), inode))
    }

    /// Target of a symbolic link.
    pub(super) fn target(&self, number: u64) -> Result<Vec<u8>, String> {
        let at = number.checked_sub(self.symlink_first).and_then(|at| usize::try_from(at).ok());
        let index = at.and_then(|at| self.symlink_table.get(at));
        let mut target = self.symlinks.get(*index.ok_or("a link is beyond their table")?)?;
        with_slashes(&mut target, self.separator);
        Ok(target)
    }

    /// Number of a device.
    pub(super) fn device(&self, number: u64) -> Result<u64, String> {
        let at = number.checked_sub(self.device_first).and_then(|at| usize::try_from(at).ok());
        let device = at.and_then(|at| self.devices.get(at));
        Ok(*device.ok_or("a device is beyond their table")?)
    }

    /// Which chunks a file is made of.
    pub(super) fn chunks_of(&self, number: u64) -> Result<Range<u64>, String> {
        let at = number.checked_sub(self.file_first).ok_or("a file is beyond their table")?;
        let index = match at.checked_sub(self.unique_count) {
            None => at,
            Some(shared) => {
                let shared = usize::try_from(shared).ok().and_then(|s| self.shared_files.get(s));
                let shared = shared.ok_or("a shared file is beyond their table")?;
                shared.checked_add(self.unique_count).ok_or("a shared file is beyond 64 bits")?
            }
        };
        let at = usize::try_from(index).map_err(|_| "a file beyond 64 bits")?;
        match self.chunk_table.get(at..at.saturating_add(2)) {
            Some(&[first, end]) if first <= end => Ok(first..end),
            _ => Err("a file has chunks beyond their table".to_owned()),
        }
    }

    /// A chunk by its number.
    pub(super) fn chunk(&self, index: u64) -> Result<Chunk, String> {
        let list = self.root.field(1);
        if index >= list.count()? {
            return Err("a chunk is beyond their table".to_owned());
        }
        let view = list.item(index)?;
        let (block, offset, len) =
            (view.field(1).int()?, view.field(2).int()?, view.field(3).int()?);
        if self.hole_block != Some(block) {
            return Ok(Chunk { block, offset, len, is_hole: false });
        }
        let hole_len = if offset == self.large_hole_marker {
            let large = usize::try_from(len).ok().and_then(|at| self.large_holes.get(at));
            *large.ok_or("a large hole is beyond their table")?
        } else {
            let blocks = len.checked_mul(self.block_len).and_then(|len| len.checked_add(offset));
            blocks.ok_or("a hole beyond 64 bits")?
        };
        Ok(Chunk { block, offset: 0, len: hole_len, is_hole: true })
    }
}

/// A value of a table by its index.
fn pick(list: &[u64], index: u64) -> Option<u32> {
    let value = list.get(usize::try_from(index).ok()?);
    value.copied().and_then(|value| u32::try_from(value).ok())
}

/// An owner by its index. Old versions that were asked to set one owner for all wrote a table of
/// that one, but the indexes of the owners that the files had.
fn owner(list: &[u64], index: u64) -> Option<u32> {
    pick(list, if list.len() == 1 { 0 } else { index })
}

/// Makes a link target of an image made on Windows one of Unix.
fn with_slashes(target: &mut [u8], separator: Option<u64>) {
    if separator == Some(u64::from(b'\\')) {
        target.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
    }
}

fn small(value: u64) -> Result<u32, &'static str> {
    u32::try_from(value).map_err(|_| "a number beyond 32 bits")
}

fn sum_up(values: &mut [u64]) -> Result<(), &'static str> {
    let mut sum = 0u64;
    for value in values {
        sum = sum.checked_add(*value).ok_or("a packed list beyond 64 bits")?;
        *value = sum;
    }
    Ok(())
}

fn unpacked(counts: &[u64], len_max: u64) -> Result<Vec<u64>, &'static str> {
    let mut out = Vec::new();
    for (index, &count) in counts.iter().enumerate() {
        if count.saturating_add(2) > len_max.saturating_sub(out.len() as u64) {
            return Err("more shared files than inodes");
        }
        out.extend(std::iter::repeat_n(index as u64, count as usize + 2));
    }
    Ok(out)
}

/// A table of strings, plain or packed.
enum Strings {
    List(View),
    Packed { buffer: View, ends: Vec<u64>, symbols: Option<Vec<Vec<u8>>> },
}

impl Strings {
    fn read(list: &View, packed: Option<View>) -> Result<Self, String> {
        let Some(packed) = packed else { return Ok(Self::List(list.clone())) };
        let mut ends = packed.field(3).ints()?;
        if packed.field(4).int()? != 0 {
            sum_up(&mut ends)?;
            // The first offset is always 0, and not always there.
            if ends.first() != Some(&0) {
                ends.insert(0, 0);
            }
        }
        let symbols = packed.field(2).optional()?;
        let symbols = symbols.map(|table| fsst(table.bytes()?)).transpose()?;
        Ok(Self::Packed { buffer: packed.field(1), ends, symbols })
    }

    fn get(&self, index: u64) -> Result<Vec<u8>, String> {
        const OUT: &str = "a string is beyond their table";
        match self {
            Self::List(list) if index < list.count()? => Ok(list.item(index)?.bytes()?.to_vec()),
            Self::List(_) => Err(OUT.to_owned()),
            Self::Packed { buffer, ends, symbols } => {
                let at = usize::try_from(index).map_err(|_| OUT)?;
                let Some(&[start, end]) = ends.get(at..at.saturating_add(2)) else {
                    return Err(OUT.to_owned());
                };
                let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
                let bytes = range.and_then(|(start, end)| Some((buffer.bytes().ok()?, start, end)));
                let bytes = bytes.and_then(|(all, start, end)| all.get(start..end)).ok_or(OUT)?;
                let Some(symbols) = symbols else { return Ok(bytes.to_vec()) };
                let mut out = Vec::with_capacity(bytes.len() * 2);
                let mut codes = bytes.iter();
                while let Some(&code) = codes.next() {
                    if code == 0xff {
                        out.push(*codes.next().ok_or("a packed string is cut")?);
                    } else {
                        let symbol = symbols.get(usize::from(code)).ok_or("a code of a string")?;
                        out.extend_from_slice(symbol);
                    }
                }
                Ok(out)
            }
        }
    }
}

/// The symbols of packed strings by code.
fn fsst(table: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    const WRONG: &str = "the table of symbols of its strings is wrong";
    let head = table.get(..17).ok_or(WRONG)?;
    if head[0] != 1 || head[4..8] != [0x0a, 0x14, 0x34, 0x01] || head[8] != 0 {
        return Err(WRONG);
    }
    let mut rest = &table[17..];
    let mut symbols = Vec::new();
    // Those of one byte come last.
    for len in [2, 3, 4, 5, 6, 7, 8, 1] {
        for _ in 0..head[8 + len] {
            let (symbol, after) = rest.split_at_checked(len).ok_or(WRONG)?;
            symbols.push(symbol.to_vec());
            rest = after;
        }
    }
    Ok(symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_set_for_all_is_the_owner_of_all() {
        assert_eq!(owner(&[1000], 0), Some(1000));
        assert_eq!(owner(&[1000], 7), Some(1000));
        assert_eq!(owner(&[1000, 0], 1), Some(0));
        assert_eq!(owner(&[1000, 0], 2), None);
        assert_eq!(owner(&[], 0), None);
    }

    #[test]
    fn link_targets_of_windows_have_slashes() {
        let with = |separator| {
            let mut target = br"..\a/b\c".to_vec();
            with_slashes(&mut target, separator);
            target
        };
        assert_eq!(with(Some(u64::from(b'\\'))), b"../a/b/c");
        assert_eq!(with(Some(u64::from(b'/'))), br"..\a/b\c");
        assert_eq!(with(None), br"..\a/b\c");
    }
}
