//! The oracle's view of an image through the library: the same manifest as of a tree on disk, so
//! that source, image, mount and extraction are compared by one rule.

use crate::manifest::{Manifest, Record, content_hash};
use shale_read::{Attributes, Image, InodeKind, MemorySource, Options, ReadError};
use shale_read::{SnapshotChoice, Tree};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Opens an image in memory.
///
/// # Errors
///
/// The image is damaged.
pub fn open(bytes: &[u8]) -> Result<Arc<Image>, ReadError> {
    Image::open(Arc::new(MemorySource::new(bytes)), Options::default())
}

/// Returns the manifest of the newest snapshot of an image in memory.
///
/// # Errors
///
/// The image is damaged.
pub fn manifest(bytes: &[u8]) -> Result<Manifest, ReadError> {
    manifest_of(&open(bytes)?.tree(&SnapshotChoice::Newest)?)
}

/// The manifest of the newest snapshot of an image in a file.
#[track_caller]
pub fn manifest_at(path: &std::path::Path) -> Manifest {
    let bytes = std::fs::read(path).expect("the image is there");
    manifest(&bytes).expect("the image can be read")
}

/// Returns the manifest of a snapshot. Reads every file.
///
/// # Errors
///
/// The image is damaged.
pub fn manifest_of(tree: &Tree) -> Result<Manifest, ReadError> {
    let mut records = BTreeMap::new();
    let mut inodes: HashMap<u64, Vec<Vec<u8>>> = HashMap::new();
    let mut waiting = vec![(Vec::new(), tree.root_inode())];
    while let Some((path, inode)) = waiting.pop() {
        let attributes = tree.attributes(inode)?;
        if attributes.kind == InodeKind::Directory {
            tree.list(inode, 0, |entry| {
                let mut inner = path.clone();
                if !inner.is_empty() {
                    inner.push(b'/');
                }
                inner.extend_from_slice(entry.name);
                waiting.push((inner, entry.inode));
                true
            })?;
        } else {
            inodes.entry(inode).or_default().push(path.clone());
        }
        let record = record(tree, &path, &attributes)?;
        records.insert(path, record);
    }
    Ok(Manifest::with_links(records, inodes))
}

fn record(tree: &Tree, path: &[u8], attributes: &Attributes) -> Result<Record, ReadError> {
    let inode = attributes.inode;
    let is_directory = attributes.kind == InodeKind::Directory;
    let (data, content) = match attributes.kind {
        InodeKind::File => {
            let data = data_map(tree, inode, attributes.size)?;
            let content = hash(tree, inode, attributes.size, &data)?;
            (data, content)
        }
        InodeKind::Symlink => (Vec::new(), tree.link_target(inode)?),
        _ => (Vec::new(), Vec::new()),
    };
    Ok(Record {
        kind: match attributes.kind {
            InodeKind::File => '-',
            InodeKind::Directory => 'd',
            InodeKind::Symlink => 'l',
            InodeKind::BlockDevice => 'b',
            InodeKind::CharDevice => 'c',
            InodeKind::Fifo => 'p',
            InodeKind::Socket => 's',
        },
        mode: attributes.permissions,
        owner: (attributes.uid, attributes.gid),
        len: if is_directory { 0 } else { attributes.size },
        mtime: (attributes.mtime.sec, attributes.mtime.nsec),
        device: attributes.device(),
        link_count: if is_directory { 1 } else { attributes.link_count },
        first_name: path.to_vec(),
        xattrs: tree.xattrs(inode)?.into_iter().map(|x| (x.name, x.value)).collect(),
        content,
        data,
    })
}

fn data_map(tree: &Tree, inode: u64, len: u64) -> Result<Vec<(u64, u64)>, ReadError> {
    let (mut map, mut at) = (Vec::new(), 0);
    while at < len {
        let Some(start) = tree.seek_data(inode, at)? else { break };
        let end = tree.seek_hole(inode, start)?.unwrap_or(len);
        assert!(end > start && start >= at, "seek_hole({start}) answers {end}");
        map.push((start, end));
        at = end;
    }
    Ok(map)
}

fn hash(tree: &Tree, inode: u64, len: u64, data: &[(u64, u64)]) -> Result<Vec<u8>, ReadError> {
    content_hash(len, data, |at, buffer| {
        let got = tree.read(inode, at, buffer)?;
        assert_eq!(got, buffer.len(), "a read inside a file is short");
        Ok(())
    })
}
