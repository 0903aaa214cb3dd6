//! Promise: if an identity is expected, only the bytes of that image are ever returned.

use crate::assemble;
use shale_read::{
    ByteSource, FaultySource, Identity, Image, MemorySource, Options, SnapshotChoice,
};
use shale_source::{DirectorySource, ScanOptions};
use shale_write::NoProgress;
use std::path::Path;
use std::sync::Arc;

fn build(folder: &Path) -> (Vec<u8>, Identity) {
    let scan = ScanOptions::default();
    let mut source = DirectorySource::open(folder, &scan, &NoProgress).unwrap();
    let mut bytes = Vec::new();
    // Without compression, so that the image has many leaves.
    let options = shale_write::Options {
        codecs: vec![(None, "stored".parse().unwrap())],
        ..shale_write::Options::default()
    };
    let report = shale_write::create(&mut source, &mut bytes, &options, &NoProgress).unwrap();
    (bytes, report.identity)
}

fn files(folder: &Path, len: usize) {
    let mut state = 1_u64;
    for name in ["a", "b", "c"] {
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 56) as u8
            })
            .collect();
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

fn expecting(identity: Identity) -> Options {
    Options::default().expect(identity).repair(false)
}

fn read_all(source: Arc<dyn ByteSource>, options: Options) -> Result<Vec<Vec<u8>>, String> {
    let image = Image::open(source, options).map_err(|error| error.to_string())?;
    let tree = image.tree(&SnapshotChoice::Newest).map_err(|error| error.to_string())?;
    [b"a", b"b", b"c"]
        .into_iter()
        .map(|name| {
            let read = || {
                let inode = tree.lookup(tree.root_inode(), name)?.expect("the name exists");
                let mut bytes = vec![0; tree.attributes(inode)?.size as usize];
                tree.read(inode, 0, &mut bytes)?;
                Ok(bytes)
            };
            read().map_err(|error: shale_read::ReadError| error.to_string())
        })
        .collect()
}

#[test]
fn the_identity_that_create_gives_is_the_one_the_image_has() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), 300_000);
    let (bytes, identity) = build(folder.path());
    let source = Arc::new(MemorySource::new(bytes.as_slice()));
    let image = Image::open(source.clone(), Options::default()).unwrap();
    assert_eq!(image.identity().unwrap().unwrap().1, identity);
    let plain = read_all(source.clone(), Options::default()).unwrap();
    assert_eq!(read_all(source.clone(), expecting(identity)).unwrap(), plain);
    let other = Identity([7; 32]);
    let error = read_all(source, expecting(other)).unwrap_err();
    assert!(error.contains(&other.to_string()) && error.contains(&identity.to_string()), "{error}");
}

#[test]
fn a_change_with_right_sums_is_found_where_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), 300_000);
    let (bytes, identity) = build(folder.path());
    let truth =
        read_all(Arc::new(MemorySource::new(bytes.as_slice())), expecting(identity)).unwrap();
    // Every byte of the tree's section and of what follows, and a sample of all others.
    let image = Image::open(Arc::new(MemorySource::new(bytes.as_slice())), Options::default());
    let merkle = image.unwrap().trailer().merkle_offset as usize;
    let places = (0..merkle).step_by(997).chain(merkle..bytes.len());
    for at in places {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        if let Ok(found) = read_all(Arc::new(MemorySource::new(changed)), expecting(identity)) {
            assert_eq!(found, truth, "byte {at}");
            // Bytes that no reader uses may be wrong. Below the tree, these are history and section
            // headers only.
        }
    }
    // Another image with valid checksums and the same id.
    files(folder.path(), 299_999);
    let (other, _) = build(folder.path());
    assert!(read_all(Arc::new(MemorySource::new(other)), expecting(identity)).is_err());
}

#[test]
fn only_what_is_read_is_verified_and_every_time() {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path(), 3_000_000);
    let (bytes, identity) = build(folder.path());
    let source = Arc::new(FaultySource::new(MemorySource::new(bytes.as_slice())));
    let image = Image::open(source.clone(), expecting(identity)).unwrap();
    let counters = image.counters().snapshot();
    let tree = image.tree(&SnapshotChoice::Newest).unwrap();
    let inode = tree.lookup(tree.root_inode(), b"b").unwrap().unwrap();
    let mut buf = [0; 100];
    tree.read(inode, 1_000_000, &mut buf).unwrap();
    let cost = image.counters().snapshot().since(&counters);
    assert!(cost.source_bytes < 1_000_000, "{cost:?}");
    // From now on the source returns other bytes: every byte that is not cached is refused.
    source.damage(0..bytes.len() as u64, 0x01);
    let inode = tree.lookup(tree.root_inode(), b"c").unwrap().unwrap();
    let error = tree.read(inode, 2_000_000, &mut buf).unwrap_err().to_string();
    assert!(error.contains("expected identity"), "{error}");
}

#[test]
fn an_image_without_a_tree_has_no_identity() {
    let bytes = assemble::Draft::sample().assemble();
    let source = Arc::new(MemorySource::new(bytes));
    let image = Image::open(source.clone(), Options::default()).unwrap();
    assert!(image.identity().unwrap().is_none());
    let error = Image::open(source, expecting(Identity([1; 32]))).unwrap_err().to_string();
    assert!(error.contains("no Merkle tree"), "{error}");
}
