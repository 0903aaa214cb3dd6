//! Digests of what was read, in a form that a reader of the image can compute again.
//!
//! A build keeps two digests in its report: one of the bytes of each content, and one of all names,
//! attributes and links. Both are made of what the source gave and not of what was written. To
//! verify an image, compute both from what is read back, with the functions here, and compare.
//!
//! - **Content.** Let `D` be the BLAKE3 hash of the content without those whole 64 KiB blocks
//!   (counted from its start) that are all zero. Let `Z` be the BLAKE3 hash of the maximal runs of
//!   such blocks, each as first block and number of blocks (two 64-bit little-endian numbers). The
//!   digest is BLAKE3(`D` ‖ `Z` ‖ length as 64 bits). Holes and zeroes are the same bytes and give
//!   the same digest; long ones cost nothing.
//! - **Path.** The path digest of the root is 32 zero bytes. That of another directory is
//!   BLAKE3(`"path"` ‖ path digest of its parent ‖ its name).
//! - **Tree.** Every entry is hashed with its attributes, see [`TreeDigest::add_entry`]. The root
//!   is an entry with an empty name whose parent has the root's path digest. The hashes are added
//!   up as four wrapping 64-bit lanes, so the order of entries does not matter. Every inode with
//!   two names or more adds one hash over the sum of the hashes of its names, see [`LinkGroup`], so
//!   that the digest shows which names share an inode.
//!
//! Sums of hashes find faults, not forgeries; the BLAKE3 hash of a content finds both.

use shale_codec::Hasher;
use shale_format::InodeRecord;

/// Digest of the bytes of one content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ContentDigest(pub [u8; 32]);

impl ContentDigest {
    /// Stands for a content that an image already held when a build continued it, in the digest of
    /// the tree: it names the content and says nothing of its bytes, which the build did not read.
    pub fn held(content: u64) -> Self {
        let mut bytes = *b"held content of the image:......";
        bytes[24..].copy_from_slice(&content.to_le_bytes());
        Self(bytes)
    }
}

impl std::fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Length of the blocks of zeroes that [`ContentHasher`] leaves out.
const BLOCK_LEN: usize = 64 << 10;

/// Computes a [`ContentDigest`] from bytes in order. Holds at most one block.
#[derive(Debug, Clone, Default)]
pub struct ContentHasher {
    data: Hasher,
    runs: Hasher,
    /// The beginning of the block that is not complete yet. While the block is all zero, only
    /// `block_len` counts and this buffer is not used.
    block: Vec<u8>,
    block_len: usize,
    block_nonzero: bool,
    block_index: u64,
    run_first: u64,
    run_count: u64,
    runs_any: bool,
    len: u64,
}

impl ContentHasher {
    /// Makes a hasher that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hashes the next bytes. Whole blocks are hashed in place, the rest is copied.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.block_len == 0 && bytes.len() >= BLOCK_LEN {
                let (block, rest) = bytes.split_at(BLOCK_LEN);
                if is_zero(block) {
                    self.end_zero_block(1);
                } else {
                    self.data.update(block);
                    self.block_index += 1;
                }
                bytes = rest;
                continue;
            }
            let take = bytes.len().min(BLOCK_LEN - self.block_len);
            let (part, rest) = bytes.split_at(take);
            if self.block_nonzero || !is_zero(part) {
                self.make_nonzero();
                self.block.extend_from_slice(part);
            }
            self.block_len += take;
            self.end_block_if_full();
            bytes = rest;
        }
    }

    /// Hashes `len` zero bytes, at a cost that does not depend on `len`.
    pub fn update_zeroes(&mut self, mut len: u64) {
        self.len += len;
        if self.block_len > 0 {
            let take = len.min((BLOCK_LEN - self.block_len) as u64) as usize;
            if self.block_nonzero {
                self.block.resize(self.block_len + take, 0);
            }
            self.block_len += take;
            self.end_block_if_full();
            len -= take as u64;
        }
        let blocks = len / BLOCK_LEN as u64;
        if blocks > 0 {
            self.end_zero_block(blocks);
        }
        // Either the last block was completed and `len` is the rest, or nothing is left.
        self.block_len += (len % BLOCK_LEN as u64) as usize;
    }

    /// Number of bytes so far.
    pub fn content_len(&self) -> u64 {
        self.len
    }

    /// Returns the digest of all bytes.
    pub fn finish(mut self) -> ContentDigest {
        // An incomplete block counts as data even if it is zero, because it is shorter than a
        // block.
        if self.block_len > 0 {
            self.make_nonzero();
            self.data.update(&self.block);
        }
        self.end_run();
        let mut hasher = Hasher::new();
        hasher.update(self.data.finalize().as_bytes());
        let runs = if self.runs_any { self.runs.finalize() } else { shale_codec::hash(&[]) };
        hasher.update(runs.as_bytes());
        hasher.update(&self.len.to_le_bytes());
        ContentDigest(*hasher.finalize().as_bytes())
    }

    fn make_nonzero(&mut self) {
        if !self.block_nonzero {
            self.block_nonzero = true;
            self.block.clear();
            self.block.resize(self.block_len, 0);
        }
    }

    fn end_block_if_full(&mut self) {
        if self.block_len == BLOCK_LEN {
            self.block_len = 0;
            if self.block_nonzero {
                self.block_nonzero = false;
                self.data.update(&self.block);
                self.block_index += 1;
            } else {
                self.end_zero_block(1);
            }
        }
    }

    fn end_zero_block(&mut self, count: u64) {
        if self.run_count > 0 && self.run_first + self.run_count == self.block_index {
            self.run_count += count;
        } else {
            self.end_run();
            (self.run_first, self.run_count) = (self.block_index, count);
        }
        self.block_index += count;
    }

    fn end_run(&mut self) {
        if self.run_count > 0 {
            self.runs_any = true;
            self.runs.update(&self.run_first.to_le_bytes());
            self.runs.update(&self.run_count.to_le_bytes());
            self.run_count = 0;
        }
    }
}

/// Returns the digest of `bytes` as a whole content.
pub fn content_digest(bytes: &[u8]) -> ContentDigest {
    let mut hasher = ContentHasher::new();
    hasher.update(bytes);
    hasher.finish()
}

/// Returns whether all bytes are zero, at the speed of memory.
pub fn is_zero(bytes: &[u8]) -> bool {
    const ZEROES: [u8; 1024] = [0; 1024];
    bytes.chunks(ZEROES.len()).all(|chunk| chunk == &ZEROES[..chunk.len()])
}

/// Identifies the path of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathDigest([u8; 32]);

impl PathDigest {
    /// The root directory.
    pub const ROOT: Self = Self([0; 32]);

    /// Returns the digest of the directory `name` in this one.
    pub fn child(&self, name: &[u8]) -> Self {
        let mut message = Message::new();
        message.push_fixed(*b"path");
        message.push_fixed(self.0);
        message.push(name);
        Self(message.finish())
    }
}

/// What an entry has beside its attributes.
#[derive(Debug, Clone, Copy)]
pub enum EntryPayload<'a> {
    /// Nothing: a directory, fifo or socket.
    None,
    /// The content of a regular file.
    Content(&'a ContentDigest),
    /// The target of a symbolic link.
    Target(&'a [u8]),
    /// The number of a device, as stored.
    Device(u64),
}

/// Digest of a tree. It does not depend on the order in which entries are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeDigest {
    /// Number of entries, the root included.
    pub entry_count: u64,
    sum: Lanes,
}

/// The names of one inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkGroup {
    /// Number of names.
    pub name_count: u64,
    sum: Lanes,
}

impl TreeDigest {
    /// Adds one entry. The kind, permissions, owner, group and times of `record` are used; times
    /// that are not kept must be the epoch. `xattrs` are pairs of name and value, sorted by name.
    pub fn add_entry<'a>(
        &mut self,
        parent: &PathDigest,
        name: &[u8],
        record: &InodeRecord,
        xattrs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        payload: EntryPayload<'_>,
    ) {
        let mut message = Message::new();
        message.push_fixed(*b"entry");
        message.push_fixed(parent.0);
        message.push_bytes(name);
        message.push_fixed((record.kind.mode_bits() | record.permissions).to_le_bytes());
        message.push_fixed(record.uid.to_le_bytes());
        message.push_fixed(record.gid.to_le_bytes());
        for time in [record.mtime, record.atime, record.ctime, record.btime] {
            message.push_fixed(time.sec.to_le_bytes());
            message.push_fixed(time.nsec.to_le_bytes());
        }
        match payload {
            EntryPayload::None => {}
            EntryPayload::Content(digest) => message.push_fixed(digest.0),
            EntryPayload::Target(target) => message.push_bytes(target),
            EntryPayload::Device(number) => message.push_fixed(number.to_le_bytes()),
        }
        for (name, value) in xattrs {
            message.push_bytes(name);
            message.push_bytes(value);
        }
        self.entry_count += 1;
        self.sum.add(&message.finish());
    }

    /// Adds the names of an inode that has at least two. Adds nothing for other inodes.
    pub fn add_links(&mut self, group: &LinkGroup) {
        if group.name_count < 2 {
            return;
        }
        let mut message = Message::new();
        message.push_fixed(*b"links");
        message.push_fixed(group.name_count.to_le_bytes());
        for lane in group.sum.0 {
            message.push_fixed(lane.to_le_bytes());
        }
        self.sum.add(&message.finish());
    }

    /// Adds the digest of other entries.
    pub fn merge(&mut self, other: &Self) {
        self.entry_count += other.entry_count;
        self.sum.merge(&other.sum);
    }

    /// Removes entries that were added before and then replaced.
    pub fn remove(&mut self, other: &Self) {
        self.entry_count -= other.entry_count;
        self.sum.remove(&other.sum);
    }
}

impl LinkGroup {
    /// Adds one name of the inode.
    pub fn add(&mut self, parent: &PathDigest, name: &[u8]) {
        self.add_path(&parent.child(name));
    }

    /// Adds one name of the inode by its path digest.
    pub fn add_path(&mut self, path: &PathDigest) {
        self.name_count += 1;
        self.sum.add(&path.0);
    }

    /// Returns the group as bytes for [`LinkGroup::from_bytes`].
    pub(crate) fn to_bytes(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        let numbers = [self.name_count].into_iter().chain(self.sum.0);
        for (room, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *room = number.to_le_bytes();
        }
        bytes
    }

    /// Restores a group from the bytes of [`LinkGroup::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8; 40]) -> Self {
        let number = |at: usize| u64::from_le_bytes(bytes.as_chunks::<8>().0[at]);
        Self { name_count: number(0), sum: Lanes(std::array::from_fn(|lane| number(lane + 1))) }
    }

    /// Removes a name that was added before.
    pub fn remove_path(&mut self, path: &PathDigest) {
        self.name_count -= 1;
        let mut lanes = Lanes::default();
        lanes.add(&path.0);
        self.sum.remove(&lanes);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lanes([u64; 4]);

impl Lanes {
    fn add(&mut self, hash: &[u8; 32]) {
        for (lane, bytes) in self.0.iter_mut().zip(hash.as_chunks::<8>().0) {
            *lane = lane.wrapping_add(u64::from_le_bytes(*bytes));
        }
    }

    fn merge(&mut self, other: &Self) {
        for (lane, more) in self.0.iter_mut().zip(other.0) {
            *lane = lane.wrapping_add(more);
        }
    }

    fn remove(&mut self, other: &Self) {
        for (lane, less) in self.0.iter_mut().zip(other.0) {
            *lane = lane.wrapping_sub(less);
        }
    }
}

/// Fields of one hash, put together before they are hashed: one call over a few hundred bytes costs
/// half as much as many calls over short pieces. Longer messages are hashed piece by piece.
struct Message {
    bytes: [u8; MESSAGE_LEN],
    len: usize,
    hasher: Option<Box<Hasher>>,
}

/// An entry with a name of usual length fits.
const MESSAGE_LEN: usize = 256;

impl Message {
    fn new() -> Self {
        Self { bytes: [0; MESSAGE_LEN], len: 0, hasher: None }
    }

    fn push(&mut self, field: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + field.len()) {
            room.copy_from_slice(field);
            self.len += field.len();
            return;
        }
        let hasher = self.hasher.get_or_insert_default();
        hasher.update(&self.bytes[..self.len]);
        hasher.update(field);
        self.len = 0;
    }

    /// Adds a field of fixed length with a few moves instead of a call.
    #[inline]
    fn push_fixed<const N: usize>(&mut self, field: [u8; N]) {
        if let Some(room) = self.bytes[self.len..].first_chunk_mut() {
            *room = field;
            self.len += N;
        } else {
            self.push(&field);
        }
    }

    /// Adds a field after its length.
    fn push_bytes(&mut self, field: &[u8]) {
        self.push_fixed((field.len() as u64).to_le_bytes());
        self.push(field);
    }

    fn finish(self) -> [u8; 32] {
        let rest = &self.bytes[..self.len];
        match self.hasher {
            None => *shale_codec::hash(rest).as_bytes(),
            Some(mut hasher) => *hasher.update(rest).finalize().as_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shale_format::Timestamp;

    /// Feeds `bytes` in pieces of `step`, giving zero pieces as counts.
    fn in_steps(bytes: &[u8], step: usize) -> ContentDigest {
        let mut hasher = ContentHasher::new();
        for piece in bytes.chunks(step) {
            if is_zero(piece) {
                hasher.update_zeroes(piece.len() as u64);
            } else {
                hasher.update(piece);
            }
        }
        hasher.finish()
    }

    #[test]
    fn digest_does_not_depend_on_how_bytes_arrive() {
        let mut bytes = vec![0u8; 5 * BLOCK_LEN + 77];
        for at in [10, BLOCK_LEN + 1, 3 * BLOCK_LEN - 1, 5 * BLOCK_LEN + 70] {
            bytes[at] = 1;
        }
        let whole = content_digest(&bytes);
        for step in [1, 100, 4096, BLOCK_LEN - 1, BLOCK_LEN, 3 * BLOCK_LEN] {
            assert_eq!(in_steps(&bytes, step), whole, "steps of {step}");
        }
        for changed in [0, BLOCK_LEN, 4 * BLOCK_LEN, 5 * BLOCK_LEN + 76] {
            let mut other = bytes.clone();
            other[changed] ^= 2;
            assert_ne!(content_digest(&other), whole, "byte {changed}");
        }
    }

    #[test]
    fn digest_tells_lengths_of_zeroes_apart() {
        let lens = [0, 1, 2, BLOCK_LEN - 1, BLOCK_LEN, BLOCK_LEN + 1, 2 * BLOCK_LEN];
        let digests: Vec<_> = lens.iter().map(|&len| content_digest(&vec![0; len])).collect();
        for (i, a) in digests.iter().enumerate() {
            let mut hasher = ContentHasher::new();
            hasher.update_zeroes(lens[i] as u64);
            assert_eq!(hasher.finish(), *a);
            assert!(digests[..i].iter().all(|b| b != a), "{}", lens[i]);
        }
    }

    #[test]
    fn digest_follows_its_definition() {
        let mut bytes = vec![0u8; 4 * BLOCK_LEN];
        bytes[0] = 9;
        let mut runs = Vec::new();
        runs.extend_from_slice(&1u64.to_le_bytes());
        runs.extend_from_slice(&3u64.to_le_bytes());
        let mut definition = shale_codec::hash(&bytes[..BLOCK_LEN]).as_bytes().to_vec();
        definition.extend_from_slice(shale_codec::hash(&runs).as_bytes());
        definition.extend_from_slice(&(4 * BLOCK_LEN as u64).to_le_bytes());
        assert_eq!(content_digest(&bytes).0, *shale_codec::hash(&definition).as_bytes());
    }

    #[test]
    fn tree_digest_ignores_order_and_sees_links() {
        let record = InodeRecord {
            kind: shale_format::InodeKind::Fifo,
            permissions: 0o644,
            uid: 1,
            gid: 2,
            link_count: 1,
            mtime: Timestamp::default(),
            atime: Timestamp::default(),
            ctime: Timestamp::default(),
            btime: Timestamp::default(),
            xattr_set: 0,
            payload: 0,
        };
        let entry = |digest: &mut TreeDigest, name: &[u8]| {
            digest.add_entry(&PathDigest::ROOT, name, &record, [], EntryPayload::None);
        };
        let (mut ab, mut ba, mut split) = Default::default();
        entry(&mut ab, b"a");
        entry(&mut ab, b"b");
        entry(&mut ba, b"b");
        entry(&mut ba, b"a");
        assert_eq!(ab, ba);
        entry(&mut split, b"a");
        let mut other = TreeDigest::default();
        entry(&mut other, b"b");
        split.merge(&other);
        assert_eq!(split, ab);
        let mut group = LinkGroup::default();
        group.add(&PathDigest::ROOT, b"a");
        ab.add_links(&group);
        assert_eq!(ab, ba, "one name is no link");
        group.add(&PathDigest::ROOT, b"b");
        ab.add_links(&group);
        assert_ne!(ab, ba);
    }

    #[test]
    fn fields_of_any_length_are_hashed_as_one_string() {
        for len in [0, 1, 100, MESSAGE_LEN - 8, MESSAGE_LEN - 7, MESSAGE_LEN, 3 * MESSAGE_LEN] {
            let mut message = Message::new();
            let mut expected = Vec::new();
            for (number, len) in [len, 5, len, len / 2].into_iter().enumerate() {
                let field = vec![number as u8 + 1; len];
                message.push_bytes(&field);
                expected.extend_from_slice(&(len as u64).to_le_bytes());
                expected.extend_from_slice(&field);
            }
            assert_eq!(message.finish(), *shale_codec::hash(&expected).as_bytes(), "{len}");
        }
    }
}
