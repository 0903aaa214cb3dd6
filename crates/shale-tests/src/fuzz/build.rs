//! A tree as bytes choose it, built, read back and checked.

use super::small_options;
use shale::{CheckOptions, NoProgress, check};
use shale_format::{InodeKind, Timestamp};
use shale_model::SourceError;
use shale_model::{Content, LinkId, Metadata, Xattr};
use shale_read::{Image, MemorySource, SnapshotChoice};
use shale_write::{EntrySource, SourceEntry};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries of a tree at most.
const ENTRY_COUNT_MAX: usize = 48;

/// A tree in memory, handed out entry by entry.
struct TreeInMemory(std::vec::IntoIter<SourceEntry>);

impl EntrySource for TreeInMemory {
    fn seed(&self) -> [u8; 32] {
        [5; 32]
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        Ok(self.0.next())
    }
}

/// What has to come back: content or target by path, and the names of one inode.
#[derive(Default)]
struct Expected {
    contents: BTreeMap<Vec<u8>, Vec<u8>>,
    kinds: BTreeMap<Vec<u8>, InodeKind>,
}

/// Takes numbers off the front of an input; zero after its end.
struct Choices<'b>(&'b [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let (front, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        front.to_vec()
    }
}

/// Builds a tree that the bytes choose, at a level and with lengths of frames that they choose, and
/// reads it back: every content, kind and link, under its identity, and a check finds nothing.
pub fn build_then_read(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let options = shale_write::Options {
        level: choices.byte() % 4,
        threads: 1,
        frame_len: Some(4096 << (choices.byte() % 5)),
        memory_bytes_max: 256 << 20,
        ..shale_write::Options::default()
    };
    let (entries, expected) = tree(&mut choices);
    let mut image = Vec::new();
    let mut source = TreeInMemory(entries.into_iter());
    let progress = shale_write::NoProgress;
    shale_write::create(&mut source, &mut image, &options, &progress)
        .expect("what a tree can be is packed");
    let source = Arc::new(MemorySource::new(image));
    let opened = Image::open(source.clone(), small_options()).expect("what is built opens");
    let identity = opened.identity().expect("it is whole").map(|(_, identity)| identity);
    assert!(identity.is_some(), "what is built has an identity");
    let expecting = small_options().expect(identity);
    let opened = Image::open(source.clone(), expecting).expect("it is what it says");
    let tree = opened.tree(&SnapshotChoice::Newest).expect("it has a snapshot");
    for (path, kind) in &expected.kinds {
        let inode = tree.lookup_path(path).expect("it is whole").expect("the path is there");
        let attributes = tree.attributes(inode).expect("it is whole");
        assert_eq!(attributes.kind, *kind, "{}", path.escape_ascii());
        let Some(content) = expected.contents.get(path) else { continue };
        let found = match kind {
            InodeKind::Symlink => tree.link_target(inode).expect("it is whole"),
            _ => {
                let mut found = vec![1; attributes.size as usize];
                let len = tree.read(inode, 0, &mut found).expect("it is whole");
                assert_eq!(len, found.len());
                found
            }
        };
        assert!(&found == content, "{} is another", path.escape_ascii());
    }
    let options = CheckOptions::default().threads(1).expect(identity);
    let report = check(source, &options, &NoProgress).expect("it is an image");
    assert!(report.is_clean(), "{:?}", report.problems);
}

fn metadata(kind: InodeKind, len: u64, number: u8) -> Metadata {
    let time = Timestamp { sec: i64::from(number) << (number % 40), nsec: u32::from(number) };
    Metadata {
        kind,
        permissions: 0o7777 & (u32::from(number) * 37),
        uid: u32::from(number) << (number % 24),
        gid: u32::from(number),
        mtime: time,
        atime: time,
        ctime: time,
        btime: time,
        len,
        device: 0,
    }
}

fn tree(choices: &mut Choices<'_>) -> (Vec<SourceEntry>, Expected) {
    let mut expected = Expected::default();
    let mut folders: Vec<Vec<u8>> = vec![Vec::new()];
    let mut contents: Vec<Vec<u8>> = vec![Vec::new()];
    let mut files: Vec<(Vec<u8>, LinkId)> = Vec::new();
    let mut entries = vec![entry(Vec::new(), metadata(InodeKind::Directory, 0, 1))];
    expected.kinds.insert(Vec::new(), InodeKind::Directory);
    while !choices.0.is_empty() && entries.len() < ENTRY_COUNT_MAX {
        let (kind, number) = (choices.byte(), choices.byte());
        let mut path = folders[usize::from(kind / 8) % folders.len()].clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        // Names are told apart by a number; what else is in them is anything.
        path.extend_from_slice(format!("{}-", entries.len()).as_bytes());
        let name = choices.bytes(usize::from(number % 9));
        path.extend(name.into_iter().filter(|byte| !matches!(byte, 0 | b'/')));
        let mut made = match kind % 8 {
            0 => {
                folders.push(path.clone());
                entry(path.clone(), metadata(InodeKind::Directory, 0, number))
            }
            1 => {
                let target = [b"t".to_vec(), choices.bytes(usize::from(number))].concat();
                let target: Vec<u8> = target.into_iter().filter(|byte| *byte != 0).collect();
                expected.contents.insert(path.clone(), target.clone());
                let entry = entry(path.clone(), metadata(InodeKind::Symlink, 0, number));
                SourceEntry { target, ..entry }
            }
            2 => entry(path.clone(), metadata(InodeKind::Fifo, 0, number)),
            3 if !files.is_empty() => {
                // One more name of a file that is there.
                let (of, link) = files[usize::from(number) % files.len()].clone();
                let index = entries.iter().position(|entry| entry.path == of).unwrap_or_default();
                expected.contents.insert(path.clone(), expected.contents[&of].clone());
                let entry = entry(path.clone(), entries[index].metadata);
                SourceEntry { link: Some(link), ..entry }
            }
            _ => {
                let content = content(choices, number, &contents);
                contents.push(content.clone());
                expected.contents.insert(path.clone(), content.clone());
                let link = LinkId { device: 1, inode: entries.len() as u64 };
                files.push((path.clone(), link));
                let entry =
                    entry(path.clone(), metadata(InodeKind::File, content.len() as u64, number));
                SourceEntry { link: Some(link), content: Content::Bytes(content), ..entry }
            }
        };
        if number.is_multiple_of(5) && made.link.is_none() {
            let value = choices.bytes(usize::from(number));
            made.xattrs = Arc::from([Xattr { name: b"user.x".to_vec(), value }]);
        }
        expected.kinds.insert(path, made.metadata.kind);
        entries.push(made);
    }
    (entries, expected)
}

/// New bytes, bytes of a content before with a few of them changed, zeroes, or many of one.
fn content(choices: &mut Choices<'_>, number: u8, before: &[Vec<u8>]) -> Vec<u8> {
    let len = usize::from(choices.byte()) << (number % 8);
    match number / 8 % 5 {
        0 => choices.bytes(len),
        1 => vec![0; len],
        2 => choices.bytes(7).into_iter().chain([1]).cycle().take(len).collect(),
        3 => crate::random::Random::new(u64::from(number)).text(len),
        _ => {
            let mut copy = before[usize::from(choices.byte()) % before.len()].clone();
            copy.extend(choices.bytes(3));
            let at = len % copy.len().max(1);
            if let Some(byte) = copy.get_mut(at) {
                *byte ^= 1;
            }
            copy
        }
    }
}

fn entry(path: Vec<u8>, metadata: Metadata) -> SourceEntry {
    SourceEntry {
        path,
        metadata,
        xattrs: Arc::from([]),
        link: None,
        target: Vec::new(),
        content: Content::None,
    }
}
