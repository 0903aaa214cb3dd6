//! Promises about size: what is there twice is stored once, and zeroes cost nothing.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;

use shale_tests::command::{Mount, can_mount, create, extract, run};
use shale_tests::manifest::Manifest;
use shale_tests::places;
use shale_tests::random::Random;

/// Bytes of each media file: 24 MB, or the megabytes in `SHALE_MEDIA_MB`. The promise is about 300.
fn media_len() -> usize {
    let asked = std::env::var("SHALE_MEDIA_MB").ok();
    asked.map_or(24, |megabytes| megabytes.parse().expect("a number of megabytes")) * 1_000_000
}

#[test]
fn media_that_share_an_interleaved_stream_hold_it_once() {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let mut random = Random::new(5);
    let shared = random.bytes(media_len() / 2);
    let mut unique_bytes = shared.len();
    for name in ["a.mkv", "b.mkv", "c.mkv"] {
        let mut file = File::create(source.join(name)).unwrap();
        let mut at = 0;
        while at < shared.len() {
            let len = (20_000 + random.below(100_000) as usize).min(shared.len() - at);
            file.write_all(&shared[at..at + len]).unwrap();
            at += len;
            let len = 20_000 + random.below(100_000) as usize;
            let own = random.bytes(len);
            unique_bytes += own.len();
            file.write_all(&own).unwrap();
        }
    }
    let image = folder.path().join("media.shale");
    create(&source, &image, &[]);
    let image_bytes = std::fs::metadata(&image).unwrap().len();
    println!("{image_bytes} bytes for {unique_bytes} unique ones");
    assert!(
        image_bytes as f64 <= 1.03 * unique_bytes as f64,
        "{image_bytes} bytes for {unique_bytes} unique ones"
    );
    let target = folder.path().join("target");
    extract(&image, &target);
    Manifest::of(&source).unwrap().assert_equals(&Manifest::of(&target).unwrap(), "extraction");
}

#[test]
fn zeroes_are_two_kilobytes() {
    assert_zeroes_are_two_kilobytes(64 << 20);
}

/// Packs zeroes that are data, and reads them from a mount.
pub fn assert_zeroes_are_two_kilobytes(zeroes_len: u64) {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    // Zeroes that are data, not a hole: written, and the last byte of each block for good measure.
    let file = File::create(source.join("zeroes")).unwrap();
    let block = vec![0; 4 << 20];
    (0..zeroes_len / block.len() as u64).for_each(|n| {
        file.write_all_at(&block, n * block.len() as u64).unwrap();
    });
    let image = folder.path().join("zeroes.shale");
    create(&source, &image, &[]);
    let image_bytes = std::fs::metadata(&image).unwrap().len();
    assert!(image_bytes <= 2048, "{image_bytes} bytes");
    if !can_mount() {
        return;
    }
    let mount = Mount::new(&image, &folder.path().join("mount"), &[]);
    let mut zeroes = File::open(mount.path().join("zeroes")).unwrap();
    let (mut buffer, mut len) = (vec![1; 1 << 20], 0);
    loop {
        let read = zeroes.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        assert!(buffer[..read].iter().all(|&byte| byte == 0));
        len += read as u64;
    }
    assert_eq!(len, zeroes_len);
    let stats = run([OsStr::new("stats"), mount.path().as_os_str()]).stdout;
    let stats = String::from_utf8(stats).unwrap();
    let decoded = stats.lines().find(|line| line.starts_with("frames_decoded"));
    let decoded = decoded.and_then(|line| line.split_whitespace().nth(1));
    assert_eq!(decoded, Some("0"), "zeroes are decoded:\n{stats}");
    drop(zeroes);
    mount.end();
}
