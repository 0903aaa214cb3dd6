//! Opening: where images are found, what it costs, and how sources without an image are refused.

use std::sync::Arc;

use crate::assemble::{self, Draft, open, open_with};
use shale_format::SectionType;
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_read::{
    ByteSource, Fault, FileSource, Image, MemorySource, OffsetChoice, Options, SnapshotChoice,
};

fn first_name(image: &Arc<Image>) -> Vec<u8> {
    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
    let mut name = Vec::new();
    tree.list(1, 0, |entry| {
        name = entry.name.to_vec();
        false
    })
    .expect("lists");
    name
}

#[test]
fn opening_costs_three_reads_whatever_the_size() {
    for count in [0, 10, 20_000] {
        let mut draft = Draft::many_files(count);
        draft.page_rows = 64;
        let image = draft.open();
        let counters = image.counters().snapshot();
        assert_eq!(counters.source_reads, 3, "{count} files: superblock, trailer, root");
        assert_eq!(counters.pages_read, 0);
        assert!(counters.source_bytes < 2048, "{} bytes", counters.source_bytes);
    }
}

#[test]
fn a_file_is_read_like_memory() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), Draft::sample().assemble()).expect("writes");
    let source = FileSource::open(file.path()).expect("opens");
    let image = Image::open(Arc::new(source), Options::default()).expect("opens");
    assert_eq!(first_name(&image), b"a.txt");
    // Truncated while it is open: an error, not a signal. It recovers when the bytes are back.
    let whole = std::fs::read(file.path()).expect("reads");
    let tree = image.tree(&SnapshotChoice::Newest).expect("a snapshot");
    file.as_file().set_len(100).expect("cuts");
    let mut buf = [0; 10];
    let error = tree.read(2, 0, &mut buf).expect_err("cut");
    assert!(!error.is_corrupt() && matches!(error.fault(), Fault::Io { .. }), "{error}");
    std::fs::write(file.path(), whole).expect("writes");
    assert_eq!(tree.read(2, 0, &mut buf).expect("recovers"), 10);
}

#[test]
fn an_image_is_opened_by_its_path() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), Draft::sample().assemble()).expect("writes");
    assert_eq!(first_name(&Image::open_path(file.path()).expect("opens")), b"a.txt");
    let directory = tempfile::tempdir().expect("a directory");
    for (path, kind) in [
        (directory.path().to_owned(), std::io::ErrorKind::IsADirectory),
        (directory.path().join("missing"), std::io::ErrorKind::NotFound),
    ] {
        let error = Image::open_path(&path).expect_err("no file");
        assert!(matches!(error.fault(), Fault::Open { .. }) && !error.is_corrupt(), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert_eq!(std::io::Error::from(error).kind(), kind);
    }
}

#[test]
fn an_image_is_found_after_other_data() {
    let image = Draft::sample().assemble();
    for prefix_len in [1usize, 63, 64, 4096, (1 << 20) - 60, (1 << 20) - 4, 3_000_000] {
        let mut bytes = assemble::noise(prefix_len, 5);
        bytes.extend_from_slice(&image);
        let opened = open(bytes.clone()).expect("found by its end");
        assert_eq!(opened.offset(), prefix_len as u64);
        assert_eq!(opened.counters().snapshot().source_reads, 5);
        assert!(opened.recovered().is_none());
        assert_eq!(first_name(&opened), b"a.txt");

        let given = Options::default().offset(OffsetChoice::At(prefix_len as u64));
        let opened = open_with(bytes.clone(), given).expect("found where told");
        assert_eq!(opened.counters().snapshot().source_reads, 3);

        // If other bytes follow as well, only a search can find the image.
        bytes.extend_from_slice(b"and more");
        let opened = open(bytes).expect("found by searching");
        assert_eq!(opened.offset(), prefix_len as u64);
        assert!(opened.recovered().is_some());
        assert_eq!(first_name(&opened), b"a.txt");
    }
}

#[test]
fn the_magic_alone_is_no_image() {
    let image = Draft::sample().assemble();
    // The superblock, then something else, then the image.
    let mut bytes = vec![0; 100];
    bytes.extend_from_slice(&image[..64]);
    bytes.extend_from_slice(&[1; 500]);
    let start = bytes.len() as u64;
    bytes.extend_from_slice(&image);
    bytes.push(0);
    assert_eq!(open(bytes).expect("found").offset(), start);
}

#[test]
fn what_is_no_image_is_said_to_be_none() {
    for bytes in [vec![], vec![0; 10], vec![0; 64], vec![7; 200_000], b"\x7fELF".repeat(100)] {
        let len = bytes.len() as u64;
        let error = open(bytes).expect_err("no image");
        let Fault::NotImage { found_len, .. } = error.fault() else { panic!("{error}") };
        assert_eq!(*found_len, len);
        assert!(!error.is_corrupt());
    }
    let at = |offset| Options::default().offset(OffsetChoice::At(offset));
    for offset in [1, 64, 1 << 40, u64::MAX] {
        let error = open_with(Draft::sample().assemble(), at(offset)).expect_err("not there");
        assert!(matches!(error.fault(), Fault::NotImage { .. }), "{error}");
    }
}

#[test]
fn a_newer_image_is_called_newer_not_damaged() {
    let mut bytes = Draft::sample().assemble();
    bytes[8] = 9;
    let sum = shale_codec::xxh3_64(&bytes[..56]);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
    let error = open(bytes).expect_err("newer");
    assert!(!error.is_corrupt(), "{error}");
    assert!(error.to_string().contains("newer"), "{error}");
}

#[test]
fn the_error_of_a_truncated_image_says_how_much_was_found() {
    let image = Draft::sample().assemble();
    for len in 64..image.len() {
        let error = open(image[..len].to_vec()).expect_err("truncated");
        let Fault::Truncated { found_len, .. } = error.fault() else { panic!("{len}: {error}") };
        assert_eq!(*found_len, len as u64);
        assert!(error.is_corrupt());
        let text = error.to_string();
        assert!(text.contains("truncated") && text.contains(&format!("{len} bytes")), "{text}");
    }
}

#[test]
fn a_damaged_end_is_called_damaged_not_truncated() {
    let image = Draft::sample().assemble();
    let trailer = image.len() - TRAILER_SECTION_LEN;
    let expectations = [
        (trailer + 10, format!("section header at offset {trailer}")),
        (trailer + 70, format!("trailer at offset {trailer}")),
        (trailer + 127, format!("trailer at offset {trailer}")),
    ];
    for (at, place) in expectations {
        let mut bytes = image.clone();
        bytes[at] ^= 4;
        let error = open(bytes).expect_err("damaged");
        assert!(error.is_corrupt() && error.to_string().contains(&place), "{error}");
        assert!(error.to_string().contains("checksum"), "{error}");
    }
    // The last bytes were never written.
    let mut bytes = image.clone();
    bytes[trailer..].fill(0);
    let error = open(bytes).expect_err("truncated");
    assert!(matches!(error.fault(), Fault::Truncated { .. }), "{error}");
}

#[test]
fn zeroes_after_an_image_are_padding() {
    let image = Draft::many_files(300).assemble();
    let direct = open(image.clone()).expect("opens").counters().snapshot().source_reads;
    // To whole sectors and blocks, and on a partition.
    for padding_len in [1, 100, 511, 4095, 4096, 70_000, 3 << 20] {
        let mut bytes = image.clone();
        bytes.resize(image.len() + padding_len, 0);
        let opened = open(bytes.clone()).expect("opens");
        let reads = opened.counters().snapshot().source_reads;
        assert!(opened.recovered().is_none(), "{padding_len}");
        assert_eq!(opened.len(), image.len() as u64);
        assert_eq!(first_name(&opened), b"file-00000000");
        if padding_len <= 4096 {
            assert!(reads <= direct + 2, "{padding_len}: {reads} reads instead of {direct}");
        }
        // Anything else is reported.
        bytes[image.len() + padding_len.min(60_000) - 1] = 1;
        assert!(open(bytes).expect("opens").recovered().is_some(), "{padding_len}");
    }
}

#[test]
fn an_interrupted_append_leaves_the_state_before() {
    let before = Draft::sample().assemble();
    let mut after = before.clone();
    let second = Draft::many_files(3);
    second.append_state(&mut after, (before.len() - TRAILER_SECTION_LEN) as u64, 4);
    for len in before.len() + 1..after.len() {
        let image = open(after[..len].to_vec()).expect("the state before");
        let recovery = image.recovered().expect("reports the recovery");
        assert_eq!(recovery.image_len, before.len() as u64);
        assert_eq!(recovery.found_len, len as u64);
        assert_eq!(image.len(), before.len() as u64);
        if len % 97 == 0 {
            assert_eq!(first_name(&image), b"a.txt");
        }
    }
    let image = open(after).expect("the state after");
    assert!(image.recovered().is_none());
    assert_eq!(first_name(&image), b"file-00000000");
    assert_eq!(
        image.trailer().previous_trailer_offset,
        (before.len() - TRAILER_SECTION_LEN) as u64
    );
}

#[test]
fn a_trailer_of_another_image_does_not_count() {
    // An image stored inside another one, which is then truncated right after the inner trailer.
    let inner = Draft::many_files(2).assemble();
    let mut outer = Draft::sample().assemble();
    outer.truncate(64);
    outer.extend_from_slice(&inner);
    let error = open(outer).expect_err("no trailer of its own");
    assert!(matches!(error.fault(), Fault::Truncated { .. }), "{error}");
}

#[test]
fn a_trailer_with_the_right_tag_and_another_id_does_not_count() {
    // The tag in section headers is half of the id; the trailer repeats the whole id.
    let mut bytes = Draft::sample().assemble();
    let at = bytes.len() - TRAILER_SECTION_LEN;
    let mut payload = bytes[at + SECTION_HEADER_LEN..].to_vec();
    payload[55] ^= 1;
    bytes.truncate(at);
    assemble::push_section(&mut bytes, SectionType::Trailer, &payload);
    let error = open(bytes).expect_err("another image's");
    assert!(error.is_corrupt() && error.to_string().contains("another image"), "{error}");
}

#[test]
fn sections_can_be_walked_and_read() {
    let image = Draft::sample().open();
    let headers: Vec<_> = image.sections().collect::<Result<_, _>>().expect("walks");
    let types: Vec<u16> = headers.iter().map(|header| header.section_type).collect();
    assert_eq!(types, [1, 2, 3, 8]);
    assert_eq!(headers.last().map(|header| header.end()), Some(image.len()));
    let root = image.section_payload(&headers[2], 1 << 20).expect("verified");
    assert_eq!(root, image.root().encode().expect("encodes"));
    let error = image.section_payload(&headers[2], 10).expect_err("over the limit");
    assert!(error.to_string().contains("at most 10"), "{error}");

    // A damaged payload: the walk over sections continues, and the payload is refused.
    let mut bytes = Draft::sample().assemble();
    bytes[headers[0].offset as usize + SECTION_HEADER_LEN] ^= 1;
    let image = open(bytes).expect("open does not read frames");
    let headers: Vec<_> = image.sections().collect::<Result<_, _>>().expect("walks");
    let error = image.section_payload(&headers[0], 1 << 20).expect_err("damaged");
    assert!(matches!(error.fault(), Fault::Checksum { .. }), "{error}");
}

#[test]
fn a_snapshot_is_found_by_name_and_number() {
    let mut draft = Draft::sample();
    draft.spoil_root = Some(|root| {
        for (number, name) in ["old", "new", "old"].into_iter().enumerate() {
            let mut snapshot = root.snapshots[0].clone();
            snapshot.name = name.into();
            snapshot.file_bytes = number as u64;
            root.snapshots.push(snapshot);
        }
        root.snapshots.remove(0);
    });
    let image = draft.open();
    let at = |choice| Ok::<_, shale_read::ReadError>(image.tree(&choice)?.file_bytes());
    assert_eq!(at(SnapshotChoice::Newest).expect("newest"), 2);
    assert_eq!(at(SnapshotChoice::Index(1)).expect("second"), 1);
    assert_eq!(at(SnapshotChoice::Name(b"new".to_vec())).expect("by name"), 1);
    assert_eq!(at(SnapshotChoice::Name(b"old".to_vec())).expect("the newest of two"), 2);
    let error = at(SnapshotChoice::Name(b"none".to_vec())).expect_err("no such");
    assert!(error.to_string().contains("`none`"), "{error}");
    let error = at(SnapshotChoice::Index(3)).expect_err("no such");
    assert!(matches!(error.fault(), Fault::NoSnapshot { snapshot_count: 3, .. }), "{error}");
}

#[test]
fn sources_refuse_what_is_outside_them() {
    let source = MemorySource::new(vec![1, 2, 3]);
    assert_eq!(source.len(), 3);
    assert!(source.read_at(2, &mut [0; 2]).is_err());
    assert!(source.read_at(u64::MAX, &mut [0; 1]).is_err());
    assert!(source.read_at(3, &mut []).is_ok());
}
