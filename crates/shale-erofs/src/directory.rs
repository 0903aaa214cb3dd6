//! Blocks of a directory: entries of fixed length, then their names. No entry crosses a block.

use super::BLOCK_LEN;

/// Bytes of a directory entry without its name.
pub const DIRENT_LEN: usize = 12;

/// A name in a directory.
#[derive(Debug, Clone, Copy)]
pub struct Dirent<'a> {
    /// The name; `.` and `..` are among the names of a directory.
    pub name: &'a [u8],
    /// Number of its inode.
    pub slot: u64,
    /// Mode of its inode, of which the type is stored.
    pub mode: u32,
}

/// Computes the length of a directory. Each block takes as many entries as fit.
#[derive(Debug, Default)]
pub struct DirectorySize {
    full_block_count: u64,
    used: u64,
}

impl DirectorySize {
    /// Adds the next name.
    pub fn add(&mut self, name_len: usize) {
        let len = (DIRENT_LEN + name_len) as u64;
        if self.used + len > BLOCK_LEN {
            self.full_block_count += 1;
            self.used = 0;
        }
        self.used += len;
    }

    /// Returns the bytes of the directory; the last block is not padded.
    pub fn len(&self) -> u64 {
        self.full_block_count * BLOCK_LEN + self.used
    }

    /// Returns whether no name was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Encodes the blocks of a directory. `entries` are in the order of their names and include `.` and
/// `..`. The result has the length that [`DirectorySize`] computes.
pub fn directory<'n>(entries: impl Iterator<Item = Dirent<'n>>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut entries = entries.peekable();
    let mut block = Vec::new();
    while entries.peek().is_some() {
        let mut len = 0;
        block.clear();
        block.extend(std::iter::from_fn(|| {
            entries.next_if(|entry| {
                len += DIRENT_LEN + entry.name.len();
                len as u64 <= BLOCK_LEN
            })
        }));
        let mut name_offset = block.len() * DIRENT_LEN;
        for entry in &block {
            out.extend_from_slice(&entry.slot.to_le_bytes());
            out.extend_from_slice(&(name_offset as u16).to_le_bytes());
            out.extend_from_slice(&[file_type(entry.mode), 0]);
            name_offset += entry.name.len();
        }
        block.iter().for_each(|entry| out.extend_from_slice(entry.name));
        if entries.peek().is_some() {
            out.resize(out.len().next_multiple_of(BLOCK_LEN as usize), 0);
        }
    }
    out
}

/// Returns the type of a directory entry.
fn file_type(mode: u32) -> u8 {
    match mode & 0o170000 {
        0o100000 => 1,
        0o040000 => 2,
        0o020000 => 3,
        0o060000 => 4,
        0o010000 => 5,
        0o140000 => 6,
        0o120000 => 7,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_the_computed_length_and_no_entry_crosses_a_block() {
        for name_len in [1, 100, 255] {
            for count in [0usize, 1, 14, 15, 16, 40, 400] {
                let names: Vec<Vec<u8>> =
                    (0..count).map(|n| format!("{n:0name_len$}").into_bytes()).collect();
                let entries = names.iter().map(|name| Dirent { name, slot: 7, mode: 0o100644 });
                let mut size = DirectorySize::default();
                names.iter().for_each(|name| size.add(name.len()));
                let bytes = directory(entries);
                assert_eq!(bytes.len() as u64, size.len(), "{count} of {name_len}");
                assert_eq!(size.is_empty(), count == 0);
                let mut found = 0;
                for block in bytes.chunks(BLOCK_LEN as usize) {
                    let first = usize::from(u16::from_le_bytes([block[8], block[9]]));
                    found += first / DIRENT_LEN;
                }
                assert_eq!(found, count);
            }
        }
    }
}
