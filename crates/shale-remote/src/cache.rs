//! Blocks of objects on disk, shared by processes.
//!
//! Each state of an object has three files: what it is (`.about`), its blocks at their offsets in a
//! sparse file (`.blocks`), and a checksum for each block (`.sums`). A block counts only if its
//! checksum is there and right. So a process may be killed at any moment, several may write the
//! same block at once, and a damaged block is fetched again. No file is locked.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use serde_json::{Value, json};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::fetch::ObjectState;
use crate::held::BLOCK_LEN;
use crate::options::CacheOptions;

/// Bytes of one checksum; zero means that the block is not there.
const SUM_LEN: u64 = 8;
const ABOUT: &str = "about";
const BLOCKS: &str = "blocks";
const SUMS: &str = "sums";

/// A directory of cached blocks.
#[derive(Debug, Clone)]
pub struct Cache {
    dir: PathBuf,
    bytes_max: u64,
}

/// One state of an object in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheEntry {
    /// The URL, without passwords and signatures.
    pub url: String,
    /// Length of the object.
    pub len: u64,
    /// Bytes that its cached blocks take on disk.
    pub cached_bytes: u64,
    /// When it was opened last.
    pub used: SystemTime,
    key: String,
}

impl Cache {
    /// The cache in a directory, which is made when something is cached.
    pub fn new(options: &CacheOptions) -> Self {
        Self { dir: options.dir.clone(), bytes_max: options.bytes_max }
    }

    /// What is cached, used last first.
    ///
    /// # Errors
    /// The directory is there and cannot be read.
    pub fn list(&self) -> io::Result<Vec<CacheEntry>> {
        let dir = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            dir => dir?,
        };
        let mut entries = Vec::new();
        for item in dir {
            let path = item?.path();
            let key = path.file_stem().and_then(|key| key.to_str()).map(str::to_owned);
            // Another process may have removed it.
            if path.extension().is_some_and(|ending| ending == ABOUT)
                && let Some(key) = key
                && let Some((about, used)) = read_about(&path)
            {
                let blocks = fs::metadata(self.path(&key, BLOCKS)).map(|meta| meta.blocks() * 512);
                entries.push(CacheEntry {
                    url: about["url"].as_str().unwrap_or_default().to_owned(),
                    len: about["len"].as_u64().unwrap_or_default(),
                    cached_bytes: blocks.unwrap_or_default(),
                    used,
                    key,
                });
            }
        }
        entries.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.key.cmp(&b.key)));
        Ok(entries)
    }

    /// Removes an entry. Processes that have it open keep what they have.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, entry: &CacheEntry) -> io::Result<()> {
        // Without this one, the others do not count.
        for ending in [ABOUT, SUMS, BLOCKS] {
            match fs::remove_file(self.path(&entry.key, ending)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The state of the object `name` that was used last.
    pub(crate) fn newest(&self, name: &str) -> Option<ObjectState> {
        let hash = name_hash(name);
        let newest = self.list().ok()?.into_iter().find(|entry| entry.key.starts_with(&hash))?;
        let (about, _) = read_about(&self.path(&newest.key, ABOUT))?;
        let field = |name: &str| about[name].as_str().map(str::to_owned);
        let len = about["len"].as_u64()?;
        Some(ObjectState { len, etag: field("etag"), modified: field("modified") })
    }

    /// Opens or makes the entry of a state of the object `name`. `None` if it cannot be cached: its
    /// states cannot be told apart, or the directory cannot be written.
    pub(crate) fn entry(&self, name: &str, url: &str, identity: &ObjectState) -> Option<Entry> {
        if !identity.is_known() || self.bytes_max == 0 {
            return None;
        }
        let state = format!("{:?} {:?} {}", identity.etag, identity.modified, identity.len);
        let key = format!("{}-{:032x}", name_hash(name), xxh3_128(state.as_bytes()));
        let open = || -> io::Result<Entry> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
            let open = |ending| {
                let mut options = File::options();
                options.read(true).write(true).create(true).truncate(false).mode(0o600);
                options.open(self.path(&key, ending))
            };
            let (blocks, sums) = (open(BLOCKS)?, open(SUMS)?);
            let about = self.path(&key, ABOUT);
            match File::options().write(true).open(&about) {
                Ok(file) => file.set_modified(SystemTime::now())?,
                Err(_) => {
                    let text = json!({
                        "url": url, "len": identity.len,
                        "etag": identity.etag, "modified": identity.modified,
                    });
                    // Complete or absent, whoever else writes it.
                    let own = self.dir.join(format!("{key}.{}.partial", std::process::id()));
                    fs::write(&own, text.to_string())?;
                    fs::rename(&own, &about)?;
                }
            }
            Ok(Entry {
                cache: self.clone(),
                key: key.clone(),
                len: identity.len,
                blocks,
                sums,
                written: AtomicU64::new(0),
                is_full: AtomicBool::new(false),
            })
        };
        let entry = open().ok()?;
        entry.trim();
        Some(entry)
    }

    fn path(&self, key: &str, ending: &str) -> PathBuf {
        self.dir.join(format!("{key}.{ending}"))
    }
}

fn name_hash(name: &str) -> String {
    format!("{:032x}", xxh3_128(name.as_bytes()))
}

fn read_about(path: &Path) -> Option<(Value, SystemTime)> {
    let used = fs::metadata(path).ok()?.modified().ok()?;
    let about: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    Some((about, used))
}

/// The blocks of one state of an object.
#[derive(Debug)]
pub(crate) struct Entry {
    cache: Cache,
    key: String,
    len: u64,
    blocks: File,
    sums: File,
    /// Bytes written since the size of the cache was looked at.
    written: AtomicU64,
    /// The object alone fills the cache, or the disk is full.
    is_full: AtomicBool,
}

impl Entry {
    /// The cached runs of `range`, whose bounds are those of blocks: offsets and verified bytes.
    pub(crate) fn read(&self, range: Range<u64>) -> Vec<(u64, Vec<u8>)> {
        let first = range.start / BLOCK_LEN;
        let count = (range.end.div_ceil(BLOCK_LEN) - first) as usize;
        let mut sums = vec![0; count * SUM_LEN as usize];
        let have = read_up_to(&self.sums, first * SUM_LEN, &mut sums);
        sums[have / SUM_LEN as usize * SUM_LEN as usize..].fill(0);
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut block = vec![0; BLOCK_LEN as usize];
        for (index, sum) in sums.chunks_exact(SUM_LEN as usize).enumerate() {
            if sum.iter().all(|byte| *byte == 0) {
                continue;
            }
            let start = (first + index as u64) * BLOCK_LEN;
            let len = (self.len - start).min(BLOCK_LEN) as usize;
            let bytes = &mut block[..len];
            if self.blocks.read_exact_at(bytes, start).is_err() || sum != sum_of(bytes) {
                continue;
            }
            match runs.last_mut() {
                Some((at, run)) if *at + run.len() as u64 == start => run.extend_from_slice(bytes),
                _ => runs.push((start, bytes.to_vec())),
            }
        }
        runs
    }

    /// Keeps the whole blocks of `bytes`, which begin at `start`, the start of a block. A block
    /// that cannot be written is not kept.
    pub(crate) fn write(&self, start: u64, bytes: &[u8]) {
        if self.is_full.load(Relaxed) {
            return;
        }
        let end = start + bytes.len() as u64;
        let whole = if end == self.len { end } else { end / BLOCK_LEN * BLOCK_LEN };
        let Some(bytes) = whole.checked_sub(start).and_then(|len| bytes.get(..len as usize)) else {
            return;
        };
        let sums: Vec<u8> = bytes.chunks(BLOCK_LEN as usize).flat_map(sum_of).collect();
        // The bytes first: a sum without its block would only cost a comparison.
        let write = || {
            self.blocks.write_all_at(bytes, start)?;
            self.sums.write_all_at(&sums, start / BLOCK_LEN * SUM_LEN)
        };
        if write().is_err() {
            self.is_full.store(true, Relaxed);
            return;
        }
        let written = self.written.fetch_add(bytes.len() as u64, Relaxed) + bytes.len() as u64;
        if written > self.cache.bytes_max / 8 {
            self.written.store(0, Relaxed);
            self.trim();
        }
    }

    /// Removes the entries used longest ago until the cache has its size.
    fn trim(&self) {
        let Ok(entries) = self.cache.list() else { return };
        let mut left = 0;
        // This one counts first, so that others make room for it.
        let is_own = |entry: &&CacheEntry| entry.key == self.key;
        let own = entries.iter().find(is_own).map_or(0, |entry| entry.cached_bytes);
        left += own;
        if own >= self.cache.bytes_max {
            self.is_full.store(true, Relaxed);
        }
        for entry in entries.iter().filter(|entry| entry.key != self.key) {
            left += entry.cached_bytes;
            if left > self.cache.bytes_max {
                left -= entry.cached_bytes;
                let _ = self.cache.remove(entry);
            }
        }
    }
}

/// The checksum of a block, never zero.
fn sum_of(block: &[u8]) -> [u8; SUM_LEN as usize] {
    xxh3_64(block).max(1).to_le_bytes()
}

/// Reads as much as there is.
fn read_up_to(file: &File, offset: u64, buf: &mut [u8]) -> usize {
    let mut have = 0;
    while have < buf.len() {
        match file.read_at(&mut buf[have..], offset + have as u64) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    have
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(dir: &Path, bytes_max: u64) -> Cache {
        Cache::new(&CacheOptions { dir: dir.join("cache"), bytes_max })
    }

    fn state(len: u64, etag: &str) -> ObjectState {
        ObjectState { len, etag: Some(etag.into()), modified: None }
    }

    #[test]
    fn blocks_come_back_and_damaged_ones_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path(), 1 << 30);
        let bytes: Vec<u8> = (0..20_000u32).map(|n| (n % 251) as u8).collect();
        let entry = cache.entry("n", "u", &state(20_000, "a")).unwrap();
        entry.write(4096, &bytes[4096..12_288]);
        entry.write(16_384, &bytes[16_384..]);
        let found = entry.read(0..20_000);
        let expected = [(4096, bytes[4096..12_288].to_vec()), (16_384, bytes[16_384..].to_vec())];
        assert_eq!(found, expected);
        // A block that is damaged on disk, and a sum that was never finished.
        entry.blocks.write_all_at(b"x", 5000).unwrap();
        assert_eq!(entry.read(0..20_000)[0].0, 8192);
        entry.sums.set_len(20).unwrap();
        assert!(entry.read(8192..20_000).is_empty());
        // Another state of the object shares nothing with it.
        let other = cache.entry("n", "u", &state(20_000, "b")).unwrap();
        assert!(other.read(0..20_000).is_empty());
    }

    #[test]
    fn the_size_stays_bounded_and_the_oldest_entry_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path(), 100 << 12);
        for n in 0..4 {
            let entry = cache.entry(&format!("n{n}"), "u", &state(40 << 12, "a")).unwrap();
            let about = File::options().write(true).open(cache.path(&entry.key, ABOUT)).unwrap();
            about.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(n)).unwrap();
            entry.write(0, &vec![7; 40 << 12]);
        }
        let left = cache.list().unwrap();
        assert!(left.iter().map(|entry| entry.cached_bytes).sum::<u64>() <= 100 << 12);
        assert!(cache.newest("n3").is_some() && cache.newest("n0").is_none());
    }

    #[test]
    fn an_object_without_a_state_is_not_cached() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path(), 1 << 20);
        assert!(cache.entry("n", "u", &ObjectState { len: 5, ..ObjectState::default() }).is_none());
    }
}
