//! Promise: files of sound and pictures come back bit for bit, at every level, whatever their
//! headers claim, and are stored as samples.

use std::ffi::OsStr;
use std::fs;

use shale_tests::command::{create, extract, run};
use shale_tests::manifest::Manifest;
use shale_tests::model::samples;
use shale_tests::places;
use shale_tests::random::Random;
use shale_tests::second_reader::image::Image;

#[test]
fn sound_and_pictures_come_back_and_are_stored_as_samples() {
    assert_samples_come_back(&["1", "6"]);
}

/// Packs sound and pictures at these levels and reads them again, with the second reader, too.
pub fn assert_samples_come_back(levels: &[&str]) {
    let folder = places::disk();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    let mut random = Random::new(41);
    for kind in 0..6 {
        // More than a frame, less than one, and one that shares a frame with others.
        for len in [1_300_000, 90_000, 9000] {
            let file = samples(kind, len);
            fs::write(source.join(format!("{kind}-{len}")), &file).unwrap();
            // Cut off anywhere, and with the header of another file.
            let cut = random.below(file.len() as u64) as usize;
            fs::write(source.join(format!("{kind}-{len}-cut")), &file[..cut]).unwrap();
            let (header, rest) = (&samples(kind + 1, 0)[..40], &file[file.len() / 3..]);
            fs::write(source.join(format!("{kind}-{len}-lie")), [header, rest].concat()).unwrap();
        }
    }
    // Four gigabytes in a kilobyte, and a long silence.
    let mut lie = samples(0, 1000);
    lie[40..44].fill(0xFF);
    fs::write(source.join("lie"), &lie).unwrap();
    let mut silence = samples(1, 400_000);
    silence.resize(2_000_000, 0);
    silence.extend(&samples(1, 400_001)[44..]);
    fs::write(source.join("silence"), &silence).unwrap();
    let expected = Manifest::of(&source).unwrap();
    let image = folder.path().join("image.shale");
    for &level in levels {
        create(&source, &image, &["-f", "--level", level]);
        let target = folder.path().join(format!("target-{level}"));
        extract(&image, &target);
        expected.assert_equals(&Manifest::of(&target).unwrap(), level);
        fs::remove_dir_all(&target).unwrap();
        let arguments: [&OsStr; 3] = ["info".as_ref(), "-v".as_ref(), image.as_ref()];
        let info = String::from_utf8(run(arguments).stdout).unwrap();
        let is_stored_as = |name: &str| info.contains(name);
        assert_eq!(is_stored_as("+samples: "), level != "0", "{info}");
        assert!(is_stored_as("category audio: "), "{info}");
        assert!(is_stored_as("category sensor: "), "{info}");
    }
    // A reader that was written from the specification alone gives the same bytes.
    create(&source, &image, &["-f", "--level", "4"]);
    let bytes = fs::read(&image).unwrap();
    let image = Image::open(&bytes).expect("the second reader opens it");
    image.manifest().expect("and reads it").assert_equals(&expected, "second reader");
}
