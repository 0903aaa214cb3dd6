//! Two images as bytes choose them, merged.

use super::{mend_sums, small_options};
use shale::{CreateOptions, MergePart, NoProgress, merge};
use shale_read::{Image, MemorySource, ReadError, SnapshotChoice, Tree};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries and bytes of a tree that are compared.
const ENTRY_COUNT_MAX: usize = 2000;
const BYTES_MAX: u64 = 1 << 20;

/// Takes the bytes as two images, the length of the first in front, and merges their snapshots. If
/// that succeeds, the new image opens under its identity, and has every snapshot and every file
/// that can be read from its source.
pub fn merge_images(bytes: &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk() else { return };
    let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
    let (first, second) = rest.split_at(len.min(rest.len()));
    let mut images = Vec::new();
    for part in [first, second] {
        let mut image = part.to_vec();
        mend_sums(&mut image);
        match Image::open(Arc::new(MemorySource::new(image)), small_options()) {
            Ok(image) => images.push(image),
            Err(_) => return,
        }
    }
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("merged");
    let parts: Vec<MergePart> = images.iter().cloned().map(MergePart::new).collect();
    let mut options = CreateOptions::default();
    options.build.threads = 1;
    options.build.memory_bytes_max = 256 << 20;
    let Ok(report) = merge(&parts, true, &path, &options, &NoProgress) else {
        assert!(!path.exists(), "what failed left a file");
        return;
    };
    let source = MemorySource::new(std::fs::read(&path).expect("it was written"));
    let expecting = small_options().expect(Some(report.build.identity));
    let merged = Image::open(Arc::new(source), expecting).expect("what is written opens");
    let mut number = 0;
    for image in &images {
        for at in 0..image.snapshots().len() {
            let tree = image.tree(&SnapshotChoice::Index(at)).expect("it was read before");
            let copy = merged.tree(&SnapshotChoice::Index(number)).expect("all are kept");
            number += 1;
            let Ok(before) = files(&tree) else { continue };
            let after = files(&copy).expect("what could be read can be read");
            for (path, content) in before {
                let Some(content) = content else { continue };
                let same = after.get(&path).is_some_and(|found| found.as_ref() == Some(&content));
                assert!(same, "{} is not what it was", path.escape_ascii());
            }
        }
    }
    assert_eq!(number, merged.snapshots().len());
}

/// The contents of regular files by path; `None` for what cannot be read.
fn files(tree: &Tree) -> Result<BTreeMap<Vec<u8>, Option<Vec<u8>>>, ReadError> {
    let mut files = BTreeMap::new();
    let mut walk = tree.walk(tree.root_inode())?;
    while let Some(step) = walk.advance()? {
        let (path, attributes) = (step.path.to_vec(), step.attributes);
        if files.len() >= ENTRY_COUNT_MAX {
            break;
        }
        if attributes.content().is_some() && attributes.size <= BYTES_MAX {
            let content = tree.read_to_vec(attributes.inode, BYTES_MAX as usize).ok();
            files.insert(path, content);
        }
    }
    Ok(files)
}
