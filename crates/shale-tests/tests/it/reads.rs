//! Promises about what reading decodes: little more than is wanted, however large the image is.

use std::fs;
use std::path::{Path, PathBuf};

use shale_tests::command::create;
use shale_tests::places;
use shale_tests::random::Random;
use shale_tests::reads;

/// Files of a day, and bytes of a file.
const FILES: u64 = 48;
const FILE_LEN: usize = 96 << 10;

/// Days of logs: lines of few words, numbers that go on, and nothing that repeats for long.
fn days(folder: &Path, count: u64) -> PathBuf {
    let source = folder.join(format!("source-{count}"));
    let mut random = Random::new(3);
    for day in 1..=count {
        for file in 0..FILES {
            let mut log = String::with_capacity(FILE_LEN + 100);
            while log.len() < FILE_LEN {
                let words = random.text(20 + file as usize);
                log += &format!("<event day=\"{day}\" id=\"{}\">", random.below(1 << 20));
                log += &String::from_utf8(words).unwrap();
                log += "</event>\n";
            }
            let path = source.join(format!("day-{day}")).join(format!("{file:03}.xml"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, log).unwrap();
        }
    }
    source
}

#[test]
fn a_day_is_read_at_the_price_of_its_bytes() {
    assert_days_cost_the_same(&[2]);
}

/// Packs this many days, and reads one of them in each image.
pub fn assert_days_cost_the_same(counts: &[u64]) {
    let folder = places::disk();
    let mut shares = Vec::new();
    for &count in counts {
        let image = folder.path().join(format!("{count}.shale"));
        create(&days(folder.path(), count), &image, &["-5", "--no-verify"]);
        let share = reads::in_order(&image, "day-2").unwrap().share();
        assert!((1.0..=2.5).contains(&share), "{count} days: {share} bytes decoded a byte");
        shares.push(share);
        let costs = reads::at_random(&image, 300, 7).unwrap();
        let p99 = costs[costs.len() * 99 / 100].decoded_bytes;
        assert!(p99 <= 3 << 20, "{count} days: {p99} bytes decoded for one file");
        assert!(costs[0].decoded_bytes >= costs[0].wanted_bytes);
    }
    assert!(shares.iter().all(|share| *share <= 1.3 * shares[0]), "{shares:?}");
}

/// Documents on a few subjects, each a copy of its subject's text with one word in 20 another, and
/// somewhere in it a longer quotation from a document on the next subject.
fn documents(folder: &Path) -> PathBuf {
    const SUBJECTS: usize = 3;
    const QUOTED_LEN: usize = 12 << 10;
    let source = folder.join("documents");
    let mut random = Random::new(5);
    let words = |random: &mut Random, count| -> Vec<Vec<u8>> {
        (0..count).map(|_| random.text(8)).collect()
    };
    let subjects: Vec<_> = (0..SUBJECTS).map(|_| words(&mut random, 5000)).collect();
    let mut before: Vec<Vec<u8>> = Vec::new();
    for version in 0..60 {
        let mut documents = Vec::new();
        for (number, subject) in subjects.iter().enumerate() {
            let mut document = Vec::new();
            for word in subject {
                let is_other = random.below(20) == 0;
                let other = random.text(8);
                document.extend_from_slice(if is_other { &other } else { word });
                document.push(b' ');
            }
            if let Some(quoted) = before.get((number + 1) % SUBJECTS) {
                let from = random.below((quoted.len() - QUOTED_LEN) as u64) as usize;
                let at = random.below(document.len() as u64) as usize;
                document.splice(at..at, quoted[from..from + QUOTED_LEN].iter().copied());
            }
            let path = source.join(format!("{number}/{version:02}.txt"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &document).unwrap();
            documents.push(document);
        }
        before = documents;
    }
    source
}

#[test]
fn a_file_that_quotes_another_does_not_cost_twice() {
    let folder = places::disk();
    let image = folder.path().join("image.shale");
    create(&documents(folder.path()), &image, &["-5", "-C", "zstd:3", "--no-verify"]);
    let costs = reads::at_random(&image, 100, 7).unwrap();
    let p99 = costs[costs.len() * 99 / 100].decoded_bytes;
    assert!(p99 <= 3 << 20, "{p99} bytes decoded for one file");
    // Two frames each, and references of either.
    let half = costs[costs.len() / 2].decoded_bytes;
    assert!(half > 3 << 19, "{half}");
}
