//! An append to an image whose append index is any bytes.

use super::small_options;
use crate::random::Random;
use shale::{AppendOptions, CreateOptions, Input, NoProgress, Output};
use shale_codec::xxh3_64;
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_format::{AppendIndex, SectionHeader, SectionType};
use shale_read::{Image, MemorySource, SnapshotChoice};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;

/// An image and a tree that resembles it.
struct Stage {
    folder: TempDir,
    image: Vec<u8>,
    source: PathBuf,
    contents: Vec<(String, Vec<u8>)>,
}

impl Stage {
    fn new() -> Self {
        let folder = crate::places::memory().unwrap_or_else(crate::places::disk);
        let (first, source) = (folder.path().join("first"), folder.path().join("second"));
        let path = folder.path().join("image");
        let mut contents = Vec::new();
        for directory in [&first, &source] {
            std::fs::create_dir(directory).expect("a folder can be made");
        }
        for number in 0..6u64 {
            let mut bytes = Random::new(number).text(20_000);
            let name = format!("file-{number}");
            std::fs::write(first.join(&name), &bytes).expect("a file can be written");
            bytes[10_000] ^= 1;
            bytes.extend(Random::new(100 + number).bytes(500));
            std::fs::write(source.join(&name), &bytes).expect("a file can be written");
            contents.push((name, bytes));
        }
        let mut create = CreateOptions::default();
        create.build.threads = 1;
        create.build.frame_len = Some(16 << 10);
        let sources = [Input::new(&first)];
        shale::create(&sources, Output::Path(path.clone()), &create, &NoProgress)
            .expect("it is packed");
        let image = std::fs::read(&path).expect("the image is there");
        Self { folder, image, source, contents }
    }

    /// The image with one more section, an append index of these bytes.
    fn with_index(&self, payload: &[u8]) -> Vec<u8> {
        let opened = Image::open(Arc::new(MemorySource::new(self.image.clone())), small_options())
            .expect("what is built opens");
        let mut trailer = *opened.trailer();
        let tag = opened.superblock().image_tag();
        let section = |kind: SectionType, offset: usize, payload: &[u8]| {
            let header = SectionHeader {
                section_type: kind as u16,
                codec: 0,
                offset: offset as u64,
                stored_len: payload.len() as u64,
                plain_len: payload.len() as u64,
                image_tag: tag,
                payload_sum: xxh3_64(payload),
            };
            [&header.encode(xxh3_64)[..], payload].concat()
        };
        let mut image = self.image.clone();
        trailer.previous_trailer_offset = (image.len() - TRAILER_SECTION_LEN) as u64;
        image.extend(section(SectionType::AppendIndex, image.len(), payload));
        trailer.section_count += 2;
        trailer.image_len = (image.len() + TRAILER_SECTION_LEN) as u64;
        let end = section(SectionType::Trailer, image.len(), &trailer.encode());
        assert_eq!(end.len(), TRAILER_SECTION_LEN.max(SECTION_HEADER_LEN));
        image.extend(end);
        image
    }
}

/// Appends to an image whose append index is the bytes, and reads everything back: whatever the
/// index says, the bytes are right.
pub fn append_index(bytes: &[u8]) {
    if let Ok(index) = AppendIndex::decode(bytes) {
        assert!(index.print_count() * 4 + index.frame_count() * 4 <= bytes.len());
        let all: usize = (0..index.frame_count()).map(|frame| index.of(frame).len()).sum();
        assert_eq!(all, index.print_count());
    }
    static STAGE: OnceLock<Stage> = OnceLock::new();
    let stage = STAGE.get_or_init(Stage::new);
    let path = stage.folder.path().join("grown");
    std::fs::write(&path, stage.with_index(bytes)).expect("a file can be written");
    let mut options = AppendOptions::default();
    options.create.build.threads = 1;
    options.create.build.frame_len = Some(16 << 10);
    options.create.verify = false;
    shale::append(&path, &[Input::new(&stage.source)], &options, &NoProgress)
        .expect("an index cannot make an append fail");
    let grown = std::fs::read(&path).expect("the image is there");
    let image =
        Image::open(Arc::new(MemorySource::new(grown)), small_options()).expect("what grew opens");
    let tree = image.tree(&SnapshotChoice::Newest).expect("it has a snapshot");
    for (name, bytes) in &stage.contents {
        let inode = tree.lookup_path(name.as_bytes()).expect("it is whole");
        let inode = inode.expect("the file is there");
        let mut found = vec![0; bytes.len() + 1];
        let len = tree.read(inode, 0, &mut found).expect("it is whole");
        assert!(found[..len] == **bytes, "{name} is another");
    }
}
